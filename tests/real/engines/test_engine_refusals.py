"""What check() and commit() refuse: each with the fault really there."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import psycopg.errors
import pytest

from dbcheck.audit.rules import find_flagged_settings
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import (
    CommitUnknown,
    EngineError,
    IndexDamaged,
    OtherServer,
    TableLost,
)
from dbcheck.config import files
from dbcheck.config.workload_file import load
from dbcheck.cycle.preflight.before_load import require_server
from dbcheck.engines.mysql.engine import MysqlEngine
from dbcheck.engines.mysql.link import MysqlLink
from dbcheck.engines.mysql.session import MysqlSession
from dbcheck.engines.postgresql import link as postgresql_link
from dbcheck.engines.postgresql.engine import PostgresqlEngine
from dbcheck.engines.postgresql.link import PostgresqlLink
from dbcheck.engines.postgresql.session import PostgresqlSession
from dbcheck.lab.servers.base import DatabaseServer
from dbcheck.load.sessions import commit
from dbcheck.ports.engine import Engine
from dbcheck.rows.plans.classic import INSERT_ID
from dbcheck.rows.plans.plan import INSERT
from dbcheck.rows.schedule import Schedule
from dbcheck.rows.table import CLASSIC, LEDGER
from tests.kit.lone_member import bootstrap_of, settings_of
from tests.kit.operations import CLASSICS, batches, insert
from tests.kit.refusals import refused
from tests.kit.servers import NewServer, engine_of
from tests.kit.sessions import SendsInstead, run_on, server_id
from tests.kit.waiting import wait_until

SCHEDULE = Schedule(seed=1, epoch=3, payload_bytes=(100,))


def run(engine: Engine, *statements: str) -> list[tuple[Any, ...]]:
    """Run statements behind dbcheck's back; return the rows of the last one."""
    link: PostgresqlLink | MysqlLink
    if isinstance(engine, PostgresqlEngine):
        link = engine._open()
    else:
        assert isinstance(engine, MysqlEngine)
        link = engine._open("dbcheck")
    with link:
        cursor: Any = link.connection.cursor()
        for statement in statements:
            cursor.execute(statement)
        return list(cursor.fetchall()) if cursor.description else []


@pytest.fixture
def postgresql(postgresql_server: DatabaseServer) -> Engine:
    engine = engine_of(postgresql_server)
    engine.drop()
    return engine


@pytest.fixture
def mariadb(mariadb_server: DatabaseServer) -> Engine:
    engine = engine_of(mariadb_server)
    engine.drop()
    return engine


@pytest.fixture
def mysql(mysql_server: DatabaseServer) -> Engine:
    engine = engine_of(mysql_server)
    engine.drop()
    return engine


@pytest.fixture(params=["mariadb", "mysql"])
def innodb(request: pytest.FixtureRequest) -> Engine:
    """MariaDB and MySQL in turn."""
    engine: Engine = request.getfixturevalue(request.param)
    return engine


@pytest.fixture
def engine(request: pytest.FixtureRequest) -> Engine:
    """The engine that a table of cases names."""
    found: Engine = request.getfixturevalue(request.param)
    return found


# --------------------------------------------------------------- transactions


@pytest.mark.parametrize(
    ("statement", "said"),
    [("mark_canary", "failed at mark_canary"), ("plant_canary", "failed at commit")],
    ids=["amid the statements", "before the commit"],
)
def test_a_connection_that_dies_in_a_transaction_is_an_error_of_the_engine(
    postgresql: Engine, monkeypatch: pytest.MonkeyPatch, statement: str, said: str
) -> None:
    """Terminated between two statements, or after the last one."""
    rows = PostgresqlLink.rows

    def terminate(link: PostgresqlLink) -> None:
        pid = link.connection.get_backend_pid()
        run(postgresql, f"select pg_terminate_backend({pid})")
        here = f"select from pg_stat_activity where pid = {pid}"
        wait_until(lambda: not run(postgresql, here), "the backend is gone")

    def spoilt(link: PostgresqlLink, name: str, *args: Any, **more: Any) -> Any:
        if name == statement == "mark_canary":
            terminate(link)
        found = rows(link, name, *args, **more)
        if name == statement == "plant_canary":
            terminate(link)
        return found

    postgresql.prepare((LEDGER,))
    monkeypatch.setattr(PostgresqlLink, "rows", spoilt)
    with refused(ErrorId.CONNECTION_LOST, EngineError, naming=said):
        postgresql.plant_canary(1)
    assert run(postgresql, "select to_regclass('dbcheck.canary')") == [(None,)]


