"""Which operations of a run left their row in the ledger.

Every operation inserts one such row in its last transaction, so the row shows whether
that was committed, and what the other tables must hold.
"""

from __future__ import annotations

import numpy as np

from dbcheck.rows.expected import Ints
from dbcheck.rows.history import LOAD_SESSION_MAX, SESSION_MAX
from dbcheck.rows.observed import Observed
from dbcheck.rows.survivors import DIFFERENT, Flags, Records
from dbcheck.rows.table import TableSpec

_INTACT, _OTHER = 1, 2


class Markers:
    """The rows of the ledger, by session and seq.

    acked: by session, how many operations are confirmed.
    tops:  by session, the last operation that may have left something: it is acked, or
           its row is there, or the client had sent it.
    """

    def __init__(self, seen: Observed, table: TableSpec, epoch: int) -> None:
        """Read the rows of *table* that *epoch* wrote, and the acks."""
        self._epoch = epoch
        self.acked = np.zeros(SESSION_MAX + 1, np.int64)
        for batch in seen.acks():
            np.maximum.at(self.acked, batch["session"], batch["seq"].astype(np.int64))
        self.tops = _tops(seen, table, epoch, self.acked)
        self._offsets = np.concatenate(([0], np.cumsum(self.tops)[:-1])) - 1
        self._marks = np.zeros(int(self.tops.sum()), np.uint8)
        for records in seen.survivors[table.name]():
            own = self.own(records)
            intact = own["content"] != DIFFERENT
            for mark, some in ((_INTACT, own[intact]), (_OTHER, own[~intact])):
                places = self._offsets[some["session"]] + some["seq"]
                self._marks[places] |= mark

    def sessions(self) -> list[int]:
        """Return the sessions of the load, and the preflight's, that sent anything."""
        found: list[int] = np.flatnonzero(self.tops[: LOAD_SESSION_MAX + 1]).tolist()
        return found

    def own(self, records: Records) -> Records:
        """Return those of *records* that an operation can have written."""
        session, seq = records["session"], records["seq"]
        own: Flags = (records["epoch"] == self._epoch) & (seq >= 1)
        own &= (session >= 0) & (session <= SESSION_MAX)
        own[own] = seq[own] <= self.tops[session[own]]
        found: Records = records[own]
        return found

    def present(self, session: int, seq: Ints) -> Flags:
        """Say of each operation whether its row is there and intact; of 0, no."""
        return self._marked(session, seq, _INTACT)

    def perhaps(self, session: int, seq: Ints) -> Flags:
        """Say whether it is there, intact or not; if not, its key may be wrong."""
        return self._marked(session, seq, _INTACT | _OTHER)

    def _marked(self, session: int, seq: Ints, wanted: int) -> Flags:
        found: Flags = (seq >= 1) & (seq <= self.tops[session])
        places = self._offsets[session] + seq[found]
        found[found] = self._marks[places] & wanted > 0
        return found


def _tops(seen: Observed, table: TableSpec, epoch: int, acked: Ints) -> Ints:
    """Return, by session, the last operation that the client can have sent.

    Without the client's record it is one more than could be unconfirmed.
    """
    if seen.claim is not None:
        tops = acked.copy()
        for session, sent in seen.claim.sent.items():
            tops[session] = max(sent, tops[session])
        return tops
    ran = acked > 0
    for records in seen.survivors[table.name]():
        own = records[(records["epoch"] == epoch) & (records["content"] != DIFFERENT)]
        session = own["session"]
        ran[session[(session >= 0) & (session <= SESSION_MAX)]] = True
    found: Ints = np.where(ran, acked + seen.window_acks + 1, 0)
    return found
