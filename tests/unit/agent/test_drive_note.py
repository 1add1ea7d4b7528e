"""What the host's agent keeps of a cut of drives alone (agent/host/remount.py)."""

from __future__ import annotations

import os
import time
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dbcheck.agent.host import drives, mounts, remount
from dbcheck.agent.wire import Refusal
from tests.kit.drives_alone import MOUNT, SEEN
from tests.kit.files import AS_ROOT, STRANGER

VALUES: dict[str, Any] = {
    **asdict(SEEN),
    "drives": {"S1": ["sda"], "S2": ["sdb"]},
}


def test_what_was_noted_is_found_by_the_drives_in_any_order(tmp_path: Path) -> None:
    folder = str(tmp_path / "notes")
    assert remount.read_note(folder, ["S1", "S2"])["seen"] is None
    remount.write_note(folder, VALUES)
    found = remount.read_note(folder, ["S2", "S1"])
    assert found["same_boot"]
    assert found["seen"]["drives"] == VALUES["drives"]
    assert found["seen"]["mounts"][0]["point"] == MOUNT.point
    assert remount.read_note(folder, ["S1"])["seen"] is None, "other drives"
    assert os.stat(folder).st_mode & 0o777 == 0o700
    remount.remove_note(folder, ["S1", "S2"])
    assert os.listdir(folder) == []
    remount.remove_note(folder, ["S1", "S2"])


def test_a_host_that_restarted_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remount.write_note(str(tmp_path), VALUES)
    monkeypatch.setattr(remount, "read_host_names", lambda: {"boot_id": "another"})
    found = remount.read_note(str(tmp_path), ["S1", "S2"])
    assert found["seen"] is not None
    assert not found["same_boot"]


def test_a_note_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Refusal, match="file is a link, or not a folder"):
        remount.write_note(str(tmp_path / "file/notes"), VALUES)


def test_a_damaged_note_is_not_taken_for_none(tmp_path: Path) -> None:
    remount.write_note(str(tmp_path), VALUES)
    path = Path(remount.make_note_path(str(tmp_path), ["S1", "S2"]))
    path.write_text(path.read_text().replace('"format": 2', '"format": 1'))
    with pytest.raises(Refusal, match="was written by another dbcheck"):
        remount.read_note(str(tmp_path), ["S1", "S2"])
    path.write_text("{")
    with pytest.raises(Refusal, match="is damaged"):
        remount.read_note(str(tmp_path), ["S1", "S2"])


