"""What PostgreSQL servers and tables dbcheck refuses to test, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dbcheck.core.operation import Verb
from dbcheck.core.table import TableSpec
from dbcheck.engines.postgresql.link import PostgresqlLink
from dbcheck.engines.tables import require_ours, require_plain
from dbcheck.errors import EngineError

VERSION_MIN = 13_00_00

# Other products use the protocol and the name PostgreSQL; none keeps its rows in
# PostgreSQL's own files, so nothing that is known of those would hold.
_OTHERS = (
    "CockroachDB",
    "-YB-",
    "Redshift",
    "Greenplum",
    "Materialize",
    "CrateDB",
    "RisingWave",
    "QuestDB",
    "Spanner",
)

_KINDS = {
    "p": "is partitioned",
    "f": "is a foreign table",
    "v": "is a view",
    "m": "is a materialised view",
}
_PERSISTENCE = {"u": "is unlogged, so recovery empties it", "t": "is temporary"}


def require_product(version: str, version_num: int) -> None:
    """Raise EngineError if *version* is another product's, or too old."""
    other = next((name for name in _OTHERS if name in version), None)
    if other is not None or not version.startswith("PostgreSQL "):
        raise EngineError(
            f"the server is not PostgreSQL but {version.split(' on ')[0]}",
            hint="dbcheck tests PostgreSQL, MySQL and MariaDB.",
        )
    if version_num < VERSION_MIN:
        raise EngineError(
            f"PostgreSQL {version_num // 10000} is not supported",
            hint=f"Use PostgreSQL {VERSION_MIN // 10000} or newer.",
        )


def require_server(link: PostgresqlLink) -> None:
    """Raise EngineError unless this is a supported server that takes writes."""
    version, version_num, standby, read_only = link.row("server")
    require_product(version, version_num)
    if standby:
        raise EngineError(
            "the server is a standby, or still in recovery",
            hint="Test its primary, or wait until recovery is over.",
        )
    if read_only == "on":
        raise EngineError(
            "transactions of this account are read-only",
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
            hint="Start the standby, or run: alter system set"
            " synchronous_standby_names = ''; select pg_reload_conf();",
        )


def require_table(link: PostgresqlLink, spec: TableSpec) -> bool:
    """Return whether the table is there; raise EngineError if it is not fit."""
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
            hint=f"Drop {table}; dbcheck creates an ordinary, logged table.",
        )
    require_ours(spec, table, comment, link.rows("columns", {"name": name}))
    require_plain(table, link.rows("foreign", {"name": name, "key": spec.key}))
    return True


def require_privileges(
    link: PostgresqlLink, spec: TableSpec, verbs: Sequence[Verb]
) -> None:
    """Raise EngineError, with the GRANT as hint, if the account may not do it all."""
    account, database, may_create_schema, present, may_use, may_create = link.row(
        "schema"
    )
    if not present:
        if not may_create_schema:
            raise _missing(
                account,
                f"CREATE on database {database}",
                f"grant create on database {database} to {account};",
            )
        return
    if not may_use:
        raise _missing(
            account,
            "USAGE on schema dbcheck",
            f"grant usage, create on schema dbcheck to {account};",
        )
    found = link.rows("table", {"name": spec.name})
    if not found:
        if not may_create:
            raise _missing(
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
            raise _missing(
                account,
                f"{privilege.upper()} on {table}",
                f"grant {', '.join(needed)} on {table} to {account};",
            )
    if not is_owner:
        raise _missing(
            account,
            f"ownership of {table}, which DROP needs,",
            f"alter table {table} owner to {account};",
        )


def _missing(account: str, what: str, statement: str) -> EngineError:
    return EngineError(
        f"the account {account} lacks {what}".rstrip(","), hint=f"Run: {statement}"
    )
