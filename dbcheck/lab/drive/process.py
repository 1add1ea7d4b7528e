"""Serve one virtual drive: python -m dbcheck.lab.drive.process.

A process of its own, since it must answer the kernel whatever its parent
does, and must die without leaving anything.  control.DriveProcess starts it and sends
it calls over a processes.Channel (lab.calls).

A copy of a drive is what a child of this process has in its memory: fork(2) makes that
at one moment, and the drive goes on at once.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LabError
from dbcheck.base.processes import Channel
from dbcheck.lab import syscalls
from dbcheck.lab.calls import Callee, encode_failure, encode_success, remote
from dbcheck.lab.drive.copier import DriveCopier
from dbcheck.lab.drive.fuse import FuseDrive, mount_drive
from dbcheck.lab.drive.model import CutReport, Drive, DriveCounters, DriveState
from dbcheck.lab.drive.recording import Recording
from dbcheck.lab.drive.replay import Replay
from dbcheck.lab.spec import DriveSpec
from dbcheck.model.cut import Part

RECORDING_TIMEOUT_S = 120.0  # to write or read a recording of some gigabytes
_ANSWER_S = 10.0
_WORDS_MAX = 500  # of an error


def _leave_mounts() -> None:
    """Move to a mount namespace of one's own, with nothing mounted in it.

    Otherwise this process may be the last of its namespace to die, and unmount, on
    its way out, the filesystem on this very drive: that writes to the drive and
    waits for an answer, and /dev/fuse is closed only after the wait.
    """
    syscalls.unshare(syscalls.CLONE_NEWNS)
    syscalls.mount("none", "/", None, syscalls.MS_REC | syscalls.MS_PRIVATE)
    os.chdir("/")
    syscalls.umount("/", syscalls.MNT_DETACH)


def _prepare_process() -> None:
    """Make this process die with its parent, and answer in time."""
    syscalls.prctl(syscalls.PR_SET_PDEATHSIG, signal.SIGKILL)
    syscalls.prctl(syscalls.PR_SET_TIMERSLACK, 1)
    # So that memory is never got by writing to the drive that needs it; asks for
    # CAP_SYS_RESOURCE, which not every root has.
    with contextlib.suppress(OSError):
        syscalls.prctl(syscalls.PR_SET_IO_FLUSHER, 1)
    gc.disable()  # nothing here makes cycles


class DriveServer:
    """The loop between the kernel's requests and the parent's calls.

    An invalid call is answered with an error, and changes nothing.

    watchdog_s: a drive that stays frozen for so long fails by itself, for as long as
    it is frozen a sync anywhere on the machine hangs.
    file: an open file for what the drive records, -1 if it is not to record.
    handed: over which the parent hands the open file that a copy is to be written to.
    replay: what shows a recording's crash states on *drive*, None without a recording.
    """

    def __init__(
        self,
        control: Channel,
        descriptor: int,
        drive: Drive,
        watchdog_s: float,
        file: int = -1,
        replay: Replay | None = None,
        handed: socket.socket | None = None,
    ) -> None:
        """Serve *drive* on *descriptor*, and calls on *control*."""
        self._copier = DriveCopier(drive, (descriptor, control.fileno()), handed)
        self._held_until_s: float | None = None
        self._control = control
        self._descriptor = descriptor
        self._drive = drive
        self._front = FuseDrive(descriptor, drive)
        self._watchdog_s = watchdog_s
        self._frozen_at = 0.0
        self._file, self._replay = file, replay
        self._callee = Callee(DriveServer, self)

    def run(self) -> None:
        """Serve until the parent is gone, or the drive is unmounted."""
        control = self._control.fileno()
        while True:
            held = self._is_held()
            sources = (control,) if held else (self._descriptor, control)
            ready, _, _ = select.select(sources, (), (), self._wait_s())
            if not held:
                self._front.complete()
            if self._descriptor in ready and not self._front.serve():
                return
            if control in ready and not self._answer_call():
                return

    def _is_held(self) -> bool:
        """Return True while hold() holds the requests, which never lasts long."""
        until_s = self._held_until_s
        if until_s is not None and time.monotonic() >= until_s:
            self._held_until_s = None
        return self._held_until_s is not None

    def _wait_s(self) -> float | None:
        """Return the seconds until the next work; fail a drive frozen for too long."""
        if self._held_until_s is not None:
            return max(0.0, self._held_until_s - time.monotonic())
        if self._drive.state is not DriveState.FROZEN:
            return self._front.due_s()
        left_s = self._frozen_at + self._watchdog_s - time.monotonic()
        if left_s > 0:
            return left_s
        self._front.fail()
        return None

    def _answer_call(self) -> bool:
        """Answer one call; return False if none will come any more."""
        try:
            message = self._control.receive()
        except EOFError:
            return False
        try:
            _, called = self._callee.call_in(message)
            answer = encode_success(called())
        except Exception as error:  # a drive that ended would take the lab with it
            answer = _encode_failure(f"{type(error).__name__}: {error}")
        self._control.send(answer)
        return True

    @remote(_ANSWER_S)
    def set(self, changes: dict[str, Any]) -> None:
        """Change settings from the next request, cut or power-on on."""
        spec = self._drive.spec = self._drive.spec.changed(changes)
        self._front.set_times(spec.flush_ms, spec.write_ms)

    @remote(_ANSWER_S)
    def freeze(self) -> int:
        """Take the power away: from now on nothing is answered or becomes stable.

        Return when, in microseconds of CLOCK_MONOTONIC: what was answered before
        rests on answers given before.  A drive that is frozen for longer than
        watchdog_s fails by itself.
        """
        self._held_until_s = None
        self._frozen_at = time.monotonic()
        return self._front.freeze()

    @remote(_ANSWER_S)
    def cut(self) -> CutReport:
        """Lose the cache, except for the kept writes; freeze the drive if it is on."""
        if self._drive.state is DriveState.ON:
            self.freeze()
        spec = self._drive.spec
        return self._front.cut(spec.kept_writes, spec.seed)

    @remote(_ANSWER_S)
    def hold(self) -> None:
        """Take and complete no request until go_on(), or for watchdog_s at most.

        Nothing is lost or fails by that: whoever uses the drive only waits.
        """
        if self._drive.state is not DriveState.ON:
            raise ValueError("the drive has no power")
        self._held_until_s = time.monotonic() + self._watchdog_s

    @remote(_ANSWER_S)
    def begin_copy(self) -> None:
        """Begin to write what a held drive holds now into the file handed last.

        That is all that was written to it, flushed or not.
        """
        with self._copier.handed_file() as file:
            if not self._is_held():
                raise ValueError("the drive is not held any more")
            self._copier.begin(file)

    @remote(_ANSWER_S)
    def go_on(self) -> None:
        """Take requests again; raise ValueError if the drive did so by itself."""
        held, self._held_until_s = self._is_held(), None
        if not held:
            raise ValueError("the drive was not held until now")

    @remote(_ANSWER_S)
    def copy_is_complete(self) -> bool:
        """Return whether the copy that was begun last is written."""
        return self._copier.is_complete()

    @remote(_ANSWER_S)
    def give_copy_up(self) -> None:
        """Write no copy any more."""
        self._copier.give_up()

    @remote(_ANSWER_S)
    def fail(self) -> None:
        """Answer what is held, and all that follows, with an I/O error."""
        self._front.fail()

    @remote(_ANSWER_S)
    def power_on(self) -> None:
        """Answer requests again; any that were still held fail."""
        self._front.power_on()

    @remote(_ANSWER_S)
    def flush_all(self) -> None:
        """Make everything in the cache stable."""
        self._drive.flush_all()

    @remote(_ANSWER_S)
    def count_flushes(self) -> None:
        """Let a failing drive honour its number of flushes from now on."""
        self._drive.count_flushes()

    @remote(_ANSWER_S)
    def counters(self) -> DriveCounters:
        """Return the counts of the drive's requests so far."""
        return self._drive.counters(time.monotonic())

    @remote(_ANSWER_S)
    def record(self) -> None:
        """Record from now on all that the drive is asked, until it is frozen."""
        if self._file < 0:
            raise ValueError("this drive has no file for a recording")
        if self._replay is not None:
            raise ValueError("this drive replays a recording")
        self._drive.record(time.monotonic())

    @remote(RECORDING_TIMEOUT_S)
    def save_recording(self) -> None:
        """Write the recording into its file; nothing else is answered meanwhile."""
        recorder = self._drive.recorder
        if recorder is None:
            raise ValueError("nothing was recorded")
        with open(self._file, "wb", closefd=False) as file:
            recorder.save(file)

    @remote(_ANSWER_S)
    def show(self, whole: int, parts: list[Part]) -> None:
        """Hold a crash state of the recording, see Replay; the drive must be off."""
        if self._replay is None:
            raise ValueError("this drive does not replay a recording")
        if self._drive.state is DriveState.ON:
            raise ValueError("the drive is in use")
        self._replay.show(whole, parts)

    @remote(_ANSWER_S)
    def spec(self) -> DriveSpec:
        """Return the settings that the drive has now."""
        return self._drive.spec


