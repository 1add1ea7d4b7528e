"""dbcheck explain: what the documents say about an id that dbcheck prints."""

from __future__ import annotations

from collections.abc import Iterable

import click
from rich.columns import Columns
from rich.console import RenderableType
from rich.markdown import Markdown

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.cli import PASS, output
from dbcheck.cli.flags import shared
from dbcheck.cli.flags.groups import Verb
from dbcheck.config.validated import suggest_nearest
from dbcheck.report.console import make_console
from dbcheck.report.explained import Passage, id_of, passages


def _ids() -> list[str]:
    """Return each id once, in the order of the documents."""
    return list(dict.fromkeys(id for passage in passages() for id in passage.ids))


@click.command("explain", cls=Verb)
@click.argument(
    "id",
    required=False,
    metavar="[ID]",
    shell_complete=shared.complete_names(_ids, or_file=False),
)
def command(id: str | None) -> None:
    """Print what an id in a message or a result means and what to do.

    \b
    dbcheck explain witness-disk-full    an error: the word in brackets behind it
    dbcheck explain witness-log          an item of evidence, with hyphens
    dbcheck explain missing-tail         a kind of loss
    dbcheck explain pg-fsync             a rule of the audit
    dbcheck explain                      lists all ids by subject

    The text is that of docs/guides/troubleshooting.md, of
    docs/guides/reading-a-verdict.md, of docs/losses.md and of docs/rules.md.
    """
    shown = _listed() if id is None else _explained(id_of(id))
    with output.exit_if_unprintable(PASS):
        make_console().print(*shown)


def _explained(id: str) -> Iterable[RenderableType]:
    """Return all passages about an id; raise UsageError if there is none."""
    found = [passage for passage in passages() if id in passage.ids]
    if not found:
        raise UsageError(
            f"dbcheck has no error, item of evidence, loss or rule with the id {id!r}",
            id=ErrorId.ID_UNKNOWN,
            hint=suggest_nearest(id, _ids()) or "dbcheck explain lists all of them.",
        )
    return [Markdown("\n\n---\n\n".join(each.text for each in found), hyperlinks=False)]


def _listed() -> Iterable[RenderableType]:
    subjects: dict[str, list[Passage]] = {}
    for passage in passages():
        subjects.setdefault(passage.subject, []).append(passage)
    for subject, about in subjects.items():
        yield Markdown(f"**{subject}**")
        yield Columns(dict.fromkeys(id for each in about for id in each.ids))
