"""Sentences of a report on a matrix."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dbcheck.judge.result import Checked, RunResult
from dbcheck.judge.results import MatrixResult, RowResult
from dbcheck.model.cut import CutClass, PowerScope, describe_cuts
from dbcheck.model.verdict import (
    PROOF_OF_LOSS,
    Verdict,
    describe_losses_without_cut,
    describe_proof,
    format_count,
)
from dbcheck.report.words import restores
from dbcheck.report.words.compare import compare_depths, warn_of_other_cuts
from dbcheck.report.words.run import depth_of, headline, lab_scope, sentence, with_id
from dbcheck.report.words.summary import Summary, Tile, describe_about

_PRICE = "price: for each durable commit per second."


def has_price(result: MatrixResult) -> bool:
    """Return True if a price was given for any row."""
    return any(row.price is not None for row in result.rows)


def columns(result: MatrixResult) -> tuple[str, ...]:
    """Return the heads of the table, without that of the verdict, which comes last."""
    price = ("price",) if has_price(result) else ()
    if has_restores(result):
        return ("configuration", *restores.COLUMNS, *price)
    return (
        *("configuration", "commits/s", "p99 ms", "lost", "lossy cuts", "depth"),
        *price,
    )


def has_restores(result: MatrixResult) -> bool:
    """Return True if a configuration's copies are restored, and read."""
    return any(row.restore for row in result.rows)


def list_notes(result: MatrixResult) -> list[str]:
    """Return what the columns mean whose heads do not say it."""
    notes = [_PRICE] if has_price(result) else []
    return [*notes, restores.COLUMNS_NOTE] if has_restores(result) else notes


def cells(row: RowResult, result: MatrixResult) -> Iterator[str]:
    """Yield a row as text, in the order of columns()."""
    yield row.name
    if has_restores(result):
        yield from restores.cells_of_row(row)
    else:
        yield from _cells_of_cuts(row)
    if has_price(result):
        yield _figure(row.price_per_durable_commit_per_s, ",.3g")


def _cells_of_cuts(row: RowResult) -> Iterator[str]:
    proven = row.statistics
    yield _figure(row.commits_per_s, ",.0f")
    yield _figure(row.p99_ms, ".2f")
    if row.lost is None:
        yield "all" if row.verdict is Verdict.FAIL else "-"
    else:
        yield f"{row.lost:,}"
    yield f"{proven.losses} of {proven.cuts}"
    yield " ".join(sorted(depth or "?" for depth in proven.depths)) or "-"


