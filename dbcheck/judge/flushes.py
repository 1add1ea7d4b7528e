"""Judges whether the drives got the flushes that the commits of the load needed.

Each operation of every plan, and each task, leaves a row: each ack is of a commit that
has to be flushed.  A session sends its next commit once the last one was answered.  One
flush cannot cover both: it would have to begin after the second was written, and end
before the first was answered.  With n sessions, f flushes cover n * f commits at most,
whatever the server and the kernel put together.  Each commit beyond that was answered
without a flush of its own.

That proves no loss: what answers a flush above the drive may keep its promise by
other means, as a battery does.  It is beside the verdict; a PASS names it.

Nor does a flush reach every drive.  A block device whose queue/write_cache is
"write through" is sent no flush, and passes none on: the kernel takes its drive for one
without a volatile cache.  That is what the kernel assumes, and an administrator may
have set it (Linux, Documentation/ABI/stable/sysfs-block, queue/write_cache;
block/blk-core.c, submit_bio_noacct).  It is so for each layer of LVM, md or dm-crypt by
itself.
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

_BADNESS = (
    Status.PRESENT,
    Status.NOT_OBSERVABLE,
    Status.ABSENT,
    Status.CONTRADICTED,
)


def judge_commits_per_flush(case: Case) -> Item | None:
    """Compare the commits of the load with the flushes of the drives below the logs.

    None if they were not counted, or if no such drive is sent flushes; and of a
    standby, which may flush for many commits of the writer at once.
    """
    if case.promoted:
        return None
    done = case.at_the_cut.drives
    if done is None or case.before is None or not done.acked:
        return None
    layers = _find_flushed_drives(case.before)
    if not layers:
        return None
    status, reason = _compare_commits_with_flushes(case.manifest, done, layers)
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
    manifest: Manifest, done: UnderLoad, layers: Mapping[str, Layer]
) -> tuple[Status, str]:
    """Judge the flushes; return the status and the figures.

    Of several drives the one that was flushed most counts: of a mirror each leg is, of
    two logs each has its own, and a commit needs the flush of at least one.
    """
    flushes = {
        name: done.drives[name].flushes for name in layers if name in done.drives
    }
    counted = {name: n for name, n in flushes.items() if n is not None}
    if not counted or len(counted) < len(layers):
        if gone := [name for name in layers if name not in flushes]:
            text = f"{', '.join(gone)} was gone when its flushes were read last"
            return Status.NOT_OBSERVABLE, text
        names = ", ".join(name for name in layers if name not in counted)
        return Status.NOT_OBSERVABLE, f"the kernel counts no flushes of {names}"
    name = max(counted, key=counted.__getitem__)
    most = counted[name]
    reason = f"{done.acked:,} commits, {most:,} flushes of {name}"
    sessions = manifest.workload.sessions + bool(manifest.workload.housekeeping)
    covered = sessions * most
    if done.acked <= covered:
        each = done.acked / most
        return Status.PRESENT, f"{reason}: {each:.2f} commits per flush"
    without = f"at least {done.acked - covered:,} were answered without one"
    if any(layer.fua == "1" for layer in layers.values()):
        return Status.NOT_OBSERVABLE, (
            f"{reason}: {without}, or with a write that needs none (FUA), which the"
            " kernel does not count; dbcheck probe flushes tells them apart"
        )
    return Status.ASSUMED, (
        f"{reason}: {without}; dbcheck probe flushes shows whether the server, its"
        " filesystem or a layer below leaves it out"
    )


def judge_write_caches(case: Case) -> Item | None:
    """Judge the write caches: which drives are flushed, and did others lose writes?

    None if no layer of any volume is known.
    """
    if case.before is None:
        return None
    volumes = case.before.facts.volumes
    load, kind = case.load, FactKind.WRITE_CACHE
    seen = (
        list_changes_of_storage(case.manifest, load, case.tested_name, kind)
        if load
        else ()
    )
    blind = {each.of for each in seen if each.value == WRITE_THROUGH}
    measured = [each.depth for each in case.depths]
    found = [
        _judge_volume(volume, depth, blind)
        for volume, depth in itertools.zip_longest(volumes, measured)
        if any(layer.write_cache for layer in volume.layers)
    ]
    if not found:
        return None
    status = max((each for each, _ in found), key=_BADNESS.index)
    reasons = dict.fromkeys(reason for _, reason in found)
    return Item(ItemId.WRITE_CACHE, status, "; ".join(reasons), required=False)


def _judge_volume(
    volume: Volume, depth: Depth | None, for_a_time: Collection[str]
) -> tuple[Status, str]:
    """Judge one volume; return its status and the reason.

    for_a_time: layers that were seen to be "write through" while the load ran.
    """
    seen = [
        replace(layer, write_cache=WRITE_THROUGH) if layer.name in for_a_time else layer
        for layer in volume.layers
    ]
    layers = {layer.name: layer for layer in seen}
    drives = [layer for layer in volume.layers if not layer.below]
    flushed = [
        drive.name for drive in drives if drive.name in _find_flushed_layers(layers)
    ]
    blind = [drive for drive in drives if drive.name not in flushed]
    if not blind:
        return Status.PRESENT, f"the kernel flushes {', '.join(flushed)}"
    stops = ", ".join(_find_layers_that_stop_flushes(seen))
    names = ", ".join(drive.name for drive in blind)
    reason = f"the kernel sends no flush to {names}, as {stops} is {WRITE_THROUGH!r}"
    if depth is Depth.DRIVE and not flushed:
        lost = f"{reason}; but it lost writes that it had completed, so its cache is "
        return Status.CONTRADICTED, f"{lost}volatile: commits are lost with it"
    if depth is Depth.DRIVE:
        others = f"{', '.join(flushed)} may be the one that lost writes in this cut"
        return Status.NOT_OBSERVABLE, f"{reason}; {others}"
    if volatile := [drive.name for drive in blind if drive.write_cache == WRITE_BACK]:
        own = f"{reason}; yet {', '.join(volatile)} is {WRITE_BACK!r} and needs flushes"
        return Status.ABSENT, own
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
