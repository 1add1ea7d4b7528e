from __future__ import annotations

import importlib.util
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import paramiko
import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LabError
from dbcheck.lab import programs
from dbcheck.lab.ssh import sshd as sshd_module
from dbcheck.lab.ssh.sshd import Sshd, _list_descendants
from tests.kit.refusals import refused
from tests.kit.waiting import wait_until
from tests.kit.witnesses import SERVERS, running_sshd


def log_in(sshd: Sshd) -> paramiko.SSHClient:
    client = paramiko.SSHClient()
    client.load_system_host_keys(str(sshd.known_hosts))
    client.connect(
        sshd.host,
        sshd.port,
        sshd.user,
        key_filename=str(sshd.identity_file),
        allow_agent=False,
        look_for_keys=False,
    )
    return client


def is_gone(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return True
    return status.rpartition(")")[2].split()[0] == "Z"


@pytest.mark.parametrize("server", SERVERS)
def test_commands_run_and_tell_how_they_ended(server: str, tmp_path: Path) -> None:
    with running_sshd(tmp_path / "sshd", server) as sshd, log_in(sshd) as client:
        for _ in range(3):
            stdin, stdout, stderr = client.exec_command("cat; echo woe >&2; exit 3")
            stdin.write("x" * 300_000)
            stdin.channel.shutdown_write()
            assert len(stdout.read()) == 300_000
            assert stderr.read() == b"woe\n"
            assert stdout.channel.recv_exit_status() == 3


@pytest.mark.parametrize("server", SERVERS)
def test_closing_ends_the_sessions_and_what_they_run(
    server: str, tmp_path: Path
) -> None:
    with running_sshd(tmp_path / "sshd", server) as sshd, log_in(sshd) as client:
        _, stdout, _ = client.exec_command("echo $$; exec sleep 1000")
        pid = int(stdout.readline())
        assert sshd._child and pid in _list_descendants(sshd._child.pid)
        family = [sshd._child.pid, *_list_descendants(sshd._child.pid)]
        sshd.close()
        sshd.close()
        wait_until(lambda: all(is_gone(member) for member in family), "all are gone")
        with (
            pytest.raises(OSError, match="refused"),
            socket.create_connection((sshd.host, sshd.port)),
        ):
            pass


def test_a_server_that_does_not_end_is_ended_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may wait for a drive, and then a signal waits too."""

    def late(timeout: float) -> int:
        raise subprocess.TimeoutExpired("sshd", timeout)

    with running_sshd(tmp_path / "sshd", SERVERS[0]) as sshd:
        child = sshd._child
        assert child is not None
        with monkeypatch.context() as patch:
            patch.setattr(child, "wait", late)
            for _ in range(2):
                with refused(
                    ErrorId.PROCESSES_DO_NOT_END, LabError, naming="does not end"
                ) as caught:
                    sshd.close()
                assert caught.value.id is ErrorId.PROCESSES_DO_NOT_END
        sshd.close()
        assert child.returncode == -signal.SIGKILL


@pytest.mark.parametrize("server", SERVERS)
def test_a_client_that_goes_takes_its_command_along(
    server: str, tmp_path: Path
) -> None:
    with running_sshd(tmp_path / "sshd", server) as sshd:
        client = log_in(sshd)
        _, stdout, _ = client.exec_command("echo $$; exec cat")
        pid = int(stdout.readline())
        client.close()
        wait_until(lambda: is_gone(pid), "the command is gone")


PARENT = """
import sys, time
from pathlib import Path
from dbcheck.lab.ssh import sshd
if sys.argv[2] == "asyncssh":
    sshd._find_openssh = lambda: None
server = sshd.Sshd(Path(sys.argv[1]))
server.start()
sys.stdout.write(f"{server._child.pid}\\n")
sys.stdout.flush()
time.sleep(1000)
"""


@pytest.mark.parametrize("server", SERVERS)
def test_the_server_dies_with_its_parent(server: str, tmp_path: Path) -> None:
    if server == "openssh" and sshd_module._find_openssh() is None:
        pytest.skip("needs OpenSSH's sshd")
    command = [sys.executable, "-c", PARENT, str(tmp_path / "sshd"), server]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout
        pid = int(parent.stdout.readline())
        assert not is_gone(pid)
        parent.send_signal(signal.SIGKILL)
    wait_until(lambda: is_gone(pid), "the server is gone")


def test_it_can_be_started_again(tmp_path: Path) -> None:
    for _ in range(2):
        with running_sshd(tmp_path / "sshd", "openssh") as sshd, log_in(sshd):
            pass


def test_private_keys_are_private(tmp_path: Path) -> None:
    with running_sshd(tmp_path / "sshd", "openssh") as sshd:
        for name in ("host_key", "client_key"):
            mode = (sshd.identity_file.parent / name).stat().st_mode
            assert mode & 0o777 == 0o600


def test_without_any_server_the_mend_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sshd_module, "_find_openssh", lambda: None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    monkeypatch.setattr(programs, "find", lambda _: None)
    with refused(ErrorId.PROGRAM_MISSING, LabError, naming="sshd") as caught:
        Sshd(tmp_path / "sshd").start()
    for words in (caught.value.hint, *sshd_module.list_missing()):
        assert "openssh-server" in words
        assert "dbcheck[lab]" in words


@pytest.mark.parametrize("asyncssh", [True, False])
def test_a_locked_root_needs_asyncssh(
    asyncssh: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sshd_module, "_root_is_locked", lambda: True)
    monkeypatch.setattr(sshd_module, "_find_asyncssh", lambda: asyncssh)
    monkeypatch.setattr(programs, "find", lambda name: Path("/usr/sbin", name))
    lacking = sshd_module.list_missing()
    assert bool(lacking) != asyncssh
    assert all("locked" in words for words in lacking)


def test_a_server_that_ends_at_once_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "broken-sshd"
    broken.write_text("#!/bin/sh\necho no such luck >&2\nexit 1\n")
    os.chmod(broken, 0o755)
    monkeypatch.setattr(sshd_module, "_find_openssh", lambda: str(broken))
    with refused(ErrorId.LAB_SSH_NOT_STARTED, LabError, naming="no such luck"):
        Sshd(tmp_path / "sshd").start()
