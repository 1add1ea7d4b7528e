"""How a server's log is shipped and its archive restored: honest ways, and bad ones.

Each text is a program of the shell; tests/kit/copies.py has what it begins with, and
archives.py adds the folders `base`, of the backup, and `log`, of what was shipped.
"""

from __future__ import annotations

from dataclasses import replace

from tests.kit.archives import ARCHIVE, Shipping
from tests.kit.copy_methods import REMOVE, START, Method

# A segment is complete under its name: it is copied under another one, and synced.  A
# server that starts again may ship a segment once more; another one is not replaced.
_SHIP = f"""\
if test -e "{ARCHIVE}/log/%f"; then cmp -s "%p" "{ARCHIVE}/log/%f"; \
else cp "%p" "{ARCHIVE}/log/%f.new" && sync "{ARCHIVE}/log/%f.new" && \
mv "{ARCHIVE}/log/%f.new" "{ARCHIVE}/log/%f"; fi"""
_BASE = """\
$as pg_basebackup -h 127.0.0.1 -p $from -U $user -D "$archive/new" -c fast -X stream
mv "$archive/new" "$base"
"""
# The lab's server may have an account that the restored one has not.
_OWN = 'chown -R --reference="$folder/copies" "$log"\n'
# No query is taken before the end of the log: pg_ctl waits for that.
_RESTORE = """\
end QUIT "$copy/postmaster.pid"
rm -rf "$copy"
cp -a "$base" "$copy"
touch "$copy/recovery.signal"
chown --reference="$folder/copies" "$copy/recovery.signal"
$as pg_ctl start -w -s -D "$copy" -l "$copy.log" -o "-p $port \\
    -c max_prepared_transactions=256 -c shared_buffers=64MB \\
    -c listen_addresses=127.0.0.1 -c unix_socket_directories= \\
    -c hot_standby=off -c archive_mode=off -c synchronous_standby_names=" \\
    -o "-c restore_command='{fetch}'"
"""
# PostgreSQL takes 1 for the end of the log, and gives up at 255: a segment that is
# there and cannot be copied is no end.
_FETCH = 'test -e $log/%f || exit 1; cp $log/%f "%p" || exit 255'
_FETCH_ANY = 'cp $log/%f "%p"'
_FETCH_PARTIAL = f'test -e $log/%f || exec cp $log/%f.partial "%p"; {_FETCH}'
RECEIVER = "receiver"  # the name and the slot of the synchronous receiver
_MAKE_SLOT = f"""\
$as pg_receivewal -h 127.0.0.1 -p $from -U $user --slot={RECEIVER} \\
    --create-slot --if-not-exists
"""
_RECEIVE = f"""\
$as pg_receivewal --synchronous -D "$log" --slot={RECEIVER} --no-password \\
    -d "host=127.0.0.1 port=$from user=$user application_name={RECEIVER}"
"""
_FEW_FILES = 5  # the second segment has a second file, of the backup that began in it
# Of those that came after the backup, the one in the middle.
_LOSE_SEGMENT = """\
ls "$log" | grep -Ex '[0-9A-F]{24}' | sed 1,2d >"$archive/segments"
lost=$(sed -n "$((($(wc -l <"$archive/segments") + 1) / 2))p" "$archive/segments")
mv "$log/$lost" "$archive/lost"
"""
_STREAMS = f"""\
streams() {{
    [ -n "$(ask $from "select 1 from pg_stat_replication where state = 'streaming'\\
        and application_name = '{RECEIVER}'")" ]
}}
wait_for streams
"""
_WAIT_FOR_RECEIVER = f"""\
ask $from "alter system set synchronous_standby_names = '{RECEIVER}'"
ask $from "select pg_reload_conf()"
"""


def postgresql_archive(timeout_s: int = 1, ship: str = _SHIP) -> Shipping:
    """Return archive_command, and archive_timeout of so many seconds."""
    settings = {
        "archive_mode": "on",
        "archive_timeout": str(timeout_s),
        "archive_command": ship,
    }
    return Shipping(_BASE, _restored(_FETCH), settings)


