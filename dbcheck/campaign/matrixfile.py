"""The result of a matrix in a file of its own, beside the folders of its runs."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from dbcheck import stored
from dbcheck.judge.results import MatrixResult
from dbcheck.runs import new_run_id


def write_matrix(runs: Path, result: MatrixResult) -> Path:
    """Store *result* in the folder *runs*; return the file.

    Raise RunWriteError if it cannot be written.
    """
    stored.make_folder(runs)
    path = runs / f"matrix-{new_run_id(f'{datetime.now(UTC):%Y%m%d-%H%M%S}')}.json"
    stored.write(path, [stored.to_bytes(result)])
    return path


def read_matrix(path: Path) -> MatrixResult:
    """Read a stored result; raise RunFormatError if it is none, or is damaged."""
    return stored.read(path, MatrixResult)
