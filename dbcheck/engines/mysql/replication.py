"""Replication of MySQL and MariaDB by GTID: replicas, positions and a promotion."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import ConnectionLost, EngineError
from dbcheck.engines.mysql.check import read_product
from dbcheck.engines.mysql.link import (
    ACCESS_DENIED_TO_SERVER,
    MysqlLink,
    MysqlWatch,
    error_code,
    require_off,
)
from dbcheck.model.replication import (
    Descent,
    Follower,
    Membership,
    Received,
    SourceLogin,
    count_gtids,
    find_newest_gtids,
)
from dbcheck.server_log import Product

# Of MySQL and of MariaDB; MySQL has the older ones, too, by the plugin that is loaded.
SOURCE_PREFIXES = ("rpl_semi_sync_source_", "rpl_semi_sync_master_")
_SEE_LOG = "Look into the server's log."
_REBUILD_RIGHTS = (
    "MySQL: grant REPLICATION_SLAVE_ADMIN and SYSTEM_VARIABLES_ADMIN; MariaDB:"
    " REPLICATION SLAVE ADMIN, REPLICATION MASTER ADMIN and READ_ONLY ADMIN."
)
_STREAMING, _SYNC, _ASYNC = "streaming", "sync", "async"
UNREPLICATED = "sql_log_bin = 0 in its own sessions"
UNREGISTERED = "a replica that is not registered"


class Followers(MysqlWatch):
    """A connection to the source that lists its replicas (ports.connection.Followers).

    A source does not show which of its replicas are semi-synchronous, only how many
    are.  It counts how often it stopped waiting (no_times), and the commits that no
    replica acknowledged (no_tx).  If neither counter changed between two samples, the
    source waited for each commit between them (MySQL 9.7 manual, 7.1.10 Server Status
    Variables; MariaDB documentation, Semisynchronous Replication Plugin Status
    Variables).
    """

    def __init__(self, link: MysqlLink) -> None:
        """Take over *link*."""
        super().__init__(link)
        self._product = read_product(link)

    def read(self) -> Sequence[Follower]:
        replicas, status_rows = self._texts(
            f"followers_{self._product.lower()}", "semi_sync"
        )
        status = {str(name).lower(): str(value) for name, value in status_rows}
        is_on = any(
            value == "ON" for name, value in status.items() if name.endswith("_status")
        )
        clients = sum(
            int(value) for name, value in status.items() if name.endswith("_clients")
        )
        sync = _SYNC if is_on and replicas and clients >= len(replicas) else _ASYNC
        continuity = " ".join(
            f"{name}={value}"
            for name, value in sorted(status.items())
            if name.endswith(("_no_times", "_no_tx"))
        )
        followers = [self._make_follower(row, sync, continuity) for row in replicas]
        if is_on and clients > len(replicas):  # an unregistered one may acknowledge
            followers.append(Follower(UNREGISTERED, _STREAMING, _SYNC, continuity))
        return followers

    def _make_follower(
        self, row: Sequence[str | None], sync: str, continuity: str
    ) -> Follower:
        """Return the replica of a row: Server_Id, Host, ..., Port, Source_Id.

        MySQL adds Replica_UUID, by which a MySQL replica is named.
        """
        values = [value or "" for value in row]
        if self._product is Product.MYSQL:
            *first_values, port, _, name = values
        else:
            *first_values, port, _ = values
            name = values[0]
        return Follower(name, _STREAMING, sync, continuity, f"{first_values[1]}:{port}")


def followers(link: MysqlLink) -> Followers:
    """Take over *link*; return what lists the replicas."""
    return Followers(link)


def leave_replication(link: MysqlLink) -> None:
    """Have the commits of this session wait for no replica, and reach none.

    They are not in the binary log (MySQL 8.4 manual, 15.4.1.3 SET sql_log_bin).
    Raise EngineError, also if the session does not keep the setting.
    """
    link.rows("leave_binlog")
    require_off(link, "in_binlog", "sql_log_bin is 1")


def membership(link: MysqlLink) -> Membership | None:
    """Return this server's name in the source's list, and the source's name.

    None if it follows no source.
    """
    product = read_product(link)
    own, _ = link.row(f"executed_{product.lower()}")
    if product is Product.MYSQL:
        received_rows = link.rows("received_mysql")
        source = received_rows[0][0] if received_rows else ""
    else:
        source = str(_read_status(link).get("master_server_id", ""))
    if not source:
        return None
    host, port = link.row("reported")
    states = [str(value).upper() for _, value in link.rows("semi_sync_replica")]
    return Membership(str(own), source, f"{host}:{port}", semi_sync="ON" in states)


def received(link: MysqlLink) -> Received:
    """Return the positions that this replica has received and applied."""
    if read_product(link) is Product.MYSQL:
        received_rows = link.rows("received_mysql")
        if not received_rows or not received_rows[0][0]:
            return Received(None, None)
        source, executed, unapplied, state = map(str, received_rows[0])
        applied = count_gtids(executed).get(source, 0)
        position = applied + count_gtids(unapplied).get(source, 0)
        return Received(position, applied, state == "ON")
    if not (status := _read_status(link)):
        return Received(None, None)
    source = str(status["master_server_id"])
    _, states = link.row("executed_mariadb")
    applied = _pick_position(source, find_newest_gtids(states))
    fetched = _pick_position(source, find_newest_gtids(str(status["gtid_io_pos"])))
    is_connected = status["slave_io_running"] == "Yes"
    return Received(max(applied, fetched), applied, is_connected)


def _pick_position(source: str, positions: Mapping[str, int]) -> int:
    """Return the position in the log of *source*.

    A replica that has not reached its source since its own start gives the source's id
    as 0: then return the highest position of any server.
    """
    return (
        positions.get(source, 0)
        if source != "0"
        else max(positions.values(), default=0)
    )


def promote(link: MysqlLink) -> None:
    """Have this replica follow no other server, and take writes.

    Raise EngineError; its hint says what to grant if the account may not do that.
    """
    product = read_product(link).lower()
    try:
        for statement in (
            f"stop_replica_{product}",
            "forget_source",
            f"allow_writes_{product}",
        ):
            link.rows(statement)
    except EngineError as error:
        if error_code(error) != ACCESS_DENIED_TO_SERVER:
            raise
        raise EngineError(
            str(error),
            id=ErrorId.PROMOTION_REFUSED,
            hint="Grant the account what STOP REPLICA, RESET REPLICA ALL and SET GLOBAL"
            " read_only need (docs/clusters.md), or promote by a command"
            " (dbcheck_promote).",
        ) from error


def transactions(link: MysqlLink) -> str:
    """Return the GTIDs that this server has; MariaDB's only the newest of each."""
    product = read_product(link)
    name = "executed_mysql" if product is Product.MYSQL else "logged_mariadb"
    _, found = link.row(name)
    return str(found)


