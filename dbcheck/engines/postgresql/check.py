"""Refuses PostgreSQL servers and tables that dbcheck cannot test."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError
from dbcheck.engines.postgresql import replication, rights
from dbcheck.engines.postgresql.link import PostgresqlLink
from dbcheck.engines.postgresql.product import require_postgresql, require_version
from dbcheck.engines.tables import parse_foreign_objects, require_ours, require_plain
from dbcheck.model.cluster import Weakens
from dbcheck.model.rights import MissingRight, missing_rights_error
from dbcheck.rows.operation import Usage, Verb
from dbcheck.rows.table import Definition, TableSpec
from dbcheck.rows.tasks import TaskKind

_KINDS = {
    "p": "is partitioned",
    "f": "is a foreign table",
    "v": "is a view",
    "m": "is a materialised view",
}
_PERSISTENCE = {"u": "is unlogged, so recovery empties it", "t": "is temporary"}


def require_server(link: PostgresqlLink, target: str) -> None:
    """Raise EngineError unless *target* is a supported server that takes writes."""
    version, version_num, standby, read_only = link.row("server")
    require_postgresql(target, version)
    require_version(version_num)
    if standby:
        raise EngineError(
            "the server is a standby, or still in recovery",
            id=ErrorId.SERVER_IS_REPLICA,
            hint="Test its primary, or wait until recovery is over.",
        )
    if read_only == "on":
        raise EngineError(
            "transactions of this account are read-only",
            id=ErrorId.SERVER_READ_ONLY,
            hint="Set default_transaction_read_only = off for it.",
        )
    _require_standby(link)


def _require_standby(link: PostgresqlLink) -> None:
    """Raise EngineError if each commit would wait for a standby that is not there.

    PostgreSQL 17 manual, 26.2.8; with synchronous_commit local or off none waits.
    """
    names, commits, standbys = link.row("standbys")
    if names and commits not in ("local", "off") and not standbys:
        raise EngineError(
            "commits would wait forever: synchronous_standby_names is"
            f" {names!r}, and no such standby is connected",
            id=ErrorId.COMMITS_WAIT_FOREVER,
            hint="Start the standby, or run: alter system set"
            " synchronous_standby_names = ''; select pg_reload_conf();",
        )


def require_table(link: PostgresqlLink, spec: TableSpec) -> bool:
    """Return True if the table is there; raise EngineError if it is not fit."""
    name = spec.name
    found = link.rows("table", {"name": name})
    if not found:
        return False
    kind, persistence, comment, *_ = found[0]
    table = f"dbcheck.{name}"
    problem = _KINDS.get(kind) or _PERSISTENCE.get(persistence)
    if problem is None and kind != "r":
        problem = f"is not a table: its relkind is {kind}"
    if problem is not None:
        raise EngineError(
            f"{table} {problem}",
            id=ErrorId.TABLE_OF_WRONG_KIND,
            hint=f"Drop {table}; dbcheck creates an ordinary, logged table.",
        )
    require_ours(spec, table, comment, link.rows("columns", {"name": name}))
    require_plain(table, link.rows("foreign", foreign_object_parameters(spec)))
    return True


def foreign_object_parameters(spec: TableSpec) -> dict[str, object]:
    """Return the parameters of foreign.sql, which table_version.sql takes as well."""
    return {"name": spec.name, "key": spec.key, "columns": list(spec.column_names)}


def parse_definition(
    rows: Callable[[str, Mapping[str, object]], list[tuple[Any, ...]]], spec: TableSpec
) -> Definition:
    """Return the table's definition, by catalogs that no lock on it keeps closed.

    rows: runs a statement of sql/.  Definition() if there is no such table.
    """
    where = foreign_object_parameters(spec)
    if not (found := rows("table_version", where)):
        return Definition()
    return Definition(parse_foreign_objects(rows("foreign", where)), *found[0])


def require_rights(
    link: PostgresqlLink,
    usage: Usage,
    target: str,
    control: Weakens | None,
    *,
    asks_host: bool,
) -> None:
    """Raise EngineError, with every GRANT as hint, if the account lacks any right.

    control: the kind of the control that comes first, None without one.
    """
    version, version_num, *_ = link.row("server")
    require_postgresql(target, version)
    require_version(version_num)
    account = link.row("schema")[0]
    missing = [*_find_missing_on_schema(link), *_find_missing_on_tables(link, usage)]
    if asks_host and "data_directory" not in dict(link.rows("settings")):
        what = "the role pg_read_all_settings"
        missing.append(MissingRight(what, rights.grant_settings(account)))
    if control is Weakens.REPLICATION:
        missing += replication.find_missing_for_control(link)
    if missing:
        raise missing_rights_error(account, missing)


def _find_missing_on_schema(link: PostgresqlLink) -> Iterator[MissingRight]:
    """Yield what the account needs to create its tables."""
    account, database, may_create_schema, present, may_use, may_create = link.row(
        "schema"
    )
    if not present:
        if not may_create_schema:
            what = f"CREATE on database {database}"
            yield MissingRight(what, rights.grant_database(account, database))
        return
    statement = f"grant usage, create on schema dbcheck to {account};"
    if not may_use:
        yield MissingRight("USAGE on schema dbcheck", statement)
    if not may_create:
        yield MissingRight("CREATE on schema dbcheck", statement)


def _find_missing_on_tables(
    link: PostgresqlLink, usage: Usage
) -> Iterator[MissingRight]:
    """Yield what the account lacks on the tables that are there already."""
    account = link.row("schema")[0]
    for spec, verbs in usage.verbs.items():
        if not (found := link.rows("table", {"name": spec.name})):
            continue
        _, _, _, may_select, may_insert, may_update, may_delete, is_owner = found[0]
        granted = {
            Verb.INSERT: may_insert,
            Verb.UPDATE: may_update,
            Verb.DELETE: may_delete,
        }
        needed = {"select": may_select} | {verb.value: granted[verb] for verb in verbs}
        table = f"dbcheck.{spec.name}"
        if lacking := [name for name, may in needed.items() if not may]:
            statement = f"grant {', '.join(needed)} on {table} to {account};"
            yield MissingRight(f"{', '.join(lacking).upper()} on {table}", statement)
        if not is_owner:
            yield MissingRight(
                f"ownership of {table}, which DROP needs",
                f"alter table {table} owner to {account};",
            )


def explain_hidden_directory(link: PostgresqlLink) -> str:
    """Return why the account does not see data_directory, with the GRANT."""
    grant = rights.grant_settings(link.row("schema")[0])
    return (
        f"the account lacks the role pg_read_all_settings; as a superuser run: {grant}"
    )


def find_impossible_tasks(
    link: PostgresqlLink, kinds: Sequence[TaskKind]
) -> dict[TaskKind, str]:
    """Return the tasks that cannot be done, and the reason of each."""
    version, may_checkpoint, may_rotate, account = link.row("housekeeping_rights")
    found: dict[TaskKind, str] = {}
    if not may_checkpoint:
        found[TaskKind.CHECKPOINT] = (
            f"run: {rights.grant_checkpoint(account)}"
            if version // 10_000 >= rights.CHECKPOINT_ROLE_SINCE
            else "before PostgreSQL 15 only a superuser may"
        )
    if not may_rotate:
        found[TaskKind.ROTATE] = f"run in this database: {rights.grant_rotate(account)}"
    return {kind: why for kind, why in found.items() if kind in kinds}
