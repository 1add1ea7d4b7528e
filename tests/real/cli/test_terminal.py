"""Hostile servers, witnesses, switches and stored runs, and what a user sees."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from dbcheck.cli import FAILED, PASS
from dbcheck.lab.ssh.sshd import Sshd
from dbcheck.runs.folder import RunFolder
from tests.fuzz.on_sql import greeting, message, server_of
from tests.kit.nodes import having
from tests.kit.reports import EVIL, is_harmless
from tests.kit.stored_run import manifest, stored_run
from tests.kit.witnesses import running_sshd

AGENT = """\
import json, sys
from dbcheck.agent import wire
sys.path.insert(0, {tests!r})
from tests.kit.nodes import having
from tests.kit.reports import EVIL
kind, answer = {answer}
payload = json.dumps(answer).encode()
message = wire.MESSAGE.pack(kind, 0, 0, len(payload)) + payload
sys.stdout.buffer.write(wire.HELLO + 3 * message)  # to each request
sys.stdout.flush()
sys.stdin.buffer.read()
"""


def said_by(folder: Path, *words: str, code: int) -> str:
    """Return all that a command prints; check that it ends and shows no harm."""
    done = subprocess.run(
        (sys.executable, "-m", "dbcheck", *words),
        cwd=folder,
        env=os.environ | {"COLUMNS": "2000"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
    )
    said = (done.stdout + done.stderr).decode()
    assert done.returncode == code, said
    assert "Traceback" not in said
    assert is_harmless(said), said
    assert not [line for line in said.splitlines() if line.startswith(" PASS \\x9b")]
    assert "[/nope]" in said
    return said


AUTHENTICATED = message(b"R", bytes(4))
NOTICE = message(b"N", f"SWARNING\0VWARNING\0C01000\0M{EVIL}\0\0".encode())


@contextlib.contextmanager
def refusing_server(first: bytes) -> Iterator[int]:
    """Give the port of a server that refuses each login in PostgreSQL's words."""
    refusal = message(b"E", f"SFATAL\0VFATAL\0C28000\0M{EVIL}\0\0".encode())
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    client, _ = listener.accept()
                    with client:
                        while client.recv(4096)[4:8] in (b"\x04\xd2\x16\x2f",):
                            client.sendall(b"N")  # no TLS here
                        client.sendall(first + refusal)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


@pytest.mark.parametrize(
    "first", [b"", AUTHENTICATED + NOTICE], ids=["refused", "warned"]
)
def test_a_server_that_refuses_with_escapes(first: bytes, tmp_path: Path) -> None:
    """libpq itself would print what a server says before it takes the login."""
    with refusing_server(first) as port:
        target = f"postgresql+psycopg2://u@127.0.0.1:{port}/d"
        said = said_by(
            tmp_path,
            *("run", "--target", target, "--witness", f"file:{tmp_path}/acks"),
            code=FAILED,
        )
    assert r"\x1b[2J\x1b]52;c;cm0gLXJmIH4=\x07" in said


def test_a_server_whose_plugin_is_named_with_escapes(tmp_path: Path) -> None:
    """The driver logs the name of a module that it does not find."""
    path = tmp_path / "socket"
    with server_of(greeting(EVIL.encode()), path):
        target = f"mysql+mysqlconnector://u@localhost/d?unix_socket={path}"
        said = said_by(
            tmp_path,
            *("run", "--target", target, "--witness", f"file:{tmp_path}/acks"),
            code=FAILED,
        )
    assert "Requested Module" not in said


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with running_sshd(tmp_path_factory.mktemp("sshd") / "s", "openssh") as server:
        yield server


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ('wire.ERROR, {"code": "folder", "message": EVIL}', FAILED),
        ("wire.RESULT, [EVIL]", PASS),
    ],
    ids=["error", "run"],
)
def test_a_witness_that_answers_with_escapes(
    answer: str, code: int, sshd: Sshd, tmp_path: Path
) -> None:
    root = Path(__file__).resolve().parents[3]
    agent = tmp_path / "agent.py"
    agent.write_text(AGENT.format(tests=str(root), answer=answer))
    keys = sshd.identity_file.with_name("authorized_keys")
    key = keys.read_text().rpartition('" ')[2]
    keys.write_text(f'command="PYTHONPATH={root} {sys.executable} {agent}" {key}')
    said_by(
        tmp_path,
        *("witness", "show", "--witness", f"ssh://{sshd.user}@127.0.0.1:{sshd.port}/x"),
        *("--identity", str(sshd.identity_file)),
        *("--known-hosts", str(sshd.known_hosts)),
        code=code,
    )


def test_a_switch_that_answers_with_escapes(tmp_path: Path) -> None:
    (tmp_path / "said").write_text(EVIL)
    (tmp_path / "inventory.yml").write_text(
        "all: {hosts: {h: {dbcheck_target: 'x://', dbcheck_power: exec,"
        " dbcheck_power_cut: ['true'],"
        " dbcheck_power_state: [sh, -c, 'cat said; false']}}}\n"
    )
    said_by(tmp_path, "power", "state", "h", code=FAILED)


def test_a_stored_run_that_holds_escapes(tmp_path: Path) -> None:
    forged = having(manifest(), target=EVIL, witness=EVIL)
    run = stored_run(RunFolder.create(tmp_path, forged))
    said = said_by(tmp_path, "reconcile", str(run.path), "--offline", code=PASS)
    assert r"\x1b[2J\x1b]52;c;cm0gLXJmIH4=" in said


def test_a_letter_that_the_terminal_lacks_is_shown_as_an_escape(tmp_path: Path) -> None:
    run = stored_run(RunFolder.create(tmp_path, having(manifest(), target="\u00e9")))
    done = subprocess.run(
        (sys.executable, "-m", "dbcheck", "reconcile", str(run.path), "--offline"),
        cwd=tmp_path,
        env=os.environ | {"PYTHONIOENCODING": "ascii"},
        capture_output=True,
        timeout=60,
    )
    assert done.returncode == PASS, done.stderr
    assert rb"\xe9" in done.stdout