def follow(link: MysqlLink, source: SourceLogin, theirs: str) -> None:
    """Have this server follow *source*, and take no writes; wait until it does.

    TLS options that it has stay.  MySQL is given TLS without a check of the source's
    certificate together with a login.
    theirs: transactions() of *source*.  Raise EngineError.
    """
    product = read_product(link)
    name, on_mysql = product.lower(), product is Product.MYSQL
    _require_same_transactions(link, product, theirs)
    if not source.user and not _read_threads(link, product):
        raise EngineError(
            "the server follows no other so far, so it has no login for that",
            id=ErrorId.NODE_NOT_REBUILT,
            hint="Name the account of replication and its password.",
        )
    login = {"user": source.user, "password": source.password} if source.user else {}
    point = f"point_login_{name}" if login else f"point_{name}"
    with _explain_refusal(source.password):
        link.rows(f"stop_replica_{name}")
        read_only = "super_read_only" if on_mysql else "read_only"
        link.set_global({read_only: 1}, persist=False)
        if roles := _choose_replica_roles(link):
            link.set_global(roles, persist=on_mysql)
        link.rows(point, {"host": source.host, "port": source.port, **login})
        link.rows("start_replica")
    _await_replica(link, product)


def lead(link: MysqlLink, settings: Mapping[str, str]) -> None:
    """Have this server wait for replicas as *settings*, of another source, say.

    Raise EngineError, also if it has no plugin for that.
    """
    here = _read_globals(link)
    wanted: dict[str, int | str] = {}
    for name, value in settings.items():
        if not name.startswith(SOURCE_PREFIXES):
            continue
        own = next((own for own in _list_names(name) if own in here), "")
        if own:
            wanted[own] = int(value) if value.isdigit() else value
        elif name.endswith("_enabled") and value == "ON":
            raise EngineError(
                f"the server has no setting {name}, so no commit would wait for a"
                " replica",
                id=ErrorId.NODE_NOT_REBUILT,
                hint="Run: install plugin rpl_semi_sync_source soname"
                " 'semisync_source.so';",
            )
    if wanted:
        # Last, so that no commit waits by the other settings that the server had.
        in_order = dict(
            sorted(wanted.items(), key=lambda item: item[0].endswith("_enabled"))
        )
        with _explain_refusal():
            persist = read_product(link) is Product.MYSQL
            link.set_global(in_order, persist=persist)


