"""What a user can write and what dbcheck can answer stands in the documents."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import click
import pytest
from msgspec import Meta

from dbcheck.base.text import Explained
from dbcheck.cli.root import root
from dbcheck.inventory.entry import KNOWN, SECRETS
from dbcheck.judge.diagnosis import Cause
from dbcheck.rows.loss import LossKind
from tests.kit.commandtree import contexts, options_of
from tests.kit.documents import DOCUMENTS, shown, words_of
from tools.docs import reference as made

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
VARIABLE = re.compile(r"(?<!\w)dbcheck_[a-z_]*(?![\w{])")  # of an inventory


def test_it_is_what_the_program_gives() -> None:
    """Write it anew with: python -m tools.docs.reference."""
    assert (DOCS / "reference.md").read_text("utf-8") == made.reference()


def test_every_command_and_option_is_there() -> None:
    text = (DOCS / "reference.md").read_text("utf-8")
    for context in contexts():
        if isinstance(context.command, click.Group):
            continue
        assert f"| `{context.command_path}` |" in text
        name = context.command_path.removeprefix("dbcheck ")
        for option, _, _ in options_of(context):
            if "--help" in option.opts:
                continue
            for written in option.opts:
                rows = re.findall(
                    rf"^\| `(?:-\w, )?{written}[` ,].*?\| (.*?) \|", text, re.M
                )
                of = {each for row in rows for each in row.split(", ")}
                assert name in of, (name, written)


def test_what_has_no_description_is_refused() -> None:
    with pytest.raises(ValueError, match="wait_s has no description"):
        made.description(Annotated[float, Meta(ge=1)], "wait_s")
    with pytest.raises(ValueError, match="Colour.RED has no text"):
        made.means_of(Colour.RED)


def test_each_variable_that_is_named_exists() -> None:
    """In documents, messages and examples; secrets stand for their sources."""
    metrics = ROOT / "dbcheck" / "report" / "prometheus.py"
    code = {*(ROOT / "dbcheck").rglob("*.py")} - {metrics}
    known = {*KNOWN, *SECRETS, *VARIABLE.findall(metrics.read_text("utf-8"))}
    wrong = []
    for file in (*DOCUMENTS, *sorted(code), *(ROOT / "inventory").rglob("*.yml")):
        text = file.read_text("utf-8")
        if "from dbcheck.inventory.fields import" in text:
            text = text.replace("{PREFIX}", "dbcheck_")
        for name in VARIABLE.findall(text):
            begins = name.endswith("_") and any(one.startswith(name) for one in known)
            if name not in known and not begins:
                wrong.append(f"{file.relative_to(ROOT)}: {name}")
    assert not wrong


class Colour(Explained):
    RED = "red"


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


# ------------------------------------------------------------- command lines


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
