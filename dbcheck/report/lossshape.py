"""The shape of a run's losses and what explains them, as the report shows them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from dbcheck.judge.diagnosis import Explanation
from dbcheck.report.terminal import MINOR
from dbcheck.rows.lossshape import LossShape, Share, WindowShare

SHAPE_TITLE = "What was lost, by age and size"
DIAGNOSIS_TITLE = "What can have caused the losses, the best explanation first"


def draw_explanations(explanations: Sequence[Explanation]) -> RenderableType:
    """Return the explanations, in their order."""
    table = Table.grid(padding=(0, 1))
    for number, one in enumerate(explanations, 1):
        shown = Text()
        shown.append(f"{one.cause.value}: ", "bold")
        shown.append(one.reason)
        shown.append(f" (can explain {one.losses:,})", MINOR)
        table.add_row(Text(f"  {number}."), shown)
    title = Text(DIAGNOSIS_TITLE, "bold")
    return Group(title, table)


def draw_shape(shape: LossShape) -> RenderableType:
    """Return a line for each axis."""
    table = Table.grid(padding=(0, 2))
    for name, text in list_axes(shape):
        table.add_row(Text(f"  {name}", MINOR), Text(text))
    title = Text(SHAPE_TITLE, "bold")
    return Group(title, table)


def list_axes(shape: LossShape) -> Iterator[tuple[str, str]]:
    """Yield the name of each axis, and its classes with what was lost of each.

    In each class, how many operations lost something of those that were acked.
    """
    if shape.by_age:
        yield "age at the cut", _format_shares(shape.by_age, "s")
    if shape.by_size:
        yield "size of the payload", _format_shares(shape.by_size, "bytes")
    if shape.by_window:
        yield (
            "during a housekeeping task",
            "; ".join(map(_format_window, shape.by_window)),
        )
    if len(shape.by_table) > 1:
        pairs = shape.by_table.items()
        yield "losses by table", ", ".join(f"{name}: {n:,}" for name, n in pairs)
    if shape.missing:
        older = f"{shape.reordered:,} of {shape.missing:,}"
        yield "lost, newer survived", older


def _format_window(share: WindowShare) -> str:
    text = f"{share.task.value}: {share.lost:,} of {share.acked:,}"
    return (
        f"{text}, in {share.hit:,} of {share.tasks:,} such tasks" if share.hit else text
    )


def _format_shares(shares: Sequence[Share], unit: str) -> str:
    """Return the classes, each above the one before it."""
    return "; ".join(_format_share(share, unit) for share in shares)


def _format_share(share: Share, unit: str) -> str:
    bound = "more" if share.up_to is None else f"up to {share.up_to:,g} {unit}"
    return f"{bound}: {share.lost:,} of {share.acked:,}"
