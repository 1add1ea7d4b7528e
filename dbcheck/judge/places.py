"""What is known of the drives below the places that an ack depends on."""

from __future__ import annotations

from collections.abc import Sequence

from dbcheck.judge.case import Case
from dbcheck.judge.cutmoment import cut_us
from dbcheck.judge.item import Item, ItemId, Standing
from dbcheck.judge.volumes import hidden_drives
from dbcheck.judge.watched import how_changed
from dbcheck.model.host import Volume
from dbcheck.model.layers import kinds
from dbcheck.model.places import Place, outside


def places(case: Case) -> Item | None:
    """Return on which drives the places lie, as far as that is known.

    None if no host was asked and the server names none outside its data directory.
    """
    before, went_us = case.before, cut_us(case)
    if case.strayed:
        reason = "; ".join(how_changed(each, went_us) for each in case.strayed)
        reason += "; how deep the cut would have gone there is not known"
        return Item(ItemId.PLACES, Standing.CONTRADICTED, reason, required=False)
    if case.moved:
        reason = "; ".join(f"{name} moved: {why}" for name, why in case.moved.items())
        reason += "; its depth, and what it lies on, were measured where it was before"
        return Item(ItemId.PLACES, Standing.CONTRADICTED, reason, required=False)
    if case.seen_otherwise:
        reason = "; ".join(f"{n}: {text}" for n, text in case.seen_otherwise.items())
        reason += "; what it lies on, and its depth, are not known"
        return Item(ItemId.PLACES, Standing.CONTRADICTED, reason, required=False)
    if before is None:
        return _not_inspected(case.tested.places)
    facts = before.facts
    reason = "; ".join(map(_on_its_layers, facts.volumes))
    unseen = hidden_drives(facts.volumes)
    unseen += [
        f"{place} was not inspected ({why})" for place, why in facts.unseen.items()
    ]
    unseen += [
        f"no canaries are on {volume.named} ({canaries.failure})"
        for volume, canaries in zip(facts.volumes[1:], before.elsewhere, strict=True)
        if canaries.failure
    ]
    standing = Standing.NOT_OBSERVABLE if unseen else Standing.PRESENT
    if why := _view_unread(case):
        unseen.append(f"that the server finds the same files there is assumed ({why})")
        standing = Standing.NOT_OBSERVABLE if len(unseen) > 1 else Standing.ASSUMED
    reason = "; ".join((*unseen, reason))
    return Item(ItemId.PLACES, standing, reason, required=False)


def _view_unread(case: Case) -> str:
    """Return why it is not known what the server finds at its paths, "" if it is.

    A lab starts its server and its host's sshd with one set of mounts.
    """
    if case.manifest.rung is not None:
        return ""
    facts = [each.facts for each in (case.before, case.host) if each and each.facts]
    return next(filter(None, (each.view_unread for each in facts)), "")


def _on_its_layers(volume: Volume) -> str:
    """Return what a place lies on, e.g. "xfs on dm-crypt, LVM: data (sda)"."""
    between = ", ".join(kinds(volume.layers))
    on = f" on {between}" if between else ""
    return f"{volume.filesystem}{on}: {volume.named}"


def _not_inspected(named_by_server: Sequence[Place]) -> Item | None:
    apart = outside(named_by_server)
    if not apart:
        return None
    named = ", ".join(f"{place.name} ({place.path or 'unknown'})" for place in apart)
    reason = (
        f"outside of the data directory: {named}; on which drives is not known "
        "(add --target-host)"
    )
    return Item(ItemId.PLACES, Standing.NOT_OBSERVABLE, reason, required=False)


def switch_depth(case: Case) -> Item | None:
    """Say how deep the same switch was seen to go on each place of this run.

    None if nothing is known of this very host.  It does not show the depth of this
    run's own cut, so nothing rests on it.
    """
    reached, before = case.tested.reached, case.before
    if reached is None or before is None:
        return None
    facts = before.facts
    if not facts.machine_id or facts.machine_id != reached.machine_id:
        return None
    depths = {v.filesystem_uuid: v.depth for v in reached.volumes if v.filesystem_uuid}
    shown = [
        f"{depths.get(volume.filesystem_uuid) or 'unknown'} on {volume.named}"
        for volume in facts.volumes
    ]
    known = any(volume.filesystem_uuid in depths for volume in facts.volumes)
    if not known:
        return None
    when = f"power test of {reached.at}, on the idle host: {'; '.join(shown)}"
    return Item(ItemId.SWITCH_DEPTH, Standing.PRESENT, when, required=False)
