"""The switch is a power agent of the fence-agents package, checked by its metadata."""

from __future__ import annotations

import difflib
import os
import re
import shutil
from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote
from typing import Annotated, ClassVar, Self
from xml.etree import ElementTree

from msgspec import Meta

from dbcheck.base import interrupt, limits, processes
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import PowerError, UsageError
from dbcheck.base.system import now_us
from dbcheck.config.secret import Secret
from dbcheck.config.validated import Text
from dbcheck.hosts.host import TargetHost
from dbcheck.model.cut import Cut, CutClass, PowerState, SwitchKind
from dbcheck.power.kinds import shared
from dbcheck.power.kinds.command import (
    TAIL_MAX,
    Finished,
    OffTimer,
    run_program,
    wait_for,
)
from dbcheck.power.kinds.config import Fields
from dbcheck.power.kinds.shared import find_cut_class_of_agent

# Agents that leave the power on: they cut a host off from its disks or its network,
# pause it, ask it to end itself, or only look (fence-agents 4.12, their manual pages).
NO_POWER = frozenset(
    f"fence_{name}"
    for name in (
        "ack_manual",
        "brocade",
        "cisco_mds",
        "compute",
        "crosslink",
        "docker",
        "evacuate",
        "heuristics_ping",
        "ifmib",
        "kdump",
        "mpath",
        "ovh",
        "sanbox2",
        "sbd",
        "scsi",
    )
)
# Options that dbcheck decides: a reboot or a cycle may never remove the power, and a
# verbose agent writes passwords to a file or to the system's log.
RESERVED = frozenset(
    ("action", "option", "method", "debug", "debug_file", "verbose", "verbose_level")
    + ("help", "version", "quiet", "delay", "nodename")
)
_NEEDED_OPTIONS = {"fence_redfish": ("systems_uri",)}
_AGENT_NAME = re.compile(r"fence_[a-z0-9_]+")


@dataclass(frozen=True, slots=True)
class Metadata:
    """An agent's options and actions.

    options:  name -> the older name of the same option, "" if there is none.
    required: names of the options that the agent cannot do without.
    """

    options: Mapping[str, str]
    required: frozenset[str]
    actions: frozenset[str]

    def require_power(self, agent: str) -> None:
        """Raise UsageError unless *agent* can switch power on and off and read it."""
        missing = {"on", "off", "status"} - self.actions
        # An agent that fences by cutting off disks unfences by "on", and cannot reboot.
        if missing or "reboot" not in self.actions:
            lacking = ", ".join(sorted(missing or {"reboot"}))
            raise UsageError(
                f"{agent} cannot switch power: it has no action {lacking}",
                id=ErrorId.FENCE_AGENT_CANNOT_CUT,
                hint="Use the agent of the outlet, the BMC or the hypervisor.",
            )

    def require_options(self, agent: str, given: Collection[str]) -> None:
        """Raise UsageError for an option that is unknown, reserved or missing."""
        for name in given:
            if name in RESERVED:
                raise UsageError(
                    f"{agent}: the option {name} is reserved; dbcheck sets it",
                    id=ErrorId.FENCE_OPTION_INVALID,
                    hint="Remove it: dbcheck runs the agent with off, then with on.",
                )
            if name not in self.options:
                similar = difflib.get_close_matches(name, self.options, 1)
                known_names = ", ".join(sorted(self.options.keys() - RESERVED))
                raise UsageError(
                    f"{agent} has no option {name}",
                    id=ErrorId.FENCE_OPTION_INVALID,
                    hint=f"Did you mean {similar[0]}?"
                    if similar
                    else f"It has {known_names}.",
                )
        older_names = set(self.options.values()) - {""}
        for name in sorted(
            self.required - older_names - RESERVED | _list_needed_options(agent)
        ):
            if not {name, self.options.get(name, "")} & set(given):
                raise UsageError(
                    f"{agent} needs the option {name}",
                    id=ErrorId.FENCE_OPTION_MISSING,
                    hint=f"See the manual page {agent}(8).",
                )


def require_name(agent: str) -> None:
    """Raise UsageError unless *agent*, without its folder, may be run at all."""
    if not _AGENT_NAME.fullmatch(agent):
        raise UsageError(
            f"{agent} is not a fence agent",
            id=ErrorId.FENCE_AGENT_UNKNOWN,
            hint="Their names begin with fence_.",
        )
    if agent in NO_POWER:
        raise UsageError(
            f"{agent} does not cut power",
            id=ErrorId.FENCE_AGENT_CANNOT_CUT,
            hint="Use the agent of the outlet, the BMC or the hypervisor.",
        )


