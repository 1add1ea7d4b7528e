"""Bytes of a fuzzer, read as decisions: so it learns structures, not encodings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

T = TypeVar("T")

# What a careful writer never writes where something else is expected.
ODD: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 255, 65_535, 65_536, 1 << 31, 1 << 32),
    *((1 << 63) - 1, 1 << 63, -(1 << 63), 1 << 64, 10**30, 16**5000),
    *(0.0, 0.5, -1.5, 1e308, float("inf"), float("nan")),
    *("", "a", "\0", "\ud800", "x" * 300, "..", "/", "0", "1e999", "é"),
    *([], [[]], {}, {"": None}, {"a": {"b": [1]}}, [0, 1, 2], ["a", "b"]),
)


class Script:
    """Decisions one after the other; zero once the bytes are used up."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def is_over(self) -> bool:
        return self._at >= len(self._data)

    def below(self, limit: int) -> int:
        """Return a number of 0 to *limit* - 1."""
        if limit < 2:
            return 0
        size = (limit.bit_length() + 7) // 8
        return int.from_bytes(self.take(size), "little") % limit

    def take(self, size: int) -> bytes:
        """Return the next *size* bytes, or what is left."""
        found = self._data[self._at : self._at + size]
        self._at += size
        return found

    def rest(self) -> bytes:
        """Return all that is left."""
        return self.take(len(self._data))

    def choice(self, values: Sequence[T]) -> T:
        return values[self.below(len(values))]


def edit_bytes(script: Script, content: bytes) -> bytes:
    """Return *content* flipped, cut, or with bytes put in, copied or taken out."""
    at, end = sorted((script.below(len(content) + 1), script.below(len(content) + 1)))
    kind = script.below(6)
    if kind == 0 and content:
        at = min(at, len(content) - 1)
        flipped = content[at] ^ (script.below(255) + 1)
        return content[:at] + bytes([flipped]) + content[at + 1 :]
    if kind == 1:
        return content[:at]
    if kind == 2:
        return content[:at] + script.take(1 + script.below(64)) + content[at:]
    if kind == 3:
        return content[:at] + content[end:]
    if kind == 4:
        return content[:end] + content[at:end] + content[end:]
    return content[:at] + bytes(end - at) + content[end:]


def edit_value(script: Script, value: Any) -> Any:
    """Return JSON's *value* with one thing in it, anywhere, other than it was."""
    if isinstance(value, dict) and value and script.below(4):
        key = script.choice(sorted(value))
        how = script.below(8)
        rest = {name: item for name, item in value.items() if name != key}
        if how == 0:
            return rest
        if how == 1:
            return {**rest, script.choice(("", "x", "9" * 30, "-1")): value[key]}
        return {**value, key: edit_value(script, value[key])}
    if isinstance(value, list) and value and script.below(4):
        at = script.below(len(value))
        how = script.below(6)
        if how == 0:
            return value[:at] + value[at + 1 :]
        if how == 1:
            return [*value, value[at]]
        return [*value[:at], edit_value(script, value[at]), *value[at + 1 :]]
    if type(value) is int and script.below(2):
        return value + script.below(5) - 2
    return script.choice(ODD)
