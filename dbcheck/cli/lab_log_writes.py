"""dbcheck lab log-writes: what a lab recorded, for the tools of dm-log-writes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.cli.flags import shared
from dbcheck.cli.flags.groups import Verb
from dbcheck.cli.flags.values import FOLDER
from dbcheck.cli.output import write_file
from dbcheck.cli.say import say
from dbcheck.explore.acked import Acked
from dbcheck.explore.folder import Exploration
from dbcheck.lab.drive.logwrites import log_of
from dbcheck.lab.drive.recording import Recording
from dbcheck.runner.lab_rig import opened


@click.command("log-writes", cls=Verb)
@click.argument("folder", metavar="FOLDER", type=FOLDER)
@shared.written_to(
    "The file to make. If the lab had a log drive, FILE has the data's drive and "
    "FILE.log the log's.",
    required=True,
)
def command(folder: Path, file: Path) -> None:
    """Write what the drives recorded as logs of dm-log-writes.

    FOLDER is one that dbcheck lab explore made. Tools such as xfstests' replay-log
    rebuild states of the drive from such a log, on a device that is as large and holds
    zeros. Each ack of the recorded load is a mark, behind every flush that the drive
    had answered by then.
    """
    found = opened(Exploration.open(folder))
    acked, recordings = found.acked, found.timeline.recordings
    files = _files(file, recordings)
    for path, recording in zip(files, recordings, strict=True):
        marks, content = log_of(recording, _marks(acked))
        write_file(path, content)
        say(
            f"{path}: {len(recording):,} writes and {len(recording.flushes):,} flushes"
            f" of a drive of {recording.size_bytes:,} bytes, {marks:,} of"
            f" {len(acked):,} acks as marks"
        )


def _files(file: Path, recordings: Sequence[Recording]) -> list[Path]:
    """Return a new file for each drive; raise UsageError if one is there."""
    files = [file, file.with_name(f"{file.name}.log")][: len(recordings)]
    for path in files:
        if os.path.lexists(path):
            raise UsageError(
                f"{path} is there already",
                id=ErrorId.FILE_EXISTS,
                hint="Name a new file with -o, or remove that one.",
            )
    return files


def _marks(acked: Acked) -> Iterator[tuple[int, str]]:
    """Yield when each ack came, and its text."""
    for session, seq, row_id, acked_us in acked.each():
        yield acked_us, f"ack session {session} operation {seq} id {row_id}"
