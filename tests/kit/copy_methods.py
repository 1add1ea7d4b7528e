"""How copies are taken and restored: honest methods, and bad ones, as programs.

Each text is a program of the shell; tests/kit/copies.py has what it begins with.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Method:
    """How copies of one kind of server are taken: the text of each program."""

    engine: str
    copy: str
    restore: str
    remove: str


NOTHING = "exit 0\n"

# Without the first two a copy that is a standby would not start.
_PG_START = """\
end QUIT "$copy/postmaster.pid"
$as pg_ctl start -w -s -D "$copy" -l "$copy.log" -o "-p $port \\
    -c max_prepared_transactions=256 -c shared_buffers=64MB \\
    -c listen_addresses=127.0.0.1 -c unix_socket_directories="
"""
_PG_REMOVE = 'end QUIT "$copy/postmaster.pid"\nrm -rf "$copy" "$copy".*\n'
# A server that takes long to start has no file with its pid yet, and must end as well.
_INNODB_START = """\
end KILL "$copy.pid"
setsid -f $as sh -c 'cd "$0" && echo $$ >"$0.pid" && exec "$@"' "$copy" \\
    $program --datadir="$copy" --port=$port \\
    --bind-address=127.0.0.1 --skip-name-resolve --socket="$copy.socket" \\
    --pid-file="$copy.pid" --log-error="$copy.log" >/dev/null 2>&1
"""
_INNODB_REMOVE = 'end KILL "$copy.pid"\nrm -rf "$copy" "$copy".*\n'
START = {
    "postgresql": _PG_START,
    "mariadb": _INNODB_START,
    "mysql": _INNODB_START,
}
REMOVE = {
    "postgresql": _PG_REMOVE,
    "mariadb": _INNODB_REMOVE,
    "mysql": _INNODB_REMOVE,
}


def method(engine: str, copy: str, before: str = "", after: str = "") -> Method:
    """Return a method.

    copy: the text of its program.  before, after: what the restore does before and
    after it starts the server.
    """
    return Method(engine, copy, before + START[engine] + after, REMOVE[engine])


def restoring(named: str, method: Method) -> Method:
    """Return a method that copies nothing, and restores the copy of that name."""
    other = f'copy="$folder/copies/{named}"\n'
    return Method(method.engine, NOTHING, other + method.restore, other + method.remove)


_PG_BACKUP = """\
$as pg_basebackup -h 127.0.0.1 -p $from -U $user -D "$copy" -c fast {flags}
"""


def base_backup(*flags: str, finally_: str = "") -> Method:
    """Return pg_basebackup with these flags; finally_: what the program does then."""
    copy = _PG_BACKUP.format(flags=" ".join(flags)) + finally_
    return method("postgresql", copy)


def dump_postgresql() -> Method:
    """Return pg_dump, loaded into a new server."""
    return method(
        "postgresql",
        """\
$as pg_dump -h 127.0.0.1 -p $from -U $user -d $database -f "$copy.sql"
""",
        """\
end QUIT "$copy/postmaster.pid"
rm -rf "$copy"
$as initdb -D "$copy" -U $user --pwfile="$folder/password" -A scram-sha-256 >&2
""",
        """\
$as psql -X -q -v ON_ERROR_STOP=1 -h 127.0.0.1 -p $port -U $user -d $database \\
    -f "$copy.sql" >&2
""",
    )


def back_up_mariadb() -> Method:
    """Return mariadb-backup, which prepares its copy at once."""
    return method(
        "mariadb",
        """\
$on_host $as mariadb-backup --defaults-file="$folder/client.cnf" --backup \\
    --host=127.0.0.1 --port=$from --user=$user --datadir="$host_data" \\
    --target-dir="$copy"
$as mariadb-backup --prepare --target-dir="$copy"
""",
    )


def dump_mariadb() -> Method:
    """Return mariadb-dump, loaded into a new server with all accounts."""
    return method(
        "mariadb",
        """\
$as mariadb-dump --defaults-file="$folder/client.cnf" -h 127.0.0.1 -P $from -u $user \\
    --single-transaction --flush-privileges --all-databases -r "$copy.sql"
""",
        """\
end KILL "$copy.pid"
rm -rf "$copy"
$as mariadb-install-db --no-defaults --datadir="$copy" --skip-test-db \\
    --auth-root-authentication-method=normal
""",
        """\
root() { mariadb --no-defaults -u root -S "$copy.socket" "$@"; }
wait_for root -e 'select 1'
root <"$copy.sql"
""",
    )


def clone_mysql() -> Method:
    """Return MySQL's plugin clone, which copies into a folder of the server's host."""
    return method("mysql", """ask $from "clone local data directory '$copy'"\n""")


def dump_mysql() -> Method:
    """Return a dump of one moment, loaded into a new server with the same account."""
    return method(
        "mysql",
        'python -m tests.kit.mysql_dump dump "$url" $from "$copy.sql"\n',
        """\
end KILL "$copy.pid"
rm -rf "$copy"
$as $program --initialize-insecure --datadir="$copy" --log-error="$copy.log"
""",
        """\
python -m tests.kit.mysql_dump load "$url" "$copy.socket" "$copy.sql"
""",
    )


# A copy that is taken file by file.  `more` says that the server went on meanwhile.
_BEGIN_FILES = """\
rows() { ask $from "select count(*) from $ledger"; }
more() { [ "$(rows)" -gt $((before + 2000)) ]; }
own() { rm -f "$copy/postmaster.pid"; chown -R --reference="$folder/copies" "$copy"; }
mkdir "$copy"
"""


def copy_files(engine: str) -> Method:
    """Return cp of the data of a running server, whose files are of other moments."""
    return method(engine, _BEGIN_FILES + 'cp -a "$data/." "$copy"\nown\n')


def copy_log_last() -> Method:
    """Return the same, whose log begins only after the other files were copied."""
    return method(
        "postgresql",
        _BEGIN_FILES
        + """\