def _encode_failure(text: str) -> bytes:
    return encode_failure(LabError(text[:_WORDS_MAX], id=ErrorId.VIRTUAL_DRIVE_REFUSED))


def main(arguments: list[str]) -> int:
    """Serve the drive of a JSON spec.

    arguments: control descriptor, that over which files are handed, path, spec,
    watchdog_s; then "record" or "replay" and the descriptor of that file, if there is
    one.
    """
    control_descriptor, handed_descriptor, path, spec, watchdog_s, *recording = (
        arguments
    )
    use, file = (recording[0], int(recording[1])) if recording else ("", -1)
    with (
        Channel.inherited(int(control_descriptor)) as control,
        socket.socket(fileno=int(handed_descriptor)) as handed,
    ):
        try:
            _prepare_process()
            descriptor = os.open("/dev/fuse", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
            mount_drive(descriptor, path)
            replay = _open_replay(file) if use == "replay" else None
            _leave_mounts()
            drive = replay.drive if replay else Drive(DriveSpec(**json.loads(spec)))
        except (OSError, LabError) as error:
            control.send(_encode_failure(str(error)))
            return 1
        control.send(encode_success(None))
        limit_s = float(watchdog_s)
        DriveServer(control, descriptor, drive, limit_s, file, replay, handed).run()
    return 0


def _open_replay(file: int) -> Replay:
    return Replay(Recording(Path(os.readlink(f"/proc/self/fd/{file}"))))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
