"""dbcheck clean: remove what dbcheck left on a target or on a witness."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace

import click

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import HostError, UsageError, WitnessError
from dbcheck.cli.flags.entries import find_entry
from dbcheck.cli.flags.groups import Verb, grouped, option
from dbcheck.cli.flags.target import (
    HostUrl,
    NamedByArgument,
    TargetOptions,
    WitnessOptions,
)
from dbcheck.cli.say import say
from dbcheck.cycle.host import clear_canaries
from dbcheck.cycle.preflight.pending_runs import (
    require_none_on_witness,
    require_none_pending,
)
from dbcheck.hosts.host import Cleared
from dbcheck.inventory.entry import Entry
from dbcheck.power.kinds.manual import ManualConfig
from dbcheck.report.console import make_progress_console
from dbcheck.report.progress import PlainProgress
from dbcheck.runner import assemble
from dbcheck.runs import client_key
from dbcheck.runs.folder import RUNS, require_run_id
from dbcheck.witness.window import WindowLimits

_WITHOUT_WITNESS = (
    "The witness says whether a run that was cut still needs these tables. If it is"
    " gone for good, dbcheck clean --target URL asks no witness; a run that is not"
    " judged is lost then."
)


@click.command("clean", cls=Verb)
@grouped
@option(
    "--run",
    "run_ids",
    metavar="ID",
    multiple=True,
    help="A run to remove from the witness; may be repeated.",
)
def command(
    named: NamedByArgument,
    target: TargetOptions,
    host: HostUrl,
    witness: WitnessOptions,
    run_ids: tuple[str, ...],
) -> None:
    """Remove dbcheck's tables and canaries from the target, runs from the witness.

    They are those of the host NAME in an inventory, or of --target, --target-host and
    --witness with --run. A client that was killed leaves canaries on the target's host.
    Only what dbcheck made is touched; run folders on this machine stay. Refused while
    a run that was cut is not judged: without its rows it would be a FAIL.
    """
    entry = find_entry(named, target, host, witness)
    if entry.host and not entry.target:
        raise UsageError(
            "--target-host needs --target",
            id=ErrorId.OPTION_NEEDS_ANOTHER,
            hint="Give the server's URL: the server reports its directories.",
        )
    if not entry.target and not run_ids:
        raise UsageError(
            "nothing to clean",
            id=ErrorId.TARGET_MISSING,
            hint="Give NAME or --target, or --witness and --run.",
        )
    if run_ids and not entry.witness:
        raise UsageError(
            "--run needs --witness",
            id=ErrorId.OPTION_NEEDS_ANOTHER,
            hint="Give the witness's URL.",
        )
    wanted = [require_run_id(run_id) for run_id in run_ids]
    if wanted:
        _remove(entry, wanted, witness.accept_new_host_key)
    if entry.target:
        _require_judged(entry, witness.accept_new_host_key)
        _drop(entry)


def _require_judged(entry: Entry, accept_new_key: bool) -> None:
    """Raise UsageError if the rows of a run are to be read yet, as far as is known."""
    require_none_pending(RUNS, assemble.make_engine(entry.target, entry.password))
    if not entry.witness:
        return
    entry, limits = replace(entry, power=ManualConfig()), WindowLimits()
    view = PlainProgress(make_progress_console())
    with assemble.open_entry_witness(entry, limits, accept_new_key) as opened:
        rig = assemble.make_rig(entry, opened, view, RUNS, limits, cuts=False)
        flags = ["--name", entry.name, "--inventory", entry.inventory]
        rig = replace(rig, reconcile_flags=flags if entry.name else ())
        try:
            require_none_on_witness(rig)
        except (HostError, WitnessError) as error:
            error.hint = f"{error.hint} {_WITHOUT_WITNESS}"
            raise


def _drop(entry: Entry) -> None:
    """Drop the tables, also where the canaries cannot be removed."""
    engine, host = (
        assemble.make_engine(entry.target, entry.password),
        assemble.make_host(entry),
    )
    failure: HostError | None = None
    if host is not None:
        with contextlib.closing(host):
            try:  # before the tables, which show what directories there are
                _report(host.place, clear_canaries(host, engine))
            except HostError as error:
                failure = error
    dropped = engine.drop()
    for name in dropped:
        say(f"dropped {name}")
    if not dropped:
        say(f"{entry.target} has no tables of dbcheck's")
    if failure is not None:
        raise failure


def _report(place: str, cleared: Cleared) -> None:
    """Print what was removed; raise HostError if canaries stay."""
    for folder in cleared.removed:
        say(f"removed the canaries in {folder} from {place}")
    if not cleared.removed and not cleared.kept:
        say(f"no canaries found on {place}")
    if cleared.kept:
        raise HostError(
            f"{place}: canaries were not removed: {'; '.join(cleared.kept.values())}",
            id=ErrorId.CANARIES_NOT_REMOVED,
            hint="Wait until the run that uses them is over, or end its client. Check "
            "a folder that holds anything else by hand.",
        )


def _remove(entry: Entry, run_ids: Sequence[str], accept_new_key: bool) -> None:
    with assemble.open_entry_witness(entry, WindowLimits(), accept_new_key) as opened:
        for run_id in run_ids:
            opened.remove(run_id)
            client_key.forget(run_id)
            say(f"removed run {run_id} from {entry.witness}")
