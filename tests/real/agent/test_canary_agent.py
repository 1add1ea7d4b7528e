"""The target host's agent in this process: its answers, and how its canaries end."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dbcheck.agent import wire
from dbcheck.agent.host import canary as host_canary
from dbcheck.agent.host import devices
from dbcheck.agent.host import devices as host_sources
from dbcheck.agent.host import facts as host_facts
from dbcheck.agent.host import serve as host_agent
from dbcheck.agent.host.canary import Canaries
from dbcheck.agent.host.folder import BESIDE
from dbcheck.hosts import canary
from dbcheck.model.depth import Completed, Counted, Ground, Remains, find_depth
from tests.kit.canaries import open_files, pace

WAIT_S = 10


class Replies(wire.ReplyStream):
    """Keeps what an agent sends; reports are seen by seen(number)."""

    def __init__(self) -> None:
        self.got: list[tuple[int, bytes]] = []
        self.reported = threading.Event()

    def send(self, kind: int, payload: bytes, token: int = 0) -> None:
        self.got.append((kind, payload))

    def offer(self, kind: int, payload: bytes) -> bool:
        assert kind == host_agent.COMPLETED
        if min(host_agent.report_layout(2).unpack(payload)[1:]) >= 3:
            self.reported.set()
        return True


class Asked:
    """An agent, asked in this process."""

    def __init__(self) -> None:
        self.replies = Replies()
        self.agent = host_agent.Agent(self.replies)

    def ask(self, verb: int, **question: object) -> Any:
        """Return the result, or an error's code."""
        self.replies.got.clear()
        self.agent.handle([(verb, 0, 0, json.dumps(question).encode())])
        [(kind, payload)] = self.replies.got
        answer = json.loads(payload)
        return answer["code"] if kind == wire.ERROR else answer

    def start(self, data: Path) -> Any:
        return self.ask(host_agent.START_CANARIES, **pace(data))


@pytest.fixture
def asked() -> Iterator[Asked]:
    made = Asked()
    yield made
    made.agent.close()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "parent" / "data"
    folder.mkdir(parents=True)
    return folder


def test_what_makes_no_sense_is_refused(asked: Asked, data: Path) -> None:
    assert asked.ask(99) == "protocol"
    assert asked.ask(host_agent.STOP_CANARIES) == "protocol"
    places = [["data", str(data / "none")]]
    assert asked.ask(host_agent.FACTS, places=places, process=0) == "ENOENT"
    assert asked.ask(host_agent.FACTS, places=[], process=0) == "protocol"


def test_each_place_is_found_on_its_own_volume(asked: Asked, data: Path) -> None:
    (data / "wal").symlink_to("/proc/self")
    (data / "base").mkdir()
    places = [["data", str(data), []], ["WAL", str(data / "wal"), []]]
    places += [["database", str(data / "base"), []], ["undo", str(data / "none"), []]]
    facts = asked.ask(
        host_agent.FACTS, places=[*places, ["tablespace t", "", []]], process=0
    )
    on_data, on_proc = facts["volumes"]
    assert on_data["places"] == {"data": str(data), "database": str(data / "base")}
    assert on_proc["places"] == {"WAL": f"/proc/{os.getpid()}"}
    assert on_proc["filesystem"] == "proc"
    assert (on_proc["layers"], on_proc["drives"]) == ([], [])
    assert "no block device" in on_proc["unreadable"]["layers"]
    assert facts["unseen"] == {
        "undo": f"{data}/none: No such file or directory",
        "tablespace t": "the server does not report its path",
    }


def test_a_filesystem_may_lie_on_several_devices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("sda", "sdb", "sdc"):
        (tmp_path / "block" / name).mkdir(parents=True)
        (tmp_path / "btrfs/u/devices" / name).mkdir(parents=True)
    monkeypatch.setattr(host_sources, "BLOCK", str(tmp_path / "block"))
    monkeypatch.setattr(host_sources, "BTRFS", str(tmp_path / "btrfs"))
    volume = host_facts.Volume(str(tmp_path))
    point = {"point": str(tmp_path)}
    volume.mount = {"type": "btrfs", "options": "rw", "source": "/dev/sdb", **point}
    layers = [layer["name"] for layer in volume.layers()]
    assert layers == ["sda", "sdb", "sdc"]
    volume.mount |= {"type": "xfs", "options": "rw,logdev=/dev/sdc,noquota"}
    monkeypatch.setattr(volume, "device", 0)
    assert [layer["name"] for layer in volume.layers()] == ["sdb", "sdc"]


VIRTIO = Path("/sys/class/block/vda/serial")


@pytest.mark.skipif(not VIRTIO.is_file(), reason="no virtio-blk drive in this machine")
def test_a_virtio_drive_has_its_serial_beside_its_queue() -> None:
    layer = host_facts.describe_layer("/sys/class/block/vda", "vda", [])
    drive = devices.describe_drive(layer, {})
    assert drive["serial"] == VIRTIO.read_text().strip()


