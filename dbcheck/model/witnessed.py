"""What a witness holds of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dbcheck.base.values import Json

CUT_EVENT = "cut asked"  # noted when the switch is asked soon; then "cut asked 2"
LOAD_EVENT = "load"  # with what the client saw of the load


@dataclass(frozen=True, slots=True)
class Watermark:
    """How much of a log the witness holds durably.

    frames, acks: how many, from the start of the log.
    digest:       the hash chain after that many frames, in hex.
    """

    frames: int
    acks: int
    digest: str


@dataclass(frozen=True, slots=True)
class WindowFacts:
    """The largest gap between the acks received and those confirmed.

    acks: how many were unconfirmed at once.  age_s: the oldest one's age.
    """

    acks: int
    age_s: float


@dataclass(frozen=True, slots=True)
class LogFacts:
    """What a stored log holds.

    torn_bytes: length of an incomplete last frame, 0 if there is none.
    newest_us:  when the newest ack of the load came, on the clock that was asked for,
                see ports.witness.LogReader; None if there is none.
    events:     what WitnessLog.note() logged, in order.
    events_us:  the witness's clock when each of them came.
    """

    frames: int
    acks: int
    torn_bytes: int
    newest_us: int | None
    events: Sequence[Json]
    events_us: Sequence[int] = ()

    @property
    def cut_announced(self) -> bool:
        """Whether the client noted that it was about to have the power cut."""
        return any(
            str(event.get("event")).startswith(CUT_EVENT) for event in self.events
        )

    @property
    def load_left(self) -> tuple[bytes, object] | None:
        """The client's record of its load, and its seal; None if it left none."""
        for event in self.events:
            if event.get("event") == LOAD_EVENT:
                content = str(event.get("load")).encode(errors="replace")
                return content, event.get("seal")
        return None
