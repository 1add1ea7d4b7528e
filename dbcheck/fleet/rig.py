"""The client's view of one campaign that a worker runs."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from distributed import Future, Queue

from dbcheck.campaign.folder import CampaignFolder
from dbcheck.campaign.totals import finished, tally
from dbcheck.fleet.messages import Job, Status, packed
from dbcheck.fleet.mirror import Incoming, needed
from dbcheck.fleet.workers import resources_of
from dbcheck.inventory.entry import Entry
from dbcheck.model.verdict import Tally
from dbcheck.power.wiring import recall_reached
from dbcheck.report.fleet import RigStatus, State


@dataclass
class FleetRig:
    """One campaign.

    needs:   the resources that its task takes, see resources_of().
    shown:   the files of the results that the view has shown.
    down:    the queue to the task; None until one has begun.
    future:  of the task; None until the job is placed on a worker.
    heard_s: when the task was last heard of, on the monotonic clock.
    agreed:  its consent is stored: the first load is about to begin.
    silent:  see task_is_over().
    """

    entry: Entry
    folder: CampaignFolder
    job: Job
    incoming: Incoming
    needs: Mapping[str, float]
    planned: int
    shown: set[str]
    counted: Tally
    down: Queue | None = None
    state: State = State.WAITING
    future: Future[None] | None = None
    worker: str = ""
    heard_s: float | None = None
    status: Status = Status("", "")
    error: str = ""
    error_id: str = ""
    agreed: bool = False
    silent: bool = False

    def say(self, message: object) -> None:
        """Send a message to the worker's task, if one has begun."""
        if self.down is not None:
            self.down.put(packed(message))

    def task_is_over(self) -> bool:
        """Say whether its task failed, or had ended without a word at the last call.

        Until then its last word may be on its way.
        """
        status = self.future.status if self.future is not None else ""
        before, self.silent = self.silent, status in ("finished", "cancelled")
        return status in ("error", "lost") or (before and self.silent)

    def new_results(self) -> Iterator[str]:
        """Yield a line for each cycle that has ended since the last call."""
        cycles = self.folder.cycles()
        self.counted = tally(cycles)
        for cycle in cycles:
            name = self.folder.file_of(cycle)
            if name not in self.shown:
                self.shown.add(name)
                place = f"{cycle.number}/{self.planned}" if cycle.number else "control"
                yield f"{place} {cycle.verdict.value}: {cycle.reason}"

    def shown_status(self) -> RigStatus:
        """Return what a view shows of it."""
        at, running = self.status, self.state is State.RUNNING
        since = None if self.heard_s is None else time.monotonic() - self.heard_s
        return RigStatus(
            name=self.entry.name,
            state=self.state,
            cuts=self.counted.cuts,
            losses=self.counted.losses,
            planned=self.planned,
            doing=": ".join(filter(None, (at.phase, at.detail))),
            rate=at.rate,
            silent_s=since if running else None,
            error=self.error,
        )


def rig_of(attempt: str, entry: Entry, folder: CampaignFolder, up: str) -> FleetRig:
    """Return a campaign that waits for a worker, or has nothing left to do."""
    files, cycles, plan = needed(folder), folder.cycles(), folder.plan()
    unsettled = list(folder.unsettled())
    own = tuple(run.path.name for run in unsettled if run.is_own())
    over = finished(plan, cycles) and not unsettled
    return FleetRig(
        entry=entry,
        folder=folder,
        job=Job(attempt, entry, recall_reached(entry.wiring), up, files, own),
        incoming=Incoming(folder.path, files),
        needs=resources_of(entry),
        planned=plan.cuts,
        shown={folder.file_of(cycle) for cycle in cycles},
        counted=tally(cycles),
        state=State.ENDED if over else State.WAITING,
    )
