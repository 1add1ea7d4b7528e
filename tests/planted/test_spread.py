"""A load balancer that leads connections to different servers."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from typing import Any, cast

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import OtherServer
from dbcheck.lab.servers.base import DatabaseServer
from dbcheck.model.verdict import Verdict
from dbcheck.ports.engine import Engine
from dbcheck.rows.table import LEDGER
from tests.kit.lab_access import connect
from tests.kit.proxy import PASS_ON, Proxy
from tests.kit.refusals import refused
from tests.kit.servers import engine_of
from tests.planted.fault import engines
from tests.planted.site import Site, copy_folder

pytestmark = pytest.mark.planted


@contextlib.contextmanager
def second(site: Site) -> Iterator[DatabaseServer]:
    """Make a server of the same kind and account, with no data yet."""
    base = site.clean.parent / "second"
    account = site.server._account
    server: DatabaseServer = type(site.server)(
        base / "data", base / "run", account=account
    )
    try:
        base.mkdir(mode=0o755)
        server._begin_run(site.server.password)
        yield server
    finally:
        server.kill()
        shutil.rmtree(base, ignore_errors=True)


class Directed:
    """An engine each of whose calls named in *calls* reaches another server.

    port: where connections lead; first: so many of those calls still do not.
    """

    def __init__(self, site: Site, other: DatabaseServer, first: int, *calls: str):
        self._ports = (site.server.port, other.port)
        self.port, self._first, self._calls = site.server.port, first, calls
        self.engine: Engine

    def __getattr__(self, name: str) -> Any:
        call = getattr(self.engine, name)
        if name not in self._calls:
            return call

        def directed(*args: Any, **options: Any) -> Any:
            self._first -= 1
            self.port = self._ports[self._first < 0]
            try:
                found = call(*args, **options)
                return list(found) if name == "survivors" else found
            finally:
                self.port = self._ports[0]

        return directed


@contextlib.contextmanager
def spread(
    site: Site, other: DatabaseServer, first: int, *calls: str
) -> Iterator[Engine]:
    """Give an engine behind a proxy that leads *calls* to the other server."""
    directed = Directed(site, other, first, *calls)
    with Proxy(lambda: directed.port, lambda _: PASS_ON) as proxy:
        directed.engine = site.through(proxy.port)
        yield cast(Engine, directed)


def lose_rows(site: Site) -> None:
    """Take a few rows of the load away, as if they had never been written."""
    site.execute(f"delete from {site.table} where session = 1 and seq > 3")


@pytest.mark.wide_with("mysql", "canary", "table_identity")
@engines("own_site", "postgresql", "mariadb", "mysql")
@pytest.mark.parametrize("call", ["survivors", "canary", "table_identity"])
def test_a_reading_spread_over_two_servers_gets_no_verdict(
    site: Site, call: str
) -> None:
    """The one whose identity is compared lost rows; a copy of it has them all."""
    with second(site) as other:

        def restore() -> None:
            copy_folder(site.server.data, other.data)
            other.start()
            site.server.start()
            lose_rows(site)

        with spread(site, other, 0, call) as engine:
            outcome = site.cycle(restore=restore, engine=engine)
    assert outcome.verdict is Verdict.INCONCLUSIVE, outcome.judgement
    (reason,) = outcome.judgement.reasons
    assert "reached different servers" in reason
    assert "there is a load balancer or proxy in between" in reason
    assert not outcome.run.was_read()


@engines("own_site")
def test_a_session_on_another_server_ends_the_run(site: Site) -> None:
    """Its commits would go to a server whose rows are never read."""
    site.server.stop()
    with second(site) as other:
        copy_folder(site.server.data, other.data)
        site.server.start()
        other.start()
        engine_of(other).prepare((LEDGER,))

        def cut() -> None:
            site.server.kill()
            other.kill()

        with (
            spread(site, other, 2, "open_session") as engine,
            refused(ErrorId.DIFFERENT_SERVERS_ANSWER, OtherServer),
        ):
            site.cycle(cut, engine=engine)
        with contextlib.closing(connect(other.url, other.password)) as connection:
            cursor = connection.cursor()
            cursor.execute(f"select count(*) from {site.table}")
            assert cursor.fetchone() == (0,)
            cursor.close()
