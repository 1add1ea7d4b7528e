"""PostgreSQL's own check of tables and indexes: the extension amcheck.

"No error concerning corruption raised by amcheck should ever be a false positive"
(PostgreSQL 17 manual, F.1.3).  bt_index_check() compares the order within and between
the pages of an index and, with heapallindexed, looks for an entry of each row.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from dbcheck.base.errors import EngineError, TableLost
from dbcheck.engines.link import SCAN_S
from dbcheck.engines.postgresql.link import PostgresqlLink
from dbcheck.engines.postgresql.rights import CREATE_AMCHECK, grant_index_check
from dbcheck.model.server import CheckOutcome, TableCheck
from dbcheck.rows.table import TableSpec

_SCHEMA = "dbcheck"


def create(link: PostgresqlLink) -> None:
    """Create the extension in dbcheck's schema if the database does not have it.

    The extension is not trusted, so only a superuser may create it (manual 17, F.1).
    If that fails, check() reports that the check was not done.
    """
    installed, available, superuser, *_ = link.row("amcheck")
    if not installed and available and superuser:
        with contextlib.suppress(EngineError):
            link.rows("create_amcheck")


def drop(link: PostgresqlLink) -> bool:
    """Drop the extension if create() may have made it; return whether it did."""
    schema, _, superuser, *_ = link.row("amcheck")
    if schema != _SCHEMA or not superuser:
        return False
    link.rows("drop_amcheck")
    return True


def check(link: PostgresqlLink, tables: Sequence[TableSpec]) -> TableCheck:
    """Check every index of the tables, then the tables; stop at the first complaint."""
    if lacking := _explain_missing_amcheck(link):
        return TableCheck(CheckOutcome.NOT_DONE, lacking)
    schema, *_, may_check_table, checksums, failures = link.row("amcheck")
    # amcheck's functions may be in any schema; pg_catalog still comes first.
    link.fix({"search_path": f"pg_catalog, {schema}"})
    names = ", ".join(table.name for table in tables)
    for table in tables:
        try:
            link.rows(f"check_indexes_{table.name}", answer_s=SCAN_S)
        except TableLost as error:
            if error.missing:
                raise
            return TableCheck(CheckOutcome.INDEX, str(error))
    checked = "the indexes" if not may_check_table else "the indexes and pages"
    if may_check_table:
        for table in tables:
            if complaints := link.rows(f"check_pages_{table.name}", answer_s=SCAN_S):
                page, item, message = complaints[0]
                where = f"dbcheck.{table.name}, page {page}, item {item}"
                text = f"verify_heapam() finds in {where}: {message}"
                return TableCheck(CheckOutcome.TABLE, text)
    text = f"amcheck finds nothing wrong with {checked} of {names}; "
    return TableCheck(
        CheckOutcome.SOUND, text + _describe_checksums(checksums, failures)
    )


def _explain_missing_amcheck(link: PostgresqlLink) -> str:
    """Explain why indexes cannot be checked, with the remedy; "" if they can."""
    installed, available, _, account, may_check_index, *_ = link.row("amcheck")
    if not available and not installed:
        return (
            "the extension amcheck is not installed on the server: install its contrib"
            " package, which on Debian is part of the server's"
        )
    if not installed:
        return (
            "the extension amcheck is not in this database; as a superuser run:"
            f" {CREATE_AMCHECK} {grant_index_check(account)}"
        )
    if not may_check_index:
        return (
            f"the account {account} may not use amcheck; run:"
            f" {grant_index_check(account, installed)}"
        )
    return ""


def _describe_checksums(checksums: str, failures: int | None) -> str:
    """Describe the page checksums, by which the server verifies each page it reads."""
    if checksums != "on":
        return "page checksums are off"
    if failures:
        return f"page checksums are on, and {failures:,} pages of this database failed"
    return "page checksums are on, and no page of this database is known to fail"
