"""What every kind of power switch promises, whatever it switches."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import PowerError, UsageError
from dbcheck.config.secret import Secret
from dbcheck.inventory.entry import KNOWN
from dbcheck.inventory.fields import Fields
from dbcheck.lab.lab import Lab
from dbcheck.model.cut import PowerState, SwitchKind
from dbcheck.model.host import Expected
from dbcheck.power import registry
from dbcheck.power.kinds import shared
from dbcheck.power.kinds.config import NOT_AGREED_TO, SwitchConfig
from dbcheck.power.kinds.exec import ExecConfig
from dbcheck.power.kinds.fence import FenceConfig
from dbcheck.power.kinds.lab import LabConfig
from dbcheck.power.kinds.manual import ManualConfig
from dbcheck.power.kinds.sysrq import SysrqConfig
from dbcheck.power.switched_host import SwitchedHost
from tests.conformance.power_devices import DEVICES, OFF_S, Device
from tests.kit.labs import process_lab
from tests.kit.refusals import refused

PASSWORD = "geheim"


def secret(variable: str) -> Secret:
    return Secret("password", "env", (variable,))


# A config of each kind, and others that differ from it in one field each.
CONFIGS: Mapping[SwitchKind, tuple[SwitchConfig, Mapping[str, object]]] = {
    SwitchKind.MANUAL: (ManualConfig(), {"off_s": 9.0}),
    SwitchKind.EXEC: (
        ExecConfig(
            ("pdu", "off", "7"), ("pdu", "on", "7"), ("pdu", "state", "7"), "1", "0"
        ),
        {
            "cut": ("pdu", "off 7"),
            "restore": ("pdu", "on", "8"),
            "state": ("pdu", "reboot", "7"),
            "state_on": "2",
            "state_off": "3",
            "off_s": 9.0,
        },
    ),
    SwitchKind.FENCE: (
        FenceConfig(
            "fence_apc", {"ip": "pdu1", "plug": "7"}, {"password": secret("A")}
        ),
        {
            "agent": "/tmp/fence_apc",
            "options": {"ip": "pdu1", "plug": "8"},
            "secrets": {"password": secret("B")},
            "off_s": 9.0,
        },
    ),
    SwitchKind.SYSRQ: (SysrqConfig(), {}),
    SwitchKind.LAB: (LabConfig("one"), {"name": "two"}),
}
# Of each kind two configs of one outlet, and one of another.
OUTLETS: list[tuple[SwitchConfig, SwitchConfig, SwitchConfig]] = [
    (
        ExecConfig(("pdu", "off", "7")),
        ExecConfig(("pdu", "off", "7"), restore=("other",), off_s=9.0),
        ExecConfig(("pdu", "off", "8")),
    ),
    (
        FenceConfig("fence_apc", {"plug": "7", "ip": "pdu1"}),
        FenceConfig("/sbin/fence_apc", {"ip": "pdu1", "plug": "7"}, off_s=9.0),
        FenceConfig("fence_apc", {"ip": "pdu2", "plug": "7"}),
    ),
    (LabConfig("one"), LabConfig("one"), LabConfig("two")),
]
NO_OUTLET = {SwitchKind.MANUAL, SwitchKind.SYSRQ}
UNGUARDED = {SwitchKind.MANUAL, SwitchKind.LAB}
# The variables that make a host of each kind, the least and the most of them.
INVENTORIES: Mapping[SwitchKind, tuple[Mapping[str, Any], Mapping[str, Any]]] = {
    SwitchKind.MANUAL: ({}, {"off_s": 20, "class": "DC rail"}),
    SwitchKind.EXEC: (
        {"cut": ["a", "b"]},
        {
            **{"restore": ["c"], "state": ["d"], "state_on": "1", "state_off": "0"},
            **{"off_s": 20, "timeout_s": 9, "class": "AC"},
        },
    ),
    SwitchKind.FENCE: (
        {"agent": "fence_apc"},
        {"options": {"ip": "pdu1"}, "plug": 7, "password_env": "A", "class": "AC"},
    ),
    SwitchKind.SYSRQ: ({}, {"timeout_s": 9, "class": "reset"}),
    SwitchKind.LAB: ({"lab": "one"}, {}),
}


def switched(config: SwitchConfig) -> SwitchedHost:
    return SwitchedHost(
        "db1", "postgresql://u@db1/d", "ssh://db1", Expected("db1"), config
    )


class Twin(LabConfig):
    """Another kind with the fields of a lab's."""

    kind = SwitchKind.EXEC


