"""Where a server's log is: what the server says, and its service's journal."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dbcheck.agent.host import journal as host_journal
from dbcheck.agent.host import log as host_log
from dbcheck.agent.host import process as host_process
from dbcheck.agent.host import servers as host_servers
from dbcheck.agent.wire import Refusal
from dbcheck.engines.mysql.places import innodb_log
from dbcheck.engines.postgresql.places import postgresql_log
from dbcheck.model.host import COLLECTOR, JOURNAL, STDERR
from tests.kit.files import ACCOUNT, AS_ROOT

JOURNALCTL = """#!/bin/sh
case "$*" in
*--lines=1*_SYSTEMD_UNIT=mariadb.service) echo "ready for connections";;
*--since=@*_SYSTEMD_UNIT=mariadb.service) echo "Starting crash recovery";;
esac
"""
PIPES: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
RENAMED = """
import ctypes, sys
PR_SET_NAME = 15
ctypes.CDLL(None).prctl(PR_SET_NAME, b"postgres", 0, 0, 0)
print(flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize(
    ("variables", "where"),
    [
        ({"log_error": "/var/log/m.err", "datadir": "/d/"}, "/var/log/m.err"),
        ({"log_error": "./m.err", "datadir": "/d/"}, "/d/./m.err"),
        ({"log_error": "stderr", "datadir": "/d/"}, "stderr:/d/"),
        ({"log_error": "", "datadir": "/d/"}, "stderr:/d/"),
        (
            {
                "log_error": "/var/log/m.err",
                "log_error_services": "log_filter_internal; log_sink_syseventlog",
                "datadir": "/d/",
            },
            "journal:/d/",
        ),
        (
            {
                "log_error": "/var/log/m.err",
                "log_error_services": "log_sink_internal; log_sink_syseventlog",
                "datadir": "/d/",
            },
            "/var/log/m.err",
        ),
        ({"datadir": "/d/"}, ""),
    ],
)
def test_where_mysql_logs(variables: dict[str, str], where: str) -> None:
    assert innodb_log(variables) == where


@pytest.mark.parametrize(
    ("settings", "where"),
    [
        ({"logging_collector": "on", "log_directory": "log"}, "collector:/d//d/log"),
        ({"logging_collector": "on", "log_directory": "//l"}, "collector:/d//l"),
        ({"logging_collector": "on"}, ""),
        ({"logging_collector": "off", "log_destination": "stderr"}, "stderr:/d"),
        ({"logging_collector": "off", "log_destination": "stderr,syslog"}, "stderr:/d"),
        ({"logging_collector": "off", "log_destination": "syslog"}, "journal:/d"),
        ({"logging_collector": "off", "log_destination": "csvlog"}, ""),
        (
            {
                "logging_collector": "on",
                "log_destination": "syslog",
                "log_directory": "log",
            },
            "journal:/d",
        ),
        ({"data_directory": "", "logging_collector": "off"}, ""),
    ],
)
def test_where_postgresql_logs(settings: dict[str, str], where: str) -> None:
    assert postgresql_log({"data_directory": "/d", **settings}) == where


@pytest.fixture
def processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A made-up /proc and journalctl: no test has a machine that systemd runs."""
    folder = tmp_path / "proc"
    for pid, cwd, unit, comm in (
        (6, "data", "user@0.service", "bash"),
        (7, "other", "x.service", "nginx"),
        (8, "data", "mariadb.service", "mariadbd"),
    ):
        (tmp_path / cwd).mkdir(exist_ok=True)
        (folder / str(pid) / "fd").mkdir(parents=True)
        (folder / str(pid) / "cwd").symlink_to(tmp_path / cwd)
        (folder / str(pid) / "cgroup").write_text(f"0::/system.slice/{unit}\n")
        (folder / str(pid) / "comm").write_text(f"{comm}\n")
    monkeypatch.setattr(host_servers, "PROCESSES", str(folder))
    program = tmp_path / "bin" / "journalctl"
    program.parent.mkdir()
    program.write_text(JOURNALCTL)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    return folder


def test_the_journal_of_the_servers_own_service_is_read(
    processes: Path, tmp_path: Path
) -> None:
    path = f"{host_journal.JOURNAL}{tmp_path}/data"
    marks = host_log.mark_log(path)
    assert list(marks) == ["mariadb.service"]
    found = host_log.read_since(path, marks, 100)
    assert (found["text"], found["truncated"]) == ("Starting crash recovery\n", False)
    assert host_log.read_since(path, marks, 5)["truncated"]
    assert (host_journal.JOURNAL, host_log.STDERR) == (JOURNAL, STDERR)
    assert host_log.COLLECTOR == COLLECTOR


@pytest.mark.parametrize("directory", ["other", "absent"])
def test_a_journal_that_shows_nothing_of_the_server_is_not_read(
    directory: str, processes: Path, tmp_path: Path
) -> None:
    for way in (JOURNAL, STDERR):
        with pytest.raises(Refusal, match="does not run as a systemd service"):
            host_log.mark_log(f"{way}{tmp_path}/{directory}")


def test_standard_error_is_followed_into_its_file(
    processes: Path, tmp_path: Path
) -> None:
    """As pg_ctl -l and pg_ctlcluster redirect it."""
    log = tmp_path / "server.log"
    log.write_text("old\n")
    (processes / "8/fd/2").symlink_to(log)
    path = f"{STDERR}{tmp_path}/data"
    marks = host_log.mark_log(path)
    assert list(marks) == [str(log)]
    (processes / "8/fd/2").unlink()  # the server is another process after a cut
    log.rename(tmp_path / "server.log.1")
    with (tmp_path / "server.log.1").open("a") as file:
        file.write("one\n")
    log.write_text("two\n")
    found = host_log.read_since(path, marks, 100)
    assert found == {"text": "one\ntwo\n", "truncated": False, "rewound": False}


@AS_ROOT
def test_a_process_of_another_account_is_no_server(
    processes: Path, tmp_path: Path
) -> None:
    """Its name and its directory are the server's, and its log would be its own."""
    log = tmp_path / "server.log"
    log.write_text("forged\n")
    (processes / "8/fd/2").symlink_to(log)
    os.chown(processes / "8", ACCOUNT, ACCOUNT)
    assert host_process.find_error_file(f"{tmp_path}/data") == ""
    os.chown(tmp_path / "data", ACCOUNT, ACCOUNT)
    assert host_process.find_error_file(f"{tmp_path}/data") == str(log)
    os.chown(processes / "8", 0, 0)
    assert host_process.find_error_file(f"{tmp_path}/data") == str(log)


def test_standard_error_that_is_no_file_is_the_journal_s(
    processes: Path, tmp_path: Path
) -> None:
    """A pipe of mysqld_safe to logger is its service's as well as a socket."""
    os.mkfifo(tmp_path / "pipe")
    (processes / "8/fd/2").symlink_to(tmp_path / "pipe")
    path = f"{STDERR}{tmp_path}/data"
    marks = host_log.mark_log(path)
    assert list(marks) == ["mariadb.service"]
    assert host_log.read_since(path, marks, 100)["text"] == "Starting crash recovery\n"


def test_what_is_logged_before_the_collector_is_read_in_the_journal(
    processes: Path, tmp_path: Path
) -> None:
    """As with Red Hat's service, whose collector then logs into files."""
    folder = tmp_path / "data" / "log"
    folder.mkdir()
    (folder / "a.log").write_text("old\n")
    path = f"{COLLECTOR}{tmp_path}/data/{folder}"
    marks = host_log.mark_log(path)
    assert set(marks) == {str(folder / "a.log"), "mariadb.service"}
    (folder / "a.log").write_text("old\nnew\n")
    found = host_log.read_since(path, marks, 100)
    assert (found["text"], found["early"]) == ("new\n", "Starting crash recovery\n")
    assert not found["truncated"]
    del marks["mariadb.service"]
    assert "early" not in host_log.read_since(path, marks, 100)


def test_standard_error_that_is_kept_nowhere_is_not_read(
    processes: Path, tmp_path: Path
) -> None:
    (processes / "8/fd/2").symlink_to("/dev/null")
    with pytest.raises(Refusal, match="standard error goes to /dev/null"):
        host_log.mark_log(f"{STDERR}{tmp_path}/data")


def test_a_log_that_was_deleted_is_not_read(tmp_path: Path) -> None:
    """Only a real /proc has a link to what has no name any more."""
    log = tmp_path / "log"
    with log.open("w") as stream:
        server = subprocess.Popen(
            [sys.executable, "-c", RENAMED], cwd=tmp_path, stderr=stream, **PIPES
        )
    with server:
        assert server.stdin and server.stdout
        server.stdout.readline()
        assert host_process.find_error_file(str(tmp_path)) == str(log)
        log.unlink()
        with pytest.raises(Refusal, match="log is not on this filesystem"):
            host_process.find_error_file(str(tmp_path))
        server.stdin.close()


def test_a_log_that_lost_a_part_is_known_to_be_incomplete(tmp_path: Path) -> None:
    """A shutdown may stand in what was packed, or truncated in place and overgrown."""
    log = tmp_path / "log"
    log.write_text("old, and what was there\n")
    marks = host_log.mark_log(str(log))
    log.rename(tmp_path / "log.1")
    log.write_text("Starting crash recovery\n")
    assert not host_log.read_since(str(log), marks, 100)["truncated"]
    (tmp_path / "log.1").rename(tmp_path / "log.1.gz")
    assert host_log.read_since(str(log), marks, 100)["truncated"]

    log.write_text("old\n")
    marks = host_log.mark_log(str(log))
    log.write_text("new, and longer than what was there\n")
    found = host_log.read_since(str(log), marks, 100)
    assert found["rewound"]
    assert found["text"].startswith("new, and longer")


def test_marks_of_an_earlier_release_are_followed(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("old\nnew\n")
    found = host_log.read_since(str(log), {str(log): [log.stat().st_ino, 4]}, 100)
    assert found == {"text": "new\n", "truncated": False, "rewound": False}


def test_dumps_of_pages_do_not_hide_what_is_logged_after_them(tmp_path: Path) -> None:
    """MySQL dumps a page a hundred times, 48 KiB each, and then names the crash."""
    log = tmp_path / "log"
    log.write_text("old\n")
    marks = host_log.mark_log(str(log))
    dump = f"[ERROR] page corruption\n len 16384; hex {'0' * 49152}\n"
    log.write_text("old\n" + 100 * dump + "[ERROR] Assertion failure\nunfinished")
    found = host_log.read_since(str(log), marks, 1 << 20)
    assert found["text"].endswith("0\n[ERROR] Assertion failure\nunfinished")
    assert found["text"].count("\n") == 201
    assert not found["truncated"]
    assert host_log.read_since(str(log), marks, 5)["text"] == "[ERRO"
    assert host_log.read_since(str(log), marks, 5)["truncated"]
