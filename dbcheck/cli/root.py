"""The verbs, one module for each, imported when it is called; their exit codes."""

from __future__ import annotations

import contextlib
import errno
import gc
import importlib
import io
import os
import sys
import traceback
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TextIO

import click

import dbcheck
from dbcheck.base import interrupt
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import DbcheckError, UsageError
from dbcheck.cli import FAILED, MEANS, PASS, USAGE
from dbcheck.cli.say import say, say_error, say_misuse

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

VERBS = {
    "demo": "Show on this machine what a lying drive and unsafe settings lose.",
    "golive": "Check a new server before it goes live, step by step.",
    "audit": "Check settings, filesystems and drives without a cut.",
    "probe": "Measure without a cut what commits and flushes do to the drives.",
    "run": "Run one cycle: load, cut, restore, reconcile, verdict.",
    "campaign": "Cut the power many times; report what that proves.",
    "snapshot": "Copy a server under load, restore the copy, and judge it.",
    "reconcile": "Judge a run of a cut or a copy, for the first time or again.",
    "report": "Show a stored result as a page, a ticket, or a file for CI.",
    "bundle": "Put all the evidence of a run or a campaign into one file.",
    "verify": "Judge a bundle again, and say whether anything differs.",
    "witness": "Check a witness; show or verify a run's log.",
    "power": "Show, cut and restore a host's power; test its switch.",
    "lab": "Run cycles on a virtual drive with real servers.",
    "matrix": "Compare several configurations in one table.",
    "explain": "Print what an id in a message or a result means and what to do.",
    "grants": "Print the statements that give dbcheck's account its rights.",
    "workloads": "List the workloads: what each does, finds and costs.",
    "init": "Write an inventory: of your server, or an example with comments.",
    "clean": "Remove what dbcheck left on a target, or a run from a witness.",
    "completion": "Print the script that completes commands in bash, zsh or fish.",
}


PROGRAM = "dbcheck"
# Why stdout takes no more: a full disk, a quota, a limit of size, a fault, closed.
_UNPRINTED = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)
_NO_TEMPORARY = "No usable temporary directory"  # tempfile's own words
COMPLETE = "_DBCHECK_COMPLETE"  # set by a shell that wants to know how a word goes on


class _Unread(Exception):
    """The reader of stdout is gone."""


@contextlib.contextmanager
def _detect_lost_reader() -> Iterator[None]:
    """Make an error of its own of a reader that is gone, as of `| head`.

    click would exit with 1, which means FAIL.
    """
    try:
        yield
    except BrokenPipeError as error:
        raise _Unread from error


class _Verbs(click.Group):
    """Imports a verb's module only when that verb is called: --help stays quick."""

    def make_context(self, *given: Any, **more: Any) -> click.Context:
        """Read the command line, and print what --version and --help do."""
        with _detect_lost_reader():
            return super().make_context(*given, **more)

    def invoke(self, ctx: click.Context) -> object:
        """Run a verb."""
        with _detect_lost_reader():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in VERBS:
            return None
        command: click.Command = _import_module(f"dbcheck.cli.{name}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the verb; an error names the verbs that are written much like it."""
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchCommand as error:
            raise click.NoSuchCommand(
                error.command_name, possibilities=VERBS, ctx=ctx
            ) from None

    def shell_complete(
        self, ctx: click.Context, incomplete: str
    ) -> list[CompletionItem]:
        """Return the verbs without importing any, which would take a second."""
        from click.shell_completion import CompletionItem

        options = click.Command.shell_complete(self, ctx, incomplete)
        verbs = [name for name in VERBS if name.startswith(incomplete)]
        return [*(CompletionItem(name, help=VERBS[name]) for name in verbs), *options]

    def format_commands(
        self, ctx: click.Context, formatter: click.HelpFormatter
    ) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(VERBS.items()))


def _import_module(name: str) -> Any:
    """Import a verb's module; its objects are never searched for garbage.

    It stays until the end: dozens of searches during the import would find nothing,
    nor would those at exit, which take as long again.
    """
    gc.disable()
    try:
        module = importlib.import_module(name)
        gc.freeze()
    finally:
        gc.enable()
    return module


