"""Settings: fields of a dataclass that users may give on the command line as well.

A setting is declared once, by the annotation of its field: the type and msgspec.Meta
say what it may be and what it is for, a Setting how it is written elsewhere.  Its flag,
its key in a matrix, its part of a command that repeats a run and its line in a
comparison of two runs are made of that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

from msgspec import Meta

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Setting:
    """How a field is written where users set it, and how its value is shown.

    flag:    on the command line; "" if it has none.
    metavar: what stands there for its value.
    unit:    follows the value in a comparison.
    nothing: what is shown there in the place of 0 or of no value.
    """

    flag: str = ""
    metavar: str = "N"
    unit: str = ""
    nothing: str = "0"


@dataclass(frozen=True, slots=True)
class Declared:
    """A setting with all that its field declares.

    kind:    its type without annotations.
    low, high: the range of a number, None where it has no bound.
    help:    the first sentence of its description.
    default: of the field; dataclasses.MISSING if it must be given.
    """

    name: str
    setting: Setting
    kind: Any
    low: float | None
    high: float | None
    help: str
    default: object

    @property
    def title(self) -> str:
        """Its name in a comparison."""
        return self.name.removesuffix("_s").replace("_", " ")

    def shown(self, value: Any) -> str:
        """Return *value* as a comparison shows it."""
        if not value:
            return self.setting.nothing
        listed = value if isinstance(value, tuple) else (value,)
        return ", ".join(map(_written, listed)) + self.setting.unit


def settings_of(kind: type[Any]) -> Mapping[str, Declared]:
    """Return the settings among the fields of a dataclass, in their order."""
    hints = get_type_hints(kind, include_extras=True)
    found = (_declared(one.name, hints[one.name], one.default) for one in fields(kind))
    return {one.name: one for one in found if one is not None}


def flags_of(value: T, beside: T) -> list[str]:
    """Return the flags that set what *value* has otherwise than *beside*.

    Both are of one dataclass.
    """
    kind: type[Any] = type(value)
    found: list[str] = []
    for name, each in settings_of(kind).items():
        own = getattr(value, name)
        if each.setting.flag and own != getattr(beside, name):
            found += [each.setting.flag, _written(own)]
    return found


def _declared(name: str, hint: Any, default: object) -> Declared | None:
    marks = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    setting = next((each for each in marks if isinstance(each, Setting)), None)
    if setting is None:
        return None
    metas = [each for each in marks if isinstance(each, Meta)]
    text = next((each.description for each in metas if each.description), "")
    return Declared(
        name,
        setting,
        get_args(hint)[0],
        low=next((each.ge for each in metas if each.ge is not None), None),
        high=next((each.le for each in metas if each.le is not None), None),
        help=text.partition(". ")[0].removesuffix(".") + ".",
        default=default,
    )


def _written(value: object) -> str:
    return f"{value:.12g}" if isinstance(value, float) else str(value)
