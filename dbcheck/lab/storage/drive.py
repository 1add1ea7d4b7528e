"""A real filesystem on a virtual drive."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from dbcheck.base import processes
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LabError
from dbcheck.lab.drive.control import DriveProcess, copy_drive
from dbcheck.lab.drive.process import DriveServer
from dbcheck.lab.drive.recording import Recordings
from dbcheck.lab.drive.replay import Shown
from dbcheck.lab.process import Process, find_users
from dbcheck.lab.servers.base import DatabaseServer
from dbcheck.lab.spec import DATA_DRIVE, LabSpec
from dbcheck.lab.storage import filesystem as block
from dbcheck.lab.storage import filesystem as block_filesystem
from dbcheck.lab.storage.blocks import FileBlocks, list_file_blocks
from dbcheck.model.cut import Part

log = logging.getLogger(__name__)

_IN_CACHE = frozenset({"cached_writes", "cached_bytes"})
_SYNC_S = 60.0
_RELEASED_S = 2.0  # until what was killed, or meets errors, uses the filesystem no more
_TELLING = 16  # writes; a few may be the filesystem's own, of a server at rest
_SAFE = "nosuid,nodev"  # put last: of two options mount(8) takes the later one
_SAFE_FLAGS = os.ST_NOSUID | os.ST_NODEV  # statvfs(3)
_NO_BARRIER = frozenset({"barrier=0", "nobarrier"})


class DriveStorage:
    """Drive, loop device and filesystem, built on one another (storage.Storage).

    The mount point is base/NAME.  The write cache that the kernel believes in is the
    one that the drive has, unless the spec names another: without one it sends no
    flushes.
    """

    log_folder: Path | None = None

    def __init__(
        self,
        spec: LabSpec,
        base: Path,
        name: str = DATA_DRIVE,
        recordings: Recordings | None = None,
    ) -> None:
        """recordings: where the drive records, or what it replays; None: neither."""
        self._recording = recordings.of(name) if recordings else None
        self._spec = spec
        self._drive_file = base / f"drive-{name}"
        self.folder = base / name
        through = spec.drive.personality == "write-through"
        truth = block.WRITE_THROUGH if through else block.WRITE_BACK
        self._write_cache = truth if spec.write_cache == "auto" else spec.write_cache
        barriers = not _NO_BARRIER & set(spec.mount_options.split(","))
        self.sends_flushes = barriers and self._write_cache == block.WRITE_BACK
        self._drive: DriveProcess | None = None
        self._loop: block.LoopDevice | None = None
        self._counted_from: dict[str, int] = {}

    def build(self) -> None:
        """Make drive and filesystem, and mount it.

        A drive that replays a recording is off until show() and power_on().
        """
        self.folder.mkdir(exist_ok=True)
        self._drive_file.touch()
        self._drive = DriveProcess.start(
            self._spec.drive, self._drive_file, recording=self._recording
        )
        if self._replays():
            self._drive.call(DriveServer.fail)
            return
        with self.without_latency():
            self._loop = block.attach(self._drive.descriptor, self._write_cache)
            block_filesystem.mkfs(self._loop.path, self._spec.filesystem)
            self._mount(self._loop)

    def flush_all(self) -> None:
        """Write out what the kernel holds, and make it stable in the drive."""
        # Of this filesystem alone: others may be on drives that are frozen.
        command = ["sync", "--file-system", str(self.folder)]
        done = subprocess.run(
            command,
            env=processes.make_environment(),
            stdin=subprocess.DEVNULL,
            timeout=_SYNC_S,
        )
        if done.returncode:
            raise LabError(
                f"cannot sync {self.folder}",
                id=ErrorId.FILESYSTEM_NOT_SYNCED,
                hint=block.SEE_DMESG,
            )
        self._running().call(DriveServer.flush_all)

    @contextlib.contextmanager
    def without_latency(self) -> Iterator[None]:
        """Let flushes and writes cost nothing, as for a recovery that syncs it all."""
        spec = self._running().call(DriveServer.spec)
        costs = {"flush_ms": spec.flush_ms, "write_ms": spec.write_ms}
        free = dict.fromkeys(costs, 0.0)
        self._running().call(DriveServer.set, free)
        try:
            yield
        finally:
            self._running().call(DriveServer.set, costs)

    def cut(
        self, server: DatabaseServer, *, flushes_expected: bool
    ) -> tuple[int, dict[str, object]]:
        """Freeze the drive, kill the server, lose the cache, fail the drive."""
        cut_us = self.freeze()
        server.kill_now()
        return cut_us, self.lose_cache(flushes_expected=flushes_expected)

    def cut_drives_alone(
        self, *, flushes_expected: bool
    ) -> tuple[int, dict[str, object]]:
        """Freeze the drive, lose the cache, fail it, under a server that runs."""
        return self.freeze(), self.abandon(flushes_expected=flushes_expected)

    def abandon(self, *, flushes_expected: bool) -> dict[str, object]:
        """Do what lose_cache() does, and leave the device to the filesystem on it."""
        report = self.lose_cache(flushes_expected=flushes_expected)
        if self._loop is not None:
            self._loop.let_go()
        return report

    def freeze(self) -> int:
        """Answer no request any more; return since when, as cut() does."""
        return self._running().call(DriveServer.freeze)

    def lose_cache(self, *, flushes_expected: bool) -> dict[str, object]:
        """Lose the cache of a drive that is frozen; return the report of cut()."""
        counters = self.counters()
        lost = self._running().call(DriveServer.cut)
        self._running().call(DriveServer.fail)
        wiring = self._contradiction(counters) if flushes_expected else None
        return {**counters, **dataclasses.asdict(lost), "wiring": wiring}

    def end_cut(self, server: DatabaseServer) -> None:
        """Kill the server, unmount the filesystem, detach the drive.

        The server may have slept on the frozen drive, so it can end only now that the
        drive fails; the filesystem can be unmounted only once the server has ended.
        """
        server.kill()
        self.unmount()

    def power_on(self, image: Path | None = None, *, mount: bool = True) -> None:
        """Attach the drive and mount the filesystem, which replays its journal.

        image: where to copy the drive before that, if anywhere.  mount: see Storage.
        """
        drive = self._running()
        drive.call(DriveServer.power_on)
        if image is not None:
            copy_drive(drive.descriptor, self._spec.drive.size_bytes, image)
        self._loop = block.attach(drive.descriptor, self._write_cache)
        if mount:
            self._mount(self._loop)

    def drives(self) -> tuple[str, ...]:
        """Return the drive's serial while it is attached."""
        return (self._loop.serial,) if self._loop is not None else ()

    def start_counting(self) -> None:
        """Count from now on what the drive does, and so does a failing drive."""
        self._running().call(DriveServer.count_flushes)
        self._counted_from = self._count()

    def counters(self) -> dict[str, int]:
        """Return the drive's counters since start_counting(), and its cache."""
        return {
            name: value - self._counted_from.get(name, 0)
            for name, value in self._count().items()
        }

    def set(self, changes: Mapping[str, Any]) -> None:
        self._running().call(DriveServer.spec).changed(changes)  # raises
        self._running().call(DriveServer.set, dict(changes))

    def record(self) -> None:
        """Record what the drive is asked, see Storage.

        The filesystem is frozen for a moment, so that it has little of its journal to
        replay in each crash state.
        """
        with block_filesystem.freeze_filesystem(self.folder):
            self._running().call(DriveServer.record)

    def save_recordings(self) -> None:
        """Store what was recorded."""
        self._running().call(DriveServer.save_recording)

    def show(self, server: DatabaseServer, states: Sequence[Shown]) -> None:
        """End *server* and hold the one crash state of *states*."""
        self.freeze()
        server.kill_now()
        self.fail()
        self.end_cut(server)
        ((whole, parts),) = states
        self.hold(whole, parts)

    def hold(self, whole: int, parts: Sequence[Part]) -> None:
        """Hold a crash state; nothing uses the drive, which is off."""
        self._running().call(DriveServer.show, whole, list(parts))

    def blocks(self) -> list[FileBlocks]:
        """Return the place of each file's blocks on the drive."""
        return list_file_blocks(self.folder, 0)

    def failure(self) -> str | None:
        """Say that the drive's process is dead, or None."""
        try:
            self._running().call(DriveServer.counters)
        except LabError as error:
            return str(error)
        return None

    def close(self, server: DatabaseServer) -> None:
        """Fail the drive, so that nothing waits for it; end all that is built on it."""
        self.fail()
        try:
            self.end_cut(server)
        finally:
            self.discard()

    def fail(self) -> None:
        """Fail every request from now on, also those that are held."""
        with contextlib.suppress(LabError):
            self._running().call(DriveServer.fail)

    def discard(self) -> None:
        """End the drive, with all that it holds."""
        if self._drive is not None:
            self._drive.close()

    def _replays(self) -> bool:
        return self._recording is not None and self._recording.replayed

    def _running(self) -> DriveProcess:
        if self._drive is None:
            raise LabError(
                "the lab has no drive yet",
                id=ErrorId.LAB_WITHOUT_DRIVE,
                hint="Wait until the lab has started.",
            )
        return self._drive

    def _mount(self, loop: block.LoopDevice) -> None:
        """Mount the filesystem.

        Whoever made a recording may have put devices on it, and programs of root's with
        the set-user-ID bit.  Several labs may replay one recording, and XFS refuses a
        second filesystem of the same UUID (xfs(5), nouuid).
        """
        spec, options = self._spec, self._spec.mount_options
        if self._replays() and spec.filesystem == "xfs":
            options = ",".join(filter(None, (options, "nouuid")))
        options = ",".join(filter(None, (options, _SAFE)))
        block_filesystem.mount(loop.path, self.folder, spec.filesystem, options)
        if os.statvfs(self.folder).f_flag & _SAFE_FLAGS != _SAFE_FLAGS:
            block_filesystem.umount(self.folder, timeout_s=_RELEASED_S)
            raise LabError(
                f"mount(8) left out {_SAFE}, which a lab's drive needs",
                id=ErrorId.LAB_DECIDES_SETTING,
                hint=f"Leave the mount options out: {spec.mount_options}",
            )

    def unmount(self) -> None:
        """Unmount and detach, as far as there is something to.

        A process that uses the filesystem is ended: it runs on the host that lost its
        power.  One outside of the lab is not seen.
        """
        if self._loop is None:
            return
        try:
            block_filesystem.umount(self.folder, timeout_s=_RELEASED_S)
        except LabError as error:
            if error.id is not ErrorId.FILESYSTEM_IN_USE:
                raise
            self._end_users()
            block_filesystem.umount(self.folder, timeout_s=_RELEASED_S)
        self._loop.detach()
        self._loop = None

    def _end_users(self) -> None:
        for user in find_users(self.folder):
            process = Process.of(user.pid)
            if process is not None and user.pid != os.getpid():
                log.warning("the cut ended %s, which used %s", user, self.folder)
                process.kill()

    def _count(self) -> dict[str, int]:
        counters = dataclasses.asdict(self._running().call(DriveServer.counters))
        return {name: n for name, n in counters.items() if name not in _IN_CACHE}

    def _contradiction(self, counters: dict[str, int]) -> str | None:
        """Explain why expected flushes did not arrive; None if they did."""
        if self._loop is None:
            return None
        queue = Path("/sys/block", Path(self._loop.path).name, "queue/write_cache")
        found = queue.read_text().strip()
        if found != self._write_cache:
            return f"{queue} is {found!r} instead of {self._write_cache!r}"
        if counters["writes"] >= _TELLING and not counters["flushes"]:
            return f"the drive saw {counters['writes']} writes and no flush"
        return None
