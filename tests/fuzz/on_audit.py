"""What tools of the target's host print: texts in the place of what is expected."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

from dbcheck.audit import devices
from dbcheck.audit.rules import find_located_findings
from dbcheck.audit.stack import make_subjects
from dbcheck.model.host import Drive, Layer, Reading, Readings, TargetFacts, Volume
from tests.fuzz.script import Script, edit_bytes, edit_value
from tests.fuzz.target import Target

_READ_S = 3.0  # no longer may any text take that is fuzzed
_SHOWN = {
    ("sda", "hdparm"): " write-caching =  1 (on)\n",
    ("sda", "sdparm"): "WCE           1  [cha: y, def:  1, sav:  1]\n",
    ("sda", "smartctl"): {
        "smartctl": {"messages": [{"string": "old", "severity": "error"}]},
        "model_name": "X",
        "smart_status": {"passed": True},
        "ata_smart_attributes": {"table": [{"id": 175, "name": "Power_Loss_Cap_Test"}]},
    },
    ("nvme0n1", "nvme id-ctrl"): {"vwc": 7, "awupf": 3},
    ("nvme0n1", "nvme id-ns"): {
        "nsfeat": 2,
        "nawupf": 7,
        "flbas": 0,
        "lbafs": [{"ds": 9}],
    },
    ("nvme0n1", "nvme get-feature"): "Current value:0x00000001",
    ("nvme0n1", "nvme smart-log"): {"critical_warning": {"value": 20}},
    ("dm-0", "dmsetup table"): "0 8 cache 1:1 1:2 1:3 128 1 writeback smq 0\n"
    "8 8 flashcache conf:\n\tcache mode(WRITE_BACK)\n16 8 integrity 7:0 0 4 D 0",
    ("md0", "md/journal_mode"): "write-through [write-back]",
    ("tank/db", "zfs"): "sync\tdisabled\nlogbias\tlatency\n",
    ("", "storcli64"): {
        "Controllers": [
            {
                "Response Data": {
                    "VD LIST": [{"Cache": "RAWBD"}],
                    "BBU_Info": [{"State": "Optimal"}],
                    "Basics": {"Model": "X"},
                }
            }
        ]
    },
    ("", "storcli64 vall"): {
        "Controllers": [
            {"Response Data": {"VD0 Properties": {"Disk Cache Policy": "Enabled"}}}
        ]
    },
    ("", "storcli2"): {
        "Controllers": [
            {
                "Command Status": {"Controller": "1", "Status": "Success"},
                "Response Data": {
                    "Product Name": "X",
                    "Virtual Drives": 1,
                    "VD LIST": [{"DG/VD": "0/1", "CurrentCache": "NR,AWB"}],
                    "Energy Pack Info": [{"Type": "Supercap", "Status": "Optimal"}],
                },
            }
        ]
    },
    ("", "storcli2 vall"): {
        "Controllers": [
            {
                "Response Data": {
                    "Virtual Drives": [
                        {"VD Properties": {"Drive Write Cache Policy": "Default"}}
                    ]
                }
            }
        ]
    },
    ("", "ssacli"): "Smart Array in Slot 0\n   Cache Status: OK\n"
    "   Battery/Capacitor Status: OK\n   Drive Write Cache: Disabled\n",
    ("", "/proc/sys/kernel/osrelease"): "6.1.0-44-amd64",
}
_LAYERS = (
    Layer("dm-0", "dm", "vg-lv", "LVM-x", "", "write back", "0", ("md0",)),
    Layer("md0", "md", "", "", "", "write back", "0", ("sda", "nvme0n1")),
    Layer("sda", "disk", "", "", "", "write through", "0", ()),
    Layer("nvme0n1", "disk", "", "", "", "write back", "1", ()),
)
_VOLUME = Volume(
    places={"data": "/d"},
    mount_point="/d",
    filesystem="zfs",
    mount_options="rw",
    source="tank/db",
    filesystem_uuid="",
    layers=_LAYERS,
    drives=tuple(
        Drive(each.name, "", "", "", each.write_cache, None, None)
        for each in _LAYERS[2:]
    ),
    unreadable={},
)
_FACTS = TargetFacts(
    hostname="h",
    machine_id="m",
    boot_id="b",
    addresses=frozenset(),
    clock_us=0,
    uptime_s=1.0,
    data_directory="/d",
    made={},
    volumes=(_VOLUME,),
    unseen={},
    unreadable={},
)


def readings(data: bytes) -> None:
    """Each text as it should be but for some edits: findings, and no exception."""
    script, shown = Script(data), []
    names = list(_SHOWN)
    edited = {names[script.below(len(names))] for _ in range(1 + script.below(3))}
    for (of, what), content in _SHOWN.items():
        value: object = content
        if (of, what) in edited and not isinstance(content, str):
            value = edit_value(script, content)
        try:
            text = value if isinstance(value, str) else json.dumps(value)
        except ValueError:  # a number of too many digits
            return
        if (of, what) in edited:
            text = edit_bytes(script, text.encode(errors="replace")).decode(
                errors="replace"
            )
        why = "Permission denied" if script.below(9) == 8 else ""
        shown.append(Reading(of, what, what, text, why))
    began_s = time.monotonic()
    subjects = make_subjects(
        _FACTS, Readings(shown), 8192, guarded=bool(script.below(2))
    )
    found = find_located_findings("postgresql", subjects)
    assert time.monotonic() - began_s < _READ_S
    # A controller whose cache is not known is never among what is safe.
    for subject in subjects:
        fact = subject.facts.get(devices.CONTROLLER_CACHE)
        if fact is not None and fact.value is None:
            shown_open = [
                e for e in found if e.subject is subject and not e.finding.value
            ]
            assert shown_open and fact.why
    # What the kernel does not flush is safe only if the cache is known to be off.
    cache = next(s for s in subjects if s.name == "sda").facts["write cache"].value
    flagged = [each for each in found if each.finding.rule.id == "drive-not-flushed"]
    assert bool(flagged) is (cache != "disabled")


def seeds() -> Iterator[bytes]:
    yield b""
    yield bytes(range(40))


TARGETS = [Target("audit-readings", readings, seeds)]