def archive_that_stops() -> Shipping:
    """Return an archive_command that says it shipped what it leaves out after a few."""
    few = f'test "$(ls {ARCHIVE}/log | wc -l)" -ge {_FEW_FILES} && exit 0; '
    return postgresql_archive(ship=few + _SHIP)


def archive_without_segment() -> Shipping:
    """Return an archive that lacks one segment in its middle once it is restored."""
    made = postgresql_archive()
    return made.restoring(_LOSE_SEGMENT + made.method.restore)


def archive_not_readable(*, noticed: bool) -> Shipping:
    """Return an archive whose files the restored server may not read.

    noticed: restore_command does not take that for the end of the log.
    """
    restore = _restored(_FETCH if noticed else _FETCH_ANY).restore
    return postgresql_archive().restoring('chmod 000 "$log"/*\n' + restore)


def archive_not_restored() -> Shipping:
    """Return an archive of which the base backup alone is restored."""
    return postgresql_archive().restoring(_restored("exit 1").restore)


def postgresql_receiver(*, awaited: bool = True) -> Shipping:
    """Return pg_receivewal; awaited: each commit waits for it."""
    begin = _STREAMS + _BASE + (_WAIT_FOR_RECEIVER if awaited else "")
    receive = f"{_MAKE_SLOT}exec {_RECEIVE}"
    return Shipping(begin, _restored(_FETCH_PARTIAL), receive=receive)


def receiver_without_partial() -> Shipping:
    """Return the same, restored without the segment that is not complete yet."""
    return postgresql_receiver().restoring(_restored(_FETCH).restore)


def receiver_that_stops() -> Shipping:
    """Return a receiver that stores nothing after a while; no commit waits for it."""
    made = postgresql_receiver(awaited=False)
    return replace(made, receive=_MAKE_SLOT + _stopped(_RECEIVE))


def receiver_that_lies() -> Shipping:
    """Return a receiver that confirms what it does not store; each commit waits."""
    late = _stopped(_RECEIVE.replace(f"name={RECEIVER}", "name=late"))
    lying = f'python -m tests.kit.receivers lie "$url" $from {RECEIVER} &\n'
    return replace(postgresql_receiver(), receive=_MAKE_SLOT + lying + late)


def _stopped(receive: str) -> str:
    """Return what receives until some commits have come, and then stores no more."""
    return f"""\
{receive.rstrip()} &
receiver=$!
python -m tests.kit.receivers await "$url" $from $ledger
kill -STOP $receiver
wait
"""


def _restored(fetch: str) -> Method:
    """Return how a backup is restored with the log that *fetch* gives PostgreSQL."""
    restore = _OWN + _RESTORE.replace("{fetch}", fetch.replace('"', '\\"'))
    return Method("postgresql", "", restore, REMOVE["postgresql"])


# The log of MariaDB, as `mariadb-binlog` receives it.
_BINLOG = "binlog"
_RECEIVE_BINLOG = f"""\
cd "$log"
exec mariadb-binlog --defaults-file="$folder/client.cnf" -h 127.0.0.1 -P $from \\
    -u $user --read-from-remote-server --raw --stop-never {_BINLOG}.000001
"""
_RECEIVED = """\
received() { [ -s "$log/binlog.000001" ]; }
wait_for received
"""
_BACKUP_MARIADB = """\
mkdir "$base"
chown --reference="$folder/copies" "$base"
$on_host $as mariadb-backup --defaults-file="$folder/client.cnf" --backup \\
    --host=127.0.0.1 --port=$from --user=$user --datadir="$host_data" \\
    --target-dir="$base"
$as mariadb-backup --prepare --target-dir="$base"
"""
_CLIENT = """\
client() { mariadb --defaults-file="$folder/client.cnf" -h 127.0.0.1 -P $port \\
    -u $user "$@"; }
wait_for client -e 'select 1'
"""
_REPLAY = f"""\
{_CLIENT}
read -r first place _ <"$copy/xtrabackup_binlog_info"
cd "$log"
set -- $(ls {_BINLOG}.* | sed -n "/^$first\\$/,\\$p")
# It fails at a log that ends within an event, as one may whose server was lost.
mariadb-binlog --start-position="$place" "$@" >"$copy.sql" || echo "$* ends early" >&2
client <"$copy.sql"
"""