# ------------------------------------------------------------------- sessions


def test_an_open_transaction_is_no_commit_on_postgresql(postgresql: Engine) -> None:
    postgresql.prepare((LEDGER,))
    session = postgresql.open_session((INSERT,))
    assert isinstance(session, PostgresqlSession)
    run_on(session, "begin")
    with refused(
        ErrorId.CONNECTION_NOT_DIRECT, EngineError, naming="still open"
    ) as caught:
        commit(session, insert(SCHEDULE.row(1, 1)))
    session.close()
    assert not isinstance(caught.value, CommitUnknown)
    assert list(batches(postgresql)) == []


@pytest.mark.parametrize("plant", ["set autocommit = 0", "start transaction"])
def test_an_open_transaction_is_no_commit_on_innodb(innodb: Engine, plant: str) -> None:
    innodb.prepare((LEDGER,))
    session = innodb.open_session((INSERT,))
    assert isinstance(session, MysqlSession)
    run_on(session, plant)
    with refused(
        ErrorId.CONNECTION_NOT_DIRECT, EngineError, naming="still open"
    ) as caught:
        commit(session, insert(SCHEDULE.row(1, 1)))
    session.close()
    assert not isinstance(caught.value, CommitUnknown)
    assert list(batches(innodb)) == []


def test_an_aborted_transaction_is_no_commit(postgresql: Engine) -> None:
    postgresql.prepare((LEDGER,))
    session = postgresql.open_session((INSERT,))
    assert isinstance(session, PostgresqlSession)
    run_on(session, "begin")
    with pytest.raises(psycopg.errors.DivisionByZero, match="division by zero"):
        run_on(session, "select 1 / 0")
    SendsInstead(session, b"commit")  # answered with ROLLBACK, and with no error
    with refused(
        ErrorId.CONNECTION_NOT_DIRECT, EngineError, naming="ROLLBACK"
    ) as caught:
        commit(session, insert(SCHEDULE.row(1, 1)))
    session.close()
    assert not isinstance(caught.value, CommitUnknown)


def test_a_terminated_session_leaves_its_commit_unknown(postgresql: Engine) -> None:
    postgresql.prepare((LEDGER,))
    session = postgresql.open_session((INSERT,))
    assert isinstance(session, PostgresqlSession)
    run(postgresql, f"select pg_terminate_backend({server_id(session)}, 5000)")
    with refused(ErrorId.COMMIT_UNKNOWN, CommitUnknown, naming="broke during a commit"):
        commit(session, insert(SCHEDULE.row(1, 1)))
    session.close()


def test_a_killed_session_leaves_its_commit_unknown(innodb: Engine) -> None:
    innodb.prepare((LEDGER,))
    session = innodb.open_session((INSERT,))
    assert isinstance(session, MysqlSession)
    run(innodb, f"kill {server_id(session)}")
    with refused(ErrorId.COMMIT_UNKNOWN, CommitUnknown, naming="broke during a commit"):
        commit(session, insert(SCHEDULE.row(1, 1)))
    session.close()


def test_a_global_sql_mode_does_not_reach_the_session(innodb: Engine) -> None:
    innodb.prepare((CLASSIC,))
    run(innodb, "set global sql_mode = 'NO_AUTO_VALUE_ON_ZERO'")
    try:
        session = innodb.open_session((INSERT_ID,))
        assert commit(session, CLASSICS.operation(1, 1)) == 1
        session.close()
    finally:
        run(innodb, "set global sql_mode = default")


