"""docs/findings/replay.py says "seen" of a recording only if the server showed it."""

from __future__ import annotations

import json
import lzma
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.kit.waiting import wait_until

FINDINGS = Path(__file__).parents[3] / "docs/findings"
RECORDING = FINDINGS / "recordings/mariadb-rebuilt-table.xz"
REPLAY = FINDINGS / "replay.py"
BLOCK = 4096
LOG_HEADER = b"Phys"  # of MariaDB's redo log, log0log.h: FORMAT_10_8

pytestmark = pytest.mark.root


def replay(recording: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(REPLAY), str(recording), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def stored() -> tuple[dict[str, Any], bytes]:
    """Return a recording whose power loss takes nothing, whatever the release."""
    with lzma.open(RECORDING) as file:
        facts, content = json.loads(file.readline()), file.read()
    for write in facts["writes"]:
        write["kept"] = [[0, write["length"]]]
    return facts, content


def store(path: Path, facts: dict[str, Any], content: bytes) -> Path:
    line = json.dumps(facts).encode() + b"\n"
    path.write_bytes(lzma.compress(line + content, preset=0))
    return path


def without_log_header(facts: dict[str, Any], content: bytes) -> bytes:
    """Add a write that is lost: of the redo log's header, without which none starts."""
    at = 0
    for offset, length in facts["base"]:
        for begin in range(0, length, BLOCK):
            place = at + begin
            if content[place : place + 4] == LOG_HEADER:
                written = {"offset": offset + begin, "length": BLOCK, "kept": []}
                facts["writes"].append(written)
                header = content[place : place + BLOCK]
                after = place + BLOCK
                return content[:place] + bytes(BLOCK) + content[after:] + header
        at += length
    raise AssertionError("the recording has no redo log")


def test_a_server_that_does_not_start_is_seen(tmp_path: Path) -> None:
    facts, content = stored()
    facts["log"] = ["InnoDB"]
    content = without_log_header(facts, content)
    done = replay(store(tmp_path / "lost.xz", facts, content))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "check\tstatus\tOK\n811" in done.stdout
    assert done.stdout.count("The server does not start.") == 1


def test_for_another_reason_it_is_not_seen(tmp_path: Path) -> None:
    facts, content = stored()
    facts["log"] = ["Missing FILE_CREATE", "InnoDB"]  # the others are shown as well
    content = without_log_header(facts, content)
    done = replay(store(tmp_path / "lost.xz", facts, content))
    assert done.returncode == 1, done.stdout + done.stderr


def test_a_server_that_starts_is_not_seen(tmp_path: Path) -> None:
    done = replay(store(tmp_path / "whole.xz", *stored()))
    assert done.returncode == 1, done.stdout + done.stderr
    assert done.stdout.count("check\tstatus\tOK\n811") == 2


def test_without_a_control_that_recovers_it_could_not_be_tried() -> None:
    done = replay(RECORDING, "--", "--innodb-no-such-option")
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stdout.count("The server does not start.") == 1


def test_a_server_older_than_the_recording_is_refused(tmp_path: Path) -> None:
    facts, content = stored()
    facts["server"] = "Ver 99.1.0-MariaDB"
    done = replay(store(tmp_path / "newer.xz", facts, content))
    assert done.returncode == 2
    assert "is of an older release" in done.stdout
    assert "Control" not in done.stdout


def test_half_a_recording_could_not_be_tried(tmp_path: Path) -> None:
    half = tmp_path / "half.xz"
    half.write_bytes(RECORDING.read_bytes()[:100_000])
    done = replay(half)
    assert done.returncode == 2
    assert "cannot run: " in done.stdout
    assert not done.stderr


def test_without_a_server_it_says_what_it_needs(tmp_path: Path) -> None:
    done = replay(RECORDING, "--client", str(tmp_path / "none"))
    assert done.returncode == 2
    assert "--client" in done.stdout


@contextmanager
def recovering(folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Give a replay whose server runs, and the server's pid."""
    facts, content = stored()
    recording = store(folder / "whole.xz", facts, content)
    command = [sys.executable, str(REPLAY), str(recording)]
    environment = os.environ | {"TMPDIR": str(folder)}
    output = subprocess.DEVNULL
    with subprocess.Popen(command, env=environment, stdout=output) as process:
        try:
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
            wait_until(lambda: bool(servers(children)), "its server runs")
            yield process, servers(children)[0]
        finally:
            process.kill()


def servers(children: Path) -> list[int]:
    """Return which of a process's children are MariaDB servers."""
    pids = [int(pid) for pid in children.read_text().split()]
    return [pid for pid in pids if name_of(pid) == "mariadbd"]


def name_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_stays_when_it_is_ended(tmp_path: Path, number: signal.Signals) -> None:
    with recovering(tmp_path) as (process, server):
        process.send_signal(number)
        process.wait()
        wait_until(lambda: name_of(server) != "mariadbd", "its server has ended")
    wait_until(lambda: not backed_by(tmp_path), "its loop device is gone")
    assert str(tmp_path) not in Path("/proc/self/mounts").read_text()
    if number != signal.SIGKILL:
        assert [each.name for each in tmp_path.iterdir()] == ["whole.xz"]


def backed_by(folder: Path) -> list[str]:
    """Return the loop devices whose file is in *folder*."""
    files = Path("/sys/block").glob("loop*/loop/backing_file")
    return [str(file) for file in files if str(folder) in read(file)]


def read(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:  # the device was detached meanwhile
        return ""
