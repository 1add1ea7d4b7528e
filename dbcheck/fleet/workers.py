"""Starts workers of a fleet on this machine, and chooses a worker for a job.

No host, outlet or witness is in two jobs at once.  Each of them is a resource of one
worker (Dask: worker resources), of which it has one.  Dask itself then runs jobs that
need the same resource one after the other, also jobs of several clients: the second job
finds the resource where the first put it.
"""

from __future__ import annotations

import contextlib
import hashlib
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import dask.config
from distributed import Client, LocalCluster, Worker

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import FleetError
from dbcheck.inventory.entry import Entry
from dbcheck.runs import stored

WORKERS_MAX = 4
AT_ONCE_MAX = 32  # campaigns; the process of each takes some 90 MiB
_SCRATCH = ".workers"
# Dask always listens for HTTP: only here, and with nothing to answer.
_HTTP = "127.0.0.1:0"
_QUIET: Mapping[str, list[str]] = {
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
}

# Address of a worker -> what load.dask_cluster.read_worker_info() returns of it.
Workers = Mapping[str, Mapping[str, Any]]


@contextlib.contextmanager
def open_own_workers(jobs: int, root: Path) -> Iterator[Client]:
    """Give a client of workers for so many *jobs*; end them afterwards.

    They run up to AT_ONCE_MAX campaigns at once, as threads of this process: each
    campaign has a process of its own anyway, and whoever can connect to a port of
    Dask's can run programs as this user.
    root: the folder of the campaigns, in which the workers have theirs meanwhile.
    """
    scratch = root / _SCRATCH
    shutil.rmtree(scratch, ignore_errors=True)  # of a client that was killed
    stored.make_folder(scratch)
    at_once = min(jobs, AT_ONCE_MAX)
    count = min(at_once, WORKERS_MAX)
    try:
        with (
            dask.config.set(_QUIET),
            LocalCluster(
                n_workers=count,
                threads_per_worker=-(-at_once // count),
                processes=False,
                dashboard_address=_HTTP,
                worker_dashboard_address=_HTTP,
                scheduler_kwargs={"dashboard": False},
                local_directory=str(scratch),
            ) as cluster,
            Client(cluster, set_as_default=False) as client,
        ):
            yield client
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def list_resources(entry: Entry) -> dict[str, float]:
    """Return the resources that a job on *entry* needs, for Dask: name -> 1."""
    parts = [("witness", entry.witness.rstrip("/"))]
    for host in (entry, *entry.standbys):
        parts.append(("target", host.target))
        if (outlet := host.power.outlet()) is not None:
            parts.append(("outlet", repr(outlet)))
    return {f"dbcheck {what} {_digest(value)}": 1 for what, value in parts}


def choose_worker(
    names: Sequence[str], workers: Workers, load: Mapping[str, int]
) -> str:
    """Return the worker for a job that needs the resources *names*.

    load: how many jobs each worker has been given.  Raise FleetError if the resources
    are with several workers, as where two clients placed jobs at the same moment.
    """
    holders = {
        a for a, about in workers.items() if _list_held(about).intersection(names)
    }
    if len(holders) > 1:
        raise FleetError(
            "its server, its outlet and its witness are in use by jobs on several"
            f" workers: {', '.join(sorted(holders))}",
            id=ErrorId.FLEET_TARGET_IN_USE,
            hint="Wait until the other client's campaigns have ended, then --resume. If"
            " none runs, start these workers anew: they keep what they were given.",
        )
    if holders:
        return holders.pop()
    return min(
        workers, key=lambda one: (load.get(one, 0) / _count_threads(workers[one]), one)
    )


def declare_resources(client: Client, placed: Mapping[str, Sequence[str]]) -> None:
    """Give each worker the resources *placed* on it: address -> their names."""
    for worker, names in placed.items():
        client.run(_declare, list(names), workers=[worker])


async def _declare(names: Sequence[str], dask_worker: Worker) -> None:
    missing = [name for name in names if name not in dask_worker.state.total_resources]
    await dask_worker.set_resources(**dict.fromkeys(missing, 1))


def _list_held(about: Mapping[str, Any]) -> set[str]:
    return set(about.get("resources", ()))


def _count_threads(about: Mapping[str, Any]) -> int:
    return int(about.get("nthreads", 1)) or 1


def _digest(value: str) -> str:
    return hashlib.sha256(value.encode()).hexdigest()[:16]
