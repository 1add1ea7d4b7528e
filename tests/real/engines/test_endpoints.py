"""Where a target is, compared with where its drivers connect."""

from __future__ import annotations

import random
import re
import socket
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg2
import pytest
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from dbcheck.base.errors import DbcheckError
from dbcheck.engines import registry
from dbcheck.engines.postgresql.libpq import libpq_options
from dbcheck.lab.servers.base import DatabaseServer
from dbcheck.remote.same_host import resolve

Place = tuple[str, int]
# What libpq says of each host that it tried (fe-connect.c of PostgreSQL 17).
_TRIED = re.compile(
    r'at "(?P<host>[^"]*)"(?: \((?P<address>[^)]*)\))?, port (?P<port>[^"]*?) failed'
    r'|on socket "[^"]*\.s\.PGSQL\.(?P<socket>\d+)" failed'
    r'|could not translate host name "(?P<name>[^"]*)"'
)
_VARIABLES = ("HOST", "HOSTADDR", "PORT", "SERVICE", "SERVICEFILE", "SSLMODE")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with services; the environment names no server."""
    for name in _VARIABLES:
        monkeypatch.delenv(f"PG{name}", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".pg_service.conf").write_text(
        "[far]\nhost=127.0.0.9\nport=3\n[two]\nhost=127.0.0.8,::1\nport=4\n"
        "[at]\nhostaddr=127.0.0.7\n[port]\nport=7\n"
    )
    return tmp_path


def open_engine(url: str, password: str | None = None) -> Any:
    """Return the engine, which can say whether its server accepts connections."""
    return registry.open_engine(url, password)


def tried(url: str) -> list[Place]:
    """Return where libpq tries to connect, of itself: nothing listens there."""
    parsed = make_url(url).set(drivername="postgresql+psycopg2")
    arguments = parsed.get_dialect()().create_connect_args(parsed)[1]
    with pytest.raises(psycopg2.Error, match="failed|could not|invalid") as caught:
        psycopg2.connect(**{"dbname": "d", **arguments}, connect_timeout=2)
    if re.search("invalid (port number|integer value)", str(caught.value)):
        raise caught.value
    found = [
        (each["host"], int(each["port"]))
        if each["port"]
        else ("", int(each["socket"]))
        if each["socket"]
        else (each["name"], 0)
        for each in _TRIED.finditer(str(caught.value))
    ]
    return list(dict.fromkeys(found))


def told(url: str) -> list[Place]:
    """Return where dbcheck says that it connects."""
    return list(dict.fromkeys(open_engine(url).endpoints()))


@pytest.mark.parametrize(
    ("variables", "url"),
    [
        ({}, "postgresql://u@127.0.0.2:1/d"),
        ({}, "postgresql://u@/d?host=127.0.0.2:1"),
        ({}, "postgresql://u@/d?host=127.0.0.2&port=1"),
        ({}, "postgresql://u@/d?host=127.0.0.2:1&host=127.0.0.3:2"),
        ({}, "postgresql://u@/d?host=127.0.0.2,127.0.0.3&port=1,2"),
        ({}, "postgresql://u@127.0.0.2,127.0.0.3:1/d"),
        ({}, "postgresql://u@127.0.0.9:1/d?host=127.0.0.2"),
        ({}, "postgresql://u@127.0.0.9:1/d?hostaddr=127.0.0.2"),
        ({}, "postgresql://u@[::1]:1/d"),
        ({}, "postgresql://u@/d?host=::1&port=1"),
        ({}, "postgresql://u@/d?host=::1,127.0.0.2&port=1,2"),
        ({}, "postgresql://u@/d?host=/no/such/folder:1"),
        ({}, "postgresql://u@/d?host=/no/such/folder&port=1"),
        ({}, "postgresql://u@/d?host=/no/such/folder:1&host=127.0.0.2"),
        ({}, "postgresql://u@/d?host=@none&port=1"),
        ({}, "postgresql://u@/d?port=1"),
        ({}, "postgresql://u@/d?service=far"),
        ({}, "postgresql://u@/d?service=far&port=5"),
        ({}, "postgresql://u@127.0.0.2/d?service=far"),
        ({}, "postgresql://u@/d?service=two"),
        ({}, "postgresql://u@/d?service=at"),
        ({}, "postgresql://u@/d?service=port&host=127.0.0.2"),
        ({"PGSERVICE": "far"}, "postgresql://u@/d"),
        ({"PGSERVICE": "far", "PGHOST": "127.0.0.5"}, "postgresql://u@/d"),
        ({"PGHOST": "127.0.0.2", "PGPORT": "1"}, "postgresql://u@/d"),
        ({"PGHOST": "127.0.0.2,::1", "PGPORT": "1"}, "postgresql://u@/d"),
        ({"PGHOST": "127.0.0.2"}, "postgresql://u@/d?port=1"),
        ({"PGHOST": "127.0.0.2", "PGPORT": "1"}, "postgresql://u@127.0.0.3/d"),
        ({"PGHOSTADDR": "127.0.0.2", "PGPORT": "1"}, "postgresql://u@127.0.0.3/d"),
        ({"PGPORT": "1"}, "postgresql://u@/d?hostaddr=127.0.0.2,127.0.0.3"),
    ],
)
def test_a_target_is_where_libpq_connects(
    variables: Mapping[str, str],
    url: str,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    places = told(url)
    assert places == tried(url) != []
    engine = open_engine(url)
    assert engine.accepts() is ("" in dict(places))  # of a socket it is not known


_HOSTS = ("127.0.0.2", "127.0.0.3", "::1", "/no/such/folder", "@none", "", "x.invalid")
_ADDRESSES = ("127.0.0.4", "::1", "")
_PORTS = ("1", "2", " 3 ", "+4", "", "0", "65536", "x", "5_4", "-1")


def drawn(draws: random.Random, services: Path) -> tuple[dict[str, str], str]:
    """Return an environment and a URL; write what the service "any" says."""

    def setting() -> dict[str, str]:
        found: dict[str, str] = {}
        for name, values in (
            ("host", _HOSTS),
            ("hostaddr", _ADDRESSES),
            ("port", _PORTS),
        ):
            if draws.random() < (0.2 if name == "hostaddr" else 0.4):
                number = draws.choice((1, 1, 1, 2, 3))
                found[name] = ",".join(draws.choice(values) for _ in range(number))
        return found

    lines = [f"{name}={value}" for name, value in setting().items()]
    services.write_text("\n".join(["[any]", *lines, ""]))
    environment = {f"PG{name.upper()}": value for name, value in setting().items()}
    url = make_url("postgresql+psycopg2://u@/d").update_query_dict(setting())
    if draws.random() < 0.3:
        each = [draws.choice((*_HOSTS, "127.0.0.2:1"))]
        url = url.update_query_dict({"host": each * draws.choice((1, 2))})
    if draws.random() < 0.4:
        url = url.update_query_dict({"service": "any"})
    elif draws.random() < 0.2:
        environment["PGSERVICE"] = "any"
    return environment, url.render_as_string()


def test_it_is_so_whatever_says_where(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draws = random.Random(3)
    for _ in range(150):
        compare(draws, home, monkeypatch)


def compare(draws: random.Random, home: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Compare one drawn target; return what came of it."""
    environment, url = drawn(draws, home / ".pg_service.conf")
    with monkeypatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        try:
            places = told(url)
        except DbcheckError:
            assert tried_or_refused(url) is None, (environment, url)
            return "refused"
        theirs = tried_or_refused(url)
        assert theirs is not None, (environment, url, places)
        known = [place if place[1] else (place[0], 0) for place in theirs]
        ours = [
            (host, 0) if host and not resolve(host) else (host, port)
            for host, port in places
        ]
        assert list(dict.fromkeys(ours)) == known, (environment, url)
    return "equal"


