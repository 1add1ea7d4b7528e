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
    serve,
    settle,
)

IDENTITY, MAY_RESET, RESET = range(1, 4)
SERIAL = "/sys/class/dmi/id/product_serial"  # only root may read it
SUDO_TIMEOUT_S = 10


class Agent(Answers):
    """Answers the messages of one channel."""

    def answer(self, verb: int, payload: bytes) -> object:
        """Do what *verb* says."""
        return obey(functools.partial(self._answer, verb), payload)

    def close(self) -> None:
        """Do nothing: nothing is left to end."""

    def _answer(self, verb: int, ask: Any) -> Any:
        if verb == IDENTITY:
            return {**host_names(), "serial": serial()}
        if verb == MAY_RESET:
            require_reset(ask["trigger"])
            return {}
        if verb == RESET:
            require_reset(ask["trigger"])
            reset(ask["trigger"])
            return {}
        raise Refusal("protocol", "no such verb: " + str(verb))


def require_reset(trigger: str) -> None:
    """Refuse unless this user may write to *trigger*, itself or by sudo -n."""
    if os.geteuid() == 0 and os.access(trigger, os.W_OK):
        return
    if os.geteuid() == 0:
        raise Refusal("trigger", trigger + " cannot be written")
    if _sudo("-l", "tee", trigger) is None:
        raise Refusal("sudo", "sudo -n lets this user run no tee " + trigger)


def reset(trigger: str) -> None:
    """Reboot at once, without a sync or an unmount (kernel: admin-guide/sysrq)."""
    if os.geteuid() == 0:
        fd = os.open(trigger, os.O_WRONLY)
        try:
            os.write(fd, b"b")
        finally:
            os.close(fd)
    elif _sudo("tee", trigger, text="b") is None:
        raise Refusal("sudo", "sudo -n tee " + trigger + " failed")


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
    settle()
    outlet = Outlet(1)
    serve(Agent(outlet), outlet, 0)


if __name__ == "__main__":
    main()
