"""Filesystems in files, attached as drives, and mounts that were known of them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from dbcheck.lab.storage import filesystem as block
from dbcheck.lab.storage.filesystem import LoopDevice, mkfs

SIZES = {"ext4": 64 << 20, "xfs": 320 << 20}


def make_filesystem(image: Path, kind: str) -> None:
    """Make a new file that holds a filesystem of that kind."""
    with image.open("wb") as file:
        file.truncate(SIZES[kind])
    with attached(image) as device:
        mkfs(device.path, kind)


def attached(image: Path) -> LoopDevice:
    descriptor = os.open(image, os.O_RDWR)
    try:
        return block.attach(descriptor)
    finally:
        os.close(descriptor)


def mount_of(kind: str, device: LoopDevice, point: Path) -> dict[str, Any]:
    """Return what was known of a mount before the drive was cut."""
    name = Path(device.path).name
    known = {"id": -1, "point": str(point), "type": kind, "options": "rw,relatime"}
    place = {"serial": device.serial, "nsid": "", "number": "0"}
    return {**known, **place, "name": name, "device": "0:0"}
