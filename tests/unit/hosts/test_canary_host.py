"""What the target's host tells of itself, where no real host can be had."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from dbcheck.agent.host import log as host_log
from dbcheck.agent.host.devices import parse_nvme, parse_smartctl
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.hosts.host import open_host
from tests.kit.devices import ATA, NVME
from tests.kit.refusals import refused


def test_counters_of_nvme_drives() -> None:
    assert parse_nvme(json.dumps(NVME)) == NVME
    assert parse_nvme(json.dumps({"unsafe_shutdowns": "1,234"})) == {
        "unsafe_shutdowns": 1234
    }
    log = {"nvme_smart_health_information_log": NVME}
    assert parse_smartctl(json.dumps(log)) == NVME


def test_counters_of_ata_drives() -> None:
    shown = parse_smartctl(json.dumps(ATA))
    assert shown == {"power_cycles": 40, "unsafe_shutdowns": 7}
    del ATA["power_cycle_count"]
    assert parse_smartctl(json.dumps(ATA))["power_cycles"] == 41


@pytest.mark.parametrize("text", ["", "{", "[]", "7", "{}", '{"power_cycles": true}'])
def test_what_shows_no_counters_shows_none(text: str) -> None:
    assert parse_nvme(text) == {}
    assert parse_smartctl(text) == {}


def test_a_log_is_read_from_its_mark(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("old\n")
    marks = host_log.mark_log(str(log))
    assert host_log.read_since(str(log), marks, 100)["text"] == ""
    with log.open("a") as file:
        file.write("one\n")
    log.rename(tmp_path / "server.log.1")
    os.utime(tmp_path / "server.log.1", (1, 1))
    log.write_text("two\n")
    (tmp_path / "server.log.2.gz").write_text("packed\n")
    (tmp_path / "other.log").write_text("strange\n")
    found = host_log.read_since(str(log), marks, 100)
    assert found == {"text": "one\ntwo\n", "truncated": False, "rewound": False}
    found = host_log.read_since(str(log), marks, 5)
    assert found == {"text": "one\nt", "truncated": True, "rewound": False}
    ((path, (inode, *_)),) = marks.items()
    found = host_log.read_since(str(log), {path: [inode, -1, 0, 0]}, 100)
    assert found["rewound"]
    assert found["text"] == "old\none\ntwo\n"


def test_a_log_that_shrank_is_told(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("a long line\n")
    marks = host_log.mark_log(str(log))
    log.write_text("short\n")
    found = host_log.read_since(str(log), marks, 100)
    assert found == {"text": "short\n", "truncated": False, "rewound": True}


def test_a_folder_of_logs_is_read_whole(tmp_path: Path) -> None:
    (tmp_path / "monday.log").write_text("old\n")
    (tmp_path / "folder").mkdir()
    marks = host_log.mark_log(str(tmp_path))
    (tmp_path / "tuesday.log").write_text("new\n")
    assert host_log.read_since(str(tmp_path), marks, 100)["text"] == "new\n"


@pytest.mark.parametrize("url", ["", "host", "http://host", "ssh://", "ssh://a:b"])
def test_what_names_no_host_is_refused(url: str) -> None:
    with refused(ErrorId.HOST_ADDRESS_INVALID, UsageError):
        open_host(url)


@pytest.mark.parametrize(
    "shown",
    [{"power_cycles": "²"}, {"power_cycles": "9" * 5000}]
    + [{"ata_smart_attributes": 5}, {"ata_smart_attributes": {"table": [5]}}]
    + [{"ata_smart_attributes": {"table": [{"id": [], "raw": "x"}]}}],
)
def test_counters_that_are_none_are_not_read(shown: object) -> None:
    text = json.dumps(shown, ensure_ascii=False)
    assert parse_nvme(text) == parse_smartctl(text) == {}
