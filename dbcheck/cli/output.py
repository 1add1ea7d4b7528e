"""Ends a verb: the report or its JSON on stdout, and the exit code."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterable, Iterator
from typing import Any, NoReturn

import click
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Span, Text

from dbcheck.base.text import quoted
from dbcheck.cli import FAIL, FAILED, INCONCLUSIVE, PASS
from dbcheck.cli.root import give_up_printing, mute
from dbcheck.cli.say import say
from dbcheck.cycle.outcome import Outcome
from dbcheck.judge.result import to_values
from dbcheck.model.verdict import Verdict
from dbcheck.report.verdict import verdict_report

EXIT_CODES = {
    Verdict.PASS: PASS,
    Verdict.FAIL: FAIL,
    Verdict.INCONCLUSIVE: INCONCLUSIVE,
}


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
            renderable = _quoted(renderable)
        return super().render(renderable, options)

    def on_broken_pipe(self) -> None:
        """Raise the BrokenPipeError again.

        rich would exit with 1, which means FAIL, when the reader of its output is gone.
        """
        raise


def _quoted(text: Text) -> Text:
    """Return *text* with each style on the characters that it was on."""
    plain = text.plain
    if (shown := quoted(plain)) == plain:
        return text

    def moved(place: int) -> int:
        return len(quoted(plain[:place]))

    copy = text.blank_copy(shown)
    copy.spans = [Span(moved(s.start), moved(s.end), s.style) for s in text.spans]
    return copy


def console(**given: Any) -> Console:
    """Return the console for results; given: for rich's own."""
    return _Console(**given)


def progress_console() -> Console:
    """Return the console for progress, on stderr."""
    return _Console(stderr=True)


def print_json(value: Any) -> None:
    """Print *value* as JSON, in ASCII, on stdout."""
    say(*json.dumps(value, indent=1).split("\n"))


def print_text(text: str) -> None:
    """Print *text* on stdout as it is: whoever made it saw to what is foreign in it."""
    click.echo(text, nl=False)


@contextlib.contextmanager
def printing(code: int) -> Iterator[None]:
    """Print a result, after which the command exits with *code*.

    If it cannot be printed, exit here: then a success counts as a failure, and any
    other code stays.  Nothing is said of a reader who is gone, as of `| head`.
    """
    try:
        yield
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            mute(sys.stdout)
        else:
            give_up_printing(error)
        sys.exit(code or FAILED)


def end_with(outcome: Outcome, *, as_json: bool, reconcile: str = "") -> NoReturn:
    """Show a judged run and exit with its verdict's code.

    reconcile: see report.words.run.caveats().
    """
    result = outcome.result
    code = EXIT_CODES[outcome.verdict]
    with printing(code):
        if as_json:
            print_json(to_values(result))
        else:
            console().print(verdict_report(result, reconcile))
    sys.exit(code)
