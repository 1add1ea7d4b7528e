"""The client's part of a fleet: gives jobs to workers, keeps their files, decides.

A job begins at most once, even if the scheduler starts it again after a worker's death:
a worker asks before it begins, and is refused if the job has begun.
"""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from distributed import Client, Future, Queue, wait

from dbcheck.base import interrupt
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import DbcheckError, FleetError
from dbcheck.campaign.folder import CampaignFolder
from dbcheck.campaign.totals import is_finished, judge_campaign, tally_cycles
from dbcheck.fleet.messages import (
    ALIVE_S,
    Begin,
    Ended,
    Envelope,
    Job,
    Kept,
    Listing,
    Piece,
    Status,
    Word,
    pack_message,
    unpack_message,
)
from dbcheck.fleet.mirror import Incoming, read_needed_files
from dbcheck.fleet.task import run_job
from dbcheck.fleet.workers import (
    Workers,
    choose_worker,
    declare_resources,
    list_resources,
)
from dbcheck.inventory.entry import Entry
from dbcheck.load import dask_cluster
from dbcheck.model.verdict import Tally, Verdict
from dbcheck.power import consent
from dbcheck.power.switched_host import recall_measured_depth
from dbcheck.report.fleet import RigStatus, State, describe_end
from dbcheck.runs import client_key
from dbcheck.runs.folder import RunFolder


@dataclass
class FleetRig:
    """One campaign.

    needs:   the resources that its task takes, see list_resources().
    shown:   the files of the results that the view has shown.
    planned: how many cuts are planned.
    verdict: what the cycles of the campaign show so far.
    down:    the queue to the task; None until a task has begun.
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
    verdict: Verdict
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
        """Send a message to the task on the worker, if it has begun."""
        if self.down is not None:
            self.down.put(pack_message(message))

    def task_is_over(self) -> bool:
        """Return True if its task failed, or had already ended at the last call.

        Until then the task's last message may be on its way.
        """
        status = self.future.status if self.future is not None else ""
        was_silent, self.silent = self.silent, status in ("finished", "cancelled")
        return status in ("error", "lost") or (was_silent and self.silent)

    def new_results(self) -> Iterator[str]:
        """Yield a line for each cycle that has ended since the last call."""
        cycles = self.folder.cycles()
        self.counted = tally_cycles(cycles)
        self.verdict = judge_campaign(self.folder.plan(), cycles)
        for cycle in cycles:
            name = self.folder.file_of(cycle)
            if name not in self.shown:
                self.shown.add(name)
                place = f"{cycle.number}/{self.planned}" if cycle.number else "control"
                yield f"{place} {cycle.verdict.value}: {cycle.reason}"

    def describe_status(self) -> RigStatus:
        """Return the campaign's status for a view."""
        at, running = self.status, self.state is State.RUNNING
        since = None if self.heard_s is None else time.monotonic() - self.heard_s
        return RigStatus(
            name=self.entry.title,
            state=self.state,
            cuts=self.counted.cuts,
            losses=self.counted.losses,
            planned=self.planned,
            doing=": ".join(filter(None, (at.phase, at.detail))),
            rate=at.rate,
            silent_s=since if running else None,
            error=self.error,
            failed=self.verdict is Verdict.FAIL,
        )


def make_rig(attempt: str, entry: Entry, folder: CampaignFolder, up: str) -> FleetRig:
    """Return a campaign that waits for a worker, or has nothing left to do."""
    files, cycles, plan = read_needed_files(folder), folder.cycles(), folder.plan()
    unsettled = list(folder.list_runs_without_cycle())
    own_runs = tuple(run.path.name for run in unsettled if run.is_own())
    is_over = is_finished(plan, cycles) and not unsettled
    return FleetRig(
        entry=entry,
        folder=folder,
        job=Job(
            attempt,
            entry,
            recall_measured_depth(entry.switched_host),
            up,
            files,
            own_runs,
        ),
        incoming=Incoming(folder.path, files),
        needs=list_resources(entry),
        planned=plan.cuts,
        shown={folder.file_of(cycle) for cycle in cycles},
        counted=tally_cycles(cycles),
        verdict=judge_campaign(plan, cycles),
        state=State.ENDED if is_over else State.WAITING,
    )


