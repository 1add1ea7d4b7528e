"""What a host's own records tell of an orderly shutdown."""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path

import pytest

from dbcheck.agent.host import journal as host_shutdown

SINCE_S = 1_700_000_000
BOOT, RUN_LEVEL, USER = 2, 1, 7  # utmp(5)


def record(kind: int, user: str, seconds: int, *, wide: bool = False) -> bytes:
    """Return a struct utmp of x86-64, or of aarch64 if *wide*."""
    head = struct.pack(
        "<hxxi32s4s32s256s4s", kind, 0, b"~", b"~~", user.encode(), b"6.1", b""
    )
    tail = "<i4xqq16s20s4x" if wide else "<iii16s20s"
    return head + struct.pack(tail, 0, seconds, 5, b"", b"")


SHUT = (RUN_LEVEL, "shutdown")
BOOTED = (BOOT, "reboot")


@pytest.mark.parametrize("wide", [False, True], ids=["x86-64", "aarch64"])
@pytest.mark.parametrize(
    ("written", "found"),
    [
        pytest.param([(*BOOTED, -9), (*SHUT, 3), (*BOOTED, 60)], True, id="shut down"),
        pytest.param([(*BOOTED, -9), (*BOOTED, 60)], False, id="cut"),
        pytest.param([(*SHUT, -20), (*BOOTED, -9)], False, id="shut down before"),
        pytest.param(
            [(*BOOTED, 60), (*SHUT, 90), (*BOOTED, 99)], False, id="cut, then rebooted"
        ),
        pytest.param([(USER, "shutdown", 3)], False, id="a person of that name"),
        pytest.param([], False, id="empty"),
    ],
)
def test_wtmp(
    written: list[tuple[int, str, int]], found: bool, wide: bool, tmp_path: Path
) -> None:
    path = tmp_path / "wtmp"
    path.write_bytes(
        b"".join(
            record(kind, user, SINCE_S + after_s, wide=wide)
            for kind, user, after_s in written
        )
    )
    assert host_shutdown.is_shutdown_in_wtmp(str(path), SINCE_S * 1_000_000) is found


def test_last_reads_the_records_of_this_test(tmp_path: Path) -> None:
    """They are what the machine's own last(1) takes for a shutdown."""
    path = tmp_path / "wtmp"
    path.write_bytes(record(*SHUT, SINCE_S) + record(*BOOTED, SINCE_S + 60))
    try:
        done = subprocess.run(
            ["last", "-x", "-f", str(path)], capture_output=True, text=True, check=True
        )
    except FileNotFoundError:
        pytest.skip("needs last")
    assert "shutdown system down" in done.stdout
    assert "reboot   system boot" in done.stdout


@pytest.mark.parametrize("content", [None, b"x" * 385])
def test_a_wtmp_that_cannot_be_read_tells_nothing(
    content: bytes | None, tmp_path: Path
) -> None:
    path = tmp_path / "wtmp"
    if content is not None:
        path.write_bytes(content)
    assert not host_shutdown.is_shutdown_in_wtmp(str(path), 0)


JOURNALCTL = """#!/bin/sh
echo "$@" > "$0.asked"
{what}
"""


@pytest.mark.parametrize(
    ("what", "line"),
    [
        ("echo 'System is powering down.'; echo 'Journal stopped'", "System is"),
        ("true", ""),
        ("echo 'Failed to look up boot' >&2; exit 1", ""),
    ],
)
def test_the_journal_of_that_boot_is_asked(
    what: str, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its output is made up: no test can shut down the machine that it runs on."""
    program = tmp_path / "journalctl"
    program.write_text(JOURNALCTL.format(what=what))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    found = host_shutdown.find_shutdown_in_journal("a1-b2", SINCE_S * 1_000_000)
    assert found.startswith(line) and bool(found) == bool(line)
    asked = Path(f"{program}.asked").read_text()
    assert "--boot=a1b2" in asked
    assert f"--since=@{SINCE_S}" in asked
