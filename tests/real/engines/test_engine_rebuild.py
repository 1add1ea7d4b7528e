"""Nodes of a cluster that are rebuilt by SQL for the node that took over."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from psycopg2.extensions import make_dsn, parse_dsn
from sqlalchemy.engine import make_url

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError
from dbcheck.lab.clusters.cluster import ClusterLab
from dbcheck.lab.lab import Lab
from dbcheck.lab.servers.base import USER, DatabaseServer
from dbcheck.lab.switch import LabRestarter
from dbcheck.model.replication import SourceLogin
from dbcheck.ports.engine import Engine
from dbcheck.runner.lab_rig import make_lab_node
from tests.kit.clusters import cluster_of
from tests.kit.lab_access import connect, execute_on
from tests.kit.refusals import refused
from tests.kit.servers import NewServer, answers
from tests.kit.servers import engine_of as engine_on
from tests.kit.waiting import wait_until

pytestmark = pytest.mark.wide

TABLE = "rows_of_test"
MAKE = f"create table {TABLE} (n int primary key)"
READ = f"select n from {TABLE} order by n"


def engine_of(lab: Lab) -> Engine:
    return make_lab_node(lab).engine


def source_of(lab: Lab, *, login: bool = True) -> SourceLogin:
    port = make_url(lab.target_url).port
    assert port is not None
    return SourceLogin("127.0.0.1", port, *((USER, lab.password) if login else ()))


def add(lab: Lab, number: int) -> None:
    execute_on(lab, f"insert into {TABLE} values ({number})")


def rows_of(lab: Lab) -> list[Any]:
    return execute_on(lab, READ)


@contextlib.contextmanager
def taken_over(
    folder: Path, engine: str, nodes: int = 2
) -> Iterator[tuple[ClusterLab, dict[str, str]]]:
    """Give a cluster whose node2 took over, and the old writer's settings.

    Row 1 was committed before.  The old writer runs again, and nobody follows it.
    """
    with cluster_of(folder, nodes, engine=engine) as (cluster, _):
        old, new = cluster.labs["node1"], cluster.labs["node2"]
        execute_on(old, MAKE, f"insert into {TABLE} values (1)")
        settings = dict(engine_of(old).facts().settings)
        wait_until(lambda: rows_of(new) == [(1,)], "the row on node2")
        old.switch().cut()
        engine_of(new).promote()
        wait_until(engine_of(new).takes_writes, "the promotion")
        cluster.take_links_down()
        old.switch().restore()
        yield cluster, settings


def options_of(lab: Lab) -> dict[str, str]:
    """Return how a standby reaches its source."""
    ((conninfo,),) = execute_on(lab, "show primary_conninfo")
    return dict(parse_dsn(conninfo))


def awaited_by(lab: Lab) -> int:
    """Return the number of standbys that commits on this server wait for."""
    with contextlib.closing(engine_of(lab).open_followers()) as followers:
        return sum(follower.is_awaited for follower in followers.read())


def test_a_standby_of_postgresql_follows_the_new_writer(tmp_path: Path) -> None:
    with taken_over(tmp_path, "postgresql", 3) as (cluster, settings):
        old, new, third = cluster.labs.values()
        assert settings["synchronous_standby_names"] == "ANY 1 (node2, node3)"
        engine_of(new).lead(settings, {"node2": "node1"}, ["node3"])
        shown = execute_on(new, "show synchronous_standby_names")
        assert shown == [('ANY 1 ("node1", node3)',)]
        before = options_of(third)
        source = source_of(new, login=False)
        engine_of(third).follow(source, "")
        assert options_of(third) == {**before, "port": str(source.port)}
        assert {"passfile", "sslmode", "application_name"} <= before.keys()
        add(new, 2)  # which waits for node3
        wait_until(lambda: rows_of(third) == [(1,), (2,)], "the row on node3")
        wait_until(lambda: awaited_by(new) == 1, "the awaited standby")
        slots = "select slot_name, active from pg_replication_slots"
        assert execute_on(new, slots) == [("node3", True)]
        new.switch().cut()
        new.switch().restore()
        shown = execute_on(new, "show synchronous_standby_names")
        assert shown == [('ANY 1 ("node1", node3)',)]
        with refused(ErrorId.NODE_NOT_REBUILT, EngineError, naming="took writes"):
            engine_of(old).follow(source_of(new), "")


def test_no_password_of_a_standby_gets_into_its_log(tmp_path: Path) -> None:
    with taken_over(tmp_path, "postgresql", 3) as (cluster, _):
        _, new, third = cluster.labs.values()
        source, before = source_of(new), options_of(third)
        assert source.password not in repr(source)
        conninfo = make_dsn(**before, password="-secret-")
        execute_on(third, f"alter system set primary_conninfo = '{conninfo}'")
        execute_on(third, "select pg_reload_conf()")
        wait_until(lambda: "password" in options_of(third), "the configuration")
        with refused(ErrorId.NODE_NOT_REBUILT, EngineError, naming="into its log"):
            engine_of(third).follow(source, "")
        execute_on(third, "alter system reset primary_conninfo")
        conninfo = make_dsn(**before)
        execute_on(third, f"alter system set primary_conninfo = '{conninfo}'")
        execute_on(third, "select pg_reload_conf()")
        wait_until(lambda: options_of(third) == before, "the configuration")
        execute_on(new, "select pg_create_physical_replication_slot('node3', true)")
        engine_of(third).follow(source, "")
        assert source.password not in third.server_log(1000)
        add(new, 2)
        wait_until(lambda: rows_of(third) == [(1,), (2,)], "the row on node3")


@pytest.mark.parametrize("engine", ["mysql", "mariadb"])
def test_an_old_source_follows_the_new_one(tmp_path: Path, engine: str) -> None:
    with taken_over(tmp_path, engine) as (cluster, settings):
        old, new = cluster.labs.values()
        has = engine_of(new).transactions()
        with refused(ErrorId.NODE_NOT_REBUILT, EngineError, naming="no login"):
            engine_of(old).follow(source_of(new, login=False), has)
        engine_of(new).lead(settings, {}, [])
        engine_of(old).follow(source_of(new), has)
        wait_until(lambda: awaited_by(new) == 1, "the awaited replica")
        add(new, 2)  # which waits for node1, without an end
        wait_until(lambda: rows_of(old) == [(1,), (2,)], "the row on node1")
        here = engine_of(new).facts().settings
        semi_sync = {name for name in settings if "semi_sync" in name}
        assert {name: here[name] for name in semi_sync} == {
            name: settings[name] for name in semi_sync
        }
        engine_of(old).follow(
            source_of(new, login=False), engine_of(new).transactions()
        )
        assert not engine_of(old).takes_writes()


ALONE = {
    "mysql": "set global rpl_semi_sync_source_enabled = off",
    "mariadb": "set global rpl_semi_sync_master_enabled = off",
}
FORGET = {"mysql": "reset binary logs and gtids", "mariadb": "reset master"}


@pytest.mark.parametrize("engine", sorted(ALONE))
def test_an_old_source_with_other_commits_is_refused(
    tmp_path: Path, engine: str
) -> None:
    with taken_over(tmp_path, engine) as (cluster, _):
        old, new = cluster.labs.values()
        execute_on(old, ALONE[engine], f"insert into {TABLE} values (7)")
        has = engine_of(new).transactions()
        with refused(ErrorId.NODE_NOT_REBUILT, EngineError, naming="writer lacks"):
            engine_of(old).follow(source_of(new), has)
        execute_on(old, f"delete from {TABLE}", FORGET[engine])
        with refused(ErrorId.NODE_NOT_REBUILT, EngineError, naming="has lost"):
            engine_of(old).follow(source_of(new), has)
        assert execute_on(old, "show replica status") == []


def test_mysql_is_cloned_from_the_new_writer(tmp_path: Path) -> None:
    """The lab is no supervisor: the server ends, and is started by hand."""
    with taken_over(tmp_path, "mysql") as (cluster, settings):
        old, new = cluster.labs.values()
        execute_on(old, ALONE["mysql"], f"insert into {TABLE} values (7)")
        source = source_of(new)
        lacking = "Plugin 'clone' is not loaded"  # on the server to copy
        with refused(ErrorId.NODE_NOT_REBUILT, EngineError, naming=lacking):
            engine_of(old).clone(source)
        execute_on(new, "install plugin clone soname 'mysql_clone.so'")
        with refused(ErrorId.NODE_NOT_REBUILT, EngineError, naming="supervises"):
            engine_of(old).clone(source)
        LabRestarter(old.name).restart()
        assert rows_of(old) == [(1,)]
        engine_of(new).lead(settings, {}, [])
        engine_of(old).follow(source, engine_of(new).transactions())
        add(new, 2)
        wait_until(lambda: rows_of(old) == [(1,), (2,)], "the row on node1")


# As mysqld_safe and systemd do: it restarts a server that asks for it by this status
# (MySQL 8.4 manual, 15.7.8.8 RESTART Statement).
_SUPERVISOR = """
export MYSQLD_PARENT_PID=$$
trap 'kill $server' TERM
while :; do
    "$@" &
    server=$!
    while kill -0 $server 2>/dev/null; do  # a signal ends the wait, and not the server
        wait $server
        status=$?
    done
    [ $status = 16 ] || exit 0
