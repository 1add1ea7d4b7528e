"""Makes the plan of a new campaign from what its user asks for."""

from __future__ import annotations

from datetime import UTC, datetime

import dbcheck
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.campaign.folder import CampaignPlan
from dbcheck.config import workload_file
from dbcheck.inventory.entry import Entry
from dbcheck.model.verdict import PPM, compute_cuts_needed
from dbcheck.runner.assemble import choose_processes

WORKLOAD = "mixed"  # the default, unless the inventory names another workload


def decide_goal(
    cuts: int | None, until: float | None, max_cuts: int | None
) -> tuple[int, int | None]:
    """Return the number of cuts, and the bound in ppm that they are to show."""
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
        return cuts or 1, None
    bound_ppm = round(until * PPM)
    needed = compute_cuts_needed(bound_ppm)
    return min(needed, max_cuts or needed), bound_ppm


def make_plan(
    entry: Entry,
    seed: int,
    goal: tuple[int, int | None],
    *,
    keep_going: bool,
    control: bool,
    twice: bool,
    targets: int | None = 1,
) -> CampaignPlan:
    """Return the plan of a new campaign on *entry*; goal: see decide_goal().

    The number of processes is part of the plan, so that all its cycles have the same,
    on whichever machine they are resumed.
    targets: how many campaigns this machine runs at once; None if another one runs
    them, whose cores are not known.
    """
    cuts, bound_ppm = goal
    workload = workload_file.load(entry.workload or WORKLOAD)
    workload = workload.with_sessions(entry.sessions).with_processes(entry.processes)
    if targets is not None:
        workload = choose_processes(entry, workload, targets=targets)
    return CampaignPlan(
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        dbcheck=dbcheck.__version__,
        name=entry.title,
        target=entry.target,
        seed=seed,
        workload=workload,
        cuts=cuts,
        cycles_max=2 * cuts + 10,
        bound_ppm=bound_ppm,
        keep_going=keep_going,
        control=control,
        inventory=entry.inventory,
        twice=twice,
        price=entry.price,
    )
