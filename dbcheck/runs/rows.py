"""Reads the files of rows in a run folder."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np

from dbcheck.base import plain
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import RunFormatError
from dbcheck.model.records import StoredRows
from dbcheck.rows.survivors import RECORD, Records
from dbcheck.runs import stored

_RECORDS_PER_READ = 1 << 16


def read_rows(path: Path, stored_rows: StoredRows) -> Iterator[Records]:
    """Stream the rows.survivors.RECORDs in *path*.

    Raise RunFormatError if they are not those that *stored_rows* describes.
    """
    digest, rows = hashlib.sha256(), 0
    try:
        with plain.opened(path) as file:
            while content := file.read(_RECORDS_PER_READ * RECORD.itemsize):
                digest.update(content)
                whole = len(content) // RECORD.itemsize
                rows += whole
                yield np.frombuffer(content, RECORD, whole)
    except OSError as error:
        raise RunFormatError(
            f"{path} cannot be read: {error.strerror}",
            id=ErrorId.STORED_ROWS_MISSING,
            hint="A campaign keeps the rows of cycles that passed no longer than"
            " it takes to judge them.",
        ) from None
    if StoredRows(rows, digest.hexdigest()) != stored_rows:
        raise RunFormatError(
            f"{path} is damaged: its checksum differs from what was stored",
            id=ErrorId.STORED_ROWS_DAMAGED,
            hint="Read the survivors again with the witness's copy of the run: "
            "dbcheck reconcile --witness URL --run ID --target URL.",
        )


class _Id(msgspec.Struct):
    row_id: int


def read_ids(path: Path) -> list[int] | None:
    """Return the ids of the rows in *path*, a line of JSON each; None if it is missing.

    Raise RunFormatError if it is damaged.
    """
    try:
        with plain.opened(path) as file:
            return [msgspec.json.decode(line, type=_Id).row_id for line in file]
    except FileNotFoundError:
        return None
    except OSError as error:
        raise stored.unreadable(path, error) from None
    except (msgspec.DecodeError, UnicodeError) as error:
        raise RunFormatError(
            f"{path} is damaged: {error}", id=ErrorId.RECORD_DAMAGED
        ) from None
