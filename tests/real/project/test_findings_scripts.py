"""A script of docs/findings shows its finding, and none where the server is right."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from dbcheck.lab.machine import SERVERS
from tests.kit.servers import skip_without_server
from tests.kit.waiting import wait_until
from tools.findings import CANNOT_RUN, SCRIPTS, SEEN, UNSEEN

_SCRIPT = SCRIPTS["mariadb-first-page"]


@pytest.fixture
def folder() -> Iterator[Path]:
    """Give a folder for temporary files that every account can reach."""
    with tempfile.TemporaryDirectory(prefix="dbcheck-") as name:
        Path(name).chmod(0o777)
        yield Path(name)


def command(engine: str) -> list[str]:
    """Return the command that runs the script with that server."""
    skip_without_server(engine)
    kind = SERVERS[engine]
    server = kind.find("mysqld" if engine == "mysql" else "mariadbd")
    return [sys.executable, "-u", str(_SCRIPT), "--server", str(server), "--tear=512"]


def processes(folder: Path) -> list[str]:
    """Return the ids of the processes whose command line has that folder."""
    lines = {
        path.parent.name: path.read_bytes()
        for path in Path("/proc").glob("[0-9]*/cmdline")
        if path.exists()
    }
    return [pid for pid, line in lines.items() if str(folder).encode() in line]


def test_it_exits_with_0_where_the_finding_shows(folder: Path) -> None:
    done = subprocess.run(
        command("mariadb"), env={"TMPDIR": str(folder)}, capture_output=True, text=True
    )
    assert done.returncode == SEEN, done.stdout + done.stderr
    assert "control, nothing torn: a 800 b 20; CHECK TABLE OK" in done.stdout
    assert "ERROR 1877" in done.stdout
    assert not list(folder.iterdir())


def test_it_exits_with_1_with_a_server_that_restores_the_page(folder: Path) -> None:
    """MySQL does what MariaDB should."""
    done = subprocess.run(
        command("mysql"), env={"TMPDIR": str(folder)}, capture_output=True, text=True
    )
    assert done.returncode == UNSEEN, done.stdout + done.stderr
    assert done.stdout.endswith("\nNOT SEEN\n")
    assert not processes(folder)


def test_interrupted_it_leaves_no_process_and_no_folder(folder: Path) -> None:
    script = subprocess.Popen(
        command("mariadb"), env={"TMPDIR": str(folder)}, stdout=subprocess.PIPE
    )
    with script:
        assert script.stdout is not None
        script.stdout.readline()  # its first line: the server runs
        assert processes(folder)
        script.send_signal(signal.SIGINT)
        assert b"cannot run: ended by a signal" in script.stdout.read()
    assert script.returncode == CANNOT_RUN
    wait_until(lambda: not processes(folder), "the server's end")
    assert not list(folder.iterdir())
