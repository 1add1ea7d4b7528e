"""dbcheck run: one cycle on a server that is already running."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial, reduce
from pathlib import Path
from typing import NoReturn

import click

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.cli import output
from dbcheck.cli.flags import shared
from dbcheck.cli.flags.entries import find_entry
from dbcheck.cli.flags.groups import Verb, grouped, option
from dbcheck.cli.flags.load import LoadOptions
from dbcheck.cli.flags.power import PowerOptions
from dbcheck.cli.flags.shared import ConsentOptions, draw_seed
from dbcheck.cli.flags.target import (
    ClientOptions,
    HostOptions,
    NamedByArgument,
    RestartOptions,
    StaggerOptions,
    TargetOptions,
    WaitOptions,
    WitnessOptions,
    list_reconcile_flags,
    make_clean_command,
)
from dbcheck.config import workload_file
from dbcheck.cycle.copying import require_copyable
from dbcheck.cycle.cycle import extract_control_facts, run_controls
from dbcheck.cycle.outcome import Outcome
from dbcheck.cycle.preflight.earlier_cycles import NOTHING_KNOWN, Known
from dbcheck.cycle.preflight.pending_runs import require_none_pending
from dbcheck.cycle.rebuild import rebuild_after_pass, rebuild_cluster
from dbcheck.cycle.rig import Rig
from dbcheck.inventory.entry import Entry
from dbcheck.judge.result import to_values
from dbcheck.model.verdict import Verdict
from dbcheck.report.console import make_progress_console
from dbcheck.report.live import make_progress
from dbcheck.report.progress import PlainProgress
from dbcheck.rows.workload import Workload
from dbcheck.runner import assemble
from dbcheck.runner.guard import (
    check_interlocks,
    choose_promise,
    require_control_possible,
    require_passable,
    require_restorable,
    require_stays_off,
)
from dbcheck.runner.placement import Placement
from dbcheck.runner.resume import run_resumable_cycle

TWO_CUTS_NOTE = (
    "you will be asked to cut the power twice. The first cut is the control: its "
    "sessions are acknowledged too early, so rows must be lost. The second one counts."
)

_MAKE_RIG_THAT_RESTORES = partial(assemble.make_copying_rig, after_loss=True)

NO_SECOND_CUT = (
    "without a control that loses commits no run can pass, so there is no second cut."
    " Fix the cause that is named, then run it again, or run without --control"
)


@click.command("run", cls=Verb)
@grouped
@option(
    "--control",
    is_flag=True,
    help="First cut the power under sessions that are acknowledged too early: if that "
    "loses nothing, this rig cannot see losses, and there is no PASS.",
)
@option(
    "--restore",
    "elsewhere",
    is_flag=True,
    help="Read the rows where dbcheck_restore restores the archive of the lost server:"
    " commits that are older than its rpo_s must be there. The server stays off until"
    " then.",
)
@shared.promise()
@shared.runs()
@shared.as_json()
def command(
    named: NamedByArgument,
    target: TargetOptions,
    host: HostOptions,
    witness: WitnessOptions,
    power: PowerOptions,
    consent: ConsentOptions,
    load: LoadOptions,
    clients: ClientOptions,
    wait: WaitOptions,
    restart: RestartOptions,
    stagger: StaggerOptions,
    control: bool,
    elsewhere: bool,
    promise: str | None,
    runs: Path,
    as_json: bool,
) -> None:
    """Run one cycle: load, cut, restore, reconcile, verdict.

    \b
    dbcheck run NAME                             a host of an inventory, or a
                                                 group that is a cluster
    dbcheck run --target URL --witness URL       the same by flags

    Commits rows to the target, has each acknowledgement logged on the witness, has
    the power cut under load, waits for the server to come back, and reports which
    acknowledged rows are missing. Ctrl-C is safe at any moment: what the witness
    holds can be judged later with dbcheck reconcile.
    """
    described = (target, host, witness, power, load, clients, wait, restart, stagger)
    entry = find_entry(named, *described, clusters=True)
    if not entry.target:
        raise UsageError(
            "neither a NAME nor --target is given",
            id=ErrorId.TARGET_MISSING,
            hint="Name a host of an inventory (dbcheck init writes one), or a URL.",
        )
    entry = choose_promise(entry, promise)
    workload, scheduler = _choose_workload(entry, load), load.scheduler
    _require_possible(entry, control=control)
    if elsewhere:
        _require_restorable(entry, workload, scheduler, control=control)
    seed = draw_seed(load.seed)
    accept_new_key = witness.accept_new_host_key
    flags = list_reconcile_flags(named, target, host, witness, restart)
    undo = "" if entry.standbys else make_clean_command(named, target, host, witness)
    with (
        make_progress(make_progress_console(), live=not as_json) as view,
        assemble.open_entry_witness(entry, load.limits, accept_new_key) as log,
        assemble.open_far_workers(entry, scheduler, workload.sessions) as remote,
    ):
        make_rig = _MAKE_RIG_THAT_RESTORES if elsewhere else assemble.make_rig
        rig = make_rig(entry, log, view, runs, load.limits)
        placed = Placement(entry, view, yes=consent.yes, i_know=consent.i_know)
        rig = replace(rig, reconcile_flags=flags, find_nodes=placed.find_nodes)
        require_none_pending(runs, rig.site.writer.engine)
        if remote is not None:
            rig, workload = replace(rig, far=remote), remote.shared(workload)
        _check_cut_nodes(entry, rig, consent, control=control)
        controls = _run_controls_with_note(rig, workload, seed, view) if control else []
        if controls and _ends_with_control(rig, controls[-1].verdict, view):
            outcome = controls.pop()
        else:
            if controls:
                rig = _make_whole(rig, controls)
                view.line("cycle", "the control is over; now the cycle that counts")
            facts = list(map(extract_control_facts, controls))
            known = reduce(Known.with_outcome, controls, NOTHING_KNOWN)
            outcome = run_resumable_cycle(rig, workload, seed, facts, known, view, undo)
            rebuild_after_pass(rig, outcome)
    if as_json and control:
        _end_with_controls(outcome, controls)
    reconcile = rig.reconcile_command(outcome.run.path)
    output.end_with(outcome, as_json=as_json, reconcile=reconcile)


def _end_with_controls(outcome: Outcome, controls: Sequence[Outcome]) -> NoReturn:
    """Print the result as JSON, with that of each control; exit with its code."""
    results = tuple(tried.result for tried in controls)
    result, code = outcome.result, output.EXIT_CODES[outcome.verdict]
    with output.exit_if_unprintable(code):
        output.print_json(to_values(replace(result, controls=results)))
    sys.exit(code)


def _require_restorable(
    entry: Entry, workload: Workload, scheduler: str, *, control: bool
) -> None:
    """Raise UsageError if what is restored after the loss cannot be judged."""
    require_restorable(entry)
    require_copyable(workload)
    if scheduler or control:
        flag = "--load-workers" if scheduler else "--control"
        raise UsageError(
            f"{flag} cannot be used with --restore",
            id=ErrorId.OPTIONS_CONFLICT,
            hint="One clock, that of this machine, decides which commits are due: use"
            " --processes."
            if scheduler
            else "To see that a loss is found, restore an older copy: it must fail.",
        )


def _require_possible(entry: Entry, *, control: bool) -> None:
    """Raise UsageError if no run can pass, or no *control* can come before it."""
    if control:
        require_control_possible(entry)
    for node_entry in entry.cut_in_turn if control else entry.cut_with:
        require_passable(node_entry)
    for node_entry in entry.cut_in_turn if control else (entry,):
        require_stays_off(entry, node_entry)


def _check_cut_nodes(
    entry: Entry, rig: Rig, consent: ConsentOptions, *, control: bool
) -> None:
    """Raise UsageError unless every node that a cut takes may lose its power.

    control: of a cluster, the cut that follows takes another writer.
    """
    cut_nodes = assemble.list_cut_nodes(entry, rig.site, in_turn=control)
    for node_entry, node in cut_nodes:
        require_none_pending(rig.runs, node.engine)
        check_interlocks(
            node_entry, node.engine, yes=consent.yes, i_know=consent.i_know
        )


def _choose_workload(entry: Entry, load: LoadOptions) -> Workload:
    """Return the workload of the flags and *entry*; raise UsageError if it is invalid.

    Processes are chosen for this machine, unless Dask workers share the sessions.
    """
    workload = workload_file.load(entry.workload or load.workload)
    workload = workload.with_sessions(entry.sessions).with_processes(entry.processes)
    workload = load.apply_to_workload(workload)
    if load.scheduler:
        return workload
    lockstep = load.limits.lockstep
    return assemble.choose_processes(entry, workload, lockstep=lockstep)


def _ends_with_control(rig: Rig, verdict: Verdict, view: PlainProgress) -> bool:
    """Return True if no cut is to follow the control, whose verdict is given.

    A control that failed shows that the server fails.  After one that lost nothing no
    run can pass, so nobody is asked to pull a plug again, and no cluster is rebuilt; a
    switch still cuts a single server, which may show a loss.
    """
    is_cluster = rig.site.promise is not None
    if verdict is Verdict.INCONCLUSIVE and (rig.site.attended or is_cluster):
        view.line("control", NO_SECOND_CUT)
        return True
    return verdict is Verdict.FAIL


def _run_controls_with_note(
    rig: Rig, workload: Workload, seed: int, view: PlainProgress
) -> list[Outcome]:
    """Run the controls; a human who cuts is first told of both cuts."""
    if rig.site.attended:
        view.line("control", TWO_CUTS_NOTE)
    outcomes: list[Outcome] = []
    for outcome in run_controls(
        *(rig, workload, seed),
        make_whole=lambda rig, known: (_make_whole(rig, outcomes), known),
    ):
        outcomes.append(outcome)
    return outcomes


def _make_whole(rig: Rig, controls: Sequence[Outcome]) -> Rig:
    """Return *rig*; of a cluster, led by the node that takes writes after *controls*.

    Raise DbcheckError if the others cannot be had to follow that node.
    """
    if rig.site.promise is None:
        return rig
    return rebuild_cluster(rig, controls[-1].run)
