"""What MySQL's own clients find in their files: accounts, and whom to trust."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dbcheck.engines.mysql.engine import MysqlEngine
from dbcheck.engines.mysql.options import client_options
from dbcheck.errors import UsageError


@pytest.fixture(autouse=True)
def no_password_in_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MYSQL_PWD", raising=False)


def options(tmp_path: Path, text: str) -> dict[str, object]:
    file = tmp_path / "my.cnf"
    file.write_text(text)
    file.chmod(0o600)
    return client_options(file)


def test_reads_the_client_section(tmp_path: Path) -> None:
    text = "[mysqld]\npassword=wrong\n[client]\nuser = eve\npassword='a#b;%c'\n"
    assert options(tmp_path, text) == {"user": "eve", "password": "a#b;%c"}


def test_ignores_what_it_need_not_understand(tmp_path: Path) -> None:
    text = "!includedir /etc/none\n[client]\nskip-ssl\nhost=db\npassword=x:y\n"
    assert options(tmp_path, text) == {"password": "x:y"}


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
        ("ssl-mode=REQUIRED\nssl-capath=/x", {}),
    ],
)
def test_the_server_is_verified_as_other_clients_do(
    tmp_path: Path, lines: str, verified: dict[str, object]
) -> None:
    assert options(tmp_path, f"[client]\n{lines}\n") == verified


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


@pytest.mark.parametrize("text", ["", "[client]", "no section=1", "[client\n"])
def test_says_nothing_where_nothing_is(tmp_path: Path, text: str) -> None:
    assert options(tmp_path, text) == {}


def test_no_file(tmp_path: Path) -> None:
    assert client_options(tmp_path / "none") == {}


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
    with pytest.raises(UsageError, match="my.cnf is not UTF-8") as caught:
        client_options(file)
    assert "hunter2" not in str(caught.value)
    assert client_options(file, has_password=True) == {"user": "eve"}
    file.write_bytes(b"# \xe9\n[client]\npassword=hunter2\n")
    assert client_options(file) == {"password": "hunter2"}
    monkeypatch.setitem(os.environb, b"MYSQL_PWD", b"hunter2\xff")
    with pytest.raises(UsageError, match="MYSQL_PWD .* not UTF-8") as caught:
        client_options(file)
    assert "hunter2" not in str(caught.value)
