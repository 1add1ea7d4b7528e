"""What the host's agent keeps of a cut of drives alone (hosts/agent/drivenote.py)."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from dbcheck.hosts.agent import drivenote
from dbcheck.remote.wire import Refusal
from tests.kit.drives_alone import MOUNT, SEEN

VALUES: dict[str, Any] = {
    **asdict(SEEN),
    "drives": {"S1": ["sda"], "S2": ["sdb"]},
}


def test_what_was_noted_is_found_by_the_drives_in_any_order(tmp_path: Path) -> None:
    folder = str(tmp_path / "notes")
    assert drivenote.read_note(folder, ["S1", "S2"])["seen"] is None
    drivenote.write_note(folder, VALUES)
    found = drivenote.read_note(folder, ["S2", "S1"])
    assert found["same_boot"]
    assert found["seen"]["drives"] == VALUES["drives"]
    assert found["seen"]["mounts"][0]["point"] == MOUNT.point
    assert drivenote.read_note(folder, ["S1"])["seen"] is None, "other drives"
    assert os.stat(folder).st_mode & 0o777 == 0o700
    drivenote.remove_note(folder, ["S1", "S2"])
    assert not os.path.exists(folder)
    drivenote.remove_note(folder, ["S1", "S2"])


def test_a_host_that_restarted_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drivenote.write_note(str(tmp_path), VALUES)
    monkeypatch.setattr(drivenote, "host_names", lambda: {"boot_id": "another"})
    found = drivenote.read_note(str(tmp_path), ["S1", "S2"])
    assert found["seen"] is not None
    assert not found["same_boot"]


def test_a_note_is_refused_on_the_drives_and_without_room(tmp_path: Path) -> None:
    device = os.stat(tmp_path).st_dev
    shown = f"{os.major(device)}:{os.minor(device)}"
    on_them = {**VALUES, "mounts": [{**asdict(MOUNT), "device": shown}]}
    with pytest.raises(Refusal, match=r"on the drives that are to be cut \(/srv\)"):
        drivenote.write_note(str(tmp_path), on_them)
    (tmp_path / "file").touch()
    with pytest.raises(Refusal, match="file/notes: Not a directory"):
        drivenote.write_note(str(tmp_path / "file/notes"), VALUES)


def test_a_damaged_note_is_not_taken_for_none(tmp_path: Path) -> None:
    drivenote.write_note(str(tmp_path), VALUES)
    Path(drivenote.path_of(str(tmp_path), ["S1", "S2"])).write_text("{")
    with pytest.raises(Refusal, match="is damaged"):
        drivenote.read_note(str(tmp_path), ["S1", "S2"])
