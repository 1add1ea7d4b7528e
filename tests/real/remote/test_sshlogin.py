"""Which keys dbcheck offers to a host, with a real agent and beside ssh(1)."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import HostError
from dbcheck.lab.ssh import sshd as sshd_module
from dbcheck.lab.ssh.sshd import Sshd
from dbcheck.remote.address import Address, SshOptions
from dbcheck.remote.ssh import connect
from tests.kit.waiting import wait_until
from tests.kit.witnesses import running_sshd

pytestmark = pytest.mark.skipif(
    not shutil.which("ssh-agent"), reason="needs the ssh client"
)
CONFIG = """
Host db
  HostName 127.0.0.1
  Port {port}
  User {user}
  UserKnownHostsFile {known}
"""
PASSPHRASE = "hunter2"
LOCKED = ErrorId.SSH_KEY_LOCKED.value
UNREADABLE = ErrorId.SSH_KEY_UNREADABLE.value
REJECTED = ErrorId.SSH_LOGIN_REJECTED.value


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    folder = tmp_path_factory.mktemp("ssh") / "sshd"
    folder.mkdir(mode=0o700)
    authority = folder / "ca"
    subprocess.run(["ssh-keygen", "-q", "-N", "", "-f", authority], check=True)
    trusted = f"TrustedUserCAKeys {authority}.pub\n"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sshd_module, "_SSHD_CONFIG", sshd_module._SSHD_CONFIG + trusted)
        with running_sshd(folder, "openssh") as running:
            yield running


def certify(folder: Path, name: str, user: str, valid: str) -> Path:
    """Make a certificate beside a key, by the authority whose users may log in."""
    words = ("-s", folder / "ca", "-I", "x", "-n", user, "-V", valid, folder / name)
    subprocess.run(["ssh-keygen", "-q", *words], check=True)
    return folder / f"{name}-cert.pub"


@pytest.fixture(scope="module")
def keys(sshd: Sshd, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the right key, bare and locked, and others beside it."""
    folder = tmp_path_factory.mktemp("keys")
    shutil.copy(sshd.identity_file.parent / "ca", folder / "ca")
    for name in ("right", "locked", "bare"):
        shutil.copy(sshd.identity_file, folder / name)
        (folder / name).chmod(0o600)
    text = subprocess.run(
        ["ssh-keygen", "-y", "-f", folder / "right"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    (folder / "public.pub").write_text(text)
    for name in ("locked", "bare"):
        subprocess.run(
            ["ssh-keygen", "-q", "-p", "-N", PASSPHRASE, "-f", folder / name],
            check=True,
        )
    (folder / "locked.pub").write_text(text)
    for number in range(7):
        subprocess.run(
            [
                "ssh-keygen",
                "-q",
                "-N",
                "",
                "-t",
                "ed25519",
                "-f",
                folder / f"k{number}",
            ],
            check=True,
        )
    certify(folder, "k5", sshd.user, "-1d:+1d")
    certify(folder, "k4", sshd.user, "-1d:+1d").rename(folder / "elsewhere")
    shutil.copy(sshd.identity_file, folder / "late")
    shutil.copy(folder / "public.pub", folder / "late.pub")
    certify(folder, "late.pub", sshd.user, "-2d:-1d")
    (folder / "garbage").write_bytes(b"-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n")
    (folder / "garbage").chmod(0o600)
    return folder


@pytest.fixture(scope="module")
def agents(keys: Path) -> Iterator[dict[str, str]]:
    """Run an agent with the right key behind six others, and one with others alone."""
    running, sockets = [], {}
    for name, held in {
        "full": [*(f"k{n}" for n in range(6)), "right"],
        "wrong": ["k6"],
    }.items():
        sockets[name] = str(keys / f"{name}.sock")
        running.append(subprocess.Popen(["ssh-agent", "-D", "-a", sockets[name]]))
        wait_until(Path(sockets[name]).exists, "the agent listens")
        for key in held:
            subprocess.run(
                ["ssh-add", "-q", str(keys / key)],
                env=os.environ | {"SSH_AUTH_SOCK": sockets[name]},
                check=True,
            )
    yield sockets
    for agent in running:
        agent.terminate()
        agent.wait()


# What the configuration says, whose socket the environment has, how it ends.
LOGINS = {
    "a file": ("IdentityFile {keys}/right", "", ""),
    "no key": ("IdentityFile none", "", REJECTED),
    "another key": ("IdentityFile {keys}/k0", "", REJECTED),
    "a file behind another": (
        "IdentityFile {keys}/k0\nIdentityFile {keys}/right",
        "",
        "",
    ),
    "a file that is none": ("IdentityFile {keys}\nIdentityFile {keys}/right", "", ""),
    "garbage": ("IdentityFile {keys}/garbage\nIdentityFile {keys}/right", "", ""),
    "a certificate beside": ("IdentityFile {keys}/k5", "", ""),
    "a certificate elsewhere": (
        "IdentityFile {keys}/k4\nCertificateFile {keys}/elsewhere",
        "",
        "",
    ),
    "a certificate of a key in the agent": (
        "IdentityFile {keys}/k4.pub\nCertificateFile {keys}/elsewhere",
        "full",
        "",
    ),
    "a certificate of another key": (
        "IdentityFile {keys}/k5\nCertificateFile {keys}/elsewhere",
        "",
        REJECTED,
    ),
    "a certificate that ended": ("IdentityFile {keys}/late", "", ""),
    "locked": ("IdentityFile {keys}/locked", "", LOCKED),
    "locked, in the agent": ("IdentityFile {keys}/locked", "full", ""),
    "locked and alone, in the agent": ("IdentityFile {keys}/bare", "full", ""),
    "public, in the agent": ("IdentityFile {keys}/public.pub", "full", ""),
    "in the agent alone": (
        "IdentityFile {keys}/public.pub\nIdentitiesOnly yes",
        "full",
        "",
    ),
    "in the agent, not meant": (
        "IdentityFile none\nIdentitiesOnly yes",
        "wrong",
        REJECTED,
    ),
    "another agent": (
        "IdentityFile {keys}/locked\nIdentityAgent {keys}/full.sock",
        "wrong",
        "",
    ),
    "no agent": ("IdentityFile {keys}/locked\nIdentityAgent none", "full", LOCKED),
    "an agent that is gone": ("IdentityFile {keys}/right", "gone", ""),
}


@pytest.mark.parametrize("case", LOGINS)
def test_the_keys_are_offered_that_ssh_offers(
    case: str,
    sshd: Sshd,
    keys: Path,
    agents: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text, agent, expected = LOGINS[case]
    monkeypatch.setenv("SSH_AUTH_SOCK", agents.get(agent, str(tmp_path / "none")))
    base = CONFIG.format(port=sshd.port, user=sshd.user, known=sshd.known_hosts)
    config = tmp_path / "config"
    config.write_text(base + text.format(keys=keys))
    found = ""
    try:
        connect(Address("db"), SshOptions(config_file=config)).close()
    except HostError as error:
        found = error.id.value
        assert found != LOCKED or f"{keys}/locked" in str(error)
    assert found == expected
    words = ["ssh", "-F", str(config), "-o", "BatchMode=yes", "db", "true"]
    done = subprocess.run(words, capture_output=True, check=False)
    assert done.returncode == (255 if expected else 0), done.stderr


def test_the_key_that_is_named_is_the_only_one(
    sshd: Sshd, keys: Path, agents: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSH_AUTH_SOCK", agents["full"])
    address = Address(sshd.host, sshd.user, sshd.port)
    for name, expected in (
        ("right", ""),
        ("k0", REJECTED),
        ("locked", LOCKED),
        ("public.pub", UNREADABLE),
        ("garbage", UNREADABLE),
    ):
        options = SshOptions(
            identity_file=keys / name,
            known_hosts=sshd.known_hosts,
            config_file=Path(os.devnull),
        )
        found = ""
        try:
            connect(address, options).close()
        except HostError as error:
            found = error.id.value
            if found == UNREADABLE:
                assert str(keys / name) in str(error)
                assert "private key" in error.hint
        assert found == expected, name