_CLONE_S = 24 * 3600.0
_CLONE_HINT = (
    "The server to copy needs the plugin (install plugin clone soname"
    " 'mysql_clone.so'), TLS, and BACKUP_ADMIN for the account; this server needs the"
    " same version, and CLONE_ADMIN for dbcheck's account."
)
_NOT_SUPERVISED = 3707  # ER_RESTART_SERVER_FAILED


def clone(link: MysqlLink, source: SourceLogin) -> None:
    """Have MySQL replace its data by a copy of *source*'s, then restart.

    Return once it ends for that.  Raise EngineError, also if nothing starts it again
    (MySQL 8.4 manual, 7.6.7.3 Cloning Remote Data).
    """
    if read_product(link) is not Product.MYSQL:
        raise EngineError(
            "MariaDB has no statement that copies another server's data",
            id=ErrorId.NODE_NOT_REBUILT,
            hint="Rebuild it by a program that runs mariadb-backup (docs/clusters.md).",
        )
    with _explain_refusal(source.password):
        if not link.rows("clone_plugin"):
            link.rows("install_clone")
        link.rows("stop_replica_mysql")
        link.set_global({"super_read_only": 0}, persist=False)
        link.rows("allow_donor", {"donor": f"{source.host}:{source.port}"})
    login = {"user": source.user, "password": source.password}
    where = {"host": source.host, "port": source.port}
    try:
        with _explain_refusal(source.password):
            link.rows("clone", {**where, **login}, answer_s=_CLONE_S)
    except EngineError as error:
        refusal = error.__context__
        assert isinstance(refusal, EngineError)  # _explain_refusal() is its only source
        if error_code(refusal) == _NOT_SUPERVISED:
            raise EngineError(
                "the server has copied the data and ended: nothing supervises it, so"
                " it cannot restart itself",
                id=ErrorId.NODE_NOT_REBUILT,
                hint="Start it; its accounts are those of the server it copied. Then"
                " have it follow. Below systemd it starts again by itself.",
            ) from None
        if not isinstance(refusal, ConnectionLost):
            raise EngineError(
                str(error), id=ErrorId.NODE_NOT_REBUILT, hint=_CLONE_HINT
            ) from None


def require_cloned(link: MysqlLink) -> None:
    """Raise EngineError unless the newest clone of another server was completed."""
    found = link.rows("clone_state")
    if [state for state, _ in found] != ["Completed"]:
        why = "; ".join(f"{state}: {text}" for state, text in found)
        raise EngineError(
            f"the clone was not completed: {why or 'the server shows none'}",
            id=ErrorId.NODE_NOT_REBUILT,
            hint=_SEE_LOG,
        )


def _read_globals(link: MysqlLink) -> dict[str, str]:
    return {str(name).lower(): str(value) for name, value in link.rows("globals")}


# The words that differ in names of semi-sync settings: MySQL's, and those of MariaDB
# and of MySQL's older plugin.
_WORDS = (("source", "master"), ("replica", "slave"))


def _list_names(name: str) -> tuple[str, str]:
    """Return the name of a semi-sync setting in both kinds of words."""
    new = old = name
    for new_word, old_word in _WORDS:
        new, old = new.replace(old_word, new_word), old.replace(new_word, old_word)
    return new, old


def _choose_replica_roles(link: MysqlLink) -> dict[str, int | str]:
    """Return the settings of semi-sync for a server that becomes a replica.

    {} without its plugins.  Raise EngineError if only the plugin of a source is there.
    """
    here = _read_globals(link)
    sources = [f"{prefix}enabled" for prefix in SOURCE_PREFIXES]
    replicas = _list_names("rpl_semi_sync_replica_enabled")
    roles: dict[str, int | str] = {name: 0 for name in sources if name in here}
    on = [name for name in replicas if name in here]
    if any(here[name] == "ON" for name in roles) and not on:
        raise EngineError(
            "the server has semi-synchronous replication for a source alone",
            id=ErrorId.NODE_NOT_REBUILT,
            hint="Run: install plugin rpl_semi_sync_replica soname"
            " 'semisync_replica.so';",
        )
    return roles | dict.fromkeys(on, 1)


