"""Which lines of the kernel's log belong to a mount that failed."""

from __future__ import annotations

import pytest

from dbcheck.lab.storage.filesystem import _is_about_other_device


@pytest.mark.parametrize(
    ("line", "another"),
    [
        ("XFS (loop1): Corruption detected!", False),
        ("xfs: Unknown parameter 'nobarrier'", False),
        ("XFS (loop11): Starting recovery (logdev: internal)", True),
        ("EXT4-fs error (device loop0): ext4_lookup:1858", True),
        ("I/O error, dev loop1, sector 8; XFS (loop2): log I/O error -5", True),
    ],
)
def test_a_line_about_another_lab_s_device_is_left_out(
    line: str, another: bool
) -> None:
    assert _is_about_other_device("/dev/loop1", line) is another
