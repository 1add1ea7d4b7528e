"""What a hint tells the user to type exists: commands, their options, variables."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import click
import pytest

from dbcheck.inventory.entry import KNOWN, SECRETS
from tests.kit.commandtree import contexts
from tests.kit.syntax import PACKAGE, SOURCES, nodes_in, nodes_of

PLACEHOLDER = "X"  # what stands in a text for a value of the run
OTHER_PROGRAMS = {"--systohc"}  # of hwclock
COMMANDS = {
    context.command_path.removeprefix("dbcheck").strip(): context
    for context in contexts()
}
# "dbcheck creates it" is a sentence about the program; what follows "Run" is typed.
_COMMAND = re.compile(
    r"(\b[Rr]un )?\bdbcheck ([a-z-]+)(?![\w-])(?: ([a-z-]+)(?![\w-]))?([^.;,`\n]*)"
)
_OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]*")
_VARIABLE = re.compile(r"\b(?:dbcheck|ansible)_[a-z_]*[a-z](?![\w{])")
_VARIABLES = {*KNOWN, *SECRETS}


class Hint(NamedTuple):
    """A text that is given as hint=, with the place for a failing test's name."""

    place: str
    text: str


def _read_text(node: ast.expr) -> str:
    if isinstance(node, ast.JoinedStr):
        parts = (v if isinstance(v, ast.Constant) else None for v in node.values)
        return "".join(str(part.value) if part else PLACEHOLDER for part in parts)
    return str(node.value) if isinstance(node, ast.Constant) else ""


def list_hints(nodes: Iterable[ast.AST], name: str) -> Iterator[Hint]:
    """Yield each text in the value of a keyword hint of a call."""
    for node in nodes:
        if isinstance(node, ast.keyword) and node.arg == "hint":
            inner = {
                part
                for each in ast.walk(node.value)
                if isinstance(each, ast.JoinedStr)
                for part in each.values
            }
            for each in ast.walk(node.value):
                if isinstance(each, ast.Constant | ast.JoinedStr) and each not in inner:
                    yield Hint(f"{name}:{each.lineno}", _read_text(each))


def find_errors(text: str) -> Iterator[str]:
    """Yield what *text* names and the program does not have."""
    for is_typed, first, second, rest in _COMMAND.findall(text):
        name = f"{first} {second}" if f"{first} {second}" in COMMANDS else first
        context = COMMANDS.get(name)
        if context is None:
            if is_typed and first != "on":
                yield f"there is no command {name}"
        elif isinstance(context.command, click.Group):
            yield f"{name} has no command {second}"
        else:
            known = _list_options(context)
            yield from (
                f"{name} has no option {option}"
                for option in _OPTION.findall(rest)
                if option not in known
            )
    everywhere = {
        option for each in COMMANDS.values() for option in _list_options(each)
    }
    for option in _OPTION.findall(text):
        if option not in everywhere | OTHER_PROGRAMS:
            yield f"no command has the option {option}"
    for variable in _VARIABLE.findall(text):
        if variable.startswith("dbcheck_") and variable not in _VARIABLES:
            yield f"no inventory has the variable {variable}"


def _names_command(text: str) -> bool:
    return any(found[1] in COMMANDS for found in _COMMAND.findall(text))


def _list_options(context: click.Context) -> set[str]:
    params = context.command.get_params(context)
    return {each for param in params for each in (*param.opts, *param.secondary_opts)}


def test_each_hint_names_what_exists() -> None:
    hints = [
        hint
        for path in SOURCES
        for hint in list_hints(nodes_of(path), str(path.relative_to(PACKAGE)))
    ]
    wrong = [
        f"{hint.place}: {error}: {hint.text}"
        for hint in hints
        for error in find_errors(hint.text)
    ]
    assert not wrong
    assert len(hints) > 400
    assert sum(_names_command(hint.text) for hint in hints) > 20
    assert sum(bool(_VARIABLE.search(hint.text)) for hint in hints) > 30


@pytest.mark.parametrize(
    ("hint", "error"),
    [
        ('"Run dbcheck rnu db1."', "there is no command rnu"),
        ('"Run dbcheck witness look db1."', "witness has no command look"),
        (
            'f"Run dbcheck reconcile {run} --ofline."',
            "reconcile has no option --ofline",
        ),
        ('"Run dbcheck run db1 --offline."', "run has no option --offline"),
        ('"Add --target-hosts."', "no command has the option --target-hosts"),
        (
            '"Set dbcheck_host." if x else ""',
            "no inventory has the variable dbcheck_host",
        ),
    ],
)
def test_a_hint_that_leads_nowhere_is_found(hint: str, error: str) -> None:
    source = f"raise E('no', hint={hint})"
    found = "".join(each.text for each in list_hints(nodes_in(source), "a.py"))
    assert error in set(find_errors(found))
