"""Did the drives get as many flushes as the commits of the load needed?

Each operation of every plan, and each chore, leaves a row: each ack is of a commit that
has to be flushed.  A session sends its next commit once the last one was answered.  One
flush cannot cover both: it would have to begin after the second was written, and end
before the first was answered.  With n sessions, f flushes cover n * f commits at most,
whatever the server and the kernel put together.  Each commit beyond that was answered
without a flush of its own.

That proves no loss: what answers a flush above the drive may keep its promise by
other means, as a battery does.  It is beside the verdict; a PASS names it.
"""

from __future__ import annotations

from collections.abc import Mapping

from dbcheck.judge.case import Case
from dbcheck.judge.item import Item, ItemId, Standing
from dbcheck.model.flushes import UnderLoad
from dbcheck.model.host import WRITE_THROUGH, HostBefore, Layer
from dbcheck.model.places import LOGS
from dbcheck.model.records import Manifest


def commits_per_flush(case: Case) -> Item | None:
    """Compare the commits of the load with the flushes of the drives below the logs.

    None if they were not counted, or if no such drive is sent flushes; and of a
    standby, which may flush for many commits of the writer at once.
    """
    if case.promoted:
        return None
    done = case.at_the_cut.drives
    if done is None or case.before is None or not done.acked:
        return None
    layers = _flushed_drives(case.before)
    if not layers:
        return None
    standing, reason = _compared(case.manifest, done, layers)
    return Item(ItemId.COMMITS_PER_FLUSH, standing, reason, required=False)


def _flushed_drives(before: HostBefore) -> Mapping[str, Layer]:
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


def _compared(
    manifest: Manifest, done: UnderLoad, layers: Mapping[str, Layer]
) -> tuple[Standing, str]:
    """Return how the flushes stand, and the figures.

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
            return Standing.NOT_OBSERVABLE, text
        names = ", ".join(name for name in layers if name not in counted)
        return Standing.NOT_OBSERVABLE, f"the kernel counts no flushes of {names}"
    name = max(counted, key=counted.__getitem__)
    most = counted[name]
    reason = f"{done.acked:,} commits, {most:,} flushes of {name}"
    sessions = manifest.workload.sessions + bool(manifest.workload.housekeeping)
    covered = sessions * most
    if done.acked <= covered:
        each = done.acked / most
        return Standing.PRESENT, f"{reason}: {each:.2f} commits per flush"
    without = f"at least {done.acked - covered:,} were answered without one"
    if any(layer.fua == "1" for layer in layers.values()):
        return Standing.NOT_OBSERVABLE, (
            f"{reason}: {without}, or with a write that needs none (FUA), which the"
            " kernel does not count; dbcheck probe flushes tells them apart"
        )
    return Standing.ASSUMED, (
        f"{reason}: {without}; dbcheck probe flushes shows whether the server, its"
        " filesystem or a layer below leaves it out"
    )
