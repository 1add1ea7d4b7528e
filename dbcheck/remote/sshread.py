"""Finds a host's settings in OpenSSH's configuration: by `ssh -G`, or by reading it.

The files are read only if no ssh(1) can be asked.  They are read by the rules of
ssh_config(5) of OpenSSH 9.2, for the keywords that dbcheck uses.  A line that only
ssh(1) can decide is refused.
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

_VERSION_LIMIT_S = 10.0  # seconds that `ssh -V` may take
_ERROR_LINES_MAX = 3
# Lines of errors that do not tell the reason.
_NOISE = re.compile(r".*: terminating, \d+ bad configuration|Pseudo-terminal will not")
_ERROR_CHARS_MAX = 500
_ERROR_BYTES_MAX = 1 << 16
# Since this version (ssh.c), `ssh -G` shows names of files with their tokens expanded.
_EXPANDING_VERSION = (8, 4)

# Keywords whose files `ssh -G` prints in one line without quotes: each name begins with
# / or ~.
_FILES_IN_LINE = ("userknownhostsfile", "globalknownhostsfile", "revokedhostkeys")
_EXPECTED = frozenset({"hostname", "port", "user"})
_NEXT_FILE = re.compile(r" (?=[/~])")

Raw = dict[str, list[str]]  # keyword in lower case -> its values


@dataclass(frozen=True, slots=True)
class OpenSsh:
    """The ssh(1) of this machine: its path and its version."""

    path: str
    version: tuple[int, int]

    @property
    def expands_files(self) -> bool:
        """True if `ssh -G` shows names of files with their tokens expanded."""
        return self.version >= _EXPANDING_VERSION


def find_ssh() -> OpenSsh | None:
    """Return the ssh(1) that can be asked for this user, None if there is none.

    ssh(1) does not run for a user whom the password file lacks.  It takes the home from
    that file, so it would read another configuration if HOME is another folder.  A
    program that another user may change is not used.
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
    """Return the ssh(1) at *path* with its version, None if it is not OpenSSH's.

    Dropbear's ssh, for example, ignores -G and connects.
    """
    try:
        finished = subprocess.run(
            [path, "-V"],
            env=processes.make_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_VERSION_LIMIT_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    version = re.match(rb"OpenSSH_(\d+)\.(\d+)", finished.stderr)
    return OpenSsh(path, (int(version[1]), int(version[2]))) if version else None


def ask_ssh(ssh: OpenSsh, address: Address, file: Path | None, limit_s: float) -> Raw:
    """Return ssh(1)'s settings for *address*; raise ConfigError.

    file: the only file to read, None for those that ssh(1) reads by itself.  limit_s:
    seconds until ssh(1) must have answered; it may run programs of "Match exec", and
    look names up.
    """
    command = [ssh.path, "-G"]
    if file is not None:
        command += ["-F", str(file)]
    if address.user is not None:
        command += ["-l", address.user]
    if address.port is not None:
        command += ["-p", str(address.port)]
    command += ["--", address.host]
    # Errors go to a file: a program that "Match exec" leaves behind would keep a pipe
    # open.
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
            raw = _parse_output(output)
            if missing := _EXPECTED - raw.keys():
                raise ConfigError(f"`ssh -G` says nothing of {min(missing)}")
            return raw
        lines = read_last_errors(errors)
        raise ConfigError(lines or f"`ssh -G` ended with {child.returncode}")


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
    raw: Raw = {}
    for line in output.decode(errors="surrogateescape").split("\n"):
        keyword, blank, value = line.partition(" ")
        keyword = keyword.lower()
        values = _NEXT_FILE.split(value) if keyword in _FILES_IN_LINE else [value]
        if blank:
            raw.setdefault(keyword, []).extend(values)
    return raw


def read_last_errors(errors: IO[bytes]) -> str:
    """Return the last errors of a program, in one line."""
    errors.seek(0)
    lines = errors.read(_ERROR_BYTES_MAX).decode(errors="replace").split("\n")
    shown = (visible(line.strip()) for line in lines if not _NOISE.match(line))
    texts = list(filter(None, shown))
    return "; ".join(texts[-_ERROR_LINES_MAX:])[:_ERROR_CHARS_MAX]


_KEYWORDS_OF_ONE_WORD = frozenset(
    {"hostname", "user", "port", "hostkeyalias", "identityagent", "identitiesonly"}
    | {"identityfile", "certificatefile", "revokedhostkeys", "proxyusefdpass"}
)
# Keywords of which each line counts, and not the first alone.
_REPEATED_KEYWORDS = frozenset({"identityfile", "certificatefile"})
_KEYWORDS_OF_WORDS = frozenset({"userknownhostsfile", "globalknownhostsfile"})
_COMMAND = "proxycommand"
_JUMP = "proxyjump"
_CANONICAL = frozenset({"canonicalizehostname", "canonicalisehostname"})
_CRITERIA = frozenset({"host", "originalhost", "user", "localuser"})
YES = ("yes", "true")
_CRITERIA_WITHOUT_VALUE = frozenset({"all", "canonical", "final"})
# Criteria that only ssh(1) can evaluate.
_CRITERIA_OF_SSH = frozenset(
    {"exec", "localnetwork", "tagged", "version", "sessiontype", "command"}
)


class Reader:
    """Reads the configuration for one host; the first value of a keyword counts."""

    def __init__(self, address: Address, local_user: str) -> None:
        """Begin with the user and port of *address*, which precede any file's."""
        self._address = address
        self._local_user = local_user
        self.found: Raw = {}
        if address.user is not None:
            self.found["user"] = [address.user]
        if address.port is not None:
            self.found["port"] = [str(address.port)]

    def read(self, lines: list[Line], folder: Path) -> None:
        """Take the settings in the *lines* of a file; raise ConfigError or OSError.

        folder: where relative names in an Include begin.
        """
        self._read(lines, folder, depth=0, applies=True)

    def result(self) -> Raw:
        """Return the settings, with the defaults of ssh(1) where no file sets one."""
        return {
            "hostname": [_expand_ipv4(self._host().lower())],
            "user": [self._user()],
            "port": ["22"],
        } | {key: value for key, value in self.found.items() if key != "hostname"}

    def _host(self) -> str:
        """Return the host's name by the lines so far (ssh_config(5), HostName)."""
        name = self._address.host
        return self.found.get("hostname", [name])[0].replace("%h", name)

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
        """Read the lines of one file; if not *applies*, its settings do not count."""
        line_applies = applies
        for line in lines:
            if line.keyword == "host":
                line_applies = applies and self._matches_host(line)
            elif line.keyword == "match":
                line_applies = applies and self._matches(line)
            elif line.keyword == "include":
                for included in read_included(line, folder, depth):
                    self._read(included, folder, depth=depth + 1, applies=line_applies)
            else:
                values = _parse_values(line)
                if line_applies and values:
                    self._take(line, values)

    def _take(self, line: Line, values: list[str]) -> None:
        keyword = line.keyword
        if keyword == _COMMAND and _JUMP in self.found and _COMMAND not in self.found:
            # Whether "ProxyJump none" counts depends on the release: in 9.2 it does, in
            # 10.5 it does not.
            raise undecidable_error(line, "ProxyCommand behind ProxyJump none")
        if keyword in _REPEATED_KEYWORDS:
            files = self.found.setdefault(keyword, [])
            files += [value for value in values if value not in files]
        elif keyword == _JUMP and not is_none(values[0]):
            # The first of ProxyJump and ProxyCommand counts (ssh_config(5), ProxyJump).
            if not self.found.keys() & {_COMMAND, _JUMP}:
                self.found |= {_JUMP: values, _COMMAND: ["none"]}
        else:
            self.found.setdefault(keyword, values)

    def _matches_host(self, line: Line) -> bool:
        """Return True if a Host line names the host as the user gave it."""
        is_named = False
        for word in line.words():
            pattern = word.removeprefix("!")
            if matches(self._address.host, pattern):
                if word != pattern:
                    return False
                is_named = True
        return is_named

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
            if name not in _CRITERIA_WITHOUT_VALUE and not equals:
                pattern = words.pop(0) if words else ""
            if name in _CRITERIA and not pattern:
                raise ConfigError(f"{line.place}: Match {name} has no value")
            if name == "all" and words:
                raise ConfigError(f"{line.place}: Match all takes no other criterion")
            if not self._can_evaluate(name, holds):
                raise undecidable_error(line, f"Match {name}")
            holds = holds and self._holds(name, pattern) is not word.startswith("!")
        return holds

    def _can_evaluate(self, name: str, holds: bool) -> bool:
        """Return True if a criterion can be evaluated without ssh(1).

        holds: all criteria before it hold.  If not, ssh(1) does not evaluate a program,
        either.  After "final", and up to release 9.2 also after "!final", ssh(1) reads
        the whole configuration once more.
        """
        if name == "final":
            return False
        return name in _CRITERIA | _CRITERIA_WITHOUT_VALUE or (
            name in _CRITERIA_OF_SSH and not holds
        )

    def _holds(self, name: str, pattern: str) -> bool:
        if name in _CRITERIA_WITHOUT_VALUE:
            # Names are not made canonical here, so there is no second reading.
            return name == "all"
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
    """Return True if *text* matches one of *patterns*, as in "a,b,!c", but no !c."""
    is_listed = False
    for pattern in patterns.split(","):
        if matches(text, pattern.removeprefix("!")):
            if pattern.startswith("!"):
                return False
            is_listed = True
    return is_listed


def is_none(value: str) -> bool:
    """Return True if a value is the word for nothing (ssh_config(5))."""
    return value.lower() == "none"


def _parse_values(line: Line) -> list[str]:
    """Return the values of a line, [] if dbcheck has no use for its keyword."""
    keyword, words = line.keyword, line.words()
    if keyword == _COMMAND:
        # The command is the whole rest of the line, with quotes and #.
        return [line.value.lstrip(BEFORE_VALUE)]
    if keyword == _JUMP:
        jumps = line.value.lstrip(BEFORE_VALUE).partition("#")[0].rstrip()
        if re.search(r"[\s\"']", jumps) or not jumps:
            raise ConfigError(
                f"{line.place}: ProxyJump must be hosts with commas between: a,b"
            )
        return [jumps]
    if keyword in _CANONICAL and words and words[0].lower() not in ("no", "false"):
        raise undecidable_error(line, "CanonicalizeHostname")
    if keyword not in _KEYWORDS_OF_WORDS | _KEYWORDS_OF_ONE_WORD:
        return []
    if not all(words) or not words:
        raise ConfigError(f"{line.place}: {line.keyword} has an empty value")
    if keyword in _KEYWORDS_OF_WORDS:
        if len(words) > 1 and any(map(is_none, words)):
            raise ConfigError(f"{line.place}: {keyword} has none beside other files")
        return words
    if len(words) > 1:
        raise ConfigError(f"{line.place}: {keyword} has more than one value")
    _require_valid_value(line, words[0])
    return words


def _require_valid_value(line: Line, word: str) -> None:
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
