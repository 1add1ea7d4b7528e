"""How deep a switch was once seen to go, where nothing flushed the drives meanwhile."""

from __future__ import annotations

from dataclasses import dataclass

from dbcheck.core.evidence import Item, Standing
from dbcheck.core.target import HostBefore

NAME = "switch's depth"


@dataclass(frozen=True, slots=True)
class ReachedVolume:
    """One filesystem; depth: by name, "" if it was not measured."""

    filesystem_uuid: str
    depth: str


@dataclass(frozen=True, slots=True)
class Reached:
    """What dbcheck power test measured on an idle host.

    at: when, UTC, ISO 8601.  machine_id: of that host.
    """

    at: str
    machine_id: str
    volumes: tuple[ReachedVolume, ...]


def reached_item(reached: Reached | None, before: HostBefore | None) -> Item | None:
    """Say how deep the same switch was seen to go on each place of this run.

    None if nothing is known of this very host.  It says nothing of this run's own cut,
    so nothing rests on it.
    """
    if reached is None or before is None:
        return None
    facts = before.facts
    if not facts.machine_id or facts.machine_id != reached.machine_id:
        return None
    depths = {v.filesystem_uuid: v.depth for v in reached.volumes if v.filesystem_uuid}
    said = [
        f"{depths.get(volume.filesystem_uuid) or 'unknown'} on {volume.named}"
        for volume in facts.volumes
    ]
    known = any(volume.filesystem_uuid in depths for volume in facts.volumes)
    if not known:
        return None
    when = f"power test of {reached.at}, on the idle host: {'; '.join(said)}"
    return Item(NAME, Standing.PRESENT, when, False)
