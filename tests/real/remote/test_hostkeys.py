"""Whom dbcheck takes for the host it means, beside whom ssh(1) takes for it."""

from __future__ import annotations

import base64
import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import (
    SSHCertificate,
    load_ssh_public_identity,
)

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import DbcheckError, HostError
from dbcheck.lab.ssh import sshd as sshd_module
from dbcheck.lab.ssh.sshd import Sshd, _make_key
from dbcheck.remote import hostkeys
from dbcheck.remote.address import Address, SshOptions
from dbcheck.remote.ssh import connect
from tests.kit.refusals import refused
from tests.kit.witnesses import running_sshd

pytestmark = pytest.mark.skipif(
    not shutil.which("ssh") or not shutil.which("ssh-keygen"),
    reason="needs the ssh client",
)
CONFIG = """
Host db
  HostName 127.0.0.1
  Port {port}
  User {user}
  IdentityFile {identity}
  UserKnownHostsFile {folder}/known
  GlobalKnownHostsFile none
"""


def keygen(*words: str | Path) -> None:
    subprocess.run(["ssh-keygen", "-q", *map(str, words)], check=True)


@dataclass
class Host:
    """An sshd with a certificate of an authority, and what it can be known by."""

    sshd: Sshd
    folder: Path
    words: dict[str, str]

    def known(self, text: str, config: str = "") -> Path:
        """Write a list of keys; return a configuration that names it."""
        (self.folder / "known").write_text(text.format(**self.words))
        path = self.folder / "config"
        base = CONFIG.format(
            port=self.sshd.port,
            user=self.sshd.user,
            identity=self.sshd.identity_file,
            folder=self.folder,
        )
        path.write_text(base + config.format(folder=self.folder, **self.words))
        return path

    def certify(self, *words: str) -> None:
        """Have the authority certify the host; take that into use."""
        public = self.folder / "host.pub"
        public.write_text(self.words["key"])
        keygen("-s", self.folder / "ca", "-I", "host", *words, public)
        self.restart(f"HostCertificate {self.folder}/host-cert.pub\n")

    def restart(self, line: str) -> None:
        """Start it again with one more line in its configuration."""
        kept = sshd_module._SSHD_CONFIG
        sshd_module._SSHD_CONFIG += line
        try:
            self.sshd.close()
            self.sshd._launch(self.sshd._command())
        finally:
            sshd_module._SSHD_CONFIG = kept
        assert self.sshd._wait_until_ready()


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    folder = tmp_path_factory.mktemp("host")
    words = {"other": _make_key(folder / "other").strip()}
    for name, kind in (("ca", "ed25519"), ("rsa", "rsa")):
        keygen("-t", kind, "-N", "", "-f", folder / name)
        words[name] = (folder / f"{name}.pub").read_text().strip()
    with running_sshd(folder / "sshd", "openssh") as sshd:
        name, _, words["key"] = sshd.known_hosts.read_text().strip().partition(" ")
        hashed = folder / "hashed"
        hashed.write_text(sshd.known_hosts.read_text())
        keygen("-H", "-f", hashed)
        words |= {"name": name, "hashed": hashed.read_text().split()[0]}
        yield Host(sshd, folder, words)


@pytest.fixture(scope="module")
def certified(host: Host) -> Host:
    host.certify("-h", "-n", "127.0.0.1,db-7", "-V", "-1d:+1d")
    return host


def ours(config: Path) -> str:
    """Return the id of dbcheck's error about the host, "" if it trusts it."""
    try:
        connect(Address("db"), SshOptions(config_file=config)).close()
    except HostError as error:
        return error.id.value
    return ""


def is_trusted_by_ssh(config: Path) -> bool:
    strict = ("-o", "StrictHostKeyChecking=yes", "-o", "BatchMode=yes")
    words = ["ssh", "-F", str(config), *strict, "db", "true"]
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


