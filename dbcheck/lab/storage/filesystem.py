"""A real filesystem on a loop device, which is the file of a virtual drive.

The device clears itself (LO_FLAGS_AUTOCLEAR) when no process has it open any more: not
this process, not a filesystem that is mounted from it.  So nothing is left of it,
whoever is killed, and whenever.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LabError, Unrecoverable
from dbcheck.lab import programs

WRITE_BACK = "write back"
WRITE_THROUGH = "write through"
SEE_DMESG = "See the kernel's log (dmesg), or use another machine."

# linux/loop.h
_LOOP_CTL_GET_FREE = 0x4C82
_LOOP_CONFIGURE = 0x4C0A
_LOOP_GET_STATUS64 = 0x4C05
_FLAGS_AUTOCLEAR, _FLAGS_DIRECT_IO = 4, 16
_INFO = struct.Struct("<QQQQQIIII64s64s32sQQ")
_CONFIG_HEAD = struct.Struct("<II")  # descriptor, block size; then info, 64 spare
_TRIES = 20
_POLL_S = 0.005


class LoopDevice:
    """An attached loop device; attach() makes one.

    path: of the device, such as /dev/loop0.
    """

    def __init__(self, path: str, descriptor: int, backing: tuple[int, int]) -> None:
        """Use attach() instead.  backing: st_dev and st_ino of what is attached."""
        self.path = path
        self._descriptor = descriptor
        self._backing = backing

    def attached(self) -> bool:
        """Ask the kernel whether the device still has this drive behind it."""
        try:
            descriptor = os.open(self.path, os.O_RDONLY)
        except OSError:
            return False  # ENXIO while it is being cleared
        try:
            raw = fcntl.ioctl(descriptor, _LOOP_GET_STATUS64, bytes(_INFO.size))
        except OSError:
            return False
        finally:
            os.close(descriptor)
        # Somebody else may have got the device the moment that it was free.
        return _INFO.unpack(raw)[:2] == self._backing

    @property
    def serial(self) -> str:
        """Serial of the drive behind it, whatever device that is attached to.

        As agent/host/drives.py knows it.
        """
        return "loop:{}:{}".format(*self._backing)

    def let_go(self) -> None:
        """Leave the device to the filesystem on it: it is free once that is gone."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def detach(self, timeout_s: float = 10.0) -> None:
        """Let the device go, after the unmount; may be repeated.

        Return once it is free; raise LabError if it still is in use after
        timeout_s seconds.
        """
        self.let_go()
        deadline = time.monotonic() + timeout_s
        while self.attached():
            if time.monotonic() >= deadline:
                raise LabError(
                    f"{self.path} is still in use {timeout_s:g} s after its release",
                    id=ErrorId.LOOP_DEVICE_IN_USE,
                    hint="Look for a mount of it with findmnt, in every mount "
                    "namespace; it is freed when the last one is gone.",
                )
            time.sleep(_POLL_S)

    def __enter__(self) -> Self:
        """Return the device itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Detach the device."""
        self.detach()


def attach(backing: int, write_cache: str = WRITE_BACK) -> LoopDevice:
    """Attach the open file *backing* to a free loop device, with direct I/O.

    write_cache: what the kernel believes of the drive: WRITE_BACK makes it send
    flushes, WRITE_THROUGH makes it send none.  It is always checked, since a loop
    device keeps what its last user set.  Raise LabError.
    """
    facts = os.fstat(backing)
    path, descriptor = _configure(backing)
    device = LoopDevice(path, descriptor, (facts.st_dev, facts.st_ino))
    try:
        _set_write_cache(path, write_cache)
    except BaseException:
        device.detach()
        raise
    return device


def _configure(backing: int) -> tuple[str, int]:
    """Return the path of a device that has *backing* behind it, and a descriptor."""
    flags = _FLAGS_AUTOCLEAR | _FLAGS_DIRECT_IO
    info = _INFO.pack(0, 0, 0, 0, 0, 0, 0, 0, flags, b"dbcheck", b"", b"", 0, 0)
    config = _CONFIG_HEAD.pack(backing, 0) + info + bytes(64)
    path = "/dev/loop-control"
    try:
        for _ in range(_TRIES):
            path = "/dev/loop-control"
            control = os.open(path, os.O_RDWR)
            try:
                number = fcntl.ioctl(control, _LOOP_CTL_GET_FREE)
            finally:
                os.close(control)
            path = f"/dev/loop{number}"
            if (descriptor := _try_configure(path, config)) is not None:
                return path, descriptor
    except OSError as error:
        raise LabError(
            f"no loop device for the virtual drive: {path}: {error.strerror}",
            id=ErrorId.LOOP_DEVICE_MISSING,
            hint="The lab needs root, CAP_SYS_ADMIN and loop devices in /dev.",
        ) from error
    raise LabError(
        f"other processes took each of {_TRIES} free loop devices first",
        id=ErrorId.LOOP_DEVICE_MISSING,
        hint="Try again when fewer labs start at once.",
    )


