"""dbcheck run: one cycle on a target that is not in a lab."""

from __future__ import annotations

import contextlib
import secrets
import shlex
import sys
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dbcheck.cli import options
from dbcheck.cli.entries import is_given
from dbcheck.core.gone import Gone

if TYPE_CHECKING:
    from dbcheck.campaign.known import Known
    from dbcheck.campaign.outcome import Outcome
    from dbcheck.campaign.rig import Rig
    from dbcheck.core.control import ControlFacts
    from dbcheck.core.records import LoadRecord
    from dbcheck.core.workload import Workload
    from dbcheck.report.progress import PlainProgress

PAUSED = (
    "what the witness holds can still be judged, once the server answers and before "
    "anything else writes to it: {command}"
)
UNCUT = (
    "nothing was cut, so there is nothing to judge. Should its power go all the same, "
    "the run can be judged once the server answers and before anything else writes to "
    "it: {command}"
)
MAYBE_CUT = (
    "the switch failed after it was asked to cut, and the power may have gone all the "
    "same. Once the server answers, and before anything else writes to it: {command}"
)
# What dbcheck reconcile must be told again, to get in and to see as much.
AGAIN = (
    "inventory",
    "password_command",
    "identity",
    "known_hosts",
    "target_host",
    "server_log",
)
TWICE = (
    "you will be asked to cut the power twice. The first cut is the control: its "
    "sessions are acknowledged too early, so rows must be lost. The second one counts."
)


@click.command("run")
@click.argument("name", required=False)
@options.inventory()
@options.target(required=False)
@options.witness(required=False)
@options.host()
@options.power()
@options.consent()
@options.load()
@click.option(
    "--control",
    is_flag=True,
    help="First cut the power under sessions that are acknowledged too early: if that "
    "loses nothing, this rig cannot see losses, and there is no PASS.",
)
@options.waiting()
@options.runs()
@options.as_json()
def command(
    accept_new_host_key: bool,
    yes: bool,
    i_know: bool,
    processes: int | None,
    rate: float | None,
    ramp: float | None,
    seed: int | None,
    window: int,
    lockstep: bool,
    control: bool,
    runs: Path,
    as_json: bool,
    **_: Any,  # what entries.chosen() reads
) -> None:
    """Run one cycle: load, cut, restore, reconcile, verdict.

    \b
    dbcheck run NAME                             a host of an inventory
    dbcheck run --target URL --witness URL       the same by flags

    Commits rows to the target, has each acknowledgement logged on the witness, has
    the power cut in mid-load, waits for the server to come back, and says which
    acknowledged rows are missing. Ctrl-C is safe at any moment: what the witness
    holds can be judged later with dbcheck reconcile.
    """
    from dbcheck import workload as workloads
    from dbcheck.campaign.control import facts_of
    from dbcheck.campaign.known import NOTHING_KNOWN, Known
    from dbcheck.campaign.outcome import to_json
    from dbcheck.cli import output, rig
    from dbcheck.cli.entries import chosen
    from dbcheck.cli.guard import guard, require_passable
    from dbcheck.core.verdict import Verdict
    from dbcheck.errors import UsageError
    from dbcheck.report.progress import progress
    from dbcheck.witness.window import WindowLimits

    entry = chosen(click.get_current_context())
    if not entry.target:
        raise UsageError(
            "neither a NAME nor --target is given",
            hint="Name a host of an inventory (dbcheck init writes one), or a URL.",
        )
    require_passable(entry)
    workload = workloads.load(entry.workload).with_sessions(entry.sessions)
    workload = workload.with_options(rate=rate, ramp_s=ramp, processes=processes)
    lag = WindowLimits(acks=window, lockstep=lockstep)
    with progress(output.progress_console(), live=not as_json) as view:
        the_witness = rig.entry_witness(
            entry, lag, accept_new_host_key=accept_new_host_key
        )
        with contextlib.closing(the_witness):
            the_rig = rig.entry_rig(entry, the_witness, view, runs, lag)
            guard(entry, the_rig.engine, yes=yes, i_know=i_know)
            drawn = secrets.randbits(31) if seed is None else seed
            controls = _controls(the_rig, workload, drawn, view) if control else []
            if controls and controls[-1].verdict is Verdict.FAIL:
                outcome = controls.pop()  # which is a verdict on the server
            else:
                if controls:
                    view.line("cycle", "the control is over; now the cycle that counts")
                facts = [facts_of(one) for one in controls]
                known = reduce(Known.with_outcome, controls, NOTHING_KNOWN)
                outcome = resumable_cycle(the_rig, workload, drawn, facts, known, view)
    if as_json and control:
        results = [to_json(one) for one in controls]
        with output.printing():
            output.print_json({**to_json(outcome), "controls": results})
        sys.exit(output.EXIT_CODES[outcome.verdict])
    output.end_with(outcome, as_json=as_json)


def _controls(
    rig: Rig, workload: Workload, seed: int, view: PlainProgress
) -> list[Outcome]:
    """Run the control; tell a human who cuts that this is not all."""
    from dbcheck.campaign.control import run_controls

    if rig.power.attended:
        view.line("control", TWICE)
    return list(run_controls(rig, workload, seed))


def resumable_cycle(
    rig: Rig,
    workload: Workload,
    seed: int,
    controls: list[ControlFacts],
    known: Known,
    view: PlainProgress,
) -> Outcome:
    """Run the cycle; say how to go on if it is not brought to its end.

    controls, known: see preflight().
    """
    from dbcheck.campaign.cycle import finish_cycle
    from dbcheck.campaign.preflight import preflight
    from dbcheck.errors import DbcheckError

    started = preflight(rig, workload, seed, controls=controls, known=known)
    command = _to_go_on(click.get_current_context(), started.run.path)
    try:
        outcome = finish_cycle(rig, started)
    except (KeyboardInterrupt, DbcheckError):
        said = _why_no_verdict(started.run.load())
        view.line("no verdict", said.format(command=command))
        raise
    if outcome.after.unanswered:
        view.line("not final", PAUSED.format(command=command))
    return outcome


def _why_no_verdict(load: LoadRecord | None) -> str:
    """Return what to do with a run that ended before it was judged."""
    if load is None or load.cut:
        return PAUSED
    if load.cut_failed:
        return MAYBE_CUT
    return UNCUT if load.gone is Gone.NEVER else PAUSED


def _to_go_on(ctx: click.Context, run: Path) -> str:
    """Return the command that judges *run*, with what it needs of this one's flags."""
    words = ["dbcheck", "reconcile", str(run)]
    if ctx.params["name"]:
        words += ["--name", ctx.params["name"]]
    for name in AGAIN:
        if is_given(ctx, name):
            words += [f"--{name.replace('_', '-')}", str(ctx.params[name])]
    return shlex.join(words)
