"""Store a finding of `dbcheck lab explore` for docs/findings/replay.py.

`python -m tools.findings.store FOLDER NUMBER FILE --log REASON [--log WORDS ...]`

FOLDER is the exploration's, NUMBER the finding's; the server logs REASON if it fails
so, and WORDS are shown as well.  FILE is compressed by xz: a line of JSON, then the
bytes of the drive as flushed ("base"), then those of each later write.
"""

from __future__ import annotations

import argparse
import json
import lzma
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dbcheck.explore.folder import Exploration
from dbcheck.explore.opened import Opened
from dbcheck.lab.drive.recording import Recording
from dbcheck.lab.machine import SERVERS
from dbcheck.lab.recorded import RecordedLab
from dbcheck.lab.servers.innodb import InnodbServer
from dbcheck.model.cut import Part
from dbcheck.model.explored import Finding, LostBlock
from dbcheck.runner.lab_rig import open_exploration

_PIECE = 4096  # of the base: zeros are left out piece by piece
_PROGRAMS = {"mysql": "mysqld", "mariadb": "mariadbd", "myrocks": "mariadbd"}
_OPTIONS = {
    "mysql": ("--secure-file-priv=NULL",),
    "mariadb": (),
    "myrocks": ("--plugin-load-add=ha_rocksdb", "--rocksdb=FORCE"),
}


def main(words: Sequence[str]) -> int:
    """Write the file; return 0."""
    parser = argparse.ArgumentParser(prog="python -m tools.findings.store")
    parser.add_argument("folder", type=Path)
    parser.add_argument("number", type=int)
    parser.add_argument("file", type=Path)
    parser.add_argument("--log", action="append", required=True)
    asked = parser.parse_args(words)
    exploration = Exploration.open(asked.folder)
    found = open_exploration(exploration)
    finding = next(f for f in exploration.findings() if f.number == asked.number)
    facts, content = stored(found, finding)
    facts["server"] = RecordedLab.read(exploration.recording).server
    facts["log"] = asked.log
    line = json.dumps(facts).encode() + b"\n"
    asked.file.write_bytes(
        lzma.compress(line + content, preset=9 | lzma.PRESET_EXTREME)
    )
    sys.stdout.write(f"{asked.file}: {asked.file.stat().st_size:,} bytes\n")
    return 0


def stored(found: Opened, finding: Finding) -> tuple[dict[str, Any], bytes]:
    """Return the facts of the smallest state of a finding, and the recorded bytes."""
    spec, (recording,) = found.spec, found.timeline.recordings
    state = finding.smallest.state
    moment = found.timeline.moments[state.moment]
    (held,), ((whole, parts),) = moment.drives, state.drives
    numbers = range(held.stable, held.arrived)
    base, content = _base(recording, held.stable)
    server = SERVERS[spec.engine]
    assert issubclass(server, InnodbServer)
    settings = {**server.durable, **spec.settings}
    options = [
        f"--{name.replace('_', '-')}={value}" for name, value in settings.items()
    ]
    facts = {
        "program": _PROGRAMS[spec.engine],
        "options": [*options, *_OPTIONS[spec.engine]],
        "tables": ["dbcheck.ledger"],
        "cut": f"{found.acked.count(moment.time_us):,} commits were acknowledged"
        " before the power loss",
        "lost": [_said(block) for block in finding.smallest.lost],
        "drive_bytes": recording.size_bytes,
        "base": base,
        "writes": [
            {
                "offset": recording.offsets[number],
                "length": recording.lengths[number],
                "ms_before": (moment.time_us - recording.times_us[number]) / 1e3,
                "kept": _kept(recording, number, whole, parts),
            }
            for number in numbers
        ],
    }
    return facts, content + b"".join(recording.write(n).content for n in numbers)


def _base(recording: Recording, stable: int) -> tuple[list[tuple[int, int]], bytes]:
    """Return where the drive holds anything after so many writes, and what."""
    drive = bytearray(recording.size_bytes)
    for offset, held in recording.base():
        drive[offset : offset + len(held)] = held
    for number in range(stable):
        write = recording.write(number)
        drive[write.offset : write.offset + len(write.content)] = write.content
    places: list[tuple[int, int]] = []
    content = bytearray()
    for at in range(0, len(drive), _PIECE):
        piece = drive[at : at + _PIECE]
        if any(piece):
            if places and sum(places[-1]) == at:
                places[-1] = (places[-1][0], places[-1][1] + len(piece))
            else:
                places.append((at, len(piece)))
            content += piece
    return places, bytes(content)


def _kept(
    recording: Recording, number: int, whole: int, parts: Sequence[Part]
) -> list[tuple[int, int]]:
    """Return begin and length of each part of a write that survives."""
    if number < whole:
        return [(0, recording.lengths[number])]
    return [(begin, length) for write, begin, length in parts if write == number]


def _said(block: LostBlock) -> str:
    file = (
        block.file or "no file: the filesystem's journal or metadata, or a removed file"
    )
    at = f" at {block.at:,}" if block.at >= 0 else ""
    return (
        f"{block.length:,} bytes of {file}{at}, written {block.age_ms:.1f} ms before"
        " the power loss"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