cp -a "$data/." "$copy"
before=$(rows)
wait_for more
ask $from checkpoint
rm -rf "$copy/pg_wal" "$copy/global"
cp -a "$data/pg_wal" "$data/global" "$copy"
own
""",
    )


def copy_log_first() -> Method:
    """Return the same, whose log ends before the checkpoint that the files need."""
    return method(
        "postgresql",
        _BEGIN_FILES
        + """\
cp -a "$data/." "$copy"
before=$(rows)
wait_for more
ask $from "select pg_switch_wal()"
ask $from checkpoint
rm -rf "$copy/base" "$copy/global"
cp -a "$data/base" "$data/global" "$copy"
own
""",
    )


def copy_without_redo() -> Method:
    """Return cp of MariaDB's files, but for the redo log."""
    return method(
        "mariadb",
        _BEGIN_FILES + 'cp -a "$data/." "$copy"\nrm "$copy/ib_logfile0"\nown\n',
    )


def copy_table_first() -> Method:
    """Return cp of MariaDB's files, of which the table's is older than the redo log.

    Recovery begins at a checkpoint that came after the table's file was copied.
    """
    return method(
        "mariadb",
        _BEGIN_FILES
        + """\
lsn() {
    ask $from "select variable_value from information_schema.global_status
        where variable_name = 'innodb_lsn_$1'"
}
cp -a "$data/." "$copy"
before=$(rows)
wait_for more
cp -a "$copy/dbcheck/ledger.ibd" "$copy.older"
written=$(lsn current)
ask $from "set global innodb_max_dirty_pages_pct = 0"
checkpointed() { [ "$(lsn last_checkpoint)" -ge "$written" ]; }
wait_for checkpointed
cp -a "$data/." "$copy"
mv "$copy.older" "$copy/dbcheck/ledger.ibd"
own
""",
    )


def snapshot_files(engine: str) -> Method:
    """Return a snapshot of the filesystem, btrfs, from which the files are copied."""
    return method(
        engine,
        """\
lab=$(dirname "$(dirname "$(dirname "$data")")")
btrfs -q subvolume snapshot "$lab" "$copy.snapshot"
cp -a "$copy.snapshot/lab/files/data" "$copy"
btrfs -q subvolume delete "$copy.snapshot"
rm -f "$copy/postmaster.pid"
chown -R --reference="$folder/copies" "$copy"
""",
    )


def standby(*, promoted: bool) -> Method:
    """Return a copy that follows the original; promoted: until it has all commits."""
    made = base_backup("-X", "stream", "-R")
    if not promoted:
        return made
    promote = """\
place() { ask "$1" "select pg_wal_lsn_diff($2, '0/0') >= $3"; }
end=$(ask $from "select pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')")
caught_up() { [ "$(place $port 'pg_last_wal_replay_lsn()' "$end")" = True ]; }
wait_for caught_up
$as pg_ctl promote -w -s -D "$copy"
"""
    return replace(made, restore=made.restore + promote)


# A standby at a port of its own, for which each commit waits until it is applied.
_BEGIN_STANDBY = """\
$as pg_basebackup -h 127.0.0.1 -p $from -U $user -D "$copy" -c fast -X stream -R
port={port}
{start}
ask $from "alter system set synchronous_standby_names = '*'"
ask $from "alter system set synchronous_commit = 'remote_apply'"
ask $from "select pg_reload_conf()"
applies() {{
    [ -n "$(ask $from "select 1 from pg_stat_replication where sync_state = 'sync'")" ]
}}
wait_for applies
"""
# It receives no more, and no commit waits for it.
_DETACH_STANDBY = """\
ask $from "alter system reset synchronous_standby_names"
ask $from "select pg_reload_conf()"
ask {port} "alter system set primary_conninfo = ''"
ask {port} "select pg_reload_conf()"
"""


def begin_standby(port: int, *, detached: bool = False) -> str:
    """Return the program that makes a standby; detached: it soon follows no more."""
    made = _BEGIN_STANDBY.format(port=port, start=_PG_START)
    return made + _DETACH_STANDBY.format(port=port) * detached


def base_backup_of_standby(port: int, *, follows: bool = False) -> Method:
    """Return pg_basebackup of a standby; follows: restored as a standby, as it is."""
    copy = _PG_BACKUP.format(flags="-X stream").replace("$from", str(port))
    return method("postgresql", copy, 'rm "$copy/standby.signal"\n' * (not follows))


# A full backup, and later an incremental one of what changed since.
BEGIN_INCREMENTAL = """\
$on_host $as mariadb-backup --defaults-file="$folder/client.cnf" --backup \\
    --host=127.0.0.1 --port=$from --user=$user --datadir="$host_data" \\
    --target-dir="$copy"
"""


def incremental_backup(full: str, *, applied: bool = True) -> Method:
    """Return mariadb-backup of what changed since the backup of the name *full*."""
    full = f'"$folder/copies/{full}"'
    copy = BEGIN_INCREMENTAL.replace('dir="$copy"\n', 'dir="$copy.new" \\\n')
    before = f"""\
end KILL "$copy.pid"
rm -rf "$copy"
cp -a {full} "$copy"
$as mariadb-backup --prepare --target-dir="$copy"
"""
    if applied:
        before += '$as mariadb-backup --prepare --target-dir="$copy" \\\n'
        before += '    --incremental-dir="$copy.new"\n'
    return method("mariadb", f"{copy}    --incremental-basedir={full}\n", before)
