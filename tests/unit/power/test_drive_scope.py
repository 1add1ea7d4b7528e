"""Cuts of drives alone: what an inventory must give, and what is refused before one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dbcheck.base.errors import PowerError, UsageError
from dbcheck.base.limits import POWER_TIMEOUT_S
from dbcheck.inventory.entry import Entry
from dbcheck.inventory.load import make_inventory
from dbcheck.model.cut import CutClass
from dbcheck.model.host import Expected
from dbcheck.power.driveonly import DriveOnlySwitch
from dbcheck.power.kinds.exec import ExecConfig
from dbcheck.power.scope import DriveScope, make_unit_scope, require_fit
from dbcheck.power.switched_host import SwitchedHost
from dbcheck.runner.assemble import make_scoped_switch
from tests.kit.drives_alone import MOUNT, SCOPE, SEEN

GIVEN: dict[str, Any] = {
    "ansible_host": "db1.example.net",
    "dbcheck_target": "postgresql://u@db1/d",
    "dbcheck_power": "exec",
    "dbcheck_power_class": "DC rail",
    "dbcheck_power_state": ["relay"],
    "dbcheck_power_cut": ["relay", "off"],
    "dbcheck_power_restore": ["relay", "on"],
    "dbcheck_power_scope": "drive",
    "dbcheck_power_drives": ["S1"],
    "dbcheck_server_unit": "postgresql@15-main",
}


def entry(**changed: Any) -> Entry:
    """Return the host of those variables; one that is None is left out."""
    variables = {k: v for k, v in {**GIVEN, **changed}.items() if v is not None}
    return make_inventory(Path("hosts.yml"), {"db1": variables}).entry("db1")


def test_a_unit_is_killed_kept_down_and_started() -> None:
    scope = entry().drive_scope
    assert scope == DriveScope(
        ("S1",),
        (
            ("systemctl", "kill", "--signal=SIGKILL", "postgresql@15-main"),
            ("systemctl", "stop", "postgresql@15-main"),
        ),
        ("systemctl", "start", "--no-block", "postgresql@15-main"),
    )


@pytest.mark.parametrize(("given", "expected"), [(None, POWER_TIMEOUT_S), (600, 600)])
def test_the_programs_on_the_host_have_the_time_that_is_given(
    given: int | None, expected: float
) -> None:
    switch = make_scoped_switch(entry(dbcheck_power_timeout_s=given), pytest.fail)
    assert isinstance(switch, DriveOnlySwitch)
    assert switch._timeout_s == expected


def test_programs_take_the_place_of_a_unit() -> None:
    scope = entry(
        dbcheck_server_unit=None,
        dbcheck_server_kill=["podman", "kill", "db"],
        dbcheck_server_start=["podman", "start", "db"],
    ).drive_scope
    assert scope is not None
    assert scope.kill == (("podman", "kill", "db"),)
    assert scope.start == ("podman", "start", "db")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        pytest.param(
            {"dbcheck_power_class": "reset"}, "class 'reset' does not", id="reset"
        ),
        pytest.param(
            {"dbcheck_power_class": "hypervisor kill"}, "does not take", id="kill"
        ),
        pytest.param(
            {"dbcheck_power_class": "BMC off"}, "'BMC off' does not", id="BMC"
        ),
        pytest.param(
            {"dbcheck_power_class": None}, "not declared; to disable a link", id="none"
        ),
        pytest.param(
            {"dbcheck_power_restore": None}, "comes back by itself", id="no restore"
        ),
        pytest.param({"dbcheck_power_state": None}, "nothing shows", id="no state"),
        pytest.param({"dbcheck_power_drives": None}, "drives is missing", id="drives"),
        pytest.param({"dbcheck_server_unit": None}, "unit is missing", id="unit"),
        pytest.param({"dbcheck_ask_host": False}, "needs the target's host", id="host"),
        pytest.param({"dbcheck_power_scope": "disk"}, "dbcheck_power_scope", id="word"),
        pytest.param(
            {"dbcheck_power_scope": "host"}, "is for cuts of drives alone", id="host's"
        ),
    ],
)
def test_what_cannot_cut_drives_alone_is_refused(
    changed: dict[str, Any], said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        entry(**changed)


@pytest.mark.parametrize(
    ("power", "said"),
    [
        pytest.param({"dbcheck_power": "sysrq"}, "class 'reset'", id="sysrq"),
        pytest.param({"dbcheck_power": "manual"}, "made by hand", id="manual"),
        pytest.param(
            {"dbcheck_power": "fence", "dbcheck_power_agent": "fence_virsh"},
            "'hypervisor kill'",
            id="a hypervisor",
        ),
        pytest.param(
            {"dbcheck_power": "fence", "dbcheck_power_agent": "fence_ipmilan"},
            "'BMC off'",
            id="a BMC",
        ),
    ],
)
def test_switches_that_leave_the_drives_their_power_are_refused(
    power: dict[str, Any], said: str
) -> None:
    none = dict.fromkeys(k for k in GIVEN if k.startswith("dbcheck_power_c"))
    none["dbcheck_power_restore"] = none["dbcheck_power_state"] = None
    with pytest.raises(UsageError, match=said):
        entry(**{**none, **power})


def test_the_outlet_of_a_shelf_cuts_drives() -> None:
    fence = {"dbcheck_power": "fence", "dbcheck_power_agent": "fence_apc_snmp"}
    none = dict.fromkeys(k for k in GIVEN if k.startswith("dbcheck_power_c"))
    none["dbcheck_power_restore"] = none["dbcheck_power_state"] = None
    assert entry(**{**none, **fence}).power.cut_class is CutClass.AC


def test_who_agrees_to_a_cut_agrees_to_what_is_done_to_the_host() -> None:
    config = ExecConfig(("relay", "off"), ("relay", "on"))
    host = SwitchedHost("db1", "postgresql://u@h/d", "ssh://db1", Expected(), config)
    alone = replace(host, scope=make_unit_scope(["S1"], "postgresql"))
    other = replace(host, scope=make_unit_scope(["S2"], "postgresql"))
    assert len({one.fingerprint() for one in (host, alone, other)}) == 3
    said = alone.describe()
    for part in ("S1", "SIGKILL postgresql", "force the filesystems", "start"):
        assert part in said


def test_a_server_on_a_partition_of_the_drive_is_fit() -> None:
    require_fit(SCOPE, SEEN)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        pytest.param({"root": False}, "not root", id="not root"),
        pytest.param({"drives": {"S1": ()}}, "no drive with the serial S1", id="none"),
        pytest.param({"busy": ("sda1 is a part of dm-0",)}, "part of dm-0", id="LVM"),
        pytest.param(
            {"exposed": ("/srv belongs to user 5",)}, "user 5", id="another account's"
        ),
        pytest.param({"on_them": False}, "/srv/data is not on", id="elsewhere"),
        pytest.param(
            {"mounts": (MOUNT, replace(MOUNT, point="/home"))},
            "/home is on the drive sda1 as well, and it holds none",
            id="another filesystem",
        ),
        pytest.param(
            {"mounts": (replace(MOUNT, point="/"),)}, "host itself runs", id="the root"
        ),
        pytest.param(
            {"mounts": (replace(MOUNT, options="rw,logdev=/dev/sdb"),)},
            "on another device",
            id="a log elsewhere",
        ),
        pytest.param(
            {"mounts": (replace(MOUNT, inner="/db"),)}, "bind mount", id="a bind mount"
        ),
        pytest.param(
            {"mounts": (replace(MOUNT, type="btrfs", shown=False),)},
            "does not show whether it holds /srv",
            id="an unseen filesystem",
        ),
    ],
)
def test_what_could_not_be_put_back_is_refused(
    changed: dict[str, Any], said: str
) -> None:
    with pytest.raises(PowerError, match=said) as caught:
        require_fit(SCOPE, replace(SEEN, **changed))
    assert caught.value.hint
