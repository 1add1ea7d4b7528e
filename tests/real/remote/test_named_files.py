"""Files that are not what their names say, in each place where dbcheck reads one."""

from __future__ import annotations

import grp
import os
import pwd
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import DbcheckError, EngineError, UsageError
from dbcheck.config import files
from dbcheck.config.secret import Secret
from dbcheck.engines.mysql.engine import MysqlEngine
from dbcheck.engines.mysql.optionfile import Client
from dbcheck.engines.mysql.options import client_options
from dbcheck.engines.postgresql.engine import PostgresqlEngine
from dbcheck.lab.drive.recording import Recording
from dbcheck.lab.recorded import RecordedLab
from dbcheck.remote import ssh, sshlogin
from dbcheck.remote.address import Address, SshOptions
from dbcheck.remote.sshconfig import Settings, read_settings
from tests.kit.files import AS_ROOT, STRANGER, let_write
from tests.kit.hostile import CLEARTEXT, asks, hostile
from tests.kit.refusals import refused

HUGE = 10 << 30


def postgresql(**options: object) -> None:
    """Connect to a server, of which there is none."""
    text = "&".join(f"{name}={value}" for name, value in options.items())
    PostgresqlEngine(f"postgresql://eve@127.0.0.1:1/d?{text}").facts()


def mysql(**options: object) -> None:
    text = "&".join(f"{name}={value}" for name, value in options.items())
    MysqlEngine(f"mysql://eve@127.0.0.1:1/d?{text}").facts()


def in_environment(name: str, more: str = "") -> Callable[[Path], object]:
    def read(path: Path) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(name, str(path))
            if more:
                patch.setenv(more, "x")
            postgresql()

    return read


def trusted(path: Path) -> object:
    options = SshOptions(known_hosts=path)
    return ssh._read_trust(Settings("db1", 22, "me"), options)


def usual_options(path: Path, **more: bool) -> dict[str, object]:
    return client_options(Client.MYSQL, path, **more)


PLACES: dict[str, Callable[[Path], object]] = {
    "my.cnf": usual_options,
    "a password": lambda path: Secret("password", "file", (str(path),)).read(),
    "x.toml": lambda path: files.read_described_file("workload", str(path)),
    "y.toml": lambda path: files.read_described_file("matrix", str(path)),
    "x.drive": Recording,
    "lab.json": lambda path: RecordedLab.read(path.parent),
    "ssh_config": lambda path: read_settings(Address("db1"), path),
    "known_hosts": trusted,
    "a key": ssh._require_readable,
    "sslrootcert": lambda path: postgresql(sslmode="verify-full", sslrootcert=path),
    "sslcert": lambda path: postgresql(sslmode="require", sslcert=path),
    "sslkey": lambda path: postgresql(sslmode="require", sslkey=path),
    "sslcrl": lambda path: postgresql(sslmode="verify-full", sslcrl=path),
    "passfile": lambda path: postgresql(passfile=path),
    "PGPASSFILE": in_environment("PGPASSFILE"),
    "PGSSLROOTCERT": in_environment("PGSSLROOTCERT"),
    "PGSERVICEFILE": in_environment("PGSERVICEFILE", "PGSERVICE"),
    "pg_service.conf": lambda path: in_environment("PGSYSCONFDIR", "PGSERVICE")(
        path.parent
    ),
    "ssl_ca": lambda path: mysql(ssl_ca=path, ssl_verify_cert="true"),
    "ssl_cert": lambda path: mysql(ssl_cert=path),
    "ssl_key": lambda path: mysql(ssl_key=path),
    "option_files": lambda path: mysql(option_files=path),
}


def made(kind: str, path: Path) -> Path:
    if kind == "fifo":
        os.mkfifo(path, 0o600)
    elif kind == "folder":
        path.mkdir()
    elif kind == "zeros":
        path.symlink_to("/dev/zero")
    else:
        path.touch(0o600)
        os.truncate(path, HUGE)
    return path


