"""Flags of commands: groups of them, and types of their values.

A command gets each group as one frozen object.

A group is a dataclass. The annotation of a field declares its flag, and the field's
default is the flag's; a field without one is a flag that must be given:

    @dataclass(frozen=True)
    class Pace(Group):
        rate: Annotated[float | None, Flag("--rate", type=float, help="...")] = None
        load: Annotated[
            Mapping[str, Any], FlagsOf(Workload, default="the file's")
        ] = field(default_factory=dict)

    @click.command("run", cls=Verb)
    @grouped
    def command(pace: Pace) -> None: ...
"""

from __future__ import annotations

import functools
import math
import os
import shlex
import stat
from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar, get_type_hints

import click
from click.core import ParameterSource
from click.types import OptionHelpExtra

from dbcheck.base import limits
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.base.owners import expanded
from dbcheck.base.setting import Declared, list_settings


class Number(click.FloatRange):
    """A number within a range; click's own type accepts "nan", which is not one."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the number; fail if it is not a number, or is out of range."""
        number = float(super().convert(value, param, ctx))
        if math.isnan(number):
            self.fail(f"{value!r} is not a number.", param, ctx)
        return number


class UserPath(click.Path):
    """A path as a user writes it, with ~ also where a shell leaves it: --runs=~/runs.

    It need not be there; one that cannot be looked at or entered is refused.
    """

    def __init__(self, *, file_okay: bool = True, dir_okay: bool = True) -> None:
        super().__init__(file_okay=file_okay, dir_okay=dir_okay, path_type=Path)

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Any:
        """Return the Path; fail if nothing could be read or made there."""
        try:
            path = expanded(os.fspath(value))
            is_folder = stat.S_ISDIR(os.stat(path).st_mode)
        except LookupError as error:
            self.fail(str(error.args[0]), param, ctx)
        except FileNotFoundError:
            is_folder = False
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            self.fail(f"{os.fspath(value)!r}: {reason}.", param, ctx)
        if is_folder and not os.access(path, os.X_OK):
            self.fail(f"You may not enter the folder {path!r}.", param, ctx)
        return super().convert(path, param, ctx)


# The upper bound is too large to matter, and refuses infinity.
SECONDS = Number(limits.SECONDS_MIN, limits.SECONDS_MAX)
SEED = click.IntRange(0, 2**62)
ANY_PATH = UserPath()
FILE = UserPath(dir_okay=False)
FOLDER = UserPath(file_okay=False)


F = TypeVar("F", bound=Callable[..., Any])
R = TypeVar("R")
_NO_BOUND = 1e6


_NUMBERS: Mapping[Any, Any] = {int: click.IntRange, float: Number}


class Flag:
    """A flag's name, and the attributes of its click.Option."""

    def __init__(self, name: str, **attributes: Any) -> None:
        self.name = name
        self._attributes = attributes

    def added(
        self, function: Callable[..., R], own: str, default: object, section: str
    ) -> Callable[..., R]:
        """Return *function* with this flag, whose value it gets as *own*."""
        given = {"required": True} if default is MISSING else {"default": default}
        option = click.option(
            *(self.name, own), cls=Option, section=section, **given | self._attributes
        )
        return option(function)


