"""The Dask workers that share the sessions of a load."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import DbcheckError, UsageError
from dbcheck.base.limits import PROCESSES_MAX
from dbcheck.load import dask_cluster
from dbcheck.load.far import FarGroup
from dbcheck.load.farhost import OpenEngine, Reached, reach
from dbcheck.load.group import SessionGroup
from dbcheck.load.job import Job
from dbcheck.model.server import ServerFacts, is_restarted
from dbcheck.ports.witness import Witness, WitnessHostFacts
from dbcheck.rows.workload import Workload

if TYPE_CHECKING:
    from distributed import Client


@dataclass(frozen=True)
class FarWorkers:
    """Workers of one scheduler, each for a group of the sessions.

    open_engine: pickled and called on each worker, which reads the password itself.
    """

    client: Client
    workers: Sequence[str]
    open_engine: OpenEngine

    def require_fit(
        self, server: ServerFacts, witness: Witness, facts: WitnessHostFacts
    ) -> None:
        """Raise UsageError unless each worker can take its part in the load.

        It must run this dbcheck, and reach the *server* and the *witness*, of which
        *facts* are known: those, and no others that answer to the same names.
        """
        dask_cluster.require_same_version(self.client, self.workers)
        found = dask_cluster.called(
            self.client, self.workers, reach, self.open_engine, witness
        )
        for worker in self.workers:
            self._require(worker, found[worker], server, facts)

    def _require(
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
            (one.machine_id, one.boot_id, one.hostname, one.folder)
            for one in (found.witness, facts)
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
def opened(
    address: str, open_engine: OpenEngine, sessions: int
) -> Iterator[FarWorkers]:
    """Give the workers of the scheduler at *address*, no more than *sessions*.

    Raise UsageError if there are none, or if they are more than a run has logs for.
    """
    with dask_cluster.connected(address) as client:
        found = dask_cluster.workers_of(client)
        workers = found[:sessions]
        if len(workers) > PROCESSES_MAX:
            raise UsageError(
                f"the Dask scheduler {address} has {len(found)} workers; a load runs on"
                f" at most {PROCESSES_MAX}",
                id=ErrorId.TOO_MANY_WORKERS,
                hint="Start a scheduler of its own for the load.",
            )
        yield FarWorkers(client, workers, open_engine)