def test_the_filesystem_of_a_loop_devices_file_is_known(tmp_path: Path) -> None:
    (tmp_path / "loop0/loop").mkdir(parents=True)
    for file, kind in (("/proc/self/status", "proc"), ("/", ""), ("/no/such", "")):
        (tmp_path / "loop0/loop/backing_file").write_text(f"{file}\n")
        layer = host_facts.describe_layer(str(tmp_path / "loop0"), "loop0", [])
        assert (layer["kind"], layer["backing"]) == ("loop", kind)


def test_a_serial_is_read_where_a_driver_puts_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices, "BLOCK", str(tmp_path))
    for name, place in (("vda", "serial"), ("nvme0n1", "device/serial")):
        (tmp_path / name / "device").mkdir(parents=True)
        (tmp_path / name / place).write_text(f"{name}-7\n")
        layer = host_facts.describe_layer(str(tmp_path / name), name, [])
        assert devices.describe_drive(layer, {})["serial"] == f"{name}-7"


def test_canaries_run_once_and_report(asked: Asked, data: Path) -> None:
    folder = asked.start(data)["folder"]
    assert folder == str(data.parent / BESIDE)
    assert asked.start(data) == "in-use"
    assert asked.replies.reported.wait(WAIT_S)
    ended = asked.ask(host_agent.STOP_CANARIES)
    assert ended["stopped"] == ""
    assert min(ended["buffered"], *ended["direct"]) >= 3
    left = asked.ask(host_agent.READ_CANARIES, folder=folder)
    assert left["buffered"][-1][1] == ended["buffered"]
    assert [ring["found"][-1][1] for ring in left["rings"]] == ended["direct"]
    assert asked.ask(host_agent.REMOVE_CANARIES, folder=folder) is None
    assert list(data.parent.iterdir()) == [data]


def test_they_tell_of_files_that_are_written_at_once(asked: Asked, data: Path) -> None:
    """Files inherit the attribute of their folder, see chattr(1)."""
    if subprocess.run(
        ["chattr", "+S", str(data.parent)], capture_output=True
    ).returncode:
        pytest.skip("no chattr, or a filesystem that has no such attribute")
    folder = asked.start(data)["folder"]
    assert asked.ask(host_agent.STOP_CANARIES)["stopped"] == ""
    run = asked.ask(host_agent.READ_CANARIES, folder=folder)["run"]
    assert (
        find_depth(
            Completed(Counted(1, 0), ()),
            Remains("", ((1, 1),), 1, (), 1, run["attributes"]),
            Ground("ext4"),
        ).depth
        is None
    )
    asked.ask(host_agent.REMOVE_CANARIES, folder=folder)


def run_with(
    data: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> tuple[Canaries, list[int]]:
    """Let the second block of a ring fail with *code*; return what was running."""
    real = os.pwrite
    failed = threading.Event()
    after: list[int] = []
    more = threading.Event()

    def pwrite(fd: int, page: Any, at: int) -> int:
        if at:
            failed.set()
            raise OSError(code, os.strerror(code))
        return real(fd, page, at)

    def tell(buffered: int, _: list[int]) -> None:
        if failed.is_set():
            after.append(buffered)
        if len(set(after)) > 3:
            more.set()

    monkeypatch.setattr(os, "pwrite", pwrite)
    canaries = Canaries(pace(data), tell)
    assert failed.wait(WAIT_S)
    if code == errno.EINVAL:
        assert more.wait(WAIT_S)
    for thread in canaries._threads:
        thread.join(WAIT_S if code != errno.EINVAL else 0)
    return canaries, after


def test_an_error_of_the_drive_ends_all_and_closes_every_file(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    canaries, _ = run_with(data, monkeypatch, errno.EIO)
    assert not any(thread.is_alive() for thread in canaries._threads)
    assert open_files(canaries.folder) == []
    assert canaries.stopped == "Input/output error"


def test_a_host_answers_in_time_although_its_drive_hangs(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it looks like one without power, whose cut its last report dates."""
    assert host_canary.END_S < canary._END_S / 2
    monkeypatch.setattr(host_canary, "END_S", 0.3)
    release, hanging = threading.Event(), threading.Semaphore(0)

    def pwrite(fd: int, page: Any, at: int) -> int:
        hanging.release()
        release.wait(WAIT_S)
        return len(page)

    monkeypatch.setattr(os, "pwrite", pwrite)
    rings = 10
    canaries = Canaries({**pace(data), "rings": rings}, lambda *_: None)
    try:
        for _ in range(rings):
            assert hanging.acquire(timeout=WAIT_S)
        waits: list[float] = []
        join = threading.Thread.join

        def noted(thread: threading.Thread, timeout: float) -> None:
            waits.append(timeout)
            join(thread, timeout)

        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "join", noted)
            canaries.stop()
        # One wait for all, not one for each.
        assert 0 < waits[0] <= host_canary.END_S
        assert waits[1:] == [0.0] * len(waits[1:])
        assert len(waits) >= rings
    finally:
        release.set()
    for thread in canaries._threads:
        thread.join(WAIT_S)


def test_without_o_direct_the_buffered_canary_goes_on(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    canaries, after = run_with(data, monkeypatch, errno.EINVAL)
    assert len(set(after)) > 3
    canaries.stop()
    assert open_files(canaries.folder) == []
