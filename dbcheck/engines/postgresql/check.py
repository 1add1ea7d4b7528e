"""Refuses PostgreSQL servers and tables that dbcheck cannot test."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError
from dbcheck.engines.postgresql.link import PostgresqlLink
from dbcheck.engines.postgresql.product import require_postgresql, require_version
from dbcheck.engines.tables import parse_foreign_objects, require_ours, require_plain
from dbcheck.rows.operation import Verb
from dbcheck.rows.table import Definition, TableSpec
from dbcheck.rows.tasks import TaskKind

_KINDS = {
    "p": "is partitioned",
    "f": "is a foreign table",
    "v": "is a view",
    "m": "is a materialised view",
}
_PERSISTENCE = {"u": "is unlogged, so recovery empties it", "t": "is temporary"}
_HAS_ROLE = 15_00_00  # the first version with pg_checkpoint (its release notes, E.1.3)


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


def require_privileges(
    link: PostgresqlLink, spec: TableSpec, verbs: Sequence[Verb]
) -> None:
    """Raise EngineError, with the GRANT as hint, if the account may not do it all."""
    account, database, may_create_schema, present, may_use, may_create = link.row(
        "schema"
    )
    if not present:
        if not may_create_schema:
            raise _missing_privilege_error(
                account,
                f"CREATE on database {database}",
                f"grant create on database {database} to {account};",
            )
        return
    if not may_use:
        raise _missing_privilege_error(
            account,
            "USAGE on schema dbcheck",
            f"grant usage, create on schema dbcheck to {account};",
        )
    found = link.rows("table", {"name": spec.name})
    if not found:
        if not may_create:
            raise _missing_privilege_error(
                account,
                "CREATE on schema dbcheck",
                f"grant create on schema dbcheck to {account};",
            )
        return
    _, _, _, may_select, may_insert, may_update, may_delete, is_owner = found[0]
    granted = {
        Verb.INSERT: may_insert,
        Verb.UPDATE: may_update,
        Verb.DELETE: may_delete,
    }
    needed = {"select": may_select} | {verb.value: granted[verb] for verb in verbs}
    _require_table_privileges(account, f"dbcheck.{spec.name}", needed, is_owner)


def _require_table_privileges(
    account: str, table: str, needed: Mapping[str, bool], is_owner: bool
) -> None:
    """needed: privilege -> whether the account has it."""
    for privilege, granted in needed.items():
        if not granted:
            raise _missing_privilege_error(
                account,
                f"{privilege.upper()} on {table}",
                f"grant {', '.join(needed)} on {table} to {account};",
            )
    if not is_owner:
        raise _missing_privilege_error(
            account,
            f"ownership of {table}, which DROP needs,",
            f"alter table {table} owner to {account};",
        )


def _missing_privilege_error(account: str, what: str, statement: str) -> EngineError:
    return EngineError(
        f"the account {account} lacks {what}".rstrip(","),
        id=ErrorId.PRIVILEGE_MISSING,
        hint=f"Run: {statement}",
    )


def find_impossible_tasks(
    link: PostgresqlLink, kinds: Sequence[TaskKind]
) -> dict[TaskKind, str]:
    """Return the tasks that cannot be done, and the reason of each."""
    version, may_checkpoint, may_rotate, account = link.row("housekeeping_rights")
    found: dict[TaskKind, str] = {}
    if not may_checkpoint:
        found[TaskKind.CHECKPOINT] = (
            f"run: grant pg_checkpoint to {account};"
            if version >= _HAS_ROLE
            else "before PostgreSQL 15 only a superuser may"
        )
    if not may_rotate:
        found[TaskKind.ROTATE] = (
            "run in this database: grant execute on function pg_switch_wal() to"
            f" {account};"
        )
    return {kind: why for kind, why in found.items() if kind in kinds}
