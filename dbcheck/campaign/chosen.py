"""Counts the cuts of several runs that somebody named, as those of one server.

Whoever names runs can leave one out.  So the result says that it counts the named
runs, and lists the runs of the server that lie beside them.  It is no PASS while one of
those failed or has no verdict yet, unless the server was configured otherwise for it:
what loses commits under one load or kind of cut must not pass under another.  Nor is it
one after a control that did not lose rows in a fair test.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.campaign.compare import Configuration, Key, list_configuration
from dbcheck.campaign.folder import Cycle
from dbcheck.campaign.recording import make_cycle
from dbcheck.campaign.stopping import has_lost
from dbcheck.campaign.totals import (
    find_verdict,
    sum_up_cycles,
    tally_cycles,
    withhold_bounds,
)
from dbcheck.cycle.judging import judge_run
from dbcheck.judge.checks import ChosenRuns, RunBeside
from dbcheck.judge.result import RunResult, describe_checked
from dbcheck.judge.results import CampaignResult
from dbcheck.model.cluster import SiteKind
from dbcheck.model.records import Manifest
from dbcheck.model.server import find_difference_of_servers, is_same_data
from dbcheck.model.verdict import ControlFacts, Verdict
from dbcheck.ports.witness import LogReader
from dbcheck.runs.folder import RunFolder, reconcile_command
from dbcheck.runs.stored import lock_folder_to_judge

_SHOWN_MAX = 5  # differences in a message
_UNKNOWN = "not known"
_NOT_ONE = (
    "Cuts are counted together only if server, settings, storage, load and kind of cut"
    " are the same. Report the runs of each configuration alone."
)


@dataclass(frozen=True, slots=True)
class ChosenRun:
    """One run that was named, judged anew; folder: where it lies, for a person."""

    folder: str
    manifest: Manifest
    cycle: Cycle


def open_chosen(paths: Sequence[Path]) -> list[RunFolder]:
    """Return the runs in the folders *paths*, the oldest first.

    Raise UsageError if they cannot be counted together: a folder holds no single run,
    a run is named twice, or they are not of one server and configuration.
    """
    runs = [_open_single_run(path) for path in paths]
    runs.sort(key=lambda run: _get_age(run.manifest()))
    require_each_once([run.manifest() for run in runs])
    require_one_server([run.manifest() for run in runs])
    return runs


def judge_chosen(run: RunFolder, reader: LogReader) -> ChosenRun:
    """Judge a run that was named; raise UsageError if it has no final verdict."""
    with lock_folder_to_judge(run.path):
        require_rows(run)
        outcome = judge_run(run, reader)
    require_final(run, outcome.result)
    return make_chosen(str(run.path), outcome.manifest, make_cycle(outcome, ended=""))


def make_chosen(folder: str, manifest: Manifest, cycle: Cycle) -> ChosenRun:
    """Return a run that was judged; its record says when the run was begun."""
    return ChosenRun(folder, manifest, replace(cycle, ended=manifest.created))


def require_final(run: RunFolder, result: RunResult) -> None:
    """Raise UsageError unless the *result* of a run is its final verdict."""
    if not result.final:
        raise _not_final_error(run, result.reasons[0])


def require_rows(run: RunFolder) -> None:
    """Raise UsageError unless the rows of a run were read and are still stored."""
    if not (run.path / "after.json").is_file():
        raise _not_final_error(run, "its rows were not read after the cut")
    if run.lacks_survivors(run.after()):
        raise UsageError(
            f"{run.path} cannot be judged anew: its rows are not stored any more",
            id=ErrorId.STORED_ROWS_MISSING,
            hint="A campaign keeps no rows of a cycle that passed; dbcheck report"
            " CAMPAIGN counts its cycles.",
        )


def _not_final_error(run: RunFolder, why: str) -> UsageError:
    return UsageError(
        f"{run.path} has no final verdict: {why}",
        id=ErrorId.NO_FINAL_VERDICT,
        hint=f"Once the server is back: {reconcile_command(run.path)}",
    )


def _open_single_run(path: Path) -> RunFolder:
    if not (path / "manifest.json").is_file():
        raise UsageError(
            f"{path} is not the folder of a run, and only runs are counted together",
            id=ErrorId.NOT_A_RESULT_FOLDER,
            hint="Give runs/RUN_ID for each; a campaign is a result of its own.",
        )
    run = RunFolder.open(path)
    if (campaign := find_campaign_of(path)) is not None:
        raise UsageError(
            f"{path} is a cycle of a campaign, which counts it",
            id=ErrorId.NOT_A_RESULT_FOLDER,
            hint=f"Report the campaign: dbcheck report {campaign}",
        )
    _require_single(run.manifest(), str(path))
    return run


def find_campaign_of(run: Path) -> Path | None:
    """Return the folder of the campaign that *run* is a cycle of; None if of none."""
    campaign = run.resolve().parent.parent
    return campaign if (campaign / "campaign.json").is_file() else None


def _require_single(manifest: Manifest, name: str) -> None:
    """Raise UsageError for a run of a cluster, and for one that made no cut."""
    if manifest.copy is not None:
        raise UsageError(
            f"{name} read a restored copy, and only cuts are counted together whose"
            " server itself was read",
            id=ErrorId.RUNS_NOT_OF_ONE_SERVER,
            hint="Report each copy alone.",
        )
    if manifest.site is not SiteKind.SINGLE:
        raise UsageError(
            f"{name} is a run of a cluster, and only runs of one server are counted"
            " together",
            id=ErrorId.RUNS_NOT_OF_ONE_SERVER,
            hint="Report each run of a cluster alone.",
        )


def _get_age(manifest: Manifest) -> tuple[str, str]:
    return manifest.created, manifest.run_id


def find_oldest(runs: Iterable[RunFolder]) -> Manifest:
    """Return the manifest of the oldest of *runs*."""
    return min((run.manifest() for run in runs), key=_get_age)


def require_each_once(manifests: Sequence[Manifest]) -> None:
    """Raise UsageError if two of *manifests* are of one run, or of copies of it.

    An epoch is drawn anew for each run, and names the run's rows.
    """
    seen: dict[object, str] = {}
    for manifest in manifests:
        for name in (manifest.run_id, (manifest.seed, manifest.epoch)):
            if name in seen:
                raise UsageError(
                    f"run {manifest.run_id} is named twice, or is a copy of run"
                    f" {seen[name]}",
                    id=ErrorId.NAME_GIVEN_TWICE,
                    hint="Name each run once: a cut counts once.",
                )
            seen[name] = manifest.run_id


def require_one_server(manifests: Sequence[Manifest]) -> None:
    """Raise UsageError, naming what differs, if cuts must not be counted together."""
    first, *others = manifests
    for other in others:
        if differences := list_differences(first, other):
            shown = "; ".join(differences[:_SHOWN_MAX])
            more = len(differences) - _SHOWN_MAX
            raise UsageError(
                f"the runs {first.run_id} and {other.run_id} cannot be counted"
                f" together: {shown}" + (f"; and {more} more" if more > 0 else ""),
                id=ErrorId.RUNS_NOT_OF_ONE_SERVER,
                hint=_NOT_ONE,
            )


def list_differences(one: Manifest, other: Manifest) -> list[str]:
    """List the differences between two runs, in server and configuration, as texts.

    A value that is known of one run only is a difference: it may not be the same.
    """
    if why := explain_other_server(one, other):
        return [why]
    before, after = list_compared_values(one), list_compared_values(other)
    return [
        f"{key.name} is {before.get(key, _UNKNOWN) or '-'} in the first and"
        f" {after.get(key, _UNKNOWN) or '-'} in the other"
        for key in sorted({*before, *after})
        if before.get(key) != after.get(key)
    ]


def explain_other_server(one: Manifest, other: Manifest) -> str:
    """Explain why two runs are not known to be of one server, "" if they are.

    Where nothing names the data, the same URL has to stand for the same server.
    """
    before, after = one.writer.facts.identity, other.writer.facts.identity
    if difference := find_difference_of_servers(before, after):
        return difference
    if is_same_data(before, after) or one.writer.target == other.writer.target:
        return ""
    return (
        f"nothing shows that {one.writer.target} and {other.writer.target} are the same"
        " server"
    )


def list_compared_values(manifest: Manifest) -> Configuration:
    """Return the configuration of a run, with the ids of its host and its drives.

    A copy of the data on other drives has the same identity as the server; the ids
    of the drives tell them apart.
    """
    found = list_configuration(manifest)
    host, pod = manifest.writer.host, manifest.writer.pod
    if pod is not None:
        found |= {Key(name): value for name, value in pod.list_volumes().items()}
        found[Key("node of Kubernetes")] = pod.node
    if host is not None:
        found[Key("host")] = host.facts.machine_id or host.facts.hostname
        for volume in host.facts.volumes:
            places = ", ".join(sorted(volume.places))
            serials = sorted(drive.serial or drive.wwid for drive in volume.drives)
            drives = Key(f"serial numbers of the drives of {places}")
            found[drives] = ", ".join(serials)
            found[Key(f"UUID of the filesystem of {places}")] = volume.filesystem_uuid
    return found


def make_chosen_result(
    runs: Sequence[ChosenRun], beside: Sequence[RunBeside], folder: str
) -> CampaignResult:
    """Count the cuts of *runs* as those of one server; return the result.

    Each run becomes a cycle, numbered by age; a control has the number 0.

    beside: the runs that were not named.  folder: holds all *runs*.
    """
    for run in runs:
        _require_single(run.manifest, f"run {run.manifest.run_id}")
    require_each_once([run.manifest for run in runs])
    require_one_server([run.manifest for run in runs])
    ordered = sorted(runs, key=lambda run: _get_age(run.manifest))
    cycles = list(_number_cycles(ordered))
    counted = tally_cycles(cycles).cuts
    chosen = ChosenRuns(
        tuple(run.folder for run in ordered),
        tuple(beside),
        _explain_blind_control(ordered),
    )
    verdict = chosen.limit_verdict(find_verdict(max(1, counted), cycles))
    target = ordered[0].manifest.writer.target
    figures = sum_up_cycles(cycles)
    if chosen.contradicting:
        withhold_bounds(figures, "a run that was not named failed, or has no verdict")
    elif chosen.blind:
        withhold_bounds(figures, "no control shows that losses are seen")
    return CampaignResult(
        name=target,
        target=target,
        folder=folder,
        seed=ordered[0].manifest.seed,
        verdict=verdict,
        finished=True,
        price=None,
        price_per_durable_commit_per_s=None,
        planned_cuts=counted,
        bound_ppm=None,
        cuts_still_needed=None if verdict is Verdict.FAIL else 0,
        error="",
        error_id="",
        chosen=chosen,
        checked=describe_checked(ordered[-1].manifest),
        **figures,
    )


def _explain_blind_control(runs: Sequence[ChosenRun]) -> str:
    """Explain why the newest control does not show that losses are seen.

    "" if it does, or if there is none.  As in a single run and in a campaign, nothing
    passes after a control before one has lost rows in a fair test.  A control counts as
    well if only a run after it was named.

    runs: the oldest first.
    """
    controls: list[ControlFacts] = []
    for run in runs:
        controls += run.manifest.controls
        controls += filter(None, [run.cycle.control])
    if not controls or has_lost(controls[-1]):
        return ""
    return f"run {controls[-1].run_id}: {controls[-1].reason}"


def _number_cycles(runs: Sequence[ChosenRun]) -> Iterator[Cycle]:
    number = 0
    for run in runs:
        number += not run.manifest.control
        yield replace(run.cycle, number=0 if run.manifest.control else number)
