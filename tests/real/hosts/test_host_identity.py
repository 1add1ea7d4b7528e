"""What a host is asked before its user agreed to a cut: it only reads."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from dbcheck.agent import wire
from dbcheck.agent.host import serve
from dbcheck.agent.host import serve as host_agent
from dbcheck.hosts.host import PROGRAM, TargetHost
from tests.kit.channels import Script, reply

# Writes to standard error each event that changes something on the host (PEP 578).
AUDITED = """
import os, sys
CHANGES = ("mkdir", "rmdir", "remove", "rename", "link", "symlink", "chmod", "chown")
CHANGES = {"os." + name for name in CHANGES + ("truncate", "utime", "setxattr")}
def seen(event, arguments):
    writes = event == "open" and (arguments[2] or 0) & (
        os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    if writes or event in CHANGES:
        os.write(2, (event + str(arguments) + chr(10)).encode())
sys.addaudithook(seen)
"""


def asked(verb: int, question: dict[str, object]) -> tuple[object, str]:
    """Return what the agent answers, and what it changed."""
    payload = json.dumps(question).encode()
    with tempfile.NamedTemporaryFile() as file:  # one argument has 128 KiB at most
        file.write(PROGRAM)
        file.flush()
        code = f"program = open({file.name!r}).read()\n{AUDITED}exec(program)"
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-B", "-c", code],
            input=wire.MESSAGE.pack(verb, 0, 0, len(payload)) + payload,
            capture_output=True,
            check=True,
        )
    answers = bytearray(done.stdout.removeprefix(wire.HELLO))
    ((kind, _, _, body),) = wire.take_messages(answers)
    assert kind == wire.RESULT
    return json.loads(body), done.stderr.decode()


def test_a_host_that_names_itself_changes_nothing(tmp_path: Path) -> None:
    names, changed = asked(host_agent.IDENTITY, {})
    assert isinstance(names, dict)
    assert names.keys() == {
        *("hostname", "machine_id", "boot_id", "addresses", "serial")
    }
    assert changed == ""


def test_what_would_change_something_is_seen(tmp_path: Path) -> None:
    """Else the test above could not fail."""
    trigger = tmp_path / "trigger"
    trigger.touch()
    if os.geteuid():
        pytest.skip("another user than root asks sudo to write")
    _, changed = asked(host_agent.ARM, {"trigger": str(trigger)})
    assert str(trigger) in changed


def test_a_serial_that_only_root_may_read_is_asked_of_sudo(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    hidden = tmp_path / "serial"
    hidden.write_text("S1\n")
    asked_for: list[tuple[str, ...]] = []

    def as_root(*words: str) -> str | None:
        asked_for.append(words)
        return None

    monkeypatch.setattr(serve, "SERIAL", str(hidden))
    monkeypatch.setattr(serve, "run_as_root", as_root)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert serve.read_serial() == ""
    assert asked_for == [("cat", str(hidden))]
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert serve.read_serial() == "S1"


def test_without_sudo_nothing_is_run_as_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    assert serve.run_as_root("true") is None


def test_who_answers_is_asked_over_a_new_connection_each_time() -> None:
    """A kept one may be to a host that is gone, or was another one."""
    opened: list[Script] = []
    names = {"hostname": "db1", "machine_id": "m", "boot_id": "", "serial": ""}

    def connect(_: bytes) -> Script:
        found = {**names, "boot_id": str(len(opened)), "addresses": []}
        opened.append(
            Script(wire.HELLO, reply(wire.RESULT, json.dumps(found).encode()))
        )
        return opened[-1]

    host = TargetHost("h", connect)
    host.reach()
    assert [host.identity().boot_id for _ in range(2)] == ["1", "2"]
    host.reach()
    assert len(opened) == 4
