"""Values of files: as their types say, or an error with the key and what it may be."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from msgspec import Meta

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.config.validated import convert_fields, convert_value, require_valid
from tests.kit.refusals import refused


class Colour(Enum):
    RED = "red"
    GREEN = "green"


@dataclass(frozen=True, slots=True)
class Thing:
    name: str
    colour: Colour
    kind: Literal["small", "large", "string"] = "small"
    count: Annotated[int, Meta(ge=1, le=10_000_000)] = 1
    share: Annotated[float, Meta(gt=0, le=1)] | None = None
    least: Annotated[float, Meta(ge=0)] = 0
    words: Annotated[tuple[str, ...], Meta(min_length=1)] = ()
    span: tuple[float, float] = (1, 2)
    place: Path | None = None
    on: bool = False
    table: dict[str, int] | None = None
    made: str = ""


GOOD: dict[str, Any] = {"name": "a", "colour": "red"}


def thing(change: dict[str, Any], *, strict: bool = True) -> Thing:
    return convert_fields(
        GOOD | change, Thing, "f.toml", given={"made": "by hand"}, strict=strict
    )


def test_what_is_right_is_converted() -> None:
    found = thing({"colour": "green", "words": ["x"], "place": "~/x", "share": 1})
    assert found == Thing(
        *("a", Colour.GREEN),
        words=("x",),
        place=Path.home() / "x",
        share=1.0,
        made="by hand",
    )


@pytest.mark.parametrize(
    ("change", "message", "hint"),
    [
        ({"colur": 1}, "unknown key 'colur'", "Is it colour?"),
        ({"zzz": 1}, "unknown key 'zzz'", "Known keys are colour, count, kind, "),
        ({"made": "x"}, "unknown key 'made'", "Known keys are"),
        ({"name": 5}, "name is 5", "a string."),
        ({"name": True}, "name is True", "a string. In YAML on, off, yes and no"),
        ({"words": ["a", False]}, "words is ['a', False]", "In YAML on, off"),
        ({"words": []}, "words is []", "a list that is not empty, of which each"),
        ({"colour": "blue"}, "colour is 'blue'", "one of red, green."),
        (
            {"kind": "lage"},
            "kind is 'lage'",
            "one of large, small, string. Is it large?",
        ),
        ({"count": 0}, "count is 0", "a whole number from 1 to 10000000."),
        ({"count": "3"}, "count is '3'", "a whole number from 1 to"),
        ({"count": True}, "count is True", "a whole number"),
        ({"count": 2.0}, "count is 2.0", "a whole number"),
        ({"share": 0}, "share is 0", "a number above 0, 1 at most."),
        ({"share": float("nan")}, "share is nan", "a number above 0"),
        ({"least": -1}, "least is -1", "a number, 0 or more."),
        ({"span": [1]}, "span is [1]", "a list of 2: a number, a number."),
        ({"place": 5}, "place is 5", "a string."),
        ({"on": "yes"}, "on is 'yes'", "true or false."),
        (
            {"on": "u:p@x"},
            "on is not valid; it has an @, so it is not shown",
            "true or",
        ),
        ({"table": {"a": "b"}}, "table is {'a': 'b'}", "a table."),
        ({"table": [1]}, "table is [1]", "a table."),
    ],
)
def test_what_is_wrong_is_named_with_what_it_may_be(
    change: dict[str, Any], message: str, hint: str
) -> None:
    unknown = message.startswith("unknown key")
    id = ErrorId.KEY_UNKNOWN if unknown else ErrorId.VALUE_INVALID
    with refused(id, UsageError) as caught:
        thing(change)
    assert str(caught.value) == f"f.toml: {message}"
    assert hint in caught.value.hint


def test_a_choice_named_string_is_no_place_for_any_string() -> None:
    with refused(ErrorId.VALUE_INVALID, UsageError) as caught:
        thing({"kind": True})
    assert "one of large, small, string." in caught.value.hint
    assert "YAML" not in caught.value.hint


def test_what_is_missing_is_named() -> None:
    named = "f.toml: colour"
    with refused(ErrorId.KEY_MISSING, UsageError, naming=named) as caught:
        convert_fields({"name": "a"}, Thing, "f.toml")
    assert caught.value.hint == "Give one of red, green."


def test_a_key_may_have_another_name_and_a_prefix() -> None:
    keys = {"name": "title"}
    assert (
        convert_fields({"title": "b", "colour": "red"}, Thing, "f", keys=keys).name
        == "b"
    )
    with refused(ErrorId.KEY_MISSING, UsageError, naming="f: my_title"):
        convert_fields({"colour": "red"}, Thing, "f", keys=keys, prefix="my_")
    with refused(ErrorId.VALUE_INVALID, UsageError, naming=("f: my_title", "is 5")):
        convert_fields({"title": 5}, Thing, "f", keys=keys, prefix="my_")


def test_numbers_and_strings_stand_for_each_other_if_that_is_allowed() -> None:
    found = thing(
        {"name": 4711, "count": "3", "share": "0.5", "words": [1, "b"], "place": 7},
        strict=False,
    )
    assert (found.name, found.count, found.share) == ("4711", 3, 0.5)
    assert (found.words, found.place) == (("1", "b"), Path("7"))
    for wrong in ({"name": True}, {"count": "nan"}, {"share": "nan"}, {"count": "x"}):
        with refused(ErrorId.VALUE_INVALID, UsageError, naming=next(iter(wrong))):
            thing(wrong, strict=False)


def test_what_code_makes_is_held_to_the_same() -> None:
    require_valid(Thing("a", Colour.RED, words=("x",)), "it")
    with refused(ErrorId.VALUE_INVALID, UsageError, naming=("it: count", "is 0")):
        require_valid(Thing("a", Colour.RED, words=("x",), count=0), "it")


def test_an_empty_string_is_not_a_path() -> None:
    with refused(ErrorId.VALUE_INVALID, UsageError, naming="key"):
        convert_value("", Path | None, "f.toml", "key", strict=True)
