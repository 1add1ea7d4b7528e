"""Whom a witness over SSH trusts, and how it gets there."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError, WitnessError
from dbcheck.lab.ssh.sshd import Sshd, _make_key
from dbcheck.remote.address import Address, SshOptions
from dbcheck.witness.url import open_witness
from dbcheck.witness.witness import SshWitness
from tests.kit.lab_access import children
from tests.kit.refusals import refused
from tests.kit.witnesses import SERVERS, running_sshd


@pytest.fixture(scope="module", params=SERVERS)
def sshd(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Sshd]:
    folder = tmp_path_factory.mktemp("ssh") / "sshd"
    with running_sshd(folder, request.param) as running:
        yield running


def url_of(sshd: Sshd, folder: Path) -> str:
    return f"ssh://{sshd.user}@{sshd.host}:{sshd.port}{folder}"


def test_an_unknown_host_is_refused_until_its_key_is_accepted(
    sshd: Sshd, tmp_path: Path
) -> None:
    known_hosts = tmp_path / "new" / "known_hosts"

    def runs(*, accept: bool) -> object:
        witness = open_witness(
            url_of(sshd, tmp_path / "w"),
            options=SshOptions(
                accept_new_host_key=accept,
                identity_file=sshd.identity_file,
                known_hosts=known_hosts,
            ),
        )
        try:
            return witness.runs()
        finally:
            witness.close()

    with refused(
        ErrorId.HOST_KEY_UNKNOWN, WitnessError, naming="ssh-ed25519 SHA256:"
    ) as caught:
        runs(accept=False)
    assert "--accept-new-host-key" in caught.value.hint
    assert not known_hosts.exists()
    _, command, _ = caught.value.hint.split("`")
    subprocess.run(["sh", "-c", command], check=True)
    assert runs(accept=False) == []
    shutil.rmtree(known_hosts.parent)
    assert runs(accept=True) == []
    assert known_hosts.read_text() == sshd.known_hosts.read_text()
    assert known_hosts.stat().st_mode & 0o777 == 0o600
    assert runs(accept=False) == []
    assert runs(accept=True) == []
    assert known_hosts.read_text() == sshd.known_hosts.read_text()


@pytest.mark.parametrize("accept", [True, False])
def test_a_changed_host_key_is_refused_always(
    sshd: Sshd, tmp_path: Path, accept: bool
) -> None:
    known_hosts = tmp_path / "known_hosts"
    known_hosts.write_text(f"[{sshd.host}]:{sshd.port} {_make_key(tmp_path / 'k')}")
    before = known_hosts.read_text()
    witness = open_witness(
        url_of(sshd, tmp_path),
        options=SshOptions(
            accept_new_host_key=accept,
            identity_file=sshd.identity_file,
            known_hosts=known_hosts,
        ),
    )
    with refused(ErrorId.HOST_KEY_CHANGED, WitnessError):
        witness.runs()
    assert known_hosts.read_text() == before
    witness.close()


def test_a_wrong_key_is_refused(sshd: Sshd, tmp_path: Path) -> None:
    _make_key(tmp_path / "key")
    witness = open_witness(
        url_of(sshd, tmp_path),
        options=SshOptions(
            identity_file=tmp_path / "key",
            known_hosts=sshd.known_hosts,
        ),
    )
    with refused(ErrorId.SSH_LOGIN_REJECTED, WitnessError, naming=sshd.user) as caught:
        witness.runs()
    assert ".." not in caught.value.with_hint
    witness.close()


def test_an_identity_file_that_is_missing_is_told(sshd: Sshd, tmp_path: Path) -> None:
    witness = open_witness(
        url_of(sshd, tmp_path),
        options=SshOptions(
            identity_file=tmp_path / "none",
            known_hosts=sshd.known_hosts,
        ),
    )
    with refused(ErrorId.SSH_KEY_UNREADABLE, WitnessError):
        witness.runs()
    witness.close()


def test_a_port_where_nobody_listens_is_told(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        witness = open_witness(f"ssh://me@127.0.0.1:{port}{tmp_path}")
        with refused(
            ErrorId.HOST_UNREACHABLE, WitnessError, naming=f"127.0.0.1:{port}"
        ):
            witness.runs()


def test_a_server_that_is_no_ssh_server_is_told(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        options = SshOptions(connect_timeout_s=0.3)
        address = Address("127.0.0.1", "me", server.getsockname()[1])
        witness = SshWitness("ssh://x", address, "/w", options=options)
        with refused(ErrorId.HOST_UNREACHABLE, WitnessError):
            witness.runs()


def test_a_lost_connection_is_made_anew(sshd: Sshd, tmp_path: Path) -> None:
    witness = SshWitness(
        "ssh://lab",
        Address(sshd.host, sshd.user, sshd.port),
        str(tmp_path),
        options=SshOptions(
            identity_file=sshd.identity_file, known_hosts=sshd.known_hosts
        ),
    )
    assert witness.runs() == []
    assert witness._host._connection
    witness._host._connection.transport.close()
    assert witness.runs() == []
    witness.close()
    assert witness.runs() == []
    witness.close()


def test_a_cipher_that_needs_no_mac_is_taken(sshd: Sshd, tmp_path: Path) -> None:
    witness = SshWitness(
        "ssh://lab",
        Address(sshd.host, sshd.user, sshd.port),
        str(tmp_path),
        options=SshOptions(
            identity_file=sshd.identity_file, known_hosts=sshd.known_hosts
        ),
    )
    witness.runs()
    assert witness._host._connection
    assert "gcm" in witness._host._connection.transport.local_cipher
    witness.close()


def config_of(sshd: Sshd, extra: str = "") -> str:
    return f"""
