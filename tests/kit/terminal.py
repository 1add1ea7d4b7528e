"""A program at a terminal, and what a person types there."""

from __future__ import annotations

import errno
import fcntl
import os
import select
import struct
import subprocess
import termios
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.kit.waiting import wait_until

_ROWS, _COLUMNS = 50, 200  # so that no line is broken


class Terminal:
    """A terminal of its own for one program, which ends with it."""

    def __init__(
        self, *command: str, environment: Mapping[str, str], folder: Path
    ) -> None:
        self._ours, theirs = os.openpty()
        size = struct.pack("HHHH", _ROWS, _COLUMNS, 0, 0)
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, size)
        # These would count more than the terminal's own size.
        sizes = ("COLUMNS", "LINES")
        environment = {k: v for k, v in environment.items() if k not in sizes}
        try:
            self._program = subprocess.Popen(
                ("setsid", "--ctty", "--wait", *command),
                stdin=theirs,
                stdout=theirs,
                stderr=theirs,
                env=environment,
                cwd=folder,
            )
        finally:
            os.close(theirs)
        self._shown = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Hang up, as a terminal that is closed does."""
        os.close(self._ours)
        self._program.wait(60)

    def type(self, text: str) -> None:
        """Type *text*; a program that is busy gets it later."""
        os.write(self._ours, text.encode())

    def until(self, *texts: str) -> str:
        """Wait until the terminal shows all *texts*; return what it showed up to that.

        Begins behind what was waited for before.
        """

        def are_shown() -> bool:
            lives, shown = self._read(), self._shown
            missing = [text for text in texts if text.encode() not in shown]
            assert lives or not missing, (missing, shown.decode(errors="replace"))
            return not missing

        try:
            wait_until(are_shown, f"all of {texts} are shown")
        except AssertionError as error:
            shown = self._shown.decode(errors="replace")
            raise AssertionError(f"{error}; it showed: {shown}") from None
        end = max(self._shown.index(text.encode()) + len(text) for text in texts)
        before, self._shown = self._shown[:end], self._shown[end:]
        return before.decode(errors="replace")

    def _read(self) -> bool:
        """Read what is shown by now; return False once the program has ended."""
        while select.select([self._ours], [], [], 0)[0]:
            try:
                self._shown += os.read(self._ours, 65_536)
            except OSError as error:
                if error.errno != errno.EIO:  # that of a terminal with no program
                    raise
                return False
        return True
