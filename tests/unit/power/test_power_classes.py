"""Which class of cut each switch makes, known or declared."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.inventory.entry import Entry
from dbcheck.inventory.load import make_inventory
from dbcheck.model.cut import DECLARABLE, CutClass, describe_cuts
from dbcheck.power.kinds.config import SwitchConfig
from dbcheck.power.kinds.exec import ExecConfig
from dbcheck.power.kinds.fence import FenceConfig
from dbcheck.power.kinds.lab import LabConfig
from dbcheck.power.kinds.manual import ManualConfig
from dbcheck.power.kinds.shared import find_cut_class_of_agent, require_declared_class
from dbcheck.power.kinds.sysrq import SysrqConfig
from dbcheck.report.progress import PlainProgress
from dbcheck.runner.assemble import make_power_switch, make_rig
from dbcheck.runner.guard import require_passable
from dbcheck.witness.url import open_witness
from dbcheck.witness.window import WindowLimits
from tests.kit.refusals import refused


@pytest.mark.parametrize(
    ("agent", "expected"),
    [
        ("fence_apc_snmp", CutClass.AC),
        ("/usr/sbin/fence_raritan", CutClass.AC),
        ("fence_ipmilan", CutClass.BMC_OFF),
        ("fence_redfish", CutClass.BMC_OFF),
        ("fence_virsh", CutClass.HYPERVISOR_KILL),
        ("fence_pve", CutClass.HYPERVISOR_KILL),
        ("fence_aws", CutClass.HYPERVISOR_KILL),
        ("fence_powerman", CutClass.UNKNOWN),
    ],
)
def test_an_agent_is_known_by_its_name(agent: str, expected: CutClass) -> None:
    assert find_cut_class_of_agent(agent, None) is expected


def test_no_declaration_makes_a_cut_deeper_than_it_is() -> None:
    assert find_cut_class_of_agent("fence_powerman", CutClass.AC) is CutClass.AC
    assert find_cut_class_of_agent("fence_apc", CutClass.AC) is CutClass.AC
    with refused(
        ErrorId.POWER_CLASS_DIFFERS, UsageError, naming=("BMC off", "but 'AC")
    ):
        find_cut_class_of_agent("fence_ipmilan", CutClass.AC)
    with refused(ErrorId.POWER_CLASS_DIFFERS, UsageError, naming=("reset", "but 'AC")):
        require_declared_class("sysrq", CutClass.RESET, CutClass.AC)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (ManualConfig(), CutClass.AC),
        (ManualConfig(declared=CutClass.RESET), CutClass.RESET),
        (ExecConfig(("true",)), CutClass.UNKNOWN),
        (ExecConfig(("true",), declared=CutClass.AC), CutClass.AC),
        (LabConfig("one"), CutClass.LAB_DRIVE),
        (SysrqConfig(), CutClass.RESET),
    ],
)
def test_each_switch_has_its_class(config: SwitchConfig, expected: CutClass) -> None:
    entry = Entry("db1", "postgresql://db1/x", host="ssh://db1", power=config)
    assert config.cut_class is expected
    assert make_power_switch(entry, print).cut_class is expected


@pytest.mark.parametrize(
    "config",
    [
        LabConfig("one", CutClass.AC),
        SysrqConfig(declared=CutClass.AC),
        FenceConfig("fence_ipmilan", declared=CutClass.AC),
    ],
)
def test_a_switch_that_is_declared_wrongly_is_not_opened(config: SwitchConfig) -> None:
    entry = Entry("db1", "postgresql://db1/x", host="ssh://db1", power=config)
    with refused(ErrorId.POWER_CLASS_DIFFERS, UsageError):
        make_power_switch(entry, print)


@pytest.mark.parametrize(
    ("config", "assumed"),
    [
        (ManualConfig(), True),
        (ManualConfig(declared=CutClass.AC), False),
        (ExecConfig(("true",)), False),
    ],
)
def test_only_the_class_of_an_undeclared_hand_is_assumed(
    config: SwitchConfig, assumed: bool, tmp_path: Path
) -> None:
    entry = Entry("db1", "postgresql://u@db1/x", power=config)
    witness = open_witness(f"file:{tmp_path}/witness", volatile=True)
    progress, window = PlainProgress(Console(quiet=True)), WindowLimits()
    with contextlib.closing(witness):
        rig = make_rig(entry, witness, progress, tmp_path, window)
    assert rig.site.writer.class_assumed is assumed


CUT, BACK = ("pdu", "off"), ("pdu", "on")


@pytest.mark.parametrize(
    ("cut_class", "restore", "host", "is_refused"),
    [
        (CutClass.AC, (), "", True),
        (CutClass.DC_RAIL, (), "", True),
        (CutClass.BMC_OFF, (), "", True),
        (CutClass.AC, BACK, "", False),
        (CutClass.AC, (), "ssh://db1", False),  # its canaries may see DRIVE depth
        (CutClass.RESET, (), "", False),
        (CutClass.HYPERVISOR_KILL, (), "", False),
        (None, (), "", False),  # claims nothing of the drives
    ],
)
def test_a_switch_whose_cuts_could_never_pass_is_refused(
    cut_class: CutClass | None, restore: tuple[str, ...], host: str, is_refused: bool
) -> None:
    config = ExecConfig(CUT, restore, declared=cut_class)
    entry = Entry("db1", "postgresql://db1/x", power=config, host=host)
    if not is_refused:
        return require_passable(entry)
    with refused(ErrorId.SWITCH_CANNOT_PASS, UsageError) as caught:
        require_passable(entry)
    assert "--restore-command" in caught.value.hint
    assert "--target-host" in caught.value.hint


@pytest.mark.parametrize("deep", [CutClass.AC, CutClass.DC_RAIL])
def test_a_depth_speaks_for_its_own_class_alone(deep: CutClass) -> None:
    other = CutClass.BMC_OFF
    text = describe_cuts([(deep.value, "DRIVE"), (deep.value, ""), (other.value, "OS")])
    unmeasured = "in some of these cuts, its depth was not measured"
    assert text == (
        f"{deep.value} (2 cuts); {unmeasured}."
        f" {other.value} (1 cut); {other.leaves_open(None)}"
    )
    assert describe_cuts([("", "DRIVE"), (other.value, "")]).endswith(
        other.leaves_open(None)
    )


def test_one_deep_cut_does_not_speak_for_the_others_of_its_class() -> None:
    one = CutClass.BMC_OFF
    text = describe_cuts([(one.value, "DRIVE"), *[(one.value, "OS")] * 58])
    assert text == f"{one.value}; in some of these cuts, {one.leaves_open(None)}"
    assert describe_cuts([(one.value, "DRIVE")] * 2) == one.value


def declared(folder: Path, variables: Mapping[str, Any]) -> CutClass | None:
    """Return what the inventory of a host without a switch declares."""
    own = {"dbcheck_target": "postgresql://db1/x", **variables}
    config = make_inventory(folder / "inventory.yml", {"db1": own}).entry("db1").power
    assert isinstance(config, ManualConfig)
    return config.declared


@pytest.mark.parametrize("name", DECLARABLE)
def test_an_inventory_declares_it(name: str, tmp_path: Path) -> None:
    assert declared(tmp_path, {"dbcheck_power_class": name}) is CutClass(name)
    assert declared(tmp_path, {}) is None


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("dbcheck_power_class", "DRIVE"),
        ("dbcheck_power_class", "lab drive"),
        ("dbcheck_power_off_s", 0),
        ("dbcheck_power_off_s", 0.5),
    ],
)
def test_what_no_cut_can_be_is_refused(
    variable: str, value: object, tmp_path: Path
) -> None:
    with refused(ErrorId.VALUE_INVALID, UsageError, naming=variable):
        declared(tmp_path, {variable: value})
