"""All of dbcheck decodes where two threads cannot meet (base/decoding.py says why)."""

import ast

import pytest

from tests.kit.syntax import PACKAGE, SOURCES, nodes_of

DECODERS = ("convert", "json.decode", "json.Decoder", "msgpack", "toml", "yaml")
# What may be imported by itself; all else is named in full.
IMPORTED_ALONE = {"Meta", "inspect"}


def decodes_directly(node: ast.AST) -> bool:
    """Return True for a decoder of msgspec, or an import that may hide one."""
    if isinstance(node, ast.Import):
        return any(
            each.name.startswith("msgspec") and (each.name != "msgspec" or each.asname)
            for each in node.names
        )
    if isinstance(node, ast.ImportFrom):
        names = {each.name for each in node.names}
        return (node.module or "").startswith("msgspec") and not names <= IMPORTED_ALONE
    return isinstance(node, ast.Attribute) and ast.unparse(node).startswith(
        tuple(f"msgspec.{name}" for name in DECODERS)
    )


def test_each_module_decodes_by_way_of_the_lock() -> None:
    direct = [
        f"{source.relative_to(PACKAGE)}:{getattr(node, 'lineno', 0)}"
        for source in SOURCES
        if source.name != "decoding.py" and "msgspec" in source.read_text()
        for node in nodes_of(source)
        if decodes_directly(node)
    ]

    assert direct == []


@pytest.mark.parametrize(
    "text",
    [
        "msgspec.convert(a, b)",
        "msgspec.json.Decoder(a)",
        "msgspec.msgpack.decode(a)",
        "from msgspec import convert",
        "from msgspec.json import decode",
        "import msgspec as m",
        "import msgspec.json",
    ],
)
def test_no_way_to_name_a_decoder_is_overlooked(text: str) -> None:
    assert any(map(decodes_directly, ast.walk(ast.parse(text))))


@pytest.mark.parametrize(
    "text",
    ["import msgspec", "from msgspec import Meta", "msgspec.json.encode(a)"],
)
def test_what_decodes_nothing_needs_no_lock(text: str) -> None:
    assert not any(map(decodes_directly, ast.walk(ast.parse(text))))
