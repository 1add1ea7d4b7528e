"""A scheduler and workers in this process, for targets that this machine can handle.

Each campaign has a process of its own anyway.  Threads need no port for their messages,
and whoever can connect to such a port of Dask's can run programs as this user.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import dask.config
from distributed import Client, LocalCluster

from dbcheck.runs import stored

WORKERS_MAX = 4
AT_ONCE_MAX = 32  # campaigns; the process of each takes some 90 MiB
_SCRATCH = ".workers"
_QUIET: Mapping[
    str, list[str]
] = {  # Dask always listens for HTTP: only here, and with nothing to answer
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
}
_HTTP = "127.0.0.1:0"


@contextlib.contextmanager
def own_workers(jobs: int, root: Path) -> Iterator[Client]:
    """Give a client of workers for so many *jobs*; end them afterwards.

    They run up to AT_ONCE_MAX campaigns at once.
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
