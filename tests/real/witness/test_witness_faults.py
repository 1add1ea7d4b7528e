"""A witness that is far away, slow, full, broken or gone, while acks come in."""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import WitnessError
from dbcheck.lab.servers.mariadb import MariadbServer
from dbcheck.lab.spec import DriveSpec, LabSpec
from dbcheck.lab.ssh.sshd import Sshd, _list_descendants
from dbcheck.lab.storage.drive import DriveStorage
from dbcheck.model.witness import Watermark
from dbcheck.ports.witness import WitnessLog
from dbcheck.witness.window import WindowLimits
from dbcheck.witness.witness import AgentWitness
from tests.kit.drive_mounts import own_mounts as own_mounts
from tests.kit.far_host import FarSshd, far_sshd
from tests.kit.refusals import refused
from tests.kit.waiting import wait_until
from tests.kit.witnesses import (
    Place,
    ack_of,
    give_up_after,
    read_back,
    running_sshd,
    witness_threads,
)

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("own_mounts")]

SMALL = WindowLimits(acks=64, age_s=0.2, silence_s=30)


class Appending:
    """A thread that appends as an event loop does, until it is stopped or fails."""

    def __init__(self, log: WitnessLog) -> None:
        self.sent = 0
        self.error: WitnessError | None = None
        self._log = log
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> int:
        """Return how many acks were appended."""
        self._stop.set()
        self._thread.join()
        return self.sent

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                room = self._log.room()
                if not room:
                    select.select([self._log], [], [], 0.1)
                    continue
                first, self.sent = self.sent + 1, self.sent + room
                acks = [ack_of(1, seq) for seq in range(first, self.sent + 1)]
                self._log.append_many(acks)
        except WitnessError as error:
            self.error = error


@contextmanager
def appending(log: WitnessLog) -> Iterator[Appending]:
    loop = Appending(log)
    try:
        yield loop
    finally:
        loop.stop()


def grows(log: WitnessLog) -> Callable[[], bool]:
    """Return what says whether the witness has confirmed more since now."""
    acks = log.watermark().acks
    return lambda: log.watermark().acks > acks + 1000


def require_sound(witness: AgentWitness, run_id: str, mark: Watermark) -> int:
    """Fail unless the log holds all that was confirmed; return how many it holds."""
    acks, _ = read_back(witness, run_id, mark)
    assert acks == [ack_of(1, seq) for seq in range(1, len(acks) + 1)]
    assert len(acks) >= mark.acks
    return len(acks)


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    yield
    assert witness_threads() == []


@pytest.fixture
def far(tmp_path: Path) -> Iterator[FarSshd]:
    with far_sshd(tmp_path / "sshd") as sshd:
        yield sshd


def test_a_network_that_comes_back_costs_nothing(far: FarSshd, tmp_path: Path) -> None:
    witness = Place(tmp_path / "logs", far).witness(limits=SMALL)
    log = witness.create("outage", b"{}")
    with appending(log) as loop:
        wait_until(grows(log), "acks are confirmed")
        far.pull()
        wait_until(lambda: log.behind_s() > 3, "the window is old")
        assert log.unconfirmed() <= 64
        mark, sent = log.watermark(), loop.sent
        assert log.behind_s() > 3
        assert (log.watermark(), loop.sent) == (mark, sent)
        far.plug()
        wait_until(grows(log), "acks are confirmed again")
        sent = loop.stop()
        assert loop.error is None
    mark = log.close()
    assert mark.acks == sent
    assert log.window().age_s > 3
    assert require_sound(witness, "outage", mark) == sent
    witness.close()


def test_a_network_that_stays_away_ends_the_log(far: FarSshd, tmp_path: Path) -> None:
    place = Place(tmp_path / "logs", far)
    witness = place.witness(limits=SMALL)
    log = witness.create("gone", b"{}")
    with appending(log) as loop:
        wait_until(grows(log), "acks are confirmed")
        give_up_after(log, 1)
        far.pull()
        wait_until(lambda: loop.error is not None, "it is told")
    assert "confirmed nothing for 1 s" in str(loop.error)
    assert loop.error is not None and "can be reconciled" in loop.error.hint
    with refused(ErrorId.WITNESS_NOT_CONFIRMING, WitnessError, naming="for 1"):
        log.close()
    mark = log.watermark()
    witness.close()
    far.plug()
    again = place.witness()
    assert require_sound(again, "gone", mark) <= loop.sent
    again.close()


def test_silence_is_told_though_nothing_is_appended(
    far: FarSshd, tmp_path: Path
) -> None:
    place = Place(tmp_path / "logs", far)
    witness = place.witness(limits=WindowLimits(acks=1, age_s=0.2, silence_s=1))
    log = witness.create("silent", b"{}")
    far.pull()
    log.append_many([ack_of(1, 1)])
    assert log.room() == 0
    assert select.select([log], [], [], 20)[0]  # a loop that sleeps is woken
    with refused(ErrorId.WITNESS_NOT_CONFIRMING, WitnessError, naming="for 1"):
        log.room()
    with refused(ErrorId.WITNESS_NOT_CONFIRMING, WitnessError, naming="for 1"):
        log.close()
    witness.close()