UNKNOWN = ErrorId.HOST_KEY_UNKNOWN.value
CHANGED = ErrorId.HOST_KEY_CHANGED.value
REFUSED = ErrorId.HOST_KEY_REFUSED.value
TRUNCATED = "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABAQ"
# The list of keys, what the configuration adds, how dbcheck refuses the host.
KNOWN = {
    "its key": ("{name} {key}", "", ""),
    "nothing": ("", "", UNKNOWN),
    "another key": ("{name} {other}", "", CHANGED),
    "a key of another type": ("{name} {rsa}", "", CHANGED),
    "two keys": ("{name} {other}\n{name} {key}", "", ""),
    "two types": ("{name} {rsa}\n{name} {key}", "", ""),
    "blanks": ("\t {name} \t {key} me@here\n", "", ""),
    "line ends of Windows": ("{name} {key}\r\n", "", ""),
    "hashed": ("{hashed} {key}", "", ""),
    "hashed without sense": ("|1|x|y {key}\n|1|AAAA {key}\n| {key}", "", UNKNOWN),
    "without the port": ("127.0.0.1 {key}", "", ""),
    "another key without the port": ("127.0.0.1 {other}", "", UNKNOWN),
    "a pattern": ("[127.0.0.*]:* {key}", "", ""),
    "a pattern without the port": ("127.?.0.1,x {key}", "", ""),
    "not meant": ("!127.0.0.1,!{name},* {key}", "", UNKNOWN),
    "truncated, of another": ("x.example " + TRUNCATED + "\n{name} {key}", "", ""),
    "truncated": ("{name} " + TRUNCATED, "", UNKNOWN),
    "truncated beside": ("{name} " + TRUNCATED + "\n{name} {key}", "", ""),
    "no key at all": ("{name}\n{name} ssh-ed25519\n{name} {key}", "", ""),
    "of old": ("{name} 1024 35 1234567\n{name} {key}", "", ""),
    "bytes": ("\udcff\udcfe x\n{name} {key}", "", ""),
    "authority of others": ("@cert-authority *.example {ca}\n{name} {key}", "", ""),
    "authority": ("@cert-authority * {ca}", "", ""),
    "authority of the port": ("@cert-authority {name} {ca}", "", ""),
    "another authority": ("@cert-authority * {other}", "", UNKNOWN),
    "authority that is no such": ("{name} {ca}", "", CHANGED),
    "revoked": ("@revoked * {key}\n{name} {key}", "", REFUSED),
    "revoked behind": ("{name} {key}\n@revoked {name} {key}", "", REFUSED),
    "revoked, another": ("@revoked * {other}\n{name} {key}", "", ""),
    "revoked for others": ("@revoked x.example {key}\n{name} {key}", "", ""),
    "revoked authority": ("@revoked * {ca}\n@cert-authority * {ca}", "", REFUSED),
    "another marker": ("@trusted {name} {key}", "", UNKNOWN),
    "two markers": ("@cert-authority @revoked {name} {key}", "", UNKNOWN),
    "alias": ("db-7 {key}", "HostKeyAlias DB-7", ""),
    "alias and its name": ("{name} {key}", "HostKeyAlias db-7", UNKNOWN),
    "alias, certified": ("@cert-authority db-7 {ca}", "HostKeyAlias db-7", ""),
    "not its name": ("@cert-authority * {ca}", "HostKeyAlias db-8", REFUSED),
    "not checked": ("", "StrictHostKeyChecking no", UNKNOWN),
    "not checked here": ("", "NoHostAuthenticationForLocalhost yes", UNKNOWN),
    "files": ("", "UserKnownHostsFile {folder}/x", UNKNOWN),
    "list of revoked": ("{name} {key}", "RevokedHostKeys {folder}/list", REFUSED),
    "list of others": ("{name} {key}", "RevokedHostKeys {folder}/others", ""),
    "no list": ("{name} {key}", "RevokedHostKeys {folder}/none", REFUSED),
    "a broken list": ("{name} {key}", "RevokedHostKeys {folder}/broken", REFUSED),
    "revocation list": ("{name} {key}", "RevokedHostKeys {folder}/krl", REFUSED),
    "revocation of others": ("{name} {key}", "RevokedHostKeys {folder}/krl2", ""),
    "list with authority": (
        "@cert-authority * {ca}",
        "RevokedHostKeys {folder}/list-ca",
        REFUSED,
    ),
}
# Where dbcheck asks for more than ssh(1) does.
STRICTER = {"not checked here"}


