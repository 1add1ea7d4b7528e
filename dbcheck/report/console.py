"""Consoles of rich that show every text safely; all that is drawn goes through one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Span, Text

from dbcheck.base.text import quoted


class _Console(Console):
    """Shows every text as base.text.quoted() gives it, and no markup or emoji in it.

    Whatever rich draws becomes a Text before it is laid out, and passes through here.
    """

    def __init__(self, **given: Any) -> None:
        super().__init__(**given, highlight=False, markup=False, emoji=False)
        if self.width < 1:  # COLUMNS=0: rich would show nothing at all
            self.width = 80

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Render an object; if it is a text, with invisible characters escaped."""
        if isinstance(renderable, str):
            renderable = Text(quoted(renderable))
        elif isinstance(renderable, Text):
            renderable = _quote_text(renderable)
        return super().render(renderable, options)

    def on_broken_pipe(self) -> None:
        """Raise the BrokenPipeError again.

        rich would exit with 1, which means FAIL, when the reader of its output is gone.
        """
        raise


def _quote_text(text: Text) -> Text:
    """Return *text* with each style on the characters that it was on."""
    plain = text.plain
    if (shown := quoted(plain)) == plain:
        return text

    def moved(place: int) -> int:
        return len(quoted(plain[:place]))

    copy = text.blank_copy(shown)
    copy.spans = [Span(moved(s.start), moved(s.end), s.style) for s in text.spans]
    return copy


def make_console(**given: Any) -> Console:
    """Return the console for results; given: for rich's own."""
    return _Console(**given)


def make_progress_console() -> Console:
    """Return the console for progress, on stderr."""
    return _Console(stderr=True)
