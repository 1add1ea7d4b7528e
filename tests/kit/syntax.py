"""The parts of Python programs, for tests of how the code is written."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import dbcheck

PACKAGE = Path(dbcheck.__file__).resolve().parent
ROOT = PACKAGE.parent
SOURCES = sorted(PACKAGE.rglob("*.py"))
# Tests, and the programs for developers.
TESTS = sorted(
    path for folder in ("tests", "tools") for path in (ROOT / folder).rglob("*.py")
)


def nodes_in(program: str | ast.AST) -> list[ast.AST]:
    """Return the nodes of a program or of a part of it, as ast.walk() yields them.

    It takes half as long, and the whole code is half a million nodes for each test.
    """
    found = [ast.parse(program) if isinstance(program, str) else program]
    for node in found:  # which grows meanwhile
        for name in node._fields:
            value = getattr(node, name, None)
            if isinstance(value, list):
                found += [each for each in value if isinstance(each, ast.AST)]
            elif isinstance(value, ast.AST):
                found.append(value)
    return found


@cache
def nodes_of(source: Path) -> Sequence[ast.AST]:
    """Return the nodes of a file, which nobody changes; each file is parsed once.

    They take 140 MB of memory for dbcheck/: use nodes_in() for what one test reads.
    """
    return nodes_in(source.read_text("utf-8"))


def dotted(node: ast.expr) -> str:
    """Return a name with those before its dots, e.g. "os.path.join".

    It begins with a dot if something other than a name stands first; "" is no name.
    """
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""
