"""A real filesystem on a virtual drive."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from dbcheck.base import processes
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LabError
from dbcheck.lab import mounts
from dbcheck.lab.drive.control import DriveProcess, copy_drive
from dbcheck.lab.drive.process import DriveServer
from dbcheck.lab.drive.recording import Recordings
from dbcheck.lab.drive.replay import Shown
from dbcheck.lab.servers.base import DatabaseServer
from dbcheck.lab.spec import DATA_DRIVE, LabSpec
from dbcheck.lab.storage import filesystem as block
from dbcheck.lab.storage import filesystem as block_filesystem
from dbcheck.lab.storage.blocks import FileBlocks, list_file_blocks
from dbcheck.model.cut import Part

_CACHE_COUNTERS = frozenset({"cached_writes", "cached_bytes"})
_SYNC_S = 60.0
_TELLING_WRITES = 16  # as many need a flush; fewer may be the filesystem's own
_SAFE_OPTIONS = "nosuid,nodev"  # come last, as mount(8) takes the later of two options
_SAFE_FLAGS = os.ST_NOSUID | os.ST_NODEV  # statvfs(3)
_NO_BARRIER_OPTIONS = frozenset({"barrier=0", "nobarrier"})


class DriveStorage:
    """Drive, loop device and filesystem, built on one another (storage.Storage).

    The mount point is base/NAME.  The kernel is told what write cache the drive has,
    unless the spec names another value; without a write cache it sends no flushes.
    """

    log_folder: Path | None = None

    def __init__(
        self,
        spec: LabSpec,
        base: Path,
        name: str = DATA_DRIVE,
        recordings: Recordings | None = None,
    ) -> None:
        """recordings: where the drive records, or the recordings that it replays."""
        self._recording = recordings.of(name) if recordings else None
        self._spec = spec
        self._drive_file = base / f"drive-{name}"
        self.folder = base / name
        is_write_through = spec.drive.personality == "write-through"
        true_cache = block.WRITE_THROUGH if is_write_through else block.WRITE_BACK
        self._write_cache = (
            true_cache if spec.write_cache == "auto" else spec.write_cache
        )
        barriers = not _NO_BARRIER_OPTIONS & set(spec.mount_options.split(","))
        self.sends_flushes = barriers and self._write_cache == block.WRITE_BACK
        self._drive: DriveProcess | None = None
        self._loop: block.LoopDevice | None = None
        self._counted_from: dict[str, int] = {}

    def build(self) -> None:
        """Make drive and filesystem, and mount the filesystem.

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
        """Write out the kernel's changes, and make them stable in the drive."""
        # Only this filesystem, as others may be on drives that are frozen.
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
        self._require_drive().call(DriveServer.flush_all)

    @contextlib.contextmanager
    def without_latency(self) -> Iterator[None]:
        """Let flushes and writes take no time, as for a recovery that syncs files."""
        spec = self._require_drive().call(DriveServer.spec)
        times_ms = {"flush_ms": spec.flush_ms, "write_ms": spec.write_ms}
        zero_times = dict.fromkeys(times_ms, 0.0)
        self._require_drive().call(DriveServer.set, zero_times)
        try:
            yield
        finally:
            self._require_drive().call(DriveServer.set, times_ms)

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
        """Freeze the drive, lose its cache and fail it, while the server runs."""
        return self.freeze(), self.abandon(flushes_expected=flushes_expected)

    def abandon(self, *, flushes_expected: bool) -> dict[str, object]:
        """Do what lose_cache() does; leave the device to its mounted filesystem."""
        report = self.lose_cache(flushes_expected=flushes_expected)
        if self._loop is not None:
            self._loop.let_go()
        return report

    def freeze(self) -> int:
        """Stop answering requests; return the time of that, as cut() does."""
        return self._require_drive().call(DriveServer.freeze)

    def lose_cache(self, *, flushes_expected: bool) -> dict[str, object]:
        """Lose the cache of a drive that is frozen; return the report of cut()."""
        counters = self.counters()
        cut_report = self._require_drive().call(DriveServer.cut)
        self._require_drive().call(DriveServer.fail)
        wiring = self._find_contradiction(counters) if flushes_expected else None
        return {**counters, **dataclasses.asdict(cut_report), "wiring": wiring}

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
        drive = self._require_drive()
        drive.call(DriveServer.power_on)
        if image is not None:
            copy_drive(drive.descriptor, self._spec.drive.size_bytes, image)
        self._loop = block.attach(drive.descriptor, self._write_cache)
        if mount:
            self._mount(self._loop)

    @property
    def parts(self) -> tuple[DriveStorage, ...]:
        """Return this drive alone."""
        return (self,)

    @property
    def name(self) -> str:
        """The name of the drive, which is that of its mount point, too."""
        return self.folder.name

    @property
    def spec(self) -> LabSpec:
        """The lab's spec, with that of this drive."""
        return self._spec

    def hold_requests(self) -> None:
        """Have the drive take no request until go_on(), for a moment at most."""
        self._require_drive().call(DriveServer.hold)

    def begin_copy(self, file: int) -> None:
        """Have what the held drive holds now written into the open *file*."""
        self._require_drive().begin_copy(file)

    def go_on(self) -> None:
        """Take requests again; raise LabError if the drive did so by itself."""
        self._require_drive().call(DriveServer.go_on)

    def copy_is_complete(self) -> bool:
        """Return whether the copy is written; raise LabError if that failed."""
        return self._require_drive().call(DriveServer.copy_is_complete)

    def give_copy_up(self) -> None:
        """Write no copy any more; never raises."""
        with contextlib.suppress(LabError):
            self._require_drive().call(DriveServer.give_copy_up)

    def drives(self) -> tuple[str, ...]:
        """Return the drive's serial while it is attached."""
        return (self._loop.serial,) if self._loop is not None else ()

    def start_counting(self) -> None:
        """Count requests from now on; a failing drive counts its flushes too."""
        self._require_drive().call(DriveServer.count_flushes)
        self._counted_from = self._count()

    def counters(self) -> dict[str, int]:
        """Return the drive's counters since start_counting(), and its cache."""
        return {
            name: value - self._counted_from.get(name, 0)
            for name, value in self._count().items()
        }

    def set(self, changes: Mapping[str, Any]) -> None:
        drive = self._require_drive()
        drive.call(DriveServer.spec).changed(changes)  # raises if they are not valid
        drive.call(DriveServer.set, dict(changes))

    def record(self) -> None:
        """Record the requests to the drive, see Storage.

        The filesystem is frozen for a moment, so that it has little of its journal to
        replay in each crash state.
        """
        with block_filesystem.freeze_filesystem(self.folder):
            self._require_drive().call(DriveServer.record)

    def save_recordings(self) -> None:
        """Store the recording."""
        self._require_drive().call(DriveServer.save_recording)

    def show(self, server: DatabaseServer, states: Sequence[Shown]) -> None:
        """End *server*; hold the crash state, the only one in *states*."""
        self.freeze()
        server.kill_now()
        self.fail()
        self.end_cut(server)
        ((whole, parts),) = states
        self.hold(whole, parts)

    def hold(self, whole: int, parts: Sequence[Part]) -> None:
        """Hold a crash state; the drive must be off and unused."""
        self._require_drive().call(DriveServer.show, whole, list(parts))

    def blocks(self) -> list[FileBlocks]:
        """Return the place of each file's blocks on the drive."""
        return list_file_blocks(self.folder, 0)

    def failure(self) -> str | None:
        """Return why the drive does not answer, or None."""
        try:
            self._require_drive().call(DriveServer.counters)
        except LabError as error:
            return str(error)
        return None

    def close(self, server: DatabaseServer) -> None:
        """Fail the drive, so that nothing waits for it; end server, mount and drive."""
        self.fail()
        try:
            self.end_cut(server)
        finally:
            self.discard()

    def fail(self) -> None:
        """Fail every request from now on, also the requests that are held."""
        with contextlib.suppress(LabError):
            self._require_drive().call(DriveServer.fail)

    def discard(self) -> None:
        """End the drive; its content is lost."""
        if self._drive is not None:
            self._drive.close()

    def _replays(self) -> bool:
        return self._recording is not None and self._recording.replayed

    def _require_drive(self) -> DriveProcess:
        if self._drive is None:
            raise LabError(
                "the lab has no drive yet",
                id=ErrorId.LAB_WITHOUT_DRIVE,
                hint="Wait until the lab has started.",
            )
        return self._drive

    def _mount(self, loop: block.LoopDevice) -> None:
        """Mount the filesystem.

        Several labs may replay one recording.
        """
        mount_safely(loop.path, self.folder, self._spec, beside=self._replays())

    def unmount(self) -> None:
        """Unmount the filesystem and detach the drive, if it is attached."""
        if self._loop is None:
            return
        mounts.release(self.folder)
        self._loop.detach()
        self._loop = None

    def _count(self) -> dict[str, int]:
        counters = dataclasses.asdict(self._require_drive().call(DriveServer.counters))
        return {name: n for name, n in counters.items() if name not in _CACHE_COUNTERS}

    def _find_contradiction(self, counters: dict[str, int]) -> str | None:
        """Explain why expected flushes did not arrive; None if they did."""
        if self._loop is None:
            return None
        queue = Path("/sys/block", Path(self._loop.path).name, "queue/write_cache")
        value = queue.read_text().strip()
        if value != self._write_cache:
            return f"{queue} is {value!r} instead of {self._write_cache!r}"
        if counters["writes"] >= _TELLING_WRITES and not counters["flushes"]:
            return f"the drive saw {counters['writes']} writes and no flush"
        return None


def mount_safely(device: str, folder: Path, spec: LabSpec, *, beside: bool) -> None:
    """Mount *device* on *folder* with the options of *spec*; raise LabError.

    Its content may come from a recording, and have device files and programs of root's
    with the set-user-ID bit, so these are not honoured.
    beside: another filesystem of the same UUID may be mounted, which XFS refuses
    otherwise (xfs(5), nouuid).
    """
    options = spec.mount_options
    if beside and spec.filesystem == "xfs":
        options = ",".join(filter(None, (options, "nouuid")))
    options = ",".join(filter(None, (options, _SAFE_OPTIONS)))
    block_filesystem.mount(device, folder, spec.filesystem, options)
    if os.statvfs(folder).f_flag & _SAFE_FLAGS != _SAFE_FLAGS:
        mounts.release(folder)
        raise LabError(
            f"mount(8) left out {_SAFE_OPTIONS}, which a lab's drive needs",
            id=ErrorId.LAB_DECIDES_SETTING,
            hint=f"Leave the mount options out: {spec.mount_options}",
        )
