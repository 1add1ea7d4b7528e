"""Plans that read the index that is to be checked, and others.

The lines are those that MySQL 8.0.15, 8.0.31 and 9.7.4 and MariaDB 10.5.23, 10.11.19,
11.4.5 and 11.8.9 gave: for dbcheck's own statements, and for others in their place.
"""

from __future__ import annotations

from typing import Any

import pytest

from dbcheck.engines.mysql import index as mysql_index
from dbcheck.engines.mysql.index import PRIMARY

KEY = "register_key"
COVERED = "Using where; Using index"
BNL = "Using join buffer (flat, BNL join)"
BKAH = "Using join buffer (flat, BKAH join)"
BNLH = "Using join buffer (flat, BNLH join)"
Line = dict[str, Any]


def line(
    table: str | None,
    kind: str | None,
    key: str | None,
    extra: str | None,
    select: str = "SIMPLE",
) -> Line:
    names = ("table", "type", "key", "Extra", "select_type")
    return dict(zip(names, (table, kind, key, extra, select), strict=True))


ROWS = line("t", "index", PRIMARY, "Using where")
SORTED = line("t", "ALL", None, "Using where; Using temporary; Using filesort")


def found(kind: str, key: str | None, extra: str) -> list[Line]:
    """Return the plan of a join that reads the table from end to end."""
    return [ROWS, line("found", kind, key, extra)]


@pytest.mark.parametrize(
    ("lines", "index"),
    [
        pytest.param(
            [
                line("t", "index", PRIMARY, COVERED),
                line("found", "eq_ref", PRIMARY, COVERED),
            ],
            PRIMARY,
            id="primary: MySQL 8.0 to 9.7, MariaDB 10",
        ),
        pytest.param(
            found("eq_ref", PRIMARY, "Using where"),
            PRIMARY,
            id="primary: MariaDB 11",
        ),
        pytest.param(
            [
                SORTED,
                line(
                    "found",
                    "eq_ref",
                    PRIMARY,
                    f"Using where; {BKAH}; Key-ordered scan",
                ),
            ],
            PRIMARY,
            id="primary: MariaDB 11, searches in batches",
        ),
        pytest.param(
            found("eq_ref", KEY, COVERED),
            KEY,
            id="further index: all",
        ),
    ],
)
def test_every_release_s_search(lines: list[Line], index: str) -> None:
    assert mysql_index.looks_up_every_row(lines, index)