def test_an_override_for_the_account_is_seen_in_the_session(
    postgresql: Engine,
) -> None:
    run(postgresql, "alter role dbcheck set synchronous_commit = off")
    try:
        settings = postgresql.facts().settings
        assert [f.rule.id for f in find_flagged_settings("postgresql", settings)] == [
            "pg-synchronous-commit"
        ]
    finally:
        run(postgresql, "alter role dbcheck reset synchronous_commit")


def test_sessions_that_share_a_connection_name_the_pooler(
    postgresql: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pooler in transaction mode gives the second the connection of the first."""
    postgresql.prepare((LEDGER,))
    first = postgresql.open_session((INSERT,))
    assert isinstance(first, PostgresqlSession)
    first._pgconn.nonblocking = 0
    with monkeypatch.context() as patch:
        patch.setattr(psycopg, "connect", lambda **_: first.connection)
        with refused(
            ErrorId.CONNECTION_NOT_DIRECT,
            EngineError,
            naming="sessions share a connection",
        ) as caught:
            postgresql.open_session((INSERT,))
    assert "pooler in transaction mode" in caught.value.hint
    first.close()
    other = postgresql.open_session((INSERT,))
    run_on(other, "deallocate all")
    with refused(
        ErrorId.CONNECTION_NOT_DIRECT, EngineError, naming="sessions share a connection"
    ) as caught:
        commit(other, insert(SCHEDULE.row(1, 1)))
    assert "pooler in transaction mode" in caught.value.hint
    other.close()


# --------------------------------------------------------------------- tables


def refusing(engine: Engine) -> tuple[Callable[[], object], ...]:
    """Return the calls that look at the ledger first."""
    return partial(engine.check, (INSERT,)), partial(engine.prepare, (LEDGER,))


PG_COLUMNS = (
    "(id bigint generated by default as identity primary key, epoch bigint,"
    " session int, seq bigint, part smallint, payload bytea, checksum bigint)"
)
MY_COLUMNS = (
    "(id bigint auto_increment primary key, epoch bigint, session int, seq bigint,"
    " part smallint, payload longblob, checksum bigint)"
)


@pytest.mark.parametrize(
    ("statements", "words"),
    [
        pytest.param(
            [
                f"create unlogged table dbcheck.ledger {PG_COLUMNS}",
                "comment on table dbcheck.ledger is 'dbcheck 1'",
            ],
            "unlogged",
            id="unlogged",
        ),
        pytest.param(
            [
                "create table dbcheck.ledger (id bigint, epoch bigint)"
                " partition by range (epoch)"
            ],
            "partitioned",
            id="partitioned",
        ),
        pytest.param(["create view dbcheck.ledger as select 1"], "view", id="view"),
        pytest.param(
            ["create materialized view dbcheck.ledger as select 1"],
            "materialised",
            id="materialised view",
        ),
        pytest.param(["create sequence dbcheck.ledger"], "relkind is S", id="sequence"),
        pytest.param(
            [f"create table dbcheck.ledger {PG_COLUMNS}"],
            "not created by",
            id="not ours",
        ),
        pytest.param(
            [
                "create table dbcheck.ledger (id bigint primary key)",
                "comment on table dbcheck.ledger is 'dbcheck 1'",
            ],
            "columns",
            id="other columns",
        ),
    ],
)
def test_postgresql_tables_that_prove_nothing(
    postgresql: Engine, statements: list[str], words: str
) -> None:
    run(postgresql, "create schema dbcheck", *statements)
    try:
        for refuse in refusing(postgresql):
            with pytest.raises(EngineError, match=words) as caught:
                refuse()
            assert "rop" in caught.value.hint
    finally:
        run(postgresql, "drop schema dbcheck cascade")


@pytest.mark.wide_with("mysql")
@pytest.mark.parametrize(
    ("statement", "words"),
    [
        (f"create table ledger {MY_COLUMNS} engine=MyISAM comment 'dbcheck 1'", "MyI"),
        ("create table ledger (id int) engine=MEMORY", "MEMORY"),
        ("create view ledger as select 1", "view"),
        (f"create table ledger {MY_COLUMNS} engine=InnoDB", "not created by"),
        ("create table ledger (id bigint) comment 'dbcheck 1'", "columns"),
    ],
)
def test_innodb_tables_that_prove_nothing(
    innodb: Engine, statement: str, words: str
) -> None:
    require_refused(innodb, statement, words)


def test_a_table_of_aria_proves_nothing(mariadb: Engine) -> None:
    statement = f"create table ledger {MY_COLUMNS} engine=Aria comment 'dbcheck 1'"
    require_refused(mariadb, statement, "Aria")


def require_refused(engine: Engine, statement: str, words: str) -> None:
    """Run the statement; see that the table is refused with these words."""
    run(engine, statement)
    try:
        for refuse in refusing(engine):
            with pytest.raises(EngineError, match=words) as caught:
                refuse()
            assert "rop" in caught.value.hint
    finally:
        # MySQL 8.0 refuses to drop a table as a view, but not the other way round.
        run(engine, "drop table if exists ledger", "drop view if exists ledger")


PG_FUNCTION = (
    "create function dbcheck.changed() returns trigger language plpgsql as"
    " $$begin new.payload := 'x'; return new; end$$"
)
PG_FOREIGN = {
    "the trigger spoils": [
        PG_FUNCTION,
        "create trigger spoils before insert on dbcheck.ledger"
        " for each row execute function dbcheck.changed()",
    ],
    "the rule spoils": [
        "create rule spoils as on insert to dbcheck.ledger do also select 1"
    ],
    "row security": ["alter table dbcheck.ledger enable row level security"],
    "a default of the column payload": [
        "alter table dbcheck.ledger alter payload set default 'x'"
    ],
    "the generated column checksum": [
        "alter table dbcheck.ledger drop checksum",
        "alter table dbcheck.ledger"
        " add checksum bigint generated always as (session) stored",
    ],
    "no identity of the column id": [
        "alter table dbcheck.ledger alter id drop identity"
    ],
    "inheritance with dbcheck.child": [
        "create table dbcheck.child () inherits (dbcheck.ledger)"
    ],
    "the constraint spoils": [
        "alter table dbcheck.ledger add constraint spoils check (seq < 9)"
    ],
    "the index dbcheck.spoils": ["create index spoils on dbcheck.ledger (seq)"],
    "no primary key": ["alter table dbcheck.ledger drop constraint ledger_pkey"],
}
MY_FOREIGN = {
    "the trigger spoils": [
        "create trigger spoils before insert on ledger"
        " for each row set new.payload = 'x'"
    ],
    "the generated column checksum": [
        "alter table ledger drop checksum",
        "alter table ledger add checksum bigint as (session) stored",
    ],
    "a default of the column part": ["alter table ledger alter part set default 7"],
    "no auto_increment of the column id": [
        "alter table ledger modify id bigint not null"
    ],
    "the partition p0": [
        "alter table ledger partition by range (id) (partition p0 values less than"
        " maxvalue)"
    ],
    "the constraint spoils": [
        "alter table ledger add constraint spoils check (seq < 9)"
    ],
    "the index spoils": ["create index spoils on ledger (seq)"],
    "the primary key's column seq": [
        "alter table ledger drop primary key, add primary key (id, seq)"
    ],
    "no primary key": [
        "alter table ledger modify id bigint not null",
        "alter table ledger drop primary key",
    ],
}


@pytest.mark.wide_with("mysql")
@pytest.mark.parametrize(
    ("engine", "words"),
    [
        *(("postgresql", words) for words in PG_FOREIGN),
        *((name, words) for name in ("mariadb", "mysql") for words in MY_FOREIGN),
    ],
    indirect=["engine"],
)
def test_a_table_that_bears_more_than_dbcheck_made(engine: Engine, words: str) -> None:
    engine.prepare((LEDGER,))
    engine.check((INSERT,))
    table = PG_FOREIGN if engine.family == "postgresql" else MY_FOREIGN
    try:
        run(engine, *table[words])
        for refuse in refusing(engine):
            with refused(
                ErrorId.TABLE_CHANGED_BY_OTHERS, EngineError, naming=words
            ) as caught:
                refuse()
            assert "drop the table" in caught.value.hint
    finally:
        if engine.family == "postgresql":
            run(engine, "drop schema dbcheck cascade")
        else:
            run(engine, "drop table ledger")


def test_drop_leaves_the_tables_of_others(postgresql: Engine, mariadb: Engine) -> None:
    run(postgresql, "create schema dbcheck", "create table dbcheck.ledger (a int)")
    run(mariadb, "create table ledger (a int)")
    try:
        assert postgresql.drop() == mariadb.drop() == []
    finally:
        run(postgresql, "drop schema dbcheck cascade")
        run(mariadb, "drop table ledger")


# -------------------------------------------------------------------- servers


def test_a_standby_is_refused(new_server: NewServer) -> None:
    server = new_server("postgresql")
    (server.data / "standby.signal").touch()
    server.start()
    engine = engine_of(server)
    with refused(ErrorId.SERVER_IS_REPLICA, EngineError, naming="standby"):
        engine.check((INSERT,))
    assert "recovery" in (engine.ready() or "")
    with refused(
        ErrorId.DIFFERENT_SERVERS_ANSWER, OtherServer, naming="it is a standby"
    ):
        engine.canary(1, server=engine.facts())


def test_a_read_only_postgresql_is_refused(postgresql: Engine) -> None:
    run(postgresql, "alter role dbcheck set default_transaction_read_only = on")
    try:
        with refused(ErrorId.SERVER_READ_ONLY, EngineError, naming="read-only"):
            postgresql.check((INSERT,))
    finally:
        run(
            postgresql,
            "set default_transaction_read_only = off",
            "alter role dbcheck reset default_transaction_read_only",
        )


def test_a_server_that_waits_for_a_standby_is_refused(postgresql: Engine) -> None:
    """No commit would ever be answered."""
    named = "synchronous_standby_names"
    shown = f"select current_setting('{named}')"
    run(postgresql, f"alter system set {named} = '*'", "select pg_reload_conf()")
    try:
        wait_until(lambda: run(postgresql, shown) == [("*",)], "the setting")
        with refused(ErrorId.COMMITS_WAIT_FOREVER, EngineError) as caught:
            postgresql.check((INSERT,))
        assert named in caught.value.hint
        run(
            postgresql,
            "set synchronous_commit = local",
            "alter role dbcheck set synchronous_commit = local",
        )
        postgresql.check((INSERT,))
    finally:
        for statement in (
            f"alter system reset {named}",
            "select pg_reload_conf()",
            "alter role dbcheck reset synchronous_commit",
        ):
            run(postgresql, statement)
        wait_until(lambda: run(postgresql, shown) == [("",)], "the setting")


@pytest.mark.parametrize(
    ("engine", "setting"),
    [
        ("mariadb", "read_only"),
        ("mariadb", "tx_read_only"),
        ("mysql", "read_only"),
        ("mysql", "super_read_only"),
        ("mysql", "transaction_read_only"),
    ],
    indirect=["engine"],
)
def test_a_read_only_server_is_refused(engine: Engine, setting: str) -> None:
    run(engine, f"set global {setting} = 1")
    named = setting.replace("tx_", "(tx|transaction)_")  # renamed in newer MariaDBs
    try:
        with pytest.raises(EngineError, match=named) as caught:
            engine.check((INSERT,))
        assert re.search(named, caught.value.hint)
    finally:
        run(engine, f"set global {setting} = 0", "set global read_only = 0")


@pytest.mark.parametrize(
    ("engine", "start", "end"),
    [
        (
            "mariadb",
            "change master to master_host='127.0.0.1', master_port=1",
            "reset slave all",
        ),
        (
            "mysql",
            "change replication source to source_host='127.0.0.1', source_port=1",
            "reset replica all",
        ),
    ],
    indirect=["engine"],
)
def test_a_replica_is_refused(engine: Engine, start: str, end: str) -> None:
    run(engine, start)
    try:
        with refused(ErrorId.SERVER_IS_REPLICA, EngineError, naming="replica"):
            engine.check((INSERT,))
    finally:
        run(engine, end)


def test_a_server_without_a_redo_log_is_refused(mysql: Engine) -> None:
    run(mysql, "alter instance disable innodb redo_log")
    try:
        with refused(ErrorId.REDO_LOG_DISABLED, EngineError) as caught:
            mysql.check((INSERT,))
        assert [
            f.rule.id for f in find_flagged_settings("mysql", mysql.facts().settings)
        ] == ["my-redo-log"]
    finally:
        run(mysql, caught.value.hint.removeprefix("Run: "))
    mysql.check((INSERT,))


def test_a_member_of_a_group_is_refused(new_server: NewServer) -> None:
    server = new_server("mysql")
    group = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
    server.settings["plugin_load_add"] = "group_replication.so"
    server.settings["group_replication_group_name"] = group
    server.settings["group_replication_start_on_boot"] = "OFF"
    server.start()
    engine = engine_of(server)
    insert = load("insert")
    require_server(engine, insert)  # no peer gives back what it loses
    run(engine, "set global group_replication_start_on_boot = ON")
    with refused(
        ErrorId.SERVER_IN_CLUSTER, EngineError, naming="rejoins its replication group"
    ):
        require_server(engine, insert)
    require_server(engine, insert, grouped=True)


@pytest.mark.wide
def test_a_member_that_was_started_is_refused_whatever_its_settings(
    new_server: NewServer,
) -> None:
    server = new_server("mysql")
    server.settings |= settings_of(server)
    server.start()
    engine, insert = engine_of(server), load("insert")
    run(engine, *bootstrap_of(server))
    with refused(
        ErrorId.SERVER_IN_CLUSTER, EngineError, naming="its state is ONLINE"
    ) as at:
        require_server(engine, insert)
    assert at.value.id is ErrorId.SERVER_IN_CLUSTER
    assert "STOP GROUP_REPLICATION" in at.value.hint
    run(engine, "stop group_replication")
    with refused(
        ErrorId.SERVER_READ_ONLY, EngineError, naming="super_read_only"
    ) as read_only:
        require_server(engine, insert)
    assert read_only.value.id is ErrorId.SERVER_READ_ONLY
    statements = read_only.value.hint.partition("run: ")[2]
    assert statements in at.value.hint
    run(engine, *statements.removesuffix(";").split(";"))
    require_server(engine, insert)


@pytest.mark.parametrize("engine", ["mysql", "mariadb"], indirect=True)
def test_a_packet_that_the_server_refuses_is_named_before_the_load(
    engine: Engine,
) -> None:
    """Below the refused limit the server ends the session, at the hint's it commits."""
    (limit,) = run(engine, "select @@global.max_allowed_packet")
    sizes, insert_alone = load("sizes"), load("insert")
    run(engine, "set global max_allowed_packet = 1048576")
    try:
        require_server(engine, insert_alone)
        with refused(
            ErrorId.PACKET_LIMIT_TOO_SMALL, EngineError, naming="1,048,576"
        ) as caught:
            require_server(engine, sizes)
        engine.prepare((LEDGER,))
        row = Schedule(seed=1, epoch=3, payload_bytes=(1048576,)).row(1, 1)
        with (
            closing(engine.open_session((INSERT,))) as session,
            pytest.raises(EngineError, match="max_allowed_packet|connection broke"),
        ):
            commit(session, insert(row))
        run(engine, caught.value.hint.removeprefix("Run: ").partition(";")[0])
        require_server(engine, sizes)
        with closing(engine.open_session((INSERT,))) as session:
            assert commit(session, insert(row))
    finally:
        run(engine, f"set global max_allowed_packet = {limit[0]}")


# --------------------------------------------------------------------- damage


def data_file(engine: Engine, server: DatabaseServer) -> tuple[Path, int]:
    """Return the file that holds the ledger, and the size of its pages."""
    if engine.family == "mysql":
        return server.data / "dbcheck" / "ledger.ibd", 16384
    ((path,),) = run(engine, "select pg_relation_filepath('dbcheck.ledger')")
    return server.data / path, 8192


def filled(server: DatabaseServer) -> Engine:
    server.start()
    engine = engine_of(server)
    engine.prepare((LEDGER,))
    session = engine.open_session((INSERT,))
    for seq in range(1, 501):
        commit(session, insert(SCHEDULE.row(1, seq)))
    session.close()
    return engine


def test_rows_that_only_an_index_knows_are_gone(new_server: NewServer) -> None:
    server = new_server("postgresql")
    server.start()
    engine = engine_of(server)
    engine.prepare((CLASSIC,))
    ((path,),) = run(
        engine,
        "insert into dbcheck.fs select from generate_series(1, 1000)",
        "vacuum dbcheck.fs",
        "alter role dbcheck set enable_seqscan = off",
        "select pg_relation_filepath('dbcheck.fs')",
    )
    server.stop()
    with (server.data / path).open("r+b") as stream:
        stream.seek(8192)
        stream.write(bytes(8192))  # an all-zero page is a valid, empty one
    server.start()
    assert run(engine, "select count(*) from dbcheck.fs") == [(1000,)]  # the index
    read = 0
    with refused(
        ErrorId.INDEX_DAMAGED, IndexDamaged, naming="has 1,000 rows where the table has"
    ) as e:
        for batch in batches(engine, CLASSIC):
            read += len(batch)
    assert 0 < read < 1000
    assert e.value.rows == 1000 - read


@pytest.mark.wide_with("mysql")
def test_a_damaged_page_is_an_error_not_an_end(own_server: DatabaseServer) -> None:
    engine = filled(own_server)
    file, page_bytes = data_file(engine, own_server)
    own_server.stop()
    with file.open("r+b") as stream:
        stream.seek(-page_bytes if own_server.name == "postgresql" else 0, 2)
        size = stream.tell()
        # InnoDB: its pages from the root of the table's tree onwards; on MySQL that
        # of the table's description comes before it
        root = {"mariadb": 3, "mysql": 4}
        start = root[own_server.name] * page_bytes if own_server.name in root else size
        stream.seek(start + 200)
        stream.write(b"\xa5" * 2000)
    own_server.start()
    # MySQL's server ends at such a page
    found = "CONNECTION_LOST" if own_server.name == "mysql" else "TABLE_LOST"
    with refused(ErrorId[found], EngineError, naming="failed at survivors_ledger"):
        list(batches(engine))


def test_a_table_that_would_be_read_from_its_index_is_not_read(
    postgresql: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An index may hold what the heap lost."""
    postgresql.prepare((LEDGER,))
    run(postgresql, "alter role dbcheck set enable_seqscan = off")
    try:
        list(batches(postgresql))
        monkeypatch.setattr(postgresql_link, "HEAP", {})
        with refused(
            ErrorId.PLAN_NOT_AS_ASKED, EngineError, naming=("seq scan", "count_ledger")
        ):
            list(batches(postgresql))
    finally:
        run(postgresql, "alter role dbcheck reset enable_seqscan")


@pytest.mark.parametrize(
    "statement",
    ["load 'dbcheck_has_no_such_library'", "select pg_read_file('/dbcheck/none')"],
)
def test_a_file_that_is_not_of_the_table_is_not_its_damage(
    postgresql: Engine, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    """PostgreSQL has one SQLSTATE for every file that it cannot find."""
    postgresql.prepare((LEDGER,))

    def broken(family: str, name: str) -> str:
        return statement if name.startswith("count_") else files.read_sql(family, name)

    monkeypatch.setattr(postgresql_link, "read_sql", broken)
    monkeypatch.setattr(PostgresqlLink, "require_plan", lambda *_: None)
    with refused(ErrorId.STATEMENT_FAILED, EngineError, naming="dbcheck") as caught:
        list(batches(postgresql))
    assert not isinstance(caught.value, TableLost | IndexDamaged)