@pytest.fixture(scope="module")
def lists(certified: Host) -> None:
    folder, words = certified.folder, certified.words
    for name, text in {
        "list": f"# revoked\n{words['other']}\n{words['key']}\n",
        "others": f"{words['other']}\n",
        "broken": f"{words['other']}\n{TRUNCATED}\n",
        "list-ca": words["ca"],
    }.items():
        (folder / name).write_text(text)
    for name, key in (("krl", "key"), ("krl2", "other")):
        (folder / f"{name}.pub").write_text(words[key])
        keygen("-k", "-f", folder / name, folder / f"{name}.pub")


@pytest.mark.parametrize("case", KNOWN)
def test_a_host_is_trusted_as_by_ssh(case: str, certified: Host, lists: None) -> None:
    text, config, expected = KNOWN[case]
    path = certified.known("", config)
    known = text.format(**certified.words).encode(errors="surrogateescape")
    (certified.folder / "known").write_bytes(known)
    assert ours(path) == expected
    if case not in STRICTER:
        assert is_trusted_by_ssh(path) == (not expected)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("-h", "-n", "127.0.0.1", "-V", "-2d:-1d"), REFUSED),
        (("-h", "-n", "127.0.0.1", "-V", "+1d:+2d"), REFUSED),
        (("-h", "-n", "127.0.0.2"), REFUSED),
        (("-h", "-n", "127.0.0.1"), ""),
    ],
)
def test_a_certificate_must_be_valid(
    words: tuple[str, ...], expected: str, host: Host
) -> None:
    host.certify(*words)
    path = host.known("@cert-authority * {ca}")
    assert ours(path) == expected
    assert is_trusted_by_ssh(path) == (not expected)


@pytest.mark.parametrize(
    ("authority", "words", "fault"),
    [
        ("ca", ("-h", "-n", "db,*.example"), ""),
        ("rsa", ("-h", "-n", "db"), ""),
        ("rsa", ("-h", "-n", "db", "-t", "ssh-rsa"), "is signed with SHA-1"),
        ("ca", ("-n", "db"), "is for a user and not for a host"),
        ("ca", ("-h",), "is not for db"),
        ("ca", ("-h", "-n", "db1"), "is not for db"),
        ("ca", ("-h", "-n", "d?"), ""),
        ("ca", ("-h", "-n", "db", "-V", "-2d:-1d"), "is not valid at this time"),
        ("ca", ("-h", "-n", "db", "-O", "critical:x=y"), "has an option"),
    ],
)
def test_what_is_wrong_with_a_certificate_is_found(
    authority: str, words: tuple[str, ...], fault: str, host: Host, tmp_path: Path
) -> None:
    public = tmp_path / "host.pub"
    public.write_text(host.words["key"])
    keygen("-s", host.folder / authority, "-I", "x", *words, public)
    text = (tmp_path / "host-cert.pub").read_bytes()
    certificate = load_ssh_public_identity(text)
    assert isinstance(certificate, SSHCertificate)
    assert hostkeys._find_fault(certificate, "db").startswith(fault)
    assert bool(hostkeys._find_fault(certificate, "db")) == bool(fault)


def test_a_certificate_that_was_changed_is_found(host: Host, tmp_path: Path) -> None:
    public = tmp_path / "host.pub"
    public.write_text(host.words["key"])
    keygen("-s", host.folder / "ca", "-I", "x", "-h", "-n", "da", public)
    kind, blob = (tmp_path / "host-cert.pub").read_bytes().split()[:2]
    changed = base64.b64decode(blob).replace(b"\0\0\0\2da", b"\0\0\0\2db")
    certificate = load_ssh_public_identity(kind + b" " + base64.b64encode(changed))
    assert isinstance(certificate, SSHCertificate)
    assert hostkeys._find_fault(certificate, "db") == "has a wrong signature"


