"""All of dbcheck decodes where two threads cannot meet (base/decoding.py says why)."""

import ast
from pathlib import Path

import dbcheck

DBCHECK = Path(dbcheck.__file__).parent


def test_each_module_decodes_by_way_of_the_lock() -> None:
    direct = [
        f"{source.relative_to(DBCHECK)}:{node.lineno}"
        for source in DBCHECK.rglob("*.py")
        if source.name != "decoding.py"
        for node in ast.walk(ast.parse(source.read_text()))
        if isinstance(node, ast.Attribute)
        and ast.unparse(node).startswith(
            ("msgspec.convert", "msgspec.json.decode", "msgspec.json.Decoder")
        )
    ]

    assert direct == []