def test_a_session_of_the_server_that_is_killed_ends_the_log(tmp_path: Path) -> None:
    with running_sshd(tmp_path / "sshd", "openssh") as sshd:
        witness = Place(tmp_path / "logs", sshd).witness()
        log = witness.create("killed", b"{}")
        with appending(log) as loop:
            wait_until(grows(log), "acks are confirmed")
            signal_sessions(sshd, signal.SIGSTOP)
            wait_until(lambda: log.behind_s() > 0.5, "acks wait for it")
            signal_sessions(sshd, signal.SIGKILL)
            wait_until(lambda: loop.error is not None, "it is told")
        assert "ended" in str(loop.error)
        with refused(ErrorId.AGENT_ENDED, WitnessError, naming="ended"):
            log.close()
        # The server itself is there: what was confirmed can be read.
        assert require_sound(witness, "killed", log.watermark()) <= loop.sent
        witness.close()


def test_a_session_that_is_killed_when_all_is_confirmed_costs_nothing(
    tmp_path: Path,
) -> None:
    with running_sshd(tmp_path / "sshd", "openssh") as sshd:
        witness = Place(tmp_path / "logs", sshd).witness()
        log = witness.create("confirmed", b"{}")
        log.append_many([ack_of(1, seq) for seq in range(1, 101)])
        wait_until(lambda: log.unconfirmed() == 0, "all is confirmed")
        signal_sessions(sshd, signal.SIGKILL)
        with refused(ErrorId.AGENT_ENDED, WitnessError, naming="ended"):
            wait_until(lambda: log.room() == 0, "it is told")
        mark = log.close()
        assert mark.acks == 100
        assert require_sound(witness, "confirmed", mark) == 100
        witness.close()


def signal_sessions(sshd: Sshd, number: signal.Signals) -> None:
    """Send a signal to all that *sshd* has started, and not to itself."""
    assert sshd._child is not None
    for pid in _list_descendants(sshd._child.pid):
        with contextlib.suppress(ProcessLookupError):  # it may end with its parent
            os.kill(pid, number)


def test_a_slow_disk_slows_the_acks_and_no_more(tmp_path: Path) -> None:
    spec = LabSpec("mariadb", filesystem="ext4", drive=DriveSpec(size_bytes=320 << 20))
    storage = DriveStorage(spec, tmp_path)
    storage.folder.mkdir()
    storage.build()
    try:
        storage.set({"flush_ms": 200})
        witness = Place(storage.folder / "logs", None).witness(limits=SMALL)
        log = witness.create("slow", b"{}")
        with appending(log) as loop:
            wait_until(lambda: log.watermark().acks >= 64 * 10, "acks are confirmed")
            sent = loop.stop()
        assert loop.error is None
        mark = log.close()
        facts = log.window()
        assert facts.age_s >= 0.2  # older than the limit, and no harm done
        assert facts.acks <= 64
        assert require_sound(witness, "slow", mark) == sent
        witness.close()
    finally:
        storage.set({"flush_ms": 0})
        storage.close(MariadbServer(tmp_path / "none", tmp_path / "none"))


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small ext4, which turns read-only after an error."""
    image, folder = tmp_path / "image", tmp_path / "disk"
    with image.open("wb") as file:
        file.truncate(8 << 20)
    folder.mkdir()
    subprocess.run(["mkfs.ext4", "-q", str(image)], check=True)
    options = "loop,errors=remount-ro"
    subprocess.run(["mount", "-o", options, str(image), str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_leaves_a_log_that_can_be_read_and_removed(disk: Path) -> None:
    witness = Place(disk / "logs", None).witness()
    log = witness.create("full", b'{"logs": 2}')
    second = witness.join("full", 1)
    with appending(log) as loop:
        wait_until(lambda: loop.error is not None, "it is told")
    assert "full/acks.log: No space left on device" in str(loop.error)
    assert loop.error is not None and "Make room" in loop.error.hint
    second.append_many([ack_of(2, seq) for seq in range(1, 100_000)])
    for each in (log, second):
        with refused(ErrorId.WITNESS_DISK_FULL, WitnessError, naming="No space left"):
            each.close()
    assert require_sound(witness, "full", log.watermark()) <= loop.sent
    acks, _ = read_back(witness, "full", second.watermark(), 1)
    assert len(acks) >= second.watermark().acks
    with refused(ErrorId.WITNESS_DISK_FULL, WitnessError, naming="No space left"):
        witness.create("another", bytes(1 << 20))
    witness.remove("full")
    witness.create("another", bytes(1 << 20)).close()
    witness.close()


def test_a_disk_that_turns_read_only_is_told(disk: Path) -> None:
    witness = Place(disk / "logs", None).witness()
    log = witness.create("read-only", b"{}")
    with appending(log) as loop:
        wait_until(grows(log), "acks are confirmed")
        device = Path(os.path.realpath(f"/sys/dev/block/{_numbers(disk)}")).name
        Path(f"/sys/fs/ext4/{device}/trigger_fs_error").write_text("planted")
        wait_until(lambda: loop.error is not None, "it is told")
    # An fdatasync that is under way when ext4 gives up its journal tells EIO.
    told = "Read-only file system|Input/output error"
    assert re.search(told, str(loop.error))
    assert loop.error is not None and "kernel log" in loop.error.hint
    with pytest.raises(WitnessError, match=told):
        log.close()
    assert require_sound(witness, "read-only", log.watermark()) <= loop.sent
    with refused(
        ErrorId.WITNESS_FILESYSTEM_READ_ONLY,
        WitnessError,
        naming="Read-only file system",
    ):
        witness.create("another", b"{}")
    witness.close()


def _numbers(folder: Path) -> str:
    device = folder.stat().st_dev
    return f"{os.major(device)}:{os.minor(device)}"
