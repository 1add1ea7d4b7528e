"""Servers whose places lie on several disks, of which not all lose their power."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dbcheck.cycle.cycle import run_cycle
from dbcheck.cycle.outcome import Outcome
from dbcheck.cycle.rig import Limits, Rig
from dbcheck.hosts.host import open_host
from dbcheck.lab.servers.base import DatabaseServer
from dbcheck.lab.spec import DriveSpec, LabSpec
from dbcheck.lab.storage.drive import DriveStorage
from dbcheck.model.cut import Cut
from dbcheck.model.depth import Depth
from dbcheck.model.verdict import Verdict
from dbcheck.witness.log import FrameLogReader
from dbcheck.witness.url import open_witness
from tests.kit.drive_mounts import own_mounts as own_mounts
from tests.kit.nodes import site_of
from tests.kit.rigs import SEED, Said, quick
from tests.kit.servers import SERVERS, account_for, engine_of, skip_without_server
from tests.planted.site import HandSwitch, copy_folder

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("own_mounts")]

CUTS_MAX = 6
BYTES = 320 << 20

Move = Callable[[DatabaseServer, Path], None]


def move_log(server: DatabaseServer, folder: Path) -> None:
    """Move the log of a server that is down to *folder*, where it is kept from now."""
    owner = server.data.stat()
    os.chown(folder, owner.st_uid, owner.st_gid)
    name = "pg_wal" if server.name == "postgresql" else "ib_logfile0"
    former = server.data / name
    copy_folder(former, folder / name)
    if server.name == "postgresql":
        shutil.rmtree(former)
        former.symlink_to(folder / name)
    else:
        former.unlink()
        server.settings = {**server.settings, "innodb_log_group_home_dir": str(folder)}


class Disks:
    """A server whose data lie on a drive that a cut empties, and its log elsewhere.

    log: the drive that the log is on, None for a disk that no cut reaches.
    """

    def __init__(self, engine: str, base: Path, log: DriveSpec | None) -> None:
        """Make the drives; the server is made by build()."""
        self.data = self._drive(engine, base / "a", DriveSpec(size_bytes=BYTES))
        self.drives = [self.data]
        self.log_folder = base / "log"
        if log is None:
            self.log_folder.mkdir(mode=0o755)
        else:
            self.drives.append(self._drive(engine, base / "b", log))
            self.log_folder = self.drives[1].folder
        kind, data = SERVERS[engine], self.data.folder / "data"
        account = account_for(kind, data)
        self.server = kind(data, base / "run", account=account)

    @staticmethod
    def _drive(engine: str, base: Path, spec: DriveSpec) -> DriveStorage:
        (base / "files").mkdir(parents=True)
        return DriveStorage(LabSpec(engine, drive=spec), base)

    def build(self) -> None:
        """Have the server take queries, with all that it wrote stable."""
        for drive in self.drives:
            drive.build()
        self.server.initialise()
        move_log(self.server, self.log_folder)
        self.server.start()
        for drive in self.drives:
            drive.flush_all()

    def cut(self) -> int:
        """Cut the power of every drive, and end the server; return when that began."""
        cuts = [drive.cut(self.server, flushes_expected=False) for drive in self.drives]
        for drive in self.drives:
            drive.end_cut(self.server)
        return cuts[0][0]

    def restore(self) -> None:
        """Give the power back, and start the server."""
        for drive in self.drives:
            drive.power_on()
        self.server.start()

    def close(self) -> None:
        """End everything."""
        for drive in self.drives:
            drive.close(self.server)


class DiskSwitch(HandSwitch):
    """Cuts the power of all drives, and knows the moment, however long it took."""

    def __init__(self, disks: Disks) -> None:
        """Cut those of *disks*."""
        super().__init__(disks.cut, disks.restore)
        self._disks = disks

    def cut(self) -> Cut:
        """Cut it."""
        return Cut(time.monotonic_ns() // 1000, self._disks.cut())


@contextlib.contextmanager
def rig_on(engine: str, folder: Path, log: DriveSpec | None) -> Iterator[Rig]:
    """Give a rig with such a server, whose host is asked."""
    skip_without_server(engine)
    base = Path(tempfile.mkdtemp(prefix="dbcheck-"))  # for the server's account
    base.chmod(0o755)
    disks = Disks(engine, base, log)
    try:
        disks.build()
        with (
            contextlib.closing(
                open_witness(f"file:{folder}/witness", volatile=True)
            ) as witness,
            contextlib.closing(open_host("local:")) as host,
        ):
            yield Rig(
                site_of(engine_of(disks.server), DiskSwitch(disks), host=host),
                witness,
                FrameLogReader(),
                Said(),
                folder / "runs",
                Limits(silence_s=3.0, cut_s=4.0, return_s=60),
                lab={"cut": "drive"},
            )
        assert not list(base.rglob("*dbcheck-canary*"))
    finally:
        disks.close()
        shutil.rmtree(base)


def seen(outcome: Outcome) -> str:
    """Return all that the judgement says."""
    items = (f"{item.id.value}: {item.reason}" for item in outcome.judgement.items)
    depth = outcome.case.depth.reasons if outcome.case.depth else ()
    return "\n".join((*outcome.judgement.reasons, *items, *depth))


@pytest.mark.wide
def test_a_log_on_a_disk_that_was_not_cut_is_no_pass(tmp_path: Path) -> None:
    """pg_wal is a link: no setting shows that it lies on another disk."""
    with rig_on("postgresql", tmp_path, None) as rig:
        for number in range(CUTS_MAX):  # a busy machine may hear of too few writes
            outcome = run_cycle(rig, quick(), SEED + number)
            assert outcome.found is not None
            assert not outcome.found.counts
            assert outcome.case.depth is not None
            assert "drive's cache was lost" not in outcome.judgement.reasons[0]
            if outcome.case.depth.depth is not None:
                assert outcome.verdict is Verdict.INCONCLUSIVE, seen(outcome)
                assert outcome.case.depth.depth is Depth.PROCESS
                assert "PROCESS on WAL" in outcome.case.depth.reasons[0]
                return
    pytest.fail(f"{CUTS_MAX} cuts, and the last: {seen(outcome)}")


def test_the_claim_is_the_least_depth_of_the_places(tmp_path: Path) -> None:
    """The drive of the redo log keeps its power: the page cache alone was lost."""
    keeps = DriveSpec(personality="write-through", size_bytes=BYTES)
    with rig_on("mariadb", tmp_path, keeps) as rig:
        for number in range(CUTS_MAX):  # commits flush the data's drive as well
            outcome = run_cycle(rig, quick(), SEED + number)
            assert outcome.verdict is Verdict.PASS, seen(outcome)
            assert "drive's cache was lost" not in outcome.judgement.reasons[0]
            assert outcome.case.depth is not None
            assert outcome.case.depth.depth in (Depth.OS, None)
            said = outcome.case.depth.reasons[0]
            if "DRIVE on data" in said and "OS on redo log" in said:
                assert "the page cache was lost" in outcome.judgement.reasons[0]
                return
    pytest.fail(f"{CUTS_MAX} cuts, and the last: {said}")
