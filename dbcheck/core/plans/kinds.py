"""The kinds of plans, as workload files name them."""

from __future__ import annotations

import enum


class PlanKind(enum.Enum):
    """Which plan a workload follows; core.plans.registry has the plans."""

    INSERT = "insert"  # one row for each transaction, which names its operation
    MIXED = "mixed"  # operations of several kinds, by weight
    TWO_PHASE = "two-phase"  # transactions that are prepared first, and then decided
    REGISTERS = "registers"  # of one: a row inserted and another updated, in two tables
    ORDER_ENTRY = "order-entry"  # orders and payments of terminals, as in TPC-C
    CLASSIC = "classic"  # an auto-increment id and nothing else