def _try_configure(path: str, config: bytes) -> int | None:
    """Return a descriptor of the configured device, None if it was taken."""
    writable = os.open(path, os.O_RDWR)
    try:
        fcntl.ioctl(writable, _LOOP_CONFIGURE, config)
        # Kept open for reading only: some kernels refuse to mount what a process has
        # open for writing (CONFIG_BLK_DEV_WRITE_MOUNTED).
        return os.open(path, os.O_RDONLY)
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
        return None
    finally:
        os.close(writable)


def _set_write_cache(path: str, write_cache: str) -> None:
    setting = Path("/sys/block", Path(path).name, "queue/write_cache")
    try:
        # The kernel freezes the queue to set it, which takes 15 ms.
        if setting.read_text().strip() == write_cache:
            return
        setting.write_text(write_cache)
        found = setting.read_text().strip()
    except OSError as error:
        raise LabError(
            f"cannot set {setting}: {error.strerror}",
            id=ErrorId.WRITE_CACHE_NOT_SET,
            hint=SEE_DMESG,
        ) from error
    if found != write_cache:
        raise LabError(
            f"{setting} is {found!r} although {write_cache!r} was written",
            id=ErrorId.WRITE_CACHE_NOT_SET,
            hint=SEE_DMESG,
        )


# Neither discards nor leaves work for later: after mkfs the drive is quiet.
# A mount after a cut reads the log of XFS in small pieces, six for each record.  In
# stripe units, as mkfs.xfs makes it on arrays, a full log has 2,000 records and not
# 60,000, which would take many seconds.
_MKFS = {
    "xfs": ("-q", "-f", "-K", "-l", "su=32k"),
    "ext4": ("-q", "-F", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0"),
}
_LOOP_NAMES = re.compile(r"\bloop\d+\b")
_FIFREEZE, _FITHAW = 0xC0045877, 0xC0045878
_NOT_MOUNTED = 32  # mount(8): the kernel refused; other statuses are mount's own errors


def mkfs(device: str, filesystem: str) -> None:
    """Make a *filesystem* of spec.FILESYSTEMS; raise LabError."""
    programs.run(f"mkfs.{filesystem}", *_MKFS[filesystem], device)


def mount(device: str, mountpoint: Path, filesystem: str, options: str = "") -> None:
    """Mount *device*, after recovery of its journal, with *options* as mount -o.

    Raise Unrecoverable, with what the kernel logged meanwhile, if the kernel refuses
    what is on the device, or an option; another LabError if it was not asked, lacked
    memory or did not end.
    """
    arguments = ["-t", filesystem, *(["-o", options] if options else [])]
    with _open_kernel_log() as log:
        try:
            programs.run("mount", *arguments, device, str(mountpoint))
        except programs.Failed as error:
            if error.status != _NOT_MOUNTED or programs.is_resource_shortage(
                str(error)
            ):
                raise
            messages = [
                line
                for line in log
                if filesystem in line.lower()
                and not _is_about_other_device(device, line)
            ]
            how = f" with {options!r}" if options else ""
            raise Unrecoverable(
                f"cannot mount {device} as {filesystem}{how}: "
                + ("; ".join(messages) or str(error)),
                id=ErrorId.FILESYSTEM_NOT_MOUNTED,
                hint="A rejected option is the lab's mount_options; a damaged "
                "filesystem is what the cut left.",
            ) from error


def _is_about_other_device(device: str, line: str) -> bool:
    """Return True if the kernel logged *line* of a device that another lab mounts."""
    return bool(set(_LOOP_NAMES.findall(line)) - {Path(device).name})


@contextlib.contextmanager
def freeze_filesystem(mountpoint: Path) -> Iterator[None]:
    """Keep the filesystem from writing, with all that it had to write written.

    Raise LabError if the kernel refuses (linux/fs.h, FIFREEZE).
    """
    descriptor = os.open(mountpoint, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.ioctl(descriptor, _FIFREEZE, 0)
        except OSError as error:
            raise LabError(
                f"cannot freeze {mountpoint}: {error.strerror}",
                id=ErrorId.FILESYSTEM_NOT_SYNCED,
                hint=SEE_DMESG,
            ) from error
        try:
            yield
        finally:
            fcntl.ioctl(descriptor, _FITHAW, 0)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _open_kernel_log() -> Iterator[Iterator[str]]:
    """Yield the kernel's log from now on, by lines; nothing if unreadable."""
    try:
        descriptor = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
    except OSError:  # not in every container
        yield iter(())
        return
    try:
        os.lseek(descriptor, 0, os.SEEK_END)
        yield _read_kernel_records(descriptor)
    finally:
        os.close(descriptor)


def _read_kernel_records(descriptor: int) -> Iterator[str]:
    """Yield the records of /dev/kmsg: "level,number,time,flags;text"."""
    while True:
        try:
            record = os.read(descriptor, 8192).decode(errors="replace")
        except OSError as error:
            if error.errno == errno.EPIPE:  # overwritten before it was read
                continue
            return
        yield record.partition(";")[2].splitlines()[0]
