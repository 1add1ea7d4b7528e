"""Arguments of ssh in an inventory, compared with what ssh(1) makes of them."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from dbcheck.base.errors import UsageError
from dbcheck.inventory.load import make_inventory
from dbcheck.remote.address import Proxy
from tests.fuzz.script import Script
from tests.fuzz.target import Target

_WAY = ("hostname", "user", "port", "identityfile", "proxyjump", "proxycommand")
_KEYWORDS = (
    *("ProxyJump", "ProxyCommand", "proxycommand", '"ProxyJump"', "PROXYJUMP"),
    *("StrictHostKeyChecking", "ControlMaster", "Port", "User", "HostName", "#x", ""),
)
_BETWEEN = ("=", " ", " = ", "==", "\t", "= \t=", '="', "")
_VALUES = (
    *("hop", "none", "NONE", "u@hop:22", "a,b", "no", "22", "nc %h %p", "%%", "'x' y"),
    *('"x" y', 'x"', " hop ", "hop\f", "hop # no", "ssh://hop", "[::1]:22", "a,,b", ""),
)
_WORDS = ("-C", "-q", "-4Att", "--", "-", "hop", "-F", "/dev/null", "none", "-x", "-o")


def arguments(data: bytes) -> None:
    """Settings and words of a command line in any order, quoted or not."""
    script = Script(data)
    parts: list[str] = []
    while not script.is_over:
        kind = script.below(8)
        if kind < 4:
            setting = script.choice(_KEYWORDS) + script.choice(_BETWEEN)
            blank = script.choice(("", " "))
            parts.append(f"-o{blank}{shlex.quote(setting + script.choice(_VALUES))}")
        elif kind < 6:
            parts.append(f"-J{script.choice(('', ' '))}{script.choice(_VALUES)}")
        else:
            parts.append(script.choice(_WORDS))
    text = " ".join(parts)
    hosts = {
        "db1": {"dbcheck_target": "postgresql://u@x/d", "ansible_ssh_args": text},
    }
    try:
        found = make_inventory(Path("hosts.yml"), hosts).entry("db1").host_options
    except UsageError as error:
        assert "ansible_ssh_args" in str(error)
        return
    words = [word.strip() for word in shlex.split(text) if word.strip()]
    theirs, plain = _by_ssh(words), _by_ssh([])
    if theirs is None or plain is None:
        return
    proxy = found.proxy or Proxy()
    jump, command = theirs.pop("proxyjump", ""), theirs.pop("proxycommand", "")
    assert command == ("" if proxy.command.lower() == "none" else proxy.command)
    assert bool(jump) == (proxy.jump.lower() not in ("", "none"))
    assert theirs == plain


def _by_ssh(words: list[str]) -> dict[str, str] | None:
    """Return what ssh would take of these words, None if it refuses."""
    if not shutil.which("ssh"):
        return None
    done = subprocess.run(
        ["ssh", "-G", "-F", "none", *words, "db1"], capture_output=True, text=True
    )
    if done.returncode:
        return None
    pairs = (line.partition(" ") for line in done.stdout.splitlines())
    lines = [(name, value) for name, _, value in pairs if name in _WAY]
    return dict(reversed(lines))


def commands() -> Iterator[bytes]:
    for step in range(24):
        yield bytes((step * 11 + place * (step + 5)) % 256 for place in range(16))


TARGETS = (Target("ssh-arguments", arguments, commands),)
