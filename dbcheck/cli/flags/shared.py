"""Flags that several verbs share, and that describe no host; see groups.py."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.cli.flags.groups import FILE, FOLDER, SEED, F, Flag, Group, Number, option
from dbcheck.model.cluster import Promise
from dbcheck.runs.folder import RUNS

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


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
            help="Cut although the server also has other databases or other clients, "
            "or does not report them; or although its address is not one of the "
            "host's.",
        ),
    ] = False


Completing = Callable[[click.Context, click.Parameter, str], "list[CompletionItem]"]


def complete_names(names: Callable[[], Iterable[str]], *, or_file: bool) -> Completing:
    """Return the shell completion of an option that takes one of *names*.

    names:   called only when a shell asks.
    or_file: complete files if no name fits.
    """

    def complete(
        context: click.Context, option: click.Parameter, begun: str
    ) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        matches = [CompletionItem(name) for name in names() if name.startswith(begun)]
        files = [CompletionItem(begun, type="file")] if or_file else []
        return matches or files

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


def draw_seed(seed: int | None) -> int:
    """Return *seed*, or a random seed if it is None."""
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


def seed(decides: str) -> Callable[[F], F]:
    """Add --seed; decides: what the number decides, as a sentence for the help."""
    text = f"{decides} Default: random."
    return option("--seed", type=SEED, metavar="N", help=text)


def runs() -> Callable[[F], F]:
    """Add --runs, the parent of the run folders."""
    return option(
        "--runs",
        type=FOLDER,
        default=RUNS,
        show_default=True,
        help="Folder in which each run gets a folder of its own.",
    )


def promise() -> Callable[[F], F]:
    """Add --promise, what a cluster is tested for."""
    return option(
        "--promise",
        type=click.Choice([each.value for each in Promise]),
        help="Of a cluster whose dbcheck_survives lists several: the one to test.",
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
