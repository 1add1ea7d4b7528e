"""Files of OpenSSH, beside what ssh(1) and ssh-keygen(1) make of them."""

from __future__ import annotations

import base64
import contextlib
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

from dbcheck.base.errors import UsageError
from dbcheck.remote import sshconfig, sshread
from dbcheck.remote.address import Address
from dbcheck.remote.hostkeys import Marker, look_up_host
from tests.fuzz.script import Script, edit_bytes
from tests.fuzz.target import Target
from tests.kit.memory import scratch

HOST = "db1"
PATTERNS = (
    *("db1", "db*", "!db1", "db?", "DB1", "other", "*", "h1,db1", "h[12]", "!*", "me"),
    *('"db1"', "'db1'", "!other,db1", "a\\ b", '"a b"', "db1.example", "*.example"),
)
# ssh(1) of before 9.3 takes ' and \\ in Match for themselves.
PLAIN_PATTERNS = tuple(one for one in PATTERNS if not set("'\\") & {*one})
FILES = ("~/x", "/a", '"/a b"', "%d/k%%", "'/q q'", "${HOME}/y", "none", "/%h/%p/%r")
# What each keyword may be given; then what none may.
VALUES: dict[str, tuple[str, ...]] = {
    "Host": PATTERNS,
    "HostName": ("127.0.0.1", "%h.example", "UPPER.example", "'q'", "%h", "%%"),
    "User": ("me", '"you"', "u\\'s", "a\\b", "%r", "${HOME}", "a b"),
    "Port": ("22", "2222", '"23"', "0", "65536", "0x16", "022", "-1", "+22"),
    "ProxyCommand": (
        "nc %h %p",
        "none",
        "NONE",
        '"nc" "%h"',
        "nc # %n",
        "= nc",
        "it's",
    ),
    "ProxyJump": ("hop", "none", "a,me@b:23", "ssh://me@hop:22", "[::1]:22", "a # b"),
    "IdentityFile": FILES,
    "CertificateFile": FILES,
    "UserKnownHostsFile": FILES,
    "GlobalKnownHostsFile": FILES,
    "HostKeyAlias": ("alias", "Alias", '"quoted"'),
    "IdentityAgent": ("none", "SSH_AUTH_SOCK", "$NONE", "~/agent", '"/a b/%h"'),
    "IdentitiesOnly": ("yes", "no", "true", "maybe"),
    "CanonicalizeHostname": ("no", "yes", "false", "No"),
    "RevokedHostKeys": ("/revoked", "none", "~/revoked"),
    "Compression": ("yes", "no # x"),
}
KEYWORDS = (*VALUES, "Host", "Host", "Host", "Match", "Match", "Match")
ODD = ("", '""', "#", "# z", "x#y", '"', "\\", "=", "/a b", "\f", "\r", "'", "db1")
CRITERIA = ("host", "originalhost", "user", "localuser", "!host", "!user", "HOST")
ALONE = ("all", "canonical", "!canonical", "final", "!final", "!all", "canonical all")
USERS = ("me", "you", "root", "*", "!me,*", "r?ot", "ROOT", "")
BETWEEN = (" ", "=", " = ", "\t", "  ")
KEY = base64.b64encode(b"\0\0\0\x0bssh-ed25519\0\0\0\x20" + bytes(range(32))).decode()
LISTED = (
    *("db1", "db*", "!db1", "*", "[db1]:22", "DB1", "d?1", "a,db1", "db1,!db1", ""),
    *("|1|F1E1KeoE/eEWhi10WpGv4OdiO6Y=|3988QV0VE8wmZL7suNrYQLITLCg=", "|1|x|y", "|"),
    *("|1|F1E1KeoE/eEWhi10WpGv4OdiO6Y=|", "|2|AA==|AA==", "#", "db1,,", ",db1"),
)
MARKERS = ("", "", "", "@revoked ", "@cert-authority ", "@other ", "@revoked @revoked ")
KEYS = (
    *(f"ssh-ed25519 {KEY}", f"ssh-ed25519  {KEY} me@there", f"ssh-ed25519 {KEY[:40]}"),
    *(f"ssh-rsa {KEY}", f"ssh-ed25519 {KEY}\r", "ssh-ed25519", "", "1024 35 1234567"),
    *(f"ssh-ed25519\t{KEY}", f"ssh-ed25519 {KEY}#", "ssh-ed25519 !!!", "# x"),
)


