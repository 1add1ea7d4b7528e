"""What all agents share: messages, and looking round on a host."""

from __future__ import annotations

import ast
import importlib
import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dbcheck.hosts.host import PARTS
from dbcheck.remote import wire
from dbcheck.remote.program import bootstrap, program
from dbcheck.witness import channel

AGENTS = {"dbcheck.witness.agent": channel.PARTS, "dbcheck.hosts.agent.serve": PARTS}
SENT = {"dbcheck.remote.wire", *AGENTS, *(part for p in AGENTS.values() for part in p)}


@pytest.mark.parametrize("module", sorted(SENT))
def test_what_is_sent_is_python_3_8_and_needs_nothing_installed(module: str) -> None:
    source = inspect.getsource(importlib.import_module(module))
    named: set[str] = set()
    for node in ast.walk(ast.parse(source, feature_version=(3, 8))):
        if isinstance(node, ast.Import):
            named.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            named.add(node.module or "")
    tops = {name.split(".")[0] for name in named - SENT}
    assert tops <= set(sys.stdlib_module_names)


@pytest.mark.parametrize(("module", "parts"), AGENTS.items())
def test_a_program_imports_no_more_than_it_brings(
    module: str, parts: tuple[str, ...]
) -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program(module, *parts)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
    )
    assert (done.stdout, done.stderr) == (wire.HELLO, b"")


@pytest.mark.parametrize("module", AGENTS)
def test_a_bootstrap_passes_a_login_shell_in_single_quotes(module: str) -> None:
    line = bootstrap(len(program(module, *AGENTS[module])))
    assert "'" not in line
    assert "\n" not in line


def test_the_innermost_mount_tells_the_filesystem(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mounts = [
        "20 1 8:1 / / rw,noatime shared:1 - ext4 /dev/a rw,errors=remount-ro\n",
        "21 20 8:2 / /a rw - xfs /dev/b rw\n",
        "22 20 0:9 / /a\\040b rw - tmpfs tmpfs rw\n",
        "23 20 8:3 / /a rw - btrfs /dev/c rw,space_cache=v2\n",
    ]
    monkeypatch.setattr(wire, "lines", lambda _: iter(mounts))
    monkeypatch.setattr(os.path, "realpath", lambda path: path)
    found = [wire.mount_of(p)["type"] for p in ("/a/x", "/a", "/a b/c", "/ab")]
    assert found == ["btrfs", "btrfs", "tmpfs", "ext4"]
    mounts = mounts[:1]
    assert wire.mount_of("/x") == {
        "point": "/",
        "source": "/dev/a",
        "type": "ext4",
        "options": "rw,noatime,errors=remount-ro",
    }


def test_own_addresses_are_without_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    files = {
        "/proc/net/fib_trie": "Main:\n  +-- 0.0.0.0/0 3 0 5\n"
        "     |-- 127.0.0.1\n        /32 host LOCAL\n"
        "     |-- 192.0.2.2\n        /32 host LOCAL\n"
        "     |-- 192.0.2.255\n        /32 link BROADCAST\n",
        "/proc/net/if_inet6": f"{1:032x} 01 80 10 80 lo\n"
        "20010db8000000000000000000000007 02 40 00 80 eth0\n",
    }
    monkeypatch.setattr(wire, "lines", lambda path: iter(files[path].splitlines()))
    assert set(wire.addresses()) == {"192.0.2.2", "2001:db8::7"}


def test_what_cannot_be_read_is_empty(tmp_path: Path) -> None:
    assert wire.first_line(str(tmp_path / "none")) == ""
    assert list(wire.lines(str(tmp_path / "none"))) == []


def test_messages_are_taken_whole() -> None:
    message = wire.MESSAGE.pack(7, 7, 1, 3) + b"abc"
    buffer = bytearray()
    taken = []
    for byte in message * 2:
        buffer.append(byte)
        taken += wire.take_messages(buffer)
    assert taken == [(7, 7, 1, b"abc")] * 2
    assert not buffer


def test_a_message_without_end_is_refused() -> None:
    head = wire.MESSAGE.pack(7, 0, 0, wire.MESSAGE_BYTES_MAX + 1)
    with pytest.raises(wire.Refusal):
        wire.take_messages(bytearray(head))
