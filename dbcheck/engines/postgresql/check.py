"""What PostgreSQL servers and tables dbcheck refuses to test, and why."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dbcheck.core.operation import Verb
from dbcheck.core.table import Definition, TableSpec
from dbcheck.engines.postgresql.link import PostgresqlLink
from dbcheck.engines.postgresql.settings import SESSION
from dbcheck.engines.tables import besides_of, require_ours, require_plain
from dbcheck.engines.url import NAME_ANOTHER
from dbcheck.error_ids import ErrorId
from dbcheck.errors import EngineError

VERSION_MIN = 13_00_00


@dataclass(frozen=True, slots=True)
class Product:
    """A product that speaks PostgreSQL's protocol.

    scheme:   of a URL that names it.
    mark:     stands in version() of it, and of no other; PostgreSQL's begins with it.
    least:    the first server_version_num that is supported, as people write it.
    session:  settings that each session fixes; see settings.SESSION.
    refusals: beginnings of the SQLSTATEs after which nothing was committed for sure; ()
              for every one that does not say otherwise.
    """

    name: str
    scheme: str
    mark: str
    least: tuple[int, str]
    session: Mapping[str, str] = field(default_factory=lambda: SESSION)
    refusals: tuple[str, ...] = ()


POSTGRESQL = Product(
    "PostgreSQL", "postgresql", "PostgreSQL ", (VERSION_MIN, "PostgreSQL 13")
)
# Its server is one of PostgreSQL's above a storage of its own: "PostgreSQL 15.12-YB-
# 2025.1.0.0-b0 on ..." (YugabyteDB documentation, Versioning).  What its storage
# answers, at a COMMIT too, may have the code of an internal error, so only errors about
# the statement itself show that nothing was committed.
YUGABYTEDB = Product(
    "YugabyteDB",
    "yugabytedb",
    "-YB-",
    (15_00_00, "YugabyteDB 2025.1"),
    refusals=("0A", "22", "23", "42"),
)
# "CockroachDB CCL v26.2.0 (x86_64-unknown-linux-gnu, ...)"; server_version_num is that
# of a PostgreSQL that it resembles.
COCKROACHDB = Product(
    "CockroachDB",
    "cockroachdb",
    "CockroachDB",
    (VERSION_MIN, "a CockroachDB of today"),
    session={},
)
_RELATIVES = (YUGABYTEDB, COCKROACHDB)

# Other products use the protocol and the name PostgreSQL; none keeps its rows in
# PostgreSQL's own files, so nothing that is known of those would hold.
_OTHERS = (
    "Redshift",
    "Greenplum",
    "Materialize",
    "CrateDB",
    "RisingWave",
    "QuestDB",
    "Spanner",
)

_OTHER_SETTINGS = {"neon.": "Neon", "polar_": "PolarDB", "gp_": "Greenplum"}

_KINDS = {
    "p": "is partitioned",
    "f": "is a foreign table",
    "v": "is a view",
    "m": "is a materialised view",
}
_PERSISTENCE = {"u": "is unlogged, so recovery empties it", "t": "is temporary"}


def product_of(version: str) -> Product | None:
    """Return the product whose version() is *version*, None if it is another."""
    if any(name in version for name in _OTHERS):
        return None
    found = next((one for one in _RELATIVES if one.mark in version), None)
    return found or (POSTGRESQL if version.startswith(POSTGRESQL.mark) else None)


def require_own_storage(settings: Mapping[str, str]) -> None:
    """Raise EngineError if a server that calls itself PostgreSQL has another storage.

    version() of these is PostgreSQL's own; what they add is in their settings (Neon,
    pgxn/neon; PolarDB for PostgreSQL, Greenplum, their documentation).
    """
    for name in settings:
        for beginning, other in _OTHER_SETTINGS.items():
            if name.startswith(beginning):
                raise EngineError(
                    f"the server is not PostgreSQL but {other}: it has the setting"
                    f" {name}, and keeps no rows in PostgreSQL's own files",
                    id=ErrorId.SERVER_NOT_SUPPORTED,
                    hint=NAME_ANOTHER,
                )


def require_product(
    version: str, version_num: int, wanted: Product = POSTGRESQL
) -> None:
    """Raise EngineError if *version* is another product's, or too old."""
    found = product_of(version)
    if found is not wanted:
        hint = NAME_ANOTHER
        if found is not None:
            hint = f"Write {found.scheme}:// in place of {wanted.scheme}:// in the URL."
        shown = version.split(" on ")[0]
        raise EngineError(
            f"the server is not {wanted.name} but {shown}",
            id=ErrorId.SERVER_NOT_SUPPORTED,
            hint=hint,
        )
    least, name = wanted.least
    if version_num < least:
        raise EngineError(
            f"{wanted.name} {version_num // 10000} is not supported",
            id=ErrorId.SERVER_VERSION_NOT_SUPPORTED,
            hint=f"Use {name} or newer.",
        )


def require_server(link: PostgresqlLink, wanted: Product) -> None:
    """Raise EngineError unless this is a supported server that takes writes."""
    version, version_num, standby, read_only = link.row("server")
    require_product(version, version_num, wanted)
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
            id=ErrorId.TABLE_OF_WRONG_KIND,
            hint=f"Drop {table}; dbcheck creates an ordinary, logged table.",
        )
    require_ours(spec, table, comment, link.rows("columns", {"name": name}))
    require_plain(table, link.rows("foreign", where_foreign(spec)))
    return True


def where_foreign(spec: TableSpec) -> dict[str, object]:
    """Return the parameters of foreign.sql, which table_version.sql takes as well."""
    return {"name": spec.name, "key": spec.key, "columns": list(spec.column_names)}


def definition_of(
    rows: Callable[[str, Mapping[str, object]], list[tuple[Any, ...]]], spec: TableSpec
) -> Definition:
    """Return how the table is defined, by catalogs that no lock on it keeps closed.

    rows: runs a statement of sql/.  Definition() if there is no such table.
    """
    where = where_foreign(spec)
    if not (found := rows("table_version", where)):
        return Definition()
    return Definition(besides_of(rows("foreign", where)), *found[0])


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
        f"the account {account} lacks {what}".rstrip(","),
        id=ErrorId.PRIVILEGE_MISSING,
        hint=f"Run: {statement}",
    )
