"""The servers of the sweep: what is written before they are killed, and their files."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dbcheck.lab.machine import SERVERS
from dbcheck.lab.process import Process
from dbcheck.lab.servers.base import DatabaseServer
from dbcheck.lab.servers.postgresql import PostgresqlServer
from tests.kit.lab_access import connect
from tests.kit.servers import server_in

ROWS = 400  # half of them before the checkpoint


class PlainPostgresql(PostgresqlServer):
    """A server that is started as a service is: its lock file is left where it is."""

    def _launch(self) -> None:
        DatabaseServer._launch(self)
        self._postmaster = Process.of(self._process.pid) if self._process else None


@dataclass(frozen=True, slots=True)
class Setup:
    """A kind of server in the sweep.

    kinds:    what a file is to the server, and the pattern of its path, relative to
              the data folder; the last file that a pattern finds is damaged.
    before, after: statements, with a checkpoint between them.
    reads:    queries, of which the last gives the number of rows, of different values,
              and of rows in the other table, which has *far* of them.
    """

    product: str
    make: type[DatabaseServer]
    settings: Mapping[str, str]
    before: Sequence[str]
    checkpoint: Sequence[str]
    after: Sequence[str]
    kinds: Mapping[str, str]
    reads: Sequence[str] = ("select count(*), count(distinct v), 0 from t",)
    far: int = 0


_PG_FILES = {
    "PG_VERSION": "PG_VERSION",
    "PG_VERSION of a database": "base/5/PG_VERSION",
    "control file": "global/pg_control",
    "relation map, shared": "global/pg_filenode.map",
    "relation map of a database": "base/5/pg_filenode.map",
    "relation cache": "base/5/pg_internal.init",
    "postgresql.conf": "postgresql.conf",
    "postgresql.auto.conf": "postgresql.auto.conf",
    "pg_hba.conf": "pg_hba.conf",
    "pg_ident.conf": "pg_ident.conf",
    "postmaster.opts": "postmaster.opts",
    "postmaster.pid": "postmaster.pid",
    "WAL": "pg_wal/000000010000000000000001",
    "WAL, the next segment": "pg_wal/000000010000000000000002",
    "commit status": "pg_xact/0000",
    "multixact offsets": "pg_multixact/offsets/0000",
    "multixact members": "pg_multixact/members/0000",
    "subtransactions": "pg_subtrans/0000",
    "commit timestamps": "pg_commit_ts/0000",
    "two-phase state": "pg_twophase/*",
    "replication slot": "pg_replslot/s/state",
    "replication origins": "pg_logical/replorigin_checkpoint",
    "statistics": "pg_stat/pgstat.stat",
    "notifications": "pg_notify/0000",
    "catalog pg_database": "global/1262",
    "catalog pg_authid": "global/1260",
    "catalog pg_class": "base/5/1259",
    "catalog index": "base/5/2662",
    "table": "{table}",
    "index of the table": "{index}",
    "free space map": "{table}_fsm",
    "visibility map": "{table}_vm",
    "table in a tablespace": "{elsewhere}",
    "tablespace link": "pg_tblspc/[0-9]*",
    "sequence": "{sequence}",
}
_MARIA_FILES = {
    "system tablespace": "ibdata1",
    "redo log": "ib_logfile0",
    "temporary tablespace": "ibtmp1",
    "buffer pool dump": "ib_buffer_pool",
    "Aria control file": "aria_log_control",
    "Aria log": "aria_log.0*",
    "binary log": "binlog.0*",
    "binary log index": "binlog.index",
    "binary log state": "binlog.state",
    "tc.log": "tc.log",
    "Aria system table, data": "mysql/global_priv.MAD",
    "Aria system table, index": "mysql/global_priv.MAI",
    "system table definition": "mysql/global_priv.frm",
    "InnoDB system table": "mysql/innodb_table_stats.ibd",
    "position of the replica": "mysql/gtid_slave_pos.ibd",
    "table": "dbcheck/t.ibd",
    "table definition": "dbcheck/t.frm",
    "db.opt": "dbcheck/db.opt",
    "DDL log": "ddl_recovery.log",
    "performance_schema": "performance_schema/db.opt",
}
_ROCKS_FILES = {
    "tc.log": "tc.log",
    "MyRocks CURRENT": "#rocksdb/CURRENT",
    "MyRocks MANIFEST": "#rocksdb/MANIFEST-*",
    "MyRocks log": "#rocksdb/*.log",
    "MyRocks OPTIONS": "#rocksdb/OPTIONS-*",
    "MyRocks data file": "#rocksdb/*.sst",
    "MyRocks IDENTITY": "#rocksdb/IDENTITY",
}
_MYSQL_FILES = {
    "system tablespace": "ibdata1",
    "data dictionary": "mysql.ibd",
    "redo log, in use": "#innodb_redo/#ib_redo*[0-9]",
    "redo log, spare": "#innodb_redo/#ib_redo*_tmp",
    "undo tablespace": "undo_001",
    "doublewrite file": "#ib_16384_0.dblwr",
    "doublewrite file 2": "#ib_16384_1.dblwr",
    "temporary tablespace": "ibtmp1",
    "session temporary": "#innodb_temp/temp_1.ibt",
    "buffer pool dump": "ib_buffer_pool",
    "auto.cnf": "auto.cnf",
    "mysqld-auto.cnf": "mysqld-auto.cnf",
    "binary log": "binlog.0*",
    "binary log index": "binlog.index",
    "sys schema": "sys/sys_config.ibd",
    "table": "dbcheck/t.ibd",
    "CSV log table": "mysql/general_log.CSV",
    "CSV log table, meta": "mysql/general_log.CSM",
    "performance_schema": "performance_schema/events_waits_cur*.sdi",
    "CA certificate": "ca.pem",
    "server certificate": "server-cert.pem",
    "server key": "server-key.pem",
    "RSA key": "private_key.pem",
}
_INNODB_BEFORE = (
    "create table t (id int primary key, v varchar(200) not null)",
    *(f"insert into t values ({n}, repeat('a', 200))" for n in range(ROWS // 2)),
)
_INNODB_AFTER = tuple(
    f"insert into t values ({n}, repeat('b', 200))" for n in range(ROWS // 2, ROWS)
)
_INNODB_WRITE_OUT = ("flush tables", "set global innodb_fast_shutdown = 0")

SETUPS = {
    "postgresql": Setup(
        "PostgreSQL",
        PlainPostgresql,
        {
            "max_replication_slots": "4",
            "track_commit_timestamp": "on",
            "wal_level": "logical",
            "autovacuum": "off",
        },
        (
            "create table t (id int primary key, v text not null)",
            "create sequence n",
            "create tablespace elsewhere location '{place}'",
            "create table far (id int) tablespace elsewhere",
            "insert into far select generate_series(1, 100)",
            f"insert into t select g, repeat('a', 200) from generate_series(0,"
            f" {ROWS // 2 - 1}) g",
            "alter system set work_mem = '8MB'",
            "select pg_create_physical_replication_slot('s', true)",
            "select pg_replication_origin_create('o')",
            "vacuum t",
            "begin",
            "insert into far values (101)",
            "prepare transaction 'p'",
        ),
        ("checkpoint",),
        (
            f"insert into t select g, repeat('b', 200) from generate_series("
            f"{ROWS // 2}, {ROWS - 1}) g",
            "select pg_switch_wal()",
            "update t set v = v where id = 0",
        ),
        _PG_FILES,
        (
            "select nextval('n')",
            "select count(*), count(distinct v), (select count(*) from far) from t",
        ),
        100,
    ),
    "mariadb": Setup(
        "MariaDB",
        SERVERS["mariadb"],
        {"log_bin": "binlog", "sync_binlog": "1"},
        _INNODB_BEFORE,
        _INNODB_WRITE_OUT,
        _INNODB_AFTER,
        _MARIA_FILES,
    ),
    "myrocks": Setup(
        "MariaDB with MyRocks, no binary log",
        SERVERS["myrocks"],
        {},
        (
            *_INNODB_BEFORE,
            "create table r (id int primary key) engine = rocksdb",
            "insert into r values (0)",
            "set global rocksdb_force_flush_memtable_now = 1",
        ),
        _INNODB_WRITE_OUT,
        (
            *_INNODB_AFTER,
            "begin",
            "insert into r values (1)",
            "update t set v = v where id = 0",
            "commit",
        ),
        _ROCKS_FILES,
        ("select count(*), count(distinct v), (select count(*) from r) from t",),
        2,
    ),
    "mysql": Setup(
        "MySQL",
        SERVERS["mysql"],
        {"log_bin": "binlog", "sync_binlog": "1"},
        ("set persist max_connections = 99", *_INNODB_BEFORE),
        _INNODB_WRITE_OUT,
        _INNODB_AFTER,
        _MYSQL_FILES,
    ),
}


@dataclass
class Prepared:
    """A server that was killed with rows in it, and a copy of what it left."""

    setup: Setup
    server: DatabaseServer
    copy: Path
    paths: dict[str, str] = field(default_factory=dict)

    def restore(self) -> None:
        """Put the data back as the SIGKILL left them."""
        shutil.rmtree(self.server.data)
        subprocess.run(["cp", "-a", self.copy, self.server.data], check=True)
        if self.copy.with_name("place").is_dir():
            shutil.rmtree(self.server.data.with_name("place"))
            place = self.copy.with_name("place")
            subprocess.run(
                ["cp", "-a", place, self.server.data.with_name("place")], check=True
            )

    def file(self, kind: str) -> Path | None:
        """Return the file of that kind, None if this server has none."""
        pattern = self.setup.kinds[kind]
        if pattern.startswith("{"):
            name, _, end = pattern[1:].partition("}")
            pattern = self.paths[name] + end
        found = sorted(self.server.data.glob(pattern))
        return found[-1] if found else None


@contextlib.contextmanager
def prepared(setup: Setup, base: Path) -> Iterator[Prepared]:
    """Make a server in the empty folder *base*, write to it and kill it."""
    base.chmod(0o755)
    server = server_in(base, setup.make)
    server.settings.update(setup.settings)
    server.initialise()
    place = base / "place"
    place.mkdir()
    owner = server.data.stat()
    os.chown(place, owner.st_uid, owner.st_gid)
    try:
        server.start()
        made = Prepared(setup, server, base / "kept" / "data")
        with contextlib.closing(connect(server.url, server.password)) as connection:
            cursor = connection.cursor()
            for statement in (*setup.before, *setup.checkpoint, *setup.after):
                cursor.execute(statement.replace("{place}", str(place)))
                if cursor.description:
                    cursor.fetchall()
            if setup.product == "PostgreSQL":
                made.paths = _paths(cursor)
        server.kill()
        made.copy.parent.mkdir()
        subprocess.run(["cp", "-a", server.data, made.copy], check=True)
        subprocess.run(["cp", "-a", place, made.copy.with_name("place")], check=True)
        yield made
    finally:
        server.kill()


def _paths(cursor: Any) -> dict[str, str]:
    """Return where PostgreSQL keeps these, relative to its data folder."""
    names = {"table": "t", "index": "t_pkey", "elsewhere": "far", "sequence": "n"}
    found = {}
    for key, name in names.items():
        cursor.execute(f"select pg_relation_filepath('{name}')")
        ((found[key],),) = cursor.fetchall()
    return found
