"""Sources of secrets, so that nothing that is stored or shown holds one."""

from __future__ import annotations

import os
import re
import shlex
import stat
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from dbcheck.base import plain, processes
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.base.owners import expanded, has_acl, is_group_of, is_ours, own_users

Kind = Literal["env", "file", "command"]
# An option of a URL that holds a secret.  libpq and MySQL's driver have several names
# for it.
SECRET_OPTION = re.compile(r"pass(?!file)|pw|secret|scram_\w+_key", re.IGNORECASE)
# A password option behind a character that begins no option in a URL: ";" or "#".
MISPLACED = re.compile(r"\b(pass|passw(or)?d|pwd?)\s*=", re.IGNORECASE)
_NAMES = {"env": "variable", "file": "file", "command": "command"}
_COMMAND_TIMEOUT_S = 60


@dataclass(frozen=True, slots=True)
class Secret:
    """The first line of what *source* holds; read anew whenever it is needed.

    what:   names it in errors, e.g. "password".
    kind:   where it is.
    source: an environment variable, a file's path, or a command and its arguments.
    """

    what: str
    kind: Kind
    source: tuple[str, ...]

    def read(self) -> str:
        """Return the secret; raise UsageError, which never holds any of it."""
        read = {"env": self._variable, "file": self._file, "command": self._command}
        text = read[self.kind]()
        if not text:
            reason = "printed nothing" if self.kind == "command" else "is empty"
            raise UsageError(
                f"the {self.what} {_NAMES[self.kind]} {self._shown} {reason}",
                id=ErrorId.SECRET_INVALID,
                hint="Its first line must be the secret.",
            )
        return text

    @property
    def where(self) -> str:
        """Its source, for messages, e.g. "from the variable PDU"."""
        return f"from the {_NAMES[self.kind]} {shlex.join(self.source)}"

    @property
    def _shown(self) -> str:
        return self.source[0]

    def _variable(self) -> str:
        found = read_variable(self._shown, self.what)
        if found is None:
            raise UsageError(
                f"environment variable {self._shown} (the {self.what}) is not set",
                id=ErrorId.SECRET_VARIABLE_NOT_SET,
                hint=f"Set the environment variable {self._shown}.",
            )
        return found

    def _file(self) -> str:
        try:
            path = Path(expanded(self._shown))
        except LookupError as error:
            raise UsageError(
                f"cannot read the {self.what} from {self._shown}: {error.args[0]}",
                id=ErrorId.SECRET_FILE_UNREADABLE,
                hint="Write the file's whole path.",
            ) from None
        try:
            with plain.open_regular(path) as file:
                found = os.fstat(file.fileno())
                if not _is_shown_by_root(path, found):
                    require_private(path, found, self.what)
                return self._first_line(plain.read_rest(file, plain.SECRET_MAX))
        except OSError as error:
            raise UsageError(
                f"cannot read the {self.what} from {path}: {error.strerror}",
                id=ErrorId.SECRET_FILE_UNREADABLE,
                hint="Name a regular file that the user who runs dbcheck can read.",
            ) from None

    def _command(self) -> str:
        try:
            done = subprocess.run(
                self.source,
                env=processes.make_environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                timeout=_COMMAND_TIMEOUT_S,
                check=True,
            )
        except subprocess.CalledProcessError as error:
            raise UsageError(
                f"the {self.what} command exited with {error.returncode}",
                id=ErrorId.SECRET_COMMAND_FAILED,
                hint="Run it by hand; it must print the secret as its first line.",
            ) from None
        except subprocess.TimeoutExpired:
            raise UsageError(
                f"the {self.what} command took longer than {_COMMAND_TIMEOUT_S} s",
                id=ErrorId.SECRET_COMMAND_FAILED,
                hint="Run it by hand, and see what it waits for.",
            ) from None
        except OSError as error:
            raise UsageError(
                f"the {self.what} command cannot be run: {self._shown}:"
                f" {error.strerror}",
                id=ErrorId.SECRET_COMMAND_FAILED,
                hint="Install the program, or give its full path.",
            ) from None
        return self._first_line(done.stdout)

    def _first_line(self, content: bytes) -> str:
        line = content.partition(b"\n")[0].removesuffix(b"\r")
        return _decode_secret(
            line, f"the {self.what} {_NAMES[self.kind]} {self._shown}"
        )


def _is_shown_by_root(path: Path, found: os.stat_result) -> bool:
    """Return True if root lets no one but this user read a file, through a group.

    So a pod that runs as a user sees the files of its Secrets (fsGroup,
    https://kubernetes.io/docs/tasks/configure-pod-container/security-context/, 1.34).
    """
    return (
        found.st_uid == 0
        and not stat.S_IMODE(found.st_mode) & 0o037
        and not has_acl(path)
        and is_group_of(found.st_gid, own_users() | {0})
    )


def require_private(path: Path, found: os.stat_result, what: str) -> None:
    """Raise UsageError if others may read a file, or decide what it holds.

    what: the secret in it.
    """
    mode = stat.S_IMODE(found.st_mode)
    if not is_ours(found):
        why = f"belongs to another user (uid {found.st_uid})"
        hint = f"Run: chown {os.geteuid()} {shlex.quote(str(path))}"
    elif mode & 0o077:
        why = f"has the mode {mode:o}"
        hint = f"Run: chmod 600 {shlex.quote(str(path))}"
    else:
        return
    raise UsageError(
        f"{path} must be private, as it holds the {what}, but {why}",
        id=ErrorId.SECRET_FILE_NOT_PRIVATE,
        hint=hint,
    )


def read_variable(name: str, what: str = "password") -> str | None:
    """Return the value of an environment variable, None if it is not set.

    Raise UsageError, which never holds any of it, if that cannot be *what*.
    """
    found = os.environb.get(os.fsencode(name))
    return (
        None if found is None else _decode_secret(found, f"the {what} variable {name}")
    )


def _decode_secret(secret: bytes, place: str) -> str:
    """Return *secret* as text; raise UsageError, which never holds any of it."""
    try:
        text = secret.decode()
    except UnicodeDecodeError:
        raise UsageError(
            f"{place} holds bytes that are not UTF-8",
            id=ErrorId.SECRET_NOT_UTF8,
            hint="Store it as UTF-8.",
        ) from None
    if "\0" in text:
        raise UsageError(
            f"{place} holds a zero byte",
            id=ErrorId.SECRET_INVALID,
            hint="Store the secret alone, as text.",
        )
    return text