Host far
    HostName {sshd.host}
    Port {sshd.port}
    User {sshd.user}
    IdentityFile {sshd.identity_file}
    UserKnownHostsFile {sshd.known_hosts}
    {extra}
Host jump
    HostName {sshd.host}
    Port {sshd.port}
    User {sshd.user}
    IdentityFile {sshd.identity_file}
    UserKnownHostsFile {sshd.known_hosts}
"""


def runs_by_config(config: Path, folder: Path, host: str = "far") -> object:
    witness = SshWitness(
        f"ssh://{host}{folder}",
        Address(host),
        str(folder),
        options=SshOptions(config_file=config),
    )
    try:
        return witness.runs()
    finally:
        witness.close()


def test_the_users_configuration_is_honoured(sshd: Sshd, tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(config_of(sshd))
    assert runs_by_config(config, tmp_path) == []


def test_included_configuration_is_honoured(sshd: Sshd, tmp_path: Path) -> None:
    (tmp_path / "part-1").write_text(config_of(sshd))
    (tmp_path / "part-2").write_text("Host nobody\n    Port 1\n")
    config = tmp_path / "config"
    config.write_text(f"Include {tmp_path}/part-*\nConnectTimeout 5\n")
    assert runs_by_config(config, tmp_path) == []


def test_jump_hosts_are_passed_through(tmp_path: Path) -> None:
    config = tmp_path / "config"
    with running_sshd(tmp_path / "sshd", "openssh") as sshd:
        config.write_text(config_of(sshd, "ProxyJump jump,jump"))
        assert runs_by_config(config, tmp_path) == []
        config.write_text(config_of(sshd, "ProxyJump far"))
        with refused(ErrorId.TOO_MANY_JUMPS, UsageError, naming="than 8"):
            runs_by_config(config, tmp_path)


@pytest.mark.skipif(not shutil.which("ssh"), reason="needs the ssh client")
def test_a_proxy_command_is_run_and_ended(tmp_path: Path) -> None:
    config = tmp_path / "config"
    before = children(os.getpid())
    with running_sshd(tmp_path / "sshd", "openssh") as sshd:
        command = (
            f"ssh -F none -i {sshd.identity_file} -p {sshd.port} "
            f"-o UserKnownHostsFile={sshd.known_hosts} -W %h:%p {sshd.user}@{sshd.host}"
        )
        config.write_text(config_of(sshd, f"ProxyCommand {command}"))
        assert runs_by_config(config, tmp_path) == []
    assert children(os.getpid()) == before


def test_a_proxy_command_that_fails_is_told(sshd: Sshd, tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(config_of(sshd, "ProxyCommand false"))
    with refused(ErrorId.HOST_UNREACHABLE, WitnessError):
        runs_by_config(config, tmp_path)


def test_a_configuration_that_makes_no_sense_is_told(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("Host far\n    Port many\n")
    with refused(ErrorId.SSH_CONFIG_INVALID, UsageError, naming="cannot use"):
        runs_by_config(config, tmp_path)


def test_a_host_without_python_is_told(
    sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "dbcheck.remote.ssh.make_bootstrap", lambda _: "'; exec nopython '"
    )
    witness = open_witness(
        url_of(sshd, tmp_path),
        options=SshOptions(
            identity_file=sshd.identity_file,
            known_hosts=sshd.known_hosts,
        ),
    )
    with refused(ErrorId.AGENT_ENDED, WitnessError, naming="ended"):
        witness.runs()
    witness.close()
