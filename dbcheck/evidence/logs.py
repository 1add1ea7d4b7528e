"""Copies the logs of the witness into a bundle.

A log is evidence by its chain of digests, so it is copied as it is.  There is one
exception: at the end of the load dbcheck leaves its own record of the load in the log,
in case the client is lost.  That record names the nodes of a cluster, and what servers
answered.  In a redacted bundle it is the record that the bundle holds, and the frames
from there on are chained anew; acks, their order and the witness's times stay.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LogDamaged, RunFormatError, UsageError
from dbcheck.evidence.nodes import SHARE_REPORT
from dbcheck.evidence.scrub import Scrub
from dbcheck.model.records import LoadRecord
from dbcheck.model.witness import LOAD_EVENT, Json, Watermark
from dbcheck.runs import stored
from dbcheck.runs.folder import RunFolder
from dbcheck.runs.records import StoredRun
from dbcheck.witness.log import ChangedLog, LogScan, stream_file

_LOAD, _SEAL = "load", "seal"
_CHUNK_BYTES = 1 << 20
_OVERLAP_BYTES = 1 << 12


def is_plain_file(path: Path) -> bool:
    """Return True if a file is there; raise UsageError if it is a link or no file.

    A run folder may be another user's, whose links could name files of this one.
    """
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise UsageError(
            f"{path} is not a plain file",
            id=ErrorId.FILE_REPLACED,
            hint="dbcheck makes plain files alone: somebody replaced this one.",
        )
    return path.exists()


def copy_logs(
    run: RunFolder, records: StoredRun, copy: RunFolder, shown: StoredRun, scrub: Scrub
) -> None:
    """Copy the logs; store the record of the load anew if a log was changed.

    shown: the records of the copy.  Raise UsageError if a log holds what must not be in
    a bundle, and what may not be changed.
    """
    manifest, load = records.manifest, records.load
    confirmed: list[Watermark | None] = [None] * manifest.logs
    if load is not None:
        confirmed[: manifest.ack_logs] = load.watermarks
        if manifest.seen_log:
            confirmed[manifest.ack_logs] = load.seen_watermark
    before = list(confirmed)
    for number in range(manifest.logs):
        path = run.acks_path(number)
        if is_plain_file(path):
            scan = LogScan(
                stream_file(path), manifest.run_id, confirmed[number], number=number
            )
            target = copy.acks_path(number)
            confirmed[number] = _copy_log(path, target, scan, scrub)
    if confirmed != before and shown.load is not None:
        acks = tuple(confirmed[: manifest.ack_logs])
        seen = confirmed[-1] if manifest.seen_log else None
        copy.write_load(replace(shown.load, watermarks=acks, seen_watermark=seen))


def _copy_log(
    path: Path, target: Path, scan: LogScan, scrub: Scrub
) -> Watermark | None:
    """Copy a log; return what the witness had confirmed, as the copy has it."""

    def change(event: Json) -> Json:
        shown = _redact_load(event, scrub) if scrub.redacts else event
        rest = event if shown is event else {**shown, _LOAD: ""}
        if scrub.changes(rest):
            raise _not_clean_error(path)
        return shown

    made = ChangedLog(scan, change)
    try:
        stored.write_file(target, made)
    except LogDamaged:  # nothing can be read of it
        if _names_any(path, 0, scrub):
            raise _not_clean_error(path) from None
        shutil.copyfile(path, target)
        return scan.confirmed
    if made.changed:
        return made.confirmed
    if not _names_any(path, scan.tail.offset, scrub):
        shutil.copyfile(path, target)
    return scan.confirmed


def _redact_load(event: Json, scrub: Scrub) -> Json:
    """Return an event, with the record of the load that it holds redacted.

    The client's seal goes: it is of the record as it was.
    """
    content = event.get(_LOAD)
    if event.get("event") != LOAD_EVENT or not isinstance(content, str):
        return event
    try:
        record = stored.from_bytes(content.encode(), LoadRecord, _LOAD)
    except RunFormatError:
        return event
    shown = scrub.record(record)
    if shown == record:
        return event
    kept = {name: each for name, each in event.items() if name != _SEAL}
    return {**kept, _LOAD: stored.to_bytes(shown).decode()}


def _names_any(path: Path, offset: int, scrub: Scrub) -> bool:
    """Return True if a file names a host or a node from the byte *offset* on."""
    with path.open("rb") as file:
        file.seek(offset)
        before = b""
        while chunk := file.read(_CHUNK_BYTES):
            if scrub.names_any(before + chunk):
                return True
            before = chunk[-_OVERLAP_BYTES:]
    return False


def _not_clean_error(path: Path) -> UsageError:
    return UsageError(
        f"the witness's log of run {path.parent.name} names a host, or holds what"
        " looks like a secret, and it cannot be changed without breaking its"
        " chain of digests",
        id=ErrorId.REDACTION_NOT_POSSIBLE,
        hint=SHARE_REPORT,
    )