class Noted(Fields):
    """The variables of a host, noting which are asked for."""

    def __init__(self, kind: SwitchKind, *given: Mapping[str, Any]) -> None:
        found: dict[str, Any] = {shared.POWER: kind.value}
        for one in given:
            found |= {f"{shared.POWER}_{name}": value for name, value in one.items()}
        super().__init__("db1", found, "hosts.yml")
        self.asked: set[str] = set()

    def _value(self, name: str) -> Any:
        self.asked.add(name)
        return super()._value(name)


# ------------------------------------------------------------------------- what it says


def test_every_kind_is_registered_and_under_test() -> None:
    kinds = set(SwitchKind)
    assert len(registry.CONFIGS) == len(kinds)
    assert kinds == set(registry.KINDS) == set(CONFIGS) == set(INVENTORIES)
    assert kinds == set(DEVICES)
    assert kinds - NO_OUTLET == {config.kind for config, _, _ in OUTLETS}


def test_only_a_human_and_a_lab_cut_without_interlocks() -> None:
    assert {
        config.kind for config in registry.CONFIGS if not config.guarded
    } == UNGUARDED
    assert [config for config in registry.CONFIGS if config.attended] == [ManualConfig]


def test_an_unknown_kind_is_refused_with_those_that_are_known() -> None:
    found = {shared.POWER: "magic"}
    with refused(
        ErrorId.VALUE_INVALID,
        UsageError,
        naming=("hosts.yml", "host db1: dbcheck_power"),
    ) as (caught):
        registry.read_switch_config(Fields("db1", found, "hosts.yml"))
    kinds = ", ".join(kind.value for kind in SwitchKind)
    assert caught.value.hint == f"It must be one of {kinds}."


@pytest.mark.parametrize("kind", SwitchKind)
def test_an_inventory_makes_a_plan_that_another_process_can_use(
    kind: SwitchKind,
) -> None:
    least, more = INVENTORIES[kind]
    whole = Noted(kind, least, more)
    config = registry.read_switch_config(whole)
    assert type(config) is registry.KINDS[kind]
    assert pickle.loads(pickle.dumps(config)) == config
    own = {name for name in whole.asked if name.startswith(shared.POWER)}
    assert own <= set(KNOWN)
    assert own >= {*shared.list_variables(type(config)), shared.POWER}
    for missing in least:
        some = {name: value for name, value in least.items() if name != missing}
        with refused(
            ErrorId.KEY_MISSING, UsageError, naming=f"{shared.POWER}_{missing}"
        ):
            registry.read_switch_config(Noted(kind, some))


