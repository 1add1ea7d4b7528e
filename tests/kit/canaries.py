"""Canaries of tests: quick ones, and hand-made files."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from typing import Any

from dbcheck.agent.host.canary import RUN, read_survivors
from dbcheck.agent.host.folder import MARKER
from dbcheck.hosts.canary import Canaries, Pace
from dbcheck.hosts.host import TargetHost
from dbcheck.model.depth import DepthFinding, Ground, find_depth

QUICK = Pace(direct_per_s=500, ring_blocks=64, rings=2, file_bytes=1 << 14)
EXT4 = Ground("ext4")  # whatever it is here: what is lost was planted


def wrote(canaries: Canaries, number: int) -> bool:
    done = canaries.completed()
    return min(done.buffered.last, *(ring.last for ring in done.direct)) >= number


def judge(host: TargetHost, canaries: Canaries) -> DepthFinding:
    left = host.read_canaries(canaries.folder, canaries.nonce)
    return find_depth(canaries.completed(), left, EXT4)


def is_free(folder: Path) -> bool:
    """Say whether no canaries write in a folder."""
    with (folder / MARKER).open("rb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def pace(data: Path) -> dict[str, Any]:
    return {
        "data_directory": str(data),
        "folder": "",
        "nonce": "00" * 16,
        "direct_per_s": 4000,
        "buffered_per_s": 2000,
        "report_us": 0,
        "rings": 2,
        "ring_blocks": 8,
        "file_bytes": 4096,
    }


def open_files(folder: str) -> list[str]:
    links = (Path(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd"))
    paths = [os.readlink(link) for link in links if link.is_symlink()]
    return [path for path in paths if path.startswith(folder)]


NONCE = bytes(range(16))


def made(folder: Path, **files: bytes) -> dict[str, Any]:
    run: dict[str, Any] = {"nonce": NONCE.hex(), "rings": 1, "ring_blocks": 4}
    run["records_per_file"] = 5
    (folder / RUN).write_text(json.dumps(run))
    for name, content in files.items():
        (folder / name.replace("_", "-")).write_bytes(content)
    return read_survivors(str(folder))
