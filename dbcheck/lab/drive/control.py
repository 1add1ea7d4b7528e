"""The parent's side of a drive process: start it, command it, end it.

Also copies a drive, as a cut left it, into an image for a bug report.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from types import NoneType
from typing import IO, ParamSpec, Self, TypeVar

from dbcheck.base import processes
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LabError, UsageError
from dbcheck.base.processes import Channel, NotAMessage
from dbcheck.lab import syscalls
from dbcheck.lab.calls import (
    Method,
    NotUnderstood,
    decode_result,
    decode_result_as,
    encode_call,
    time_limit_s,
)
from dbcheck.lab.drive.process import RECORDING_TIMEOUT_S, DriveServer
from dbcheck.lab.drive.recording import RecordingFile
from dbcheck.lab.spec import DriveSpec
from dbcheck.runs.stored import open_private

# A frozen drive fails by itself after so long: a sync hangs on the whole machine as
# long as it is frozen.
WATCHDOG_S = 5.0
_START_S = 20.0
_END_S = 10.0
_HINT = "End the lab and start a new one."

T = TypeVar("T")
P = ParamSpec("P")


@contextlib.contextmanager
def _open_recording(recording: RecordingFile | None) -> Iterator[int]:
    """Give a descriptor of the file, -1 without one."""
    file = -1 if recording is None else recording.open()
    try:
        yield file
    finally:
        if file >= 0:
            os.close(file)


class DriveProcess:
    """A running drive.  Calls block, are thread-safe and raise LabError.

    descriptor: the drive as an open file, for block.attach.

    The drive dies with the thread that started it (prctl PR_SET_PDEATHSIG looks at
    the thread, not at the process), so start it from one that stays.
    """

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        control: Channel,
        errors: IO[bytes],
        handed: socket.socket,
    ) -> None:
        """Use start() instead."""
        self._handed = handed
        self.descriptor = -1
        self._process = process
        self._control = control
        self._errors = errors
        self._lock = threading.Lock()

    @classmethod
    def start(
        cls,
        spec: DriveSpec,
        mountpoint: Path,
        *,
        watchdog_s: float = WATCHDOG_S,
        recording: RecordingFile | None = None,
    ) -> Self:
        """Start an empty drive; *mountpoint* is an ordinary file to be used briefly.

        recording: the file to record into, or to replay; a replaying drive starts with
        the contents that the recording begins with.
        On return the drive is open and its mount is detached already: it lives as
        long as a process has it open, so no process has to unmount it.
        """
        with _open_recording(recording) as file:
            ours, theirs = Channel.pair()
            our_files, their_files = socket.socketpair()
            errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()
            passed = (theirs.fileno(), their_files.fileno())
            with theirs, their_files:
                process = subprocess.Popen(
                    processes.make_module_command(
                        "dbcheck.lab.drive.process",
                        *(*map(str, passed), str(mountpoint)),
                        *(json.dumps(dataclasses.asdict(spec)), str(watchdog_s)),
                        *((recording.use, str(file)) if recording else ()),
                    ),
                    env=processes.make_environment(),
                    stdin=subprocess.DEVNULL,
                    stdout=errors,
                    stderr=errors,
                    pass_fds=[fd for fd in (*passed, file) if fd >= 0],
                    start_new_session=True,  # ^C is for the parent
                )
        drive = cls(process, ours, errors, our_files)
        try:
            # A replaying drive reads a recording of some gigabytes first.
            drive._open(mountpoint, RECORDING_TIMEOUT_S if recording else _START_S)
        except BaseException:
            drive.close()
            raise
        return drive

    def _open(self, mountpoint: Path, timeout_s: float) -> None:
        try:
            started = self._receive("start", timeout_s)
            try:
                decode_result_as(started, NoneType)
            except LabError as error:
                raise LabError(
                    f"no virtual drive on {mountpoint}: {error}",
                    id=ErrorId.VIRTUAL_DRIVE_NOT_POSSIBLE,
                    hint="The drive needs root, /dev/fuse and CAP_SYS_ADMIN.",
                ) from None
            self.descriptor = os.open(mountpoint, os.O_RDWR)
        finally:
            # Nothing is mounted there if the process failed before.
            with contextlib.suppress(OSError):
                syscalls.umount(str(mountpoint), syscalls.MNT_DETACH)

    @property
    def pid(self) -> int:
        """The drive's process."""
        return self._process.pid

    def call(self, method: Method[P, T], *args: P.args, **named: P.kwargs) -> T:
        """Call a method of the drive's DriveServer and return its result."""
        name = method.__name__
        with self._lock:
            try:
                self._control.send(encode_call(method, *args, **named))
            except OSError as error:
                raise self._gone(name) from error
            answer = self._receive(name, time_limit_s(method))
        try:
            return decode_result(method, answer)
        except LabError as error:
            refused = f"the virtual drive refused {name!r}: {error}"
            raise LabError(refused, id=ErrorId.VIRTUAL_DRIVE_REFUSED) from None
        except NotUnderstood:
            raise self._invalid_reply(name) from None

    def begin_copy(self, file: int) -> None:
        """Have the drive, which is held, copied into the open *file*; raise LabError.

        DriveServer.copy_is_complete() tells once that is done.
        """
        try:
            socket.send_fds(self._handed, [b"f"], [file])
        except OSError as error:
            raise self._gone("begin_copy") from error
        self.call(DriveServer.begin_copy)

    def close(self) -> None:
        """End the drive's process, gently or not; never raises, may be repeated.

        Whoever still uses the drive gets I/O errors.
        """
        if self.descriptor >= 0:
            # close() sends FLUSH to the FUSE process; it fails if that is dead.
            with contextlib.suppress(OSError):
                os.close(self.descriptor)
            self.descriptor = -1
        self._handed.close()
        # The process ends once its control socket is closed.
        self._control.close()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._errors.close()

    def __enter__(self) -> Self:
        """Return the drive itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the drive."""
        self.close()

    def _receive(self, command: str, timeout_s: float) -> bytes:
        try:
            return self._control.receive(timeout_s)
        except TimeoutError as error:
            # A late answer would be taken for that to the next command.
            self._process.kill()
            raise LabError(
                f"the virtual drive did not answer {command!r} within {timeout_s:g} s",
                id=ErrorId.VIRTUAL_DRIVE_GONE,
                hint=f"It was killed. {_HINT}",
            ) from error
        except NotAMessage:
            self._process.kill()
            raise self._invalid_reply(command) from None
        except (EOFError, OSError) as error:
            raise self._gone(command) from error

    def _invalid_reply(self, command: str) -> LabError:
        what = f"the virtual drive gave an invalid reply to {command!r}"
        return LabError(what, id=ErrorId.VIRTUAL_DRIVE_GONE, hint=_HINT)

    def _gone(self, command: str) -> LabError:
        """Return the error for how the process ended."""
        if self._errors.closed:
            return LabError(
                f"the virtual drive is closed: {command!r}",
                id=ErrorId.VIRTUAL_DRIVE_GONE,
                hint=_HINT,
            )
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)
        status = self._process.returncode
        if status is not None and status < 0:
            how = f"was killed by {signal.Signals(-status).name}"
        else:
            how = f"ended with status {status}"
        self._errors.seek(0)
        printed = self._errors.read().decode(errors="replace").strip().splitlines()
        why = f" ({printed[-1]})" if printed else ""
        return LabError(
            f"the virtual drive {how}{why} before it answered {command!r}",
            id=ErrorId.VIRTUAL_DRIVE_GONE,
            hint=_HINT,
        )