def _figure(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def summarize_matrix(result: MatrixResult) -> Summary:
    """Return the first box of a report on a matrix."""
    cycles = [cycle for row in result.rows for cycle in row.cycles]
    kept = [row for row in result.rows if row.shown_verdict is Verdict.PASS]
    cuts = [row.statistics.cuts for row in kept if not row.restore]
    proof = ""
    if cuts and not has_restores(result):
        proof = describe_proof(0, min(cuts))
    last = max((cycle.checked.begun for cycle in cycles), default="")
    servers = ", ".join(dict.fromkeys(cycle.server for cycle in cycles))
    lossy = sum(row.verdict is Verdict.FAIL for row in result.rows)
    return Summary(
        badge="as expected" if result.as_expected else "not as expected",
        verdict=_choose_colour(result, lossy),
        headline=_summarize_rows(result),
        proof=proof,
        action=_choose_action(result, kept),
        about=tuple(
            describe_about(
                *(find_first_check(result), "", servers),
                until=last,
                virtual=all(c.cut_class is CutClass.LAB_DRIVE for c in cycles),
            )
        ),
        tiles=(
            Tile("configurations", f"{len(result.rows):,}"),
            Tile(_name_fails(result), f"{lossy:,}", "of them"),
            _count_cycles(result),
        ),
    )


def _count_cycles(result: MatrixResult) -> Tile:
    """Return how many cycles of each row count, at least."""
    counts = [
        sum(c.verdict is not Verdict.INCONCLUSIVE for c in row.cycles)
        if row.restore
        else row.statistics.cuts
        for row in result.rows
    ]
    what = "cycles of each" if has_restores(result) else "cuts of each"
    return Tile(what, f"{min(counts, default=0):,}", "or more that count")


def _name_fails(result: MatrixResult) -> str:
    """Return what the configurations with a FAIL did.

    A restore may keep its objective, and lose commits all the same.
    """
    return "failed" if has_restores(result) else "lost data"


def find_first_check(result: MatrixResult) -> Checked:
    """Return what the cycle that began first checked; all unknown without a cycle."""
    return min(
        (cycle.checked for row in result.rows for cycle in row.cycles),
        key=lambda checked: checked.begun,
        default=Checked(),
    )


def _choose_colour(result: MatrixResult, lossy: int) -> Verdict | None:
    """Return the verdict that colours the box; None if losses were to be expected."""
    if not result.as_expected:
        return Verdict.FAIL
    return None if lossy else Verdict.PASS


def _summarize_rows(result: MatrixResult) -> str:
    """Return which configurations lost something, or failed, as a sentence."""
    what = "lost acknowledged data"
    if has_restores(result):
        what = _name_fails(result)
    lossy = [row.name for row in result.rows if row.verdict is Verdict.FAIL]
    open_ = [
        row.name
        for row in result.rows
        if row.shown_verdict in (None, Verdict.INCONCLUSIVE)
    ]
    parts = []
    if lossy:
        of_all = f"{len(lossy)} of {format_count(len(result.rows), 'configuration')}"
        parts.append(f"{of_all} {what}: {'; '.join(lossy)}.")
    elif len(open_) < len(result.rows):
        others = " that was tested" if open_ else ""
        parts.append(f"No configuration{others} {what}.")
    if open_:
        parts.append(f"Not decided: {'; '.join(open_)}.")
    return " ".join(parts)


def _choose_action(result: MatrixResult, kept: Sequence[RowResult]) -> str:
    if unexpected := _list_unexpected_losses(result):
        return (
            f"Find out why {'; '.join(unexpected)} lost data that should be safe there."
            f" {PROOF_OF_LOSS}"
        )
    open_ = [row for row in result.rows if not row.as_expected]
    if open_:
        return "Read below what went wrong, and run these configurations again."
    if kept:
        command, what = "dbcheck run", "lost nothing"
        if has_restores(result):
            command, what = "dbcheck snapshot, and dbcheck run --restore", "passed"
        return (
            f"Choose from the configurations that {what}, and check the real"
            f" server with it: {command}."
        )
    return "Use none of these configurations for data that must last."


def _list_unexpected_losses(result: MatrixResult) -> list[str]:
    """Return the names of the rows that lost something and were to lose nothing."""
    lossy = (row for row in result.rows if row.verdict is Verdict.FAIL)
    return [row.name for row in lossy if row.expect is Verdict.PASS]


def losses_without_cut(results: Sequence[RunResult]) -> str:
    """Return the clause on losses that no bound counts, "" if there are none."""
    cycles = sum(result.lost_without_cut for result in results)
    return describe_losses_without_cut(cycles) if cycles else ""


def proofs(result: MatrixResult) -> Iterator[str]:
    """Yield what the restores of a row brought back, and the bound of each other row.

    Rows with an equal sentence are named together.  Losses without a power cut, which
    no bound counts, come before.  Last comes the comparison of two rows.
    """
    proven: dict[str, list[str]] = {}
    for row in result.rows:
        if row.restore and row.cycles:
            text = restores.describe_copies(row.cycles)
            proven.setdefault(text, []).append(row.name)
        elif without_cut := losses_without_cut(row.cycles):
            yield f"FAIL of {row.name}: {without_cut}."
    for row in result.rows:
        if row.statistics.cuts and not row.statistics.losses:
            proven.setdefault(row.statistics.sentence, []).append(row.name)
    for text, names in proven.items():
        yield f"{'; '.join(names)}: {text}."
    if (compared := result.comparison) and compared.difference_ppm:
        first, second = result.rows
        yield f"{first.name} against {second.name}: {compared.sentence}."
    if result.comparison:
        yield from _warn_of_other_cuts(result.rows)


def _warn_of_other_cuts(rows: Sequence[RowResult]) -> Iterator[str]:
    """Yield why the losses of two rows cannot be compared, if their cuts differ."""
    yield from compare_depths([(row.name, row.statistics) for row in rows])
    kinds = [(row.name, _kinds_of_cuts(row)) for row in rows]
    found = {kind for _, kind in kinds}
    if all(found) and len(found) > 1:
        yield warn_of_other_cuts("what was cut", kinds)


def _kinds_of_cuts(row: RowResult) -> str:
    """Return what the cuts that count took the power from, "" without any."""
    counted = (cycle for cycle in row.cycles if cycle.counts)
    return ", ".join(sorted(set(map(_kind_of_cut, counted))))


def _kind_of_cut(cycle: RunResult) -> str:
    is_drive_alone = cycle.power_scope is PowerScope.DRIVE
    return f"{cycle.cut_class.value}{', the drives alone' * is_drive_alone}"


def faults(result: MatrixResult) -> Iterator[str]:
    """Yield the rows that an error ended, then those with an unexpected verdict."""
    for row in result.rows:
        if row.error:
            yield f"{row.name}: {with_id(row.error, row.error_id)}"
    for row in result.rows:
        if row.expect and not row.error and not row.as_expected:
            found = _named(row.verdict)
            yield f"{row.name}: expected {_named(row.expect)}, got {found}"


def doubts(result: MatrixResult) -> Iterator[str]:
    """Yield the reasons of inconclusive cycles, each reason of a row once."""
    for row in result.rows:
        unclear = (c for c in row.cycles if c.verdict is Verdict.INCONCLUSIVE)
        for reason in dict.fromkeys(headline(cycle) for cycle in unclear):
            yield f"{row.name}: {reason}"


def scopes(result: MatrixResult) -> Iterator[str]:
    """Yield the kinds and depths of the cuts, and the limits of their proof."""
    cycles = [c for row in result.rows if not row.restore for c in row.cycles]
    if classes := describe_cuts(
        (cycle.cut_class.value, depth_of(cycle)) for cycle in cycles if cycle.counts
    ):
        yield sentence(f"what was cut: {classes}")
    labs = (cycle.lab for cycle in cycles if cycle.lab)
    yield from dict.fromkeys(map(lab_scope, labs))
    restored = [c for row in result.rows if row.restore for c in row.cycles]
    yield from dict.fromkeys(map(restores.describe_scope, restored))


def _named(verdict: Verdict | None) -> str:
    return verdict.value if verdict else "none"
