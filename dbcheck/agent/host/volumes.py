"""Canaries that show whether copies of several volumes are of one moment.

One increasing number is written to a file in each of several folders in turn: 1 to the
first, 2 to the second, and so on.  Each write is flushed (fdatasync(2)) before the next
one begins.  So at each moment the numbers over all folders are 1, 2, ... without a gap.

A file has records of 64 bytes (canary.make_record), and is removed at the end.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from typing import Any

from dbcheck.agent.host.canary import make_record, parse_number
from dbcheck.agent.host.open import name_path_in_errors, open_regular
from dbcheck.agent.wire import Refusal, describe_error, write_all

VOLUME_FILE = "dbcheck-volume-{}-{}"  # the nonce in hex, the folder's place from 0
VOLUME_RECORD_BYTES = 64
VOLUME_FILE_BYTES_MAX = 1 << 26
VOLUME_RUNS_MAX = 1000
VOLUME_END_S = 1.0
CREATE_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


class VolumeCanaries:
    """A thread that writes until stop(), an error, or the end of this process."""

    def __init__(self, request: Any) -> None:
        """Make the files durably, and start.

        request: folders, nonce (hex), per_s (the most numbers per second).
        Raise OSError or Refusal, with no file left, if a folder cannot be written in.
        """
        self._nonce = bytes.fromhex(request["nonce"])
        self._interval_s = 1 / request["per_s"]
        self._begun = self._completed = 0
        self._stopped = ""
        self._longest_s = 0.0
        self._since_s = time.monotonic()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        require_apart(request["folders"])
        self._files = []  # type: list[int]
        self._paths = []  # type: list[str]
        try:
            for place, folder in enumerate(request["folders"]):
                self._make(folder, VOLUME_FILE.format(request["nonce"], place))
            if not self._files:
                raise Refusal("protocol", "no folder to write in")
        except BaseException:
            self._remove()
            raise
        self._thread = threading.Thread(target=self._guard, daemon=True)
        self._thread.start()

    def count(self) -> dict[str, Any]:
        """Return the numbers begun and completed, and the longest step since count().

        longest_s: a step is from one number's completion to the next one's.
        stopped: why no more are written, "" if they are.
        """
        with self._lock:
            longest_s = max(self._longest_s, time.monotonic() - self._since_s)
            self._longest_s = 0.0
            return {
                "begun": self._begun,
                "completed": self._completed,
                "longest_s": longest_s,
                "stopped": self._stopped,
            }

    def stop(self) -> None:
        """End the thread and remove the files; one that hangs is left behind."""
        self._stop.set()
        self._thread.join(VOLUME_END_S)
        if not self._thread.is_alive():
            self._remove()

    def _make(self, folder: str, name: str) -> None:
        path = os.path.join(folder, name)
        with name_path_in_errors(path):
            self._files.append(os.open(path, CREATE_FLAGS | os.O_NOFOLLOW, 0o600))
            self._paths.append(path)
            os.fsync(self._files[-1])
            above = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(above)
            finally:
                os.close(above)

    def _remove(self) -> None:
        for file in self._files:
            os.close(file)
        self._files = []
        for path in self._paths:
            with contextlib.suppress(OSError):  # its volume is gone
                os.unlink(path)
        self._paths = []

    def _guard(self) -> None:
        try:
            self._write()
        except OSError as error:
            self._stopped = describe_error(error, "this host")

    def _write(self) -> None:
        room = VOLUME_FILE_BYTES_MAX // VOLUME_RECORD_BYTES * len(self._files)
        due_s = time.monotonic()
        for number in range(1, room + 1):
            if self._stop.is_set():
                return
            record = make_record(self._nonce, number, VOLUME_RECORD_BYTES)
            file = self._files[(number - 1) % len(self._files)]
            with self._lock:
                self._begun = number
            write_all(file, record)
            os.fdatasync(file)
            now_s = time.monotonic()
            with self._lock:
                self._completed = number
                self._longest_s = max(self._longest_s, now_s - self._since_s)
                self._since_s = now_s
            due_s = max(due_s + self._interval_s, now_s)
            self._stop.wait(due_s - now_s)
        self._stopped = "the files are as large as they may become"


def require_apart(folders: list[str]) -> None:
    """Refuse two folders on one filesystem: they are always of one moment."""
    by_device = {}  # type: dict[int, str]
    for folder in folders:
        device = os.stat(folder).st_dev
        if device in by_device:
            text = f"{folder} is on the filesystem of {by_device[device]}"
            raise Refusal("volumes", text)
        by_device[device] = folder


def read_volume(request: Any) -> list[list[int]]:
    """Return the numbers in a copy of one folder, as runs: first and last of each.

    request: folder, place, places (how many folders there are), nonce.  Within a run
    one number follows the other by *places*.  [] if the folder has no such file.
    Raise OSError without the folder, Refusal for a file with more than is written.
    """
    nonce, places = bytes.fromhex(request["nonce"]), request["places"]
    name = VOLUME_FILE.format(request["nonce"], request["place"])
    os.stat(os.path.join(request["folder"], "."))
    runs = []  # type: list[list[int]]
    try:
        file = os.fdopen(open_regular(os.path.join(request["folder"], name)), "rb")
    except FileNotFoundError:
        return runs
    with file:
        for _ in range(VOLUME_FILE_BYTES_MAX // VOLUME_RECORD_BYTES):
            record = file.read(VOLUME_RECORD_BYTES)
            if len(record) < VOLUME_RECORD_BYTES:
                break
            number = parse_number(record, nonce)
            if not number:
                continue  # torn, or zeros: its number is missing
            if runs and number == runs[-1][1] + places:
                runs[-1][1] = number
            else:
                runs.append([number, number])
            if len(runs) > VOLUME_RUNS_MAX:
                raise Refusal("strangers", f"{name} has what no canary writes")
    return runs
