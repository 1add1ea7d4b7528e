"""How deep a switch was once seen to go, where nothing flushed the drives meanwhile."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ReachedVolume:
    """One filesystem; depth: by name, "" if it was not measured."""

    filesystem_uuid: str
    depth: str


@dataclass(frozen=True, slots=True)
class Reached:
    """What dbcheck power test measured on an idle host.

    at: when, UTC, ISO 8601.  machine_id: of that host.
    lag_s: how long after its switch was asked the host was last heard, None if that is
           not known.
    """

    at: str
    machine_id: str
    volumes: tuple[ReachedVolume, ...]
    lag_s: float | None = None
