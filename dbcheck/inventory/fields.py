"""One host's variables, read by name and type."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Mapping
from typing import Any

from dbcheck import children
from dbcheck.errors import UsageError
from dbcheck.secret import Kind, Secret

PREFIX = "dbcheck_"
SOURCES: tuple[Kind, ...] = ("env", "file", "command")
_SECRET = re.compile(r"passw|secret|token|communit|api_?key", re.IGNORECASE)
_REFERENCE = re.compile(r"\{\{\s*(\w+)\s*\}\}")
# How ansible-inventory shows what was written with !vault and !unsafe.
_TAGS = {"__ansible_vault", "__ansible_unsafe"}
_DEPTH_MAX = 8
_TEXT_MAX = 65_536
_COMMAND = "Give a list, [program, word, ...]; no shell splits it."


class Fields:
    """The variables of *host*; each method raises UsageError naming place and key."""

    def __init__(self, host: str, variables: Mapping[str, Any], file: str) -> None:
        """Read nothing yet; *file* is named in errors."""
        self.host = host
        self._file = file
        self._filled_texts: dict[str, str] = {}
        own = {"inventory_hostname": host, "inventory_hostname_short": _short(host)}
        self._variables = {**own, **variables}

    def refuse_unknown(self, known: Collection[str]) -> None:
        """Refuse variables of dbcheck's that it does not know, and secrets in clear."""
        for name in self._variables:
            if not name.startswith(PREFIX) or name in known:
                continue
            if f"{name}_env" in known:
                raise self._clear(name, name)
            close = difflib.get_close_matches(name, known, 1)
            hint = f"Is it {close[0]}?" if close else f"Known: {', '.join(known)}."
            raise self.error(name, "is not known", hint)

    def text(self, name: str, default: str = "") -> str:
        """Return words; a number is taken as words."""
        value = self._value(name)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise self.error(name, f"is {value!r}", "Give words; put them in quotes.")
        return str(value)

    def required(self, name: str) -> str:
        """Return words that must be there."""
        found = self.text(name)
        if not found:
            raise UsageError(
                f"{self._place}: {name} is missing",
                hint=f"Give {name} for the host, or for a group that it is in.",
            )
        return found

    def choice(self, name: str, choices: Collection[str], default: str) -> str:
        """Return one of several words."""
        found = self.text(name, default)
        if found not in choices:
            close = difflib.get_close_matches(found, choices, 1)
            hint = f"Is it {close[0]}?" if close else f"Known: {', '.join(choices)}."
            raise self.error(name, f"is {found!r}", hint)
        return found

    def number(self, name: str, low: float, high: float) -> float | None:
        """Return a number between two others, None if there is none."""
        value = self._value(name)
        if isinstance(value, str):
            try:
                value = float(value)
            except ValueError:
                raise self.error(name, f"is {value!r}", "Give a number.") from None
        if value is None:
            return None
        good = isinstance(value, int | float) and not isinstance(value, bool)
        if not good or not low <= value <= high:
            hint = f"Give a number from {low:g} to {high:g}."
            raise self.error(name, f"is {value!r}", hint)
        return float(value)

    def whole(self, name: str, low: int, high: int) -> int | None:
        """Return a whole number between two others, None if there is none."""
        found = self.number(name, low, high)
        if found is not None and found != int(found):
            raise self.error(name, f"is {found:g}", "Give a whole number.")
        return None if found is None else int(found)

    def flag(self, name: str, *, default: bool) -> bool:
        """Return true or false."""
        value = self._value(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.error(name, "is neither true nor false", "Give one of them.")
        return value

    def command(self, name: str) -> tuple[str, ...]:
        """Return a program and its words, () if there is none."""
        value = self._value(name)
        if value is None:
            return ()
        if not isinstance(value, list) or not value:
            raise self.error(name, f"is {value!r}", _COMMAND)
        return self._words(name, value)

    def secret(self, name: str) -> Secret | None:
        """Return where the secret *name* is to be had, None if nowhere.

        If that is a variable of the environment, children do not get it from now on.
        """
        found = [source for source in SOURCES if f"{name}_{source}" in self._variables]
        if len(found) > 1:
            both = " and ".join(f"{name}_{source}" for source in found)
            raise UsageError(
                f"{self._place}: {both} are given", hint="Keep one of them."
            )
        if not found:
            return None
        key = f"{name}_{found[0]}"
        source = self.command(key) if found[0] == "command" else (self.text(key),)
        if found[0] == "env":
            of_switch = name.startswith(f"{PREFIX}power_")
            children.withhold(source[0], of_switch=of_switch)
        return Secret(name, found[0], source)

    def options(self, name: str) -> tuple[dict[str, str], dict[str, Secret]]:
        """Return a mapping of words, and those of it that are secrets.

        A secret is given as its name with _env, _file or _command behind it.
        """
        value = self._value(name)
        if value is None:
            return {}, {}
        if not isinstance(value, dict):
            raise self.error(name, f"is {value!r}", "Give keys and values.")
        words: dict[str, str] = {}
        secrets: dict[str, Secret] = {}
        for key, item in value.items():
            stem, _, source = str(key).rpartition("_")
            if _SECRET.search(stem) and source in SOURCES:
                secrets[stem] = self._secret_option(name, stem, source, item)
            elif _SECRET.search(str(key)) and not str(key).endswith("_script"):
                raise self._clear(name, str(key))
            else:
                words[str(key)] = self._word(name, item)
        return words, secrets

    def error(self, name: str, what: str, hint: str) -> UsageError:
        """Return the error about the variable *name*."""
        return UsageError(f"{self._place}: {name} {what}", hint=hint)

    def _secret_option(
        self, name: str, stem: str, source: Kind, item: object
    ) -> Secret:
        if source != "command":
            word = self._word(name, item)
            if source == "env":
                children.withhold(word, of_switch=True)
            return Secret(stem, source, (word,))
        if not isinstance(item, list) or not item:
            raise self.error(name, f"has no command in {stem}_command", _COMMAND)
        return Secret(stem, source, self._words(name, item))

    def _clear(self, name: str, key: str) -> UsageError:
        return UsageError(
            f"{self._place}: {key} is a secret, and stands there in clear",
            hint=f"Give {key}_env (a variable's name), {key}_file (a path) or "
            f"{key}_command (a list, [program, word, ...]) instead.",
        )

    @property
    def _place(self) -> str:
        return f"{self._file}: host {self.host}"

    def _words(self, name: str, value: list[object]) -> tuple[str, ...]:
        if any(isinstance(word, bool) for word in value):
            hint = 'In YAML, on, off, yes and no are no words; write "off".'
            raise self.error(name, f"is {value!r}", hint)
        return tuple(self._word(name, word) for word in value)

    def _word(self, name: str, value: object) -> str:
        if isinstance(value, bool):
            return "1" if value else "0"
        if not isinstance(value, str | int | float):
            raise self.error(name, f"holds {value!r}", "Words and numbers only.")
        return str(value)

    def _value(self, name: str) -> Any:
        found = self._variables.get(name)
        return None if found is None else self._filled(name, found, 0)

    def _filled(self, name: str, value: Any, depth: int) -> Any:
        """Return *value* with each {{ variable }} in it replaced."""
        if isinstance(value, dict):
            if value.keys() & _TAGS:
                hint = "Neither !vault nor !unsafe can be used here."
                raise self.error(name, "is encrypted or tagged", hint)
            return {k: self._filled(name, item, depth) for k, item in value.items()}
        if isinstance(value, list):
            return [self._filled(name, item, depth) for item in value]
        if value is None or isinstance(value, bool | int | float):
            return value
        return self._filled_text(name, value, depth)

    def _filled_text(self, name: str, value: str, depth: int) -> str:
        if depth > _DEPTH_MAX:
            raise self.error(name, "refers to itself", "Break the circle.")

        def other(found: re.Match[str]) -> str:
            inner = self._variables.get(found[1])
            if inner is None:
                hint = "Only variables of the inventory can be used, without filters."
                raise self.error(name, f"needs {found[1]}, which is not there", hint)
            if found[1] not in self._filled_texts:
                text = str(self._filled(name, inner, depth + 1))
                self._filled_texts[found[1]] = text
            return self._filled_texts[found[1]]

        filled = _REFERENCE.sub(other, value)
        if len(filled) > _TEXT_MAX:
            hint = f"A value may take {_TEXT_MAX} characters."
            raise self.error(name, "is too long once it is filled in", hint)
        if "{{" in filled or "{%" in filled:
            hint = "Only {{ variable }} is understood here, no filter and no logic."
            raise self.error(name, "is a template", hint)
        return filled


def _short(host: str) -> str:
    return host.partition(".")[0]
