"""Ends a command: the report or its JSON on stdout or in a file, and the exit code."""

from __future__ import annotations

import contextlib
import json
import secrets
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

import click

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import RunWriteError
from dbcheck.base.system import sync
from dbcheck.cli import FAIL, FAILED, INCONCLUSIVE, PASS
from dbcheck.cli.root import give_up_printing, mute
from dbcheck.cli.say import say
from dbcheck.cycle.outcome import Outcome
from dbcheck.judge.result import to_values
from dbcheck.judge.results import CampaignResult
from dbcheck.model.verdict import Verdict
from dbcheck.report.console import make_console
from dbcheck.report.verdict import verdict_report

EXIT_CODES = {
    Verdict.PASS: PASS,
    Verdict.FAIL: FAIL,
    Verdict.INCONCLUSIVE: INCONCLUSIVE,
}


def print_json(value: Any) -> None:
    """Print *value* as JSON, in ASCII, on stdout."""
    say(*json.dumps(value, indent=1).split("\n"))


def print_text(text: str) -> None:
    """Print *text* unchanged; the caller has escaped untrusted parts."""
    click.echo(text, nl=False)


@contextlib.contextmanager
def exit_if_unprintable(code: int) -> Iterator[None]:
    """Exit with *code* if the `with` block cannot print a result, else go on.

    If *code* is a success, exit with FAILED instead.  It is not reported that nobody
    reads the result any more, as with `| head`.
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

    reconcile: the command that continues a run which is not final; "" for the command
               without flags.
    """
    result = outcome.result
    code = EXIT_CODES[outcome.verdict]
    with exit_if_unprintable(code):
        if as_json:
            print_json(to_values(result))
        else:
            make_console().print(verdict_report(result, reconcile))
    sys.exit(code)


def write_file(file: Path, chunks: Iterable[bytes]) -> None:
    """Write *file*, with the mode that the umask gives, whole or not at all.

    If *file* is a link, its target is replaced.  /dev/stdout or a pipe is written to.
    Raise RunWriteError.
    """
    try:
        if file.exists() and not file.is_file():
            with file.open("wb") as opened:
                opened.writelines(chunks)
        else:
            _replace(file.resolve(), chunks)
    except OSError as error:
        raise RunWriteError(
            f"{file} cannot be written: {error.strerror}",
            id=ErrorId.FILE_NOT_WRITABLE,
            hint="Name a file in a folder that is there, or make room.",
        ) from None


def _replace(file: Path, chunks: Iterable[bytes]) -> None:
    part = file.with_name(f".{file.name}.{secrets.token_hex(4)}.part")
    try:
        with part.open("xb") as opened:
            opened.writelines(chunks)
            opened.flush()
            sync(opened.fileno())
        part.replace(file)
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)


def campaigns_code(results: Sequence[CampaignResult]) -> int:
    """Return the exit code for several campaigns: that of the worst result."""
    codes = set(map(_exit_code, results))
    return next(code for code in (FAIL, FAILED, INCONCLUSIVE, PASS) if code in codes)


def _exit_code(result: CampaignResult) -> int:
    if result.verdict is Verdict.FAIL:
        return FAIL
    if result.error:
        return FAILED
    return INCONCLUSIVE if result.verdict is Verdict.INCONCLUSIVE else PASS
