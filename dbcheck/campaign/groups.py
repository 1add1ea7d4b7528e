"""Targets that are configured alike, and what the cuts of each such group show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from dbcheck.campaign.compare import configuration
from dbcheck.campaign.folder import CampaignFolder
from dbcheck.judge.results import CampaignResult, GroupResult
from dbcheck.model.verdict import Tally
from dbcheck.runs import RunFolder


def groups(results: Sequence[CampaignResult]) -> tuple[GroupResult, ...]:
    """Return the groups of *results*, those with losses first; () of fewer than two.

    Alike are targets whose server, settings, filesystems, drives (model, firmware,
    write cache), class of cuts and load are the same.  A target without a stored run is
    in no group.
    """
    alike: dict[tuple[tuple[str, str], ...], list[CampaignResult]] = {}
    for result in results:
        if found := _configuration(result):
            alike.setdefault(tuple(sorted(found.items())), []).append(result)
    if sum(map(len, alike.values())) < 2:
        return ()
    all_found = [dict(items) for items in alike]
    made = [
        _group(one, members, all_found)
        for one, members in zip(all_found, alike.values(), strict=True)
    ]
    return tuple(sorted(made, key=lambda one: (-one.statistics.losses, one.targets)))


def _configuration(result: CampaignResult) -> Mapping[str, str]:
    """Return how a target was configured in its newest stored run, {} without one."""
    folder = CampaignFolder.open(Path(result.folder))
    runs = [cycle.run for cycle in result.cycles if cycle.run]
    for run in reversed(runs):
        if (folder.runs / run / "manifest.json").is_file():
            return configuration(RunFolder.open(folder.runs / run).manifest())
    return {}


def _apart(
    found: Mapping[str, str], others: Sequence[Mapping[str, str]]
) -> dict[str, str]:
    """Return what differs from another group that has a value for it, too."""
    return {
        name: value
        for name, value in sorted(found.items())
        if any(name in other and other[name] != value for other in others)
    }


def _group(
    found: Mapping[str, str],
    members: Sequence[CampaignResult],
    others: Sequence[Mapping[str, str]],
) -> GroupResult:
    drives = (text for name, text in found.items() if name.startswith("drives of"))
    return GroupResult(
        targets=tuple(member.name for member in members),
        server=found["server"],
        drives=tuple(dict.fromkeys(filter(None, drives))),
        apart=_apart(found, others),
        losing=tuple(m.name for m in members if m.statistics.losses),
        statistics=Tally.together(m.statistics for m in members).statistics,
    )