def settings_of(path: Path, *, asked: bool) -> sshconfig.Settings | None:
    """Return what the file says about the host, None if it is refused."""
    with contextlib.ExitStack() as stack:
        if not asked:
            stack.enter_context(patch.object(sshconfig, "find_ssh", lambda: None))
        with contextlib.suppress(UsageError):
            return sshconfig.read_settings(Address(HOST), path)
    return None


def config(data: bytes) -> None:
    """What dbcheck reads by itself is what ssh(1) reads, or is refused."""
    with scratch() as folder:
        path = folder / "config"
        path.write_bytes(written(Script(data)))
        own = settings_of(path, asked=False)
        if own is None or sshread.find_ssh() is None:
            return
        if not all(file.is_absolute() for file in own.known_hosts):
            return  # `ssh -G` prints a b for two names and for one
        theirs = settings_of(path, asked=True)
        assert theirs is None or without_usual(own) == without_usual(theirs)


def without_usual(found: sshconfig.Settings) -> sshconfig.Settings:
    """Leave out the keys that ssh(1) offers of itself: versions differ in them."""
    usual = Path("~/.ssh").expanduser()
    files = tuple(file for file in found.keys.files if file.parent != usual)
    return replace(found, keys=replace(found.keys, files=files))


def written(script: Script) -> bytes:
    """Return a configuration that keeps clear of programs and of names to look up."""
    lines: list[str] = []
    while not script.is_over and len(lines) < 12:
        keyword = script.choice(KEYWORDS)
        value = condition(script) if keyword == "Match" else value_of(script, keyword)
        if not script.below(6):
            value += " # a comment"
        if not script.below(6):
            keyword = script.choice((keyword.lower(), keyword.upper(), f'"{keyword}"'))
        lines.append(f"{keyword}{script.choice(BETWEEN)}{value}")
    text = "\n".join(lines).encode()
    return edit_bytes(script, text) if script.below(8) == 7 else text


def value_of(script: Script, keyword: str) -> str:
    values = VALUES[keyword] if script.below(12) else ODD
    several = keyword in ("Host", "UserKnownHostsFile") and not script.below(3)
    return " ".join(script.choice(values) for _ in range(2 if several else 1))


def condition(script: Script) -> str:
    if not script.below(4):
        return script.choice(ALONE)
    criteria = []
    for _ in range(1 + script.below(2)):
        name = script.choice(CRITERIA)
        values = PLAIN_PATTERNS if "host" in name.lower() else USERS
        criteria.append(f"{name} {script.choice(values)}")
    return " ".join(criteria)


def known_hosts(data: bytes) -> None:
    """What dbcheck takes for a host's keys is what ssh-keygen(1) finds."""
    script = Script(data)
    lines: list[str] = []
    while not script.is_over and len(lines) < 12:
        line = f"{script.choice(LISTED)} {script.choice(KEYS)}"
        lines.append(f"{script.choice(MARKERS)}{line}")
    text = "\n".join(lines).encode()
    if script.below(8) == 7:
        text = edit_bytes(script, text)
    with scratch() as folder:
        path = folder / "known_hosts"
        path.write_bytes(text)
        known = look_up_host(HOST, [path])
        assert {*known.of(Marker.NONE), *known.of(Marker.REVOKED)} <= {*known.keys}
        ours = {key.line for key in known.keys}
        theirs = found_lines(path)
        assert theirs is None or ours == theirs, text


def found_lines(path: Path) -> set[int] | None:
    """Return the lines with a key of the host, None where that cannot be asked."""
    keygen = shutil.which("ssh-keygen")
    if keygen is None or b"\0" in path.read_bytes():
        return None
    done = subprocess.run(
        [keygen, "-l", "-F", HOST, "-f", str(path)], capture_output=True, check=False
    )
    found = re.findall(rb"found: line (\d+)[^\n]*\n[^#\n]", done.stdout)
    # Of a name alone on the last line OpenSSH 9.2 shows the key of the line before.
    lines = [b"", *path.read_bytes().split(b"\n")]
    return {line for line in map(int, found) if len(lines[line].split()) > 1}


def seeds() -> Iterator[bytes]:
    for step in range(24):
        yield bytes((step * 37 + place * (step + 5)) % 256 for place in range(48))


TARGETS = (
    Target("ssh-config", config, seeds),
    Target("known-hosts", known_hosts, seeds),
)