done
"""


@contextlib.contextmanager
def supervised(server: DatabaseServer) -> Iterator[None]:
    """Have a supervisor run a server that runs without one."""
    assert server._process is not None
    process = Path(f"/proc/{server._process.pid}")
    words = [
        os.fsdecode(word)
        for word in process.joinpath("cmdline").read_bytes().split(b"\0")
    ]
    lines = process.joinpath("environ").read_bytes().split(b"\0")
    server.stop()
    assert server._held is not None
    server._held.lend()
    supervisor = subprocess.Popen(
        ["bash", "-c", _SUPERVISOR, "bash", *words[:-1]],
        env=dict(os.fsdecode(line).split("=", 1) for line in lines if line),
        user=server.data.stat().st_uid,
        group=server.data.stat().st_gid,
        extra_groups=(),
        cwd=server.data,
    )
    try:
        yield
    finally:
        supervisor.terminate()
        supervisor.wait(60)


def test_a_supervised_mysql_restarts_on_its_copy(new_server: NewServer) -> None:
    new, old = new_server("mysql"), new_server("mysql")
    for server in (new, old):
        server.start()
        with contextlib.closing(connect(server.url, server.password)) as connection:
            cursor = connection.cursor()
            cursor.execute(MAKE)
            cursor.execute(f"insert into {TABLE} values ({server.port})")
            connection.commit()
            if server is new:
                cursor.execute("install plugin clone soname 'mysql_clone.so'")
    source = SourceLogin("127.0.0.1", new.port, USER, new.password)
    engine = engine_on(old)
    with supervised(old):
        wait_until(lambda: answers(engine), "the supervised server")
        engine.clone(source)
        with contextlib.closing(connect(old.url, old.password)) as connection:
            cursor = connection.cursor()
            cursor.execute(READ)
            assert cursor.fetchall() == [(new.port,)]


def test_mariadb_is_not_cloned(tmp_path: Path) -> None:
    with cluster_of(tmp_path, engine="mariadb") as (cluster, _):
        old, new = cluster.labs.values()
        with refused(ErrorId.NODE_NOT_REBUILT, EngineError, naming="no statement"):
            engine_of(old).clone(source_of(new))
