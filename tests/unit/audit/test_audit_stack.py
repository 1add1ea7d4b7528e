"""Filesystems, block devices, drives and the host as the audit sees them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from dbcheck.audit import platform
from dbcheck.audit.rules import find_located_findings
from dbcheck.audit.stack import make_subjects, make_unseen_subjects
from dbcheck.audit.subject import Subject
from dbcheck.model.host import Container, Drive, Layer, Reading, Readings, TargetFacts
from tests.kit.host_samples import FACTS, VOLUME

DISK = Layer("sda", "disk", "", "", "", "write back", "1", ())
SDA = Drive("sda", "X25-E", "s1", "w1", "write back", None, None)
PAGE_BYTES = 8192


def layer(
    name: str, kind: str, *below: str, cache: str = "write back", **more: Any
) -> Layer:
    return Layer(
        name,
        kind,
        more.pop("mapped", ""),
        more.pop("uuid", ""),
        "",
        cache,
        "0",
        below,
        **more,
    )


def read(*shown: tuple[str, str, str] | Reading) -> Readings:
    """Return readings: of, what and text of each."""
    return Readings(
        each
        if isinstance(each, Reading)
        else Reading(each[0], each[1], each[1], each[2], "")
        for each in shown
    )


def host(*layers: Layer, **changed: Any) -> TargetFacts:
    """Return a host whose data lie on *layers*, the drives of which are the last."""
    drives = tuple(
        Drive(each.name, "", "", "", each.write_cache, None, None)
        for each in layers
        if not each.below
    )
    volume = replace(VOLUME, layers=layers, drives=drives, **changed)
    return replace(FACTS, volumes=(volume,))


def found(
    facts: TargetFacts, readings: Readings | None = None, *, guarded: bool = True
) -> dict[str, str]:
    """Return each rule that is not met -> its status."""
    given = readings or Readings()
    subjects = make_subjects(facts, given, PAGE_BYTES, guarded=guarded)
    shown = find_located_findings("postgresql", subjects)
    return {each.finding.rule.id: each.finding.status.value for each in shown}


def fixes(facts: TargetFacts, readings: Readings | None = None) -> dict[str, str]:
    subjects = make_subjects(facts, readings or Readings(), PAGE_BYTES, guarded=True)
    return {
        each.finding.rule.id: each.fix
        for each in find_located_findings("postgresql", subjects)
    }


UNKNOWN_CACHE = {"drive-volatile-cache": "unknown"}


def test_a_plain_drive_leaves_open_what_its_own_cache_does() -> None:
    assert found(host(DISK)) == UNKNOWN_CACHE


def test_a_drive_without_a_volatile_cache_is_safe() -> None:
    off = ("sda", "hdparm", " write-caching =  0 (off)")
    assert found(host(DISK), read(off)) == {}
    assert found(host(replace(DISK, write_cache="write through")), read(off)) == {}


@pytest.mark.parametrize(
    "shown",
    [
        ("sda", "hdparm", " write-caching =  1 (on)"),
        ("sda", "sdparm", "WCE           1  [cha: y]"),
        ("sda", "device/scsi_disk/*/cache_type", "write back"),
    ],
)
def test_a_cache_that_the_kernel_does_not_flush_is_an_error(
    shown: tuple[str, str, str],
) -> None:
    blind = host(replace(DISK, write_cache="write through"))
    assert found(blind, read(shown)) == {
        "drive-not-flushed": "unsafe",
        "drive-volatile-cache": "unsafe",
    }
    assert found(host(DISK), read(shown)) == {"drive-volatile-cache": "unsafe"}
    fix = fixes(blind, read(shown))["drive-not-flushed"]
    assert "echo 'write back' > /sys/block/sda/queue/write_cache" in fix
    assert "hdparm -W 0 /dev/sda" in fix and "$" not in fix


def test_a_drive_that_is_not_flushed_and_whose_cache_is_unknown_is_not_safe() -> None:
    blind = host(replace(DISK, write_cache="write through"))
    denied = Reading(
        "sda", "hdparm", "hdparm -W /dev/sda", "", "hdparm: Permission denied"
    )
    wanted = {"drive-not-flushed": "unknown", **UNKNOWN_CACHE}
    assert found(blind) == wanted
    assert found(blind, read(denied)) == wanted
    (open_one, *_) = find_located_findings(
        "postgresql", make_subjects(blind, read(denied), PAGE_BYTES, guarded=True)
    )
    assert "log in there as root" in open_one.decisive.remedy
    assert "Permission denied" in open_one.decisive.why
    missing = replace(denied, why="hdparm is not installed")
    (open_one, *_) = find_located_findings(
        "postgresql", make_subjects(blind, read(missing), PAGE_BYTES, guarded=True)
    )
    assert open_one.decisive.remedy == "install it there: hdparm"


def test_a_kernel_that_assumed_write_through_shows_nothing_about_the_drive() -> None:
    blind = host(replace(DISK, write_cache="write through"))
    assumed = ("sda", "device/scsi_disk/*/cache_type", "write through")
    assert found(blind, read(assumed))["drive-not-flushed"] == "unknown"


def test_nvme() -> None:
    drive = layer("nvme0n1", "disk")
    on = "get-feature:0x06, Current value:0x00000001"
    with_cache = ("nvme0n1", "nvme id-ctrl", '{"vwc": 7, "awupf": 0}')
    enabled = ("nvme0n1", "nvme get-feature", on)
    namespace = ("nvme0n1", "nvme id-ns", '{"flbas": 0, "lbafs": [{"ds": 12}]}')
    assert found(host(drive), read(with_cache, enabled, namespace)) == {
        "drive-volatile-cache": "unsafe"
    }
    small = found(host(drive), read(with_cache, enabled, namespace), guarded=False)
    assert small["drive-atomic-write"] == "unsafe"
    large = ("nvme0n1", "nvme id-ctrl", '{"vwc": 0, "awupf": 1}')
    assert found(host(drive), read(large, namespace), guarded=False) == {}
    failing = ("nvme0n1", "nvme smart-log", '{"critical_warning": 20}')
    assert found(host(drive), read(large, failing)) == {
        "drive-cache-backup-failed": "unsafe",
        "drive-failing": "unsafe",
    }


def test_smart() -> None:
    bad: dict[str, Any] = {"smart_status": {"passed": False}}
    bad["ata_smart_attributes"] = {
        "table": [{"id": 175, "name": "Power_Loss_Cap_Test", "when_failed": "now"}]
    }
    shown = ("sda", "smartctl", json.dumps(bad))
    assert found(host(DISK), read(shown)) == {
        "drive-failing": "unsafe",
        "drive-capacitor-failed": "unsafe",
        **UNKNOWN_CACHE,
    }


def test_a_layer_that_drops_flushes_is_an_error() -> None:
    top = layer("dm-0", "dm", "sda", cache="write through", mapped="vg-lv")
    assert found(host(top, DISK)) == {
        "layer-drops-flushes": "unsafe",
        **UNKNOWN_CACHE,
    }
    assert found(host(replace(top, write_cache="write back"), DISK)) == UNKNOWN_CACHE
    through = replace(DISK, write_cache="write through")
    assert "layer-drops-flushes" not in found(host(top, through))


def test_a_device_made_for_tests_is_named_among_others() -> None:
    mapped = layer("dm-0", "dm", "sda", mapped="x")
    table = ("dm-0", "dmsetup table", "0 8 linear 8:0 0\n8 8 flakey 8:0 8 1 0")
    assert found(host(mapped, DISK), read(table)) == {
        "layer-made-for-tests": "unsafe",
        **UNKNOWN_CACHE,
    }
    plain = ("dm-0", "dmsetup table", "0 8 linear 8:0 0\n8 8 striped 2 8 8:0 8")
    assert found(host(mapped, DISK), read(plain)) == UNKNOWN_CACHE


def test_caches_above_the_drive() -> None:
    bcache = layer("bcache0", "disk", "sda")
    mode = "writethrough [writeback] writearound none"
    assert found(host(bcache, DISK), read(("bcache0", "bcache/cache_mode", mode))) == {
        "layer-cache-write-back": "unsafe",
        **UNKNOWN_CACHE,
    }
    mode = "[writethrough] writeback writearound none"
    safe = found(host(bcache, DISK), read(("bcache0", "bcache/cache_mode", mode)))
    assert safe == UNKNOWN_CACHE
    mapped = layer("dm-0", "dm", "sda", mapped="vg-lv")
    table = "0 2048 cache 253:2 253:1 253:3 128 1 writeback smq 0"
    assert found(host(mapped, DISK), read(("dm-0", "dmsetup table", table))) == {
        "layer-cache-write-back": "unsafe",
        **UNKNOWN_CACHE,
    }


def test_a_bcache_without_its_cache_holds_nothing_back() -> None:
    bcache = layer("bcache0", "disk", "sda")
    mode = ("bcache0", "bcache/cache_mode", "writethrough [writeback] none")
    for state, rules in (("no cache", set()), ("dirty", {"layer-cache-write-back"})):
        shown = found(
            host(bcache, DISK), read(mode, ("bcache0", "bcache/state", state))
        )
        assert shown.keys() - UNKNOWN_CACHE.keys() == rules


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("nvme10n2", "nvme set-feature /dev/nvme10 -f 6 -v 0"),
        ("sda", "hdparm -W 0 /dev/sda"),
    ],
)
def test_the_fix_names_what_the_tool_takes(name: str, command: str) -> None:
    drive = layer(name, "disk", cache="write through")
    shown = fixes(
        host(drive),
        read((name, "hdparm", " write-caching =  1 (on)"))
        if name == "sda"
        else read((name, "nvme get-feature", "Current value:0x00000001")),
    )
    assert command in shown["drive-not-flushed"]


def test_a_cache_of_lvm_whose_table_only_root_may_read_is_unknown() -> None:
    uuid = "LVM-" + "x" * 64
    top = layer("dm-0", "dm", "dm-1", mapped="vg-lv", uuid=uuid)
    pool = layer("dm-1", "dm", "sda", mapped="vg-pool_cdata", uuid=f"{uuid}-cdata")
    denied = Reading(
        "dm-0", "dmsetup table", "dmsetup table vg-lv", "", "dmsetup: Permission denied"
    )
    assert found(host(top, pool, DISK), read(denied)) == {
        "layer-cache-write-back": "unknown",
        **UNKNOWN_CACHE,
    }
    assert (
        found(host(replace(top, below=("sda",)), DISK), read(denied)) == UNKNOWN_CACHE
    )


@pytest.mark.parametrize(
    ("md", "rules"),
    [
        ({"level": "raid1", "degraded": "0"}, set()),
        ({"level": "raid1", "degraded": "1"}, {"layer-array-degraded"}),
        ({"level": "raid0"}, set()),
        ({"level": "raid5", "degraded": "0", "policy": "resync"}, {"layer-write-hole"}),
        ({"level": "raid5", "degraded": "0", "policy": "bitmap"}, {"layer-write-hole"}),
        ({"level": "raid5", "degraded": "0", "policy": "ppl"}, set()),
        ({"level": "raid1", "degraded": "0", "backlog": "256"}, {"layer-write-behind"}),
        ({"level": "raid1", "degraded": "0", "backlog": "0"}, set()),
    ],
)
def test_arrays(md: dict[str, str], rules: set[str]) -> None:
    array = layer("md0", "md", "sda", md=md)
    assert found(host(array, DISK)).keys() - UNKNOWN_CACHE.keys() == rules


def test_the_journal_of_an_array() -> None:
    md = {"level": "raid5", "degraded": "0", "policy": "journal"}
    array = layer("md0", "md", "sda", md=md)
    mode = ("md0", "md/journal_mode", "write-through [write-back]")
    assert "layer-journal-write-back" in found(host(array, DISK), read(mode))


def test_devices_in_memory_and_files_as_drives() -> None:
    assert "layer-in-memory" in found(host(layer("zram0", "disk")))
    loop = layer("loop3", "loop", cache="write through")
    shown = found(host(loop))
    assert shown["drive-not-flushed"] == "unsafe"  # its file has to be synced
    assert shown["layer-loop"] == "unsafe"
    assert "drive-not-flushed" not in found(
        host(replace(loop, write_cache="write back"))
    )


@pytest.mark.parametrize(
    ("filesystem", "options", "rule"),
    [
        ("ext4", "rw,nobarrier", "fs-barrier"),
        ("ext4", "rw,data=writeback", "fs-data-writeback"),
        ("btrfs", "rw,nodatacow", "fs-nodatacow"),
        ("f2fs", "rw,checkpoint=disable", "fs-sync"),
        ("f2fs", "rw,fsync_mode=nobarrier", "fs-barrier"),
        ("nfs4", "rw,soft", "fs-nfs-soft"),
        ("nfs4", "rw,hard", "fs-network"),
        ("tmpfs", "rw", "fs-in-memory"),
        ("overlay", "rw,volatile", "fs-sync"),
        ("overlay", "rw", "fs-overlay"),
        ("fuse.sshfs", "rw", "fs-network"),
        ("fuseblk", "rw", "fs-fuse"),
        ("vfat", "rw", "fs-no-journal"),
        ("somefs", "rw", "fs-no-journal"),
    ],
)
def test_filesystems(filesystem: str, options: str, rule: str) -> None:
    shown = found(host(DISK, filesystem=filesystem, mount_options=options))
    assert shown[rule] == "unsafe"


@pytest.mark.parametrize(
    ("release", "is_flagged"),
    [("4.9.0", True), ("4.10.0", False), ("6.1.0-44-amd64", False), ("", True)],
)
def test_xfs_ignores_nobarrier_since_4_10(release: str, is_flagged: bool) -> None:
    kernel = ("", "/proc/sys/kernel/osrelease", release)
    facts = host(DISK, filesystem="xfs", mount_options="rw,nobarrier")
    assert ("fs-barrier" in found(facts, read(kernel))) is is_flagged
    other = host(DISK, filesystem="ext4", mount_options="rw,nobarrier")
    assert "fs-barrier" in found(other, read(kernel))


def test_zfs() -> None:
    facts = host(filesystem="zfs", source="tank/db", mount_options="rw")
    shown = "sync\tdisabled\nlogbias\tlatency\nrecordsize\t16384\n"
    flush = ("", "/sys/module/zfs/parameters/zfs_nocacheflush", "1")
    assert found(facts, read(("tank/db", "zfs", shown), flush)) == {
        "fs-zfs-sync": "unsafe",
        "fs-zfs-nocacheflush": "unsafe",
        "drive-not-flushed": "unknown",
    }
    safe = ("tank/db", "zfs", "sync\tstandard\n")
    assert found(facts, read(safe, (*flush[:2], "0"))) == {
        "drive-not-flushed": "unknown"
    }
    assert found(facts)["fs-zfs-sync"] == "unknown"
    assert fixes(facts, read(("tank/db", "zfs", shown)))["fs-zfs-sync"] == (
        "zfs set sync=standard tank/db"
    )


def test_a_place_that_was_not_seen_and_a_host_that_was_not_asked_are_unknown() -> None:
    facts = replace(host(DISK), unseen={"redo log": "Permission denied"})
    assert found(facts) == {"fs-in-memory": "unknown", **UNKNOWN_CACHE}
    open_ones = find_located_findings("mysql", make_unseen_subjects())
    assert {each.finding.rule.id for each in open_ones} == {
        "fs-in-memory",
        "drive-not-flushed",
    }
    assert all("--target-host" in each.decisive.remedy for each in open_ones)


def test_a_drive_below_two_volumes_is_judged_once() -> None:
    facts = host(DISK)
    other = replace(facts.volumes[0], places={"WAL": "/w"}, mount_point="/w")
    two = replace(facts, volumes=(*facts.volumes, other))
    subjects = make_subjects(two, Readings(), PAGE_BYTES, guarded=True)
    names = [each.name for each in subjects if each.kind.value == "drive"]
    assert names == ["sda"]


@pytest.mark.parametrize(
    ("shown", "rules"),
    [
        ((), set()),
        ((("", "vm", "kvm"),), {"host-virtual-machine"}),
        ((("", "vm", "none"), ("", "container", "none")), set()),
        ((("", "container", "lxc"),), {"host-container"}),
        ((("", "/.dockerenv", "yes"),), {"host-container"}),
        (
            (("", "/sys/class/dmi/id/sys_vendor", "Amazon EC2"),),
            {"host-virtual-machine", "host-cloud"},
        ),
        (
            (("", "/proc/sys/kernel/osrelease", "5.15.90-microsoft-standard-WSL2"),),
            {"host-desktop"},
        ),
        ((("", "/proc/sys/kernel/osrelease", "6.6.12-linuxkit"),), {"host-desktop"}),
    ],
)
def test_hosts(shown: tuple[tuple[str, str, str], ...], rules: set[str]) -> None:
    found_there = found(host(DISK), read(*shown))
    assert found_there.keys() - UNKNOWN_CACHE.keys() == rules


LONG_ID = "0123456789ab" + "f" * 52


@pytest.mark.parametrize(
    ("cgroup", "named"),
    [
        (f"/docker/{LONG_ID}", "0123456789ab"),
        (f"/system.slice/docker-{LONG_ID}.scope", "0123456789ab"),
        (f"/machine.slice/libpod-{LONG_ID}.scope/container", "0123456789ab"),
        (
            "/kubepods.slice/kubepods-pod0a1b2c3d_4e5f_6071_8293_a4b5c6d7e8f9.slice/"
            f"cri-containerd-{LONG_ID}.scope",
            "0123456789ab",
        ),
        (f"/docker/{'a' * 64}/docker/{LONG_ID}", "0123456789ab"),
        ("/lxc.payload.pg1/system.slice/pg.service", None),
        ("/system.slice/pg.service", None),
        ("", "process 4711"),
    ],
)
def test_a_server_in_a_container_is_named(cgroup: str, named: str | None) -> None:
    in_one = replace(host(DISK), container=Container(4711, cgroup))
    (subject, *_) = make_subjects(in_one, Readings(), PAGE_BYTES, guarded=True)
    fact = subject.facts[platform.CONTAINER]
    assert (fact.value, fact.how) == (named or cgroup, "/proc/PID/cgroup")
    assert found(in_one, Readings())["host-container"]


def test_a_volume_that_ends_with_its_pod_is_named() -> None:
    facts = host(DISK)
    path = "/var/lib/kubelet/pods/3e11fa47/volumes/kubernetes.io~empty-dir/data/pg"
    volume = replace(facts.data, places={"data": path})
    in_pod = found(replace(facts, volumes=(volume,)), Readings())
    assert in_pod["fs-empty-dir"] == "unsafe"
    assert "fs-empty-dir" not in found(facts, Readings())


def test_controllers() -> None:
    data = {"VD LIST": [{"Cache": "RAWBD"}], "BBU_Info": [{"State": "Failed"}]}
    text = json.dumps({"Controllers": [{"Response Data": data}]})
    assert found(host(DISK), read(("", "storcli64", text))) == {
        "raid-cache-unprotected": "unsafe",
        **UNKNOWN_CACHE,
    }
    drives = {"VD3 Properties": {"Disk Cache Policy": "Enabled"}}
    vall = json.dumps({"Controllers": [{"Response Data": drives}]})
    both = read(("", "storcli64", text), ("", "storcli64 vall", vall))
    assert found(host(DISK), both)["raid-drive-cache"] == "unsafe"
    nothing = json.dumps({"Controllers": [{"Response Data": {}}]})
    unknown = found(host(DISK), read(("", "perccli", nothing)))
    assert unknown["raid-cache-unprotected"] == "unknown"


GEN10 = """
HPE Smart Array P816i-a SR Gen10 in Slot 0 (Embedded)

   Bus Interface: PCI
   Cache Status: OK
   Configured Drive Write Cache Policy: {}
   No-Battery Write Cache: Disabled
   Battery/Capacitor Status: OK
