"""Checks that what lies in a campaign's folder is of this campaign, and is there once.

A folder may be copied, or merged with another one.  What another cluster kept, another
promise tested, or one cut showed twice, must not be counted.
"""

from __future__ import annotations

from collections.abc import Sequence

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import RunFormatError, UsageError
from dbcheck.campaign.folder import CampaignFolder, CampaignPlan, Cycle
from dbcheck.cycle.cycle import TRIES_MAX
from dbcheck.model.records import Manifest
from dbcheck.ports.site import Site
from dbcheck.runs.folder import RunFolder


def require_own_cycles(
    folder: CampaignFolder, plan: CampaignPlan, cycles: Sequence[Cycle]
) -> None:
    """Raise RunFormatError if a cut of *cycles* is there twice, or tests no promise.

    cycles: all that *folder* holds; a promise must be one of the *plan*.
    """
    seen: dict[object, Cycle] = {}
    for cycle in cycles:
        for name in (cycle.number, cycle.run):
            if name and name in seen:
                raise _not_own_error(folder, cycle, f"{name} is there twice")
            seen[name] = cycle
        if plan.promises and cycle.promise not in ("", *plan.promises):
            why = f"it tests {cycle.promise}, and the campaign does not"
            raise _not_own_error(folder, cycle, why)


def _not_own_error(folder: CampaignFolder, cycle: Cycle, why: str) -> RunFormatError:
    name = f"cycle {cycle.number}" if cycle.number else "a control"
    return RunFormatError(
        f"{folder.path / 'cycles'}: {name} (run {cycle.run or 'unknown'}) cannot be"
        f" counted: {why}",
        id=ErrorId.RUN_NOT_OF_CAMPAIGN,
        hint="Remove the file that was copied here; then nothing is counted twice.",
    )


def require_own_run(folder: CampaignFolder, site: Site, run: RunFolder) -> None:
    """Raise UsageError unless *run* was begun by the campaign in *folder*.

    site: of the campaign.  Raise TargetChanged for a run of other data.
    """
    manifest, why = run.manifest(), ""
    if manifest.run_id != run.path.name:
        why = f"it is a copy of run {manifest.run_id}"
    if why := why or _describe_other_origin(folder.plan(), site, manifest):
        raise UsageError(
            f"{run.path} is not a run of this campaign: {why}",
            id=ErrorId.RUN_NOT_OF_CAMPAIGN,
            hint="Move its folder to where it was made, then continue with --resume.",
        )
    folder.known().require_same_nodes(manifest)


def _describe_other_origin(plan: CampaignPlan, site: Site, manifest: Manifest) -> str:
    """Return the sign that another campaign began a run, "" if there is none."""
    drawn = manifest.moment
    seeds = [plan.seed + drawn.number] if drawn else []
    if manifest.control:
        seeds = [plan.seed + number for number in range(TRIES_MAX)]
    if manifest.seed not in seeds:
        return f"its seed is {manifest.seed}"
    # The address of a pod changes: it is known by its name, and by its server's data.
    nodes = {
        name: "" if site.kind.is_cluster and node.pods else node.engine.target
        for name, node in site.nodes.items()
    }
    theirs = {
        name: "" if manifest.site.is_cluster and node.pod else node.target
        for name, node in manifest.nodes.items()
    }
    if (site.kind, nodes) != (manifest.site, theirs):
        targets = ", ".join(node.target for node in manifest.nodes.values())
        return f"it was made on another site ({manifest.site.value}; {targets})"
    promise = manifest.promise.value if manifest.promise else ""
    if plan.promises and promise not in plan.promises:
        return f"it tests the promise {promise or 'of no cluster'}"
    return ""