@pytest.mark.parametrize(
    ("lines", "index"),
    [
        pytest.param(found("eq_ref", KEY, COVERED), PRIMARY, id="another index"),
        pytest.param(
            found("eq_ref", PRIMARY, COVERED), KEY, id="the primary key instead"
        ),
        pytest.param(
            found("ALL", None, "Using where"), PRIMARY, id="primary: full scan"
        ),
        pytest.param(found("ALL", None, f"Using where; {BNL}"), KEY, id="full scan"),
        pytest.param(
            found("index", PRIMARY, COVERED), PRIMARY, id="primary: scan of its leaves"
        ),
        pytest.param(found("index", KEY, COVERED), KEY, id="scan of its leaves"),
        pytest.param(
            [SORTED, line("found", "index", KEY, f"{COVERED}; {BNL}")],
            KEY,
            id="scan of its leaves, for each batch",
        ),
        pytest.param(
            found(
                "index", KEY, "Using where; Using index; Using join buffer (hash join)"
            ),
            KEY,
            id="MySQL, hash join",
        ),
        pytest.param(
            [
                line("t", "index", PRIMARY, COVERED),
                line(
                    "found", "hash_index", "#hash#PRIMARY:PRIMARY", f"{COVERED}; {BNLH}"
                ),
            ],
            PRIMARY,
            id="MariaDB 10, hash join",
        ),
        pytest.param(
            [
                SORTED,
                line("found", "hash_ALL", "#hash#PRIMARY", f"Using where; {BNLH}"),
            ],
            PRIMARY,
            id="MariaDB 11, hash join",
        ),
        pytest.param(
            [
                SORTED,
                line("found", "hash_index", f"#hash#{KEY}:{KEY}", f"{COVERED}; {BNLH}"),
            ],
            KEY,
            id="MariaDB, hash join of an index",
        ),
        pytest.param(
            found("eq_ref", KEY, "Using where"), KEY, id="the table is read as well"
        ),
        pytest.param(
            found("ref", KEY, COVERED),
            KEY,
            id="by the first of its columns",
        ),
        pytest.param(
            found("ref", KEY, "Using index condition"),
            KEY,
            id="the table is read where the index agrees",
        ),
        pytest.param(
            found("ALL", None, "Range checked for each record (index map: 0x1)"),
            PRIMARY,
            id="undecided",
        ),
        pytest.param(
            found("range", KEY, COVERED), KEY, id="one range instead of each row"
        ),
        pytest.param(
            found(
                "index_merge", f"{PRIMARY},{KEY}", "Using union(PRIMARY,register_key)"
            ),
            KEY,
            id="two indexes",
        ),
        pytest.param(
            found(
                "eq_ref|filter", f"{PRIMARY}|{KEY}", "Using where; Using rowid filter"
            ),
            PRIMARY,
            id="MariaDB, filtered by another index",
        ),
        pytest.param(
            [
                line("t", "index", KEY, COVERED),
                line("found", "eq_ref", KEY, COVERED),
            ],
            KEY,
            id="rows out of the index in which they are searched",
        ),
        pytest.param(
            [
                line("found", "index", KEY, "Using index"),
                line("t", "eq_ref", PRIMARY, "Using where"),
            ],
            KEY,
            id="the other way round",
        ),
        pytest.param(
            [
                line("t", "index", PRIMARY, COVERED),
                line("<subquery2>", "eq_ref", "<auto_distinct_key>", "Not exists"),
                line("found", "index", KEY, COVERED, "MATERIALIZED"),
            ],
            KEY,
            id="MySQL, a copy of the index",
        ),
        pytest.param(
            [
                line("t", "ALL", None, "Using where", "PRIMARY"),
                line("found", "range", KEY, COVERED, "MATERIALIZED"),
            ],
            KEY,
            id="MariaDB, a copy of the index",
        ),
        pytest.param(
            [
                line("t", "index", PRIMARY, "Using index", "PRIMARY"),
                line("<derived2>", "ref", "key0", "Using where", "PRIMARY"),
                line("register", "index", KEY, "Using index", "DERIVED"),
            ],
            KEY,
            id="a copy of the table",
        ),
        pytest.param(
            [line("found", "eq_ref", PRIMARY, COVERED)], PRIMARY, id="one table"
        ),
        pytest.param(
            [
                line(
                    None,
                    None,
                    None,
                    "Impossible WHERE noticed after reading const tables",
                )
            ],
            PRIMARY,
            id="no table",
        ),
        pytest.param([], PRIMARY, id="no line"),
    ],
)
def test_no_search_of_every_row_in_that_index(lines: list[Line], index: str) -> None:
    assert not mysql_index.looks_up_every_row(lines, index)


def test_every_release_s_reading_of_an_index() -> None:
    assert mysql_index.reads_whole([line("register", "index", KEY, "Using index")], KEY)


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param([line("register", "ALL", None, None)], id="MySQL, the table"),
        pytest.param([line("register", "ALL", None, "")], id="MariaDB, the table"),
        pytest.param(
            [line("register", "index", PRIMARY, "Using index")], id="the primary key"
        ),
        pytest.param([line("register", "index", KEY, None)], id="the table as well"),
        pytest.param([line("register", "range", KEY, COVERED)], id="a part of it"),
        pytest.param(
            [line("register", "range", KEY, "Using index for group-by")],
            id="not every entry",
        ),
        pytest.param(
            [line("register", "index", KEY, "Using index for group-by")],
            id="not every entry, of the whole index",
        ),
        pytest.param(
            [line("register", "range", KEY, "Using index condition")],
            id="the table where the index agrees",
        ),
        pytest.param(
            [line(None, None, None, "Select tables optimized away")],
            id="by the statistics",
        ),
        pytest.param([line(None, None, None, "Impossible WHERE")], id="nothing"),
        pytest.param(
            [
                line("<derived2>", "ALL", None, None, "PRIMARY"),
                line("register", "index", KEY, "Using index", "DERIVED"),
            ],
            id="a copy",
        ),
        pytest.param(
            [line("register", "index", KEY, "Using index", "DERIVED")],
            id="only the copy",
        ),
        pytest.param([], id="no line"),
    ],
)
def test_no_reading_of_the_whole_index(lines: list[Line]) -> None:
    assert not mysql_index.reads_whole(lines, KEY)