def test_a_server_counts_as_newer_if_none_of_its_processes_is_older(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that was there before starts new processes all the time."""
    started = {7: 40.0, 8: 60.0, 9: 0.0}
    monkeypatch.setattr("time.clock_gettime", lambda _: 50.0)
    measured = remount.read_started_s
    monkeypatch.setattr(remount, "read_started_s", started.get)
    remount.write_note(str(tmp_path), VALUES)

    def newer(*pids: int) -> bool:
        monkeypatch.setattr(remount, "list_server_pids", lambda *_: list(pids))
        return bool(remount.read_note(str(tmp_path), ["S1", "S2"])["newer"])

    assert not newer(), "no server runs"
    assert newer(8)
    assert not newer(7, 8)
    assert newer(8, 9), "the second ended while it was looked at"
    assert not newer(9), "no server runs"
    monkeypatch.setattr(remount, "read_host_names", lambda: {"boot_id": "another"})
    assert newer(7, 8), "the host was started again"
    now_s = time.monotonic()
    assert abs(measured(os.getpid()) - now_s) < now_s


def test_the_folder_of_notes_may_lie_behind_roots_own_links(tmp_path: Path) -> None:
    """As /var or /var/lib does on some hosts."""
    (tmp_path / "real").mkdir()
    (tmp_path / "var").symlink_to("real")
    folder = str(tmp_path / "var" / "notes")
    remount.write_note(folder, VALUES)
    assert not drives.survey([], str(tmp_path), [], folder)["exposed"]
    assert remount.read_note(folder, ["S1", "S2"])["seen"]["drives"]
    remount.remove_note(folder, ["S1", "S2"])
    assert list((tmp_path / "real" / "notes").iterdir()) == []


@pytest.mark.parametrize("shared", ["links", "real"])
def test_neither_the_link_to_the_notes_nor_their_folder_may_be_exchanged(
    shared: str, tmp_path: Path
) -> None:
    for name in ("links", "real"):
        (tmp_path / name).mkdir()
    (tmp_path / "links" / "lib").symlink_to(tmp_path / "real")
    folder = str(tmp_path / "links" / "lib" / "notes")
    remount.write_note(folder, VALUES)
    (tmp_path / shared).chmod(0o777)
    for act in (
        lambda: remount.write_note(folder, VALUES),
        lambda: remount.read_note(folder, ["S1", "S2"]),
        lambda: remount.remove_note(folder, ["S1", "S2"]),
    ):
        with pytest.raises(Refusal, match=f"{shared} can be written by others"):
            act()
    (why,) = drives.survey([], str(tmp_path), [], folder)["exposed"]
    assert f"{shared} can be written by others" in why


def test_what_was_looked_at_is_what_the_notes_are_reached_by(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A link that changes while the way is looked at leads nowhere else."""
    for name in ("real", "other"):
        (tmp_path / name).mkdir()
    link = tmp_path / "lib"
    link.symlink_to("real")
    looked = mounts.open_folder_above

    def exchanged(path: str) -> int:
        link.unlink(missing_ok=True)
        link.symlink_to("other")
        return looked(path)

    monkeypatch.setattr(mounts, "open_folder_above", exchanged)
    assert mounts.resolve_path(str(link / "notes")) == str(tmp_path / "real/notes")
    assert os.readlink(link) == "other"


def test_a_link_may_end_above_what_it_names_or_at_the_root(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "up").symlink_to("real/..")
    (tmp_path / "root").symlink_to("/")
    up, real = str(tmp_path / "up"), str(tmp_path / "real")
    assert mounts.resolve_links(up) == ([up, real], str(tmp_path))
    links, leads_to = mounts.resolve_links(str(tmp_path / "root"))
    assert str(tmp_path / "root") in links and leads_to == "/"
    assert mounts.resolve_links("/") == ([], "/")


def test_notes_are_on_a_drive_if_a_link_that_leads_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def seen(notes: str) -> Any:
        survey = drives.survey(["S1"], str(tmp_path), [], str(tmp_path / notes))
        return survey["notes_on_them"]

    on_drive = tmp_path / "mnt"
    part = SimpleNamespace(device="999:9", name="sdz", serial="S1", holders=[])
    monkeypatch.setattr(drives, "list_parts", lambda _: [part])
    for each in ("mnt", "real"):
        (tmp_path / each).mkdir()
    (tmp_path / "to-drive").symlink_to("mnt/none-yet")
    (on_drive / "away").symlink_to(tmp_path / "real")
    monkeypatch.setattr(
        drives,
        "find_device_at",
        lambda path: "999:9" if str(on_drive) in path else "8:1",
    )
    for notes in ("mnt", "mnt/none-yet", "to-drive", "to-drive/notes", "mnt/away"):
        assert seen(notes) == str(tmp_path / notes)
    for notes in ("real", "real/none-yet"):
        assert not seen(notes)


@AS_ROOT
def test_notes_may_be_in_a_folder_of_ones_own_below_a_sticky_one(
    tmp_path: Path,
) -> None:
    """As a lab's is, below /tmp; but in a sticky folder itself none is made."""
    tmp_path.chmod(0o1777)
    (tmp_path / "lab").mkdir(mode=0o700)
    remount.write_note(str(tmp_path / "lab"), VALUES)
    assert remount.read_note(str(tmp_path / "lab"), ["S1", "S2"])["seen"]["drives"]
    with pytest.raises(Refusal, match="can be written by others than root"):
        remount.write_note(str(tmp_path / "none-yet"), VALUES)
    os.chown(tmp_path / "lab", STRANGER, -1)
    with pytest.raises(Refusal, match=f"belongs to user {STRANGER}"):
        remount.write_note(str(tmp_path / "lab"), VALUES)
