"""Shares the cuts of a campaign among the promises of a cluster.

Each cut tests one promise, and says nothing of the others: nodes that lose power and a
writer that comes back decide what can be lost.  So the cuts of each promise are counted
apart, and have a bound of their own.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError

if TYPE_CHECKING:
    from dbcheck.campaign.folder import CampaignPlan, Cycle


def share_cuts(promises: Sequence[str], cuts: int) -> dict[str, int]:
    """Divide *cuts* evenly among *promises*; the first ones get what is left over.

    Return the number of cuts for each promise, {} without promises.
    """
    each, more = divmod(cuts, max(1, len(promises)))
    return {name: each + (place < more) for place, name in enumerate(promises)}


def require_cut_of_each(title: str, promises: Sequence[str], cuts: int) -> None:
    """Raise UsageError if a promise of the cluster *title* would get none of *cuts*."""
    if cuts < len(promises):
        raise UsageError(
            f"{title}: {cuts} of {len(promises)} promises would be tested, as each cut"
            f" tests one of {', '.join(promises)}",
            id=ErrorId.PROMISE_WITHOUT_CUT,
            hint=f"Make {len(promises)} cuts or more, or list fewer promises in"
            " dbcheck_survives.",
        )


def count_cuts(cycles: Sequence[Cycle]) -> Mapping[str, int]:
    """Return the number of counted cuts for each promise."""
    return Counter(cycle.promise for cycle in cycles if cycle.number and cycle.counts)


def draw_promise(plan: CampaignPlan, number: int, cycles: Sequence[Cycle]) -> str:
    """Return the promise that the cycle *number*, 1-based, tests; "" without any.

    One of those that lack cuts, whose share is decided by the plan.  As many cycles in
    a row as there are of these test each once, in an order that the seed draws.  So the
    same cycles always draw the same one, whichever client continues.
    """
    counted = count_cuts(cycles)
    shares = share_cuts(plan.promises, plan.cuts)
    wanted = [name for name, cuts in shares.items() if counted.get(name, 0) < cuts]
    order = wanted or list(plan.promises)
    if not order:
        return ""
    block, place = divmod(number - 1, len(order))
    random.Random(f"{plan.seed}/promises {block}").shuffle(order)
    return order[place]


def lacks_cuts(plan: CampaignPlan, cycles: Sequence[Cycle]) -> bool:
    """Return True if a promise still lacks cuts of its share."""
    counted = count_cuts(cycles)
    shares = share_cuts(plan.promises, plan.cuts)
    return any(counted.get(name, 0) < cuts for name, cuts in shares.items())


def select_cycles(cycles: Sequence[Cycle], promise: str) -> list[Cycle]:
    """Return the *cycles* that tested *promise*."""
    return [cycle for cycle in cycles if cycle.promise == promise]
