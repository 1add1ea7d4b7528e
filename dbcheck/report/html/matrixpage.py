"""Values of the page of a matrix, for its template."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dbcheck.judge.result import RunResult
from dbcheck.judge.results import MatrixResult, RowResult
from dbcheck.model.verdict import Verdict
from dbcheck.report.words import matrix as words
from dbcheck.report.words import restores
from dbcheck.report.words.run import depth_of, headline, lost_in, number

NUMBERS = ("p99 ms", "lost", "price", *restores.COLUMNS)
CYCLE_COLUMNS = ("configuration", "run", "depth", "confirmed", "lost")
_FIRST = ("configuration", "lost", "oldest", "failed", "lossy cuts", "depth")
_CSS_CLASSES = {Verdict.PASS: "kept", Verdict.FAIL: "lost"}


@dataclass(frozen=True, slots=True)
class Row:
    """One configuration.

    reference: a published result to compare with, "" if there is none.
    share:     its rate in percent of the fastest configuration's.
    tone:      the CSS class of its bar.
    """

    cells: tuple[str, ...]
    reference: str
    share: float
    tone: str
    verdict: str


@dataclass(frozen=True, slots=True)
class Cycle:
    """One cycle of a configuration."""

    cells: tuple[str, ...]
    verdict: str
    reason: str


def make_matrix_values(result: MatrixResult) -> dict[str, Any]:
    """Return the values of templates/matrix.html."""
    fastest = max((row.commits_per_s or 0.0 for row in result.rows), default=0.0)
    title = result.description or "Configurations side by side"
    columns = words.columns(result)
    order = sorted(range(len(columns)), key=lambda place: _rank(columns[place]))
    return {
        "title": title,
        "about": ("Configurations side by side", f"seed {result.seed}"),
        "result": result,
        "summary": words.summarize_matrix(result),
        "columns": [*map(columns.__getitem__, order)],
        "numbers": NUMBERS,
        "rate": "commits/s",
        "rows": [_make_row(row, result, order, fastest or 1.0) for row in result.rows],
        "notes": words.list_notes(result),
        "proven": "What the cuts prove"
        if not words.has_restores(result)
        else "What the restores prove",
        "proofs": list(words.proofs(result)),
        "faults": list(words.faults(result)),
        "doubts": list(words.doubts(result)),
        "scopes": [
            _capitalise_first(scope.removeprefix("Scope: "))
            for scope in words.scopes(result)
        ],
        "cycle_columns": CYCLE_COLUMNS,
        "cycle_numbers": CYCLE_COLUMNS[-2:],
        "cycles": [
            _make_cycle(row.name, cycle) for row in result.rows for cycle in row.cycles
        ],
    }


def _capitalise_first(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}"


def _rank(column: str) -> int:
    """Return the place of a column: what was lost comes before what it costs."""
    return _FIRST.index(column) if column in _FIRST else len(_FIRST)


def _make_row(
    row: RowResult, result: MatrixResult, order: Sequence[int], fastest: float
) -> Row:
    """Return a configuration; order: the columns of words.cells() as they are shown."""
    verdict, cells = row.shown_verdict, tuple(words.cells(row, result))
    return Row(
        tuple(cells[place] for place in order),
        row.reference,
        round(100 * (row.commits_per_s or 0.0) / fastest, 1),
        _CSS_CLASSES.get(verdict, "partly") if verdict else "partly",
        verdict.value if verdict else "",
    )


def _make_cycle(name: str, cycle: RunResult) -> Cycle:
    depth = depth_of(cycle) or "not measured"
    cells = (
        *(name, cycle.run, depth if cycle.copy is None else "-"),
        *(number(cycle.confirmed), lost_in(cycle)),
    )
    return Cycle(cells, cycle.verdict.value, headline(cycle))
