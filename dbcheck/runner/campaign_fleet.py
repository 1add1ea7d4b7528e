"""Runs the campaigns of several targets on the workers of a Dask scheduler."""

from __future__ import annotations

import contextlib
import resource
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.campaign.folder import CampaignFolder, resume_command
from dbcheck.campaign.totals import make_result
from dbcheck.inventory.entry import Entry
from dbcheck.judge.results import CampaignResult
from dbcheck.load import dask_cluster
from dbcheck.power.kinds.lab import LabConfig
from dbcheck.remote.same_host import read_boot_id
from dbcheck.report.console import make_progress_console
from dbcheck.report.fleet import make_fleet_view
from dbcheck.runner.guard import require_nodes_stay

if TYPE_CHECKING:
    from distributed import Client

LOCAL = "local"


def run_fleet(
    campaigns: Sequence[tuple[Entry, CampaignFolder]],
    root: Path,
    address: str,
    cutting: int | None,
    *,
    as_json: bool,
) -> list[CampaignResult]:
    """Run each campaign on a worker; return what each shows.

    address: of the scheduler, or LOCAL.  cutting: so many targets may be without power
    at once, None for any number.  One that fails does not disturb the others.  Raise
    RunWriteError if another client runs one of them.
    """
    allow_open_files()
    with contextlib.ExitStack() as stack:
        for _, folder in campaigns:
            stack.enter_context(folder.locked())
        client = stack.enter_context(_open_client(address, len(campaigns), root))
        from dbcheck.fleet.coordinator import Coordinator

        console = make_progress_console()
        view = stack.enter_context(make_fleet_view(console, live=not as_json))
        try:
            errors = Coordinator(client, campaigns, cutting, view).run()
        except KeyboardInterrupt:
            view.line("continue", resume_command(root))
            raise
    return [_read_result(folder, entry, errors) for entry, folder in campaigns]


def allow_open_files() -> None:
    """Let this process open as many files as it may: each campaign's lock is one."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):  # then what it has must do
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _read_result(
    folder: CampaignFolder, entry: Entry, errors: Mapping[str, tuple[str, str]]
) -> CampaignResult:
    shown = make_result(folder)
    error, error_id = errors[entry.title]
    if shown.finished or not error:
        return shown
    return replace(shown, error=error, error_id=error_id)


def _open_client(
    address: str, jobs: int, root: Path
) -> contextlib.AbstractContextManager[Client]:
    if address != LOCAL:
        return dask_cluster.connect_client(address)
    from dbcheck.fleet.workers import open_own_workers

    return open_own_workers(jobs, root)


def require_workers(address: str, entries: Sequence[Entry]) -> None:
    """Raise UsageError unless every worker can run a campaign of each of *entries*."""
    for entry in entries:
        require_nodes_stay(entry)
    if address == LOCAL:
        dask_cluster.require_installed()
        return
    dask_cluster.require_address("--dask", address)
    with dask_cluster.connect_client(address) as client:
        workers = dask_cluster.list_workers(client)
        dask_cluster.require_same_version(client, workers)
        machines = dask_cluster.call_on_workers(client, workers, read_boot_id)
    here = read_boot_id()  # "" where the system has none
    elsewhere = [each for each in workers if not here or machines[each] != here]
    for entry in entries if elsewhere else ():
        if isinstance(entry.power, LabConfig):
            what, do = "is a lab of this machine", "Use workers on this machine alone."
        elif entry.witness.startswith("file:"):
            what = "logs to a folder of the machine that its campaign runs on"
            do = "Name a witness as ssh://, or use workers on this machine alone."
        else:
            continue
        raise UsageError(
            f"host {entry.name} {what}; the worker {elsewhere[0]} is on another one",
            id=ErrorId.WORKER_ON_OTHER_MACHINE,
            hint=do,
        )
