"""What MySQL's own clients find in their files: accounts, and whom to trust."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.engines.mysql.engine import MysqlEngine
from dbcheck.engines.mysql.optionfile import Client
from dbcheck.engines.mysql.options import client_options
from tests.kit.refusals import refused


@pytest.fixture(autouse=True)
def no_password_in_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MYSQL_PWD", raising=False)


def options(
    tmp_path: Path, text: str, client: Client = Client.MYSQL
) -> dict[str, object]:
    file = tmp_path / "my.cnf"
    file.write_text(text)
    file.chmod(0o600)
    return client_options(client, file)


def test_reads_the_client_section(tmp_path: Path) -> None:
    text = "[mysqld]\npassword=wrong\n[client]\nuser = eve\npassword='a#b;%c'\n"
    assert options(tmp_path, text) == {"user": "eve", "password": "a#b;%c"}


def test_ignores_what_it_need_not_understand(tmp_path: Path) -> None:
    text = "!include /etc/none\n[client]\nskip-ssl\nhost=db\npassword=x:y\n"
    assert options(tmp_path, text) == {"password": "x:y"}


APP = {"user": "app", "password": "secret"}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("[client]\nuser=app\n\tpassword=secret\n", APP),
        ("[client]\nuser = app   # who\npassword = secret#tail\n", APP),
        ('[client]\nuser=app\npassword = "sec#ret" # x\n', {"password": "sec#ret"}),
        ('[client]\nuser=app\npassword="a\\\\b\\sc"\n', {"password": "a\\b c"}),
        ("[client] # [x]\nuser=app\npassword=secret\n", APP),
        ("[CLIENT]\nuser=app\npassword=secret\n", APP),
        ("[DEFAULT]\nuser=eve\n[client]\npassword=x\n", {"password": "x"}),
        ("[client]\nuser=app\npassword=x\npassword=secret\n", APP),
        ("[client]\nuser=app\npassword=a\x0cb\n", {"password": "a\x0cb"}),
        ("[client]\nloose-user=app\nloose_password=secret\n", APP),
        ("[client]\nuser=app\nskip-password\n", {"password": ""}),
    ],
)
def test_a_file_is_read_as_the_clients_read_it(
    text: str, found: dict[str, str], tmp_path: Path
) -> None:
    for client in Client:
        assert options(tmp_path, text, client).items() >= found.items()
    file = tmp_path / "my.cnf"
    arguments = MysqlEngine(f"mysql:///x?option_files={file}")._arguments
    assert arguments.items() >= found.items()


def test_the_scheme_decides_whose_groups_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    text = "[client-mariadb]\nuser=app\npassword=secret\n[client-server]\nuser=app2\n"
    found = {"user": "app2", "password": "secret"}
    assert options(tmp_path, text, Client.MARIADB) == found
    assert options(tmp_path, text, Client.MYSQL) == {}
    (tmp_path / ".my.cnf").write_text(text)
    (tmp_path / ".my.cnf").chmod(0o600)
    for more in ("", f"?option_files={tmp_path}/my.cnf"):
        mariadb = MysqlEngine(f"mariadb+mysqlconnector://db1/x{more}")
        assert mariadb._arguments.items() >= found.items()
        assert not MysqlEngine(f"mysql://db1/x{more}")._arguments.keys() & found.keys()


def test_a_name_is_shortened_for_mariadb_alone(tmp_path: Path) -> None:
    """MariaDB's clients take pass for password; those of MySQL ignore it since 8.0."""
    text = "[client]\nuser=app\npass=secret\n"
    assert options(tmp_path, text, Client.MARIADB) == APP
    with refused(
        ErrorId.OPTION_FILE_INVALID, UsageError, naming=("line 3", "my.cnf", "has pass")
    ) as caught:
        options(tmp_path, text, Client.MYSQL)
    assert "Write password" in caught.value.hint


def test_an_option_file_of_the_url_has_types(tmp_path: Path) -> None:
    file = tmp_path / "client.cnf"
    file.write_text(
        "[client]\nuser=1\nport=3307\nsocket='/a b'\nssl-mode=VERIFY_CA\nnone=1\n"
        "[connector_python]\npasswd=007\ncompress\nraw=on\ntls-versions=['TLSv1.3']\n"
        "[mine]\nuser=eve\n"
    )
    file.chmod(0o600)
    found = MysqlEngine(f"mysql:///x?option_files={file}")._arguments
    assert (
        found.items()
        >= {
            **{"user": "1", "port": 3307, "unix_socket": "/a b", "password": "007"},
            **{"compress": True, "raw": True, "tls_versions": ["TLSv1.3"]},
        }.items()
    )
    assert not {"none", "ssl_mode", "ssl_verify_cert"} & found.keys()
    mine = MysqlEngine(f"mysql:///x?option_files={file}&option_groups=mine")
    assert mine._arguments["user"] == "eve"
    assert mine._arguments["port"] == 3306  # and not that of [client]


