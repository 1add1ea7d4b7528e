"""What root's agent does by paths in which the server's account exchanges folders."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dbcheck.agent.host import drives, remount
from dbcheck.agent.host.mounts import read_mounts
from dbcheck.agent.wire import Refusal
from dbcheck.lab.lab import list_missing
from dbcheck.lab.spec import LabSpec
from dbcheck.lab.storage.filesystem import LoopDevice
from tests.kit.drive_images import attached, make_filesystem, mount_of
from tests.kit.files import ACCOUNT
from tests.kit.user_namespaces import showing_other_owners

pytestmark = pytest.mark.root
BUSY_S = 2.0  # in which the account exchanges the folders thousands of times
# Two names in turn, at once: renameat2(2), RENAME_EXCHANGE.
EXCHANGE = """
import ctypes, os, select, sys
libc = ctypes.CDLL(None)
one, other = map(os.fsencode, sys.argv[1:])
os.setgroups([])
os.setgid({account})
os.setuid({account})
print(libc.renameat2(-100, one, -100, other, 2), flush=True)
while not select.select([0], [], [], 0)[0]:
    libc.renameat2(-100, one, -100, other, 2)
"""


@pytest.fixture
def base() -> Iterator[Path]:
    """A folder of root's that every account can search."""
    made = Path(tempfile.mkdtemp(prefix="dbcheck-"))
    made.chmod(0o711)
    yield made
    for line in reversed(list(read_mounts())):
        if line.point.startswith(f"{made}/"):
            subprocess.run(["umount", line.point], check=True)
    shutil.rmtree(made)


@pytest.fixture
def drive(tmp_path: Path) -> Iterator[LoopDevice]:
    if lacking := list_missing(LabSpec("postgresql")):
        pytest.skip("; ".join(lacking))
    make_filesystem(tmp_path / "image", "ext4")
    with attached(tmp_path / "image") as device:
        yield device


@pytest.fixture
def parent(base: Path) -> Path:
    """The folder of a mount point, which belongs to the server's account."""
    return of_account(base / "parent")


@pytest.fixture
def victim(base: Path) -> Path:
    """What is root's, and has folders as the account's has."""
    victim = base / "victim"
    (victim / "point").mkdir(parents=True)
    return victim


def of_account(folder: Path) -> Path:
    folder.mkdir()
    os.chown(folder, ACCOUNT, ACCOUNT)
    return folder


def as_account(script: str, *words: Path) -> None:
    became = ["setpriv", f"--reuid={ACCOUNT}", f"--regid={ACCOUNT}", "--clear-groups"]
    subprocess.run([*became, "sh", "-ec", script, "sh", *words], check=True, cwd="/")


def put_link(folder: Path, victim: Path) -> None:
    """As the account, have a link to the victim in the place of the folder."""
    as_account('mv "$1" "$1-aside"; ln -s "$2" "$1"', folder, victim)


def is_mounted_at(point: Path) -> bool:
    return any(each.point == str(point) for each in read_mounts())


@contextlib.contextmanager
def exchanged(one: Path, other: Path) -> Iterator[None]:
    """Have the account exchange two names for as long as this lasts."""
    program = EXCHANGE.format(account=ACCOUNT)
    with subprocess.Popen(
        [sys.executable, "-c", program, one, other],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd="/",
    ) as attacker:
        assert attacker.stdin is not None
        assert attacker.stdout is not None
        assert attacker.stdout.readline() == b"0\n"
        yield
        assert attacker.poll() is None
        attacker.stdin.close()


@pytest.mark.parametrize("swapped", ["the mount point", "a folder above it"])
def test_nothing_is_mounted_where_the_account_put_a_link(
    swapped: str, drive: LoopDevice, parent: Path, victim: Path
) -> None:
    """The drive has no power: what was mounted there keeps nobody from it."""
    above = parent
    if swapped != "the mount point":
        above = parent / "above"
        above.mkdir()  # root's, in a folder of the account's
    point = above / "point"
    point.mkdir()
    if above is parent:
        put_link(point, victim)
    else:
        put_link(above, victim)
    (done,) = remount.put_back([mount_of("ext4", drive, point)], 60)
    for place in (victim, victim / "point", point):
        assert not is_mounted_at(place)
    assert f"{parent} belongs to user {ACCOUNT}" in done["failure"]
    assert "make that folder root's alone (chown root" in done["failure"]
    assert not done["damaged"]


def test_a_filesystem_is_not_unmounted_that_is_not_the_servers(
    drive: LoopDevice, parent: Path, victim: Path
) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "root's", victim / "point"], check=True)
    point = parent / "above" / "point"
    point.mkdir(parents=True)
    subprocess.run(["mount", drive.path, point], check=True)
    (parent / "link").symlink_to(victim)
    (mount,) = drives.survey([drive.serial], str(point), [], "/none")["mounts"]
    with (point / "held").open("w"), exchanged(point.parent, parent / "link"):
        ends_s = time.monotonic() + BUSY_S
        while time.monotonic() < ends_s:
            kept = remount.take_off([mount], 0.1)
            assert is_mounted_at(victim / "point")
            if kept["refused"]:
                break
    assert kept["off"] == [False]
    assert f"{parent} belongs to user {ACCOUNT}" in kept["refused"][str(point)]


