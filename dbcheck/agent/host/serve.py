"""The agent on the target's host: its identity and facts, the server's log, canaries.

The agent ends with the channel, and does nothing until it is asked.  Before the user
agrees to a cut only IDENTITY is asked, and it only reads.

The agent also keeps the file that resets this host open (Trigger), through sudo if it
does not run as root.
"""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import time
from collections.abc import Callable
from typing import Any

from dbcheck.agent.host.canary import Canaries, read_survivors
from dbcheck.agent.host.data import find_data
from dbcheck.agent.host.devices import Devices
from dbcheck.agent.host.drives import await_drives, survey
from dbcheck.agent.host.facts import collect_facts, read_mounts_and_caches
from dbcheck.agent.host.folder import clear_canaries, remove
from dbcheck.agent.host.journal import find_shutdown_record
from dbcheck.agent.host.log import find_log, mark_log, read_since
from dbcheck.agent.host.remount import (
    end_server,
    is_still_held,
    put_back,
    read_note,
    remove_note,
    run_program,
    take_off,
    write_note,
)
from dbcheck.agent.host.timing import count_flush_requests, run_fio, time_writes
from dbcheck.agent.host.tools import read_everything
from dbcheck.agent.host.volumes import VolumeCanaries, read_volume
from dbcheck.agent.wire import (
    Refusal,
    ReplyStream,
    RequestHandler,
    call,
    prepare_process,
    read_first_line,
    read_host_names,
    require_linux,
    serve,
)

SUDO_TIMEOUT_S = 10


