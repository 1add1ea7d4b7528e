"""Subscriptions, by which other servers write into dbcheck's tables.

Each has the server fetch from its publisher what it lacks, as soon as it is enabled
(PostgreSQL 18 manual, 29.2 Subscription).
"""

from __future__ import annotations

from collections.abc import Sequence

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError
from dbcheck.engines.postgresql.link import PostgresqlLink
from dbcheck.model.server import Refill
from dbcheck.rows.table import TableSpec

_ADVICE = (
    "Run DROP SUBSCRIPTION, or leave these tables out of the publication and run ALTER"
    " SUBSCRIPTION ... REFRESH PUBLICATION"
)


def subscribed(link: PostgresqlLink, tables: Sequence[TableSpec]) -> Refill | None:
    """Return which subscriptions write into the tables, None if none does.

    Disabled ones count: they may have been enabled for a time.  Raise EngineError.
    """
    if not (into := _into(link, tables)):
        return None
    how = f"has a subscription that writes into dbcheck's tables ({into})"
    return Refill(how, f"{_ADVICE}. Then cut again")


def require_no_subscription(link: PostgresqlLink, tables: Sequence[TableSpec]) -> None:
    """Raise EngineError if one writes into these tables, also one that is disabled.

    No cut would have a verdict: see subscribed().
    """
    if into := _into(link, tables):
        raise EngineError(
            f"a subscription writes into dbcheck's tables: {into}",
            id=ErrorId.SERVER_IS_REPLICA,
            hint=f"{_ADVICE}. Its publisher would give back rows that the server loses;"
            " ALTER SUBSCRIPTION ... DISABLE is not enough.",
        )


def _into(link: PostgresqlLink, tables: Sequence[TableSpec]) -> str:
    """Return "s1 into dbcheck.ledger, ...", "" if there is none."""
    found = link.rows("refill", {"names": [table.name for table in tables]})
    return ", ".join(f"{name} into dbcheck.{table}" for name, table in found)