"""


@pytest.mark.parametrize(
    ("policy", "status"),
    [
        ("Enable", "unsafe"),
        ("Disable", None),
        ("Default", "unknown"),
        ("An", "unknown"),
    ],
)
def test_the_caches_of_drives_behind_a_controller(
    policy: str, status: str | None
) -> None:
    for tool in ("ssacli", "hpssacli", "hpacucli"):
        shown = found(host(DISK), read(("", tool, GEN10.format(policy))))
        assert shown.get("raid-drive-cache") == status


def test_a_controller_that_is_not_understood_is_not_safe() -> None:
    data = {
        "VD LIST": [{"CurrentCache": "NR,XX"}],
        "Energy Pack Info": [{"Status": "?"}],
    }
    text = json.dumps({"Controllers": [{"Response Data": data}]})
    facts, shown = host(DISK), read(("", "perccli2", text))
    assert found(facts, shown) == {
        "raid-cache-unprotected": "unknown",
        "raid-battery-learning": "unknown",
        **UNKNOWN_CACHE,
    }
    why = [
        each.decisive.why
        for each in find_located_findings(
            "mysql", make_subjects(facts, shown, 8192, guarded=True)
        )
        if each.finding.rule.id == "raid-cache-unprotected"
    ]
    assert why == ["CurrentCache is 'NR,XX', which dbcheck does not know"]


@pytest.mark.parametrize(
    ("reading", "status", "remedy"),
    [
        (("ssacli", "Error: No controllers detected.", "ssacli: Error"), None, ""),
        (
            ("ssacli", "Error: x", "ssacli: Error: You need administrator rights"),
            "unknown",
            "root",
        ),
        (("storcli64", "garbage", ""), "unknown", ""),
        (("storcli2", "", "storcli2: TimeoutExpired"), "unknown", ""),
    ],
)
def test_a_tool_that_shows_no_controller(
    reading: tuple[str, str, str], status: str | None, remedy: str
) -> None:
    what, text, why = reading
    facts, shown = host(DISK), read(Reading("", what, f"{what} show", text, why))
    assert found(facts, shown).get("raid-cache-unprotected") == status
    if status:
        (one,) = [
            each.decisive
            for each in find_located_findings(
                "mysql", make_subjects(facts, shown, 8192, guarded=True)
            )
            if each.finding.rule.id == "raid-cache-unprotected"
        ]
        assert one.why == (why or f"{what} show does not show it")
        assert remedy in one.remedy


@pytest.mark.parametrize(
    ("driver", "tool", "known"),
    [
        ("megaraid_sas", "", False),
        ("megaraid_sas", "storcli64", True),
        ("megaraid_sas", "storcli2", False),  # which shows another one
        ("mpi3mr", "perccli2", True),
        ("smartpqi", "", False),
        ("aacraid", "storcli64", False),
        ("ahci", "", True),
        ("mpt3sas", "", True),  # has no cache
        ("", "", True),
    ],
)
def test_a_controller_that_no_tool_shows_is_not_safe(
    driver: str, tool: str, known: bool
) -> None:
    name = "device/../../scsi_host/*/proc_name"
    data = {"VD LIST": [{"Cache": "RWBD", "DG/VD": "0/0"}]}
    text = json.dumps({"Controllers": [{"Response Data": data}]})
    shown = read(("sda", name, driver), ("sdb", name, driver), ("", tool, text))
    controllers = [
        subject
        for subject in make_subjects(host(DISK), shown, PAGE_BYTES, guarded=True)
        if f"of sda ({driver})" in subject.name
    ]
    assert len(controllers) == (0 if known else 1)
    rules = found(host(DISK), shown)
    assert rules.get("raid-cache-unprotected") == (None if known else "unknown")


def test_two_names_of_one_tool_show_one_controller() -> None:
    data = {"VD LIST": [{"Cache": "RAWBD"}], "BBU_Info": [{"State": "Failed"}]}
    text = json.dumps({"Controllers": [{"Response Data": data}]})
    both = read(("", "storcli64", text), ("", "storcli", text))
    names = [
        subject.name
        for subject in make_subjects(host(DISK), both, PAGE_BYTES, guarded=True)
    ]
    assert names.count("controller 0") == 1


def test_what_a_tool_prints_of_drives_counts_though_it_ended_with_an_error() -> None:
    """As where one of several controllers has no virtual drive."""
    show = {"VD LIST": [{"CurrentCache": "NR,WB"}]}
    vall = {
        "Virtual Drives": [{"VD Properties": {"Drive Write Cache Policy": "Enabled"}}]
    }
    texts = [json.dumps({"Controllers": [{"Response Data": d}]}) for d in (show, vall)]
    shown = read(
        ("", "storcli2", texts[0]),
        Reading("", "storcli2 vall", "storcli2", texts[1], "storcli2: exit status 6"),
    )
    assert found(host(DISK), shown)["raid-drive-cache"] == "unsafe"


@pytest.mark.parametrize(
    ("why", "message", "shown"),
    [
        ("smartctl: exit status 2", "", "smartctl: exit status 2"),
        ("", "Read SMART Data failed: scsi error", "smartctl: Read SMART Data failed"),
        ("smartctl: Permission denied", "Permission denied", "Permission denied"),
    ],
)
def test_a_drive_that_smartctl_cannot_ask_is_not_called_sound(
    why: str, message: str, shown: str
) -> None:
    messages = [{"string": message, "severity": "error"}] if message else []
    text = json.dumps({"smartctl": {"messages": messages}})
    readings = read(Reading("sda", "smartctl", "smartctl -j", text, why))
    (one,) = [
        each
        for each in find_located_findings(
            "mysql", make_subjects(host(DISK), readings, 8192, guarded=True)
        )
        if each.finding.rule.id == "drive-failing"
    ]
    assert one.finding.status.value == "unknown"
    assert shown in one.decisive.why
    absent = Reading("sda", "smartctl", "smartctl", "", "smartctl is not installed")
    assert "drive-failing" not in found(host(DISK), read(absent))


def test_a_foreign_drive() -> None:
    virtual = replace(DISK, foreign="virtio", name="vda")
    shown = found(host(virtual), read(("vda", "cache_type", "write through")))
    assert shown == {"drive-foreign": "unsafe"}


def test_a_fact_says_how_it_was_read() -> None:
    subjects = make_subjects(
        host(DISK),
        read(("sda", "hdparm", "write-caching = 1")),
        PAGE_BYTES,
        guarded=True,
    )
    for subject in subjects:
        assert isinstance(subject, Subject)
        for fact in subject.facts.values():
            assert fact.how or fact.why
