"""The tables that dbcheck writes to; parsers, checks and dtypes follow from these."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class Kind(enum.Enum):
    """Kind of value that a column holds."""

    BIGINT = "bigint"
    INTEGER = "integer"
    SMALLINT = "smallint"
    BYTES = "bytes"


@dataclass(frozen=True, slots=True)
class Column:
    """One column.

    A column that is not in KEYED may be NULL in rows that no operation wrote.
    """

    name: str
    kind: Kind


@dataclass(frozen=True, slots=True)
class TableSpec:
    """One table, as the server has it.

    name:    in dbcheck's schema or database; sql/FAMILY/create_NAME.sql creates it.
    columns: in their order; the first is the auto-increment id, the primary key.
    key:     the name of a unique index on epoch, session, seq and part; "" if the table
             has none.
    is_overwritten: operations overwrite its rows; so its unique index has no seq.
    """

    name: str
    columns: tuple[Column, ...]
    key: str = ""
    is_overwritten: bool = False

    @property
    def has_key(self) -> bool:
        """True if each row names the operation that wrote it."""
        return len(self.columns) > 1

    @property
    def layouts(self) -> tuple[str, ...]:
        """Endings of its statements' names in sql/; the first that exists counts."""
        if not self.has_key:
            return ("ids",)
        return ("overwritten", "keyed") if self.is_overwritten else ("keyed",)

    @property
    def column_names(self) -> tuple[str, ...]:
        """The columns' names, in their order."""
        return tuple(column.name for column in self.columns)

    def named(self, *names: str) -> tuple[Column, ...]:
        """Return the columns of these names."""
        by_name = {column.name: column for column in self.columns}
        return tuple(by_name[name] for name in names)


ID = Column("id", Kind.BIGINT)
KEYED = (
    ID,
    Column("epoch", Kind.BIGINT),
    Column("session", Kind.INTEGER),
    Column("seq", Kind.BIGINT),
    Column("part", Kind.SMALLINT),
    Column("payload", Kind.BYTES),
    Column("checksum", Kind.BIGINT),
)

LEDGER = TableSpec("ledger", KEYED)  # one row for each operation
ITEM = TableSpec("item", KEYED, "item_key")  # rows that are updated and deleted
# Rows that are updated.
REGISTER = TableSpec("register", KEYED, "register_key", is_overwritten=True)
CLASSIC = TableSpec("fs", (ID,))  # an auto-increment id and nothing else

# Tables of order entry; see rows.plans.orderentry.
_DISTRICT = Column("district", Kind.SMALLINT)
_NUMBER = Column("number", Kind.BIGINT)
_YTD = Column("ytd", Kind.BIGINT)
WAREHOUSE = TableSpec("warehouse", (*KEYED, _YTD), "warehouse_key", is_overwritten=True)
DISTRICT = TableSpec(
    "district",
    (*KEYED, Column("next_order", Kind.BIGINT), _YTD),
    "district_key",
    is_overwritten=True,
)
ORDERS = TableSpec(
    "orders",
    (*KEYED, _DISTRICT, _NUMBER, Column("line_count", Kind.SMALLINT)),
    "orders_key",
)
NEW_ORDER = TableSpec("neworder", (*KEYED, _DISTRICT, _NUMBER), "neworder_key")
ORDER_LINE = TableSpec("orderline", KEYED, "orderline_key")

# What housekeeping creates, changes and drops; see rows.tasks.
SIDES = (TableSpec("side1", KEYED), TableSpec("side2", KEYED))

# Rows of the probes that look for where clients can commit again; see model.outage.
OUTAGE = TableSpec("outage", KEYED)

OF_ORDERS = (WAREHOUSE, DISTRICT, ORDERS, NEW_ORDER, ORDER_LINE)

TABLES = (LEDGER, ITEM, REGISTER, CLASSIC, *SIDES, *OF_ORDERS, OUTAGE)


PLAIN = "nothing"  # Definition.besides of a table as dbcheck created it


class Definition(NamedTuple):
    """Definition of a table, beside the columns that its TableSpec names.

    besides: what the table has that dbcheck did not create, such as a trigger, in
             words; PLAIN if there is nothing, "" if that is not known.
    columns: a text that changes whenever somebody alters a column, "" if not known.
    version: a text that changes whenever somebody alters or rewrites the table, "" if
             not known.
    """

    besides: str = ""
    columns: str = ""
    version: str = ""


@dataclass(frozen=True, slots=True)
class TableFacts:
    """One table before a cycle writes to it, or as it was read after one.

    rows_by_epoch: epoch -> rows that earlier cycles left; {0: n} if classic.
    row_id_max:    highest id present, 0 if the table is empty.
    weights_by_epoch: epoch -> sum of id times checksum, modulo 2^64; {} if classic.
                   The rows of an epoch without a weight are only counted.
    different:     ids of rows that the campaign's cycle before this one found changed;
                   a loss by an earlier cut does not count again.
    sound:         epochs of which the cycle before read every row, as many as are
                   counted here: all but the rows in *different* were then as written.
    identity:      see Engine.table_identity(), read before the rows were counted.
    definition:    read together with *identity*.
    """

    rows_by_epoch: Mapping[int, int]
    row_id_max: int
    weights_by_epoch: Mapping[int, int] = field(default_factory=dict)
    different: tuple[int, ...] = ()
    identity: str = ""
    sound: tuple[int, ...] = ()
    definition: Definition = Definition()
