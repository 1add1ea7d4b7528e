"""The kinds of plans, as workload files name them."""

from __future__ import annotations

import enum


class PlanKind(enum.Enum):
    """Which plan a workload follows; core.plans.registry has the plans."""

    INSERT = "insert"  # one row for each transaction, which names its operation
    REGISTERS = "registers"  # a row inserted and another updated, in two tables
    CLASSIC = "classic"  # an auto-increment id and nothing else
