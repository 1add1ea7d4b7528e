"""Judges whether the drives got the flushes that the commits of the load needed.

Each operation of every plan, and each task, leaves a row: each ack is of a commit that
has to be flushed.  A session sends its next commit once the last one was answered.  One
flush cannot cover both commits: it would have to begin after the second was written,
and end before the first was answered.  With n sessions, f flushes cover n * f commits
at most, whatever commits the server and the kernel combine.  Each commit beyond n * f
was answered without a flush.

An unflushed commit proves no loss: a layer above the drive that answers flushes may
keep its promise by other means, such as a battery.  So this evidence does not decide
the verdict; a PASS names it.

Nor does a flush reach every drive.  A block device whose queue/write_cache is
"write through" is sent no flush, and passes none on: the kernel takes its drive for one
without a volatile cache.  The setting is the kernel's assumption, and an administrator
may have set it (Linux, Documentation/ABI/stable/sysfs-block, queue/write_cache;
block/blk-core.c, submit_bio_noacct).  Each layer of LVM, md or dm-crypt has its own.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from dbcheck.judge.case import Case
from dbcheck.judge.item import Item, ItemId, Status
from dbcheck.judge.volumes import list_changes_of_storage
from dbcheck.model.depth import Depth
from dbcheck.model.flushes import UnderLoad
from dbcheck.model.host import WRITE_BACK, WRITE_THROUGH, HostBefore, Layer, Volume
from dbcheck.model.places import LOGS
from dbcheck.model.records import Manifest
from dbcheck.model.watched import FactKind

_FROM_BEST_TO_WORST = (
    Status.PRESENT,
    Status.NOT_OBSERVABLE,
    Status.ABSENT,
    Status.CONTRADICTED,
)


def judge_commits_per_flush(case: Case) -> Item | None:
    """Compare the commits of the load with the flushes of the drives below the logs.

    None if the flushes were not counted, or if no drive below the logs is sent any.
    None for a standby, which may flush for many commits of the writer at once.
    """
    if case.promoted:
        return None
    under_load = case.at_the_cut.drives
    if under_load is None or case.before is None or not under_load.acked:
        return None
    layers = _find_flushed_drives(case.before)
    if not layers:
        return None
    status, reason = _compare_commits_with_flushes(case.manifest, under_load, layers)
    return Item(ItemId.COMMITS_PER_FLUSH, status, reason, required=False)


def _find_flushed_drives(before: HostBefore) -> Mapping[str, Layer]:
    """Return the drives below the logs that the kernel takes for volatile, by name."""
    volumes = [
        volume
        for volume in before.facts.volumes
        if not volume.places.keys().isdisjoint(LOGS)
    ]
    return {
        layer.name: layer
        for volume in volumes
        for layer in volume.layers
        if not layer.below and layer.write_cache and layer.write_cache != WRITE_THROUGH
    }


def _compare_commits_with_flushes(
    manifest: Manifest, under_load: UnderLoad, layers: Mapping[str, Layer]
) -> tuple[Status, str]:
    """Judge the flushes; return the status and the figures.

    With several drives the one with the most flushes counts: each leg of a mirror is
    flushed, two logs may have a drive each, and a commit needs a flush of at least one
    drive.
    """
    flushes = {
        name: under_load.drives[name].flushes
        for name in layers
        if name in under_load.drives
    }
    counted = {name: count for name, count in flushes.items() if count is not None}
    if not counted or len(counted) < len(layers):
        if missing := [name for name in layers if name not in flushes]:
            text = f"{', '.join(missing)} was gone when its flushes were read last"
            return Status.NOT_OBSERVABLE, text
        names = ", ".join(name for name in layers if name not in counted)
        return Status.NOT_OBSERVABLE, f"the kernel counts no flushes of {names}"
    name = max(counted, key=counted.__getitem__)
    most_flushes = counted[name]
    reason = f"{under_load.acked:,} commits, {most_flushes:,} flushes of {name}"
    sessions = manifest.workload.sessions + bool(manifest.workload.housekeeping)
    covered = sessions * most_flushes
    if under_load.acked <= covered:
        per_flush = under_load.acked / most_flushes
        return Status.PRESENT, f"{reason}: {per_flush:.2f} commits per flush"
    unflushed = f"at least {under_load.acked - covered:,} were answered without one"
    if any(layer.fua == "1" for layer in layers.values()):
        return Status.NOT_OBSERVABLE, (
            f"{reason}: {unflushed}, or with a write that needs none (FUA), which the"
            " kernel does not count; dbcheck probe flushes tells them apart"
        )
    return Status.ASSUMED, (
        f"{reason}: {unflushed}; dbcheck probe flushes shows whether the server, its"
        " filesystem or a layer below leaves it out"
    )


def judge_write_caches(case: Case) -> Item | None:
    """Judge which drives the kernel flushes, and whether other drives lost writes.

    None if no layer of any volume is known.
    """
    if case.before is None:
        return None
    volumes = case.before.facts.volumes
    load, kind = case.load, FactKind.WRITE_CACHE
    changes = (
        list_changes_of_storage(case.manifest, load, case.tested_name, kind)
        if load
        else ()
    )
    blind = {change.of for change in changes if change.value == WRITE_THROUGH}
    measured = [finding.depth for finding in case.depths]
    results = [
        _judge_volume(volume, depth, blind)
        for volume, depth in itertools.zip_longest(volumes, measured)
        if any(layer.write_cache for layer in volume.layers)
    ]
    if not results:
        return None
    status = max((status for status, _ in results), key=_FROM_BEST_TO_WORST.index)
    reasons = dict.fromkeys(reason for _, reason in results)
    return Item(ItemId.WRITE_CACHE, status, "; ".join(reasons), required=False)


def _judge_volume(
    volume: Volume, depth: Depth | None, for_a_time: Collection[str]
) -> tuple[Status, str]:
    """Judge one volume; return its status and the reason.

    for_a_time: layers that were seen to be "write through" while the load ran.
    """
    layers_with_changes = [
        replace(layer, write_cache=WRITE_THROUGH) if layer.name in for_a_time else layer
        for layer in volume.layers
    ]
    layers = {layer.name: layer for layer in layers_with_changes}
    drives = [layer for layer in volume.layers if not layer.below]
    flushed = [
        drive.name for drive in drives if drive.name in _find_flushed_layers(layers)
    ]
    unflushed = [drive for drive in drives if drive.name not in flushed]
    if not unflushed:
        return Status.PRESENT, f"the kernel flushes {', '.join(flushed)}"
    stops = ", ".join(_find_layers_that_stop_flushes(layers_with_changes))
    names = ", ".join(drive.name for drive in unflushed)
    reason = f"the kernel sends no flush to {names}, as {stops} is {WRITE_THROUGH!r}"
    if depth is Depth.DRIVE and not flushed:
        lost = f"{reason}; but it lost writes that it had completed, so its cache is "
        return Status.CONTRADICTED, f"{lost}volatile: commits are lost with it"
    if depth is Depth.DRIVE:
        others = f"{', '.join(flushed)} may be the one that lost writes in this cut"
        return Status.NOT_OBSERVABLE, f"{reason}; {others}"
    if volatile := [
        drive.name for drive in unflushed if drive.write_cache == WRITE_BACK
    ]:
        needs_flushes = (
            f"{reason}; yet {', '.join(volatile)} is {WRITE_BACK!r} and needs flushes"
        )
        return Status.ABSENT, needs_flushes
    return Status.PRESENT, f"{reason}, which is right if no cache there is volatile"


def _find_flushed_layers(layers: dict[str, Layer]) -> set[str]:
    """Return the layers that a flush of the filesystem reaches."""
    reached: set[str] = set()
    inner = {name for layer in layers.values() for name in layer.below}
    queue = [name for name in layers if name not in inner]
    for name in queue:  # grows while it is walked
        layer = layers.get(name)
        if layer is None or layer.write_cache == WRITE_THROUGH or name in reached:
            continue
        reached.add(name)
        queue += layer.below
    return reached


def _find_layers_that_stop_flushes(layers: Sequence[Layer]) -> list[str]:
    """Return the layers that pass no flush on; a partition shares its disk's queue."""
    return [
        f"{layer.name} ({layer.dm_name})" if layer.dm_name else layer.name
        for layer in layers
        if layer.write_cache == WRITE_THROUGH and layer.kind != "partition"
    ]
