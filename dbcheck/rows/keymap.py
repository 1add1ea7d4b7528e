"""A map of the last commits of each session, and what became of them.

Acks and survivors are streamed once and never held.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dbcheck.rows.acks import SESSION_MAX, AckArray, Ints
from dbcheck.rows.loss import Losses, number_operations
from dbcheck.rows.reconcile import SurvivorStream
from dbcheck.rows.summary import AckStream
from dbcheck.rows.survivors import find_distinct

CELLS_MAX = 100
LANES_MAX = 48
_SEQ_BITS = 40
_SEQ_MASK = (1 << _SEQ_BITS) - 1


class Fate(enum.Enum):
    """Fate of the commits of one cell of the map, the worst first.

    The value is the letter that stands for it in Lane.fates.
    """

    LOST = "L"  # all acked commits lost something
    PARTLY_LOST = "P"  # some acked commits lost something
    KEPT = "K"  # all acked commits are there
    RECOVERED = "R"  # none was acked, and at least one is there: legal
    NONE = "-"  # none was acked and none is there


@dataclass(frozen=True, slots=True)
class Lane:
    """The last commits of one session.

    first: the number of the first commit of the first cell, from 1 on.
    acked: how many commits of the session were acked.  lost: of these, how many lost
    something.  fates: a Fate's letter for each cell, the oldest first.
    """

    session: int
    first: int
    acked: int
    lost: int
    fates: str


@dataclass(frozen=True, slots=True)
class KeyMap:
    """A lane for each session, those that lost most first if not all are shown.

    step: how many commits a cell stands for.
    left_out: how many sessions are not shown.
    """

    lanes: tuple[Lane, ...]
    step: int
    left_out: int


def build_key_map(
    acks: AckStream, losses: Losses, survivors: Sequence[SurvivorStream], epoch: int
) -> KeyMap:
    """Return the map of the load whose rows bear *epoch*.

    survivors: of each table whose rows bear the key of an operation.
    """
    acked = _find_newest_acks(acks())
    parts_beyond_acks = [
        rows
        for stream in survivors
        for rows in _list_operations_beyond_acks(stream(), acked, epoch)
    ]
    beyond = find_distinct(
        np.concatenate(parts_beyond_acks)
        if parts_beyond_acks
        else np.empty(0, np.int64)
    )
    columns = losses.columns
    lost = find_distinct(number_operations(columns[columns["acked_us"] >= 0]))
    counts = np.bincount(lost >> _SEQ_BITS, minlength=SESSION_MAX + 1)
    sessions = np.flatnonzero(acked)
    if sessions.size > LANES_MAX:
        by_losses = np.lexsort((sessions, -counts[sessions]))
        shown = np.sort(sessions[by_losses[:LANES_MAX]])
    else:
        shown = sessions
    step = _choose_commits_per_cell(acked, beyond, lost, shown)
    lanes = (
        _build_lane(int(session), int(acked[session]), lost, beyond, step)
        for session in shown
    )
    return KeyMap(tuple(lanes), step, int(sessions.size - shown.size))


def _find_newest_acks(batches: Iterable[AckArray]) -> Ints:
    """Return the newest ack of each session, by its number."""
    newest = np.zeros(SESSION_MAX + 1, np.int64)
    for batch in batches:
        np.maximum.at(newest, batch["session"], batch["seq"].astype(np.int64))
    return newest


def _list_operations_beyond_acks(
    batches: Iterable[npt.NDArray[np.void]], acked: Ints, epoch: int
) -> Iterable[Ints]:
    """Yield the operations of surviving rows that come after the acks of a session."""
    for rows in batches:
        is_own = (rows["epoch"] == epoch) & (rows["session"] >= 0)
        is_own &= (rows["session"] <= SESSION_MAX) & (rows["seq"] > 0)
        is_own &= rows["seq"] <= _SEQ_MASK
        own_rows = rows[is_own]
        yield number_operations(own_rows[own_rows["seq"] > acked[own_rows["session"]]])


def _select_session(numbers: Ints, session: int) -> Ints:
    """Return the numbers of one session's operations; *numbers* are sorted."""
    ends = np.searchsorted(numbers, [session << _SEQ_BITS, (session + 1) << _SEQ_BITS])
    return numbers[ends[0] : ends[1]] & _SEQ_MASK


def _choose_commits_per_cell(acked: Ints, beyond: Ints, lost: Ints, shown: Ints) -> int:
    """Return the number of commits in a cell with which a lane's losses fit."""
    longest = CELLS_MAX
    for session in shown.tolist():
        lost_seqs = _select_session(lost, session)
        if lost_seqs.size:
            top = _limit_top(int(acked[session]), _select_session(beyond, session))
            # A quarter more, so that the map also shows commits before the losses.
            longest = max(longest, (top - int(lost_seqs[0]) + 1) * 5 // 4)
    return -(-longest // CELLS_MAX)


def _limit_top(acked: int, beyond: Ints) -> int:
    # A session has one operation in flight; but a forged row may bear any seq.
    return acked + min(int(beyond.size), CELLS_MAX // 4)


def _build_lane(session: int, acked: int, lost: Ints, beyond: Ints, step: int) -> Lane:
    lost_seqs, recovered = (
        _select_session(lost, session),
        _select_session(beyond, session),
    )
    top = _limit_top(acked, recovered)
    cells = -(-top // step)
    first_cell = max(0, cells - CELLS_MAX)
    lost_by_cell = np.bincount((lost_seqs - 1) // step, minlength=cells)
    fates = []
    for cell in range(first_cell, cells):
        acked_in_cell = min(acked, (cell + 1) * step) - cell * step
        fates.append(
            _decide_fate(acked_in_cell, int(lost_by_cell[cell]), cell * step < top)
        )
    letters = "".join(fate.value for fate in fates)
    return Lane(session, first_cell * step + 1, acked, int(lost_seqs.size), letters)


def _decide_fate(acked: int, lost: int, has_recovered: bool) -> Fate:
    if acked <= 0:
        return Fate.RECOVERED if has_recovered else Fate.NONE
    if not lost:
        return Fate.KEPT
    return Fate.LOST if lost >= acked else Fate.PARTLY_LOST
