"""Finds runs of the same server that lie beside the named ones and were left out.

A run that failed, has no verdict or cannot be read keeps the named runs from a PASS,
under whatever load or kind of cut.  A run under another configuration does not: its
loss may have been the reason for the change.  The report names it.
Stored verdicts are read as they are; nothing is judged anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from dbcheck.base.errors import RunFormatError
from dbcheck.campaign.chosen import (
    find_campaign_of,
    list_compared_values,
    list_differences,
)
from dbcheck.campaign.compare import Key, Role
from dbcheck.judge.checks import RunBeside
from dbcheck.model.cluster import SiteKind
from dbcheck.model.records import Manifest
from dbcheck.model.server import find_other_names, name_same_data
from dbcheck.model.verdict import Verdict
from dbcheck.runs.folder import RunFolder

_DAMAGED = (
    "its manifest cannot be read. Move its folder away if it is of another server"
)
_COPY = "a copy of this run in another folder has another verdict: "
_CAMPAIGNS = "campaigns"  # the default parent folder of campaigns
# Records that a run has once it was cut, or may have been.
_RECORDS_OF_A_CUT = ("cut.json", "load.json", "after.json", "verdict.json")


@dataclass(frozen=True, slots=True)
class _Named:
    """The named runs: the manifest of the oldest, the ids and the folders of all."""

    oldest: Manifest
    ids: frozenset[str]
    folders: frozenset[Path]


def list_runs_beside(runs: Sequence[RunFolder]) -> tuple[RunBeside, ...]:
    """List the runs of the same server that lie beside *runs* and are not among them.

    Looks in the folders that hold *runs*, in campaigns there, and in the folder
    campaigns next to them.  Runs that keep the result from a PASS come first.

    runs: the oldest first.
    """
    named = _Named(
        runs[0].manifest(),
        frozenset(run.manifest().run_id for run in runs),
        frozenset(run.path.resolve() for run in runs),
    )
    # A link may lead to a run that lies in another folder.
    parents = dict.fromkeys(
        parent.resolve()
        for run in runs
        for parent in (run.path.absolute().parent, run.path.resolve().parent)
    )
    paths = dict.fromkeys(
        path.parent.resolve() for parent in parents for path in _list_manifests(parent)
    )
    found = [
        beside
        for path in paths
        if path not in named.folders
        and (beside := _read_beside(path, named)) is not None
    ]
    return tuple(sorted(found, key=_rank_beside))


def _list_manifests(parent: Path) -> Iterator[Path]:
    """Yield the manifests of the runs in a folder, and of campaigns there or beside."""
    yield from sorted(parent.glob("*/manifest.json"))
    yield from sorted(parent.glob("*/runs/*/manifest.json"))
    for depth in ("*", "*/*"):  # of one target, and of several
        pattern = f"{_CAMPAIGNS}/{depth}/runs/*/manifest.json"
        yield from sorted(parent.parent.glob(pattern))


def _rank_beside(one: RunBeside) -> tuple[bool, bool, str]:
    return not one.contradicts, one.verdict is not Verdict.FAIL, one.run


def _read_beside(path: Path, named: _Named) -> RunBeside | None:
    """Read a run that was not named; None if it says nothing about the server."""
    run = RunFolder(path)
    try:
        manifest = run.manifest()
    except RunFormatError:
        if not any((path / name).exists() for name in _RECORDS_OF_A_CUT):
            return None  # nothing was cut
        return RunBeside(path.name, str(path), None, _DAMAGED, (), countable=False)
    if manifest.copy is not None or not _may_be_same_server(named.oldest, manifest):
        return None
    verdict, reason = read_stored_verdict(run, manifest)
    if manifest.run_id in named.ids:
        if verdict is not Verdict.FAIL:
            return None
        reason = _COPY + reason
    if manifest.control and verdict in (Verdict.PASS, Verdict.INCONCLUSIVE):
        return None
    if verdict is None and not _may_be_cut(run):
        return None
    keys = list(_list_differing_keys(named.oldest, manifest))
    differs = tuple(key.name for key in keys if key.role.is_of_server)
    tested_otherwise = tuple(key.name for key in keys if not key.role.is_of_server)
    return RunBeside(
        run=manifest.run_id,
        folder=str(path),
        verdict=verdict,
        reason=reason,
        differs=differs,
        tested_otherwise=tested_otherwise,
        countable=not keys
        and manifest.run_id not in named.ids
        and find_campaign_of(path) is None
        and not list_differences(named.oldest, manifest),
    )


def _may_be_same_server(one: Manifest, other: Manifest) -> bool:
    """Return True unless the identities of the data, or else the URLs, differ.

    A run on another database of the server, or before an upgrade, is of that server.
    """
    before, after = one.writer.facts.identity, other.writer.facts.identity
    is_same = name_same_data(before, after)
    if is_same is not None:
        return is_same
    return _find_place(one.writer.target) == _find_place(other.writer.target)


def _find_place(target: str) -> str:
    """Return host and port of a URL; the whole URL if it names none."""
    try:
        return urlsplit(target).netloc.rpartition("@")[2] or target
    except ValueError:
        return target


def _list_differing_keys(one: Manifest, other: Manifest) -> Iterator[Key]:
    """Yield the values that differ; the name of the database is not compared.

    A value that only one of the two runs has does not count as a difference, so a loss
    is never set aside because of a value that could not be read.
    """
    if one.writer.scope is not other.writer.scope:
        yield Key("what loses its power", Role.OF_THE_CUT)
    if other.site is not SiteKind.SINGLE:
        yield Key("the run of a cluster")
    identities = one.writer.facts.identity, other.writer.facts.identity
    yield from map(Key, find_other_names(*identities))
    before, after = list_compared_values(one), list_compared_values(other)
    for key in sorted(before.keys() & after.keys()):
        if before[key] != after[key]:
            yield key


def read_stored_verdict(
    run: RunFolder, manifest: Manifest
) -> tuple[Verdict | None, str]:
    """Return the stored verdict of a run with its reason; None if it is not final."""
    try:
        result = run.result()
    except RunFormatError:
        return None, "it was not judged, or its verdict cannot be read"
    if result.run != manifest.run_id or result.target != manifest.writer.target:
        return None, "its verdict.json is that of another run"
    if not result.final:
        return None, result.reasons[0]
    return result.verdict, result.reasons[0]


def _may_be_cut(run: RunFolder) -> bool:
    """Return True if a run may have been cut, so that it needs a verdict."""
    try:
        return run.was_read() or run.awaits_judgement()
    except RunFormatError:
        return True  # a damaged record cannot show that it was not
