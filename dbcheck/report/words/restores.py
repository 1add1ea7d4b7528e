"""Sentences and cells of reports on several restores, one after the other."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence

from dbcheck.judge.result import CopyResult, RunResult
from dbcheck.judge.results import RowResult
from dbcheck.model.verdict import Verdict, format_at_most

# Of a table of configurations, between their names and their verdicts.
COLUMNS = ("commits/s", "copying", "failed", "lost", "oldest", "restore")
COLUMNS_NOTE = (
    "copying: commits per second while a copy is taken. lost: all commits that a lost"
    " server's restore lacks, also those that the objective allows to lose; of other"
    " rows, those that must be there. oldest: how long before the loss the oldest of"
    " them was acknowledged, at most."
)
_SCOPE = (
    "Scope: {what} restored and read.{cut} A fault that shows only now"
    " and then takes many tries to see."
)
_TAKEN = "copies were taken under load,"
_TO_POINT = "points were read under load, and the archive was"
_SHIPPED = "what was shipped until the power was cut was"
_NO_CUT = " No power was cut, so this says nothing about power cuts."


def is_to_point(result: RunResult) -> bool:
    """Return True if the archive was restored to a point."""
    return result.copy is not None and result.copy.point_kind is not None


def describe_scope(result: RunResult) -> str:
    """Return what several restores of the kind of *result* show, and what not."""
    what, cut = (_SHIPPED, "") if result.is_cut else (_TAKEN, _NO_CUT)
    return _SCOPE.format(what=_TO_POINT if is_to_point(result) else what, cut=cut)


def cells_of_row(row: RowResult) -> Iterator[str]:
    """Yield a configuration as text, in the order of COLUMNS.

    Of its cycles that lost the server, the one that lost most.  What is missing after
    an inconclusive cycle need not be lost.
    """
    copies = [cycle.copy for cycle in row.cycles if cycle.copy is not None]
    yield _format(row.commits_per_s, ",.0f")
    yield _format(row.commits_per_s_while_copied, ",.0f")
    yield _count_failed(row)
    judged = _list_judged(row)
    lost = [c.copy for c in judged if c.copy and c.copy.rpo_s is not None]
    counts = [copy.missing for copy in lost] or [row.lost]
    text = _format_most(counts, "{:,}".format)
    yield "all" if text == "-" and row.verdict is Verdict.FAIL else text
    reached = [copy.reached_s and copy.reached_s[1] for copy in lost if copy.missing]
    yield _format_most(reached, lambda most_s: f"{format_at_most(most_s)} s")
    took = [copy.restore_s for copy in copies if copy.restore_s is not None]
    yield _format_seconds(statistics.median(took) if took else None)


def _count_failed(row: RowResult) -> str:
    """Return how many of the cycles that have a verdict are a FAIL."""
    if not row.restore:
        return f"{row.statistics.losses} of {row.statistics.cuts}"
    judged = _list_judged(row)
    failed = sum(cycle.verdict is Verdict.FAIL for cycle in judged)
    return f"{failed} of {len(judged)}" if judged else "-"


def _list_judged(row: RowResult) -> list[RunResult]:
    """Return the cycles that are a PASS or a FAIL."""
    return [c for c in row.cycles if c.verdict is not Verdict.INCONCLUSIVE]


def _format_most(figures: Sequence[float | None], form: Callable[[float], str]) -> str:
    """Return the largest, "-" if one is not known, or there is none."""
    known = [figure for figure in figures if figure is not None]
    return form(max(known)) if len(known) == len(figures) > 0 else "-"


def copy_columns(result: RunResult) -> tuple[str, ...]:
    """Return the heads of a table of copies, all of the kind of *result*."""
    own = ("lost in all", "oldest lost") if result.is_cut else ("copy",)
    if is_to_point(result):
        own = ("from after it",)
    return ("acks/s", "expected", "missing", *own, "restore")


def copy_cells(result: RunResult) -> Iterator[str]:
    """Yield a cycle's copy as text, in the order of copy_columns()."""
    copy = result.copy
    yield f"{result.load.rate:,.0f}" if result.load else "-"
    if copy is None or copy.due is None or copy.due_kept is None:
        yield from ("-", "all" if result.verdict is Verdict.FAIL else "-")
    else:
        yield from (f"{copy.due:,}", f"{copy.due - copy.due_kept:,}")
    if result.is_cut:
        yield _format(copy.missing if copy else None, ",")
        yield "-" if not (copy and copy.missing) else _format_oldest(copy)
    elif is_to_point(result):
        yield _format(copy.after_kept if copy else None, ",")
    else:
        yield _format_seconds(copy.taken_s if copy else None)
    yield _format_seconds(copy.restore_s if copy else None)


def _format(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def _format_oldest(copy: CopyResult) -> str:
    reached_s = copy.reached_s
    return "-" if reached_s is None else f"{format_at_most(reached_s[1])} s"


def _format_seconds(took_s: float | None) -> str:
    return "-" if took_s is None else f"{took_s:.1f} s"


def describe_copies(results: Sequence[RunResult]) -> str:
    """Return how many of several copies brought everything back, as a clause."""
    whole = sum(result.verdict is Verdict.PASS for result in results)
    lossy = sum(result.verdict is Verdict.FAIL for result in results)
    copies = "copy" if len(results) == 1 else "copies"
    what = "restores to a point" if is_to_point(results[0]) else copies
    text = f"{whole:,} of {len(results):,} {what}"
    text += " came back with every commit that must be there"
    open_ = len(results) - whole - lossy
    parts = [text]
    if lossy:
        parts.append(f"{lossy:,} of them failed")
    if open_:
        parts.append(f"{open_:,} without a verdict")
    return "; ".join(parts)
