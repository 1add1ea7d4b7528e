"""Writes man/man1, a manual page for each command: `python -m tools.docs.manpages`."""

from __future__ import annotations

import inspect
import re
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

import click
from docutils import nodes
from docutils.core import publish_from_doctree
from docutils.utils import new_document

import dbcheck
from dbcheck.cli import MEANS, MEANS_ALSO
from dbcheck.cli.flags.groups import Group
from dbcheck.cli.root import VERBS
from tests.kit.commandtree import contexts, inner_commands, options_of

FOLDER = Path(__file__).parents[2] / "man" / "man1"  # which setup.cfg names
_WRITTEN = re.compile(r"(?P<names>-\S+(?:, -\S+)*)(?: (?P<value>.+))?")


def write(folder: Path) -> None:
    """Write the page of each command, and remove all else from *folder*."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for context in contexts():
        (folder / f"{name_of(context)}.1").write_text(page(context), "utf-8")


def name_of(context: click.Context) -> str:
    """Return the name of a command's page, e.g. dbcheck-lab-run."""
    return context.command_path.replace(" ", "-")


def summary_of(path: str, command: click.Command) -> str:
    """Return what a command does, in one line, as the help of the one above has it.

    path: e.g. "dbcheck lab run".
    """
    own = VERBS.get(path.removeprefix("dbcheck "))
    return own or command.get_short_help_str(limit=200)


def page(context: click.Context) -> str:
    """Return the page of one command, as groff and mandoc read it."""
    document = new_document(name_of(context))
    summary = summary_of(context.command_path, context.command)
    document += nodes.title(text=name_of(context))
    document += nodes.subtitle(text=summary.rstrip("."))
    document += _head()
    # An option or a URL with a hyphen at the end of a line cannot be searched for.
    document += nodes.raw("", ".nh\n.nr HY 0\n.ad l", format="manpage")
    document += _section("Synopsis", _synopsis(context))
    document += _section("Description", *_paragraphs(context.command.help or ""))
    document += _option_sections(context)
    if inner := [*inner_commands(context)]:
        path = context.command_path
        listed = ((name, summary_of(f"{path} {name}", each)) for name, each in inner)
        document += _section("Commands", _named(listed))
    document += _section("Exit status", _named(_exit_codes(context)))
    document += _section("See also", nodes.paragraph(text=_see_also(context)))
    text = publish_from_doctree(
        document, writer="manpage", settings_overrides={"output_encoding": "unicode"}
    )
    assert isinstance(text, str)
    return text


def _head() -> nodes.docinfo:
    """Return what the head and the foot of a page show."""
    head = nodes.docinfo()
    head += nodes.version(text=f"dbcheck {dbcheck.__version__}")
    for name, value in (("manual_section", "1"), ("manual_group", "dbcheck")):
        body = nodes.field_body("", nodes.paragraph(text=value))
        head += nodes.field("", nodes.field_name(text=name), body)
    return head


def _section(title: str, *content: nodes.Node) -> nodes.section:
    return nodes.section("", nodes.title(text=title), *content)


def _synopsis(context: click.Context) -> nodes.paragraph:
    pieces = context.command.collect_usage_pieces(context)
    name = nodes.strong(text=context.command_path)
    return nodes.paragraph("", "", name, nodes.Text(f" {' '.join(pieces)}"))


def _paragraphs(text: str) -> Iterator[nodes.Node]:
    """Yield the paragraphs of a help; click leaves the lines as they are behind \\b."""
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        if paragraph.startswith("\b\n"):
            lines = paragraph.removeprefix("\b\n")
            yield nodes.literal_block(lines, lines)
        else:
            yield nodes.paragraph(text=" ".join(paragraph.split()))


def _option_sections(context: click.Context) -> list[nodes.section]:
    """Return a section for each heading of the help."""
    sections: dict[str, list[tuple[nodes.term, str]]] = {Group.section: []}
    for option, written, means in options_of(context):
        section = getattr(option, "section", Group.section)
        sections.setdefault(section, []).append((_option(written), means))
    return [
        _section(title if title == Group.section else f"{title} options", _list(rows))
        for title, rows in sections.items()
    ]


def _option(written: str) -> nodes.term:
    """Return an option as a page shows it, of how the help shows it."""
    found = _WRITTEN.fullmatch(written)
    assert found, written
    term = nodes.term(text=found["names"])
    if found["value"]:
        term += [nodes.Text(" "), nodes.emphasis(text=found["value"])]
    return term


def _list(rows: Iterable[tuple[nodes.term, str]]) -> nodes.definition_list:
    found = nodes.definition_list()
    for term, text in rows:
        body = nodes.definition("", nodes.paragraph(text=" ".join(text.split())))
        found += nodes.definition_list_item("", term, body)
    return found


def _named(rows: Iterable[tuple[str, str]]) -> nodes.definition_list:
    return _list((nodes.term(text=name), text) for name, text in rows)


def _exit_codes(context: click.Context) -> Iterator[tuple[str, str]]:
    """Yield each exit code, with what it means of this command alone."""
    own = context.command_path.removeprefix("dbcheck ")
    for code, means in MEANS.items():
        found = [means]
        for name, when in MEANS_ALSO.get(code, {}).items():
            if name == own:
                found.append(when)
            elif name.startswith(f"{own} --"):
                found.append(f"with {name.removeprefix(own).strip()}, {when}")
        yield str(code), "; ".join(found) + "."


def _see_also(context: click.Context) -> str:
    """Return the pages right above and below one, and those of the whole."""
    names = [] if context.parent is None else [name_of(context.parent)]
    names += [f"{name_of(context)}-{name}" for name, _ in inner_commands(context)]
    return ", ".join(f"{name}(1)" for name in names)


if __name__ == "__main__":
    write(FOLDER)