@pytest.mark.timeout(20)
@pytest.mark.parametrize("kind", ["fifo", "folder", "zeros", "huge"])
@pytest.mark.parametrize("place", PLACES)
def test_what_is_no_file_to_read_is_refused_at_once(
    place: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    path = made(kind, tmp_path / place)
    with pytest.raises(DbcheckError, match=re.escape(str(path))):
        PLACES[place](path)


@pytest.mark.parametrize("kind", ["fifo", "folder", "zeros"])
def test_a_key_of_ssh_config_that_is_none_is_not_offered(
    kind: str, tmp_path: Path
) -> None:
    path = made(kind, tmp_path / "id_x")
    assert sshlogin._read_private_key(path) is None
    assert sshlogin._read_public_key(path) == b""


@pytest.mark.parametrize(
    "name", [".pg_service.conf", ".pgpass", ".postgresql/root.crt", ".my.cnf"]
)
def test_so_is_one_in_its_usual_place(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PGSERVICE", "x")
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    os.mkfifo(path)
    with refused(ErrorId.FILE_NOT_READABLE, naming=str(path)):
        mysql() if name == ".my.cnf" else postgresql()


def test_no_file_is_named_by_dev_null(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in "UserKnownHostsFile /dev/null", which many write."""
    monkeypatch.delenv("MYSQL_PWD", raising=False)
    link = tmp_path / "link"
    link.symlink_to(os.devnull)
    for null in (Path(os.devnull), link):
        assert usual_options(null) == {}
        assert read_settings(Address("db1"), null).host == "db1"
        trusted(null)


MINE = "[client]\nuser=eve\nssl-ca=/ca.pem\n"


@pytest.mark.parametrize(
    ("mode", "text", "why"),
    [
        pytest.param(0o664, MINE, f"the group {STRANGER} may write", marks=AS_ROOT),
        (0o666, MINE, "any user may write"),
        (0o602, MINE, "any user may write"),
        (0o644, MINE + "password=hunter2\n", "has the mode 644"),
        (0o640, MINE + "password=hunter2\n", "has the mode 640"),
        (0o644, MINE, ""),
        (0o600, MINE + "password=hunter2\n", ""),
    ],
)
def test_an_option_file_that_others_may_change_or_read_is_refused(
    mode: int, text: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user's own, and one that the URL names for the driver to read."""
    monkeypatch.delenv("MYSQL_PWD", raising=False)
    file = tmp_path / ".my.cnf"
    file.write_text(text)
    if mode == 0o664:
        os.chown(file, -1, STRANGER)
    file.chmod(mode)
    url = f"mysql://eve@127.0.0.1:1/d?option_files={file}"
    if not why:
        assert usual_options(file)["user"] == "eve"
        MysqlEngine(url)
        return
    for read in (usual_options, lambda _: MysqlEngine(url)):
        with refused(ErrorId.SECRET_FILE_NOT_PRIVATE, UsageError, naming=why) as caught:
            read(file)
        assert "hunter2" not in str(caught.value)
        do = "600" if "hunter2" in text else "g-w" if mode == 0o664 else "o-w"
        assert f"chmod {do} {file}" in caught.value.hint


def test_an_option_file_that_a_list_of_access_lets_another_write_is_refused(
    tmp_path: Path,
) -> None:
    file = tmp_path / ".my.cnf"
    file.write_text(MINE)
    let_write(file, STRANGER)
    url = f"mysql://eve@127.0.0.1:1/d?option_files={file}"
    for read in (usual_options, lambda _: MysqlEngine(url)):
        with refused(
            ErrorId.SECRET_FILE_NOT_PRIVATE, UsageError, naming="access control list"
        ) as caught:
            read(file)
        assert f"setfacl -b {file}" in caught.value.hint


def made_by_me(path: Path, text: str = MINE + "password=hunter2\n") -> Path:
    path.write_text(text)
    path.chmod(0o600)
    return path


def open_to_others(path: Path) -> str:
    path.chmod(0o666)
    return "any user may write"


def shown_to_others(path: Path) -> str:
    path.chmod(0o644)
    return "must be private, as it holds the password, but has the mode 644"


def fifo(path: Path) -> str:
    path.unlink()
    os.mkfifo(path)
    return (
        "line 2 of .*b.cnf, which cannot be read: Invalid argument|not a regular file"
    )


def folder_open_to_others(path: Path) -> str:
    path.parent.chmod(0o777)
    return "any user may write"


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    ("line", "spoil"),
    [
        *(
            (line, s)
            for line in ("!include {}/b.cnf", "!includedir {}")
            for s in (open_to_others, shown_to_others, fifo)
        ),
        ("!includedir {}", folder_open_to_others),
    ],
)
def test_what_an_option_file_includes_is_held_to_the_same(
    line: str,
    spoil: Callable[[Path], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("MYSQL_PWD", raising=False)
    more = tmp_path / "more"
    more.mkdir(0o700)
    included = made_by_me(more / "b.cnf")
    file = made_by_me(tmp_path / ".my.cnf", f"[client]\n{line.format(more)}\n")
    url = f"mysql://127.0.0.1:1/d?option_files={file}"

    def by_url(_: Path) -> dict[str, object]:
        return MysqlEngine(url)._arguments

    for read in (usual_options, by_url):
        found = read(file)
        assert (found["user"], found["password"]) == ("eve", "hunter2")
    why = spoil(included)
    for read in (usual_options, by_url):
        with pytest.raises(UsageError, match=why) as caught:
            read(file)
        assert caught.value.hint
        assert "hunter2" not in f"{caught.value} {caught.value.hint}"


@AS_ROOT
def test_an_included_file_of_another_user_is_refused(tmp_path: Path) -> None:
    included = made_by_me(tmp_path / "b.cnf")
    os.chown(included, STRANGER, -1)
    file = made_by_me(tmp_path / "a.cnf", f"!include {included}\n")
    with refused(
        ErrorId.SECRET_FILE_NOT_PRIVATE, UsageError, naming=f"(uid {STRANGER})"
    ):
        usual_options(file)


@pytest.mark.timeout(20)
def test_files_that_include_each_other_end(tmp_path: Path) -> None:
    """The clients read each of them 1,024 times, and say nothing."""
    file = tmp_path / "a.cnf"
    made_by_me(file, f"!include {file}\n!include {file}\n[client]\nuser=eve\n")
    with refused(
        ErrorId.OPTION_FILE_INVALID,
        UsageError,
        naming=("line 1", str(file), "includes too much"),
    ):
        usual_options(file)
    for number in range(9):
        text = f"!include {tmp_path}/{number + 1}.cnf\n" * 3
        made_by_me(tmp_path / f"{number}.cnf", text)
    made_by_me(tmp_path / "9.cnf")
    with refused(
        ErrorId.OPTION_FILE_INVALID, UsageError, naming="1000 may be included in all"
    ):
        usual_options(tmp_path / "0.cnf")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[client]\n= hunter2\n", "line 2 of .* is no option"),
        ("[client]\npassword hunter2\n", "line 2 of .* is no option"),
        ("hunter2\n", "line 1 of .* before the first group"),
        ("[client]\npass=hunter2\n", "line 2 of .* has pass, which is not the whole"),
        ("[client]\nPassword=hunter2\n", "line 2 of .* has Password, which is not"),
        ("[connector_python]\nunknown=hunter2\n", "line 2 of .* has an option that"),
        ("[connector_python]\npassword=\nhunter2\n", "line 3 of .* has an option"),
        ("!includedir /none password=hunter2\n", "line 1 of .* includes a folder"),
        ("!include ~none password=hunter2\n", "line 1 of .* includes a file in"),
        ("[client]\rssl-ca=/x\rpassword=hunter2\n", "line 1 of .* carriage return"),
        ("# x\n[client]\nssl-ca=/x\rpassword=hunter2", "line 3 of .* carriage return"),
        (f"!include {'x' * 300}password=hunter2\n", "line 1 of .* includes a file, wh"),
        ("[client]\nssl-verify-cert=hunter2\n", "line 2 .* gives ssl-verify-cert a"),
        ("[client]\nssl-verify-cert=\n", "line 2 of .* gives ssl-verify-cert a value"),
        ("[client]\nssl-mode=hunter2\n", "line 2 of .* gives ssl-mode a value"),
        ("[client]\nssl-mode=VERIFY\n", "line 2 of .* gives ssl-mode a value"),
        ("[client]\nport=hunter2\n", "line 2 of .* gives port a value"),
        ("[client]\nhost\n", "line 2 of .* has host without a value"),
        ("[client]\nuser=hunter2\udcff\n", "user in line 2 of .* is not UTF-8"),
        (f"[client]\nx={'hunter2' * 600}\n", "line 2 of .* is longer than 4093"),
        ("[client]\nx=hunter2\0\n", "line 2 of .* holds a zero byte"),
        (None, "No such file"),
    ],
)
def test_an_option_file_that_cannot_be_used_is_refused(
    text: str | None, why: str, tmp_path: Path
) -> None:
    file = tmp_path / "client.cnf"
    if text is not None:
        file.write_bytes(text.encode("utf-8", "surrogateescape"))
        file.chmod(0o600)
    with pytest.raises(UsageError, match=why) as caught:
        MysqlEngine(f"mysql://127.0.0.1:1/d?option_files={file}")
    assert caught.value.hint
    assert "hunter2" not in f"{caught.value} {caught.value.hint}"


def test_the_driver_is_given_no_option_file_to_read_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it says comes before ~/.my.cnf, but a password in MYSQL_PWD before both."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("MYSQL_PWD", raising=False)
    (tmp_path / ".my.cnf").write_text("[client]\nuser=bob\npassword=usual\n")
    file = tmp_path / "client.cnf"
    file.write_text("[client]\nuser=eve\npasswd=hunter2\nssl-verify-cert=false\n")
    for each in (file, tmp_path / ".my.cnf"):
        each.chmod(0o600)
    url = f"mysql://127.0.0.1:1/d?option_files={file}"

    def options(password: str | None = None) -> dict[str, object]:
        found = MysqlEngine(url, password)._arguments
        assert not {"option_files", "passwd"} & found.keys()
        assert found["ssl_verify_cert"] is False
        return found

    assert (options()["user"], options()["password"]) == ("eve", "hunter2")
    assert options("given")["password"] == "given"
    monkeypatch.setenv("MYSQL_PWD", "environment")
    assert options()["password"] == "environment"


def test_a_password_that_is_not_used_may_be_anywhere(tmp_path: Path) -> None:
    file = tmp_path / ".my.cnf"
    file.write_text(MINE + "password=hunter2\n")
    file.chmod(0o644)
    assert usual_options(file, has_password=True)["user"] == "eve"


@pytest.mark.root
@pytest.mark.parametrize("place", ["my.cnf", "ssh_config"])
def test_a_file_of_another_user_is_refused(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But not one of the user who called sudo, whose home root may have."""
    monkeypatch.delenv("SUDO_UID", raising=False)
    monkeypatch.delenv("MYSQL_PWD", raising=False)
    file = tmp_path / place
    file.write_text("[client]\n" if place == "my.cnf" else "Host db1\n  User me\n")
    os.chown(file, STRANGER, -1)
    with pytest.raises(UsageError, match=rf"another user \(uid {STRANGER}\)"):
        PLACES[place](file)
    monkeypatch.setenv("SUDO_UID", str(STRANGER))
    PLACES[place](file)


def group_without_members() -> int:
    """Return one; where each has members, one that does not exist."""
    used = {entry.pw_gid for entry in pwd.getpwall()}
    groups = (one.gr_gid for one in grp.getgrall() if not one.gr_mem)
    return next((gid for gid in groups if gid not in used), 54322)


@pytest.mark.root
@pytest.mark.parametrize(
    ("mode", "gid"), [(0o666, -1), (0o660, STRANGER), (0o660, group_without_members())]
)
def test_a_configuration_of_ssh_that_others_may_write_is_refused(
    mode: int, gid: int, tmp_path: Path
) -> None:
    """It names programs, and ssh(1) refuses it as well.

    Whoever is in a group without a name, or of which no members are listed, is unknown.
    """
    file = tmp_path / "config"
    file.write_text("Host db1\n  ProxyCommand touch x\n")
    os.chown(file, -1, gid)
    file.chmod(mode)
    with refused(ErrorId.SSH_CONFIG_INVALID, UsageError, naming=f"may write {file}"):
        read_settings(Address("db1"), file)


def test_the_users_own_group_may_write_the_configuration_of_ssh(tmp_path: Path) -> None:
    """So are files made where the umask is 002, and Debian's ssh(1) reads them."""
    if grp.getgrgid(os.getgid()).gr_name != pwd.getpwuid(os.getuid()).pw_name:
        pytest.skip("this user has no group of its own")
    file = tmp_path / "config"
    file.write_text("Host db1\n  User me\n")
    file.chmod(0o664)
    assert read_settings(Address("db1"), file).user == "me"


def test_a_service_file_that_others_may_write_gives_no_password_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says which server may ask for the password."""
    file = tmp_path / "services"
    monkeypatch.setenv("PGPASSWORD", "hunter2")
    monkeypatch.setenv("PGSERVICEFILE", str(file))
    monkeypatch.setenv("PGSERVICE", "x")
    text = "[x]\nhost=127.0.0.1\nport={}\nsslmode=disable\nrequire_auth=password\n"
    for mode, expected in ((0o644, True), (0o666, False)):
        heard: list[bytes] = []
        with hostile(asks(CLEARTEXT, heard)) as port:
            file.write_text(text.format(port))
            file.chmod(mode)
            with pytest.raises(DbcheckError, match="cannot connect"):
                PostgresqlEngine("postgresql://eve@/d").facts()
        assert (b"hunter2" in b"".join(heard)) is expected
    with refused(
        ErrorId.SECRET_FILE_NOT_PRIVATE, naming=f"any user may write {file}"
    ) as caught:
        PostgresqlEngine("postgresql://eve@/d").endpoints()
    assert f"chmod o-w {file}" in caught.value.hint
    assert PostgresqlEngine("postgresql://eve@/d").accepts()
    monkeypatch.delenv("PGSERVICE")
    assert PostgresqlEngine("postgresql://eve@db1/d").endpoints() == [("db1", 5432)]
    monkeypatch.setenv("PGSERVICE", "x")
    monkeypatch.delenv("PGSERVICEFILE")
    monkeypatch.setenv("HOME", str(tmp_path / "none"))
    monkeypatch.setenv("PGSYSCONFDIR", str(tmp_path))
    file.rename(tmp_path / "pg_service.conf")
    with refused(
        ErrorId.SECRET_FILE_NOT_PRIVATE,
        naming=("any user may write", "pg_service.conf"),
    ):
        PostgresqlEngine("postgresql://eve@/d").endpoints()


@pytest.mark.parametrize("name", ["host", "dbname", "user", "port", "password"])
def test_a_service_file_in_another_encoding_is_understood_or_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "services"
    given = {"host": b"127.0.0.1", "port": b"1", "dbname": b"d", "user": b"u"}
    given[name] = b"Z\xfcrich"
    lines = b"".join(b"%s=%s\n" % (key.encode(), given[key]) for key in given)
    path.write_bytes(b"# Gr\xfc\xdfe\n[x]\n" + lines)
    monkeypatch.setenv("PGSERVICEFILE", str(path))
    with pytest.raises(EngineError, match="cannot connect to") as caught:
        PostgresqlEngine("postgresql://?service=x").facts()
    assert caught.value.hint
    if name == "password":
        assert caught.value.id is ErrorId.CONNECTION_FAILED


def test_a_home_whose_name_is_no_text_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path) + "/\udcff\udcfe")
    with refused(ErrorId.CONNECTION_FAILED, EngineError, naming="port 1 failed"):
        postgresql()
