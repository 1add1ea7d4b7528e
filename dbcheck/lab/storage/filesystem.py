"""A real filesystem on a block device: made, mounted, unmounted."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LabError, Unrecoverable
from dbcheck.lab import needs, programs, syscalls
from dbcheck.lab.process import users_of

# Neither discards nor leaves work for later: after mkfs the drive is quiet.
# A mount after a cut reads the log of XFS in small pieces, six for each record.  In
# stripe units, as mkfs.xfs makes it on arrays, a full log has 2,000 records and not
# 60,000, which would take many seconds.
_MKFS = {
    "xfs": ("-q", "-f", "-K", "-l", "su=32k"),
    "ext4": ("-q", "-F", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0"),
}
_LOOP_NAMES = re.compile(r"\bloop\d+\b")
_POLL_S = 0.005
_FIFREEZE, _FITHAW = 0xC0045877, 0xC0045878
_NOT_MOUNTED = 32  # mount(8): the kernel refused; others are of mount itself


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
    with _kernel_log() as log:
        try:
            programs.run("mount", *arguments, device, str(mountpoint))
        except programs.Failed as error:
            if error.status != _NOT_MOUNTED or needs.is_resource_shortage(str(error)):
                raise
            messages = [
                line
                for line in log
                if filesystem in line.lower() and not _names_another(device, line)
            ]
            how = f" with {options!r}" if options else ""
            raise Unrecoverable(
                f"cannot mount {device} as {filesystem}{how}: "
                + ("; ".join(messages) or str(error)),
                id=ErrorId.FILESYSTEM_NOT_MOUNTED,
                hint="A rejected option is the lab's mount_options; a damaged "
                "filesystem is what the cut left.",
            ) from error


def umount(mountpoint: Path, timeout_s: float = 10.0) -> None:
    """Return once nothing is mounted on *mountpoint*; raise LabError after timeout_s.

    A filesystem stays busy until the last process that was killed has ended.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            syscalls.umount(str(mountpoint))
        except OSError as error:
            if error.errno == errno.EINVAL:  # nothing is mounted there
                return
            if error.errno != errno.EBUSY or time.monotonic() >= deadline:
                users = ", ".join(map(str, users_of(mountpoint)))
                raise LabError(
                    f"cannot unmount {mountpoint}: {error.strerror}",
                    id=ErrorId.FILESYSTEM_IN_USE,
                    hint=f"It is in use by {users or 'a process outside the lab'}.",
                ) from error
            time.sleep(_POLL_S)


def _names_another(device: str, line: str) -> bool:
    """Say whether the kernel logged *line* of a device that another lab mounts."""
    return bool(set(_LOOP_NAMES.findall(line)) - {Path(device).name})


@contextlib.contextmanager
def frozen(mountpoint: Path) -> Iterator[None]:
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
            ) from error
        try:
            yield
        finally:
            fcntl.ioctl(descriptor, _FITHAW, 0)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _kernel_log() -> Iterator[Iterator[str]]:
    """Give what the kernel logs from now on, by lines; nothing if unreadable."""
    try:
        descriptor = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
    except OSError:  # not in every container
        yield iter(())
        return
    try:
        os.lseek(descriptor, 0, os.SEEK_END)
        yield _lines(descriptor)
    finally:
        os.close(descriptor)


def _lines(descriptor: int) -> Iterator[str]:
    """Yield the records of /dev/kmsg: "level,number,time,flags;text"."""
    while True:
        try:
            record = os.read(descriptor, 8192).decode(errors="replace")
        except OSError as error:
            if error.errno == errno.EPIPE:  # overwritten before it was read
                continue
            return
        yield record.partition(";")[2].splitlines()[0]
