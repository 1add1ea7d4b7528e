"""Tells whether a query plan reads the index that is to be checked.

It counts how a plan reads each table.  Releases word the same plan differently: MariaDB
11 no longer says that the primary key covers a query.  The words are those of EXPLAIN's
traditional format (MySQL 8.4 manual, 10.8.2; MariaDB documentation, EXPLAIN).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Plan = Sequence[Mapping[str, Any]]  # a line for each table, in the order of the join

PRIMARY = "PRIMARY"
READ, SEARCHED = "t", "found"  # how sql/mysql/lookup_*.sql name the two tables

# A hash join reads the index only once, and "ref" may search by its first column only.
_SEARCH = "eq_ref"


def searches(plan: Plan, index: str) -> bool:
    """True if a plan looks up every row of the table in that index alone.

    plan: of a join of the table, as READ, with itself, as SEARCHED.
    """
    tables = {line["table"]: line for line in plan}
    if not _is_simple(plan, 2) or tables.keys() != {READ, SEARCHED}:
        return False
    found = tables[SEARCHED]
    return (
        _scans_table(tables[READ])
        and found["type"] == _SEARCH
        and found["key"] == index
        # The primary key is the table, so nothing else can answer.
        and (index == PRIMARY or _is_covered(found))
    )


def reads_whole(plan: Plan, index: str) -> bool:
    """True if a plan reads a secondary index from end to end, and not the table."""
    if not _is_simple(plan, 1):
        return False
    (line,) = plan
    return line["type"] == "index" and line["key"] == index and _is_covered(line)


def _is_simple(plan: Plan, tables: int) -> bool:
    """True if a plan joins that many tables without a temporary table."""
    return len(plan) == tables and all(line["select_type"] == "SIMPLE" for line in plan)


def _scans_table(line: Mapping[str, Any]) -> bool:
    """True if the plan scans the table itself: an index may lack rows."""
    return line["type"] == "ALL" or (line["type"], line["key"]) == ("index", PRIMARY)


def _is_covered(line: Mapping[str, Any]) -> bool:
    """True if the index covers the query, so that no row of the table is read.

    "Using index condition" reads rows, "Using index for group-by" skips entries.
    """
    return "Using index" in (line["Extra"] or "").split("; ")
