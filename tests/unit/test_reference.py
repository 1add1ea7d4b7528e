"""What a user can write and what dbcheck can answer stands in the documents."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import NamedTuple

import click
import pytest

from dbcheck import cli
from dbcheck.cli.root import root
from dbcheck.core.loss import LossKind
from dbcheck.core.workload import Workload
from dbcheck.inventory.entry import KNOWN
from dbcheck.judge.diagnosis import Cause

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference.md"
DOCUMENTS = (*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md")))


def rows_of(section: str) -> dict[str, str]:
    """Return the rows of a section's table, by the name in their first cell."""
    text = REFERENCE.read_text("utf-8")
    body = text.split(f"\n## {section}\n")[1].split("\n## ")[0]
    found = re.findall(r"^\| `([^`]+)` \|(.*)\|$", body, re.M)
    assert len(dict(found)) == len(found), f"{section}: a row is there twice"
    return dict(found)


def require_rows(section: str, wanted: set[str]) -> None:
    """Fail unless the table of a section has a row for each, and for nothing else."""
    there = set(rows_of(section))
    place = f"{REFERENCE.relative_to(ROOT)}, table {section!r}"
    assert not wanted - there, f"add to {place}: {sorted(wanted - there)}"
    assert not there - wanted, f"remove from {place}: {sorted(there - wanted)}"


def commands(
    command: click.Command = root, words: tuple[str, ...] = ()
) -> Iterator[tuple[str, click.Command]]:
    """Yield each command that does something, as a user writes it."""
    if not isinstance(command, click.Group):
        yield " ".join(words), command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        inner = command.get_command(context, name)
        assert inner is not None
        yield from commands(inner, (*words, name))


def options() -> dict[str, set[str]]:
    """Return each option, and the commands that take it."""
    found: dict[str, set[str]] = {}
    for words, command in commands():
        for parameter in command.params:
            if isinstance(parameter, click.Option) and not parameter.hidden:
                for name in (*parameter.opts, *parameter.secondary_opts):
                    found.setdefault(name, set()).add(words)
    return found


def test_every_command_is_in_the_reference() -> None:
    require_rows("Commands", {f"dbcheck {words}" for words, _ in commands()})


def test_every_option_is_in_the_reference() -> None:
    require_rows("Options", set(options()))


@pytest.mark.parametrize("option", sorted(options()))
def test_an_option_names_the_commands_that_take_it(option: str) -> None:
    taken_by = rows_of("Options")[option].split("|")[0]
    named = {words.strip() for words in taken_by.split(",")}
    assert named == options()[option], "docs/reference.md, table 'Options'"


def test_every_variable_of_an_inventory_is_in_the_reference() -> None:
    require_rows("Variables of an inventory", set(KNOWN))


def test_every_key_of_a_workload_is_in_the_reference() -> None:
    keys = {field.name for field in fields(Workload)} - {"name"}
    require_rows("Keys of a workload", keys)


def test_every_kind_of_loss_is_in_the_reference() -> None:
    require_rows("Kinds of loss", {kind.value for kind in LossKind})


def test_every_kind_of_loss_is_explained() -> None:
    """Each has a section, which says what it means, what causes it, what is next."""
    text = (ROOT / "docs" / "losses.md").read_text("utf-8")
    sections = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", text, re.M | re.S))
    diagnosed = sections.pop("The diagnosis")
    causes = re.findall(r"^\| `([\w ]+)` \|", diagnosed, re.M)
    assert causes == [cause.value for cause in Cause]
    assert set(sections) == {kind.value for kind in LossKind}
    for name, body in sections.items():
        parts = re.findall(r"^\*\*([\w ]+)\.\*\* \S", body, re.M)
        assert parts == ["Means", "Usual causes", "Next"], name


def test_every_exit_code_is_in_the_reference() -> None:
    codes = (cli.PASS, cli.FAIL, cli.USAGE, cli.INCONCLUSIVE, cli.FAILED)
    require_rows("Exit codes", {str(code) for code in codes})


# ------------------------------------------------------------- command lines


class Shown(NamedTuple):
    """A command line in a document; is_whole: it stands in a block of its own."""

    line: str
    is_whole: bool


def shown(text: str) -> Iterator[Shown]:
    """Yield each command line of dbcheck that a document shows."""
    joined = re.sub(r" *\\\n\s*", " ", text)
    fenced = "".join(re.findall(r"^```.*?^```", joined, re.M | re.S))
    for block, start in ((joined, "    "), (fenced, "")):
        for line in re.findall(rf"^{start} *(?:\$ )?(dbcheck [a-z].*)$", block, re.M):
            yield Shown(line, True)
    for line in re.findall(r"`(dbcheck [a-z][^`]*)`", re.sub(r"\s*\n\s*", " ", text)):
        yield Shown(line, False)


def words_of(line: str) -> list[str]:
    """Return the words of a command line, up to a pipe; `...` stands for others."""
    words = shlex.split(line, comments=True)[1:]
    end = next((at for at, word in enumerate(words) if word in ("|", ">")), len(words))
    return [word for word in words[:end] if word != "..."]


def parse(words: list[str]) -> None:
    """Have click read a command line; nothing runs."""
    command: click.Command = root
    context = click.Context(command)
    while isinstance(command, click.Group) and words:
        name, words = words[0], words[1:]
        inner = command.get_command(context, name)
        assert inner is not None, f"there is no command {name}"
        context = click.Context(inner, info_name=name, parent=context)
        command = inner
    if not isinstance(command, click.Group):
        command.make_context(command.name, words)


SHOWN = [
    pytest.param(*found, id=f"{document.name}: {found.line[:60]}")
    for document in DOCUMENTS
    if document.name != "CHANGELOG.md"  # what it says of old versions stays
    for found in dict.fromkeys(shown(document.read_text("utf-8")))
]


@pytest.mark.parametrize(("line", "is_whole"), SHOWN)
def test_a_command_line_that_is_shown_can_be_read(line: str, is_whole: bool) -> None:
    try:
        parse(words_of(line))
    except (click.MissingParameter, click.BadOptionUsage) as error:
        # A sentence may name a command, or an option, without what it needs.
        assert not is_whole, error.format_message()
    except click.UsageError as error:
        raise AssertionError(error.format_message()) from error


def test_command_lines_are_found_and_wrong_ones_refused() -> None:
    text = "a\n\n    dbcheck run db1 \\\n        --yes   # now\n\n```\ndbcheck x\n```\n"
    text += "See `dbcheck lab\nup`.\ndbcheck is a program.\n"
    assert [words_of(found.line) for found in shown(text)] == [
        ["run", "db1", "--yes"],
        ["x"],
        ["lab", "up"],
    ]
    assert len(SHOWN) > 20
    with pytest.raises(AssertionError, match="no command x"):
        parse(["x"])
    with pytest.raises(click.UsageError, match="--nosuch"):
        parse(["run", "--nosuch"])
