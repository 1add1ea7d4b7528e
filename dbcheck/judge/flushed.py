"""When the drives below the logs of a server were surely flushed last, before a cut.

An honest drive that loses power keeps what it completed before its last flush began.
So where older writes are gone, with all that came after, more than its cache was lost:
it ignored that flush, or the storage came back in an older state.
"""

from __future__ import annotations

from collections.abc import Mapping

from dbcheck.core.places import LOGS
from dbcheck.core.records import LoadRecord, Manifest

_NONE: Mapping[str, int] = {}


def flushed_us(
    manifest: Manifest, name: str, load: LoadRecord | None
) -> Mapping[str, int]:
    """Return a moment after which a drive of the writer was flushed, by its name.

    name: of the node that was cut; nothing is known of another than the writer.
    On the client's monotonic clock, in microseconds.  The last commit that was answered
    was sent before that by no more than the slowest of all took.  It needed a flush of
    a drive that was sent enough of them for all commits (see judge.commitflush).
    """
    before, seen = manifest.nodes[name].host, load.nodes.get(name) if load else None
    if load is None or name != manifest.writer_name or not (before and seen):
        return _NONE
    done, slowest_ms = seen.drives, load.latency_ms.get("max")
    if done is None or load.last_ack_us is None or slowest_ms is None:
        return _NONE
    sent_us = load.last_ack_us - int(slowest_ms * 1000)
    sessions = manifest.workload.sessions + bool(manifest.workload.housekeeping)
    names = {
        drive
        for volume in before.facts.volumes
        if not volume.places.keys().isdisjoint(LOGS)
        for drive in volume.file_drives
    }
    return {
        drive: sent_us
        for drive, counts in done.drives.items()
        if drive in names and 0 < done.acked <= sessions * (counts.flushes or 0)
    }
