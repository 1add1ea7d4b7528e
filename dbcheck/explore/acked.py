"""Lists the commits that had been acknowledged by a moment of a recorded load."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LabError
from dbcheck.model.records import LoadRecord
from dbcheck.rows.acks import (
    ACK_DTYPE,
    HOUSEKEEPING_SESSION,
    PREFLIGHT_SESSION,
    TIME_UNIT_US,
    AckArray,
    AckValues,
)
from dbcheck.rows.reconcile import Claim


class Acked:
    """The acks of one run that the witness holds, on the clock of the drives."""

    def __init__(self, batches: Iterable[AckArray], load: LoadRecord) -> None:
        """Take the acks of all logs, a session's in order; raise LabError if none.

        load: what the client saw of the whole load.
        """
        acks: AckArray = np.concatenate([np.empty(0, ACK_DTYPE), *batches])
        if not len(acks):
            raise LabError(
                "the recorded load has no acks",
                id=ErrorId.RECORDED_LOAD_TOO_SHORT,
                hint="Let it run for longer: --load-s.",
            )
        for session in np.unique(acks["session"]):
            own = acks["session"] == session
            # Of two acks in a row, the log may date the first one later.
            acks["acked_us"][own] = np.maximum.accumulate(acks["acked_us"][own])
        self._acks = acks[np.argsort(acks["acked_us"], kind="stable")]
        self._times_us = self._acks["acked_us"]
        self._load = load
        self._total = _by_session(self._acks)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._acks)

    @property
    def first_us(self) -> int:
        """When the first session of the load had its first ack."""
        of_load = self._acks["session"] != PREFLIGHT_SESSION
        return int(self._times_us[of_load].min(initial=self._times_us[-1]))

    def count(self, time_us: int) -> int:
        """Return how many came before that time."""
        return int(np.searchsorted(self._times_us, time_us))

    def before(self, time_us: int) -> AckArray:
        """Return those that came before that time."""
        return self._acks[: self.count(time_us)]

    def each(self) -> Iterator[AckValues]:
        """Yield all as plain values, in the order of their times."""
        yield from self._acks.tolist()

    def claim(self, time_us: int) -> Claim:
        """Return what each session may have sent, and had acked, by that time.

        It sends an operation once the one before is acked.  The log dates an ack up to
        TIME_UNIT_US too late; at the end it may lack acks that were not confirmed.
        """
        acked = _by_session(self.before(time_us + TIME_UNIT_US))
        sent = {}
        for session, all_sent in self._load.sent.items():
            number = acked.get(session, 0)
            in_log = number < self._total.get(session, 0)
            sent[session] = number + 1 if in_log else all_sent
            if not in_log:
                acked[session] = self._load.acked.get(session, number)
        return Claim(sent, acked)

    def chore_times_us(self) -> list[int]:
        """Return when each chore of the housekeeping session was acked."""
        chores = self._acks["session"] == HOUSEKEEPING_SESSION
        times: list[int] = self._times_us[chores].tolist()
        return times


def _by_session(acks: AckArray) -> dict[int, int]:
    sessions, counts = np.unique(acks["session"], return_counts=True)
    return dict(zip(sessions.tolist(), counts.tolist(), strict=True))
