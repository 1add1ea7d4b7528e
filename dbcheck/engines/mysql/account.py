"""Finds the rights that the account lacks on MySQL or MariaDB, with their GRANT."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from dbcheck.base.errors import EngineError
from dbcheck.engines.mysql.check import (
    choose_replica_statement,
    parse_product,
    require_known,
)
from dbcheck.engines.mysql.durability import list_weakening_privileges
from dbcheck.engines.mysql.grants import (
    find_missing_on_server,
    find_missing_privileges,
    list_grants,
    quote_account,
)
from dbcheck.engines.mysql.link import ACCESS_DENIED_TO_SERVER, MysqlLink, error_code
from dbcheck.engines.mysql.rights import (
    MONITOR,
    OTHER_DATABASES,
    PREPARED,
    SERVER,
    TASKS,
    Privileges,
    list_unreplicating,
    quote_database,
    tables_privileges,
)
from dbcheck.model.cluster import Weakens
from dbcheck.model.rights import MissingRight, missing_rights_error
from dbcheck.rows.operation import Usage
from dbcheck.rows.table import SIDES
from dbcheck.rows.tasks import TaskKind
from dbcheck.server_log import Product

# XA RECOVER is denied with ER_XAER_RMERR (MySQL 8.4, sql/xa.cc).
DENIED = (ACCESS_DENIED_TO_SERVER, 1401)


def require_rights(
    link: MysqlLink, usage: Usage, database: str, control: Weakens | None
) -> None:
    """Raise EngineError, with every GRANT as hint, if the account lacks any right.

    control: the kind of the control that comes first, None without one.  Raise
    EngineError also for another product.
    """
    version, comment, account = link.row("server")
    product, numbers = parse_product(version, comment)
    require_known(dict(link.rows("variables")))
    account = quote_account(account)
    grants = list_grants(link)
    missing = _find_missing_on_tables(grants, usage, account, database)
    on_server = [(MONITOR[product], choose_replica_statement(product, numbers))]
    if usage.prepares and product is Product.MYSQL:
        on_server.append((PREPARED, "prepared"))
    missing += [
        _make_missing(privileges, account)
        for privileges, statement in on_server
        if _is_denied(link, statement)
    ]
    if control is not None:
        needed = (
            list_weakening_privileges(link)
            if control is Weakens.FLUSH
            else [list_unreplicating(product, numbers)]
        )
        missing += [
            _make_missing(accepted[0], account)
            for accepted in needed
            if all(find_missing_on_server(grants, each) for each in accepted)
        ]
    if missing:
        raise missing_rights_error(account, missing)


def _find_missing_on_tables(
    grants: Sequence[str], usage: Usage, account: str, database: str
) -> list[MissingRight]:
    """Return what the account lacks on dbcheck's tables; one GRANT is for all of them.

    An account may have its rights on single tables, in place of the database.
    """
    lacking_by_table: dict[str, list[str]] = {}
    for table, verbs in usage.verbs.items():
        needed = tables_privileges(Usage({table: verbs})).names
        if lacking := find_missing_privileges(grants, database, table.name, needed):
            lacking_by_table[table.name] = lacking
    if not lacking_by_table:
        return []
    all_lacking = {name for names in lacking_by_table.values() for name in names}
    in_order = [name for name in tables_privileges(usage).names if name in all_lacking]
    place = "*" if len(lacking_by_table) > 1 else next(iter(lacking_by_table))
    what = f"{', '.join(in_order)} on {database}.{place}"
    statement = Privileges(tuple(in_order)).grant(account, quote_database(database))
    return [MissingRight(what, statement)]


def _is_denied(link: MysqlLink, statement: str) -> bool:
    """Return True if the server denies a statement to the account and its roles.

    Raise EngineError if the statement fails for another reason.
    """
    try:
        link.rows(statement)
    except EngineError as error:
        if error_code(error) in DENIED:
            return True
        raise
    return False


def _make_missing(privileges: Privileges, account: str) -> MissingRight:
    what = f"{', '.join(privileges.names)} on {SERVER}"
    return MissingRight(what, privileges.grant(account))


def find_impossible_tasks(
    link: MysqlLink, database: str, kinds: Iterable[TaskKind]
) -> dict[TaskKind, str]:
    """Return the tasks that cannot be done, and the reason of each."""
    grants = list_grants(link)
    account = quote_account(link.row("server")[2])
    found: dict[TaskKind, str] = {}
    for kind in kinds:
        if kind is TaskKind.VACUUM:
            found[kind] = link.storage.purges
        elif kind is TaskKind.REWRITE and link.storage.no_rewrite:
            found[kind] = link.storage.no_rewrite
        elif kind is TaskKind.ROTATE and not _has_binary_log(link):
            found[kind] = "the server keeps no binary log"
        elif (privileges := TASKS.get(kind)) and _lacks(grants, privileges, database):
            found[kind] = f"run: {privileges.grant(account, quote_database(database))}"
    return found


def _lacks(grants: Sequence[str], privileges: Privileges, database: str) -> bool:
    if privileges.on == SERVER:
        return bool(find_missing_on_server(grants, privileges))
    side, *_ = SIDES
    return bool(find_missing_privileges(grants, database, side.name, privileges.names))


def _has_binary_log(link: MysqlLink) -> bool:
    variables: Mapping[str, str] = dict(link.rows("variables"))
    return variables.get("log_bin", "OFF") in ("ON", "1")


def explain_hidden_databases(link: MysqlLink) -> str:
    """Return why the account does not see all databases, with the GRANT."""
    grant = OTHER_DATABASES.grant(quote_account(link.row("server")[2]))
    return (
        f"the account sees only the databases that it has privileges on; run: {grant}"
    )
