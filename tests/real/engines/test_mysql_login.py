"""How an account logs in: with TLS, over the socket, and never with a bare password."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import pytest
from sqlalchemy.engine import make_url

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError, UsageError
from dbcheck.engines.registry import open_engine
from dbcheck.lab.servers.base import DatabaseServer
from dbcheck.ports.engine import Engine
from dbcheck.rows.plans.plan import INSERT
from tests.kit.accounts import connect
from tests.kit.far_host import far_listener, far_network
from tests.kit.overheard import overheard
from tests.kit.refusals import refused

SECRET = "hunter2-and-more"


def engine_at(server: DatabaseServer, secret: str, **changed: str) -> Engine:
    """Return the engine for another account, with options in the URL."""
    url = make_url(server.url).set(username="eve").update_query_dict(changed)
    return open_engine(url.render_as_string(), secret)


@contextlib.contextmanager
def account(
    server: DatabaseServer, identified: str, name: str = "eve"
) -> Iterator[None]:
    """Give the server that account, with the cache of passwords cold."""
    with contextlib.closing(connect(server, "dbcheck")) as connection:
        cursor = connection.cursor()
        for host in ("127.0.0.1", "localhost"):
            cursor.execute(f"create user {name}@'{host}' identified {identified}")
            cursor.execute(f"grant all on *.* to {name}@'{host}'")
        cursor.execute("flush privileges")
        try:
            yield
        finally:
            cursor.execute(f"drop user {name}@'127.0.0.1', {name}@'localhost'")


@pytest.fixture
def cold(mysql_server: DatabaseServer) -> Iterator[DatabaseServer]:
    """A MySQL that has not seen eve's password since it was set."""
    with account(mysql_server, f"with caching_sha2_password by '{SECRET}'"):
        yield mysql_server


def test_tls_is_used_wherever_the_server_offers_it(cold: DatabaseServer) -> None:
    engine_at(cold, SECRET).check((INSERT,))
    engine_at(cold, SECRET, ssl_disabled="false").check((INSERT,))


def test_the_servers_certificate_is_verified(cold: DatabaseServer) -> None:
    authority = str(cold.data / "ca.pem")
    engine_at(cold, SECRET, ssl_ca=authority, ssl_verify_cert="true").facts()
    other = str(cold.data / "public_key.pem")
    with refused(ErrorId.SERVER_CERTIFICATE_REFUSED, EngineError) as caught:
        engine_at(cold, SECRET, ssl_ca=other, ssl_verify_cert="true").facts()
    assert "ssl_ca" in caught.value.hint
    # Made for no host name at all.
    with refused(ErrorId.SERVER_CERTIFICATE_REFUSED, EngineError):
        engine_at(
            cold,
            SECRET,
            ssl_ca=authority,
            ssl_verify_cert="true",
            ssl_verify_identity="true",
        ).facts()


def test_the_socket_needs_no_tls(cold: DatabaseServer) -> None:
    where = str(cold.run / "server/socket")
    engine_at(cold, SECRET, unix_socket=where, ssl_disabled="true").facts()


def test_without_tls_the_password_stays_here(cold: DatabaseServer) -> None:
    with overheard(cold.port) as (port, heard):
        url = make_url(cold.url).set(username="eve", port=port)
        bare = url.update_query_dict({"ssl_disabled": "true"}).render_as_string()
        with refused(ErrorId.TLS_NEEDED, EngineError, naming="has no TLS") as caught:
            open_engine(bare, SECRET).facts()
    assert "ssl_disabled" in caught.value.hint and "socket" in caught.value.hint
    assert heard
    assert SECRET.encode() not in b"".join(heard)
    engine_at(cold, SECRET).facts()  # the server's cache is warm now
    engine_at(cold, SECRET, ssl_disabled="true").facts()


