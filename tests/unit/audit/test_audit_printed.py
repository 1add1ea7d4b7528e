"""What tools print becomes values; what does not show a fact becomes nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dbcheck.agent.host.tools import pick_reason_line
from dbcheck.audit import printed, raid
from dbcheck.audit.raid import Controller


@pytest.mark.parametrize(
    ("errors", "found"),
    [
        ("", ""),
        ("\n \n", ""),
        ("a\n\nCommand failed.\n", "a"),
        (
            "usage\n/dev/sda: Permission denied\n[ -H ] more\n",
            "/dev/sda: Permission denied",
        ),
        ("x" * 300, "x" * 200),
    ],
)
def test_why_a_tool_could_not_do_its_work(errors: str, found: str) -> None:
    assert pick_reason_line(errors) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("\n/dev/sda:\n write-caching =  1 (on)\n", "enabled"),
        ("\n/dev/sda:\n write-caching =  0 (off)\n", "disabled"),
        ("\n/dev/sdb:\n write-caching = not supported\n", None),
        ("SG_IO: bad/missing sense data", None),
        ("", None),
    ],
)
def test_hdparm(text: str, found: str | None) -> None:
    assert printed.parse_hdparm_cache(text) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("    /dev/sdb: QEMU\nWCE           1  [cha: y, def:  1]\n", "enabled"),
        ("    /dev/sdb: QEMU\nWCE           0  [cha: y, def:  1]\n", "disabled"),
        ("WCE= not found in Caching (SBC) mode page\n", None),
    ],
)
def test_sdparm(text: str, found: str | None) -> None:
    assert printed.parse_sdparm_cache(text) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("write back", "enabled"),
        ("write back, no read (daft)", "enabled"),
        ("write through", None),  # the kernel may have assumed that
        ("none", None),
        ("", None),
    ],
)
def test_the_kernels_cache_type_of_a_scsi_drive(text: str, found: str | None) -> None:
    assert printed.parse_scsi_cache(text) == found


def test_the_cache_type_of_a_virtio_disk() -> None:
    assert printed.parse_virtio_cache("write back") == "enabled"
    assert printed.parse_virtio_cache("write through") == "disabled"
    assert printed.parse_virtio_cache("") is None


@pytest.mark.parametrize(
    ("vwc", "feature", "found"),
    [
        (
            7,
            "get-feature:0x06 (Volatile Write Cache), Current value:0x00000001",
            "enabled",
        ),
        (
            1,
            "get-feature:0x6 (Volatile Write Cache), Current value:0x000000",
            "disabled",
        ),
        (0, "", "none"),
        (6, "Current value:0x1", "none"),
        (1, "NVMe status: INVALID_FIELD", None),
        (None, "Current value:00000001", "enabled"),
        ("one", "", None),
    ],
)
def test_the_volatile_cache_of_nvme(vwc: Any, feature: str, found: str | None) -> None:
    assert printed.parse_nvme_cache(json.dumps({"vwc": vwc}), feature) == found


@pytest.mark.parametrize(
    ("shown", "found"),
    [
        ({"smart_status": {"passed": True}}, "passed"),
        ({"smart_status": {"passed": False}}, "failed"),
        ({"smart_status": {"passed": 1}}, None),
        ({"smart_status": []}, None),
        ([], None),
    ],
)
def test_the_drives_own_assessment(shown: Any, found: str | None) -> None:
    assert printed.parse_smart_health(json.dumps(shown)) == found


@pytest.mark.parametrize(
    ("shown", "warning", "backup", "health"),
    [
        ({"critical_warning": 0}, 0, None, "passed"),
        ({"critical_warning": 16}, 16, "failed", "passed"),
        ({"critical_warning": {"value": 20}}, 20, "failed", "failed"),
        (
            {"nvme_smart_health_information_log": {"critical_warning": 8}},
            *(8, None, "failed"),
        ),
        ({"critical_warning": True}, None, None, None),
        ({}, None, None, None),
    ],
)
def test_the_critical_warning_of_nvme(
    shown: Any, warning: int | None, backup: str | None, health: str | None
) -> None:
    assert printed.parse_critical_warning(json.dumps(shown)) == warning
    assert printed.judge_cache_backup(warning) == backup
    assert printed.judge_nvme_health(warning) == health


def attributes(**values: Any) -> str:
    return json.dumps({"ata_smart_attributes": {"table": [{"id": 1}, values]}})


def test_the_power_loss_capacitor() -> None:
    of = {"id": 175, "name": "Power_Loss_Cap_Test"}
    assert printed.parse_capacitor_test(attributes(**of, when_failed="")) == "passed"
    assert printed.parse_capacitor_test(attributes(**of, when_failed="now")) == "failed"
    assert (
        printed.parse_capacitor_test(attributes(**of, when_failed="past")) == "passed"
    )
    other = {"id": 175, "name": "Program_Fail_Count_Chip"}
    assert printed.parse_capacitor_test(attributes(**other, when_failed="now")) is None
    assert printed.parse_capacitor_test("{}") is None


@pytest.mark.parametrize(
    ("controller", "namespace", "found"),
    [
        ({"awupf": 0}, {"nsfeat": 0}, 4096),
        ({"awupf": 3}, {"nsfeat": 0, "nawupf": 7}, 16384),
        ({"awupf": 3}, {"nsfeat": 2, "nawupf": 7}, 32768),
        ({"awupf": -1}, {"nsfeat": 0}, None),
        ({}, {"nsfeat": 0}, None),
    ],
)
def test_what_a_drive_writes_as_a_whole(
    controller: Any, namespace: Any, found: int | None
) -> None:
    formats = {"flbas": 1, "lbafs": [{"ds": 9}, {"ds": 12}]}
    texts = json.dumps(controller), json.dumps({**formats, **namespace})
    assert printed.parse_atomic_bytes(*texts) == found


@pytest.mark.parametrize(
    "formats",
    [
        {},
        {"flbas": 1, "lbafs": [{"ds": 9}]},
        {"flbas": 0, "lbafs": [{"ds": 90}]},
        {"flbas": "0", "lbafs": [{"ds": 9}]},
        {"flbas": 0, "lbafs": [9]},
    ],
)
def test_a_namespace_without_a_block_size_shows_nothing(formats: Any) -> None:
    assert printed.parse_atomic_bytes('{"awupf": 0}', json.dumps(formats)) is None


@pytest.mark.parametrize(
    ("table", "mode"),
    [
        ("0 204800 linear 7:0 2048", None),
        ("0 204800 cache 253:2 253:1 253:3 128 1 writethrough smq 0", "writethrough"),
        (
            "0 204800 cache 253:2 253:1 253:3 128 2 metadata2 writeback smq 0",
            "writeback",
        ),
        ("0 204800 cache 253:2 253:1 253:3 128 0 smq 0", "writeback"),
        ("0 204800 writecache s 253:2 253:3 4096 0", "writeback"),
        (
            "0 65536 flashcache conf:\n\tssd dev (/dev/sdb), disk dev (/dev/sda) cache"
            " mode(WRITE_BACK)\n\tcapacity(512M)",
            "writeback",
        ),
        ("0 8 flashcache conf:\n\tcache mode(WRITE_THROUGH)", "writethrough"),
        ("", None),
    ],
)
def test_the_mode_of_a_cache(table: str, mode: str | None) -> None:
    assert printed.parse_cache_mode(printed.parse_mapper_targets(table)) == mode


def test_the_mode_of_dm_integrity() -> None:
    table = printed.parse_mapper_targets(
        "0 8 integrity 7:0 0 4 D 1 internal_hash:crc32c"
    )
    assert printed.parse_integrity_mode(table) == "D"
    assert (
        printed.parse_integrity_mode(printed.parse_mapper_targets("0 8 linear 7:0 0"))
        is None
    )


def storcli(**data: Any) -> str:
    return json.dumps({"Controllers": [{"Response Data": data}]})


def drive(cache: str) -> dict[str, list[dict[str, str]]]:
    return {"VD LIST": [{"DG/VD": "0/0", "TYPE": "RAID1", "Cache": cache}]}


@pytest.mark.parametrize(
    ("cache", "battery", "wanted", "state"),
    [
        ("RWBD", "Optimal", "protected", "ready"),
        ("RWBD", "Failed", "protected", "failed"),  # it falls back to write through
        ("NRWTD", "Optimal", "off", "ready"),
        ("RAWBD", "Optimal", "forced", "ready"),
        ("RAWBD", "Degraded", "unprotected", "failed"),
        ("NRAWBC", "Learning", "unprotected", "learning"),
        ("RFWBD", "Charging", "unprotected", "charging"),
    ],
)
def test_storcli(cache: str, battery: str, wanted: str, state: str) -> None:
    for name in ("BBU_Info", "Cachevault_Info"):
        text = storcli(**drive(cache), **{name: [{"State": battery}]})
        assert raid.parse_storcli(text) == [
            Controller("controller 0", wanted, None, state)
        ]


def test_storcli_without_a_battery() -> None:
    text = storcli(**drive("RAWBD"), HwCfg={"BBU": "No"}, Basics={"Model": "SAS 9361"})
    assert raid.parse_storcli(text) == [
        Controller("controller 0 (SAS 9361)", "unprotected", None, "absent")
    ]
    assert raid.parse_storcli(storcli()) == [
        Controller("controller 0", None, None, None)
    ]
    for broken in ("", "[]", '{"Controllers": [1]}', '{"Controllers": {}}'):
        assert raid.parse_storcli(broken) == []


@pytest.mark.parametrize(
    ("policies", "shown"),
    [
        (("Disk's Default",), "default"),
        (("Disabled", "Disabled"), "disabled"),
        (("Disabled", "Enabled", "Disk's Default"), "enabled"),
        (("Disabled", "Disk's Default"), "default"),
        (("?",), None),
        ((), None),
    ],
)
def test_the_caches_behind_storcli(
    policies: tuple[str, ...], shown: str | None
) -> None:
    properties = {
        f"VD{number} Properties": {"Disk Cache Policy": policy}
        for number, policy in enumerate(policies)
    }
    (found,) = raid.parse_storcli(storcli(), storcli(**properties))
    assert found.drives == shown


SSACLI = """
Smart Array P440ar in Slot 0 (Embedded)
   Bus Interface: PCI
   Cache Status: {status}
   Drive Write Cache: {drives}
   No-Battery Write Cache: {forced}
   Battery/Capacitor Count: {count}
{battery}
   Array: A
      Drive Write Cache: Enabled
