"""Makes the plan of a new campaign from what its user asks for."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

import dbcheck
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.campaign.folder import CampaignPlan
from dbcheck.campaign.promises import require_cut_of_each
from dbcheck.config import workload_file
from dbcheck.inventory.entry import Entry
from dbcheck.model.verdict import PPM, compute_cuts_needed
from dbcheck.runner.assemble import choose_processes
from dbcheck.runner.placement import read_inventory_target

WORKLOAD = "mixed"  # the default, unless the inventory names another workload


@dataclass(frozen=True, slots=True)
class Goal:
    """The number of cuts that a user asks for.

    cuts:      in all; None: as many as the bound needs.
    bound_ppm: what the cuts of each promise are to show, None if only a number counts.
    most:      with a bound: at most so many cuts in all, None for any number.
    """

    cuts: int | None
    bound_ppm: int | None = None
    most: int | None = None

    def count_cuts(self, promises: int) -> int:
        """Return the number of cuts in all.

        promises: of the target; a bound needs as many cuts of each, since a cut of one
        says nothing of another.  0 of a single server.
        """
        if self.bound_ppm is None:
            return self.cuts or 1
        needed = compute_cuts_needed(self.bound_ppm) * max(1, promises)
        return min(needed, self.most or needed)


def decide_goal(cuts: int | None, until: float | None, max_cuts: int | None) -> Goal:
    """Return what the options ask for; raise UsageError unless they fit together."""
    if (cuts is None) == (until is None):
        raise UsageError(
            "give either --cuts or --until",
            id=ErrorId.ONE_OF_OPTIONS_NEEDED,
            hint="--cuts 20, or --until 0.05 for a bound of 5% of cuts.",
        )
    if until is None:
        if max_cuts is not None:
            raise UsageError(
                "--max-cuts needs --until",
                id=ErrorId.OPTION_NEEDS_ANOTHER,
                hint="Give --cuts alone.",
            )
        return Goal(cuts)
    return Goal(None, round(until * PPM), max_cuts)


def make_plan(
    entry: Entry,
    seed: int,
    goal: Goal,
    *,
    keep_going: bool,
    control: bool,
    twice: bool,
    targets: int | None = 1,
) -> CampaignPlan:
    """Return the plan of a new campaign on *entry*; raise UsageError.

    The number of processes is part of the plan, so that all its cycles have the same,
    on whichever machine they are resumed.
    targets: how many campaigns this machine runs at once; None if another one runs
    them, whose cores are not known.
    """
    promises = tuple(promise.value for promise in entry.promises)
    cuts = goal.count_cuts(len(promises))
    require_cut_of_each(entry.title, promises, cuts)
    workload = workload_file.load(entry.workload or WORKLOAD)
    workload = workload.with_sessions(entry.sessions).with_processes(entry.processes)
    if targets is not None:
        workload = choose_processes(entry, workload, targets=targets)
    return CampaignPlan(
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        dbcheck=dbcheck.__version__,
        name=entry.title,
        target=read_inventory_target(entry),
        seed=seed,
        workload=workload,
        cuts=cuts,
        cycles_max=2 * cuts + 10,
        bound_ppm=goal.bound_ppm,
        keep_going=keep_going,
        control=control,
        inventory=entry.inventory,
        twice=twice,
        price=entry.price,
        promises=promises,
    )
