"""How a verb ends: the report or its JSON on stdout, and the exit code."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from typing import Any, NoReturn

import click
from rich.console import Console

from dbcheck.campaign.outcome import Outcome, to_json
from dbcheck.cli import FAIL, INCONCLUSIVE, PASS
from dbcheck.cli.root import give_up_printing, mute
from dbcheck.core.evidence import Verdict
from dbcheck.report.verdict import verdict_report

EXIT_CODES = {
    Verdict.PASS: PASS,
    Verdict.FAIL: FAIL,
    Verdict.INCONCLUSIVE: INCONCLUSIVE,
}


class _Console(Console):
    """rich would exit with 1, which means FAIL, when nobody reads what it prints."""

    def on_broken_pipe(self) -> None:
        """Let the error through that is just being handled."""
        raise


def console() -> Console:
    """Return the console for results."""
    return _Console(highlight=False)


def progress_console() -> Console:
    """Return the console for what is going on, which is no result."""
    return _Console(stderr=True, highlight=False)


def print_json(value: Any) -> None:
    """Print *value* as JSON on stdout."""
    click.echo(json.dumps(value, indent=1))


@contextlib.contextmanager
def printing() -> Iterator[None]:
    """Print a result whose exit code is known: it holds, also if nobody can read it."""
    try:
        yield
    except BrokenPipeError:
        mute(sys.stdout)
    except OSError as error:
        give_up_printing(error)


def end_with(outcome: Outcome, *, as_json: bool) -> NoReturn:
    """Show a judged run and exit with its verdict's code."""
    result = to_json(outcome)
    with printing():
        if as_json:
            print_json(result)
        else:
            console().print(verdict_report(result))
    sys.exit(EXIT_CODES[outcome.verdict])