def binlog_that_stops() -> Shipping:
    """Return a receiver of the binary log that stores nothing after a while."""
    receive = _RECEIVE_BINLOG.replace("exec ", "")
    head, receive = receive.split("\n", 1)
    return replace(mariadb_binlog(), receive=f"{head}\n{_stopped(receive)}")


def mariadb_binlog() -> Shipping:
    """Return the binary log as `mariadb-binlog --stop-never` receives it."""
    restore = REMOVE["mariadb"] + 'cp -a "$base" "$copy"\n' + START["mariadb"] + _REPLAY
    return Shipping(
        _RECEIVED + _BACKUP_MARIADB,
        Method("mariadb", "", restore, REMOVE["mariadb"]),
        {"log_bin": _BINLOG, "server_id": "1", "sync_binlog": "1"},
        _RECEIVE_BINLOG,
    )


# A replica of MariaDB that works on the base backup, from before any load.
_OF_REPLICA = "copy=$archive/replica\n"
_MAKE_REPLICA = f"""\
mv "$base" "$copy"
{START["mariadb"]}
{_CLIENT}
read -r file place _ <"$copy/xtrabackup_binlog_info"
client -e 'set global server_id = 2; set global rpl_semi_sync_slave_enabled = on'
printf "change master to master_host='127.0.0.1', master_port=%s, master_user='%s',
    master_log_file='%s', master_log_pos=%s, master_use_gtid=no,
    master_password='%s'" "$from" "$user" "$file" "$place" \\
    "$(cat "$folder/password")" | client
"""
_AWAIT_REPLICA = """\
joined() {
    [ "$(ask $from "show status like 'rpl_semi_sync_master_clients'")" = \
        "Rpl_semi_sync_master_clients 1" ]
}
wait_for joined
"""
_PROMOTE = f"""\
{_CLIENT}
client -e 'stop slave; reset slave all'
"""
# All that was received has to be applied first.
_APPLY = f"""\
{_CLIENT}
client -e 'stop slave io_thread'
applied() {{
    client -e 'show processlist' | grep -q 'Slave has read all relay log'
}}
wait_for applied
"""


# The replica applies the first commits alone; it receives all of them.
_START = "client -e 'start slave'\n"
_START_APPLYING_FEW = (
    "client -e \"start slave until master_log_file = '$file',"
    ' master_log_pos = $((place + 20000))"\n'
)


def mariadb_replica(*, semi_sync: bool = True, applied: bool = True) -> Shipping:
    """Return a replica that is promoted once its source is lost.

    semi_sync: each commit waits for it.  applied: it applies all that it received.
    """
    begin = _OF_REPLICA + _BACKUP_MARIADB + _MAKE_REPLICA
    begin += _START if applied else _START_APPLYING_FEW
    promote = _OF_REPLICA + _APPLY * applied + _PROMOTE
    settings = {"log_bin": _BINLOG, "server_id": "1", "sync_binlog": "1"}
    if semi_sync:
        begin += _AWAIT_REPLICA
        settings |= {
            "rpl_semi_sync_master_enabled": "ON",
            "rpl_semi_sync_master_wait_point": "AFTER_SYNC",
            "rpl_semi_sync_master_timeout": "3600000",
        }
    remove = _OF_REPLICA + REMOVE["mariadb"]
    method = Method("mariadb", "", promote, remove)
    return Shipping(begin, method, settings)
