"""Removes the canaries that killed clients left on a target's host."""

from __future__ import annotations

from dbcheck.campaign.host import data_directory, require_own_data
from dbcheck.hosts.host import Cleared, TargetHost
from dbcheck.ports.engine import Engine
from dbcheck.rows.table import TABLES


def clear_canaries(host: TargetHost, engine: Engine) -> Cleared:
    """Remove canaries from wherever a run may have put them; raise HostError.

    A run puts them beside one of the places on each volume, or inside it.  Nothing is
    written there, and no directory that is not this server's is touched.
    """
    server = engine.facts()
    directory = data_directory(server)
    require_own_data(host, directory, server, lambda: "")
    facts = host.facts(directory, engine.places(TABLES))
    paths = dict.fromkeys(
        path for volume in facts.volumes for path in volume.places.values()
    )
    removed: dict[str, None] = {}
    kept: dict[str, str] = {}
    for path in paths:
        cleared = host.clear_canaries(path)
        removed |= dict.fromkeys(cleared.removed)
        kept |= cleared.kept
    return Cleared(tuple(removed), kept)