"""


def ssacli(status: str, forced: str, battery: str, count: int = 1) -> list[Controller]:
    line = f"   Battery/Capacitor Status: {battery}" if battery else ""
    text = SSACLI.format(
        status=status, drives="Disabled", forced=forced, count=count, battery=line
    )
    return raid.parse_ssacli(text)


@pytest.mark.parametrize(
    ("status", "forced", "battery", "wanted", "state"),
    [
        ("OK", "Disabled", "OK", "protected", "ready"),
        ("OK", "Enabled", "OK", "forced", "ready"),
        ("OK", "Enabled", "Failed (Replace Batteries)", "unprotected", "failed"),
        ("Temporarily Disabled", "Disabled", "Recharging", "off", "charging"),
    ],
)
def test_ssacli(
    status: str, forced: str, battery: str, wanted: str, state: str
) -> None:
    name = "Smart Array P440ar in Slot 0 (Embedded)"
    assert ssacli(status, forced, battery) == [
        Controller(name, wanted, "disabled", state)
    ]


def test_ssacli_without_a_battery_or_a_cache() -> None:
    (found,) = ssacli("OK", "Enabled", "", count=0)
    assert (found.cache, found.battery) == ("unprotected", "absent")
    (bare,) = raid.parse_ssacli("Smart HBA H240 in Slot 1\n   Bus Interface: PCI\n")
    assert bare == Controller("Smart HBA H240 in Slot 1", None, None, None)
    assert raid.parse_ssacli("Error: No controllers detected.") == []


@pytest.mark.parametrize(
    ("text", "shown", "known"),
    [
        ("Enable", "enabled", True),
        ("Enabled", "enabled", True),
        ("Disable", "disabled", True),
        ("Disabled", "disabled", True),
        ("Default", "default", True),
        ("Unchanged", "default", True),
        ("Aus", None, False),
    ],
)
def test_the_caches_behind_ssacli(text: str, shown: str | None, known: bool) -> None:
    """Gen10 controllers print what a command takes, older ones a participle."""
    for key in ("Configured Drive Write Cache Policy", "Drive Write Cache"):
        lines = f"HPE Smart Array P816i-a in Slot 0\n   Slot: 0\n   {key}: {text}\n"
        (found,) = raid.parse_ssacli(lines)
        assert (found.drives, "drives" in found.unclear) == (shown, not known)


GEN10 = """
HPE Smart Array P816i-a SR Gen10 in Slot 0 (Embedded)