def run_as_root(*command: str) -> str | None:
    """Run a command as root by sudo; return its output, None if sudo refuses."""
    if shutil.which("sudo") is None:
        return None
    try:
        done = subprocess.run(
            ("sudo", "-n", *command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            timeout=SUDO_TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


class Trigger:
    """The file that resets the host.

    It is held open, because a loaded host starts programs late.
    """

    def __init__(self, path: str) -> None:
        """Open *path*, as root or by sudo -n; refuse what this user may not do."""
        self._path = path
        self._tee: Any = None
        self._fd = -1
        if os.geteuid() == 0:
            try:
                self._fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
            except OSError as error:
                why = error.strerror or str(error)
                raise Refusal("trigger", f"cannot write to {path}: {why}") from None
            return
        if run_as_root("-l", "tee", path) is None:
            raise Refusal("sudo", f"sudo -n does not allow this user to run tee {path}")
        self._tee = subprocess.Popen(
            ("sudo", "-n", "tee", path),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def pull(self) -> None:
        """Reboot at once, without a sync or an unmount (kernel: admin-guide/sysrq)."""
        if self._tee is None:
            os.write(self._fd, b"b")
            return
        try:
            self._tee.communicate(b"b", timeout=SUDO_TIMEOUT_S)
        except (OSError, subprocess.TimeoutExpired):
            self._tee.kill()
        if self._tee.wait():
            raise Refusal("sudo", f"sudo -n tee {self._path} failed")

    def close(self) -> None:
        """Let go of the file without a reset."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        if self._tee is not None and self._tee.poll() is None:
            self._tee.stdin.close()
            try:
                self._tee.wait(SUDO_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._tee.kill()
                self._tee.wait()


SERIAL = "/sys/class/dmi/id/product_serial"  # only root may read it
# REMOVE_CANARIES deletes one folder, which must be a folder of canaries; CLEAR_CANARIES
# deletes the folders of earlier runs beside and inside a data directory.
(
    FACTS,
    MARK_LOG,
    READ_LOG,
    START_CANARIES,
    STOP_CANARIES,
    READ_CANARIES,
    REMOVE_CANARIES,
    SHUTDOWN,
    FIND_DATA,
    CLEAR_CANARIES,
) = range(1, 11)
(
    IDENTITY,
    ARM,
    RESET,
    READ_TOOLS,
    READ_COUNTERS,
    COUNT_FLUSH_REQUESTS,
    TIME_WRITES,
    FILEIO,
) = range(11, 19)
SURVEY, AWAIT_DRIVES, END_SERVER, TAKE_OFF, PUT_BACK, START_SERVER = range(19, 25)
WRITE_NOTE, READ_NOTE, REMOVE_NOTE, STILL_HELD, MOUNTS_AND_CACHES = range(25, 30)
FIND_LOG, START_VOLUMES, COUNT_VOLUMES, STOP_VOLUMES, READ_VOLUME = range(30, 35)
COMPLETED = 111  # the kind of reply that reports progress, see report_layout()


def read_identity() -> dict[str, Any]:
    """Read this host's names and serial; a value that cannot be read is empty."""
    return {**read_host_names(), "serial": read_serial()}


def read_serial() -> str:
    """Return the machine's serial number, "" if there is none or it is hidden."""
    if os.geteuid() == 0 or not os.path.exists(SERIAL):
        return read_first_line(SERIAL)
    return (run_as_root("cat", SERIAL) or "").strip()


def report_layout(rings: int) -> struct.Struct:
    """Return the binary layout of a report about this number of rings.

    Its fields: the host's monotonic clock in microseconds when the numbers were read;
    the number of the last completed record; the number of the last block of each ring.
    """
    return struct.Struct(f"<{2 + rings}Q")


class Agent(RequestHandler):
    """Answers the messages of one channel.

    It runs one pair of canaries at most, and holds one trigger of a reset.
    """

    _volumes: VolumeCanaries | None = None

    def __init__(self, replies: ReplyStream) -> None:
        """Answer through *replies*."""
        super().__init__(replies)
        self._canaries: Canaries | None = None
        self._trigger: Trigger | None = None
        self._counters: tuple[list[str], Devices] | None = None
        self._verbs: dict[int, Callable[[Any], object]] = {
            FACTS: lambda request: collect_facts(request["places"], request["process"]),
            MARK_LOG: lambda request: mark_log(request["path"]),
            FIND_LOG: lambda request: find_log(request["path"], request["process"]),
            READ_LOG: lambda request: read_since(
                request["path"], request["marks"], request["limit"]
            ),
            START_CANARIES: self._start,
            STOP_CANARIES: self._stop,
            READ_CANARIES: lambda request: read_survivors(request["folder"]),
            SHUTDOWN: lambda request: find_shutdown_record(
                request["boot_id"], request["since_us"]
            ),
            REMOVE_CANARIES: self._remove,
            CLEAR_CANARIES: lambda request: clear_canaries(request["path"]),
            FIND_DATA: lambda request: find_data(request["path"]),
            IDENTITY: lambda _: read_identity(),
            ARM: self._arm,
            RESET: self._reset,
            READ_TOOLS: lambda request: read_everything(
                request["devices"], request["datasets"]
            ),
            READ_COUNTERS: self._count,
            TIME_WRITES: time_writes,
            FILEIO: run_fio,
            COUNT_FLUSH_REQUESTS: lambda request: count_flush_requests(
                request["folder"], request["devices"], request["writes"]
            ),
            SURVEY: lambda request: survey(**request),
            AWAIT_DRIVES: lambda request: await_drives(**request),
            END_SERVER: lambda request: end_server(**request),
            TAKE_OFF: lambda request: take_off(request["mounts"], request["time_s"]),
            PUT_BACK: lambda request: put_back(request["mounts"], request["time_s"]),
            START_SERVER: lambda request: run_program(
                request["command"], request["time_s"]
            ),
            STILL_HELD: lambda request: [
                is_still_held(mount) for mount in request["mounts"]
            ],
            WRITE_NOTE: lambda request: write_note(**request),
            READ_NOTE: lambda request: read_note(**request),
            REMOVE_NOTE: lambda request: remove_note(**request),
            MOUNTS_AND_CACHES: lambda request: read_mounts_and_caches(**request),
            **self._make_volume_verbs(),
        }

    def _make_volume_verbs(self) -> dict[int, Callable[[Any], object]]:
        """Return the verbs about several volumes."""
        return {
            START_VOLUMES: self._start_volumes,
            COUNT_VOLUMES: lambda _: self._require_volumes().count(),
            STOP_VOLUMES: lambda _: self._stop_volumes(),
            READ_VOLUME: read_volume,
        }

    def answer(self, verb: int, payload: bytes) -> object:
        """Carry out *verb*; return its result."""
        if verb not in self._verbs:
            raise Refusal("protocol", f"no such verb: {verb}")
        return call(self._verbs[verb], payload)

    def close(self) -> None:
        """End all that runs here; let go of the trigger without a reset.

        The files of canaries stay, but those on several volumes.
        """
        if self._canaries is not None:
            self._canaries.stop()
            self._canaries = None
        self._stop_volumes()
        self._let_go()
        self._close_counters()

    def _start_volumes(self, request: Any) -> dict[str, Any]:
        if self._volumes is not None:
            raise Refusal("in-use", "canaries are running on this channel already")
        self._volumes = VolumeCanaries(request)
        return {}

    def _require_volumes(self) -> VolumeCanaries:
        if self._volumes is None:
            raise Refusal("protocol", "no canaries of volumes run on this channel")
        return self._volumes

    def _stop_volumes(self) -> dict[str, Any]:
        ended, self._volumes = self._volumes, None
        if ended is not None:
            ended.stop()
        return {}

    def _start(self, request: Any) -> dict[str, Any]:
        if self._canaries is not None:
            raise Refusal("in-use", "canaries are running on this channel already")
        self._canaries = Canaries(request, self._report_progress)
        return {"folder": self._canaries.folder}

    def _stop(self, _: Any) -> dict[str, Any]:
        if self._canaries is None:
            raise Refusal("protocol", "no canaries are running on this channel")
        ended, self._canaries = self._canaries, None
        ended.stop()
        return {
            "buffered": ended.buffered,
            "direct": ended.direct,
            "stopped": ended.stopped,
        }

    def _arm(self, request: Any) -> dict[str, Any]:
        self._let_go()
        self._trigger = Trigger(request["trigger"])
        return {}

    def _reset(self, _: Any) -> dict[str, Any]:
        if self._trigger is None:
            raise Refusal("protocol", "no trigger is held on this channel")
        self._trigger.pull()
        return {}

    def _let_go(self) -> None:
        if self._trigger is not None:
            self._trigger.close()
            self._trigger = None

    def _count(self, request: Any) -> dict[str, Any]:
        names = request["devices"]
        if self._counters is None or self._counters[0] != names:
            self._close_counters()
            self._counters = names, Devices(names)
        return self._counters[1].read()

    def _close_counters(self) -> None:
        if self._counters is not None:
            self._counters[1].close()
            self._counters = None

    def _remove(self, request: Any) -> None:
        remove(request["folder"])

    def _report_progress(self, buffered: int, direct: list[int]) -> None:
        now_us = time.monotonic_ns() // 1000
        report = report_layout(len(direct)).pack(now_us, buffered, *direct)
        self._replies.offer(COMPLETED, report)


def main() -> None:
    """Serve standard input and output."""
    require_linux()
    prepare_process()
    replies = ReplyStream(1)
    serve(Agent(replies), replies, 0)


if __name__ == "__main__":
    main()
