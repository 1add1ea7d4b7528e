"""Which worker runs a job, so that no host, outlet or witness is in two jobs at once.

Each of them is a resource of one worker (Dask: worker resources), of which it has one.
Dask itself then runs jobs that need the same one after the other, also those of several
clients: the second finds the resource where the first put it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from distributed import Client, Worker

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import FleetError
from dbcheck.inventory.entry import Entry

Workers = Mapping[str, Mapping[str, Any]]  # dask.workers_about()


def resources_of(entry: Entry) -> dict[str, float]:
    """Return what a job on *entry* needs, as Dask takes it: name -> 1."""
    parts = {"target": entry.target, "witness": entry.witness.rstrip("/")}
    if (outlet := entry.power.outlet()) is not None:
        parts["outlet"] = repr(outlet)
    return {f"dbcheck {what} {_digest(value)}": 1 for what, value in parts.items()}


def chosen(names: Sequence[str], workers: Workers, load: Mapping[str, int]) -> str:
    """Return the worker for a job that needs the resources *names*.

    load: how many jobs each worker has been given.  Raise FleetError if the resources
    are with several workers, as where two clients placed jobs at the same moment.
    """
    holders = {a for a, about in workers.items() if _held(about).intersection(names)}
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
        workers, key=lambda one: (load.get(one, 0) / _threads(workers[one]), one)
    )


def declare(client: Client, placed: Mapping[str, Sequence[str]]) -> None:
    """Give each worker the resources *placed* on it: address -> their names."""
    for worker, names in placed.items():
        client.run(_declare, list(names), workers=[worker])


async def _declare(names: Sequence[str], dask_worker: Worker) -> None:
    missing = [name for name in names if name not in dask_worker.state.total_resources]
    await dask_worker.set_resources(**dict.fromkeys(missing, 1))


def _held(about: Mapping[str, Any]) -> set[str]:
    return set(about.get("resources", ()))


def _threads(about: Mapping[str, Any]) -> int:
    return int(about.get("nthreads", 1)) or 1


def _digest(value: str) -> str:
    return hashlib.sha256(value.encode()).hexdigest()[:16]