def parse_metadata(agent: str, text: str) -> Metadata:
    """Parse the XML *text* (FenceAgentAPI.md of fence-agents); raise UsageError."""
    try:
        root = ElementTree.fromstring(text)
    except (ElementTree.ParseError, ValueError, LookupError) as error:
        raise UsageError(
            f"{agent} returned invalid metadata XML: {error}",
            id=ErrorId.FENCE_AGENT_UNKNOWN,
            hint="Check that it is a fence agent: run it with -o metadata.",
        ) from None
    parameters = root.findall("./parameters/parameter")
    actions = root.findall("./actions/action")
    return Metadata(
        {each.get("name", ""): each.get("obsoletes", "") for each in parameters},
        frozenset(
            each.get("name", "") for each in parameters if each.get("required") == "1"
        ),
        frozenset(
            each.get("name", "") for each in actions if each.get("automatic") != "1"
        ),
    )


def _list_needed_options(agent: str) -> set[str]:
    return set(_NEEDED_OPTIONS.get(agent, ()))


_METADATA_TIMEOUT_S = 30.0
_STATUS = re.compile(r"^Status: (ON|OFF)$", re.MULTILINE)
_STATUS_OFF_CODE = 2
_SYSTEM_FOLDERS = ("/usr/sbin", "/sbin", "/usr/local/sbin")


@dataclass(frozen=True, slots=True)
class FenceConfig:
    """A fence agent and how to reach its device; see config.SwitchConfig.

    agent:     e.g. "fence_apc_snmp", or a path.
    options:   name -> value, as in the agent's manual page; no secret.
    secrets:   name -> the source of the value.
    off_s:     seconds between power off and on, at least.
    timeout_s: for one call of the agent, which may take several seconds.
    declared:  the class of cut that the user declares, None to go by the agent's name.
    """

    kind: ClassVar[SwitchKind] = SwitchKind.FENCE
    attended: ClassVar[bool] = False
    guarded: ClassVar[bool] = True
    needs_host: ClassVar[bool] = False
    shows_state: ClassVar[bool] = True

    agent: Annotated[
        Text,
        Meta(description="`fence`: the agent, e.g. `fence_apc_snmp`, or its path."),
    ]
    options: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, Secret] = field(default_factory=dict)
    off_s: shared.OffSeconds = limits.OFF_S
    timeout_s: shared.Seconds = limits.POWER_TIMEOUT_S
    declared: CutClass | None = None

    @classmethod
    def read(cls, fields: Fields) -> Self:
        options, secrets = fields.options(shared.OPTIONS)
        if plug := fields.value(shared.PLUG, shared.TYPES_OF_OTHERS[shared.PLUG], ""):
            options["plug"] = plug
        if password := fields.secret(shared.PASSWORD):
            secrets["password"] = Secret("password", password.kind, password.source)
        return shared.read_config(cls, fields, options=options, secrets=secrets)

    @property
    def cut_class(self) -> CutClass:
        """The class of the agent's cuts if it is known, else the declared one."""
        return find_cut_class_of_agent(self.agent, self.declared)

    @property
    def class_assumed(self) -> bool:
        """False: a class that is neither known nor declared is UNKNOWN."""
        return False

    @property
    def returns_by_itself(self) -> bool:
        """False: the agent restores the power."""
        return False

    def restore_command(self, own_command: tuple[str, ...]) -> tuple[str, ...]:
        """Return *own_command*: the agent alone lacks its secrets."""
        return own_command

    def describe(self, host: str) -> str:
        """Return the agent's options, in words; of a secret its source."""
        options = [
            f"{name}={quote(self.options[name])}" for name in sorted(self.options)
        ]
        options += [
            f"{name} {self.secrets[name].where}" for name in sorted(self.secrets)
        ]
        given = f" ({', '.join(options)})" if options else ""
        return (
            f"run {quote(self.agent)}{given} with action=off, wait at least "
            f"{self.off_s:g} s, then run it with action=on"
        )

    def outlet(self) -> Hashable:
        """Return the agent, wherever it is installed, and its options."""
        return self.kind, Path(self.agent).name, tuple(sorted(self.options.items()))

    def open(self, host: TargetHost | None, ask: Callable[[str], None]) -> FenceSwitch:
        """Return the switch, once its agent is found and takes the options."""
        return FenceSwitch(self)


