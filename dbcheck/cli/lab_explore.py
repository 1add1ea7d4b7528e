"""dbcheck lab explore: crash states of one recorded load, by the hundred."""

from __future__ import annotations

import contextlib
import secrets
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

import click

from dbcheck.base.cores import count_free_cores
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import DbcheckError, RunWriteError, UsageError
from dbcheck.cli import output
from dbcheck.cli.flags import shared
from dbcheck.cli.flags.groups import FOLDER, Verb, grouped, is_given, option
from dbcheck.cli.flags.lab import RecordOptions
from dbcheck.cli.flags.load import WorkloadOptions
from dbcheck.cli.flags.shared import draw_seed
from dbcheck.config import workload_file
from dbcheck.explore.folder import Exploration
from dbcheck.explore.labs import Labs, record_load
from dbcheck.explore.opened import Opened, choose_lab_folder, make_result
from dbcheck.explore.oracle import Oracle
from dbcheck.explore.states import draw_by_name
from dbcheck.judge.result import to_values
from dbcheck.lab.drive.recording import Recordings
from dbcheck.lab.lab import Lab
from dbcheck.model.cut import CrashState
from dbcheck.model.explored import StateResult
from dbcheck.ports.listener import Phase
from dbcheck.report.console import make_console, make_progress_console
from dbcheck.report.explore import draw_exploration, draw_state
from dbcheck.report.live import make_progress
from dbcheck.report.progress import PlainProgress
from dbcheck.runner.lab_cycles import describe_lab
from dbcheck.runner.lab_rig import make_recording_rig, open_exploration

STATES = 500
LABS_MAX = 64
_SHOWN = frozenset({Phase.LAB, Phase.LOAD, Phase.EXPLORE, Phase.REDUCE})


@click.command("explore", cls=Verb)
@grouped
@click.argument("given", metavar="[FOLDER]", required=False, type=FOLDER)
@option(
    "--states",
    "wanted",
    type=click.IntRange(1),
    default=STATES,
    show_default=True,
    metavar="N",
    help="How many different states to judge, those of FOLDER included.",
)
@option(
    "--state",
    "name",
    metavar="NAME",
    help="Judge this one state of FOLDER again: a finding, or a name in its "
    "states.jsonl.",
)
@option(
    "--labs",
    "side_by_side",
    type=click.IntRange(1, LABS_MAX),
    metavar="N",
    help="Labs side by side, each with a server that recovers one state at a time. "
    "Default: three for every two cores that dbcheck may use.",
)
@shared.seed("Decides the rows, and which states are judged.")
@option(
    "--trust",
    is_flag=True,
    help="Use a FOLDER that you did not record: its settings and its data can run "
    "programs on this machine, as the server's account.",
)
@shared.runs()
@shared.as_json()
def command(
    recording: RecordOptions,
    load: WorkloadOptions,
    given: Path | None,
    wanted: int,
    name: str | None,
    side_by_side: int | None,
    seed: int | None,
    trust: bool,
    runs: Path,
    as_json: bool,
) -> None:
    """Judge many states that a power cut could have left.

    The drives of a lab are recorded under one load. Each state holds all that was
    flushed by some moment and part of what was not, as a cut at that moment could have
    left it. The real server recovers it, and its rows are compared with the acks that
    the witness had by then. States that fail are reduced to few lost writes.

    With FOLDER, which an earlier command made, its recording is used again. Ctrl-C
    reports the states so far, and exits with 4. Else exits with 0 if every state kept
    what was acknowledged, 1 if one did not, 3 if one could not be judged.
    """
    context = click.get_current_context()
    if name and is_given(context, "wanted"):
        raise UsageError(
            "--states cannot be used with --state, which judges one state",
            id=ErrorId.OPTIONS_CONFLICT,
            hint="Leave one of them out.",
        )
    if name and given is None:
        raise UsageError(
            "--state names a state of an exploration, and none is given",
            id=ErrorId.OPTION_NEEDS_ANOTHER,
            hint="Give its folder: dbcheck lab explore FOLDER --state NAME.",
        )
    if trust and given is None:
        raise UsageError(
            "--trust is for a FOLDER that is there, and none is given",
            id=ErrorId.OPTION_NEEDS_ANOTHER,
            hint="Leave it out to record anew.",
        )
    with make_progress(make_progress_console(), live=not as_json, only=_SHOWN) as view:
        if given is None:
            folder = _record_load(recording, load, draw_seed(seed), runs, view)
        else:
            beside = [
                f"--{each}" for each in ("seed", "runs") if is_given(context, each)
            ]
            _refuse(recording.flags_given() + load.flags_given() + beside)
            folder = Exploration.open(given)
            _require_trusted(folder, trust=trust)
        with folder.locked():
            exploration = open_exploration(folder)
            labs = find_lab_count(side_by_side)
            if name:
                _judge_one(exploration, name, view, as_json=as_json)
            else:
                _explore(exploration, wanted, labs, view, as_json=as_json)


def _require_trusted(folder: Exploration, *, trust: bool) -> None:
    """Raise UsageError unless this user recorded it, or trusts who did."""
    folder.require_closed()
    if not trust and not folder.is_own():
        raise UsageError(
            f"nothing shows that you recorded {folder.path} as it is now, and a lab"
            " runs what it holds: the settings and the data of its server",
            id=ErrorId.EXPLORATION_NOT_OWN,
            hint="Use the account that recorded it, with sudo if that was used. dbcheck"
            " does not know a recording of an older version, or one that has changed"
            " since. If you trust who made it, add --trust.",
        )


