"""dbcheck lab: cycles on a virtual drive under real filesystems and real servers."""

from __future__ import annotations

import json
import secrets
import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dbcheck import children
from dbcheck.cli import options
from dbcheck.cli.lab_fetch import fetch
from dbcheck.cli.say import say
from dbcheck.lab.spec import (
    ENGINES,
    FILESYSTEMS,
    PERSONALITIES,
    RUNGS,
    SURVIVORS,
    TIME_MAX,
    WRITE_CACHES,
    DriveSpec,
    LabSpec,
)

if TYPE_CHECKING:
    from dbcheck.campaign.outcome import Outcome
    from dbcheck.lab.lab import Lab

_SPARE = 3  # cycles for inconclusive ones in a campaign that is to show something
_DISK = Path("/var/tmp")  # unlike /tmp never memory, which no witness may use


@click.group("lab")
def command() -> None:
    """Run cycles on a virtual drive with real servers.

    The lab is a drive with a volatile write cache, a real filesystem on it, a
    real server, and a real sshd as the witness, all on this machine. Its power
    can be cut as often as you like. It needs root, /dev/fuse and loop devices;
    without them only the server process can be killed (--rung process), and that
    proves much less.
    """


_COST = options.Number(0, TIME_MAX)


_SPEC_OPTIONS = (
    click.option("--engine", type=click.Choice(ENGINES), required=True),
    click.option(
        "--rung",
        type=click.Choice(("auto", *RUNGS)),
        default="auto",
        show_default=True,
        help="drive if this machine can, else process.",
    ),
    click.option(
        "--fs",
        "filesystem",
        type=click.Choice(FILESYSTEMS),
        default="xfs",
        show_default=True,
    ),
    click.option("--mount-options", default="", metavar="OPTIONS"),
    click.option(
        "--write-cache",
        type=click.Choice(WRITE_CACHES),
        default="auto",
        show_default=True,
        help="What the kernel is told of the drive's cache (queue/write_cache); with "
        "write through it sends no flushes.",
    ),
    click.option(
        "--drive",
        "personality",
        type=click.Choice(PERSONALITIES),
        default="honest",
        show_default=True,
        help="What the drive makes of a flush.",
    ),
    click.option(
        "--lie-fraction",
        type=options.Number(0, 1),
        default=0.25,
        show_default=True,
        help="Share of its power-ons at which a fickle drive lies.",
    ),
    click.option(
        "--flush-ms",
        type=_COST,
        default=1.0,
        show_default=True,
        help="What a flush costs an honest or fickle drive.",
    ),
    click.option(
        "--write-ms",
        type=_COST,
        default=0.0,
        show_default=True,
        help="What a write costs.",
    ),
    click.option(
        "--destage-s",
        type=_COST,
        default=1.0,
        show_default=True,
        help="A cached write becomes stable after so long; 0: never by itself.",
    ),
    click.option(
        "--cache-mib",
        type=click.IntRange(1, 1024),
        default=64,
        show_default=True,
        help="Size of the drive's volatile cache.",
    ),
    click.option(
        "--survivors",
        type=click.Choice(SURVIVORS),
        default="none",
        show_default=True,
        help="What a cut leaves of the writes that were not flushed: nothing, all, a "
        "prefix, a prefix with a torn write at its end, any whole writes, any blocks "
        "of 4096 bytes, any sectors of 512 bytes (random).",
    ),
    click.option(
        "--setting",
        "settings",
        multiple=True,
        metavar="NAME=VALUE",
        help="A server setting, e.g. innodb_flush_log_at_trx_commit=2.",
    ),
    click.option(
        "--seed",
        type=options.SEED,
        help="Decides rows, moments, and what a drive loses.",
    ),
)


