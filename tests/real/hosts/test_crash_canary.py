"""The row that tells a crash from a shutdown, on real servers that end in each way."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError, NoCanary
from dbcheck.engines.mysql import canary as mysql_canary
from dbcheck.engines.registry import open_engine
from dbcheck.lab.servers.base import DatabaseServer
from dbcheck.lab.spec import LabSpec
from dbcheck.model.depth import HeldCanary
from dbcheck.ports.engine import Engine
from dbcheck.rows.table import LEDGER
from tests.kit.lab_access import connect
from tests.kit.operations import batches
from tests.kit.refusals import refused
from tests.kit.rigs import bench
from tests.kit.servers import NewServer, engine_of
from tests.kit.waiting import wait_until


def planted(engine: Engine, epoch: int) -> HeldCanary | None:
    engine.prepare((LEDGER,))
    return engine.plant_canary(epoch)


@contextlib.contextmanager
def cursor_on(server: DatabaseServer) -> Iterator[Any]:
    with contextlib.closing(connect(server.url, server.password)) as connection:
        yield connection.cursor()


def asked_to_end(server: DatabaseServer, speed: int) -> None:
    """Have a statement shut the server down, as fast as *speed* says."""
    with cursor_on(server) as cursor:
        cursor.execute(f"set global innodb_fast_shutdown = {speed}")
        cursor.execute("shutdown")
    assert server._process is not None
    server._process.wait(60)
    server.kill()


@pytest.mark.wide_with("mysql")
def test_a_crash_takes_the_row_and_a_shutdown_keeps_it(
    own_server: DatabaseServer,
) -> None:
    own_server.start()
    engine = engine_of(own_server)
    ends: list[tuple[Callable[[], None], bool]] = [
        (own_server.kill, False),
        (own_server.stop, True),
    ]
    if own_server.name == "mariadb":
        ends += [(partial(asked_to_end, own_server, n), True) for n in (0, 2)]
    for epoch, (end, kept) in enumerate(ends, 1):
        held = planted(engine, epoch)
        assert held is None or held.is_held()
        end()
        own_server.start()
        assert engine.canary(epoch) is kept, epoch
    engine.drop()


@pytest.mark.parametrize(
    "name", ["mariadb", pytest.param("mysql", marks=pytest.mark.wide)]
)
def test_a_canary_in_a_cluster_is_on_one_server_alone(
    new_server: NewServer, name: str
) -> None:
    """Else a standby whose own table a cut has damaged could not apply it."""
    server = new_server(name)
    server.settings["log_bin"] = "ON"
    server.start()
    engine = engine_of(server)
    engine.prepare((LEDGER,))

    def read_position() -> object:
        with cursor_on(server) as cursor:
            cursor.execute("show binary logs")
            return cursor.fetchall()

    before = read_position()
    for local in (True, False):  # that of a single server is in the binary log
        held = engine.plant_canary(1, local=local)
        assert held is not None
        held.close()
        assert (read_position() == before) is local


@pytest.mark.wide_with("mysql")
def test_a_canary_whose_files_are_gone_says_nothing(
    own_server: DatabaseServer,
) -> None:
    """The rows that were acked are read all the same."""
    own_server.start()
    engine = engine_of(own_server)
    held = planted(engine, 1)
    assert held is None or held.is_held()
    own_server.kill()
    for file in own_server.data.glob("dbcheck/canary.*[YAID]"):
        file.unlink()
    own_server.start()
    if own_server.name == "postgresql":
        with cursor_on(own_server) as cursor:
            cursor.execute("select pg_relation_filepath('dbcheck.canary')")
            ((path,),) = cursor.fetchall()
        (own_server.data / path).unlink()
    assert engine.canary(1) is None
    assert list(batches(engine)) == []
    engine.drop()


def test_another_run_and_a_poor_account_are_told_that_they_have_none(
    new_server: NewServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for wait in ("_PLANT_S", "_DROP_S"):
        monkeypatch.setattr(mysql_canary, wait, 1)
    server = new_server("mariadb")
    server.start()
    rich = engine_of(server)
    with cursor_on(server) as cursor:
        cursor.execute("create user poor@'127.0.0.1' identified by 'secret'")
        cursor.execute(
            "grant select, insert, create, drop on dbcheck.* to poor@'127.0.0.1'"
        )
    poor = open_engine(server.url.replace("dbcheck@", "poor@"), "secret")
    with refused(ErrorId.PRIVILEGE_MISSING, NoCanary) as caught:
        poor.plant_canary(1)
    assert "grant lock tables on `dbcheck`.* to 'poor'" in caught.value.hint
    with cursor_on(server) as cursor:
        cursor.execute("grant lock tables on dbcheck.* to poor@'127.0.0.1'")
    with refused(ErrorId.CANARY_NOT_POSSIBLE, NoCanary, naming="BINLOG ADMIN"):
        poor.plant_canary(1, local=True)
    held = planted(rich, 2)
    assert held is not None
    with refused(ErrorId.CANARY_NOT_POSSIBLE, NoCanary, naming="ock wait timeout"):
        rich.plant_canary(3)
    assert held.is_held()
    with refused(ErrorId.RUN_ON_SERVER_ACTIVE, EngineError) as locked:
        rich.drop()
    assert "SHOW PROCESSLIST" in locked.value.hint
    assert rich.prepare((LEDGER,))["ledger"].rows_by_epoch == {}  # the run's is there
    with cursor_on(server) as cursor:
        cursor.execute("show processlist")
        others = {row[0] for row in cursor.fetchall() if row[4] == "Sleep"}
        for thread in others:
            cursor.execute(f"kill {thread}")
    wait_until(lambda: not held.is_held(), "its session is seen to be gone")
    assert rich.canary(2) is True


@pytest.mark.wide_with("mysql")
@pytest.mark.root
@pytest.mark.parametrize("kind", ["mariadb", "mysql"])
def test_a_cut_of_power_takes_the_row(kind: str, tmp_path: Path) -> None:
    with bench(LabSpec(kind), tmp_path) as here:
        started = here.cut_cycle()
        assert not started.manifest.no_canary
        assert here.rig.site.writer.engine.canary(started.manifest.epoch) is False
