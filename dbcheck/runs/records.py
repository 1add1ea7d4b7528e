"""The records of one run as a folder holds them, and how its manifest is read."""

from __future__ import annotations

import re
from dataclasses import dataclass

from dbcheck.audit.rules import RULES
from dbcheck.model.cut import FaultRecord
from dbcheck.model.outage import OutageRecord
from dbcheck.model.records import (
    AfterRecord,
    CutAsked,
    LoadRecord,
    Manifest,
    RestoreRecord,
)
from dbcheck.rows.copied import CopyRecord
from dbcheck.runs import stored

_NAME = re.compile(r"[0-9A-Za-z_-][0-9A-Za-z._-]{0,99}")  # a safe file name


def can_name_folder(run_id: str) -> bool:
    """Return True if a folder, and a file of the state folder, can have that name."""
    return bool(_NAME.fullmatch(run_id))


def read_manifest(content: bytes, where: str) -> Manifest:
    """Read a stored manifest; raise RunFormatError, naming *where*, if invalid."""
    manifest = stored.from_bytes(content, Manifest, where)
    if manifest.family not in RULES:
        raise stored.damaged_record_error(
            where, f"no servers are of the family {manifest.family!r}"
        )
    if not can_name_folder(manifest.run_id):
        raise stored.damaged_record_error(where, f"{manifest.run_id!r} is not a run id")
    return manifest


@dataclass(frozen=True, slots=True)
class Recalled:
    """The records that came from a witness alone, with nothing here to verify them.

    A verdict on such a record rests on the witness alone.
    """

    manifest: bool = False
    load: bool = False


@dataclass(frozen=True, slots=True)
class StoredRun:
    """The records of a run whose survivors were read, as its folder holds them.

    load, cut_asked, restore, outage: None if the client was lost before it stored them.
    fault: None if no fault was to come beside the load.
    copy:  None if no copy was begun beside the load.
    """

    manifest: Manifest
    load: LoadRecord | None
    cut_asked: CutAsked | None
    restore: RestoreRecord | None
    after: AfterRecord
    recalled: Recalled
    outage: OutageRecord | None = None
    fault: FaultRecord | None = None
    copy: CopyRecord | None = None

    @property
    def tables(self) -> list[str]:
        """The names of the tables whose rows may be stored."""
        return sorted({*self.manifest.tables, *self.after.survivors})