def _require_same_transactions(link: MysqlLink, product: Product, theirs: str) -> None:
    """Raise EngineError unless both have the same of what this server committed.

    What the source lacks would stay here alone.  What this server has lost would never
    come back: it skips events that name it as their origin (MySQL 8.4 manual,
    replicate-same-server-id).
    """
    if product is Product.MYSQL:
        extra, missing, own = link.row("following_mysql", {"theirs": theirs})
        lost = str(own) in str(missing)
    else:
        own, states = link.row("logged_mariadb")
        here, there = (
            find_newest_gtids(text).get(str(own), 0) for text in (str(states), theirs)
        )
        extra, lost = here > there, here < there
    if not extra and not lost:
        return
    shown = f" ({extra})" if extra and product is Product.MYSQL else ""
    raise EngineError(
        f"the server has transactions that the new writer lacks{shown}"
        if extra
        else "the server has lost transactions of its own, and a replica skips those",
        id=ErrorId.NODE_NOT_REBUILT,
        hint="Give it a copy of the new writer's data: by MySQL's clone plugin, or by a"
        " program (docs/clusters.md).",
    )


def _read_threads(link: MysqlLink, product: Product) -> dict[str, str]:
    """Return the status of this replica with MySQL's names, {} if it is none."""
    if product is Product.MARIADB:
        found = _read_status(link)
    else:
        rows = link.named_rows("replica_status")
        found = {name.lower(): value for name, value in rows[0].items()} if rows else {}
    return {name.replace("slave_", "replica_"): str(v) for name, v in found.items()}


_FOLLOWS_S, _POLL_S = 30.0, 0.2


def _await_replica(link: MysqlLink, product: Product) -> None:
    """Wait until both threads of this replica run; raise EngineError if they do not."""
    ends_s = time.monotonic() + _FOLLOWS_S
    while True:
        status = _read_threads(link, product)
        running = [status.get(f"replica_{kind}_running") for kind in ("io", "sql")]
        if running == ["Yes", "Yes"]:
            return
        why = status.get("last_sql_error") or status.get("last_io_error") or "no error"
        if status.get("last_sql_error") or time.monotonic() >= ends_s:
            raise EngineError(
                f"the server does not follow the new writer: {why}",
                id=ErrorId.NODE_NOT_REBUILT,
                hint="Look into its log.",
            )
        time.sleep(_POLL_S)


@contextlib.contextmanager
def _explain_refusal(secret: str = "") -> Iterator[None]:
    """Give the error of a statement that was refused its hint, without the secret."""
    try:
        yield
    except EngineError as error:
        text = str(error).replace(secret, "***") if secret else str(error)
        denied = error_code(error) == ACCESS_DENIED_TO_SERVER
        raise EngineError(
            text,
            id=error.id if error.hint else ErrorId.NODE_NOT_REBUILT,
            hint=_REBUILD_RIGHTS if denied else error.hint or _SEE_LOG,
        ) from None


def takes_writes(link: MysqlLink) -> bool:
    """Return True if this server follows no other server and is not read-only."""
    if dict(link.rows("variables")).get("read_only", "OFF") not in ("OFF", "0"):
        return False
    if read_product(link) is Product.MYSQL:
        received_rows = link.rows("received_mysql")
        return not received_rows or not received_rows[0][0]
    return not _read_status(link)


def descent(link: MysqlLink) -> Descent:
    """Return up to which position each other server's log was applied here."""
    product = read_product(link)
    own, executed = link.row(f"executed_{product.lower()}")
    applied = (
        count_gtids(executed)
        if product is Product.MYSQL
        else find_newest_gtids(executed)
    )
    applied.pop(str(own), None)
    return Descent(applied)


def _read_status(link: MysqlLink) -> dict[str, Any]:
    """Return the status of a MariaDB replica by its columns, {} if it is none."""
    statuses = link.named_rows("replica_status_mariadb")
    if len(statuses) > 1:
        raise EngineError(
            "the server replicates from several others, so how far it has come cannot"
            " be compared",
            id=ErrorId.NODE_FOLLOWS_SEVERAL,
            hint="Keep one of them: RESET REPLICA 'NAME' ALL.",
        )
    return (
        {name.lower(): value for name, value in statuses[0].items()} if statuses else {}
    )