@dataclass(frozen=True, slots=True)
class FlagsOf:
    """Stands for the flags of all settings of *kind*, see base.setting.

    The field holds those that are given, by the names of the settings and in their
    units.
    names:   of the settings; those of all that have a flag if none is named.
    default: whose defaults apply, for help; "": those of *kind*.
    """

    kind: type[Any]
    names: Collection[str] = ()
    default: str = ""

    def settings(self) -> Mapping[str, Declared]:
        """Return the settings that have a flag here, by their names."""
        return {
            name: each
            for name, each in list_settings(self.kind).items()
            if each.setting.flag and (name in self.names or not self.names)
        }

    def flags(self) -> Mapping[str, Flag]:
        """Return the flag of each setting."""
        return {
            name: Flag(each.setting.flag, **self._attributes(each))
            for name, each in self.settings().items()
        }

    def given(self, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return *values* of flags, by the names of the settings, in their units.

        Raise UsageError if one should be a command and cannot be split.
        """
        settings = self.settings()
        return {
            name: _convert_to_field(settings[name], value)
            for name, value in values.items()
        }

    def _attributes(self, each: Declared) -> dict[str, Any]:
        if each.kind is bool:
            return {"help": each.help, "is_flag": True}
        own = f" Default: {self.default}." if self.default else ""
        found: dict[str, Any] = {"help": each.help + own}
        if not self.default:
            none = each.default in ((), MISSING)
            found["default"] = None if none else each.default
            found["show_default"] = each.default not in ("", (), None, MISSING)
        if each.choices:
            if each.default == "":
                found["default"] = None  # which is none of the choices
            return found | {"type": click.Choice([one for one in each.choices if one])}
        if each.kind is Path:
            return found | {"type": FILE}
        if each.kind in _NUMBERS:
            found["type"] = _NUMBERS[each.kind](each.low, each.high)
        return found | {"metavar": each.setting.metavar}


def _convert_to_field(setting: Declared, value: Any) -> Any:
    if setting.kind is not tuple:
        return setting.scaled(value)
    try:
        return tuple(shlex.split(value))
    except ValueError as error:
        raise UsageError(
            f"{setting.setting.flag} cannot be split into a program and its arguments:"
            f" {error}",
            id=ErrorId.COMMAND_NOT_SPLITTABLE,
            hint="Quote it as a shell would need it.",
        ) from None


def option_of(
    kind: type[Any], name: str, default: str
) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Add the flag of one setting of *kind* that stands alone; see FlagsOf."""
    flag = FlagsOf(kind, (name,), default).flags()[name]
    return lambda function: flag.added(function, name, None, Group.section)


class Argument(Flag):
    """An argument that needs no flag; it may be left out."""

    def added(
        self, function: Callable[..., R], own: str, default: object, section: str
    ) -> Callable[..., R]:
        """Return *function* with this argument, which it gets as *own*."""
        return click.argument(own, required=False, metavar=f"[{self.name}]")(function)


@dataclass(frozen=True)
class Group:
    """Values of some flags; see the module.

    given: the fields whose flags stand on the command line.
    section: the heading of these flags in a verb's help.
    """

    section: ClassVar[str] = "Options"
    given: frozenset[str] = field(default=frozenset(), kw_only=True)

    @classmethod
    def flags(cls) -> Mapping[str, Flag]:
        """Return the flags, by their fields or by the settings that a field holds."""
        found: dict[str, Flag] = {}
        for own, mark in cls.marks().items():
            found |= mark.flags() if isinstance(mark, FlagsOf) else {own: mark}
        return found

    @classmethod
    def marks(cls) -> Mapping[str, Flag | FlagsOf]:
        """Return the Flag or the FlagsOf of each field."""
        hints = get_type_hints(cls, include_extras=True)
        declared = [(each.name, hints[each.name]) for each in fields(cls)]
        return {
            own: hint.__metadata__[0]
            for own, hint in declared
            if hasattr(hint, "__metadata__")
        }

    @classmethod
    def taken(cls, context: click.Context, values: dict[str, Any]) -> Self:
        """Return the group that *values* hold, and remove it from them."""
        names = cls.flags()
        given = frozenset(name for name in names if is_given(context, name))
        found: dict[str, Any] = {}
        for own, mark in cls.marks().items():
            if isinstance(mark, FlagsOf):
                of_flags = {name: values.pop(name) for name in mark.flags()}
                shown = {name: of_flags[name] for name in of_flags if name in given}
                found[own] = mark.given(shown)
            else:
                found[own] = values.pop(own)
        return cls(**found, given=given)

    def flags_given(self) -> list[str]:
        """Return the flags that stand on the command line."""
        return [flag.name for own, flag in self.flags().items() if own in self.given]

    def arguments(self, *names: str) -> list[str]:
        """Return the flags of those names that were given, each with its value."""
        found: list[str] = []
        for own, mark in self.marks().items():
            value = getattr(self, own)
            if isinstance(mark, FlagsOf):
                of_mark = mark.settings()
                for name in value:
                    if name in names:
                        found += of_mark[name].arguments(value[name])
            elif own in self.given and own in names:
                found += [mark.name] if value is True else [mark.name, str(value)]
        return found


def is_given(context: click.Context, name: str) -> bool:
    """Return True if a parameter stands on the command line."""
    return context.get_parameter_source(name) is ParameterSource.COMMANDLINE


def grouped(function: Callable[..., R]) -> Callable[..., R]:
    """Add the flags of each parameter that is a Group; hand each over as one object."""
    groups: dict[str, type[Group]] = {
        name: hint
        for name, hint in get_type_hints(function).items()
        if isinstance(hint, type) and issubclass(hint, Group)
    }

    @functools.wraps(function)
    def collected(**values: Any) -> R:
        context = click.get_current_context()
        taken = {name: kind.taken(context, values) for name, kind in groups.items()}
        return function(**taken, **values)

    command: Callable[..., R] = collected
    for kind in reversed(groups.values()):
        marks = kind.marks()
        plain = [
            each for each in fields(kind) if isinstance(marks.get(each.name), Flag)
        ]
        defaults = {each.name: each.default for each in plain}
        for own, flag in reversed(list(kind.flags().items())):
            default = defaults.get(own)
            command = flag.added(command, own, default, kind.section)
    return command


class Option(click.Option):
    """An option with the heading under which a verb's help shows it."""

    def __init__(
        self, *given: Any, section: str = Group.section, **attributes: Any
    ) -> None:
        super().__init__(*given, **attributes)
        self.section = section

    def get_help_extra(self, ctx: click.Context) -> OptionHelpExtra:
        """Return additions to help: numbers without exponents, ranges as "1 to 9"."""
        extra = super().get_help_extra(ctx)
        if "default" in extra and isinstance(self.default, float):
            extra["default"] = f"{self.default:g}"
        if isinstance(self.type, click.IntRange | click.FloatRange):
            extra.pop("range", None)
            if text := _bounds(self.type.min, self.type.max):
                extra["range"] = text
        return extra


def _bounds(low: float | None, high: float | None) -> str:
    """Return a range as "1 to 9", "" if no user will reach its upper end."""
    if low is None or high is None or high >= _NO_BOUND:
        return ""
    return f"{low:g} to {high:,g}"


def option(*names: str, **attributes: Any) -> Callable[[F], F]:
    """Add a flag that stands alone."""
    return click.option(*names, cls=Option, **attributes)


class Verb(click.Command):
    """Shows each group of flags under its heading, after what is in no group."""

    def format_options(
        self, ctx: click.Context, formatter: click.HelpFormatter
    ) -> None:
        """Write the flags."""
        sections: dict[str, list[tuple[str, str]]] = {Group.section: []}
        for parameter in self.get_params(ctx):
            if isinstance(parameter, click.Argument):
                continue
            section = getattr(parameter, "section", Group.section)
            if record := parameter.get_help_record(ctx):
                sections.setdefault(section, []).append(record)
        for section, records in sections.items():
            with formatter.section(section):
                formatter.write_dl(records)


class VerbGroup(click.Group):
    """A verb that has verbs of its own."""

    command_class = Verb
