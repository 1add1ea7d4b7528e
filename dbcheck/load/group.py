"""A group of the load's sessions: its snapshots, its latencies and its result."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from dbcheck.base.errors import WitnessError
from dbcheck.model.cut import Replaced
from dbcheck.model.unobserved import Observed
from dbcheck.model.watched import Watched, join_watched
from dbcheck.model.witness import Watermark, WindowFacts

_PER_OCTAVE = 16  # each bucket is 4.4% wider than the one before
_BUCKETS = 32 * _PER_OCTAVE  # from 1 us to over an hour
Counts = NDArray[np.int64]
MESSAGES_MAX = 8
# Enough for a witness to confirm the last acks, and for a server to answer the question
# for its facts.
END_S = 120.0


class Latencies:
    """Counts of durations; percentiles are exact to a bucket's width."""

    def __init__(self) -> None:
        self._counts = np.zeros(_BUCKETS, np.int64)

    def add(self, durations_us: Sequence[int]) -> None:
        """Count durations."""
        octaves = np.log2(np.maximum(np.array(durations_us, np.float64), 1.0))
        places = np.minimum((octaves * _PER_OCTAVE).astype(np.int64), _BUCKETS - 1)
        self._counts += np.bincount(places, minlength=_BUCKETS)

    def counts(self) -> tuple[int, ...]:
        """Return the number of durations in each bucket, up to the last in use."""
        return tuple(np.trim_zeros(self._counts, "b").tolist())


def add_counts(parts: Iterable[Sequence[int]]) -> Counts:
    """Return the number of durations of all *parts* in each bucket."""
    counts = np.zeros(_BUCKETS, np.int64)
    for part in parts:
        counts[: len(part)] += np.array(part, np.int64)
    return counts


def percentiles_ms(counts: Counts) -> Mapping[str, float]:
    """Return p50, p99 and max of the counts of add_counts(), in milliseconds.

    {} if there are no durations.
    """
    total = int(counts.sum())
    if not total:
        return {}
    cumulated = np.cumsum(counts)
    ranks = {"p50": 0.50 * total, "p99": 0.99 * total, "max": total}
    return {
        name: 2 ** ((int(np.searchsorted(cumulated, rank)) + 1) / _PER_OCTAVE) / 1000
        for name, rank in ranks.items()
    }


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The sessions at one moment.

    clock_us:       that moment, on the client's monotonic clock.
    running:        sessions that have not ended.
    waiting:        operations whose reply has not come.
    newest_sent_us: when the last of these operations was sent, 0 if there is none.
    acked:          acks received; unconfirmed: acks that the witness has not confirmed.
    behind_s:       how long the oldest unconfirmed ack has waited for the witness.
    last_ack_us:    when the last ack came, 0 if there is none.
    latencies:      see Latencies.counts().
    failed:         the group has ended the load: see GroupResult.
    task:           the number of the task that is under way, 0 if none is.
    warned:         commits that were answered with a warning: see GroupResult.
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
    task: int = 0
    warned: int = 0


class Break(NamedTuple):
    """A session that broke and could not be replaced, or must not be.

    in_flight: the session waited for a reply; in lockstep, under a rate or while the
               sessions are held, also if it waited for its turn and an ack is young.
    farewell:  the server's message to it, "" if there was none.
    """

    session: int
    clock_us: int
    in_flight: bool
    farewell: str


@dataclass(slots=True)
class GroupResult:
    """The results of a group's sessions, complete once they have ended.

    sent, acked: session number -> how many.
    breaks:      in the order in which they became final.
    replaced:    the sessions that broke and that others replaced.
    watched:     the sessions' own settings while they committed, None if no session
                 showed any.
    refused:     the numbers of the sessions that ended because the server refused an
                 operation; refusals: its messages, each once.
    warned:      commits that the server answered with a warning; warnings: its
                 messages, each once.  They do not count as acks: see
                 errors.CommitWarned.
    witness_error: the error of the witness that ended the load; failure: a defect or a
                 lost process that ended it.
    observed:    when the last ack was read, and the times when none was read.
    watermark, window, close_error: of the log, if the group has one of its own.
    """

    sent: dict[int, int] = field(default_factory=dict)
    acked: dict[int, int] = field(default_factory=dict)
    breaks: list[Break] = field(default_factory=list)
    replaced: Replaced = Replaced()
    watched: Watched | None = None
    refused: list[int] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    warned: int = 0
    warnings: list[str] = field(default_factory=list)
    witness_error: WitnessError | None = None
    failure: Exception | None = None
    observed: Observed = Observed()
    watermark: Watermark | None = None
    window: WindowFacts | None = None
    close_error: WitnessError | None = None

    def unanswered(self, session: int) -> int:
        """Return the number of the session's unanswered operation, 0 if none is."""
        sent = self.sent.get(session, 0)
        return sent if sent > self.acked.get(session, 0) else 0


def add_once(messages: list[str], message: str) -> None:
    """Add a message of the server if it is new; a few different ones are enough."""
    if message and message not in messages and len(messages) < MESSAGES_MAX:
        messages.append(message)


def merge(results: Iterable[GroupResult]) -> GroupResult:
    """Return the results of several groups as that of one group without a log."""
    whole = GroupResult()
    for result in results:
        whole.sent |= result.sent
        whole.acked |= result.acked
        whole.breaks += result.breaks
        whole.replaced = whole.replaced.joined(result.replaced)
        whole.watched = join_watched(whole.watched, result.watched)
        whole.refused += result.refused
        for message in result.refusals:
            add_once(whole.refusals, message)
        whole.warned += result.warned
        for message in result.warnings:
            add_once(whole.warnings, message)
        whole.failure = whole.failure or result.failure
        whole.close_error = whole.close_error or result.close_error
        whole.witness_error = whole.witness_error or result.witness_error
    return whole


class SessionGroup(Protocol):
    """Some or all of the load's sessions."""

    def connect(self) -> None:
        """Open every session; raise EngineError, with none left open, if one fails."""

    def start(self, began_us: int) -> None:
        """Let the sessions commit, in a thread or process of their own."""

    def hold(self, *, held: bool) -> None:
        """Pause the sessions, or resume them; replies are still taken."""

    def snapshot(self) -> Snapshot:
        """Return the newest snapshot, no older than loop.SNAPSHOT_S."""

    def task(self) -> int:
        """Return the number of the task that is under way, 0 if none is."""

    def end(self, wait_s: float = END_S) -> GroupResult:
        """End every session, thread and process; return the result; idempotent.

        A process whose result does not come within *wait_s* seconds is lost: failure
        is then a LoadError.  An interrupt ends the wait and is raised; also then all
        sessions have ended.
        """
