"""What a fence agent's metadata must say; the agents themselves are in tests/real."""

from __future__ import annotations

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.power.kinds.fence import NO_POWER, Metadata, parse_metadata, require_name
from tests.kit.devices import XML
from tests.kit.refusals import refused

ACTIONS = ("on", "off", "reboot", "status")


def metadata(*actions: str, more: str = "") -> Metadata:
    named = "".join(f'<action name="{action}"/>' for action in actions)
    return parse_metadata("fence_x", XML.format(named + more))


def test_a_power_agent_with_all_it_needs_is_taken() -> None:
    found = metadata(*ACTIONS)
    found.require_power("fence_x")
    found.require_options("fence_x", ["ip", "plug", "password"])
    found.require_options("fence_x", ["ipaddr", "port"])  # the older names


@pytest.mark.parametrize(
    ("given", "said", "id"),
    [
        (["ip"], "needs the option plug", ErrorId.FENCE_OPTION_MISSING),
        (
            ["ip", "plug", "pasword"],
            "has no option pasword",
            ErrorId.FENCE_OPTION_INVALID,
        ),
        (["ip", "plug", "method"], "method is reserved", ErrorId.FENCE_OPTION_INVALID),
        (["ip", "plug", "action"], "action is reserved", ErrorId.FENCE_OPTION_INVALID),
        (
            ["ip", "plug", "verbose"],
            "verbose is reserved",
            ErrorId.FENCE_OPTION_INVALID,
        ),
    ],
)
def test_options_are_checked_before_the_device_is_used(
    given: list[str], said: str, id: ErrorId
) -> None:
    with refused(id, UsageError, naming=said):
        metadata(*ACTIONS).require_options("fence_x", given)


def test_redfish_needs_a_system() -> None:
    with refused(ErrorId.FENCE_OPTION_MISSING, UsageError, naming="systems_uri"):
        metadata(*ACTIONS).require_options("fence_redfish", ["ip", "plug"])


@pytest.mark.parametrize(
    ("actions", "more"),
    [
        (("off", "status", "reboot"), ""),
        (("on", "off", "status"), ""),
        (("on", "off", "reboot"), ""),
        (("off", "status", "reboot"), '<action name="on" automatic="1"/>'),
    ],
)
def test_an_agent_that_does_not_switch_power_is_refused(
    actions: tuple[str, ...], more: str
) -> None:
    with refused(
        ErrorId.FENCE_AGENT_CANNOT_CUT, UsageError, naming="cannot switch power"
    ):
        metadata(*actions, more=more).require_power("fence_x")


@pytest.mark.parametrize("name", [*sorted(NO_POWER), "apc", "fence_x; rm", "../sh"])
def test_some_agents_are_never_run(name: str) -> None:
    cuts_nothing = name in NO_POWER
    unknown = ErrorId.FENCE_AGENT_UNKNOWN
    id = ErrorId.FENCE_AGENT_CANNOT_CUT if cuts_nothing else unknown
    with refused(id, UsageError):
        require_name(name)


def test_metadata_that_is_not_xml_is_refused() -> None:
    with refused(
        ErrorId.FENCE_AGENT_UNKNOWN, UsageError, naming="invalid metadata XML"
    ):
        parse_metadata("fence_x", "Usage: ...")
