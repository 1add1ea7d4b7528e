"""Which logins libpq is to refuse, from all that decides it."""

from __future__ import annotations

from pathlib import Path

import psycopg2.extensions
import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError
from dbcheck.engines.postgresql import libpq
from dbcheck.engines.postgresql.libpq import REFUSED, libpq_options
from dbcheck.engines.registry import open_engine
from tests.kit.refusals import refused

SECRET = "hunter2-and-more"
REFUSES = {"require_auth": REFUSED}
DECIDED = ("require_auth", "requirepeer")


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    names = ("HOST", "HOSTADDR", "SSLMODE", "REQUIREAUTH", "REQUIREPEER", "SERVICE")
    for name in names:
        monkeypatch.delenv(f"PG{name}", raising=False)
    monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "services"))


def added(**arguments: str) -> dict[str, str]:
    """Return what the options have beyond the *arguments*."""
    found = libpq_options("db1", {"user": "eve", "password": SECRET, **arguments})
    assert found["password"] == SECRET
    return {name: value for name, value in found.items() if name in DECIDED}


@pytest.mark.parametrize(
    "host",
    [
        *("db1", "192.0.2.77", "::ffff:192.0.2.77", "db1,db2", "127.0.0.1,db1"),
        *("127.0.0.1", "localhost", "::1", "/run,127.0.0.1", "@x"),
    ],
)
def test_to_an_address_no_password_goes_in_clear(host: str) -> None:
    """Not to one of this machine either: any of its users may answer there."""
    assert added(host=host) == REFUSES


@pytest.mark.parametrize("host", ["", "/run", "/run,", "/run,/tmp"])
@pytest.mark.parametrize("more", [{}, {"sslmode": "verify-full"}])
def test_nor_to_a_socket_at_which_nobody_is_known(
    host: str, more: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    owners = {"/run/.s.PGSQL.5432": "postgres"}
    monkeypatch.setattr(libpq, "find_socket_owner", owners.get)
    found = added(host=host, **more)
    assert found == ({"requirepeer": "postgres"} if host == "/run" else REFUSES)


def test_the_account_at_a_socket_is_asked_for_by_its_port(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    owners = {"/a/.s.PGSQL.1": "x", "/b/.s.PGSQL.2": "x", "/b/.s.PGSQL.1": "y"}
    monkeypatch.setattr(libpq, "find_socket_owner", owners.get)
    assert added(host="/a,/b", port="1,2") == {"requirepeer": "x"}
    assert added(host="/a,/b", port="1") == REFUSES
    assert added(host="/b", port="1", requirepeer="eve") == {"requirepeer": "eve"}
    monkeypatch.setenv("PGREQUIREPEER", "eve")
    assert added(host="/b", port="1") == {}
    assert added(host="127.0.0.1", port="1") == REFUSES  # it is for sockets alone


def test_an_address_decides_before_its_host() -> None:
    assert added(host="localhost", hostaddr="192.0.2.77") == REFUSES
    assert added(host="/run", hostaddr="127.0.0.1", requirepeer="eve") == REFUSES | {
        "requirepeer": "eve"
    }


@pytest.mark.parametrize("mode", ["disable", "prefer", "require"])
def test_tls_alone_verifies_nothing(mode: str) -> None:
    assert added(host="db1", sslmode=mode) == REFUSES


@pytest.mark.parametrize("mode", ["verify-ca", "verify-full"])
def test_a_server_that_is_verified_gets_what_it_asks_for(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert added(host="db1", sslmode=mode) == {}
    monkeypatch.setenv("PGSSLMODE", mode)
    assert added(host="db1") == {}
    assert added(host="db1", sslmode="prefer") == REFUSES


def test_what_the_user_says_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    assert added(host="db1", require_auth="md5") == {"require_auth": "md5"}
    monkeypatch.setenv("PGREQUIREAUTH", "password")
    assert added(host="db1") == {}


def test_the_host_may_stand_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGHOST", "db1")
    assert added() == REFUSES


def test_a_service_is_read(tmp_path: Path) -> None:
    (tmp_path / "services").write_text(
        "[far]\nhost=db1\n[sure]\nhost=db1\nsslmode=verify-full\n"
    )
    assert added(service="far") == REFUSES
    assert added(service="sure") == {}


def test_where_to_connect_is_the_same_to_either_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """psycopg takes what the environment says before what a service does."""
    (tmp_path / "services").write_text("[far]\nhost=db1,db2\nport=1,2\n")
    monkeypatch.setenv("PGHOST", "db3")
    monkeypatch.setenv("PGHOSTADDR", "192.0.2.1,192.0.2.2")
    found = libpq_options("db1", {"service": "far"})
    assert (found["host"], found["port"]) == ("db1,db2", "1,2")
    assert found["hostaddr"] == "192.0.2.1,192.0.2.2"
    monkeypatch.delenv("PGHOSTADDR")
    assert "hostaddr" not in libpq_options("db1", {"service": "far"})


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("sslmode=perhaps", "sslmode"),
        ("perhaps=1", "perhaps"),
        ("service=perhaps", "not found"),
    ],
)
def test_what_libpq_cannot_use_goes_no_further(query: str, said: str) -> None:
    engine = open_engine(f"postgresql://eve@db1/x?{query}", SECRET)
    with refused(ErrorId.TARGET_URL_OPTION_INVALID, EngineError, naming=said) as caught:
        engine.facts()
    assert SECRET not in str(caught.value)
    assert "options" in caught.value.hint


def test_a_libpq_that_cannot_refuse_connects_to_nobody_it_does_not_verify(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(psycopg2.extensions, "libpq_version", lambda: 15_00_10)
    with refused(ErrorId.LIBPQ_TOO_OLD, EngineError) as caught:
        added(host="db1")
    assert "libpq 16" in caught.value.hint
    assert added(host="db1", sslmode="verify-full") == {}
    assert added(host="/x", requirepeer="eve") == {"requirepeer": "eve"}
