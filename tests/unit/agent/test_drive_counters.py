"""Counters of block devices: one that counts nothing is no drive that did nothing."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from dbcheck.agent.host import devices
from dbcheck.agent.host.devices import Devices


def test_a_device_whose_kernel_counts_nothing_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, counts in (("sda", "1"), ("sdb", "0"), ("sdc", "1")):
        folder = tmp_path / name
        (folder / "queue").mkdir(parents=True)
        (folder / "queue" / "iostats").write_text(f"{counts}\n")
        (folder / "stat").write_text("0 0 0 0 7\n")
    (tmp_path / "sda" / "mq").mkdir()
    monkeypatch.setattr(devices, "BLOCK", str(tmp_path))
    with contextlib.closing(Devices(["sda", "sdb", "sdc", "sdd"])) as opened:
        found = {each["name"]: each["queues"] for each in opened.read()["devices"]}
    assert found == {"sda": True, "sdc": False}
