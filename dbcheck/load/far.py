"""The client's side of sessions that run on other machines, by Dask workers.

Clocks of two machines are not compared directly: Shift converts the times in a group's
reports by the times at which the reports arrive here.
"""

from __future__ import annotations

import contextlib
import secrets
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import DbcheckError, LoadError, UsageError
from dbcheck.base.limits import PROCESSES_MAX
from dbcheck.base.system import now_us
from dbcheck.load import dask_cluster
from dbcheck.load.farhost import (
    FarHost,
    News,
    OpenEngine,
    Order,
    Reached,
    pack_job,
    reach,
)
from dbcheck.load.group import END_S, GroupResult, SessionGroup, Snapshot
from dbcheck.load.job import Job
from dbcheck.load.loop import SNAPSHOT_S
from dbcheck.load.pace import LEASE_S
from dbcheck.model.server import ServerFacts, is_restarted
from dbcheck.model.witness import DRIFT
from dbcheck.ports.witness import Witness, WitnessHostFacts
from dbcheck.rows.workload import Workload

if TYPE_CHECKING:
    from distributed import Client

_BEGIN_S = 60.0  # for a worker whose threads are busy
_KILL_S = 3.0
# Added to a lease, as the worker's clock decides its end: far more than DRIFT needs.
_MARGIN_S = 1.0


