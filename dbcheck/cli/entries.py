"""What a command is about: a name in an inventory, or flags that say the same."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import click
from click.core import ParameterSource

from dbcheck.core.cut import SwitchKind
from dbcheck.core.cutclass import CutClass
from dbcheck.errors import UsageError
from dbcheck.inventory.entry import Entry
from dbcheck.inventory.load import load
from dbcheck.power.kinds.exec import ExecPlan
from dbcheck.power.kinds.lab import LabPlan
from dbcheck.power.kinds.manual import ManualPlan
from dbcheck.power.kinds.plan import PowerPlan
from dbcheck.secret import Secret

# What a name stands for; given beside it, one of the two would have to be ignored.
_INSTEAD = (
    "target",
    "password_command",
    "witness",
    "identity",
    "known_hosts",
    "target_host",
    "server_log",
    "power",
    "cut_command",
    "restore_command",
    "state_command",
    "power_timeout",
    "off_seconds",
    "power_class",
)
_OF_EXEC = (
    "cut_command",
    "restore_command",
    "state_command",
    "off_seconds",
    "power_timeout",
)
_EXEC = SwitchKind.EXEC.value
_BY_FLAGS = (SwitchKind.MANUAL, SwitchKind.EXEC, SwitchKind.LAB)
_OVERRIDES = {
    "workload": "workload",
    "sessions": "sessions",
    "silence": "silence_s",
    "wait": "return_s",
}


def chosen(ctx: click.Context) -> Entry:
    """Return what the parameters of a command describe; raise UsageError.

    A name is looked up in --inventory; flags that shape the load win over it.
    """
    flags = ctx.params
    if not flags.get("name"):
        if flags.get("power", _EXEC) != _EXEC:
            _refuse(ctx, _OF_EXEC, "needs --power exec", "Give both, or neither.")
        return _of_flags(flags)
    hint = "The inventory says what belongs to a name; give one of the two."
    _refuse(ctx, _INSTEAD, f"is given beside the name {flags['name']}", hint)
    found = load(flags["inventory"]).entry(flags["name"])
    return replace(
        found,
        **{own: flags[flag] for flag, own in _OVERRIDES.items() if is_given(ctx, flag)},
    )


def _of_flags(flags: dict[str, Any]) -> Entry:
    """Return what flags alone describe; what is not given is "" or its default."""
    return Entry(
        name="",
        target=flags.get("target") or "",
        witness=flags.get("witness") or "",
        password=password_secret(flags.get("password_command")),
        witness_identity=flags.get("identity"),
        witness_known_hosts=flags.get("known_hosts"),
        host=flags.get("target_host") or "",
        server_log=flags.get("server_log") or "",
        power=_power(flags),
        **{own: flags[flag] for flag, own in _OVERRIDES.items() if flag in flags},
    )


def password_secret(command: str | None) -> Secret | None:
    """Return where --password-command says that the password is."""
    if command is None:
        return None
    return Secret("password", "command", ("/bin/sh", "-c", command))


def _power(flags: dict[str, Any]) -> PowerPlan:
    given = flags.get("power", SwitchKind.MANUAL.value)
    kind, _, lab = given.partition(":")
    declared = CutClass(flags["power_class"]) if flags.get("power_class") else None
    if given == SwitchKind.MANUAL.value:
        return ManualPlan(declared=declared)
    if kind == SwitchKind.LAB.value and lab:
        if declared:
            raise UsageError(
                "--power-class is for --power exec or manual",
                hint="A lab's drive is cut as the lab does it: leave it out.",
            )
        return LabPlan(lab)
    if given != _EXEC:
        others = [one.value for one in SwitchKind if one not in _BY_FLAGS]
        raise UsageError(
            f"--power {given} is not known",
            hint="Known are manual, exec and lab:NAME; an inventory (dbcheck init) can "
            f"also name {', '.join(others)}.",
        )
    if not flags["cut_command"]:
        raise UsageError(
            "--power exec has no command to cut with", hint="Give --cut-command."
        )
    return ExecPlan(
        state=_split(flags, "state_command"),
        cut=_split(flags, "cut_command"),
        restore=_split(flags, "restore_command"),
        off_s=flags["off_seconds"],
        timeout_s=flags["power_timeout"],
        declared=declared,
    )


def _split(flags: dict[str, Any], name: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(flags[name]))
    except ValueError as error:
        raise UsageError(
            f"--{name.replace('_', '-')} cannot be split into words: {error}"
        ) from None


def _refuse(ctx: click.Context, options: Sequence[str], why: str, hint: str) -> None:
    """Raise UsageError if one of *options* is given."""
    for name in options:
        if is_given(ctx, name):
            raise UsageError(f"--{name.replace('_', '-')} {why}", hint=hint)


def is_given(ctx: click.Context, name: str) -> bool:
    """Say whether an option stands on the command line."""
    return ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