def tried_or_refused(url: str) -> list[Place] | None:
    """Return what tried() does, None if libpq or SQLAlchemy cannot use the URL.

    Nor may it be used if that is so of one of several hosts, which libpq leaves out.
    """
    try:
        places = tried(url)
    except (psycopg2.Error, ArgumentError, ValueError):
        return None
    is_whole = all(":" not in host or host == "::1" for host, _ in places)
    return places if places and is_whole else None


# ------------------------------------------------------------------ a server that runs


@pytest.fixture
def by_ipv6() -> Iterator[int]:
    """A port of ::1 at which something listens."""
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as listener:
        yield listener.getsockname()[1]


@pytest.mark.parametrize(
    ("variables", "query"),
    [
        ({}, "host=127.0.0.1:{port}"),
        ({}, "host=127.0.0.1&port={port}"),
        ({}, "host=localhost&port={port}"),
        ({}, "host=127.0.0.2:1&host=127.0.0.1:{port}"),
        ({}, "host=x.invalid&hostaddr=127.0.0.1&port={port}"),
        ({}, "service=near"),
        ({"PGSERVICE": "near"}, ""),
        ({"PGHOST": "127.0.0.1", "PGPORT": "{port}"}, ""),
        ({"PGHOSTADDR": "127.0.0.1", "PGPORT": "{port}"}, ""),
    ],
)
def test_a_server_that_runs_accepts_where_it_is(
    variables: Mapping[str, str],
    query: str,
    postgresql_server: DatabaseServer,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = postgresql_server
    services = f"[near]\nhost=127.0.0.1\nport={server.port}\n"
    (home / ".pg_service.conf").write_text(services)
    for name, value in variables.items():
        monkeypatch.setenv(name, value.format(port=server.port))
    of_server = make_url(server.url)
    url = f"postgresql://{of_server.username}@/{of_server.database}"
    url += f"?{query}".format(port=server.port)
    engine = open_engine(url, server.password)
    assert engine.accepts()
    assert engine.facts().product == "PostgreSQL"
    options = libpq_options(engine.target, engine._arguments)
    with closing(psycopg2.connect(**options)) as connection:
        found = connection.info
        address = found.dsn_parameters.get("hostaddr") or found.host
        assert (address, found.port) in engine.endpoints()


def test_a_server_at_an_address_of_ipv6_accepts(by_ipv6: int, home: Path) -> None:
    for query in (f"host=::1&port={by_ipv6}", f"host=127.0.0.2,::1&port=1,{by_ipv6}"):
        assert open_engine(f"postgresql://u@/d?{query}").accepts()
    assert open_engine(f"postgresql://u@[::1]:{by_ipv6}/d").accepts()
    assert open_engine(f"mysql://u@[::1]:{by_ipv6}/d").accepts()
    assert not open_engine("postgresql://u@[::1]:1/d").accepts()