@pytest.mark.parametrize("kind", SwitchKind)
def test_what_is_agreed_to_is_what_is_described(
    kind: SwitchKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A", PASSWORD)
    config, others = CONFIGS[kind]
    own = {field.name for field in fields(config)}
    assert own - NOT_AGREED_TO == others.keys()
    first = switched(config)
    assert PASSWORD not in first.describe() + repr(first)
    for name, value in others.items():
        other = switched(replace(config, **{name: value}))
        assert other.describe() != first.describe(), name
        assert other.fingerprint() != first.fingerprint(), name
    for changed in (
        replace(first, name="db2"),
        replace(first, target="postgresql://u@db2/d"),
        replace(first, host="ssh://db2"),
        replace(first, expected=Expected("db1", "S2")),
        replace(first, expected=Expected("db1", machine_id="m2")),
    ):
        assert changed.describe() != first.describe()
        assert changed.fingerprint() != first.fingerprint()


def test_no_two_kinds_are_agreed_to_as_one() -> None:
    hosts = [switched(config) for config, _ in CONFIGS.values()]
    assert len({one.fingerprint() for one in hosts}) == len(CONFIGS)
    assert len({one.describe() for one in hosts}) == len(CONFIGS)
    assert (
        switched(Twin("one")).fingerprint() != switched(LabConfig("one")).fingerprint()
    )


@pytest.mark.parametrize(("config", "same", "other"), OUTLETS)
def test_one_outlet_is_known_as_one(
    config: SwitchConfig, same: SwitchConfig, other: SwitchConfig
) -> None:
    assert config.outlet() is not None
    assert config.outlet() == same.outlet()
    assert hash(config.outlet()) == hash(same.outlet())
    assert config.outlet() != other.outlet()


def test_outlets_of_two_kinds_are_never_one() -> None:
    assert Twin("one").outlet() != LabConfig("one").outlet()
    outlets = [
        CONFIGS[kind][0].outlet() for kind in SwitchKind if kind not in NO_OUTLET
    ]
    assert len(set(outlets)) == len(outlets)
    for kind in NO_OUTLET:
        assert CONFIGS[kind][0].outlet() is None


@pytest.mark.parametrize("kind", SwitchKind)
def test_what_comes_back_by_itself_has_no_command_to_restore_it(
    kind: SwitchKind,
) -> None:
    config = registry.read_switch_config(Noted(kind, INVENTORIES[kind][0]))
    named = ("dbcheck", "power", "restore", "db1")
    if config.returns_by_itself or config.attended:
        assert config.restore_command(named) == ()
    assert config.restore_command(named) in ((), named)


@pytest.mark.parametrize("kind", SwitchKind)
def test_who_needs_the_host_is_not_opened_without_it(kind: SwitchKind) -> None:
    config, _ = CONFIGS[kind]
    if not config.needs_host:
        return
    with refused(
        ErrorId.HOST_IS_THIS_MACHINE, UsageError, naming="needs SSH to a host other"
    ) as caught:
        config.open(None, print)
    assert caught.value.hint


# ------------------------------------------------------------------------- what it does


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    folder = tmp_path_factory.mktemp("lab") / "lab"
    with Lab.start(process_lab("postgresql"), folder) as started:
        yield started


ROOT = pytest.mark.root  # who may not write the trigger is refused for that
KINDS = [
    pytest.param(kind, marks=ROOT if kind is SwitchKind.SYSRQ else (), id=kind.value)
    for kind in SwitchKind
]


@pytest.fixture(params=KINDS)
def device(
    request: pytest.FixtureRequest, lab: Lab, tmp_path: Path
) -> Iterator[Device]:
    with DEVICES[request.param](tmp_path, lab) as found:
        assert found.switch.kind is request.param
        yield found


def test_a_cut_returns_once_the_power_is_off(device: Device) -> None:
    """Or, where a human cuts, once that human was asked."""
    cut = device.switch.cut()
    if device.switch.attended:
        assert cut.by_hand
        (asked,) = device.asked
        assert "NOW" in asked
        return
    assert not cut.by_hand
    assert device.power is not None
    assert device.power() is PowerState.OFF


def test_a_restore_returns_how_long_the_power_was_off_if_it_measured_that(
    device: Device,
) -> None:
    device.switch.cut()
    off_s = device.switch.restore()
    assert device.switch.failure() is None
    if device.switch.attended:
        assert f"{OFF_S:g} s by the clock" in device.asked[1]
    assert (off_s is not None) is device.measures
    if off_s is not None:
        assert off_s >= OFF_S
    if device.power is not None and device.switch.kind is not SwitchKind.SYSRQ:
        assert device.power() is PowerState.ON  # else the host boots by itself


def test_the_state_is_read_from_the_device(device: Device) -> None:
    if device.turn_off is None:
        assert device.switch.state() is PowerState.UNKNOWN
        return
    assert device.switch.state() is PowerState.ON
    device.turn_off()
    reset = device.switch.kind is SwitchKind.SYSRQ  # silence has many reasons
    assert device.switch.state() is (PowerState.UNKNOWN if reset else PowerState.OFF)


def test_a_cut_that_did_not_come_is_an_error(device: Device) -> None:
    if device.stuck is None:
        pytest.skip("it cannot be made to keep its power and answer")
    with pytest.raises(PowerError, match=r"is still (on|up)") as caught:
        device.stuck().cut()
    assert caught.value.hint


def test_a_device_that_fails_is_an_error_before_anything_is_cut(
    device: Device,
) -> None:
    if device.broken is None:
        pytest.skip("it has no device")
    failed = r"exited with [23]|cannot reach|nosuchlab"
    with pytest.raises(PowerError, match=failed) as caught:
        device.broken().cut()
    assert caught.value.hint
    if device.power is not None:
        assert device.power() is PowerState.ON
