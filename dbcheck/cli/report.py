"""dbcheck report: a stored result as a page, a ticket, or a file for CI."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from dbcheck.base.decoding import UNDECODABLE, convert
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.base.setting import list_flags
from dbcheck.base.text import join_words
from dbcheck.campaign.beside import list_runs_beside
from dbcheck.campaign.chosen import judge_chosen, make_chosen_result, open_chosen
from dbcheck.campaign.compare import compare_folders, group_targets
from dbcheck.campaign.folder import list_folders, read_matrix
from dbcheck.campaign.history import read_history
from dbcheck.campaign.totals import make_result as campaign_result
from dbcheck.cli import PASS, output
from dbcheck.cli.flags.groups import ANY_PATH, Verb, option
from dbcheck.cli.flags.shared import written_to
from dbcheck.cli.output import write_file
from dbcheck.cli.say import say
from dbcheck.config import workload_file
from dbcheck.cycle.detail import read_run_detail
from dbcheck.cycle.judging import judge_run
from dbcheck.cycle.outcome import Outcome
from dbcheck.explore.folder import RESULT_FILE, Exploration
from dbcheck.judge.results import CampaignsResult
from dbcheck.model.golive import StepId
from dbcheck.model.records import Manifest
from dbcheck.model.verdict import format_count
from dbcheck.report.console import make_console
from dbcheck.report.formats import FORMATS, draw_subject, format_report
from dbcheck.report.subject import NOT_JUDGED_AGAIN, RunSubject, Step, Subject, Verdicts
from dbcheck.rows.workload import Workload
from dbcheck.runner.golive_folder import PAGE, PLAN_FILE
from dbcheck.runs.folder import RunFolder
from dbcheck.runs.stored import lock_folder_to_judge
from dbcheck.witness.log import FrameLogReader

_CHECKS_NAMED_MAX = 5


def list_steps(outcome: Outcome) -> tuple[Step, ...]:
    """Return the steps that check a judged run, and that repeat it.

    The second only of this user's own: another's manifest would choose the server, or
    settings that run programs, and somebody might copy the command.
    """
    manifest, folder = outcome.manifest, str(outcome.run.path)
    again = ["dbcheck", "reconcile", folder, "--offline"]
    found = [Step("Judge the stored run again; no server is needed", shlex.join(again))]
    more = ["--twice"] if outcome.after.again is not None else []
    if outcome.run.is_own() and (repeat := _make_repeat_step(manifest, more)):
        found.append(repeat)
    return tuple(found)


def _make_repeat_step(manifest: Manifest, more: list[str]) -> Step | None:
    load = _list_load_flags(manifest)
    if manifest.copy is not None:
        kind, what = ["snapshot", "NAME"], "Copy again"
        if manifest.copy.is_after_loss:
            kind, what = ["run", "NAME", "--restore"], "Cut and restore again"
        command = ["dbcheck", *kind, "--seed", str(manifest.seed), *load]
        what += " with the same workload and seed; NAME is the host's in the inventory"
        return Step(what, shlex.join(command))
    if not manifest.lab:
        command = ["dbcheck", "run", "--target", manifest.writer.target]
        command += ["--witness", manifest.witness, "--seed", str(manifest.seed)]
        command += ["--power", manifest.writer.power.value, *load, *more]
        what = (
            "Make another run with the same workload and seed; add the flags of the"
            " power switch, or name the host in an inventory"
        )
        return Step(what, shlex.join(command))
    lab = _list_lab_flags(manifest.lab)
    if lab is None:
        return None
    flags, base = lab
    cycles = manifest.seed - base + 1  # cycle n of a lab has its seed + n
    command = ["dbcheck", "lab", "run", *flags, "--seed", str(base)]
    command += ["--cycles", str(cycles)] if cycles > 1 else []
    control = bool(manifest.controls) or manifest.control
    command += ["--control"] if control else []
    last = f"; the last of {cycles} cycles is this one" if cycles > 1 else ""
    what = f"Make another run in a lab like this one, with the same seed{last}"
    return Step(what, shlex.join([*command, *load, *more])) if cycles > 0 else None


def _list_load_flags(manifest: Manifest) -> list[str]:
    """Return the flags of the load: all that are not the named workload's own.

    The number of sessions always, which an inventory may give as well.
    """
    workload = manifest.workload
    try:
        named = replace(workload_file.load(workload.name), sessions=0)
        if manifest.lab and named.processes is None:
            named = replace(named, processes=1)  # which a lab does without a flag
    except UsageError:  # a file of the user's
        named = Workload("", "", workload.plan, sessions=0, processes=0)
    return ["--workload", workload.name, *list_flags(workload, named)]


def _list_lab_flags(lab: Mapping[str, Any]) -> tuple[list[str], int] | None:
    """Return the flags that make such a lab, and the seed of its drive.

    lab: a stored spec, which may lack fields and, if forged, hold anything.  None if
    it is no valid spec of a lab.
    """
    from dbcheck.cli.flags.lab import list_cluster_flags, list_lab_flags
    from dbcheck.lab.clusters.spec import ClusterSpec
    from dbcheck.lab.spec import LabSpec

    flags = []
    try:
        spec = convert(lab, LabSpec)
        if "cluster" in lab:
            flags = list_cluster_flags(convert(lab["cluster"], ClusterSpec))
    except (UsageError, *UNDECODABLE):
        return None
    return [*list_lab_flags(spec), *flags], spec.drive.seed


_BY_SUFFIX = {
    suffix: each.name for each in FORMATS.values() for suffix in each.suffixes
}


@click.command("report", cls=Verb)
@click.argument(
    "paths",
    metavar="[RUN...|CAMPAIGN|MATRIX|RUNS]",
    nargs=-1,
    type=ANY_PATH,
)
@option(
    "--compare",
    nargs=2,
    metavar="A B",
    type=ANY_PATH,
    help="Compare two runs or campaigns: configuration, rates, latency and losses.",
)
@option(
    "--format",
    "shape",
    type=click.Choice([*FORMATS]),
    help=f"{'; '.join(f'{each.name}: {each.help}' for each in FORMATS.values())}. "
    "Default: by the suffix of FILE, or text.",
)
@written_to("Write to FILE, whole or not at all, in place of standard output.")
def command(
    paths: tuple[Path, ...],
    compare: tuple[Path, Path] | None,
    shape: str | None,
    file: Path | None,
) -> None:
    """Show a stored result as a page, a ticket, or a file for CI.

    \b
    dbcheck report runs/ID -o check.html             for a browser, or for print
    dbcheck report campaigns/ID --format md          for a ticket
    dbcheck report runs/matrix-ID.json -o matrix.html
    dbcheck report runs/explore-ID -o crash-states.html
    dbcheck report runs/ID --format junit -o dbcheck.xml
    dbcheck report runs/ID1 runs/ID2 runs/ID3        counted together
    dbcheck report runs -o checks.html               all runs, server by server
    dbcheck report --compare runs/ID1 runs/ID2

    Several runs are counted as the cuts of one server, with the bound that they show.
    They must be of one server and configuration. Name all that you made: the report
    names those beside them that you left out.

    Of a folder of runs the report has the checks of each server, the newest first, and
    what changed since the one before: the rate, the audit's findings, the settings.

    A run is judged again from what its folder holds; no server is contacted. Exits
    with 0 whatever the verdict: the command that made the run had its exit code.
    """
    kind = shape or (_BY_SUFFIX.get(file.suffix.lower(), "") if file else "text")
    if not kind:
        raise UsageError(
            f"the format of {file} is not known",
            id=ErrorId.REPORT_FORMAT_UNKNOWN,
            hint=f"Give --format, or a file that ends in {', '.join(_BY_SUFFIX)}.",
        )
    if bool(paths) == (compare is not None):
        raise UsageError(
            "give either results or --compare with two",
            id=ErrorId.ONE_OF_OPTIONS_NEEDED,
            hint="dbcheck report runs/RUN_ID, or report --compare A B.",
        )
    if len(paths) > 1:
        _write_report(_count_runs(paths), kind, file)
    elif paths and _holds_runs(paths[0]):
        _require_format_without_verdict("a folder of runs", kind)
        _write_report(read_history(paths[0]), kind, file)
    elif paths:
        _write_report(read_result(paths[0]), kind, file)
    elif compare is not None:
        _require_format_without_verdict("a comparison", kind)
        _write_report(compare_folders(*compare, FrameLogReader()), kind, file)


def _holds_runs(path: Path) -> bool:
    """Return True for a folder in which runs lie, which itself is no result."""
    own = ("manifest.json", "campaign.json", RESULT_FILE)
    if any((path / name).is_file() for name in own):
        return False
    return any(True for _ in path.glob("*/manifest.json"))


def _require_format_without_verdict(what: str, kind: str) -> None:
    """Raise UsageError if a report of *kind* needs one verdict, which *what* lacks."""
    if FORMATS[kind].needs_verdict:
        others = (x.name for x in FORMATS.values() if not x.needs_verdict)
        raise UsageError(
            f"{what} has no verdict of its own, and so no {kind} report",
            id=ErrorId.COMPARISON_WITHOUT_VERDICT,
            hint=f"Take {join_words(others, 'or')}.",
        )


def _write_report(subject: Subject, kind: str, file: Path | None) -> None:
    """Write the report to *file*, or to standard output."""
    if file is not None:
        text = format_report(subject, kind)
        write_file(file, [text.encode()])
        say(f"{file}: {len(text.encode()):,} bytes of {kind}", err=True)
        return
    with output.exit_if_unprintable(PASS):
        if kind == "text":
            make_console().print(draw_subject(subject))
        else:
            output.print_text(format_report(subject, kind))


def _count_runs(paths: Sequence[Path]) -> CampaignsResult:
    """Return the result of several runs that are counted as cuts of one server."""
    runs = open_chosen(paths)
    reader = FrameLogReader()
    chosen = [judge_chosen(run, reader) for run in runs]
    folder = os.path.commonpath([run.path.resolve() for run in runs])
    result = make_chosen_result(chosen, list_runs_beside(runs), folder)
    return CampaignsResult(folder, (result,))


def read_result(path: Path) -> Verdicts:
    """Read the result stored at *path*; raise UsageError if there is none."""
    if (path / "manifest.json").is_file():
        return _read_run(RunFolder.open(path))
    if path.is_file():
        return read_matrix(path)
    if (path / RESULT_FILE).is_file():
        return Exploration.open(path).result()
    if (path / PLAN_FILE).is_file():
        raise UsageError(
            f"{path} is the folder of a go-live check",
            id=ErrorId.NOT_A_RESULT_FOLDER,
            hint=f"Its page is {path / PAGE}. For a report on its cuts"
            f" name their campaign: {path / StepId.CAMPAIGN.value}, or"
            f" {path / StepId.FIRST_CUT.value} before there is one.",
        )
    if checks := sorted(path.glob(f"*/{PLAN_FILE}")):
        raise _folder_of_checks_error(path, [file.parent for file in checks])
    if (path / "campaign.json").is_file() or any(path.glob("*/campaign.json")):
        results = tuple(map(campaign_result, list_folders(path)))
        return CampaignsResult(str(path), results, group_targets(results))
    raise UsageError(
        f"{path} holds no result: it is not a run folder, a campaign's folder or the"
        " file of a matrix",
        id=ErrorId.NOT_A_RESULT_FOLDER,
        hint="Give what the command named that made it, e.g. runs/RUN_ID,"
        " campaigns/CAMPAIGN or runs/matrix-ID.json.",
    )


def _folder_of_checks_error(path: Path, checks: Sequence[Path]) -> UsageError:
    """Return the error that *path* holds nothing but go-live *checks*."""
    pages = ", ".join(str(check / PAGE) for check in checks[:_CHECKS_NAMED_MAX])
    more = len(checks) - _CHECKS_NAMED_MAX
    return UsageError(
        f"{path} is a folder of {format_count(len(checks), 'go-live check')}",
        id=ErrorId.NOT_A_RESULT_FOLDER,
        hint=f"Each has a page of its own: {pages}"
        f"{f' and {more} more' if more > 0 else ''}.",
    )


def _read_run(run: RunFolder) -> RunSubject:
    with lock_folder_to_judge(run.path):
        if run.lacks_survivors(run.after()):
            return RunSubject(run.result(), None, NOT_JUDGED_AGAIN)
        reader = FrameLogReader()
        outcome = judge_run(run, reader)
        detail = read_run_detail(outcome, reader)
        return RunSubject(outcome.result, detail, detail.missing, list_steps(outcome))