def test_a_drive_that_shows_other_owners_is_not_cut_alone(
    drive: LoopDevice, base: Path
) -> None:
    """mount(8) refuses the option that the kernel shows for it."""
    point = base / "point"
    point.mkdir()
    subprocess.run(["mount", drive.path, point], check=True)
    with showing_other_owners(point):
        seen = drives.survey([drive.serial], str(point), [], "/none")
    assert f"{point} shows files under other owners (idmapped)" in seen["busy"]


def test_what_is_mounted_over_the_servers_filesystem_stays(
    drive: LoopDevice, base: Path
) -> None:
    point = base / "point"
    point.mkdir()
    subprocess.run(["mount", drive.path, point], check=True)
    (mount,) = drives.survey([drive.serial], str(point), [], "/none")["mounts"]
    subprocess.run(["mount", "-t", "tmpfs", "root's", point], check=True)
    seen = drives.survey([drive.serial], str(point), [], "/none")
    assert seen["busy"] == [f"root's is mounted over {point}"]
    kept = remount.take_off([mount], 0.1)
    assert [each.type for each in read_mounts() if each.point == str(point)] == [
        *("ext4", "tmpfs")
    ]
    assert kept["refused"] == {str(point): f"{point} has another mount over it"}


def test_what_the_account_could_lead_elsewhere_is_seen_before_the_cut(
    drive: LoopDevice, base: Path, parent: Path
) -> None:
    sound, exposed = base / "sound", parent / "point"
    for point in (sound, exposed):
        point.mkdir()
        subprocess.run(["mount", drive.path, point], check=True)
    os.chown(sound, ACCOUNT, ACCOUNT)  # what is mounted may be the account's
    notes = of_account(base / "notes")
    seen = drives.survey([drive.serial], str(sound), [], str(notes))
    why, of_notes = seen["exposed"]
    assert why.startswith(f"{parent} belongs to user {ACCOUNT}")
    assert str(exposed) in why
    assert of_notes.startswith(f"{notes} belongs to user {ACCOUNT}")


def test_a_note_of_another_account_is_neither_followed_nor_read(base: Path) -> None:
    """It says what root mounts, and where, and whose processes it ends."""
    folder = of_account(base / "notes")
    victim = base / "victim"
    victim.write_text("thesis")
    note = Path(remount.make_note_path(str(folder), ["S1"]))
    as_account('ln -s "$1" "$2.new"', victim, note)
    asked: list[Callable[[], Any]] = [
        lambda: remount.write_note(str(folder), {"drives": {"S1": ["sda"]}}),
        lambda: remount.read_note(str(folder), ["S1"]),
        lambda: remount.remove_note(str(folder), ["S1"]),
    ]
    for each in asked:
        with pytest.raises(Refusal, match=f"notes belongs to user {ACCOUNT}"):
            each()
    assert victim.read_text() == "thesis"
    assert [path.name for path in folder.iterdir()] == [f"{note.name}.new"]


def server_in(folder: Path, pid: int = 0) -> subprocess.Popen[bytes]:
    """Start a process that has the name of a server and works in the folder.

    pid: that it must have, if not 0; any other process that has it must have ended.
    """
    named = 'cd "$1" && echo mysqld > /proc/$$/comm && echo && read _'
    script = named if not pid else "echo && read _"
    if pid:
        Path("/proc/sys/kernel/ns_last_pid").write_text(str(pid - 1))
    found = subprocess.Popen(
        ["sh", "-c", script, "sh", folder],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert found.stdout is not None
    assert found.stdout.readline() == b"\n"
    return found


def ended(process: subprocess.Popen[bytes]) -> None:
    with process:
        assert process.stdin is not None
        process.stdin.close()


def with_pid_of(server: subprocess.Popen[bytes], folder: Path) -> Any:
    """End the server; return a process of somebody else's that has its number."""
    ended(server)
    for _ in range(100):  # another process may be quicker
        other = server_in(folder, server.pid)
        if other.pid == server.pid:
            return other
        ended(other)
    pytest.skip("the number was taken by another process each time")


def test_a_process_that_got_the_number_of_the_server_lives_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = remount.list_server_pids
    server = server_in(tmp_path)
    lists: list[list[int]] = []
    others: list[subprocess.Popen[bytes]] = []

    def pids(*place: Any) -> list[int]:
        lists.append(listed(*place))
        if len(lists) == 2:  # those that are to be killed
            others.append(with_pid_of(server, tmp_path))
        return lists[-1]

    seen = drives.survey([], str(tmp_path), [], "/")
    place = seen["directory"], seen["account"], seen["folder"]
    monkeypatch.setattr(remount, "list_server_pids", pids)
    done = remount.end_server(*place, [], 1)
    assert done == {"killed": [server.pid], "left": []}
    assert lists[:2] == [[server.pid]] * 2
    (other,) = others
    ended(other)
    assert other.returncode != -signal.SIGKILL
