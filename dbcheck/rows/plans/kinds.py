"""The kinds of plans, as workload files name them."""

from __future__ import annotations

from dbcheck.base.explained import Explained


class PlanKind(Explained):
    """Which plan a workload follows; rows.plans.registry has the plans."""

    INSERT = "insert", "One row for each commit."
    MIXED = "mixed", "Kinds of operations, by weight."
    TWO_PHASE = (
        "two-phase",
        "Transactions that one operation prepares and the next one commits or rolls "
        "back.",
    )
    REGISTERS = (
        "registers",
        "Transactions that insert a row and update a row of another table.",
    )
    ORDER_ENTRY = (
        "order-entry",
        "Orders with their lines, and payments, after TPC-C.",
    )
    CLASSIC = "classic", "An auto-increment id and nothing else."