class FenceSwitch:
    """Runs an agent with action off and on, with everything on its standard input.

    The action reboot is never used: an agent may report it as done before the power is
    off, or although the power does not come back (FenceAgentAPI.md of fence-agents).
    """

    kind = FenceConfig.kind
    attended = False

    def __init__(self, config: FenceConfig) -> None:
        """Find the agent, check the options, read the secrets.

        Raise UsageError, or PowerError.  The secrets are read only here, so that the
        power can be restored whatever happens to their sources.
        """
        self._config = config
        self._name = Path(config.agent).name
        self.cut_class = config.cut_class
        require_name(self._name)
        path = os.pathsep.join((*_SYSTEM_FOLDERS, processes.make_search_path()))
        program = shutil.which(config.agent, path=path)
        if program is None:
            raise UsageError(
                f"{config.agent} is not installed here",
                id=ErrorId.PROGRAM_MISSING,
                hint="Install the package fence-agents.",
            )
        self._program = program
        for name, value in config.options.items():
            if not value.isprintable():
                raise UsageError(
                    f"{self._name}: the option {name} is not printable",
                    id=ErrorId.FENCE_OPTION_INVALID,
                    hint="Leave control characters out of it.",
                )
        done = run_program((program, "-o", "metadata"), self._name, _METADATA_TIMEOUT_S)
        metadata = parse_metadata(self._name, done.output)
        metadata.require_power(self._name)
        given = config.options.keys() | config.secrets.keys()
        metadata.require_options(self._name, given)
        self._prepared = False
        self._timer = OffTimer(config.off_s)
        secrets = {name: each.read() for name, each in config.secrets.items()}
        # A function, so that no repr() of this object's parts shows them.
        self._reveal: Callable[[], Mapping[str, str]] = lambda: secrets

    def state(self) -> PowerState:
        """Ask the agent for the power's state; raise PowerError if it reports none.

        Its output and its exit code must agree: 2 is off, but also a wrong option
        (EC_BAD_ARGS in fencing.py of fence-agents).
        """
        done = self._run_agent("status")
        match = _STATUS.search(done.output)
        if match and (match[1], done.code) in (("ON", 0), ("OFF", _STATUS_OFF_CODE)):
            return PowerState(match[1].lower())
        raise self._make_failure_error(
            "status", done, "Run it by hand with the action status."
        )

    def prepare(self) -> None:
        """Make sure that the power is on; raise PowerError if it is off."""
        if self.state() is not PowerState.ON:
            raise PowerError(
                "the power is off already, yet the server answered",
                id=ErrorId.POWER_STATE_OF_OTHER_HOST,
                hint="The agent switches a different outlet; correct its options.",
            )
        self._prepared = True

    def cut(self) -> Cut:
        """Make sure that the power is on, switch it off, see the power off.

        An agent that is run with action off while the power is off reports success.
        """
        if not self._prepared:
            self.prepare()
        self._prepared = False
        asked_us = now_us()
        output = self._switch_and_wait("off", PowerState.OFF)
        self._timer.begin()
        report = {"agent": self._name, "output": output}
        time_off = {"off_s": self._timer.off_s, "off_seen": True}
        return Cut(asked_us, None, {**report, **time_off})

    def restore(self) -> float | None:
        """Switch on after the time off, see the power on.

        An interrupt ends the time off, but not the restore, and is raised after it.
        """
        with interrupt.hold_interrupts_back():
            off_s = self._timer.wait(self.state)
            self._switch_and_wait("on", PowerState.ON)
        return off_s

    def failure(self) -> str | None:
        """Return None: only the server's answers show whether it came back."""
        return None

    def _switch_and_wait(self, action: str, wanted: PowerState) -> str:
        done = self._run_agent(action)
        if done.code:
            hint = "Check the device: the power may be on or off."
            raise self._make_failure_error(action, done, hint)
        wait_for(wanted, self.state, self._config.timeout_s)
        return done.output[-TAIL_MAX:]

    def _run_agent(self, action: str) -> Finished:
        secrets = self._reveal()
        options = {**self._config.options, **secrets, "action": action}
        return run_program(
            (self._program,),
            f"{self._name} {action}",
            self._config.timeout_s,
            text="".join(f"{name}={value}\n" for name, value in options.items()),
            hidden=secrets.values(),
        )

    def _make_failure_error(self, action: str, done: Finished, hint: str) -> PowerError:
        return PowerError(
            f"{self._name} {action} exited with {done.code}, "
            f"output: {done.output_tail}",
            id=ErrorId.POWER_COMMAND_FAILED,
            hint=hint,
        )