_WAIT_S = 0.25  # for a message
_LOOK_S = 2.0  # between two looks at the workers
_SHOW_S = 0.25  # between two pictures of all campaigns
_QUEUED = 64  # messages that the scheduler holds at most
CLOSE_S = 10.0  # in which tasks that sent their last message must end
OPEN = (State.WAITING, State.RUNNING)
RESUME = "Continue it with --resume, which first settles what it was at."


class FleetView(Protocol):
    """Shows a fleet's events; must return at once and never raise."""

    def line(self, title: str, detail: str) -> None:
        """Note an event of one target, or of the fleet."""

    def show(self, rigs: Sequence[RigStatus]) -> None:
        """Note how far each target is, a few times a second."""


class Coordinator:
    """Runs campaigns on the workers of a scheduler.

    The caller has locked each folder.
    cutting: how many targets may be without power at once, None for any number.
    """

    def __init__(
        self,
        client: Client,
        campaigns: Sequence[tuple[Entry, CampaignFolder]],
        cutting: int | None,
        view: FleetView,
    ) -> None:
        token = secrets.token_hex(4)
        self._client, self._view, self._cutting = client, view, cutting
        self._up = Queue(f"dbcheck-{token}", client, maxsize=_QUEUED)
        self._rigs: dict[str, FleetRig] = {}
        for number, (entry, folder) in enumerate(campaigns):
            rig = make_rig(f"{token}-{number}", entry, folder, self._up.name)
            self._rigs[rig.job.attempt] = rig
        self._permits: dict[str, None] = {}  # attempts, in the order of their requests
        self._permit_requests: dict[str, None] = {}
        self._alive_sent_s = self._workers_checked_s = self._shown_s = 0.0
        self._stopping = self._stopped = False

    def run(self) -> Mapping[str, tuple[str, str]]:
        """Return, for each target, the error that ended its campaign early, and its id.

        Both are "" if the campaign was not ended early; an interrupt has no id.

        An interrupt ends the campaigns as Ctrl-C ends a single one, with the power
        restored; a second interrupt ends the wait for that.
        """
        try:
            self._run_until_over()
        except KeyboardInterrupt:
            self._stopping = True
            self._run_until_over()
            raise
        finally:
            self._close()
        return {
            rig.entry.title: (rig.error, rig.error_id) for rig in self._rigs.values()
        }

    def _run_until_over(self) -> None:
        while any(rig.state in OPEN for rig in self._rigs.values()):
            # Else a message that was taken could stay unhandled.
            with interrupt.hold_interrupts_back():
                try:
                    self._step()
                except Exception as error:  # Dask raises errors of many kinds
                    self._end_all_as_lost(error)
                if time.monotonic() - self._shown_s >= _SHOW_S:
                    self._show()
        self._show()

    def _show(self) -> None:
        self._shown_s = time.monotonic()
        self._view.show([rig.describe_status() for rig in self._rigs.values()])

    def _end_all_as_lost(self, error: Exception) -> None:
        """End every campaign here; without the scheduler the workers end theirs."""
        lost = ErrorId.SCHEDULER_LOST
        why = f"the Dask scheduler cannot be used any more ({error!r})"
        for rig in self._rigs.values():
            if rig.state is State.WAITING:
                self._end(rig, State.ENDED, f"{why}; it did not begin", lost)
            elif rig.state is State.RUNNING:
                self._end(rig, State.LOST, f"{why}; its worker ends it. {RESUME}", lost)

    def _close(self) -> None:
        """Let the tasks end, and remove the queues."""
        with contextlib.suppress(Exception):  # Dask's errors if the scheduler is gone
            ended_tasks = [
                rig.future
                for rig in self._rigs.values()
                if rig.state is State.ENDED and rig.future
            ]
            wait(ended_tasks, timeout=CLOSE_S)
        with contextlib.suppress(Exception):
            self._client.cancel([r.future for r in self._rigs.values() if r.future])
            for queue in (
                self._up,
                *(r.down for r in self._rigs.values() if r.down),
            ):
                queue.close()
        for rig in self._rigs.values():
            rig.incoming.close()

    def _step(self) -> None:
        """Handle the messages that have come, and do what is due."""
        if self._stopping and not self._stopped:
            self._stop()
        for envelope in self._receive_all():
            rig = self._rigs.get(envelope.attempt)
            if rig is not None:
                try:
                    self._handle(rig, envelope)
                except DbcheckError as error:  # its folder cannot be written
                    rig.say(Word.STOP)
                    self._end(rig, State.LOST, f"{error.with_hint} {RESUME}", error.id)
        now_s = time.monotonic()
        if now_s - self._workers_checked_s >= _LOOK_S:
            self._workers_checked_s = now_s
            self._check_workers()
        if now_s - self._alive_sent_s >= ALIVE_S:
            self._alive_sent_s = now_s
            for rig in self._rigs.values():
                if rig.state is State.RUNNING:
                    rig.say(Word.ALIVE)
        self._grant_permits()

    def _receive_all(self) -> Iterator[Envelope]:
        try:
            yield unpack_message(self._up.get(timeout=_WAIT_S))
        except TimeoutError:
            return
        for content in self._up.get(batch=True):
            yield unpack_message(content)

    def _handle(self, rig: FleetRig, envelope: Envelope) -> None:
        message = envelope.message
        if isinstance(message, Begin):
            self._begin(rig, envelope.worker, Queue(message.down, self._client))
            return
        if envelope.worker != rig.worker or rig.state is not State.RUNNING:
            return  # the worker was refused or given up
        rig.heard_s = time.monotonic()
        if isinstance(message, Status):
            rig.status = message
        elif isinstance(message, Piece):
            rig.incoming.take(message)
        elif isinstance(message, Listing):
            self._check_listing(rig, message)
        elif message is Word.WANTS_PERMIT:
            self._permit_requests[rig.job.attempt] = None
        elif message is Word.PERMIT_RETURNED:
            self._permits.pop(rig.job.attempt, None)
        elif isinstance(message, Ended):
            self._end(rig, State.ENDED, message.error, message.error_id)

    def _begin(self, rig: FleetRig, worker: str, down: Queue) -> None:
        """Let a job begin, unless it has begun already, or the fleet is to end."""
        if rig.state is not State.WAITING or self._stopping:
            down.put(pack_message(Word.REFUSED))
            down.close()
            return
        rig.state, rig.worker, rig.heard_s = State.RUNNING, worker, time.monotonic()
        rig.down = down
        is_local = worker.startswith("inproc:")
        where = "" if is_local else f" on {worker}"
        self._view.line(rig.entry.title, f"begins{where}")
        rig.say(Word.GO)

    def _check_listing(self, rig: FleetRig, listing: Listing) -> None:
        """Tell the worker its missing files; a complete folder may lead to a cut."""
        missing = rig.incoming.missing(listing)
        if not missing:
            run_keys = [
                name for name in listing.files if name.endswith(f"/{client_key.FILE}")
            ]
            if run_keys and not rig.agreed:
                consent.remember_consent(rig.entry.switched_host)
                rig.agreed = True
            for name in set(run_keys).difference(rig.job.files):  # made by the worker
                # The folder may be no run, or its key cannot be kept.
                with contextlib.suppress(DbcheckError):
                    RunFolder.open((rig.folder.path / name).parent).remember()
            for text in rig.new_results():
                self._view.line(rig.entry.title, text)
        rig.say(Kept(missing))

    def _end(self, rig: FleetRig, state: State, error: str, error_id: str = "") -> None:
        rig.state, rig.error, rig.error_id = state, error, error_id
        self._permit_requests.pop(rig.job.attempt, None)
        self._view.line(rig.entry.title, error or describe_end(rig.describe_status()))

    def _grant_permits(self) -> None:
        """Grant the requested permits to be without power, as far as --cutting allows.

        A permit that was not given back stays taken: its target may be without power.
        """
        for attempt in list(self._permit_requests):
            if attempt not in self._permits:
                if self._cutting is not None and len(self._permits) >= self._cutting:
                    break
                self._permits[attempt] = None
            del self._permit_requests[attempt]
            self._rigs[attempt].say(Word.PERMIT_GRANTED)
        lost = [a for a in self._permits if self._rigs[a].state is not State.RUNNING]
        if self._permit_requests and len(lost) == self._cutting and not self._stopping:
            names = ", ".join(self._rigs[attempt].entry.title for attempt in lost)
            text = f"{names} may be without power, so no other target may be cut"
            self._view.line("fleet", f"{text} (--cutting {self._cutting})")
            self._stopping = True

    def _check_workers(self) -> None:
        """End the campaigns of lost workers, and place the jobs that have no worker."""
        workers = dask_cluster.read_worker_info(self._client)
        for rig in self._rigs.values():
            gone = rig.worker not in workers
            failed = rig.task_is_over()
            if rig.state is State.RUNNING and (gone or failed):
                self._end(
                    rig,
                    State.LOST,
                    self._explain_loss(rig, gone=gone),
                    ErrorId.FLEET_WORKER_LOST,
                )
            elif rig.state is State.WAITING and rig.future and (gone or failed):
                rig.future.cancel()
                rig.future, rig.worker = None, ""
        if not self._stopping:
            self._place_jobs(workers)

    def _explain_loss(self, rig: FleetRig, *, gone: bool) -> str:
        what = "its worker" if gone else "its task on the worker"
        why = "ended"
        if not gone and rig.future is not None and rig.future.status == "error":
            why = f"failed: {rig.future.exception()}"
        return f"{what} {rig.worker} {why}, in the midst of the campaign. {RESUME}"

    def _place_jobs(self, workers: Workers) -> None:
        """Give each waiting job to a worker."""
        job_counts: dict[str, int] = {}
        for rig in self._rigs.values():
            if rig.worker in workers and rig.state in OPEN:
                job_counts[rig.worker] = job_counts.get(rig.worker, 0) + 1
        unplaced = [
            r for r in self._rigs.values() if r.state is State.WAITING and not r.future
        ]
        new_needs: dict[str, list[str]] = {}
        for rig in unplaced if workers else ():
            try:
                rig.worker = choose_worker(list(rig.needs), workers, job_counts)
            except FleetError as error:
                self._end(rig, State.ENDED, error.with_hint, error.id)
                continue
            job_counts[rig.worker] = job_counts.get(rig.worker, 0) + 1
            new_needs.setdefault(rig.worker, []).extend(rig.needs)
        declare_resources(self._client, new_needs)
        for rig in unplaced:
            if rig.state is State.WAITING and rig.worker:
                rig.future = self._client.submit(
                    run_job,
                    rig.job,
                    key=f"dbcheck-campaign-{rig.job.attempt}-{secrets.token_hex(4)}",
                    workers=[rig.worker],
                    resources=dict(rig.needs),
                    retries=0,
                    pure=False,
                )

    def _stop(self) -> None:
        """End every campaign as Ctrl-C ends one, and begin no other."""
        self._stopped = True
        for rig in self._rigs.values():
            if rig.state is State.RUNNING:
                rig.say(Word.STOP)
            elif rig.state is State.WAITING:
                self._end(rig, State.ENDED, "it did not begin")
