"""A preload of a Dask worker, which then plays campaigns."""

from __future__ import annotations

from distributed import Worker

from dbcheck.fleet import task


def dask_setup(_: Worker) -> None:
    """Make a worker play campaigns."""
    task.CHILD = "tests.kit.played_campaign"