def test_a_host_with_two_keys_shows_the_known_one(host: Host) -> None:
    """Not the one that dbcheck would rather see, which is not known."""
    keygen("-t", "rsa", "-N", "", "-f", host.folder / "second")
    public = (host.folder / "second.pub").read_text().strip()
    host.restart(f"HostKey {host.folder}/second\n")
    for text, expected in (
        ("{name} " + public, ""),
        ("127.0.0.1 " + public, UNKNOWN),
        ("{name} {rsa}", CHANGED),
        ("{name} {key}", ""),
    ):
        path = host.known(text)
        assert ours(path) == expected, text
        assert is_trusted_by_ssh(path) == (not expected)


def test_what_is_of_no_use_is_told_where_it_matters(certified: Host) -> None:
    path = certified.known(
        "{name} " + TRUNCATED + "\n@cert-authority {name} {other}\nx y\n"
    )
    with refused(ErrorId.HOST_KEY_UNKNOWN) as caught:
        connect(Address("db"), SshOptions(config_file=path))
    known = certified.folder / "known"
    assert (
        f"{known}, line 1 names this host, but its key cannot be read"
        in caught.value.hint
    )
    assert f"{known}, line 2 names an authority for this host" in caught.value.hint
    path = certified.known("@revoked * {key}\n{name} {key}")
    with refused(
        ErrorId.HOST_KEY_REFUSED,
        HostError,
        naming=f"its key is revoked in {known}, line 1",
    ):
        connect(Address("db"), SshOptions(config_file=path))
    path = certified.known("# mine\n{name} {other}")
    with refused(ErrorId.HOST_KEY_CHANGED) as caught:
        connect(Address("db"), SshOptions(config_file=path))
    assert f"{known}, line 2" in caught.value.hint
    command = caught.value.hint.split("`")[1]
    subprocess.run(shlex.split(command), check=True, capture_output=True)
    assert known.read_text() == "# mine\n"


def test_a_new_key_is_stored_under_the_alias(certified: Host) -> None:
    path = certified.known("# mine", "HostKeyAlias db-9")
    options = SshOptions(accept_new_host_key=True, config_file=path)
    connect(Address("db"), options).close()
    known = certified.folder / "known"
    assert known.read_text() == f"# mine\ndb-9 {certified.words['key']}\n"
    assert is_trusted_by_ssh(path)


def test_a_revoked_key_is_never_stored(certified: Host) -> None:
    path = certified.known("@revoked * {key}")
    options = SshOptions(accept_new_host_key=True, config_file=path)
    with refused(ErrorId.HOST_KEY_REFUSED):
        connect(Address("db"), options)


@pytest.mark.parametrize(
    ("accept", "id", "hint"),
    [
        (None, ErrorId.HOST_KEY_UNKNOWN, "Name a file for it by UserKnownHostsFile"),
        (True, ErrorId.KNOWN_HOSTS_UNREADABLE, "--known-hosts"),
    ],
)
def test_dev_null_holds_no_keys(
    tmp_path: Path, accept: bool | None, id: ErrorId, hint: str
) -> None:
    """As Vagrant's configurations have it."""
    with (
        running_sshd(tmp_path, "openssh") as sshd,
        pytest.raises(DbcheckError, match="key") as told,
    ):
        options = SshOptions(
            identity_file=sshd.identity_file,
            known_hosts=Path(os.devnull),
            accept_new_host_key=accept,
        )
        connect(Address(sshd.host, sshd.user, sshd.port), options)
    assert os.devnull not in str(told.value) + told.value.hint
    assert told.value.id is id
    assert hint in told.value.hint