@pytest.mark.root
def test_a_port_of_this_machine_counts_by_whose_it_is(cold: DatabaseServer) -> None:
    """The lab's server is neither root's nor that of a package."""
    named = make_url(cold.url).set(username="eve")
    url = named.difference_update_query(["server_account"])

    def engine(**options: str) -> Engine:
        return open_engine(url.update_query_dict(options).render_as_string(), SECRET)

    for options in ({}, {"server_account": "daemon"}):
        with refused(
            ErrorId.SERVER_NOT_VERIFIED, EngineError, naming="not verified"
        ) as caught:
            engine(**options).facts()
        assert "server_account=" in caught.value.hint
        assert "unix_socket=" in caught.value.hint
    verified = {"ssl_ca": str(cold.data / "ca.pem"), "ssl_verify_cert": "true"}
    engine(**verified).facts()
    with account(cold, f"with caching_sha2_password by '{SECRET}'", "cold"):
        with overheard(cold.port) as (port, heard):  # as the port of a container
            url = url.set(username="cold", port=port)
            engine().facts()
        assert heard and SECRET.encode() not in b"".join(heard)
    with refused(ErrorId.TARGET_URL_OPTION_INVALID, UsageError, naming="no account"):
        engine(server_account="dbcheck-no-such")


@contextlib.contextmanager
def far(server: DatabaseServer) -> Iterator[tuple[str, int, list[bytes]]]:
    """The server as another host has it, and what that host hears."""
    with (
        far_network() as network,
        far_listener(network) as listener,
        overheard(server.port, listener) as (port, heard),
    ):
        yield network.host, port, heard


@pytest.mark.root
def test_another_host_has_to_be_verified_for_the_password(cold: DatabaseServer) -> None:
    with far(cold) as (host, port, heard):
        url = make_url(cold.url).set(username="eve", host=host, port=port)

        def engine(**options: str) -> Engine:
            changed = url.update_query_dict(options).render_as_string()
            return open_engine(changed, SECRET)

        for options in ({}, {"ssl_disabled": "true"}):
            with refused(
                ErrorId.SERVER_NOT_VERIFIED, EngineError, naming="not verified"
            ) as caught:
                engine(**options).facts()
            assert "ca.pem" in caught.value.hint
        verified = {"ssl_ca": str(cold.data / "ca.pem"), "ssl_verify_cert": "true"}
        engine(**verified).check((INSERT,))
        with refused(
            ErrorId.SERVER_NOT_VERIFIED, EngineError, naming="not verified"
        ):  # the cache is warm now
            engine().facts()
        engine(ssl_verify_cert="false").facts()
        assert SECRET.encode() not in b"".join(heard)


@pytest.mark.root
def test_another_host_may_ask_for_the_answer_to_a_challenge(
    mariadb_server: DatabaseServer,
) -> None:
    identified = f"via mysql_native_password using password('{SECRET}')"
    with account(mariadb_server, identified), far(mariadb_server) as (host, port, _):
        url = make_url(mariadb_server.url).set(username="eve", host=host, port=port)
        open_engine(url.render_as_string(), SECRET).facts()


def test_a_plugin_that_the_driver_lacks_is_named(
    mariadb_server: DatabaseServer,
) -> None:
    with contextlib.closing(connect(mariadb_server, "dbcheck")) as connection:
        try:
            connection.cursor().execute("install soname 'auth_ed25519'")
        except Exception as error:
            pytest.skip(f"MariaDB has no ed25519 here: {error}")
    try:
        with account(mariadb_server, f"via ed25519 using password('{SECRET}')"):
            with pytest.raises(EngineError, match="ed25519") as caught:
                engine_at(mariadb_server, SECRET).facts()
            assert "mysql_native_password" in caught.value.hint
    finally:
        with contextlib.closing(connect(mariadb_server, "dbcheck")) as connection:
            connection.cursor().execute("uninstall soname 'auth_ed25519'")


@pytest.mark.parametrize(
    ("option", "refuse", "named"),
    [
        ("ssl_disabled", UsageError, "'perhaps'"),
        ("ssl_verify_cert", UsageError, "'perhaps'"),
        ("ssl_mode", UsageError, "'ssl_mode' is unknown"),
    ],
)
def test_an_option_that_means_nothing_is_refused(
    mysql_server: DatabaseServer, option: str, refuse: type[Exception], named: str
) -> None:
    call: Callable[[], object] = lambda: engine_at(  # noqa: E731
        mysql_server, SECRET, **{option: "perhaps"}
    ).facts()
    with pytest.raises(refuse, match=named) as caught:
        call()
    assert getattr(caught.value, "hint", "")