def _refuse(flags: list[str]) -> None:
    """Raise UsageError if there are any: they describe another recording."""
    if flags:
        raise UsageError(
            f"{', '.join(flags)} cannot be used with FOLDER, whose recording is there",
            id=ErrorId.OPTIONS_CONFLICT,
            hint="Leave FOLDER out to record anew.",
        )


def _record_load(
    recording: RecordOptions,
    load: WorkloadOptions,
    seed: int,
    runs: Path,
    view: PlainProgress,
) -> Exploration:
    """Record a load in a lab of its own; return the folder with all of it."""
    spec = recording.spec(seed)
    workload = load.apply_to_workload(workload_file.load(load.workload))
    workload = replace(workload, cut_after_s=(recording.load_s, recording.load_s))
    if workload.readers:
        raise UsageError(
            "what readers see is not judged in crash states",
            id=ErrorId.READERS_NOT_EXPLORED,
            hint="Give --readers 0, or another workload.",
        )
    began = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    folder = Exploration.create(runs / f"explore-{began}-{secrets.token_hex(3)}")
    view.phase(Phase.LAB, f"{describe_lab(spec)}; its drives are recorded")
    recordings = Recordings(folder.recording, replayed=False)
    try:
        with Lab.start(spec, choose_lab_folder(), recordings=recordings) as lab:
            rig = replace(make_recording_rig(lab, view, folder.path), used_epochs=set())
            with contextlib.closing(rig.witness):
                record_load(lab, rig, workload, seed, folder)
    except BaseException:
        folder.discard_unless_recorded()
        raise
    try:
        folder.remember()
    except RunWriteError as error:
        view.line("explore", f"to use the folder again will need --trust: {error}")
    return folder


def _explore(
    found: Opened, wanted: int, count: int, view: PlainProgress, *, as_json: bool
) -> NoReturn:
    """Judge states, reduce those that fail, report; exit with the verdict.

    What ends that early, an interrupt or an error of a lab, is raised after the report.
    """
    folder, lines = found.folder, found.lines()
    before, began_s = len(lines), time.monotonic()
    findings, took_s = folder.findings(), 0.0
    ended: BaseException | None = None
    try:
        with Labs(found.oracle, count) as labs:
            view.phase(Phase.EXPLORE, f"{found.summary}; {_describe_labs(count)}")
            explorer = found.explorer(view)
            explorer.judge(labs, lines, wanted)
            took_s = time.monotonic() - began_s
            if groups := explorer.groups(lines.values()):
                view.phase(Phase.REDUCE, "states that fail, to few lost writes")
                findings = explorer.findings(labs, groups, findings)
    except (KeyboardInterrupt, DbcheckError) as error:
        ended, findings = error, folder.findings()
    new, took = len(lines) - before, took_s or time.monotonic() - began_s
    result = make_result(
        str(folder.path),
        found.plan.seed,
        found.spec.to_values(),
        found.timeline,
        found.acked,
        lines.values(),
        findings,
        wanted=wanted,
        finished=took_s > 0,
        per_s=new / took if new else None,
    )
    folder.write_result(to_values(result))
    code = output.EXIT_CODES[result.verdict]
    with output.exit_if_unprintable(code):
        if as_json:
            output.print_json(to_values(result))
        else:
            make_console().print(draw_exploration(result))
    if ended is not None:
        raise ended
    sys.exit(code)


def _judge_one(
    found: Opened, name: str, view: PlainProgress, *, as_json: bool
) -> NoReturn:
    """Judge one state again, report; exit with its verdict."""
    state = _find_state(found, name)
    explorer = found.explorer(view)

    def judged(oracle: Oracle) -> StateResult:
        return explorer.state_result(name, state, oracle.judge(state), oracle)

    with Labs(found.oracle, 1) as labs:
        (result,) = labs.results([judged])
    code = output.EXIT_CODES[result.judgement.verdict]
    with output.exit_if_unprintable(code):
        if as_json:
            output.print_json(to_values(result))
        else:
            make_console().print(draw_state(result))
    sys.exit(code)


def _find_state(found: Opened, name: str) -> CrashState:
    """Return the state of that name; raise UsageError if there is none."""
    for finding in found.folder.findings():
        if finding.name == name:
            return finding.smallest.state
    state = draw_by_name(found.timeline, name)
    if state is None:
        raise UsageError(
            f"{found.folder.path} has no state {name!r}",
            id=ErrorId.STATE_UNKNOWN,
            hint="Give a finding, as finding-1, or a name in its states.jsonl.",
        )
    return state


def find_lab_count(asked: int | None) -> int:
    """Return the number of labs that was *asked* for, else one for this machine."""
    return asked or choose_lab_count(count_free_cores())


def choose_lab_count(cores: int) -> int:
    """Return the number of labs for *cores*: more, as each lab waits for its drive."""
    return min(max(1, cores * 3 // 2), LABS_MAX)


def _describe_labs(labs: int) -> str:
    return "one lab" if labs == 1 else f"{labs} labs side by side"