Warning: the controller in Slot 0 has unrecoverable media errors. Errors will be fixed
when the sector(s) are overwritten.

   Bus Interface: PCI
   Slot: 0
   Cache Board Present: {board}
   {status}
   Configured Drive Write Cache Policy: Disable
   No-Battery Write Cache: {forced}
   Battery/Capacitor Count: 1
   Battery/Capacitor Status: {battery}

   Array: A
      Cache Status: OK
      Battery/Capacitor Status: OK
"""


@pytest.mark.parametrize(
    ("status", "forced", "battery", "cache", "state"),
    [
        ("Cache Status: OK", "Disabled", "OK", "protected", "ready"),
        ("Cache Status: OK", "Enable", "Failed", "unprotected", "failed"),
        ("Cache Status: OK", "Disable", "Recharging", "protected", "charging"),
        ("Cache Status: Not Configured", "Disabled", "OK", "off", "ready"),
        ("Cache Status: Permanently Disabled", "Disabled", "OK", "off", "ready"),
        ("Cache Status: Broken", "Disabled", "OK", None, "ready"),
        ("Cache Status: OK", "Perhaps", "OK", None, "ready"),
        ("Cache Status: OK", "Enabled", "Odd", None, None),
        ("Cache Status: OK", "Disabled", "Odd", "protected", None),
    ],
)
def test_what_ssacli_shows_of_a_controller_of_today(
    status: str, forced: str, battery: str, cache: str | None, state: str | None
) -> None:
    text = GEN10.format(board="True", status=status, forced=forced, battery=battery)
    (found,) = raid.parse_ssacli(text)
    assert found.name.startswith("HPE Smart Array")
    assert (found.cache, found.battery, found.drives) == (cache, state, "disabled")
    assert ("cache" in found.unclear) is (cache is None)
    assert ("battery" in found.unclear) is (state is None)


def test_a_controller_without_a_cache_has_none_on() -> None:
    text = GEN10.format(board="False", status="Slot: 0", forced="Disabled", battery="")
    (found,) = raid.parse_ssacli(text)
    assert found.cache == "off"


# As a Cisco controller of Broadcom's 9600 series shows it (storcli2 008.0011).
SHOW_2 = {
    "Product Name": "Tri-Mode 24G SAS RAID Controller w/4GB Cache",
    "Virtual Drives": 1,
    "VD LIST": [
        {
            "DG/VD": "0/1",
            "TYPE": "RAID0",
            "State": "Optl",
            "CurrentCache": "NR,WB",
            "DefaultCache": "NR,WB",
        }
    ],
    "Energy Pack Info": [
        {"Type": "Supercap", "SubType": "FBU345", "Status": "Optimal"}
    ],
}
VALL_2 = {
    "Virtual Drives": [
        {
            "VD Info": {"DG/VD": "0/1", "CurrentCache": "NR,WB"},
            "PDs": [],
            "VD Properties": {"Drive Write Cache Policy": "Default"},
        }
    ]
}


def storcli2(
    cache: str, battery: str | None = "Optimal", behind: str = "Default"
) -> Controller:
    packs = [] if battery is None else [{"Type": "Supercap", "Status": battery}]
    rows = [{"DG/VD": "0/1", "CurrentCache": cache, "DefaultCache": "NR,WB"}]
    show = SHOW_2 | {"VD LIST": rows, "Energy Pack Info": packs}
    policy = {"VD Properties": {"Drive Write Cache Policy": behind}}
    vall = {"Virtual Drives": [policy]}
    (found,) = raid.parse_storcli(
        *(
            json.dumps(
                {
                    "Controllers": [
                        {
                            "Command Status": {
                                "Controller": "3",
                                "Status": "Success",
                                "Description": "None",
                            },
                            "Response Data": data,
                        }
                    ]
                }
            )
            for data in (show, vall)
        )
    )
    assert found.name.startswith("controller 3 (Tri-Mode")
    return found


@pytest.mark.parametrize(
    ("cache", "battery", "wanted", "state"),
    [
        ("NR,WB", "Optimal", "protected", "ready"),
        ("R,WB", "Critical", "protected", "failed"),  # it falls back to write through
        ("NR,WT", "Optimal", "off", "ready"),
        ("R, AWB", "Optimal", "forced", "ready"),
        ("NR,AWB", "Need Attention", "unprotected", "failed"),
        ("NR,FWB", "Unavailable", "unprotected", "failed"),
        ("NR,AWB", None, None, None),
        ("NR,XY", "Optimal", None, "ready"),
        ("NRAWB", "Optimal", "forced", "ready"),
    ],
)
def test_storcli_of_the_second_generation(
    cache: str, battery: str | None, wanted: str | None, state: str | None
) -> None:
    found = storcli2(cache, battery)
    assert (found.cache, found.battery) == (wanted, state)
    assert ("cache" in found.unclear) is (wanted is None)


@pytest.mark.parametrize(
    ("policy", "shown"),
    [
        ("Default", "default"),
        ("Enabled", "enabled"),
        ("Enable", "enabled"),
        ("Disabled", "disabled"),
        ("?", None),
    ],
)
def test_the_caches_behind_storcli_of_the_second_generation(
    policy: str, shown: str | None
) -> None:
    found = storcli2("NR,WB", behind=policy)
    assert (found.drives, "drives" in found.unclear) == (shown, shown is None)


def test_a_real_answer_of_the_second_generation() -> None:
    (found,) = raid.parse_storcli(storcli(**SHOW_2), storcli(**VALL_2))
    name = "controller 0 (Tri-Mode 24G SAS RAID Controller w/4GB Cache)"
    assert found == Controller(name, "protected", "default", "ready")


@pytest.mark.parametrize(
    "text",
    [
        "Error: No controllers detected. Possible causes:\n",
        json.dumps({"Controllers": [{"Response Data": {"Number of Controllers": 0}}]}),
        json.dumps(
            {
                "Controllers": [
                    {
                        "Command Status": {
                            "Status": "Failure",
                            "Description": "No Controller found",
                        }
                    }
                ]
            }
        ),
    ],
)
def test_a_tool_without_a_controller_of_its_kind(text: str) -> None:
    assert raid.shows_no_controller(text)
    assert raid.parse_storcli(text) == raid.parse_ssacli(text) == []
    assert not raid.shows_no_controller(storcli(**SHOW_2))
    assert not raid.shows_no_controller("Error: You need to have administrator rights.")


@pytest.mark.parametrize("cache", ["RaWTD", "RaWBD", "RWB"])
def test_read_ahead_that_adapts_and_a_cache_without_its_last_letter(cache: str) -> None:
    (found,) = raid.parse_storcli(storcli(**drive(cache)))
    assert found.cache == ("off" if "WT" in cache else "protected")


def test_one_drive_that_is_not_understood_hides_no_worse_one() -> None:
    rows = [{"Cache": "odd"}, {"Cache": "RAWBD"}]
    text = storcli(**{"VD LIST": rows}, BBU_Info=[{"State": "Failed"}])
    (found,) = raid.parse_storcli(text)
    assert found.cache == "unprotected"
    (odd,) = raid.parse_storcli(storcli(**{"VD LIST": [rows[0], {"Cache": "RWBD"}]}))
    assert odd.cache is None
    assert "'odd'" in odd.unclear["cache"]
