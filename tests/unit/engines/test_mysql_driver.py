"""What dbcheck takes of mysql-connector-python beyond its documented interface."""

from __future__ import annotations

import inspect
import re
import ssl
from pathlib import Path

import mysql.connector
import pytest
from mysql.connector.authentication import MySQLAuthenticator
from mysql.connector.connection import MySQLConnection
from mysql.connector.constants import ClientFlag
from mysql.connector.network import MySQLTCPSocket

import dbcheck
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.engines.mysql import connection as our_connection
from dbcheck.engines.mysql.connection import OpenConnection, require_supported
from dbcheck.engines.mysql.engine import MysqlEngine
from tests.kit.refusals import refused

_ENGINE = Path(dbcheck.__file__).parent / "engines" / "mysql"
_PRIVATE = re.compile(
    r"connection\._[a-z]|_client_flags|_authenticator\b|\bself\._socket\.sock\b"
    r"|unread_result|mysql\.connector\.(authentication|network|connection)\b"
)


def names(function: object) -> list[str]:
    return list(inspect.signature(function).parameters)  # type: ignore[arg-type]


def test_a_connection_has_what_we_use_of_it() -> None:
    plain = MySQLConnection()
    assert isinstance(plain._authenticator, MySQLAuthenticator)
    assert isinstance(plain._client_flags, int)
    assert plain._socket is None
    assert plain.unread_result is False
    assert MySQLTCPSocket().sock is None


def test_our_connection_shows_it() -> None:
    authenticator = MySQLAuthenticator()
    ours = OpenConnection(authenticator)
    assert ours._authenticator is authenticator
    assert ours.wire() is None
    for flag, shows in (
        (ClientFlag.COMPRESS, "is_compressed"),
        (ClientFlag.CLIENT_QUERY_ATTRIBUTES, "has_query_attributes"),
    ):
        for flags in (0, flag):
            ours._client_flags = flags
            assert getattr(ours, shows) is bool(flags)
    ours._socket = MySQLTCPSocket()
    assert ours.wire() is ours._socket.sock
    ours.unread_result = True
    ours.forget_rows()
    assert ours.unread_result is False


def test_the_driver_logs_in_by_the_connections_authenticator() -> None:
    source = inspect.getsource(MySQLConnection._do_auth)
    assert "self._authenticator.setup_ssl(" in source
    assert "self._authenticator.authenticate(" in source


def test_what_we_replace_takes_what_the_driver_gives_it() -> None:
    assert names(MySQLAuthenticator.setup_ssl)[:4] == [
        "self",
        "sock",
        "host",
        "ssl_options",
    ]
    given = names(MySQLAuthenticator.authenticate)
    assert given[:3] == ["self", "sock", "handshake"]
    assert {"password1", "password2", "password3", "auth_plugin"} <= set(given)
    ours = our_connection._Trusting.build_ssl_context
    assert names(ours) == names(MySQLTCPSocket.build_ssl_context)
    assert isinstance(MySQLAuthenticator.ssl_enabled, property)
    assert names(MySQLTCPSocket.recv)[0] == "self"


@pytest.mark.parametrize("authority", [None, "system"])
@pytest.mark.parametrize("certificate", [False, True])
@pytest.mark.parametrize("identity", [False, True])
def test_a_connection_verifies_what_it_was_asked_to(
    authority: str | None, certificate: bool, identity: bool
) -> None:
    """An authority alone verifies nothing, as in the driver."""
    ca = ssl.get_default_verify_paths().cafile if authority else None
    guarded = our_connection._Trusting(MySQLTCPSocket())
    context = guarded.build_ssl_context(
        ca, None, None, certificate, identity, None, None
    )
    verifies = certificate or identity
    assert context.verify_mode is (ssl.CERT_REQUIRED if verifies else ssl.CERT_NONE)
    assert context.check_hostname is identity
    assert bool(context.get_ca_certs()) is bool(ca or verifies)


def test_one_module_alone_reaches_into_the_driver() -> None:
    found = {
        path.name
        for path in _ENGINE.glob("*.py")
        if _PRIVATE.search(path.read_text("utf-8"))
    }
    assert found == {"connection.py"}


@pytest.mark.parametrize("version", [(9, 5, 0), (26, 9, 9), (27, 0, 0)])
def test_another_version_is_refused(version: tuple[int, ...]) -> None:
    require_supported((26, 10, 0))
    require_supported((26, 99, 1))
    with refused(ErrorId.DRIVER_NOT_SUPPORTED, UsageError, naming="26.10") as e:
        require_supported(version)
    assert '"mysql-connector-python>=26.10,<27"' in e.value.hint


def test_an_engine_refuses_it_before_it_connects(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(mysql.connector, "__version_info__", (27, 1, 0, "", 1))
    with refused(ErrorId.DRIVER_NOT_SUPPORTED, UsageError, naming="27.1.0"):
        MysqlEngine("mysql://db1/d")


def test_setup_names_the_same_versions() -> None:
    setup = Path(__file__).parents[3] / "setup.cfg"
    assert "mysql-connector-python>=26.10.0,<27\n" in setup.read_text("utf-8")
