"""Values from users' files as typed objects, or an error that names the key.

The fields of a dataclass are the keys.  Their annotations, with msgspec.Meta for a
range, define the values that each key may have; errors name them.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, TypeVar, get_type_hints

import msgspec
from msgspec import inspect

from dbcheck.base.decoding import UNDECODABLE, convert
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.base.owners import expanded

T = TypeVar("T")
Text = Annotated[str, msgspec.Meta(min_length=1)]
Command = Annotated[tuple[Text, ...], msgspec.Meta(min_length=1)]
_NOTHING: Mapping[str, Any] = MappingProxyType({})
# Dataclass -> the types of its fields; kept, as evaluating annotations is slow.
_TYPES: dict[type[Any], Mapping[str, Any]] = {}
_ADVICE_ON_BOOLEANS = (
    "In YAML on, off, yes and no are true or false; put them in quotes."
)


def convert_fields(
    values: Mapping[str, Any],
    kind: type[T],
    where: str,
    *,
    given: Mapping[str, Any] = _NOTHING,
    keys: Mapping[str, str] = _NOTHING,
    prefix: str = "",
    strict: bool = True,
) -> T:
    """Return the *kind*, a dataclass, that *values* describe.

    given:  fields that the caller gives; *values* must not have them.
    keys:   field -> its key, if they differ.
    prefix: precedes each key in an error.
    strict: False also takes a string for a number, and a number for a string.
    Raise UsageError, naming *where* and the key, if one is unknown, missing or wrong.
    """
    types = {
        name: type_ for name, type_ in _list_types(kind).items() if name not in given
    }
    names = {keys.get(name, name): name for name in types}
    refuse_unknown(values, names, where)
    fields = dict(given)
    for key, value in values.items():
        type_ = types[names[key]]
        fields[names[key]] = convert_value(
            value, type_, where, f"{prefix}{key}", strict=strict
        )
    for field in dataclasses.fields(kind):  # type: ignore[arg-type]
        has_default = (field.default, field.default_factory) != (
            dataclasses.MISSING,
        ) * 2
        if field.name not in fields and not has_default:
            raise UsageError(
                f"{where}: {prefix}{keys.get(field.name, field.name)} is missing",
                id=ErrorId.KEY_MISSING,
                hint=f"Give {allowed(types[field.name])}.",
            )
    return kind(**fields)


def convert_value(
    value: object, type_: Any, where: str, key: str, *, strict: bool
) -> Any:
    """Return *value* as a *type_*; raise UsageError naming *where* and *key*."""
    if not strict:
        value = _convert_numbers_to_strings(value, inspect.type_info(type_))
    try:
        return convert(value, type_, strict=strict, dec_hook=_convert_path)
    except UNDECODABLE:
        raise UsageError(
            f"{where}: {key} is {_show_value(value)}",
            id=ErrorId.VALUE_INVALID,
            hint=_advise(value, type_),
        ) from None
    except LookupError as error:  # raised by _convert_path()
        raise UsageError(
            f"{where}: {key} is {error.args[0]}",
            id=ErrorId.VALUE_INVALID,
            hint="Write the whole path.",
        ) from None


def require_valid(value: object, where: str) -> None:
    """Raise UsageError if a field of *value*, a dataclass, is invalid.

    A field that is a dataclass itself was checked when that was made.
    """
    for name, type_ in _list_types(type(value)).items():
        if not dataclasses.is_dataclass(type_):
            convert_value(getattr(value, name), type_, where, name, strict=True)


def one_of(choices: Collection[str]) -> msgspec.Meta:
    """Return the annotation of a string that must be one of *choices*."""
    pattern = "|".join(map(re.escape, choices))
    return msgspec.Meta(pattern=rf"\A({pattern})\Z", extra={"choices": tuple(choices)})


def refuse_unknown(keys: Iterable[str], known: Collection[str], where: str) -> None:
    """Raise UsageError, naming the nearest of *known*, if a key is not among them."""
    for key in keys:
        if key not in known:
            hint = (
                suggest_nearest(key, known)
                or f"Known keys are {', '.join(sorted(known))}."
            )
            raise UsageError(
                f"{where}: unknown key {key!r}", id=ErrorId.KEY_UNKNOWN, hint=hint
            )


def suggest_nearest(name: str, known: Collection[str]) -> str:
    """Return a question for the one of *known* nearest to *name*, "" if none is."""
    close = difflib.get_close_matches(name, known, 1)
    return f"Is it {close[0]}?" if close else ""


def _list_types(kind: type[Any]) -> Mapping[str, Any]:
    if kind not in _TYPES:
        hints = get_type_hints(kind, include_extras=True)
        names = [field.name for field in dataclasses.fields(kind)]
        _TYPES[kind] = {name: hints[name] for name in names}
    return _TYPES[kind]


def _convert_path(kind: type, value: object) -> Path:
    if kind is Path and isinstance(value, str) and value:
        return Path(expanded(value))
    raise TypeError(f"{value!r} is not a path")


def _convert_numbers_to_strings(value: object, wanted: inspect.Type) -> object:
    """Return *value* with strings in place of numbers if strings are wanted."""
    wanted = _unwrap_type(wanted)
    if isinstance(wanted, inspect.VarTupleType) and isinstance(value, list):
        return [_convert_numbers_to_strings(item, wanted.item_type) for item in value]
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    is_text = isinstance(wanted, inspect.StrType | inspect.CustomType)
    return str(value) if is_number and is_text else value


def _show_value(value: object) -> str:
    """Return *value* for an error, unless it may hold a password as a URL does."""
    shown = repr(value)
    return "not valid; it has an @, so it is not shown" if "@" in shown else shown


def _advise(value: object, type_: Any) -> str:
    wanted = inspect.type_info(type_)
    texts = [f"It must be {allowed(type_)}."]
    choices = [str(choice) for choice in _list_choices(wanted)]
    if isinstance(value, str) and (question := suggest_nearest(value, choices)):
        texts.append(question)
    items = value if isinstance(value, list) else [value]
    if any(isinstance(item, bool) for item in items) and _takes_any_string(wanted):
        texts.append(_ADVICE_ON_BOOLEANS)
    return " ".join(texts)


def _takes_any_string(wanted: inspect.Type) -> bool:
    """Return True if a value of that type, or an item of it, may be any string."""
    inner = _unwrap_type(wanted)
    if isinstance(inner, inspect.VarTupleType | inspect.ListType):
        return _takes_any_string(inner.item_type)
    if isinstance(inner, inspect.TupleType):
        return any(map(_takes_any_string, inner.item_types))
    is_text = isinstance(inner, inspect.StrType | inspect.CustomType)
    return is_text and not _list_choices(wanted)


def allowed(type_: Any) -> str:
    """Return the values that a *type_* can have, to come after "it must be"."""
    return _describe_type(inspect.type_info(type_))


def _describe_type(wanted: inspect.Type) -> str:
    if choices := _list_choices(wanted):
        return f"one of {', '.join(map(str, choices))}"
    wanted = _unwrap_type(wanted)
    if isinstance(wanted, inspect.IntType):
        return f"a whole number{_describe_range(wanted)}"
    if isinstance(wanted, inspect.FloatType):
        return f"a number{_describe_range(wanted)}"
    if isinstance(wanted, inspect.BoolType):
        return "true or false"
    if isinstance(wanted, inspect.VarTupleType | inspect.ListType):
        some = "a list" if wanted.min_length is None else "a list that is not empty"
        return f"{some}, of which each is {_describe_type(wanted.item_type)}"
    if isinstance(wanted, inspect.TupleType):
        items = ", ".join(_describe_type(item) for item in wanted.item_types)
        return f"a list of {len(wanted.item_types)}: {items}"
    if isinstance(wanted, inspect.DictType | inspect.DataclassType):
        return "a table"
    if isinstance(wanted, inspect.StrType) and wanted.min_length:
        return "a string that is not empty"
    return "a string"


def _unwrap_layers(wanted: inspect.Type) -> Iterator[inspect.Type]:
    """Yield a type, then the types inside it: each without one annotation or None."""
    yield wanted
    if isinstance(wanted, inspect.Metadata):
        yield from _unwrap_layers(wanted.type)
    elif isinstance(wanted, inspect.UnionType):
        yield from _unwrap_layers(wanted.types[0])


def _unwrap_type(wanted: inspect.Type) -> inspect.Type:
    """Return the innermost layer: the type of a value that is given."""
    return [*_unwrap_layers(wanted)][-1]


def _list_choices(wanted: inspect.Type) -> tuple[object, ...]:
    for layer in _unwrap_layers(wanted):
        if isinstance(layer, inspect.Metadata) and layer.extra:
            return tuple(layer.extra["choices"])
        if isinstance(layer, inspect.LiteralType):
            return layer.values
        if isinstance(layer, inspect.EnumType):
            return tuple(member.value for member in layer.cls)
    return ()


def _describe_range(wanted: inspect.IntType | inspect.FloatType) -> str:
    low, above, high = (
        None if limit is None else _format_number(limit)
        for limit in (wanted.ge, wanted.gt, wanted.le)
    )
    if low is not None:
        steps = f", in steps of {wanted.multiple_of}" if wanted.multiple_of else ""
        return (f" from {low} to {high}" if high else f", {low} or more") + steps
    if above is not None:
        return f" above {above}" + (f", {high} at most" if high else "")
    return ""


def _format_number(value: float) -> str:
    return str(int(value)) if value == int(value) else f"{value:g}"
