"""The file that resets this host, kept open until it is wanted; sudo, if not root."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import Any

from dbcheck.agent.wire import Refusal

SUDO_TIMEOUT_S = 10


def as_root(*command: str) -> str | None:
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
                why = error.strerror or str(error)
                raise Refusal("trigger", f"cannot write to {path}: {why}") from None
            return
        if as_root("-l", "tee", path) is None:
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
