"""The inventory variables of one host, read by name and type."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import Annotated, Any, TypeVar

from msgspec import Meta

from dbcheck.base import processes
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.config.secret import Kind, Secret
from dbcheck.config.validated import (
    Command,
    Text,
    convert_fields,
    convert_value,
    suggest_nearest,
)

T = TypeVar("T")

PREFIX = "dbcheck_"
# The end of a secret's variable -> the type of its value; {} stands for the secret.
TYPE_OF_SOURCE: Mapping[Kind, Any] = {
    "env": Annotated[Text, Meta(description="The environment variable that holds {}.")],
    "file": Annotated[
        Text,
        Meta(description="The file whose first line is {}; only you may read it."),
    ],
    "command": Annotated[
        Command,
        Meta(
            description="A list: the program that prints {} as its first line, and its "
            "arguments."
        ),
    ],
}
_SECRET_NAME = re.compile(r"passw|secret|token|communit|api_?key", re.IGNORECASE)
_REFERENCE = re.compile(r"\{\{\s*(\w+)\s*\}\}")
# How ansible-inventory shows what was written with !vault and !unsafe.
_TAGS_OF_VALUES = {"__ansible_vault", "__ansible_unsafe"}
_DEPTH_MAX = 8
_TEXT_MAX = 65_536
_NOTHING: Mapping[str, Any] = MappingProxyType({})


class Fields:
    """The variables of *host*; each method raises UsageError naming place and key."""

    def __init__(self, host: str, variables: Mapping[str, Any], file: str) -> None:
        """*file* is the inventory, for errors; nothing is read yet."""
        self.host = host
        self._file = file
        self._filled_texts: dict[str, str] = {}
        names_of_host = {
            "inventory_hostname": host,
            "inventory_hostname_short": _shorten_host_name(host),
        }
        self._variables = {**names_of_host, **variables}

    def refuse_unknown(self, known: Collection[str]) -> None:
        """Refuse unknown variables that begin with dbcheck_, and secrets in clear."""
        for name in self._variables:
            if not name.startswith(PREFIX) or name in known:
                continue
            if f"{name}_env" in known:
                raise self._clear_text_error(name)
            hint = suggest_nearest(name, known) or f"Known: {', '.join(sorted(known))}."
            raise self.error(
                name, "is not known", id=ErrorId.INVENTORY_VARIABLE_UNKNOWN, hint=hint
            )

    def read(
        self,
        kind: type[T],
        prefix: str,
        *,
        given: Mapping[str, Any] = _NOTHING,
        keys: Mapping[str, str] = _NOTHING,
    ) -> T:
        """Return the dataclass whose fields are variables that begin with *prefix*.

        given: fields that the caller gives, without a variable.  keys: field -> the
        rest of its variable's name, if that differs.
        """
        declared = (field.name for field in fields(kind))  # type: ignore[arg-type]
        names = [name for name in declared if name not in given]
        values = {
            key: value
            for key in (keys.get(name, name) for name in names)
            if (value := self._value(f"{prefix}{key}")) is not None
        }
        return convert_fields(
            values,
            kind,
            self._place,
            given=given,
            keys=keys,
            prefix=prefix,
            strict=False,
        )

    def value(self, name: str, type_: Any, default: Any) -> Any:
        """Return the variable *name* as a *type_*; *default* if it is absent."""
        value = self._value(name)
        return default if value is None else self._convert(name, value, type_)

    def read_mapping(self, name: str, kind: type[T]) -> T | None:
        """Return the dataclass whose fields are the keys of the mapping *name*.

        None if that variable is absent.
        """
        if (value := self._value(name)) is None:
            return None
        keys = self._convert(name, value, dict[str, Any])
        return convert_fields(keys, kind, f"{self._place}: {name}", strict=False)

    def choose_name(self, *names: str) -> str:
        """Return the last of *names* that is a variable, or the first if none is."""
        defined = [name for name in names if self._variables.get(name) is not None]
        return defined[-1] if defined else names[0]

    def secret(self, name: str) -> Secret | None:
        """Return the source of the secret *name*, None if it has none.

        If its source is an environment variable, child processes do not get it from now
        on.
        """
        sources = [
            source for source in TYPE_OF_SOURCE if f"{name}_{source}" in self._variables
        ]
        if len(sources) > 1:
            names = " and ".join(f"{name}_{source}" for source in sources)
            raise UsageError(
                f"{self._place}: {names} are given",
                id=ErrorId.SECRET_GIVEN_TWICE,
                hint="Keep one of them.",
            )
        if not sources:
            return None
        key = f"{name}_{sources[0]}"
        of_switch = name.startswith(f"{PREFIX}power_")
        return self._make_secret(
            name, sources[0], key, self._value(key), of_switch=of_switch
        )

    def options(self, name: str) -> tuple[dict[str, str], dict[str, Secret]]:
        """Return the options in the mapping *name*, and the secrets in it.

        A secret is given as its name with _env, _file or _command appended.
        """
        values: dict[str, str] = {}
        secrets: dict[str, Secret] = {}
        for key, item in self.value(name, dict[str, Any], {}).items():
            where = f"{name}: {key}"
            stem, _, source = key.rpartition("_")
            if _SECRET_NAME.search(stem) and source in TYPE_OF_SOURCE:
                secrets[stem] = self._make_secret(
                    stem, source, where, item, of_switch=True
                )
            # A script, as passwd_script of a fence agent, is a program that prints it.
            elif _SECRET_NAME.search(key) and not key.endswith("_script"):
                raise self._clear_text_error(key)
            elif isinstance(item, bool):  # 1 or 0, as fence agents expect
                values[key] = "1" if item else "0"
            else:
                values[key] = self._convert(where, item, str)
        return values, secrets

    def error(self, name: str, what: str, *, id: ErrorId, hint: str) -> UsageError:
        """Return the error about the variable *name*."""
        return UsageError(f"{self._place}: {name} {what}", id=id, hint=hint)

    def _make_secret(
        self, name: str, source: Kind, key: str, value: object, *, of_switch: bool
    ) -> Secret:
        """Return the secret that the variable *key*, of that *source*, describes.

        of_switch: a power switch uses the secret, so its program gets the environment
        variable all the same.
        """
        converted = self._convert(key, value, TYPE_OF_SOURCE[source])
        if source == "command":
            return Secret(name, source, converted)
        place: str = converted
        if source == "env":
            processes.withhold_variable(place, of_switch=of_switch)
        return Secret(name, source, (place,))

    def _convert(self, name: str, value: object, type_: Any) -> Any:
        return convert_value(value, type_, self._place, name, strict=False)

    def _clear_text_error(self, key: str) -> UsageError:
        return UsageError(
            f"{self._place}: {key} is a secret in clear text",
            id=ErrorId.SECRET_IN_CLEAR_TEXT,
            hint=f"Give {key}_env (a variable's name), {key}_file (a path) or "
            f"{key}_command (a list, [program, argument, ...]) instead.",
        )

    @property
    def _place(self) -> str:
        return f"{self._file}: host {self.host}"

    def _value(self, name: str) -> Any:
        value = self._variables.get(name)
        return None if value is None else self._fill_references(name, value, 0)

    def _fill_references(self, name: str, value: Any, depth: int) -> Any:
        """Return *value* with each {{ variable }} in it replaced."""
        if isinstance(value, dict):
            if value.keys() & _TAGS_OF_VALUES:
                hint = "dbcheck supports neither !vault nor !unsafe in its variables."
                raise self.error(
                    name,
                    "is encrypted or tagged",
                    id=ErrorId.INVENTORY_TAG_NOT_SUPPORTED,
                    hint=hint,
                )
            return {
                k: self._fill_references(name, item, depth) for k, item in value.items()
            }
        if isinstance(value, list):
            return [self._fill_references(name, item, depth) for item in value]
        if value is None or isinstance(value, bool | int | float):
            return value
        return self._fill_text(name, value, depth)

    def _fill_text(self, name: str, value: str, depth: int) -> str:
        if depth > _DEPTH_MAX:
            hint = "Remove the circular reference."
            raise self.error(
                name,
                "refers to itself",
                id=ErrorId.INVENTORY_VARIABLE_CIRCULAR,
                hint=hint,
            )

        def replace_reference(reference: re.Match[str]) -> str:
            inner = self._variables.get(reference[1])
            if inner is None:
                hint = "Only variables of the inventory can be used, without filters."
                raise self.error(
                    name,
                    f"needs {reference[1]}, which is not defined",
                    id=ErrorId.INVENTORY_VARIABLE_UNDEFINED,
                    hint=hint,
                )
            if reference[1] not in self._filled_texts:
                text = str(self._fill_references(name, inner, depth + 1))
                self._filled_texts[reference[1]] = text
            return self._filled_texts[reference[1]]

        filled = _REFERENCE.sub(replace_reference, value)
        if len(filled) > _TEXT_MAX:
            hint = f"A value may take {_TEXT_MAX} characters."
            raise self.error(
                name,
                "is too long with its variables replaced",
                id=ErrorId.INVENTORY_VALUE_TOO_LONG,
                hint=hint,
            )
        if "{{" in filled or "{%" in filled:
            hint = "Only {{ variable }} is supported here, no filters and no logic."
            raise self.error(
                name,
                "is a template",
                id=ErrorId.INVENTORY_TEMPLATE_NOT_SUPPORTED,
                hint=hint,
            )
        return filled


def _shorten_host_name(host: str) -> str:
    return host.partition(".")[0]
