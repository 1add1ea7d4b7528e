"""Settings: fields of a dataclass that users may give on the command line as well.

A setting is declared once, by the annotation of its field: the type and msgspec.Meta
give its values and its purpose, a Setting its spelling in other places.  From these are
made its flag, its key in a matrix, its part of a command that repeats a run and its
line in a comparison of two runs.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from types import NoneType
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

from msgspec import Meta

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Setting:
    """The spelling of a field for users, and the display of its value.

    flag:    on the command line; "" if it has none.
    metavar: what stands for its value in the help.
    help:    of the flag; without it the first sentence of the field's description.
    scale:   how many units of the field are one unit of the flag, e.g. bytes in a MiB.
    low, high: the range of the flag, where it differs from that of the field.
    unit:    follows the value in a comparison.
    nothing: what a comparison shows in place of 0 or of no value.
    """

    flag: str = ""
    metavar: str = "N"
    help: str = ""
    scale: int = 1
    low: float | None = None
    high: float | None = None
    unit: str = ""
    nothing: str = "0"


@dataclass(frozen=True, slots=True)
class Declared:
    """A setting with all that its field declares.

    kind:    its type without annotations and without None; tuple for a program and
             its arguments.
    low, high: the range of a number, in units of the flag; None where it has no bound.
    choices: the allowed texts; () if any text is allowed.
    help:    of its flag.
    default: in units of the flag; dataclasses.MISSING if a value must be given.
    """

    name: str
    setting: Setting
    kind: Any
    low: float | None
    high: float | None
    choices: Sequence[str]
    help: str
    default: object

    @property
    def key(self) -> str:
        """The name of the setting in a matrix of labs."""
        return self.setting.flag.removeprefix("--").replace("-", "_")

    def scaled(self, value: Any) -> Any:
        """Return a value of the flag in units of the field."""
        return value if self.setting.scale == 1 else value * self.setting.scale

    def arguments(self, value: Any) -> list[str]:
        """Return the words of a command line that give it *value*."""
        if value is True:
            return [self.setting.flag]
        if self.kind is tuple:
            return [self.setting.flag, shlex.join(value)]
        return [self.setting.flag, _format_value(_unscale(value, self.setting))]

    @property
    def title(self) -> str:
        """The name of the setting in a comparison."""
        return self.name.removesuffix("_s").replace("_", " ")

    def shown(self, value: Any) -> str:
        """Return *value* as a comparison shows it."""
        if not value:
            return self.setting.nothing
        listed = value if isinstance(value, tuple) else (value,)
        return ", ".join(map(_format_value, listed)) + self.setting.unit


def list_settings(kind: type[Any]) -> Mapping[str, Declared]:
    """Return the settings among the fields of a dataclass, in their order."""
    hints = get_type_hints(kind, include_extras=True)
    found = (
        _find_declared(field.name, hints[field.name], field.default)
        for field in fields(kind)
    )
    return {declared.name: declared for declared in found if declared is not None}


def map_keys(kind: type[Any]) -> Mapping[str, str]:
    """Return the keys of settings in a matrix of labs, each with its field."""
    settings = list_settings(kind).items()
    return {declared.key: name for name, declared in settings if declared.setting.flag}


def list_flags(value: T, beside: T) -> list[str]:
    """Return the flags that set the fields in which *value* differs from *beside*.

    Both are of one dataclass.  No value has no flag.
    """
    kind: type[Any] = type(value)
    words: list[str] = []
    for name, declared in list_settings(kind).items():
        own = getattr(value, name)
        if own is None or not declared.setting.flag:
            continue
        if own != getattr(beside, name):
            words += declared.arguments(own)
    return words


def _find_declared(name: str, hint: Any, default: object) -> Declared | None:
    marks = get_args(hint)[1:] if _is_annotated(hint) else ()
    setting = next((mark for mark in marks if isinstance(mark, Setting)), None)
    if setting is None:
        return None
    kind, inner_marks = _unwrap_type(get_args(hint)[0])
    metas = [mark for mark in (*marks, *inner_marks) if isinstance(mark, Meta)]
    text = next((mark.description for mark in metas if mark.description), "")
    first_sentence = text.partition(". ")[0].removesuffix(".") + "."
    lows = [bound for meta in metas for bound in (meta.ge, meta.gt)]
    low = next((bound for bound in lows if bound is not None), None)
    high = next((meta.le for meta in metas if meta.le is not None), None)
    return Declared(
        name,
        setting,
        kind,
        low=_unscale(low, setting) if setting.low is None else setting.low,
        high=_unscale(high, setting) if setting.high is None else setting.high,
        choices=next((m.extra["choices"] for m in metas if m.extra), ()),
        help=setting.help or first_sentence,
        default=_unscale(default, setting),
    )


def _unwrap_type(hint: Any) -> tuple[Any, Sequence[Any]]:
    """Return the type without None, and the annotations that it has beside None."""
    if NoneType not in get_args(hint):
        return get_origin(hint) or hint, ()
    (kind,) = (argument for argument in get_args(hint) if argument is not NoneType)
    if not _is_annotated(kind):
        return kind, ()
    return get_args(kind)[0], get_args(kind)[1:]


def _is_annotated(hint: Any) -> bool:
    return get_origin(hint) is Annotated


def _unscale(value: Any, setting: Setting) -> Any:
    return value if value is None or setting.scale == 1 else value // setting.scale


def _format_value(value: object) -> str:
    return f"{value:.12g}" if isinstance(value, float) else str(value)
