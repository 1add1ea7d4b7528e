"""Asks ssh(1) itself what its configuration says about a host: `ssh -G`."""

from __future__ import annotations

import contextlib
import functools
import os
import pwd
import re
import signal
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from dbcheck.base import processes
from dbcheck.base.access import own_program
from dbcheck.base.text import visible
from dbcheck.remote.address import Address
from dbcheck.remote.sshfiles import ConfigError

_VERSION_S = 10.0  # seconds
_ERROR_LINES_MAX = 3
# What says nothing of the reason.
_NOISE = re.compile(r".*: terminating, \d+ bad configuration|Pseudo-terminal will not")
_ERROR_CHARS_MAX = 500
_ERROR_BYTES_MAX = 1 << 16
# Since 8.4 (ssh.c), `ssh -G` shows the names of these files as they were used.
_EXPANDS_FILES = (8, 4)

# Names that it prints side by side, in no quotes: each begins with / or ~.
_FILES = ("userknownhostsfile", "globalknownhostsfile", "revokedhostkeys")
_EXPECTED = frozenset({"hostname", "port", "user"})
_NEXT_FILE = re.compile(r" (?=[/~])")

Raw = dict[str, list[str]]  # by keyword in lower case


@dataclass(frozen=True, slots=True)
class OpenSsh:
    """The ssh(1) of this machine: its path and its version."""

    path: str
    version: tuple[int, int]

    @property
    def expands_files(self) -> bool:
        """Return whether names of files that it shows hold no more tokens."""
        return self.version >= _EXPANDS_FILES


def installed() -> OpenSsh | None:
    """Return the ssh(1) that can be asked for this user, None if there is none.

    It knows no user whom the password file lacks.  It takes that file's word for where
    the home is, and so reads another configuration where HOME is another.  One that
    another user may change is passed over.
    """
    try:
        home = pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return None
    if os.path.realpath(home) != os.path.realpath(os.path.expanduser("~")):
        return None
    path = own_program("ssh")
    return _known(path) if path else None


@functools.cache
def _known(path: str) -> OpenSsh | None:
    """Return *path* with its version, None if it is another program's.

    Dropbear's, for one, takes no notice of -G, and connects.
    """
    try:
        done = subprocess.run(
            [path, "-V"],
            env=processes.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_VERSION_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    said = re.match(rb"OpenSSH_(\d+)\.(\d+)", done.stderr)
    return OpenSsh(path, (int(said[1]), int(said[2]))) if said else None


def ask(ssh: OpenSsh, address: Address, file: Path | None, limit_s: float) -> Raw:
    """Return what the configuration says about *address*; raise ConfigError.

    file: the only one to read, None: those that ssh(1) reads by itself.  limit_s: for
    the answer, in seconds: programs of "Match exec" may run, and names be looked up.
    """
    command = [ssh.path, "-G"]
    if file is not None:
        command += ["-F", str(file)]
    if address.user is not None:
        command += ["-l", address.user]
    if address.port is not None:
        command += ["-p", str(address.port)]
    command += ["--", address.host]
    # A file for the errors: what a "Match exec" leaves running would hold a pipe open.
    with tempfile.TemporaryFile() as errors:
        try:
            child = subprocess.Popen(
                command,
                env=processes.environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )
        except OSError as error:
            raise ConfigError(f"{ssh.path}: {error.strerror}") from None
        output = _output(child, limit_s)
        if child.returncode == 0:
            found = _parsed(output)
            if missing := _EXPECTED - found.keys():
                raise ConfigError(f"`ssh -G` says nothing of {min(missing)}")
            return found
        said = last_lines(errors)
        raise ConfigError(said or f"`ssh -G` ended with {child.returncode}")


def _output(child: subprocess.Popen[bytes], limit_s: float) -> bytes:
    """Return what *child* printed; end all that it started if it takes too long."""
    with child:
        try:
            return child.communicate(timeout=limit_s)[0]
        except BaseException as error:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                raise ConfigError(
                    f"`ssh -G` did not end in {limit_s:g} s",
                    "Look at the programs of its Match exec, and at"
                    " CanonicalizeHostname, which looks names up.",
                ) from None
            raise


def _parsed(output: bytes) -> Raw:
    found: Raw = {}
    for line in output.decode(errors="surrogateescape").split("\n"):
        keyword, blank, value = line.partition(" ")
        keyword = keyword.lower()
        values = _NEXT_FILE.split(value) if keyword in _FILES else [value]
        if blank:
            found.setdefault(keyword, []).extend(values)
    return found


def last_lines(errors: IO[bytes]) -> str:
    """Return what a program complained about at last, in one line."""
    errors.seek(0)
    lines = errors.read(_ERROR_BYTES_MAX).decode(errors="replace").split("\n")
    shown = (visible(line.strip()) for line in lines if not _NOISE.match(line))
    said = list(filter(None, shown))
    return "; ".join(said[-_ERROR_LINES_MAX:])[:_ERROR_CHARS_MAX]
