"""When the drives below the logs of a server were surely flushed last, before a cut.

An honest drive that loses power keeps what it completed before its last flush began.
So where older writes are gone, with all that came after, more than its cache was lost:
it ignored that flush, or the storage came back in an older state.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dbcheck.judge.unsafe import unsafe_settings
from dbcheck.judge.volumes import storage_seen
from dbcheck.model.host import Volume
from dbcheck.model.places import LOGS
from dbcheck.model.records import LoadRecord, Manifest

_NONE: Mapping[str, int] = {}


def flushed_us(
    manifest: Manifest, name: str, load: LoadRecord | None
) -> Mapping[str, int]:
    """Return a moment after which a drive of the writer was flushed, by its name.

    name: of the node that was cut; nothing is known of another than the writer.
    On the client's monotonic clock, in microseconds: when the newest commit that was
    answered was sent.  It is taken to have flushed a drive that got a flush for each
    commit, or more.  Other writers may have sent those, so nothing is claimed where
    commits may need none: under settings that relax them, as in a control, on storage
    that changed meanwhile, or with FUA.
    """
    before, seen = manifest.nodes[name].host, load.nodes.get(name) if load else None
    if load is None or name != manifest.writer_name or not (before and seen):
        return _NONE
    done, sent_us = seen.drives, load.sent_us
    if done is None or sent_us is None:
        return _NONE
    if _relaxed(manifest, load, name) or storage_seen(manifest, load, name):
        return _NONE
    names = set(_of_logs(before.facts.volumes))
    return {
        drive: sent_us
        for drive, counts in done.drives.items()
        if drive in names and 0 < done.acked <= (counts.flushes or 0)
    }


def _relaxed(manifest: Manifest, load: LoadRecord, name: str) -> bool:
    """Say whether commits may have been answered before they were flushed.

    A setting that could not be read may allow that.
    """
    found = unsafe_settings(manifest, load, name, None)
    relaxes = any(each.harm.depth and not each.harm.tears for each in found)
    return manifest.control or relaxes


def _of_logs(volumes: tuple[Volume, ...]) -> Iterator[str]:
    """Yield the drives below the logs, but for those that may take writes with FUA.

    Such a write needs no flush, and flushes nothing else.
    """
    for volume in volumes:
        fua = any(layer.fua == "1" for layer in volume.layers)
        if not fua and not volume.places.keys().isdisjoint(LOGS):
            yield from volume.file_drives