@click.command(
    cls=_Verbs,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="\b\nExit codes:\n"
    + "\n".join(f"  {code}  {means}" for code, means in MEANS.items()),
)
@click.version_option(dbcheck.__version__, prog_name=PROGRAM)
def root() -> None:
    """Check that committed rows are still there after the power goes.

    The program commits rows to a PostgreSQL or MySQL/MariaDB server, has every
    acknowledgement logged durably on a separate host (the witness), has the
    server's power cut, and lists the committed rows that are missing afterwards.
    """


def run() -> int:
    """Run the command line; return the exit code, with all output written.

    Raise KeyboardInterrupt if another one comes while the first is being handled.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):  # what it cannot encode is escaped
        sys.stdout.reconfigure(errors="backslashreplace")
    if COMPLETE in os.environ:  # a message would stand in the line that is typed
        mute(sys.stderr)
    try:
        root.main(standalone_mode=False, complete_var=COMPLETE)
        sys.stdout.flush()
    except SystemExit as error:  # a verb's verdict; its result is printed
        return _exit_code(error)
    except click.ClickException as error:
        with _write_to_stderr():
            say_misuse(error)
        return USAGE
    except DbcheckError as error:
        with _write_to_stderr():
            say_error(error)
        return USAGE if isinstance(error, UsageError) else FAILED
    except (KeyboardInterrupt, click.Abort):
        _report_interrupt("")
        return FAILED
    except (_Unread, BrokenPipeError):
        mute(sys.stdout)
        return FAILED
    except BaseException as error:  # as a panic in cryptography's Rust code
        _report_unexpected(error)
        return FAILED
    return PASS


def _exit_code(error: SystemExit) -> int:
    return error.code if isinstance(error.code, int) else PASS


def _report_interrupt(at: str) -> None:
    with _write_to_stderr():
        say(f"dbcheck: interrupted{at}", err=True)


def _report_unexpected(error: BaseException) -> None:
    if interrupt.is_caused_by_interrupt(error) or interrupt.count_interrupts():
        _report_interrupt(f" ({error!r})")
    elif isinstance(error, OSError) and error.filename is not None:
        with _write_to_stderr():
            say_error(_access_error(error))
    elif isinstance(error, FileNotFoundError) and _NO_TEMPORARY in str(error):
        with _write_to_stderr():
            say_error(_no_temporary_folder_error(error))
    elif isinstance(error, OSError) and error.errno in _UNPRINTED:
        give_up_printing(error)  # an error of a run folder would be a DbcheckError
    else:  # a defect of ours; Python's own exit code for it means FAIL
        with _write_to_stderr():
            say(*traceback.format_exc().rstrip().split("\n"), err=True)


def _access_error(error: OSError) -> DbcheckError:
    """Return the error for a file or folder that dbcheck cannot use."""
    return DbcheckError(
        f"{os.fsdecode(error.filename)}: {error.strerror}",
        id=ErrorId.FILE_NOT_READABLE,
        hint="Look at who may read it and enter the folders above it (ls -ld), and at "
        "what it is.",
    )


def _no_temporary_folder_error(error: OSError) -> DbcheckError:
    """Return the error for a machine on which no folder takes a temporary file."""
    return DbcheckError(
        f"no folder takes a temporary file: {error.strerror}",
        id=ErrorId.FILE_NOT_READABLE,
        hint="Make room, or set TMPDIR to a folder where this user may write.",
    )


def give_up_printing(error: OSError) -> None:
    """Report on stderr why stdout cannot be written; discard what is written to it."""
    mute(sys.stdout)
    with _write_to_stderr():
        say(f"dbcheck: the result cannot be printed: {error.strerror}", err=True)


@contextlib.contextmanager
def _write_to_stderr() -> Iterator[None]:
    """Write to stderr, if it is still open; the exit code stays the same."""
    try:
        yield
    except OSError:  # as on a terminal that was closed
        mute(sys.stderr)


def mute(stream: TextIO) -> None:
    """Discard what is written to *stream* from now on, and what it has buffered.

    Else the interpreter would fail to flush it at its end and change the exit code.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
