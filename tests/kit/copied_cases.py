"""Cases of a restored copy, to be judged."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dbcheck.judge.case import Case
from dbcheck.model.witness import LogFacts
from dbcheck.rows.copied import Copied, CopyPlan, CopyRecord
from dbcheck.rows.loss import Loss, Losses, LossKind
from dbcheck.rows.reconcile import Reconciliation
from tests.kit.nodes import after_of, having
from tests.kit.samples import CLEAN, FACTS, LOAD, MANIFEST

S = 1_000_000
SAFE = replace(
    FACTS,
    settings={
        "fsync": "on",
        "synchronous_commit": "on",
        "full_page_writes": "on",
        "zero_damaged_pages": "off",
        "ignore_checksum_failure": "off",
    },
)
OTHER = replace(SAFE, identity={"system_identifier": "2"})
RECORD = CopyRecord(10 * S, 13 * S, 2.5)
# Ten commits from before the copy, and two that came before one that is there.
COPIED = Copied(12, 2, 12, 5, 3, 4, 0, 12 * S, None)
EMPTY = Copied(1, 0, 0, 5, 0, 4, 0, 10 * S, None)


def lost_in_copy(*kinds: LossKind) -> Reconciliation:
    """Return what was found of a copy with a loss of each of *kinds*."""
    losses = [
        Loss(kind, 1, number, number, 9 * S, "ledger")
        for number, kind in enumerate(kinds, 1)
    ]
    return replace(CLEAN, confirmed=12, kept=12 - len(kinds), losses=Losses.of(losses))


def case_of(
    found: Reconciliation | None = CLEAN,
    copied: Copied | None = COPIED,
    record: CopyRecord | None = RECORD,
    **changed: Any,
) -> Case:
    """Return a case of a copy; changed: fields of its record of the reading."""
    plan = CopyPlan("postgresql://u@copy/d")
    case = Case(
        having(MANIFEST, facts=SAFE, copy=plan),
        replace(LOAD, watched=None),
        None,
        having(after_of(changed.pop("facts", SAFE)), **changed),
        logs=(LogFacts(17, 3, 0, None, ()),),
    )
    return replace(case, found=found, copied=copied, copy=record)