def _spec_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that describe a lab."""
    for option in reversed(_SPEC_OPTIONS):
        function = option(function)
    return function


def spec_of(
    engine: str,
    rung: str,
    filesystem: str,
    mount_options: str,
    write_cache: str,
    settings: tuple[str, ...],
    destage_s: float,
    cache_mib: int,
    **drive: Any,
) -> LabSpec:
    """Return the lab that the options describe; raise UsageError if it cannot be."""
    from dbcheck.errors import UsageError
    from dbcheck.lab.lab import best_rung

    pairs = [setting.partition("=") for setting in settings]
    wrong = [name for name, equals, _ in pairs if not (name and equals)]
    if wrong:
        raise UsageError(f"--setting {wrong[0]} has no value", hint="Give NAME=VALUE.")
    rung = best_rung(engine) if rung == "auto" else rung
    if rung == "process":
        _refuse_storage_options()
    return LabSpec(
        engine=engine,
        rung=rung,
        filesystem=filesystem,
        mount_options=mount_options,
        write_cache=write_cache,
        drive=DriveSpec(destage_age_s=destage_s, cache_bytes=cache_mib << 20, **drive),
        settings={name: value for name, _, value in pairs},
    )


_STORAGE = frozenset(
    {
        *("filesystem", "mount_options", "write_cache", "personality", "lie_fraction"),
        *("flush_ms", "write_ms", "destage_s", "cache_mib", "survivors", "keep_image"),
    }
)


def _refuse_storage_options() -> None:
    """Raise UsageError if an option was given that only a virtual drive heeds."""
    from dbcheck.cli.entries import is_given
    from dbcheck.errors import UsageError

    context = click.get_current_context()
    names = {
        option.name: option.opts[0]
        for option in context.command.params
        if option.name in _STORAGE and is_given(context, option.name)
    }
    if names:
        raise UsageError(
            f"{', '.join(names.values())} needs a virtual drive, which --rung process "
            "does not have",
            hint="Leave it out, or use --rung drive.",
        )


def _require_one_goal(until: float | None) -> None:
    """Raise UsageError if both --cycles and --until say how many cuts there are."""
    from dbcheck.cli.entries import is_given
    from dbcheck.errors import UsageError

    if until is not None and is_given(click.get_current_context(), "cycles"):
        raise UsageError(
            "say how many cuts: either --cycles or --until",
            hint="--cycles 20, or --until 0.05 for a bound of 5% of cuts.",
        )


@command.command()
@_spec_options
@click.option("--cycles", type=click.IntRange(1), default=1, show_default=True)
@options.until()
@click.option(
    "--control",
    is_flag=True,
    help="First a cycle with relaxed sessions, which must lose.",
)
@click.option(
    "--keep-image",
    is_flag=True,
    help="Keep the drive as the cut left it, before any recovery, in the folder of "
    "each run that does not pass.",
)
@click.option("--workload", default="insert", show_default=True, metavar="NAME|FILE")
@options.tempo()
@options.runs()
@options.as_json()
def run(
    seed: int | None,
    cycles: int,
    until: float | None,
    control: bool,
    keep_image: bool,
    workload: str,
    sessions: int | None,
    processes: int | None,
    rate: float | None,
    ramp: float | None,
    runs: Path,
    as_json: bool,
    **chosen: Any,
) -> None:
    """Run cycles in a lab of its own, which ends with them.

    Exits with the worst verdict of the cycles.
    """
    from dbcheck import workload as workloads
    from dbcheck.campaign.outcome import result_of
    from dbcheck.cli import output
    from dbcheck.cli.lab_cycles import lab_cycles, lab_workload, until_shown
    from dbcheck.core.statistics import PPM, cuts_needed
    from dbcheck.core.verdict import worst
    from dbcheck.report.lab import cycles_report
    from dbcheck.report.progress import progress
    from dbcheck.report.verdict import tally, verdict_report

    _require_one_goal(until)
    needed = None if until is None else cuts_needed(round(until * PPM))
    if needed is not None:
        cycles = needed + _SPARE
    drawn = secrets.randbits(31) if seed is None else seed
    spec = spec_of(seed=drawn, **chosen)
    load = lab_workload(workloads.load(workload).with_sessions(sessions))
    load = load.with_options(rate=rate, ramp_s=ramp, processes=processes)
    outcomes: list[Outcome] = []
    with progress(output.progress_console(), live=not as_json) as view:
        each = lab_cycles(
            *(spec, load, drawn, cycles, view, runs),
            control=control,
            keep_image=keep_image,
        )
        for outcome in each if needed is None else until_shown(each, needed):
            outcomes.append(outcome)
            if outcome.manifest.control:
                continue  # which has been told already
            view.line(outcome.verdict.value, outcome.judgement.reasons[0])
    controls = [result_of(outcome) for outcome in outcomes if outcome.manifest.control]
    real = [outcome for outcome in outcomes if not outcome.manifest.control]
    results = [result_of(outcome) for outcome in real]
    verdict = worst(outcome.verdict for outcome in real or outcomes[-1:])
    with output.printing():
        if as_json:
            value: dict[str, Any] = {"verdict": verdict.value}
            value["lab"] = spec.to_values()
            value["statistics"] = tally(*results).to_values()
            value["controls"] = [result.to_values() for result in controls]
            value["cycles"] = [result.to_values() for result in results]
            output.print_json(value)
        elif len(results) > 1:
            output.console().print(cycles_report(results, controls))
        else:
            output.console().print(verdict_report((results or controls)[-1]))
    sys.exit(output.EXIT_CODES[verdict])


@command.command()
@_spec_options
@click.option("--name", default="", help="A name for the lab; else one is drawn.")
@options.as_json()
def up(seed: int | None, name: str, as_json: bool, **chosen: Any) -> None:
    """Start a lab that stays, and say how to use it."""
    from dbcheck.cli import output
    from dbcheck.cli.lab_cycles import described
    from dbcheck.lab.lab import Lab

    spec = spec_of(seed=secrets.randbits(31) if seed is None else seed, **chosen)
    folder = _DISK / f"dbcheck-lab-{secrets.token_hex(4)}"
    lab = Lab.start(spec, folder, keep=True, name=name)
    dbcheck = _own_command()
    use = {
        "name": lab.name,
        "target": lab.target_url,
        "witness": lab.witness_url,
        "identity": str(lab.identity_file),
        "known_hosts": str(lab.known_hosts),
        "power": f"lab:{lab.name}",
        "password_command": f"{dbcheck} lab password {lab.name}",
    }
    if as_json:
        output.print_json(use)
        return
    say(f"lab {lab.name} is up: {described(spec)}", "")
    say("Run a cycle on it, as often as you like:", "")
    given = ("target", "password_command", "witness", "identity", "known_hosts")
    words = [f"  {dbcheck} run"]
    words += [
        f"--{option.replace('_', '-')} {shlex.quote(use[option])}"
        for option in (*given, "power")
    ]
    say(*" \\\n    ".join(words).split("\n"))
    say("", "End it:", "", f"  {dbcheck} lab down {lab.name}")


@command.command()
def inventory() -> None:
    """Print the labs that are up as an inventory."""
    from dbcheck.lab import lab

    hosts = {name: as_host(lab.Lab.find(name)) for name in lab.standing()}
    # JSON is YAML, too.
    say(*json.dumps({"all": {"hosts": hosts}}, indent=2).split("\n"))


def as_host(lab: Lab) -> dict[str, Any]:
    """Return a lab as the variables of a host in an inventory."""
    return {
        "dbcheck_target": lab.target_url,
        "dbcheck_password_command": children.module(
            "dbcheck", "lab", "password", lab.name
        ),
        "dbcheck_witness": lab.witness_url,
        "dbcheck_witness_identity": str(lab.identity_file),
        "dbcheck_witness_known_hosts": str(lab.known_hosts),
        "dbcheck_ask_host": False,  # the lab's own way to it is taken
        "dbcheck_power": "lab",
        "dbcheck_power_lab": lab.name,
        "dbcheck_wait_s": 120,
    }


def _own_command() -> str:
    """Return what a shell must be told to run this very dbcheck."""
    script = Path(children.PYTHON).with_name("dbcheck")
    found = shutil.which("dbcheck")
    if found and script.exists() and Path(found).samefile(script):
        return "dbcheck"
    if script.exists():
        return shlex.quote(str(script))
    return shlex.join(children.module("dbcheck"))


@command.command()
@click.argument("name")
def password(name: str) -> None:
    """Print the password of a lab's server, for --password-command."""
    from dbcheck.lab.lab import Lab

    say(Lab.find(name).password)


@command.command()
@click.argument("name", required=False)
def down(name: str | None) -> None:
    """End the lab NAME, or all that are up.

    What dead labs have left behind is removed, too.
    """
    from dbcheck.lab import lab

    held = [] if name else lab.held()
    names = [name] if name else lab.standing()
    for one in held:
        say(f"lab {one} ends with the command that runs it")
    for one in names:
        if lab.down(one):
            say(f"lab {one} is down")
        else:
            say(f"lab {one} was dead; what it had left is removed")
    if not held and not names:
        say("no lab is running")


command.add_command(fetch)
