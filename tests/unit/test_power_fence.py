"""What a fence agent's metadata must say; the agents themselves are in tests/real."""

from __future__ import annotations

import pytest

from dbcheck.base.errors import UsageError
from dbcheck.power.kinds.fence import NO_POWER, Metadata, parse, require_name
from tests.kit.devices import XML

ACTIONS = ("on", "off", "reboot", "status")


def metadata(*actions: str, more: str = "") -> Metadata:
    named = "".join(f'<action name="{action}"/>' for action in actions)
    return parse("fence_x", XML.format(named + more))


def test_a_power_agent_with_all_it_needs_is_taken() -> None:
    found = metadata(*ACTIONS)
    found.require_power("fence_x")
    found.require_options("fence_x", ["ip", "plug", "password"])
    found.require_options("fence_x", ["ipaddr", "port"])  # the older names


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["ip"], "needs the option plug"),
        (["ip", "plug", "pasword"], "has no option pasword"),
        (["ip", "plug", "method"], "method is reserved"),
        (["ip", "plug", "action"], "action is reserved"),
        (["ip", "plug", "verbose"], "verbose is reserved"),
    ],
)
def test_options_are_checked_before_the_device_is_used(
    given: list[str], said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        metadata(*ACTIONS).require_options("fence_x", given)


def test_redfish_needs_a_system() -> None:
    with pytest.raises(UsageError, match="needs the option systems_uri"):
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
    with pytest.raises(UsageError, match="cannot switch power"):
        metadata(*actions, more=more).require_power("fence_x")


@pytest.mark.parametrize("name", [*sorted(NO_POWER), "apc", "fence_x; rm", "../sh"])
def test_some_agents_are_never_run(name: str) -> None:
    with pytest.raises(UsageError, match=r"does not cut power|not a fence agent"):
        require_name(name)


def test_metadata_that_is_not_xml_is_refused() -> None:
    with pytest.raises(UsageError, match="invalid metadata XML"):
        parse("fence_x", "Usage: ...")
