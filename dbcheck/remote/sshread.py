"""Finds a host's settings in OpenSSH's configuration: by `ssh -G`, or by reading it.

The files are read only where no ssh(1) is installed that could be asked, by the rules
of ssh_config(5) of OpenSSH 9.2 and for the keywords that dbcheck uses.  A line that
only ssh(1) can decide is refused.
"""

from __future__ import annotations

import contextlib
import fnmatch
import functools
import os
import pwd
import re
import signal
import socket
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from dbcheck.base import processes
from dbcheck.base.access import find_own_program
from dbcheck.base.text import visible
from dbcheck.remote.address import Address, is_port
from dbcheck.remote.sshfiles import (
    BEFORE_VALUE,
    ConfigError,
    Line,
    read_included,
    undecidable_error,
)

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
        """Return True if names of files that it shows hold no more tokens."""
        return self.version >= _EXPANDS_FILES


def find_ssh() -> OpenSsh | None:
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
    path = find_own_program("ssh")
    return _identify_ssh(path) if path else None


@functools.cache
def _identify_ssh(path: str) -> OpenSsh | None:
    """Return *path* with its version, None if it is another program's.

    Dropbear's, for one, takes no notice of -G, and connects.
    """
    try:
        done = subprocess.run(
            [path, "-V"],
            env=processes.make_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_VERSION_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    said = re.match(rb"OpenSSH_(\d+)\.(\d+)", done.stderr)
    return OpenSsh(path, (int(said[1]), int(said[2]))) if said else None


def ask_ssh(ssh: OpenSsh, address: Address, file: Path | None, limit_s: float) -> Raw:
    """Return ssh(1)'s settings for *address*; raise ConfigError.

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
                env=processes.make_environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )
        except OSError as error:
            raise ConfigError(f"{ssh.path}: {error.strerror}") from None
        output = _read_output(child, limit_s)
        if child.returncode == 0:
            found = _parse_output(output)
            if missing := _EXPECTED - found.keys():
                raise ConfigError(f"`ssh -G` says nothing of {min(missing)}")
            return found
        said = last_lines(errors)
        raise ConfigError(said or f"`ssh -G` ended with {child.returncode}")


def _read_output(child: subprocess.Popen[bytes], limit_s: float) -> bytes:
    """Return the output of *child*; kill it and its children if it takes too long."""
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


def _parse_output(output: bytes) -> Raw:
    found: Raw = {}
    for line in output.decode(errors="surrogateescape").split("\n"):
        keyword, blank, value = line.partition(" ")
        keyword = keyword.lower()
        values = _NEXT_FILE.split(value) if keyword in _FILES else [value]
        if blank:
            found.setdefault(keyword, []).extend(values)
    return found


def last_lines(errors: IO[bytes]) -> str:
    """Return the last errors of a program, in one line."""
    errors.seek(0)
    lines = errors.read(_ERROR_BYTES_MAX).decode(errors="replace").split("\n")
    shown = (visible(line.strip()) for line in lines if not _NOISE.match(line))
    said = list(filter(None, shown))
    return "; ".join(said[-_ERROR_LINES_MAX:])[:_ERROR_CHARS_MAX]


_ONE_WORD = frozenset(
    {"hostname", "user", "port", "hostkeyalias", "identityagent", "identitiesonly"}
    | {"identityfile", "certificatefile", "revokedhostkeys", "proxyusefdpass"}
)
_SEVERAL = frozenset({"identityfile", "certificatefile"})  # each line counts
_WORDS = frozenset({"userknownhostsfile", "globalknownhostsfile"})
_COMMAND = "proxycommand"
_JUMP = "proxyjump"
_CANONICAL = frozenset({"canonicalizehostname", "canonicalisehostname"})
_CRITERIA = frozenset({"host", "originalhost", "user", "localuser"})
YES = ("yes", "true")
_ALONE = frozenset({"all", "canonical", "final"})  # without a value
_OTHERS = frozenset(
    {"exec", "localnetwork", "tagged", "version", "sessiontype", "command"}
)


class Reader:
    """Reads the configuration for one host; the first value of a keyword counts."""

    def __init__(self, address: Address, local_user: str) -> None:
        """Begin with what the user gave: it comes before the configuration."""
        self._address = address
        self._local_user = local_user
        self.found: Raw = {}
        if address.user is not None:
            self.found["user"] = [address.user]
        if address.port is not None:
            self.found["port"] = [str(address.port)]

    def read(self, lines: list[Line], folder: Path) -> None:
        """Take what *lines* of a file say; raise ConfigError or OSError.

        folder: where relative names in an Include begin.
        """
        self._read(lines, folder, depth=0, applies=True)

    def result(self) -> Raw:
        """Return the settings found, with ssh(1)'s defaults for the others."""
        return {
            "hostname": [_expand_ipv4(self._host().lower())],
            "user": [self._user()],
            "port": ["22"],
        } | {key: value for key, value in self.found.items() if key != "hostname"}

    def _host(self) -> str:
        """Return the name of the host so far (ssh_config(5), HostName)."""
        given = self._address.host
        return self.found.get("hostname", [given])[0].replace("%h", given)

    def _user(self) -> str:
        user = self.found.get("user", [self._local_user])[0]
        if not user:
            raise ConfigError(
                "this machine has no name for your user", "Write a user into the URL."
            )
        return user

    def _read(
        self, lines: list[Line], folder: Path, *, depth: int, applies: bool
    ) -> None:
        """Read the lines of one file; with *applies* False nothing of it counts."""
        is_meant = applies
        for line in lines:
            if line.keyword == "host":
                is_meant = applies and self._matches_host(line)
            elif line.keyword == "match":
                is_meant = applies and self._matches(line)
            elif line.keyword == "include":
                for each in read_included(line, folder, depth):
                    self._read(each, folder, depth=depth + 1, applies=is_meant)
            else:
                values = _parse_values(line)
                if is_meant and values:
                    self._take(line, values)

    def _take(self, line: Line, values: list[str]) -> None:
        keyword = line.keyword
        if keyword == _COMMAND and _JUMP in self.found and _COMMAND not in self.found:
            # Whether "none" counts depends on the release: in 9.2 it does, in 10.5 not.
            raise undecidable_error(line, "ProxyCommand behind ProxyJump none")
        if keyword in _SEVERAL:
            files = self.found.setdefault(keyword, [])
            files += [value for value in values if value not in files]
        elif keyword == _JUMP and not is_none(values[0]):
            # Whichever of the two comes first (ssh_config(5), ProxyJump).
            if not self.found.keys() & {_COMMAND, _JUMP}:
                self.found |= {_JUMP: values, _COMMAND: ["none"]}
        else:
            self.found.setdefault(keyword, values)

    def _matches_host(self, line: Line) -> bool:
        """Return True if a Host line names the host as the user gave it."""
        is_meant = False
        for word in line.words():
            pattern = word.removeprefix("!")
            if matches(self._address.host, pattern):
                if word != pattern:
                    return False
                is_meant = True
        return is_meant

    def _matches(self, line: Line) -> bool:
        """Return True if all criteria of a Match line hold."""
        words = line.words()
        if not words:
            raise ConfigError(f"{line.place}: Match has no criterion")
        holds = True
        while words:
            word = words.pop(0)
            name, equals, pattern = word.removeprefix("!").partition("=")
            name = name.lower()
            if name not in _ALONE and not equals:
                pattern = words.pop(0) if words else ""
            if name in _CRITERIA and not pattern:
                raise ConfigError(f"{line.place}: Match {name} has no value")
            if name == "all" and words:
                raise ConfigError(f"{line.place}: Match all takes no other criterion")
            if not self._is_known(name, holds):
                raise undecidable_error(line, f"Match {name}")
            holds = holds and self._holds(name, pattern) is not word.startswith("!")
        return holds

    def _is_known(self, name: str, holds: bool) -> bool:
        """Return True if a criterion can be evaluated without ssh(1).

        holds: all before it.  If not, ssh(1) asks no program, either.  After "final"
        it reads all once more, up to 9.2 after "!final" as well.
        """
        if name == "final":
            return False
        return name in _CRITERIA | _ALONE or (name in _OTHERS and not holds)

    def _holds(self, name: str, pattern: str) -> bool:
        if name in _ALONE:
            return name == "all"  # names are not made canonical, so no second reading
        if name == "user":
            return matches_list(self._user(), pattern)
        if name == "localuser":
            return matches_list(self._local_user, pattern)
        host = self._host() if name == "host" else self._address.host
        return matches_list(host.lower(), pattern.lower())


def matches(text: str, pattern: str) -> bool:
    """Return True if *text* matches a pattern of ssh_config(5), PATTERNS: * and ?."""
    if not re.search(r"[*?]", pattern):
        return text == pattern
    return fnmatch.fnmatchcase(text, pattern.replace("[", "[[]"))


def matches_list(text: str, patterns: str) -> bool:
    """Return True if *text* matches one of *patterns*, a,b, and no excluded one, !c."""
    found = False
    for pattern in patterns.split(","):
        if matches(text, pattern.removeprefix("!")):
            if pattern.startswith("!"):
                return False
            found = True
    return found


def is_none(value: str) -> bool:
    """Return True if a value is the word for nothing (ssh_config(5))."""
    return value.lower() == "none"


def _parse_values(line: Line) -> list[str]:
    """Return the values of a line, [] if dbcheck has no use for its keyword."""
    keyword, words = line.keyword, line.words()
    if keyword == _COMMAND:
        return [line.value.lstrip(BEFORE_VALUE)]  # all of it, with quotes and #
    if keyword == _JUMP:
        jumps = line.value.lstrip(BEFORE_VALUE).partition("#")[0].rstrip()
        if re.search(r"[\s\"']", jumps) or not jumps:
            raise ConfigError(
                f"{line.place}: ProxyJump must be hosts with commas between: a,b"
            )
        return [jumps]
    if keyword in _CANONICAL and words and words[0].lower() not in ("no", "false"):
        raise undecidable_error(line, "CanonicalizeHostname")
    if keyword not in _WORDS | _ONE_WORD:
        return []
    if not all(words) or not words:
        raise ConfigError(f"{line.place}: {line.keyword} has an empty value")
    if keyword in _WORDS:
        if len(words) > 1 and any(map(is_none, words)):
            raise ConfigError(f"{line.place}: {keyword} has none beside other files")
        return words
    if len(words) > 1:
        raise ConfigError(f"{line.place}: {keyword} has more than one value")
    _require_sense(line, words[0])
    return words


def _require_sense(line: Line, word: str) -> None:
    """Refuse a value that ssh(1) refuses, or whose meaning depends on its version."""
    if line.keyword == "port" and not is_port(word):
        raise ConfigError(f"{line.place}: {word!r} is not a port")
    if line.keyword == "hostname" and "%" in word.replace("%h", ""):
        raise ConfigError(f"{line.place}: HostName may hold %h and no other token")
    if line.keyword == "user" and re.search(r"%|\$\{", word):
        raise undecidable_error(line, "a token in User")
    if line.keyword == "identitiesonly" and word.lower() not in (*YES, "no", "false"):
        raise ConfigError(f"{line.place}: {line.keyword} must be yes or no")


def _expand_ipv4(host: str) -> str:
    """Return *host*, an address of IPv4 with its four numbers: 127.1 is 127.0.0.1."""
    try:
        return socket.inet_ntoa(socket.inet_aton(host))
    except (OSError, UnicodeError):
        return host
