"""Configurations side by side: how fast each commits, and what each cut cost it."""

from __future__ import annotations

from collections.abc import Iterator

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from dbcheck.judge.results import MatrixResult, RowResult
from dbcheck.report.lab import verdict
from dbcheck.report.terminal import DOUBTFUL, MINOR, WRONG
from dbcheck.report.words import matrix as words

_NUMBERS = ("commits/s", "p99 ms", "lost", "price")


def matrix_report(result: MatrixResult) -> RenderableType:
    """Return the table, and below it what it proves and what went wrong."""
    parts: list[RenderableType] = [""]
    if result.description:
        parts += [Text(result.description, "bold"), ""]
    parts += [_table(result), ""]
    if result.reference:
        parts.append(Text(f"In grey: {result.reference}.", MINOR))
    if words.has_price(result):
        parts.append(Text(words.PRICE, MINOR))
    parts += map(Text, words.proofs(result))
    parts += [Text(fault, WRONG) for fault in words.faults(result)]
    parts += [Text(doubt, DOUBTFUL) for doubt in words.doubts(result)]
    parts += [Text(scope, "italic") for scope in words.scopes(result)]
    return Group(*parts, "")


def _table(result: MatrixResult) -> Table:
    table = Table(
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
        show_edge=False,
        leading=int(any(row.reference for row in result.rows)),
    )
    for name in words.columns(result):
        folds = name in ("configuration", "depth")
        table.add_column(
            name,
            justify="right" if name in _NUMBERS else "left",
            overflow="fold" if folds else "ellipsis",
            no_wrap=not folds,
        )
    table.add_column("verdict", no_wrap=True)
    for row in result.rows:
        table.add_row(*_cells(row, result))
    return table


def _cells(row: RowResult, result: MatrixResult) -> Iterator[RenderableType]:
    name, *rest = words.cells(row, result)
    yield Group(Text(name), Text(row.reference, MINOR)) if row.reference else Text(name)
    yield from map(Text, rest)
    yield verdict(row.verdict) if row.verdict else Text("none", WRONG)
