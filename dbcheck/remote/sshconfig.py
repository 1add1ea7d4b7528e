"""The settings for a host in the user's OpenSSH configuration (ssh_config(5))."""

from __future__ import annotations

import glob
import os
import stat
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import paramiko
import paramiko.config

from dbcheck import children, plain
from dbcheck.error_ids import ErrorId
from dbcheck.errors import UsageError
from dbcheck.others import who_may_write
from dbcheck.owners import is_ours

_INCLUDES_MAX = 16  # as OpenSSH: READCONF_MAX_DEPTH in readconf.c


def settings(host: str, config_file: Path) -> Mapping[str, Any]:
    """Return the settings of *config_file* for *host*, by keyword in lower case.

    A file that does not exist has none.  Raise UsageError for one that cannot
    be used.
    """
    path = config_file.expanduser()
    try:
        text = "\n".join(_lines(path, depth=0))
        found: Mapping[str, Any] = paramiko.SSHConfig.from_text(text).lookup(host)
        int(found.get("port", 22))
    except FileNotFoundError:
        return {}
    except (OSError, paramiko.SSHException, ImportError, ValueError) as error:
        raise UsageError(
            f"cannot use {path}: {error}",
            id=ErrorId.SSH_CONFIG_INVALID,
            hint="Fix that file, or write host, user and port into the URL.",
        ) from error
    return found


def _holds(command: str, **_: object) -> SimpleNamespace:
    """Run the command of a "Match exec" as ssh(1) does; return whether it succeeded."""
    shell = os.environ.get("SHELL", "/bin/sh")
    try:
        done = subprocess.run(
            [shell, "-c", command],
            env=children.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
    except OSError as error:  # not FileNotFoundError: the configuration is there
        raise ValueError(f"{shell}: {error.strerror}") from None
    return SimpleNamespace(ok=done.returncode == 0)


# paramiko's own way, the package invoke, hands the command our whole environment.
paramiko.config.invoke = SimpleNamespace(run=_holds)  # type: ignore[attr-defined]


def _lines(path: Path, *, depth: int) -> Iterator[str]:
    """Yield the lines of a file with those it includes, which paramiko ignores."""
    if depth > _INCLUDES_MAX:
        raise ValueError(f"more than {_INCLUDES_MAX} files include one another")
    block = "Host *"
    for line in _text(path).splitlines():
        fields = line.replace("=", " ", 1).split()
        keyword = fields[0].lower() if fields else ""
        if keyword in ("host", "match"):
            block = line
        if keyword != "include":
            yield line
            continue
        for word in fields[1:]:
            pattern = Path("~/.ssh").expanduser() / Path(word.strip('"')).expanduser()
            for name in sorted(glob.glob(str(pattern))):
                yield from _lines(Path(name), depth=depth + 1)
        yield block  # what an included file begins ends with it


def _text(path: Path) -> str:
    """Return what a file holds; raise OSError, and ValueError if others decide it.

    It names programs, so ssh(1) refuses it then as well (readconf.c of OpenSSH 9.9,
    read_config_file_depth, SSHCONF_CHECKPERM).  A group that has the user alone may
    write it, as Debian's ssh(1) has it: there files are made with the mode 0664.
    """
    with plain.opened(path) as file:
        found = os.fstat(file.fileno())
        if not is_ours(found):
            raise ValueError(f"{path} belongs to another user (uid {found.st_uid})")
        if stat.S_ISREG(found.st_mode) and (who := who_may_write(path, found)):
            raise ValueError(f"{who[0]} may write {path} ({who[1]} ends that)")
        return plain.content(file, plain.TEXT_MAX).decode()
