"""What a part of the load tells of itself, wherever its sessions run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

from dbcheck.errors import WitnessError
from dbcheck.ports.witness import Watermark, WindowFacts

WORDS_MAX = 8
# Enough for a witness that has to confirm what is left, and for a server that is asked
# for its facts, each in its own time.
END_S = 120.0


@dataclass(frozen=True, slots=True)
class Look:
    """The sessions at one moment.

    clock_us:       that moment, on the client's monotonic clock.
    running:        sessions that have not ended.
    waiting:        operations whose reply has not come.
    newest_sent_us: when the last of those was sent, 0 if there is none.
    acked:          acks received; unconfirmed: of these, not yet by the witness.
    behind_s:       how long the oldest of those has waited for it.
    last_ack_us:    when the last of them came, 0 if there is none.
    latencies:      see Latencies.counts().
    failed:         the part has ended the load: see Told.
    """

    clock_us: int = 0
    running: int = 0
    waiting: int = 0
    newest_sent_us: int = 0
    acked: int = 0
    unconfirmed: int = 0
    behind_s: float = 0.0
    last_ack_us: int = 0
    latencies: tuple[int, ...] = ()
    failed: bool = False


@dataclass(slots=True)
class Told:
    """What the sessions of a part went through, complete once it has ended.

    sent, acked: session number -> how many.
    broken:      sessions that broke and could not be replaced; broken_us: when the
                 first of them did; in_flight: how many waited for a reply; in
                 lockstep, under a rate or while they are held also for their turn, if
                 an ack is young.
    refusals, farewells: what the server said, each once.
    witness_error: ended the load; failure: so did this, a defect or a lost process.
    watermark, window, close_error: of the log, if the part has one of its own.
    """

    sent: dict[int, int] = field(default_factory=dict)
    acked: dict[int, int] = field(default_factory=dict)
    broken: int = 0
    broken_us: int = 0
    in_flight: int = 0
    refusals: list[str] = field(default_factory=list)
    farewells: list[str] = field(default_factory=list)
    witness_error: WitnessError | None = None
    failure: Exception | None = None
    watermark: Watermark | None = None
    window: WindowFacts | None = None
    close_error: WitnessError | None = None

    def note_broken(self, clock_us: int, *, in_flight: bool) -> None:
        """Count a session that broke and could not be replaced."""
        self.broken_us = min(self.broken_us or clock_us, clock_us)
        self.broken += 1
        self.in_flight += in_flight


def note(said: list[str], words: str) -> None:
    """Keep what the server said, once; a few different words are enough."""
    if words and words not in said and len(said) < WORDS_MAX:
        said.append(words)


def together(parts: Iterable[Told]) -> Told:
    """Return what several parts went through, as that of one without a log."""
    whole = Told()
    for told in parts:
        whole.sent |= told.sent
        whole.acked |= told.acked
        if told.broken:
            whole.broken_us = min(whole.broken_us or told.broken_us, told.broken_us)
        whole.broken += told.broken
        whole.in_flight += told.in_flight
        for words in told.refusals:
            note(whole.refusals, words)
        for words in told.farewells:
            note(whole.farewells, words)
        whole.failure = whole.failure or told.failure
        whole.close_error = whole.close_error or told.close_error
        whole.witness_error = whole.witness_error or told.witness_error
    return whole


class Crew(Protocol):
    """A part of the load's sessions."""

    def connect(self) -> None:
        """Open every session; raise EngineError, with none left open, if one fails."""

    def start(self, began_us: int) -> None:
        """Let them commit, in a thread or process of their own."""

    def hold(self, *, held: bool) -> None:
        """Have the sessions send nothing more, or go on; replies are still taken."""

    def look(self) -> Look:
        """Return the newest look at the sessions, as fresh as LOOK_S seconds."""

    def end(self, wait_s: float = END_S) -> Told:
        """End every session, thread and process; return what they told; idempotent.

        A process that has not told all within *wait_s* seconds is lost, see Told.  An
        interrupt ends the wait and is raised; all has ended then, too.
        """
