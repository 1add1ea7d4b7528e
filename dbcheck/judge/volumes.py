"""Judges how deep a cut went on each volume on which an ack depends.

Some block devices can lose completed writes although no drive loses its power.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from dbcheck.model import layers
from dbcheck.model.cut import CutClass, PowerScope
from dbcheck.model.depth import (
    IN_PLACE,
    Completed,
    Depth,
    DepthFinding,
    Ground,
    Remains,
    Tally,
    find_depth,
    find_first_loss_us,
)
from dbcheck.model.host import HostAfter, HostBefore, Layer, TargetFacts, Volume
from dbcheck.model.records import LoadRecord, Manifest
from dbcheck.model.watched import FactKind, Seen

# Kinds of layers that keep completed writes, or where these are, in memory until a
# flush: zvols cache in the ARC (OpenZFS, zvol_os.c), bcache keeps its journal and its
# index (Documentation/admin-guide/bcache.rst), dm-cache the place of a block, dm-thin
# the map of its blocks, dm-writecache its index, dm-integrity and VDO a journal (Linux,
# Documentation/admin-guide/device-mapper/: cache.rst, thin-provisioning.rst,
# writecache.rst, dm-integrity.rst, vdo.rst).
_KINDS_THAT_HOLD_WRITES = (
    layers.ZVOL,
    layers.BCACHE,
    layers.CACHE,
    layers.WRITECACHE,
    layers.THIN,
    layers.VDO,
    layers.INTEGRITY,
    layers.UNKNOWN,
)
_PARITY_LEVELS = ("raid4", "raid5", "raid6")
_EMPTY_TALLY = Tally(0, 0, 0)
_NO_FLUSH_TIMES: Mapping[str, int] = {}


def find_host_cache(stack: Sequence[Layer]) -> str:
    """Explain which layer may lose writes that no drive lost, "" if none.

    A block that is lost in such a layer proves nothing about a drive's own cache.
    """
    return next(filter(None, map(_explain_losing_layer, stack)), "")


def _explain_losing_layer(layer: Layer) -> str:
    if layer.kind == "loop" and not layer.direct:
        return f"{layer.name} is a loop device that writes through the page cache"
    if layer.kind == "loop" and layer.backing and layer.backing not in IN_PLACE:
        return (
            f"{layer.name} is a loop device on {layer.backing}, which does not "
            "overwrite in place"
        )
    if layer.kind == "md":
        return _explain_losing_array(layer)
    kind = layers.kind_of(layer)
    if kind in _KINDS_THAT_HOLD_WRITES:
        named = layer.dm_name or layer.name
        return (
            f"{named} ({kind}) may keep completed writes, or where they are, in the "
            "host's memory"
        )
    if layer.foreign:
        return (
            f"{layer.name} is not a drive of this host ({layer.foreign}): what "
            "provides it may have lost this from its own memory"
        )
    return ""


def _explain_losing_array(layer: Layer) -> str:
    """Explain how an md array may lose a block (Linux, admin-guide/md), else ""."""
    if layer.md.get("policy") == "journal":
        return f"{layer.name} has a journal of its own, whose drive may have lost this"
    if layer.md.get("level") in _PARITY_LEVELS and layer.md.get("degraded") != "0":
        return (
            f"{layer.name} is missing a drive, or does not report that it has all: a "
            "write that a cut interrupts may then change other blocks"
        )
    if layer.md.get("backlog", "0") != "0":
        return f"{layer.name} completes writes before all its drives have them"
    return ""


@dataclass(frozen=True, slots=True)
class VolumeDepth:
    """Depth of the cut on one volume.

    finding:    None if the depth could not be measured; unmeasured: why it could not.
    were_running: there were canaries on the volume.
    """

    volume: Volume
    finding: DepthFinding | None
    unmeasured: str = ""
    were_running: bool = True

    @property
    def depth(self) -> Depth | None:
        """The depth alone, None if it is not known."""
        return self.finding.depth if self.finding else None

    def __str__(self) -> str:
        shown = self.depth.value if self.depth else "unknown"
        return f"{shown} on {self.volume.named}"

    @property
    def reasons(self) -> tuple[str, ...]:
        """The reasons, in sentences that name the places."""
        found = self.finding.reasons if self.finding else (self.unmeasured,)
        return tuple(f"{', '.join(self.volume.places)}: {reason}" for reason in found)


def list_changes_of_storage(
    manifest: Manifest, load: LoadRecord, name: str, *kinds: FactKind
) -> list[Seen]:
    """List changes of a node's mounts, devices and places before its cut.

    kinds: which kinds of facts; all if none is named.
    A host that is up again shows other values, and so does a host that loses its drives
    and keeps running: a lab's, or where drives alone are cut.  So a change is left out
    if it was first seen after both the last ack and the request for the cut; on a host
    that keeps running, after either of them.
    """
    node = load.nodes.get(name)
    if node is None or node.host_watched is None:
        return []
    changes = node.host_watched.of(*(kinds or FactKind))
    begins_us, cut = load.last_ack_us, node.cut
    if begins_us is None:
        return changes
    runs_on = bool(manifest.lab) or manifest.nodes[name].scope is PowerScope.DRIVE
    if cut is not None and cut.asked_us is not None:
        begins_us = (min if runs_on else max)(begins_us, cut.asked_us)
    return [seen for seen in changes if seen.answered_us < begins_us]


def find_volume_depths(
    before: HostBefore | None,
    completed: Completed | None,
    elsewhere: Sequence[Completed | None],
    after: HostAfter | None,
    cut: CutClass = CutClass.UNKNOWN,
    flushed: Mapping[str, int] = _NO_FLUSH_TIMES,
) -> list[VolumeDepth]:
    """Find the depth of the cut on each volume; the data directory's comes first.

    [] if there were no canaries beside the data directory.
    completed, elsewhere: NodeAtTheCut.canaries and canaries_elsewhere.
    cut: its declared class; a cut that keeps the drives' power reaches OS at most.
    flushed: see judge.case.find_flush_times().
    """
    if before is None or completed is None or after is None or after.remains is None:
        return []
    data = before.facts.data
    loss_above = _find_loss_above_drives(data, after, cut)
    depth_of_data = _measure_depth(data, completed, after.remains, loss_above, flushed)
    depths = [VolumeDepth(data, depth_of_data)]
    for number, volume in enumerate(before.facts.volumes[1:]):
        canaries = before.elsewhere[number]
        completed_there = elsewhere[number] if number < len(elsewhere) else None
        remains = after.remains_elsewhere
        remains_there = remains[number] if number < len(remains) else None
        if completed_there is None or remains_there is None:
            why = canaries.failure or "its canaries could not be read after the cut"
            depths.append(VolumeDepth(volume, None, why, not canaries.failure))
        else:
            loss_above = _find_loss_above_drives(volume, after, cut)
            finding = _measure_depth(
                volume, completed_there, remains_there, loss_above, flushed
            )
            depths.append(VolumeDepth(volume, finding))
    return [_take_depth_of_shared_drive(depth, depths) for depth in depths]


def _take_depth_of_shared_drive(
    depth: VolumeDepth, depths: Sequence[VolumeDepth]
) -> VolumeDepth:
    """Return a volume's depth, or the DRIVE depth of another volume on its drive.

    Partitions, or volumes of LVM, share the volatile cache of their drive, and it is
    chance which volume's writes are lost from that cache.
    """
    without_canaries = depth.finding is None and not depth.were_running
    drives = depth.volume.file_drives
    if len(drives) != 1 or not (without_canaries or depth.depth is Depth.OS):
        return depth
    for other in depths:
        if other.depth is Depth.DRIVE and other.volume.file_drives == drives:
            lost = f"{drives[0]} lost writes of {', '.join(other.volume.places)}"
            own_finding = depth.finding or DepthFinding(
                None, _EMPTY_TALLY, _EMPTY_TALLY, (depth.unmeasured,)
            )
            reasons = (lost, *own_finding.reasons)
            finding = replace(own_finding, depth=Depth.DRIVE, reasons=reasons)
            return replace(depth, finding=finding)
    return depth


def _find_loss_above_drives(volume: Volume, after: HostAfter, cut: CutClass) -> str:
    """Return the reason why a block may have been lost above the drives, "" if none.

    The layers count both as they were before the cut and as they are after it, since an
    array may have lost a drive in the cut.
    """
    if cut.keeps_power:
        return "the drives kept their power, so a layer above them lost this"
    if unknown := volume.unreadable.get("layers"):
        return f"what lies below it is not known ({unknown})"
    now = after.facts.volumes if after.facts else ()
    shared = (each for each in now if each.places.keys() & volume.places.keys())
    later = (layer for each in shared for layer in each.layers)
    return find_host_cache((*volume.layers, *later))


def _measure_depth(
    volume: Volume,
    completed: Completed,
    remains: Remains,
    loss_above: str,
    flushed: Mapping[str, int],
) -> DepthFinding:
    ground = Ground(volume.filesystem, volume.mount_options, above=loss_above)
    found = find_depth(completed, remains, ground)
    if found.depth is not Depth.DRIVE:
        return found
    drives = volume.file_drives
    lost, *counts = found.reasons
    if len(drives) == 1:
        gone_us, flush_us = (
            find_first_loss_us(completed, remains),
            flushed.get(drives[0]),
        )
        if gone_us is None or flush_us is None or gone_us >= flush_us:
            return found
        why = (
            f"{found.direct.lost:,} writes that the drive had completed are gone, some"
            " of them older than a commit that was answered since: the drive ignored"
            " flushes, or the volume was rolled back to a snapshot"
        )
        return replace(found, depth=None, reasons=(why, *counts))
    if not drives:
        return found
    which = f"{lost}; which of {', '.join(drives)} is not known"
    return replace(found, reasons=(which, *counts))


def find_least_depth(
    depths: Sequence[VolumeDepth], facts: TargetFacts | None
) -> DepthFinding | None:
    """Find the depth of the cut for all places together, None if unknown.

    The depth for all places is the least depth of any place.  It is unknown if the
    depth of a place is unknown, unless another place shows that the cut reached the
    server's process alone.  A journal on a drive of its own takes no canaries: the page
    cache is lost for the journal as well, but what its drive lost is not known.
    """
    if not depths or facts is None:
        return None
    hidden = list_hidden_drives(facts.volumes, depths)
    if len(depths) == 1 and not facts.unseen and not hidden:
        return depths[0].finding
    unseen = [f"unknown on {place} ({why})" for place, why in facts.unseen.items()]
    known = [each.depth for each in depths if each.depth is not None]
    least = min(known, key=lambda depth: depth.rank, default=None)
    if least is not Depth.PROCESS and (unseen or len(known) < len(depths)):
        least = None
    if hidden and least is Depth.DRIVE:
        least = Depth.OS
    reasons = ["; ".join((*map(str, depths), *hidden, *unseen))]
    reasons += [reason for each in depths for reason in each.reasons]
    findings = [each.finding for each in depths if each.finding]
    return DepthFinding(
        least,
        _add_tallies([finding.buffered for finding in findings]),
        _add_tallies([finding.direct for finding in findings]),
        tuple(reasons),
    )


def list_hidden_drives(
    volumes: Sequence[Volume], depths: Sequence[VolumeDepth] = ()
) -> list[str]:
    """List what no canary can show: journals on drives that hold no file of the volume.

    A journal is left out if its drive holds the files of another volume that shows
    DRIVE depth.
    """
    shown = [each.volume.file_drives for each in depths if each.depth is Depth.DRIVE]
    hidden = []
    for volume in volumes:
        places = f"of {', '.join(volume.places)}"
        for role, layer in volume.apart.items():
            drives = volume.drives_below(layer)
            if not drives or drives not in (volume.file_drives, *shown):
                drives_or_layer = ", ".join(drives) or layer
                hidden.append(
                    f"the {role} {places} ({drives_or_layer}) takes no canaries"
                )
        if why := volume.unreadable.get("journal"):
            hidden.append(f"where the journal {places} lies is not known ({why})")
    return hidden


def _add_tallies(tallies: Sequence[Tally]) -> Tally:
    return Tally(
        sum(tally.wrote for tally in tallies),
        sum(tally.checked for tally in tallies),
        sum(tally.lost for tally in tallies),
    )


def was_page_cache_kept(depths: Sequence[VolumeDepth]) -> bool:
    """Return True if the page cache survived, as every volume's canaries show."""
    return bool(depths) and all(each.depth is Depth.PROCESS for each in depths)


def find_shallowest(depths: Sequence[VolumeDepth]) -> DepthFinding | None:
    """Return the finding of the least depth that is known, of whichever volume.

    The least depth describes the host alone: all filesystems share one page cache.  If
    no depth is known, return the finding of the data directory.
    """
    if not depths:
        return None
    chosen = min(depths, key=_rank_depth)
    if chosen.finding is None or len(depths) == 1:
        return chosen.finding
    return replace(chosen.finding, reasons=chosen.reasons)


def _rank_depth(one: VolumeDepth) -> int:
    """Return the rank of a volume's depth; an unknown depth comes last."""
    return len(Depth) if one.depth is None else one.depth.rank