def test_a_host_that_the_driver_reads_otherwise_is_refused(tmp_path: Path) -> None:
    """It removes blanks at the ends, and so reached a host that nobody compared."""
    file = tmp_path / "client.cnf"
    for line in ('host=" 127.0.0.1"', r"host=127.0.0.1\t", r'socket="\s"'):
        file.write_text(f"[client]\n{line}\n")
        file.chmod(0o600)
        with refused(
            ErrorId.TARGET_URL_OPTION_INVALID, UsageError, naming="in the target's URL"
        ):
            MysqlEngine(f"mysql://u@/x?option_files={file}").endpoints()


@pytest.mark.parametrize(
    ("lines", "verified"),
    [
        ("ssl-ca=/ca.pem", {"ssl_ca": "/ca.pem"}),
        (
            "ssl_ca='/ca.pem'\nssl-mode=verify_ca",
            {
                "ssl_ca": "/ca.pem",
                "ssl_verify_cert": True,
                "ssl_verify_identity": False,
            },
        ),
        (
            "ssl-mode=VERIFY_IDENTITY",
            {"ssl_verify_cert": True, "ssl_verify_identity": True},
        ),
        (
            "ssl-verify-server-cert",
            {"ssl_verify_cert": True, "ssl_verify_identity": True},
        ),
        (
            "ssl_verify_server_cert = 1",
            {"ssl_verify_cert": True, "ssl_verify_identity": True},
        ),
        ("ssl-verify-server-cert=OFF", {"ssl_verify_cert": False}),
        ("skip-ssl-verify-server-cert", {"ssl_verify_cert": False}),
        ("ssl-mode=verify_c", {"ssl_verify_cert": True, "ssl_verify_identity": False}),
        ("ssl-mode=REQUIRED\nssl-capath=/x", {}),
    ],
)
def test_the_server_is_verified_as_other_clients_do(
    tmp_path: Path, lines: str, verified: dict[str, object]
) -> None:
    assert options(tmp_path, f"[client]\n{lines}\n") == verified
    named = MysqlEngine(f"mysql:///x?option_files={tmp_path}/my.cnf")._arguments
    assert {key: named[key] for key in named if key.startswith("ssl")} == verified


def test_an_option_file_of_the_url_decides_who_is_verified(tmp_path: Path) -> None:
    file = tmp_path / "client.cnf"
    file.write_text("[client]\nssl-verify-cert=true\nhost=db1\nport=3307\n")
    file.chmod(0o600)
    engine = MysqlEngine(f"mysql:///x?option_files={file}")
    assert engine._arguments["ssl_verify_cert"] is True
    assert engine.endpoints() == [("db1", 3307)]


def test_without_tls_there_is_nothing_to_verify(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".my.cnf").write_text("[client]\nssl-mode=VERIFY_CA\n")
    monkeypatch.setenv("HOME", str(tmp_path))

    def verifies(option: str) -> bool:
        engine = MysqlEngine(f"mysql://eve@db1/x?{option}")
        return bool(engine._arguments.get("ssl_verify_cert"))

    assert verifies("")
    assert not verifies("ssl_verify_cert=false")
    assert not verifies("unix_socket=/run/x")
    assert not verifies("ssl_disabled=true")


@pytest.mark.parametrize("text", ["", "[client]", "[mysqld]\nuser=x", "# user=x"])
def test_says_nothing_where_nothing_is(tmp_path: Path, text: str) -> None:
    assert options(tmp_path, text) == {}


def test_no_file(tmp_path: Path) -> None:
    assert client_options(Client.MYSQL, tmp_path / "none") == {}


def test_the_environment_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MYSQL_PWD", "from-environment")
    found = options(tmp_path, "[client]\nuser=eve\npassword=from-file\n")
    assert found == {"user": "eve", "password": "from-environment"}


def test_a_password_that_is_not_utf_8_is_refused_where_it_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "my.cnf"
    file.write_bytes(b"# \xe9\n[client]\nuser=eve\npassword=hunter2\xff\n")
    file.chmod(0o600)
    with refused(
        ErrorId.SECRET_NOT_UTF8, UsageError, naming=("password", "line 4", "my.cnf")
    ) as caught:
        client_options(Client.MYSQL, file)
    assert "hunter2" not in str(caught.value)
    assert client_options(Client.MYSQL, file, has_password=True) == {"user": "eve"}
    file.write_bytes(b"# \xe9\n[client]\npassword=hunter2\n")
    assert client_options(Client.MYSQL, file) == {"password": "hunter2"}
    monkeypatch.setitem(os.environb, b"MYSQL_PWD", b"hunter2\xff")
    with refused(ErrorId.SECRET_NOT_UTF8, UsageError, naming="MYSQL_PWD") as caught:
        client_options(Client.MYSQL, file)
    assert "hunter2" not in str(caught.value)
