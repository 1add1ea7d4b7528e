"""A fence agent's metadata, and whether the agent cuts power at all."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from xml.etree import ElementTree

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError

# They cut a host off from its disks or its network, pause it, ask it to end itself,
# or only look: the power stays on (fence-agents 4.12, their manual pages).
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
# Ours to decide: a reboot or a cycle may never remove the power, and what is verbose
# writes passwords to a file or to the system's log.
RESERVED = frozenset(
    ("action", "option", "method", "debug", "debug_file", "verbose", "verbose_level")
    + ("help", "version", "quiet", "delay", "nodename")
)
_NEEDED = {"fence_redfish": ("systems_uri",)}
_NAME = re.compile(r"fence_[a-z0-9_]+")


@dataclass(frozen=True, slots=True)
class Metadata:
    """An agent's options and actions.

    options:  name -> the older name of the same, "" if there is none.
    required: names that the agent cannot do without.
    """

    options: Mapping[str, str]
    required: frozenset[str]
    actions: frozenset[str]

    def require_power(self, agent: str) -> None:
        """Raise UsageError unless *agent* switches power on and off and can look."""
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
                close = difflib.get_close_matches(name, self.options, 1)
                known = ", ".join(sorted(self.options.keys() - RESERVED))
                raise UsageError(
                    f"{agent} has no option {name}",
                    id=ErrorId.FENCE_OPTION_INVALID,
                    hint=f"Did you mean {close[0]}?" if close else f"It has {known}.",
                )
        older = set(self.options.values()) - {""}
        for name in sorted(self.required - older - RESERVED | _needed(agent)):
            if not {name, self.options.get(name, "")} & set(given):
                raise UsageError(
                    f"{agent} needs the option {name}",
                    id=ErrorId.FENCE_OPTION_MISSING,
                    hint=f"See the manual page {agent}(8).",
                )


def require_name(agent: str) -> None:
    """Raise UsageError unless *agent*, without its folder, may be run at all."""
    if not _NAME.fullmatch(agent):
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


def parse(agent: str, text: str) -> Metadata:
    """Parse the XML *text* (FenceAgentAPI.md of fence-agents); raise UsageError."""
    try:
        root = ElementTree.fromstring(text)
    except (ElementTree.ParseError, ValueError, LookupError) as error:
        raise UsageError(
            f"{agent} returned invalid metadata XML: {error}",
            id=ErrorId.FENCE_AGENT_UNKNOWN,
        ) from None
    parameters = root.findall("./parameters/parameter")
    actions = root.findall("./actions/action")
    return Metadata(
        {one.get("name", ""): one.get("obsoletes", "") for one in parameters},
        frozenset(
            one.get("name", "") for one in parameters if one.get("required") == "1"
        ),
        frozenset(
            one.get("name", "") for one in actions if one.get("automatic") != "1"
        ),
    )


def _needed(agent: str) -> set[str]:
    return set(_NEEDED.get(agent, ()))
