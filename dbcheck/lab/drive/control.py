"""The parent's side of a drive process: start it, command it, end it."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import NoneType
from typing import IO, Any, Self, TypeVar

from dbcheck.base import children
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LabError
from dbcheck.base.local import Channel, NotAMessage
from dbcheck.lab import syscalls
from dbcheck.lab.drive.model import CutReport, DriveCounters
from dbcheck.lab.drive.recording import RecordingFile
from dbcheck.lab.reply import NotUnderstood, result_in
from dbcheck.lab.spec import DriveSpec
from dbcheck.model.cut import Part

WATCHDOG_S = 5.0
_START_S = 20.0
_ANSWER_S = 10.0
_RECORDING_S = 120.0  # to store one of some gigabytes, or to read it
_HINT = "Take the lab down and build it again."

T = TypeVar("T")


@contextlib.contextmanager
def _opened(recording: RecordingFile | None) -> Iterator[int]:
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
        spec: DriveSpec,
        process: subprocess.Popen[bytes],
        control: Channel,
        errors: IO[bytes],
    ) -> None:
        """Use start() instead."""
        self.spec = spec
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

        recording: where it records, or the recording that it replays: it then holds
        what that begins with.
        On return the drive is open and its mount is detached already: it lives as
        long as a process has it open, so no process has to unmount it.
        """
        with _opened(recording) as file:
            ours, theirs = Channel.pair()
            errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()
            with theirs:
                process = subprocess.Popen(
                    children.module(
                        "dbcheck.lab.drive.process",
                        *(str(theirs.fileno()), str(mountpoint)),
                        *(json.dumps(dataclasses.asdict(spec)), str(watchdog_s)),
                        *((recording.use, str(file)) if recording else ()),
                    ),
                    env=children.environment(),
                    stdin=subprocess.DEVNULL,
                    stdout=errors,
                    stderr=errors,
                    pass_fds=[fd for fd in (theirs.fileno(), file) if fd >= 0],
                    start_new_session=True,  # ^C is for the parent
                )
        drive = cls(spec, process, ours, errors)
        try:
            drive._open(mountpoint, _RECORDING_S if recording else _START_S)
        except BaseException:
            drive.close()
            raise
        return drive

    def _open(self, mountpoint: Path, timeout_s: float) -> None:
        try:
            started = self._receive("start", timeout_s)
            try:
                result_in(started, NoneType)
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

    def set_times(self, *, flush_ms: float, write_ms: float) -> None:
        """Change how long flushes and writes take from the next one on."""
        self._ask(NoneType, "set_times", flush_ms=flush_ms, write_ms=write_ms)

    def freeze(self) -> int:
        """Take the power away: from now on nothing is answered or becomes stable.

        Return when, in microseconds of CLOCK_MONOTONIC: what was answered before
        rests on answers given before.  A drive that is frozen for longer than
        watchdog_s fails by itself.
        """
        return self._ask(int, "freeze")

    def cut(
        self,
        survivors: str | None = None,
        seed: int | None = None,
        *,
        forget: tuple[int, int] | None = None,
    ) -> CutReport:
        """Lose the cache, except for the survivors; freeze the drive if it is on.

        survivors, seed: the spec's, unless given.  forget: the same, of the range that
        the drive forgets: where it begins and its length, in bytes.
        """
        spec = self.spec
        at, length = forget or (spec.forget_at_bytes, spec.forget_bytes)
        return self._ask(
            CutReport,
            "cut",
            survivors=spec.survivors if survivors is None else survivors,
            seed=spec.seed if seed is None else seed,
            forget_at_bytes=at,
            forget_bytes=length,
        )

    def fail(self) -> None:
        """Answer what is held, and all that follows, with an I/O error."""
        self._ask(NoneType, "fail")

    def power_on(self) -> None:
        """Answer requests again; any that were still held fail."""
        self._ask(NoneType, "power_on")

    def flush_all(self) -> None:
        """Make everything in the cache stable."""
        self._ask(NoneType, "flush_all")

    def count_flushes(self) -> None:
        """Let a failing drive honour its number of flushes from now on."""
        self._ask(NoneType, "count_flushes")

    def counters(self) -> DriveCounters:
        """Return what the drive was asked so far."""
        return self._ask(DriveCounters, "counters")

    def record(self) -> None:
        """Record from now on all that the drive is asked, until it is frozen."""
        self._ask(NoneType, "record")

    def save_recording(self) -> None:
        """Write the recording into its file; nothing else is answered meanwhile."""
        self._ask(NoneType, "save_recording", timeout_s=_RECORDING_S)

    def show(self, whole: int, parts: Sequence[Part]) -> None:
        """Hold a crash state of the recording, see Replay; the drive must be off."""
        self._ask(NoneType, "show", whole=whole, parts=parts)

    def close(self) -> None:
        """End the drive's process, gently or not; never raises, may be repeated.

        Whoever still uses the drive gets I/O errors.
        """
        if self.descriptor >= 0:
            # The kernel tells a file system that a file is closed; a dead one fails.
            with contextlib.suppress(OSError):
                os.close(self.descriptor)
            self.descriptor = -1
        # At the end of its control socket the process leaves.
        self._control.close()
        try:
            self._process.wait(_ANSWER_S)
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

    # -------------------------------------------------------------- messages

    def _ask(
        self,
        kind: type[T],
        command: str,
        *,
        timeout_s: float = _ANSWER_S,
        **values: Any,
    ) -> T:
        with self._lock:
            try:
                self._control.send(json.dumps({"command": command, **values}).encode())
            except OSError as error:
                raise self._gone(command) from error
            answer = self._receive(command, timeout_s)
        try:
            return result_in(answer, kind)
        except LabError as error:
            refused = f"the virtual drive refused {command!r}: {error}"
            raise LabError(refused, id=ErrorId.VIRTUAL_DRIVE_REFUSED) from None
        except NotUnderstood:
            raise self._invalid_reply(command) from None

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
