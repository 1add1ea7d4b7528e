"""Writes numbers to the volumes of a server while it is copied, and reads the copies.

They show whether the volumes were copied at one moment (restore/volumes.py).
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator
from dataclasses import replace

from dbcheck.base.errors import HostError
from dbcheck.cycle.rig import Rig
from dbcheck.ports.listener import Phase
from dbcheck.ports.site import VolumeWatch
from dbcheck.restore.volumes import describe_apart, find_numbers
from dbcheck.rows.copied import VolumesRecord
from dbcheck.runs.folder import RunFolder

_NONCE_BYTES = 16


class WatchedVolumes:
    """The volumes of a server, to which numbers are written until the body ends."""

    def __init__(self, watch: VolumeWatch | None) -> None:
        """Use watched_volumes() instead."""
        self._watch, self.nonce = watch, secrets.token_hex(_NONCE_BYTES)

    def begin(self) -> VolumesRecord | None:
        """Return the record of just before the copy is begun; None without volumes."""
        if self._watch is None:
            return None
        record = VolumesRecord(self.nonce, folders=self._watch.folders)
        try:
            steps = self._watch.count()
        except HostError as error:
            return replace(record, failure=str(error))
        return replace(record, before=steps.completed, failure=steps.stopped)

    def end(self, record: VolumesRecord | None) -> VolumesRecord | None:
        """Return *record* with how far the numbers came until the copy was complete."""
        if self._watch is None or record is None or record.failure:
            return record
        try:
            steps = self._watch.count()
        except HostError as error:
            return replace(record, failure=str(error))
        return replace(
            record,
            after=None if steps.stopped else steps.begun,
            longest_s=steps.longest_s,
            failure=steps.stopped,
        )


@contextlib.contextmanager
def watched_volumes(rig: Rig) -> Iterator[WatchedVolumes]:
    """Have numbers written to the volumes of *rig*'s server while the body runs.

    Raise HostError, before anything else is done, if that is not possible.
    """
    watch = rig.copying.volumes if rig.copying else None
    watched = WatchedVolumes(watch)
    if watch is None:
        yield watched
        return
    watch.start(watched.nonce)
    try:
        yield watched
    finally:
        watch.stop()


def read_volumes(rig: Rig, run: RunFolder) -> str:
    """Read the restored volumes, if that is asked, and store what is found.

    Return which one is older, as a clause, "" if none is, or that is not known.  If
    they could not be read before, they are read again.
    """
    copy, watch = run.copy(), rig.copying.volumes if rig.copying else None
    record = copy.volumes if copy else None
    if copy is None or record is None or record.after is None:
        return ""
    record = replace(record, failure="")
    if watch is None:
        failure = "how to read the restored volumes is not known"
        record = replace(record, failure=failure)
    elif watch.folders != record.folders:
        failure = "other volumes are named now than when the copy was taken"
        record = replace(record, failure=failure)
    else:
        try:
            found = watch.read(run.manifest().run_id, record.nonce)
            record = replace(record, numbers=find_numbers(found))
        except HostError as error:
            rig.listener.phase(Phase.RESTORE, f"volumes not read: {error}")
            record = replace(record, failure=str(error))
    run.write_copy(replace(copy, volumes=record))
    return describe_apart(record)