_READ_BYTES = 1 << 16
_ZEROS = bytes(_READ_BYTES)


def require_room(folder: Path, size_bytes: int) -> None:
    """Raise UsageError unless an image of a full drive fits into *folder*."""
    free = shutil.disk_usage(folder).free
    if free < size_bytes:
        raise UsageError(
            f"an image of the drive may need {size_bytes >> 20:,} MiB, and {folder} has"
            f" {free >> 20:,} MiB free",
            id=ErrorId.IMAGE_NEEDS_ROOM,
            hint="Make room there, name another folder with --runs, or leave out"
            " --keep-image.",
        )


def copy_drive(descriptor: int, size_bytes: int, image: Path) -> None:
    """Copy what a drive holds into the new file *image*, without its zeros.

    descriptor: of the drive, which is on and which nothing else uses.  Raise LabError,
    with no file left, if it cannot be written whole.
    """
    try:
        with open_private(image, "xb") as file:
            for offset in range(0, size_bytes, _READ_BYTES):
                content = os.pread(descriptor, _READ_BYTES, offset)
                if content != _ZEROS:
                    file.seek(offset)
                    file.write(content)
            file.truncate(size_bytes)
    except FileExistsError:
        raise LabError(
            f"{image} already exists",
            id=ErrorId.FILE_EXISTS,
            hint="Remove it, or name another folder with --runs.",
        ) from None
    except OSError as error:
        image.unlink(missing_ok=True)
        raise LabError(
            f"cannot write the drive's image {image}: {error.strerror}",
            id=ErrorId.FILE_NOT_WRITABLE,
            hint="Leave out --keep-image, or name another folder with --runs.",
        ) from error
