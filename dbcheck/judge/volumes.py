"""Judges how deep a cut went on each volume on which an ack depends.

There are block devices that can lose completed writes though no drive loses its power.
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

# zvols cache in the ARC (OpenZFS, zvol_os.c), bcache keeps its journal and its index in
# memory until a flush (Documentation/admin-guide/bcache.rst).  So do dm-cache with the
# place of a block, dm-thin with the map of its blocks, dm-writecache with its index,
# dm-integrity with its journal, and VDO with its own (Linux,
# Documentation/admin-guide/device-mapper/: cache.rst, thin-provisioning.rst,
# writecache.rst, dm-integrity.rst, vdo.rst).
_HOLDING = (
    layers.ZVOL,
    layers.BCACHE,
    layers.CACHE,
    layers.WRITECACHE,
    layers.THIN,
    layers.VDO,
    layers.INTEGRITY,
    layers.UNKNOWN,
)
_PARITY = ("raid4", "raid5", "raid6")
_NONE = Tally(0, 0, 0)
_NEVER: Mapping[str, int] = {}


def find_host_cache(stack: Sequence[Layer]) -> str:
    """Return the layer that may lose writes though no drive did, in words, "" if none.

    A block that is lost there proves nothing about a drive's own cache.
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
    if kind in _HOLDING:
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
    """Explain a loss of a block by an md array itself (Linux, admin-guide/md)."""
    if layer.md.get("policy") == "journal":
        return f"{layer.name} has a journal of its own, whose drive may have lost this"
    if layer.md.get("level") in _PARITY and layer.md.get("degraded") != "0":
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

    finding:    None if it could not be measured; unmeasured: why.
    were_running: there were canaries on it.
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

    kinds: all if none is named.
    A host that is up again shows others, and so does one that loses its drives and
    keeps running: a lab's, or where drives alone are cut.  So what was first seen once
    the last ack had come and the cut was asked for is left out; on a host that keeps
    running, once either was so.
    """
    node = load.nodes.get(name)
    if node is None or node.host_watched is None:
        return []
    found = node.host_watched.of(*(kinds or FactKind))
    begins_us, cut = load.last_ack_us, node.cut
    if begins_us is None:
        return found
    runs_on = bool(manifest.lab) or manifest.nodes[name].scope is PowerScope.DRIVE
    if cut is not None and cut.asked_us is not None:
        begins_us = (min if runs_on else max)(begins_us, cut.asked_us)
    return [seen for seen in found if seen.answered_us < begins_us]


def find_volume_depths(
    before: HostBefore | None,
    completed: Completed | None,
    elsewhere: Sequence[Completed | None],
    after: HostAfter | None,
    cut: CutClass = CutClass.UNKNOWN,
    flushed: Mapping[str, int] = _NEVER,
) -> list[VolumeDepth]:
    """Find the depth of the cut on each volume, that of the data directory first.

    cut: its declared class; one that keeps the drives' power reaches OS depth at most.
    flushed: see judge.case.find_flush_times().
    completed, elsewhere: see model.records.NodeAtTheCut.  [] if there were no canaries
    beside the data directory.
    """
    if before is None or completed is None or after is None or after.remains is None:
        return []
    data = before.facts.data
    above = _find_loss_above_drives(data, after, cut)
    first = _measure_depth(data, completed, after.remains, above, flushed)
    depths = [VolumeDepth(data, first)]
    for number, volume in enumerate(before.facts.volumes[1:]):
        canaries = before.elsewhere[number]
        done = elsewhere[number] if number < len(elsewhere) else None
        remains = after.remains_elsewhere
        left = remains[number] if number < len(remains) else None
        if done is None or left is None:
            why = canaries.failure or "its canaries could not be read after the cut"
            depths.append(VolumeDepth(volume, None, why, not canaries.failure))
        else:
            above = _find_loss_above_drives(volume, after, cut)
            found = _measure_depth(volume, done, left, above, flushed)
            depths.append(VolumeDepth(volume, found))
    return [_take_depth_of_shared_drive(each, depths) for each in depths]


def _take_depth_of_shared_drive(
    one: VolumeDepth, depths: Sequence[VolumeDepth]
) -> VolumeDepth:
    """Return the depth of a volume, also as another one on the same drive shows it.

    Partitions, or volumes of LVM, share the volatile cache of their drive: whose writes
    are lost from it is chance.
    """
    without_canaries = one.finding is None and not one.were_running
    drives = one.volume.file_drives
    if len(drives) != 1 or not (without_canaries or one.depth is Depth.OS):
        return one
    for other in depths:
        if other.depth is Depth.DRIVE and other.volume.file_drives == drives:
            lost = f"{drives[0]} lost writes of {', '.join(other.volume.places)}"
            own = one.finding or DepthFinding(None, _NONE, _NONE, (one.unmeasured,))
            reasons = (lost, *own.reasons)
            finding = replace(own, depth=Depth.DRIVE, reasons=reasons)
            return replace(one, finding=finding)
    return one


def _find_loss_above_drives(volume: Volume, after: HostAfter, cut: CutClass) -> str:
    """Return the reason why a block may have been lost above the drives, "" if none.

    The layers count as they were before and after the cut, in which an array may have
    lost a drive.
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
    above: str,
    flushed: Mapping[str, int],
) -> DepthFinding:
    ground = Ground(volume.filesystem, volume.mount_options, above=above)
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

    That is the least depth of all.  It is unknown if it is unknown of a place, unless
    another shows a cut that reached the server's process alone.  A journal on a drive
    of its own takes no canaries: the page cache is lost for it as well, but what its
    drive lost is not known.
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
    """List what no canary can show: journals on drives that no file lies on.

    Unless another volume, whose files lie on the very same drive, shows DRIVE depth.
    """
    shown = [each.volume.file_drives for each in depths if each.depth is Depth.DRIVE]
    found = []
    for volume in volumes:
        of = f"of {', '.join(volume.places)}"
        for role, layer in volume.apart.items():
            drives = volume.drives_below(layer)
            if not drives or drives not in (volume.file_drives, *shown):
                on = ", ".join(drives) or layer
                found.append(f"the {role} {of} ({on}) takes no canaries")
        if why := volume.unreadable.get("journal"):
            found.append(f"where the journal {of} lies is not known ({why})")
    return found


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

    It describes the host alone: a page cache is that of all filesystems.  Without any
    that is known, return the data directory's.
    """
    if not depths:
        return None
    chosen = min(depths, key=_rank_depth)
    if chosen.finding is None or len(depths) == 1:
        return chosen.finding
    return replace(chosen.finding, reasons=chosen.reasons)


def _rank_depth(one: VolumeDepth) -> int:
    """Return the place of a depth in their order; an unknown one comes last."""
    return len(Depth) if one.depth is None else one.depth.rank
