"""Flags that several verbs share, and that describe no host; see groups.py."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click

from dbcheck.base import limits
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.base.owners import expanded
from dbcheck.cli.groups import F, Flag, Group, Number, option

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


# The upper bound is too large to matter, and refuses infinity.
SECONDS = Number(limits.SECONDS_MIN, limits.SECONDS_MAX)
SEED = click.IntRange(0, 2**62)


class UserPath(click.Path):
    """A path as a user writes it, with ~ also where a shell leaves it: --runs=~/runs.

    It need not be there; one that cannot be looked at or entered is refused.
    """

    def __init__(self, *, file_okay: bool = True, dir_okay: bool = True) -> None:
        super().__init__(file_okay=file_okay, dir_okay=dir_okay, path_type=Path)

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Any:
        """Return the Path; fail if nothing could be read or made there."""
        try:
            path = expanded(os.fspath(value))
            is_folder = stat.S_ISDIR(os.stat(path).st_mode)
        except LookupError as error:
            self.fail(str(error.args[0]), param, ctx)
        except FileNotFoundError:
            is_folder = False
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            self.fail(f"{os.fspath(value)!r}: {reason}.", param, ctx)
        if is_folder and not os.access(path, os.X_OK):
            self.fail(f"You may not enter the folder {path!r}.", param, ctx)
        return super().convert(path, param, ctx)


ANY_PATH = UserPath()
FILE = UserPath(dir_okay=False)
FOLDER = UserPath(file_okay=False)


@dataclass(frozen=True)
class ConsentOptions(Group):
    """What the user confirms before an unattended switch cuts."""

    section = "Safety"

    yes: Annotated[
        bool,
        Flag(
            "--yes",
            is_flag=True,
            help="Confirm the first cut of a host by its switch. Without it the cut is "
            "only described.",
        ),
    ] = False
    i_know: Annotated[
        bool,
        Flag(
            "--i-know",
            is_flag=True,
            help="Cut although the server holds other databases, has other clients, "
            "or does not report them; or although its address is not one of the "
            "host's.",
        ),
    ] = False


Completing = Callable[[click.Context, click.Parameter, str], "list[CompletionItem]"]


def completed(names: Callable[[], Iterable[str]], *, or_file: bool) -> Completing:
    """Return how a shell completes an option that takes one of *names*.

    names:   called only when a shell asks.
    or_file: files are completed where no name fits.
    """

    def complete(
        context: click.Context, option: click.Parameter, begun: str
    ) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        found = [CompletionItem(name) for name in names() if name.startswith(begun)]
        files = [CompletionItem(begun, type="file")] if or_file else []
        return found or files

    return complete


def require_file(name: str, file: Path | None) -> None:
    """Raise UsageError unless the file that was given for *name* is there."""
    if file is not None and not file.is_file():
        raise UsageError(
            f"{name}: file not found: {file}",
            id=ErrorId.FILE_NOT_FOUND,
            hint="Check the path; it must name a regular file.",
        )


def written_to(text: str, *, required: bool = False) -> Callable[[F], F]:
    """Add -o, --output, the file that a verb writes; text: its help."""
    names = ("-o", "--output", "file")
    return option(*names, type=FILE, metavar="FILE", required=required, help=text)


def drawn(seed: int | None) -> int:
    """Return *seed*, a random one if none is given."""
    return secrets.randbits(31) if seed is None else seed


def until() -> Callable[[F], F]:
    """Add --until, the bound that the cuts are to show."""
    return option(
        "--until",
        type=Number(0.0001, 0.5),
        metavar="SHARE",
        help="Make as many cuts as show with 95% confidence, if none loses, that at "
        "most this share of cuts lose; 0.05 takes 59 cuts. The first loss ends it.",
    )


RUNS = Path("runs")


def runs() -> Callable[[F], F]:
    """Add --runs, the parent of the run folders."""
    return option(
        "--runs",
        type=FOLDER,
        default=RUNS,
        show_default=True,
        help="Folder in which each run gets a folder of its own.",
    )


def everything() -> Callable[[F], F]:
    """Add --all."""
    return option(
        "--all", "everything", is_flag=True, help="Every target of the inventory."
    )


def as_json() -> Callable[[F], F]:
    """Add --json."""
    return option(
        "--json", "as_json", is_flag=True, help="Print the result as JSON on stdout."
    )
