"""Which class of cut each switch makes, known or declared."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from dbcheck.cli.rig import power_switch
from dbcheck.core.cutclass import DECLARABLE, CutClass, shown
from dbcheck.errors import UsageError
from dbcheck.inventory.entry import Entry, PowerPlan
from dbcheck.inventory.load import load
from dbcheck.power.classes import agreed, of_agent


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
    assert of_agent(agent, None) is expected


def test_no_declaration_makes_a_cut_deeper_than_it_is() -> None:
    assert of_agent("fence_powerman", CutClass.AC) is CutClass.AC
    assert of_agent("fence_apc", CutClass.AC) is CutClass.AC
    with pytest.raises(UsageError, match="the class 'BMC off', not 'AC'"):
        of_agent("fence_ipmilan", CutClass.AC)
    with pytest.raises(UsageError, match="'reset', not 'AC'"):
        agreed("sysrq", CutClass.RESET, CutClass.AC)


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        (PowerPlan("manual"), CutClass.AC),
        (PowerPlan("manual", cut_class=CutClass.RESET), CutClass.RESET),
        (PowerPlan("exec", cut=("true",)), CutClass.UNKNOWN),
        (PowerPlan("exec", cut=("true",), cut_class=CutClass.AC), CutClass.AC),
        (PowerPlan("lab", lab="one"), CutClass.LAB_DRIVE),
    ],
)
def test_each_switch_tells_its_class(plan: PowerPlan, expected: CutClass) -> None:
    entry = Entry("db1", "postgresql://db1/x", power=plan)
    assert power_switch(entry, print).cut_class is expected


@pytest.mark.parametrize("deep", [CutClass.AC, CutClass.DC_RAIL])
def test_a_depth_speaks_for_its_own_class_alone(deep: CutClass) -> None:
    other = CutClass.BMC_OFF
    text = shown([(deep.value, "DRIVE"), (deep.value, ""), (other.value, "OS")])
    assert text == f"{deep.value}. {other.value}; {other.leaves_open(None)}"
    assert shown([("", "DRIVE"), (other.value, "")]).endswith(other.leaves_open(None))


def inventory(folder: Path, variables: Mapping[str, Any]) -> PowerPlan:
    lines = [f"      {name}: {value!r}" for name, value in variables.items()]
    target = "      dbcheck_target: postgresql://db1/x"
    text = "\n".join(("all:", "  hosts:", "    db1:", target, *lines, ""))
    path = folder / "inventory.yml"
    path.write_text(text)
    return load(path).entry("db1").power


@pytest.mark.parametrize("name", DECLARABLE)
def test_an_inventory_declares_it(name: str, tmp_path: Path) -> None:
    plan = inventory(tmp_path, {"dbcheck_power_class": name})
    assert plan.cut_class is CutClass(name)
    assert inventory(tmp_path, {}).cut_class is None


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
    with pytest.raises(UsageError, match=variable):
        inventory(tmp_path, {variable: value})