class Shift:
    """The difference that converts another machine's clock to this one's.

    It is never too small, so a moment never looks earlier than it was.  It is too large
    by the travel time of the quickest recent report, which is less than a round trip.
    The kernel keeps CLOCK_MONOTONIC to 500 us in a second of true time (adjtimex(2),
    MAXFREQ).
    """

    def __init__(self) -> None:
        self.us = 0
        self._noted_us = -1

    def note(self, there_us: int, here_us: int) -> None:
        """Note that a report made at *there_us* came at *here_us*."""
        shift_us = here_us - there_us
        if self._noted_us < 0:
            self.us = shift_us
        else:
            self.us = min(shift_us, self.us + (here_us - self._noted_us) // DRIFT + 1)
        self._noted_us = here_us

    def snapshot(self, snapshot: Snapshot) -> Snapshot:
        """Return *snapshot* with its moments on this clock."""
        return replace(
            snapshot,
            clock_us=self._shift_us(snapshot.clock_us),
            newest_sent_us=self._shift_us(snapshot.newest_sent_us),
            last_ack_us=self._shift_us(snapshot.last_ack_us),
        )

    def result(self, result: GroupResult) -> GroupResult:
        """Return *result* with its moments on this clock."""
        breaks = [
            broken._replace(clock_us=self._shift_us(broken.clock_us))
            for broken in result.breaks
        ]
        watched = result.watched
        return replace(
            result,
            breaks=breaks,
            replaced=result.replaced.moved(self.us),
            observed=result.observed.moved(self.us),
            watched=watched.moved(self.us) if watched else None,
        )

    def _shift_us(self, there_us: int) -> int:
        return there_us + self.us if there_us else 0


class FarGroup:
    """A SessionGroup whose sessions run on a Dask worker, in a process there.

    From connect() to end() a thread exchanges orders and news with the worker.
    """

    def __init__(
        self, client: Client, worker: str, job: Job, open_engine: OpenEngine
    ) -> None:
        """Let *worker* run *job*, with the engine that *open_engine* returns there."""
        self._client: Any = client  # its methods have no types
        self._worker, self._job, self._open_engine = worker, job, open_engine
        self._actor: Any = None  # the worker keeps its FarHost as long as this lives
        self._host: Any = None
        self._shift = Shift()
        self._snapshot = Snapshot()
        # None: the result has not come yet.
        self._result: GroupResult | None = GroupResult()
        self._refusal: DbcheckError | None = None
        self._orders: list[Order] = []
        self._orders_changed = threading.Condition()
        self._connected, self._over = threading.Event(), threading.Event()
        self._may_run = False  # the far process may still send operations
        self._is_quiet = False  # nothing is exchanged any more
        self._heard_s = 0.0

    def connect(self) -> None:
        """Start the process on the worker; return once every session is connected."""
        self._result = None
        try:
            # One worker runs it once, as a second copy would send the same keys again.
            self._actor = self._client.submit(
                FarHost,
                key=f"dbcheck-load-{self._job.log}-{secrets.token_hex(8)}",
                workers=[self._worker],
                allow_other_workers=False,
                pure=False,
                retries=0,
                actor=True,
            )
            self._host = self._actor.result(_BEGIN_S)
            self._may_run, self._heard_s = True, time.monotonic()
            answer = self._host.begin(pack_job(self._job), self._open_engine)
            answer.result(LEASE_S)
        except Exception as error:  # whatever Dask raises
            self._over.set()
            raise self._make_loss_error(error) from error
        threading.Thread(
            target=self._exchange_until_over, name="far-load", daemon=True
        ).start()
        self._connected.wait()
        if failure := self._refusal or (self._result and self._result.failure):
            raise failure

    def start(self, began_us: int) -> None:
        """Let the sessions commit, from the arrival of the order on.

        began_us is not used: it is of this machine's clock, and the worker takes the
        time of the arrival from its own clock.
        """
        self._add_order(Order.START)

    def hold(self, *, held: bool) -> None:
        """Pause the sessions, or resume them."""
        self._add_order(Order.HOLD if held else Order.RESUME)

    def snapshot(self) -> Snapshot:
        """Return the newest snapshot that came."""
        return self._snapshot

    def task(self) -> int:
        """Return the task of the newest snapshot; it may be over by now."""
        return self._snapshot.task

    def end(self, wait_s: float = END_S) -> GroupResult:
        """End the sessions and their process; idempotent.

        If the worker does not answer, return once the lease of its sessions has surely
        ended, as they send nothing after that.  After an interrupt the next call does
        the rest.
        """
        try:
            if self._may_run and not self._is_quiet:
                self._add_order(Order.END)
                self._over.wait(wait_s)
        finally:
            self._wait_until_quiet()
        self._actor = self._host = None
        return self._result or GroupResult(failure=self._make_loss_error(None))

    def _wait_until_quiet(self) -> None:
        """Wait until the worker's machine can send nothing more to the server."""
        if self._may_run and self._host is not None:
            with contextlib.suppress(Exception):  # whatever Dask raises: wait, then
                self._may_run = not self._host.kill().result(_KILL_S)
        self._is_quiet = True  # the lease is renewed no more
        if self._may_run:
            left_s = self._heard_s + LEASE_S + _MARGIN_S - time.monotonic()
            time.sleep(max(0.0, left_s))
            self._may_run = False

    # ------------------------------------------------------------------ in its thread

    def _exchange_until_over(self) -> None:
        """Exchange orders for news until the result comes, or the worker is lost."""
        heard_us = 0
        try:
            while not self._is_quiet and self._result is None:
                orders = self._next_orders()
                news = self._host.exchange(heard_us, orders).result(LEASE_S)
                if not news.is_begun:
                    raise EOFError("it restarted")
                heard_us = news.clock_us
                self._take_news(news)
        except Exception as error:  # whatever Dask raises
            self._result = self._result or GroupResult(
                failure=self._make_loss_error(error)
            )
            self._snapshot = replace(self._snapshot, running=0, waiting=0, failed=True)
        finally:
            self._connected.set()
            self._over.set()

    def _next_orders(self) -> Sequence[Order]:
        with self._orders_changed:
            if not self._orders:
                self._orders_changed.wait(SNAPSHOT_S)
            orders, self._orders = self._orders, []
            return orders

    def _take_news(self, news: News) -> None:
        self._heard_s = time.monotonic()
        self._shift.note(news.clock_us, now_us())
        self._snapshot = self._shift.snapshot(news.snapshot)
        if news.result is not None:
            self._refusal = news.refusal
            self._result = self._shift.result(news.result)
            self._may_run = False
        if news.connected or news.result is not None:
            self._connected.set()

    def _add_order(self, order: Order) -> None:
        with self._orders_changed:
            self._orders.append(order)
            self._orders_changed.notify()

    def _make_loss_error(self, error: Exception | None) -> LoadError:
        """Describe a worker that is lost, or whose result did not come in time."""
        what = "did not send its result in time"
        if error is not None:
            why = str(error) or type(error).__name__
            what = f"is lost: {why.splitlines()[0]}"
        return LoadError(
            f"the Dask worker {self._worker}, with {self._job.sessions.count} sessions"
            f" of the load, {what}",
            id=ErrorId.LOAD_WORKER_LOST,
            hint="Judge what the witness holds with dbcheck reconcile. Look into the"
            " logs of that worker and of the scheduler.",
        )


@dataclass(frozen=True)
class FarWorkers:
    """Workers of one scheduler, each for a group of the sessions.

    open_engine: pickled and called on each worker, which reads the password itself.
    by_node: the same for each node of a cluster, by its name: any may take the load.
    """

    client: Client
    workers: Sequence[str]
    open_engine: OpenEngine
    by_node: Mapping[str, OpenEngine] = field(default_factory=dict)

    def loading(self, writer_name: str) -> FarWorkers:
        """Return the workers whose sessions commit on the node *writer_name*."""
        opens = self.by_node.get(writer_name, self.open_engine)
        return replace(self, open_engine=opens)

    def require_fit(
        self, server: ServerFacts, witness: Witness, facts: WitnessHostFacts
    ) -> None:
        """Raise UsageError unless each worker can take its part in the load.

        It must run this version of dbcheck, and reach the very *server* and *witness*,
        which has *facts*, and not others that answer to the same names.
        """
        dask_cluster.require_same_version(self.client, self.workers)
        found = dask_cluster.call_on_workers(
            self.client, self.workers, reach, self.open_engine, witness
        )
        for worker in self.workers:
            self._require_worker(worker, found[worker], server, facts)

    def _require_worker(
        self, worker: str, found: object, server: ServerFacts, facts: WitnessHostFacts
    ) -> None:
        if not isinstance(found, Reached):
            raise UsageError(
                f"the Dask worker {worker} cannot take part in the load: {found}",
                id=found.id
                if isinstance(found, DbcheckError)
                else ErrorId.LOAD_WORKER_NOT_FIT,
                hint=(found.hint if isinstance(found, DbcheckError) else "")
                or "Look into the log of that worker.",
            )
        now = found.server
        if is_restarted(server, now) or now.identity != server.identity:
            raise UsageError(
                f"the Dask worker {worker} reaches another server than this machine",
                id=ErrorId.WORKER_REACHES_OTHER_SERVER,
                hint="Use a URL that leads to the same server from every machine.",
            )
        theirs, ours = (
            (shown.machine_id, shown.boot_id, shown.hostname, shown.folder)
            for shown in (found.witness, facts)
        )
        if theirs != ours:
            raise UsageError(
                f"the Dask worker {worker} reaches another witness than this machine",
                id=ErrorId.WORKER_REACHES_OTHER_WITNESS,
                hint="Use an ssh:// URL with the same host and folder everywhere.",
            )

    def shared(self, workload: Workload) -> Workload:
        """Return *workload* with a process on each worker."""
        return replace(workload, processes=len(self.workers))

    def groups(self, jobs: Sequence[Job]) -> list[SessionGroup]:
        """Return a group for each of *jobs*, of which there is one for each worker."""
        return [
            FarGroup(self.client, worker, job, self.open_engine)
            for worker, job in zip(self.workers, jobs, strict=True)
        ]


@contextlib.contextmanager
def open_workers(
    address: str,
    open_engine: OpenEngine,
    sessions: int,
    by_node: Mapping[str, OpenEngine] = MappingProxyType({}),
) -> Iterator[FarWorkers]:
    """Yield the workers of the scheduler at *address*, no more than *sessions*.

    by_node: see FarWorkers.  Raise UsageError if there are none, or more than a run has
    logs for.
    """
    with dask_cluster.connect_client(address) as client:
        found = dask_cluster.list_workers(client)
        workers = found[:sessions]
        if len(workers) > PROCESSES_MAX:
            raise UsageError(
                f"the Dask scheduler {address} has {len(found)} workers; a load runs on"
                f" at most {PROCESSES_MAX}",
                id=ErrorId.TOO_MANY_WORKERS,
                hint="Start a scheduler of its own for the load.",
            )
        yield FarWorkers(client, workers, open_engine, by_node)
