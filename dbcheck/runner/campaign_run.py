"""Runs one campaign in this process."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import (
    DbcheckError,
    FleetError,
    RunFormatError,
    RunWriteError,
    UsageError,
)
from dbcheck.campaign.campaign import WAIT_S, lock_witness, run_campaign
from dbcheck.campaign.folder import (
    CampaignFolder,
    CampaignPlan,
    list_folders,
    resume_command,
)
from dbcheck.campaign.totals import ERROR_FILE, format_ending, make_result
from dbcheck.cycle.preflight.pending_runs import require_none_pending
from dbcheck.cycle.rig import Rig
from dbcheck.inventory.entry import Entry
from dbcheck.inventory.load import load_inventory
from dbcheck.judge.results import CampaignResult
from dbcheck.model.cluster import Promise
from dbcheck.model.records import Manifest
from dbcheck.model.replication import RebuiltBy
from dbcheck.power import consent
from dbcheck.report.console import make_progress_console
from dbcheck.report.live import make_progress
from dbcheck.report.progress import PlainProgress
from dbcheck.runner import assemble
from dbcheck.runner.attendance import await_enter, require_terminal
from dbcheck.runner.guard import (
    check_interlocks,
    require_passable,
    require_stays_off,
    require_unshared_switch,
)
from dbcheck.runner.placement import Placement, read_inventory_target
from dbcheck.runs.folder import RUNS, RunFolder, reconcile_command
from dbcheck.runs.stored import require_own, write_file
from dbcheck.witness.window import WindowLimits

RESTORE_FIRST = (
    "a cut was asked for and is not judged. If you cut the power, restore it; the"
    " command below then reads the rows before it goes on"
)
IN_POD = "in a pod"
_TARGETS_ASKED_AT_ONCE = 32
_FAILURES_SHOWN_MAX = 5


def require_fit(entry: Entry, *, yes: bool, i_know: bool) -> None:
    """Raise UsageError if *entry* cannot be cut many times, or must not be."""
    require_terminal(entry)
    require_hosts_fit(entry, yes=yes, i_know=i_know)


def require_hosts_fit(entry: Entry, *, yes: bool, i_know: bool) -> None:
    """Raise UsageError if a host of *entry* cannot be cut many times, or must not be.

    Whoever cuts by hand is asked for each cut.
    """
    _require_rebuilt(entry)
    for host in entry.cut_in_turn:
        require_passable(host)
        require_stays_off(entry, host)
        engine = assemble.make_engine(host.target, host.password)
        require_none_pending(RUNS, engine)
        check_interlocks(host, engine, yes=yes, i_know=i_know)


def _require_rebuilt(entry: Entry) -> None:
    """Raise UsageError for a cluster that stays without a node after its first cut."""
    if all(promise.writer_returns for promise in entry.promises):
        return
    if entry.rebuilt_by == RebuiltBy.NOBODY.value:
        raise UsageError(
            f"{entry.title} is not whole again after a cut: its old writer stays off,"
            " and nothing says who makes it a standby of the new one",
            id=ErrorId.CLUSTER_NOT_REBUILT,
            hint="Set dbcheck_rebuilt_by (docs/clusters.md). For a single cut:"
            f" dbcheck run {entry.title}.",
        )


def require_all_fit(entries: Sequence[Entry], *, yes: bool, i_know: bool) -> None:
    """Call require_fit() for each entry; raise one error that names all failures.

    With several entries it is a FleetError if one of them could not be asked.
    """

    def unfit(entry: Entry) -> DbcheckError | None:
        try:
            require_fit(entry, yes=yes, i_know=i_know)
        except DbcheckError as error:
            return error
        return None

    pool = ThreadPoolExecutor(_TARGETS_ASKED_AT_ONCE, "fit")
    try:
        failures = list(pool.map(unfit, entries))
    finally:
        pool.shutdown(cancel_futures=True)
    failed = [
        (entry.title, why) for entry, why in zip(entries, failures, strict=True) if why
    ]
    if not failed:
        return
    first = failed[0][1]
    if len(entries) == 1:
        raise first
    texts = "".join(f"\n{name}: {why}" for name, why in failed[:_FAILURES_SHOWN_MAX])
    more = len(failed) - _FAILURES_SHOWN_MAX
    could_ask = all(isinstance(why, UsageError) for _, why in failed)
    raise (UsageError if could_ask else FleetError)(
        f"nothing was cut: {len(failed)} of {len(entries)} targets do not pass the "
        f"checks before a cut:{texts}" + (f"\nand {more} more" if more > 0 else ""),
        id=ErrorId.TARGETS_NOT_FIT,
        hint=first.hint,
    )


def require_same(entry: Entry, folder: CampaignFolder, *, yes: bool) -> None:
    """Raise UsageError unless *entry* still names the target of the campaign.

    The server itself is not asked: an earlier client may have left it without power.
    """
    plan, target = folder.plan(), read_inventory_target(entry)
    if target != plan.target:
        raise UsageError(
            f"{entry.title}: {folder.path} is a campaign on {plan.target}, and the"
            f" inventory now names {target}",
            id=ErrorId.CAMPAIGN_OF_OTHER_TARGET,
            hint="Start a new campaign, or correct the inventory.",
        )
    _require_same_promises(entry, plan)
    _require_same_nodes(entry, folder)
    require_terminal(entry)
    require_node_of_runs(entry, folder)
    _require_rebuilt(entry)
    for host in entry.cut_in_turn:
        if folder.runs.resolve() != RUNS.resolve():  # its own runs are settled first
            engine = assemble.make_engine(host.target, host.password)
            require_none_pending(RUNS, engine)
        if host.power.guarded:
            require_unshared_switch(host)
            consent.require_consent(host.switched_host, yes=yes)


def _require_same_promises(entry: Entry, plan: CampaignPlan) -> None:
    """Raise UsageError unless *entry* has the promises that the campaign tests.

    The plan of an older dbcheck has none, and tests the one of its inventory.
    """
    now = [promise.value for promise in entry.promises]
    then = ", ".join(plan.promises) or "one promise"
    if sorted(now) == sorted(plan.promises) or (len(now) < 2 and not plan.promises):
        return
    raise UsageError(
        f"{entry.title}: the campaign tests {then}, and dbcheck_survives is now"
        f" {', '.join(now)}",
        id=ErrorId.CAMPAIGN_OF_OTHER_TARGET,
        hint="Start a new campaign, or set dbcheck_survives as it was.",
    )


def _require_same_nodes(entry: Entry, folder: CampaignFolder) -> None:
    """Raise UsageError unless *entry* has the nodes of the cluster that was cut.

    Cuts of other nodes, or of the same ones one after the other, must not be counted
    with the cuts before.
    """
    hosts = (entry, *entry.standbys) if entry.standbys else ()
    now = {
        host.name: IN_POD
        if host.kubernetes
        else assemble.make_engine(host.target, host.password).target
        for host in hosts
    }
    for manifest in folder.list_manifests():
        if not hosts and not manifest.site.is_cluster:
            continue
        if why := _describe_other_cluster(entry, now, manifest):
            raise UsageError(
                f"{entry.title} is not as it was in run {manifest.run_id} of this"
                f" campaign: {why}",
                id=ErrorId.CAMPAIGN_OF_OTHER_TARGET,
                hint="Start a new campaign, or correct the inventory.",
            )


def _describe_other_cluster(
    entry: Entry, now: Mapping[str, str], manifest: Manifest
) -> str:
    """Return what of *entry* is not as in the cluster of a run, "" if all is.

    now: the URLs of its nodes, by their names; IN_POD of one whose address changes.
    """
    then = {
        name: IN_POD if node.pod else node.target
        for name, node in manifest.nodes.items()
    }
    for name in sorted(now.keys() | then.keys()):
        if now.get(name) != then.get(name):
            was, is_now = then.get(name, "not one of it"), now.get(name, "none of it")
            return f"its node {name} was {was}, and is {is_now}"
    if manifest.site.value != entry.topology:
        return f"its topology was {manifest.site.value}, and is {entry.topology}"
    if manifest.promise not in entry.promises:
        was = manifest.promise.value if manifest.promise else "none"
        return f"its promise was {was}, and is another"
    if manifest.promise is Promise.ALL and manifest.stagger_s != entry.stagger_s:
        times = f"{manifest.stagger_s:g} s, and are {entry.stagger_s:g} s"
        return f"the cuts of its nodes were apart by {times}"
    return ""


def require_node_of_runs(entry: Entry, folder: CampaignFolder) -> None:
    """Raise UsageError if a cut that is not judged hit another node than *entry*'s.

    The campaign would restore the power of the node that has the pod now.
    """
    if not entry.machine:
        return
    inventory = load_inventory(Path(entry.inventory))
    now = {host.name: host.machine for host in entry.standbys}
    for run in folder.list_runs_without_cycle():
        manifest = run.manifest()
        pod, is_on = manifest.writer.pod, now.get(manifest.writer_name, entry.machine)
        machine = inventory.find_machine(pod.node) if pod else None
        then = machine.name if machine else pod and pod.node
        if then and then != is_on and run.awaits_judgement():
            judge = reconcile_command(run.path, ("--name", entry.title))
            raise UsageError(
                f"{run.path} cut the power of {then}, and the pod of {entry.title} is"
                f" on {is_on} now",
                id=ErrorId.SITE_DIFFERS_FROM_RUN,
                hint=f"Give {then} its power (dbcheck power restore {then}), and judge"
                f" that run: {judge}",
            )


def find_newest_runs(folders: Sequence[CampaignFolder]) -> dict[str, RunFolder]:
    """Return, by the name of each target, the newest run of its campaign, if any."""
    found = dict[str, RunFolder]()
    for folder in folders:
        manifests = sorted(folder.list_manifests(), key=lambda each: each.created)
        for manifest in manifests[-1:]:
            path = folder.runs / manifest.run_id
            found[folder.plan().name] = RunFolder.open(path)
    return found


def list_stored_campaigns(root: Path) -> list[CampaignFolder]:
    """Return the campaigns in the folder *root*; raise UsageError if there is none.

    Raise RunWriteError if others may have put one there.
    """
    folders = list_folders(root)
    for path in {root, *(folder.path for folder in folders)}:
        require_own(path)
    return folders


def run_one(
    entry: Entry,
    folder: CampaignFolder,
    *,
    as_json: bool,
    resume: str = "",
    yes: bool = False,
    i_know: bool = False,
) -> list[CampaignResult]:
    """Run one campaign in this process; return its result, in a list.

    Raise RunWriteError, with nothing touched, if another client runs the campaign.
    resume: the command that continues it, if that is not dbcheck campaign's own.
    yes, i_know: see Placement.
    """
    with (
        folder.locked(),
        make_progress(make_progress_console(), live=not as_json) as view,
    ):
        try:
            run_stored(entry, folder, view, yes=yes, i_know=i_know)
        except (KeyboardInterrupt, DbcheckError):
            if entry.power.attended and _is_cut_pending(folder):
                view.line("power", RESTORE_FIRST)
            view.line("continue", resume or resume_command(folder.path))
            raise
    return [make_result(folder)]


def _is_cut_pending(folder: CampaignFolder) -> bool:
    """Return True if a cut was asked for whose rows were not read, or may have been.

    A damaged record, too, must not hide the error that ended the campaign.
    """
    try:
        return any(run.awaits_judgement() for run in folder.list_runs_without_cycle())
    except RunFormatError:
        return True


def run_stored(
    entry: Entry,
    folder: CampaignFolder,
    view: PlainProgress,
    wait_s: float = WAIT_S,
    adapted: Callable[[Rig], Rig] = lambda rig: rig,
    *,
    yes: bool = False,
    i_know: bool = False,
) -> None:
    """Run the campaign in *folder*, which is locked, to its end.

    An error that ends the campaign early is stored in *folder*.  wait_s: how long to
    wait for another client of its witness.  adapted: makes the rig to use from a rig.
    yes, i_know: see Placement.
    """
    (folder.path / ERROR_FILE).unlink(missing_ok=True)
    try:
        limits = WindowLimits()
        with (
            assemble.open_entry_witness(entry, limits) as witness,
            lock_witness(witness, view, wait_s) as lock,
        ):
            rig = assemble.make_rig(entry, witness, view, folder.runs, limits)
            twice = folder.plan().twice
            flags = ["--name", entry.title, "--inventory", entry.inventory]
            flags += ["--twice"] if twice else []  # the inventory has all the rest
            placed = Placement(entry, view, yes=yes, i_know=i_know)
            rig = replace(
                rig,
                read_twice=twice,
                reconcile_flags=flags,
                find_nodes=placed.find_nodes,
            )
            rig = adapted(rig)
            allowed = chain_calls(lock.require, placed.remember_consent)
            begin = chain_calls(allowed, rig.before_load)
            rig = replace(rig, before_load=begin)
            view.line("campaign", f"{folder.path}, seed {folder.plan().seed}")
            run_campaign(rig, folder, partial(await_enter, view))
    except (KeyboardInterrupt, DbcheckError) as error:
        error_id = error.id if isinstance(error, DbcheckError) else ""
        text = format_ending(str(error) or "interrupted", error_id)
        with contextlib.suppress(RunWriteError):  # the first error is reported
            write_file(folder.path / ERROR_FILE, [text.encode(errors="replace")])
        raise


def chain_calls(
    first: Callable[[], None], second: Callable[[], None]
) -> Callable[[], None]:
    """Return a function that calls *first*, then *second*."""

    def call() -> None:
        first()
        second()

    return call
