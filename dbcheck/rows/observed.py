"""What a plan's judge is given of one run: its acks, its rows, and what bounds them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from dbcheck.rows.acks import AckArray
from dbcheck.rows.leftover import LeftOver
from dbcheck.rows.survivors import Records
from dbcheck.rows.table import TableFacts

AckStream = Callable[[], Iterable[AckArray]]
SurvivorStream = Callable[[], Iterable[Records]]


@dataclass(frozen=True, slots=True)
class Claim:
    """What the client recorded of its sessions.

    sent, acked: session -> operations sent, acks received.
    """

    sent: Mapping[int, int]
    acked: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Observed:
    """What was observed of one run; each stream can be read again from its beginning.

    survivors:   by the table's name, every row, read before anything wrote again.  A
                 side table that is not there has none.
    before:      by the table's name, what it held before the load.
    claim:       None if the client was lost before it could make one.  Rows beyond the
                 acks are then legal as far as *window_acks* and one operation in
                 flight for each session explain them.
    window_acks: most acks that could be unconfirmed at once.
    left_over:   the run's transactions that the server still listed as prepared.
    is_ddl_atomic: a CREATE, DROP, TRUNCATE or ALTER is part of its transaction.
    """

    acks: AckStream
    survivors: Mapping[str, SurvivorStream]
    before: Mapping[str, TableFacts]
    claim: Claim | None
    window_acks: int
    left_over: Sequence[LeftOver] = ()
    is_ddl_atomic: bool = False
