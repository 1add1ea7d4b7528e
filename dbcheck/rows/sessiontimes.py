"""When each operation of a session cannot have been sent yet, from its acks alone."""

from __future__ import annotations

import numpy as np

from dbcheck.rows.acks import AckArray
from dbcheck.rows.expected import Ints
from dbcheck.rows.history import SESSION_MAX

NEVER = -(2**62)


class SessionTimes:
    """The ack before each ack, session by session.

    A session sends an operation after the client read the clock for the ack of the one
    before it (load/loop.py: _round).
    """

    def __init__(self) -> None:
        self._acked_us = np.full(SESSION_MAX + 1, NEVER, np.int64)

    def sent_after_us(self, batch: AckArray) -> Ints:
        """Return for each ack of *batch* the moment of the ack before it; else NEVER.

        The batches must come in the order of the log.
        """
        order = np.argsort(batch["session"], kind="stable")
        session, acked_us = batch["session"][order], batch["acked_us"][order]
        before = np.r_[NEVER, acked_us[:-1]] if len(batch) else acked_us
        first = np.r_[True, session[1:] != session[:-1]][: len(batch)]
        before[first] = self._acked_us[session[first]]
        last = np.r_[first[1:], True][: len(batch)]
        self._acked_us[session[last]] = acked_us[last]
        sent_us = np.empty(len(batch), np.int64)
        sent_us[order] = before
        return sent_us
