"""Where a secret is to be had, so that nothing that is stored or shown holds it."""

from __future__ import annotations

import os
import stat
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from dbcheck import children
from dbcheck.errors import UsageError

Kind = Literal["env", "file", "command"]
_NAMES = {"env": "variable", "file": "file", "command": "command"}
_COMMAND_TIMEOUT_S = 60


@dataclass(frozen=True, slots=True)
class Secret:
    """The first line of what *source* holds; read anew whenever it is needed.

    what:   names it in errors, e.g. "password".
    kind:   where it is.
    source: an environment variable, a file's path, or a command and its words.
    """

    what: str
    kind: Kind
    source: tuple[str, ...]

    def read(self) -> str:
        """Return the secret; raise UsageError, which never holds any of it."""
        read = {"env": self._variable, "file": self._file, "command": self._command}
        text = read[self.kind]()
        if not text:
            said = "printed nothing" if self.kind == "command" else "is empty"
            raise UsageError(
                f"the {self.what} {_NAMES[self.kind]} {self._shown} {said}",
                hint="Its first line must be the secret.",
            )
        return text

    @property
    def _shown(self) -> str:
        return self.source[0]

    def _variable(self) -> str:
        try:
            return os.environ[self._shown]
        except KeyError:
            raise UsageError(
                f"the {self.what} is to be in {self._shown}, which is not set",
                hint=f"Set the environment variable {self._shown}.",
            ) from None

    def _file(self) -> str:
        path = Path(self._shown).expanduser()
        try:
            with path.open("rb") as file:
                mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
                if mode & 0o077:
                    raise UsageError(
                        f"{path} holds the {self.what} and has the mode {mode:o}",
                        hint=f"Run: chmod 600 {path}",
                    )
                return self._first_line(file.read())
        except OSError as error:
            raise UsageError(
                f"cannot read the {self.what} from {path}: {error.strerror}"
            ) from None

    def _command(self) -> str:
        try:
            done = subprocess.run(
                self.source,
                env=children.environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                timeout=_COMMAND_TIMEOUT_S,
                check=True,
            )
        except subprocess.CalledProcessError as error:
            raise UsageError(
                f"the {self.what} command exited with {error.returncode}",
                hint="Run it by hand; it must print the secret as its first line.",
            ) from None
        except subprocess.TimeoutExpired:
            raise UsageError(
                f"the {self.what} command took longer than {_COMMAND_TIMEOUT_S} s"
            ) from None
        except OSError as error:
            raise UsageError(
                f"the {self.what} command cannot be run: {self._shown}:"
                f" {error.strerror}"
            ) from None
        return self._first_line(done.stdout)

    def _first_line(self, content: bytes) -> str:
        try:
            return content.decode().partition("\n")[0].removesuffix("\r")
        except UnicodeDecodeError:
            raise UsageError(
                f"the {self.what} {_NAMES[self.kind]} {self._shown} holds no UTF-8"
            ) from None
