"""Label selectors, evaluated as an API server of Kubernetes does.

https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/ (1.34) has the
grammar; k8s.io/apimachinery/pkg/labels says what is white space and what a name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_TOKEN = re.compile(r"\s*(!=|==|[=!(),<>]|[^\s=!(),<>]+)")
_PART = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?")
_PREFIX = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")
_LONGEST, _LONGEST_PREFIX = 63, 253
# A real server repeats the rules here.
_NO_LABEL = "not a valid label"
_SYMBOLS = {"!=", "==", "=", "!", "(", ")", ",", "<", ">"}


class SelectorError(Exception):
    """A selector that an API server refuses."""


@dataclass(frozen=True)
class Requirement:
    """One of a selector's requirements; operator: as it is written, "" for a key."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def fits(self, labels: Mapping[str, str]) -> bool:
        """Tell if *labels* meet it; what has no such label is unequal to any value."""
        found = labels.get(self.key)
        match self.operator:
            case "" | "!":
                return (found is not None) == (self.operator == "")
            case "=" | "==" | "in":
                return found in self.values
            case "!=" | "notin":
                return found not in self.values
        try:
            number, bound = int(found or ""), int(self.values[0])
        except ValueError:
            return False
        return number < bound if self.operator == "<" else number > bound


def parse_selector(text: str) -> list[Requirement]:
    """Return the requirements, all of which must fit; raise SelectorError."""
    reader = _Reader(_TOKEN.findall(text))
    if reader.next in _SYMBOLS - {"!"}:
        raise SelectorError(
            f"found '{reader.next}', expected: !, identifier, or 'end of string'"
        )
    found: list[Requirement] = []
    while reader.next:
        try:
            found.append(_read_requirement(reader))
        except SelectorError as error:
            raise SelectorError(f"unable to parse requirement: {error}") from None
        if reader.next:
            reader.expect(",", "',' or 'end of string'")
            if reader.next in (_SYMBOLS | {""}) - {"!"}:
                raise SelectorError(
                    f"found '{reader.next}', expected: identifier after ','"
                )
    return found


def fits(requirements: list[Requirement], labels: Mapping[str, str]) -> bool:
    """Tell if *labels* meet all requirements."""
    return all(requirement.fits(labels) for requirement in requirements)


class _Reader:
    """The tokens; next: the one that comes, "" at the end."""

    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens

    @property
    def next(self) -> str:
        return self._tokens[0] if self._tokens else ""

    def take(self) -> str:
        return self._tokens.pop(0) if self._tokens else ""

    def take_word(self) -> str:
        if self.next in _SYMBOLS or not self.next:
            raise SelectorError(f"found '{self.next}', expected: identifier")
        return self.take()

    def expect(self, symbol: str, what: str) -> None:
        if self.next != symbol:
            raise SelectorError(f"found '{self.next}', expected: {what}")
        self.take()


def _read_requirement(reader: _Reader) -> Requirement:
    if reader.next == "!":
        reader.take()
        return Requirement(_check_key(reader.take_word()), "!")
    key = _check_key(reader.take_word())
    if reader.next in ("", ","):
        return Requirement(key, "")
    operator = reader.take()
    match operator:
        case "in" | "notin":
            values = _read_values(reader)
        case "=" | "==" | "!=" | "<" | ">":
            values = [reader.take_word() if reader.next not in ("", ",") else ""]
        case _:
            raise SelectorError(
                f"found '{operator}', expected: in, notin, =, ==, !=, gt, lt"
            )
    return Requirement(key, operator, _check_values(key, operator, values))


def _read_values(reader: _Reader) -> list[str]:
    """Return the values in parentheses; there may be an empty one between commas."""
    if reader.next != "(":
        raise SelectorError(f"found '{reader.next}' expected: '('")
    reader.take()
    if reader.next in (_SYMBOLS | {""}) - {",", ")"}:
        raise SelectorError(f"found '{reader.next}', expected: ',', ')' or identifier")
    values: list[str] = []
    while reader.next != ")":
        if reader.next == ",":
            reader.take()
            if not values or reader.next in (",", ")"):
                values.append("")
            if reader.next == ",":
                reader.take()
        elif reader.next in _SYMBOLS | {""}:
            raise SelectorError(f"found '{reader.next}', expected: ',', or identifier")
        else:
            values.append(reader.take())
            if reader.next not in (",", ")"):
                raise SelectorError(f"found '{reader.next}', expected: ',' or ')'")
    reader.take()
    return values or [""]


def _check_values(key: str, operator: str, values: list[str]) -> tuple[str, ...]:
    """Return the values in their order; the first that is wrong is named."""
    found = tuple(sorted(set(values)))
    for number, value in enumerate(found):
        if operator in ("<", ">") and not re.fullmatch(r"[+-]?[0-9]+", value):
            raise SelectorError(
                f"values[{number}]: Invalid value: \"{value}\": for 'Gt', 'Lt'"
                " operators, the value must be an integer"
            )
        if value and (len(value) > _LONGEST or not _PART.fullmatch(value)):
            raise SelectorError(
                f'values[{number}][{key}]: Invalid value: "{value}": {_NO_LABEL}'
            )
    return found


def _check_key(key: str) -> str:
    prefix, slash, name = key.rpartition("/")
    if slash and (len(prefix) > _LONGEST_PREFIX or not _PREFIX.fullmatch(prefix)):
        raise SelectorError(f'<nil>: Invalid value: "{key}": {_NO_LABEL}')
    if len(name) > _LONGEST or not _PART.fullmatch(name):
        raise SelectorError(f'<nil>: Invalid value: "{key}": {_NO_LABEL}')
    return key
