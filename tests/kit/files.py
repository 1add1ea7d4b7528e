"""Files of other users, and what a folder holds."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

STRANGER = 54321


def give_away(path: Path, patch: pytest.MonkeyPatch) -> None:
    """Make *path*, also if it is a link, another user's than the one that we are."""
    if os.geteuid() == 0:
        os.chown(path, STRANGER, -1, follow_symlinks=False)
    else:
        patch.setattr("os.geteuid", lambda: STRANGER)


AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give files away")
ACCOUNT = STRANGER  # of a database server


def contents(folder: Path) -> dict[str, str]:
    """Return what files and folders a folder holds, and the contents of the files."""
    return {
        str(path): path.read_text() if path.is_file() else ""
        for path in sorted(folder.rglob("*"))
    }


def let_write(folder: Path, uid: int) -> None:
    """Put another user into the folder's list of access (acl(5)), or skip the test.

    Its mode shows that as if its group might write there.
    """
    entries = [(1, 7, -1), (2, 7, uid), (4, 5, -1), (16, 7, -1), (32, 5, -1)]
    packed = b"".join(struct.pack("<HHi", *entry) for entry in entries)
    try:  # linux/posix_acl_xattr.h
        os.setxattr(folder, "system.posix_acl_access", struct.pack("<I", 2) + packed)
    except OSError as error:
        pytest.skip(f"no lists of access on this filesystem: {error}")
