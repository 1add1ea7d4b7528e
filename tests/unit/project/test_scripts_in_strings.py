"""Programs in strings of tests use names that dbcheck has.

A linter sees nothing of them, and where one runs as `sitecustomize` or in the
background, nobody sees its error either.
"""

from __future__ import annotations

import ast
import importlib
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.syntax import ROOT, TESTS, nodes_in


def module_of(name: str) -> types.ModuleType | None:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        return None


def text_of(node: ast.expr) -> str:
    """Return a string, with 0 for each value of an f-string; "" of anything else."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(text_of(part) or "0" for part in node.values)
    return ""


def scripts() -> Iterator[tuple[str, ast.Module]]:
    """Yield where a string stands that is a program which imports dbcheck, and it."""
    for source in TESTS:
        if source == Path(__file__):
            continue
        for node in nodes_in(source.read_text()):
            if not isinstance(node, ast.expr) or "from dbcheck" not in text_of(node):
                continue
            try:
                program = ast.parse(text_of(node))
            except SyntaxError:
                continue  # a sentence, or a part of a program
            yield f"{source.relative_to(ROOT)}:{node.lineno}", program


def unknown_names(script: ast.Module) -> Iterator[str]:
    """Yield what a program imports from dbcheck, or uses of its modules, and is not."""
    modules: dict[str, types.ModuleType] = {}
    for node in ast.walk(script):
        if not isinstance(node, ast.ImportFrom) or not node.module:
            continue
        if node.module.partition(".")[0] != "dbcheck":
            continue
        package = module_of(node.module)
        for alias in node.names:
            name = f"{node.module}.{alias.name}"
            if (module := module_of(name)) is not None:
                modules[alias.asname or alias.name] = module
            elif not hasattr(package, alias.name):
                yield name
    for node in ast.walk(script):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module = modules.get(node.value.id)
            if module is not None and not hasattr(module, node.attr):
                yield f"{module.__name__}.{node.attr}"


def test_a_program_in_a_string_uses_names_that_are_there() -> None:
    found = {where: [*unknown_names(script)] for where, script in scripts()}
    assert len(found) > 10
    assert not {where: names for where, names in found.items() if names}


@pytest.mark.parametrize(
    "text",
    [
        "from dbcheck.lab import nothing_such",
        "from dbcheck.nothing_such import lab",
        "from dbcheck.lab import lab\nlab.nothing_such()",
        "from dbcheck.lab import lab as one\none.nothing_such = 1",
    ],
)
def test_a_name_that_is_gone_is_found(text: str) -> None:
    assert [*unknown_names(ast.parse(text))]
