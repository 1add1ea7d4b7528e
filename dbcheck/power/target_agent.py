"""The target host's side: who it is, and the end of its kernel.

This file is sent over the channel, after remote/wire.py, and run there; nothing is
installed and it ends with the channel.  As wire.py, it needs Linux and the standard
library of Python 3.8, no more.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from typing import Any

from dbcheck.remote.wire import (
    Answers,
    Outlet,
    Refusal,
    first_line,
    host_names,
    obey,
    require_linux,
    serve,
    settle,
)

IDENTITY, ARM, RESET = range(1, 4)
SERIAL = "/sys/class/dmi/id/product_serial"  # only root may read it
SUDO_TIMEOUT_S = 10


class Agent(Answers):
    """Answers the messages of one channel."""

    def __init__(self, outlet: Outlet) -> None:
        """Hold no trigger yet."""
        super().__init__(outlet)
        self._trigger: Trigger | None = None

    def answer(self, verb: int, payload: bytes) -> object:
        """Do what *verb* says."""
        return obey(functools.partial(self._answer, verb), payload)

    def close(self) -> None:
        """Let go of the trigger, unpulled."""
        if self._trigger is not None:
            self._trigger.close()

    def _answer(self, verb: int, ask: Any) -> Any:
        if verb == IDENTITY:
            return {**host_names(), "serial": serial()}
        if verb == ARM:
            self.close()
            self._trigger = Trigger(ask["trigger"])
            return {}
        if verb == RESET and self._trigger is not None:
            self._trigger.pull()
            return {}
        raise Refusal("protocol", "no such verb: " + str(verb))


class Trigger:
    """The file that resets the host, held open: a loaded host starts programs late."""

    def __init__(self, path: str) -> None:
        """Open *path*, as root or by sudo -n; refuse what this user may not do."""
        self._path = path
        self._tee: Any = None
        self._fd = -1
        if os.geteuid() == 0:
            try:
                self._fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
            except OSError as error:
                said = error.strerror or str(error)
                raise Refusal("trigger", f"{path} cannot be written: {said}") from None
            return
        if _sudo("-l", "tee", path) is None:
            raise Refusal("sudo", f"sudo -n does not let this user run tee {path}")
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
        """Let go of it."""
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


def serial() -> str:
    """Return the machine's serial number, "" if there is none or it is hidden."""
    if os.geteuid() == 0 or not os.path.exists(SERIAL):
        return first_line(SERIAL)
    return (_sudo("cat", SERIAL) or "").strip()


def _sudo(*words: str, text: str = "") -> str | None:
    """Return what a command prints as root, None if that is not allowed."""
    if shutil.which("sudo") is None:
        return None
    try:
        done = subprocess.run(
            ("sudo", "-n", *words),
            input=text,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            timeout=SUDO_TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def main() -> None:
    """Serve standard input and output."""
    require_linux()
    settle()
    outlet = Outlet(1)
    serve(Agent(outlet), outlet, 0)


if __name__ == "__main__":
    main()
