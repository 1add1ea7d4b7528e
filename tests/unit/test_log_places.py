"""Where a server's log is: what the server says, and its service's journal."""

from __future__ import annotations

from pathlib import Path

import pytest

from dbcheck.core.target import JOURNAL
from dbcheck.engines.server_log import innodb_log, postgresql_log
from dbcheck.probes import host_journal, host_log
from dbcheck.remote.wire import Refusal

JOURNALCTL = """#!/bin/sh
case "$*" in
*--lines=1*_SYSTEMD_UNIT=mariadb.service) echo "ready for connections";;
*--since=@*_SYSTEMD_UNIT=mariadb.service) echo "Starting crash recovery";;
esac
"""


@pytest.mark.parametrize(
    ("variables", "where"),
    [
        ({"log_error": "/var/log/m.err", "datadir": "/d/"}, "/var/log/m.err"),
        ({"log_error": "./m.err", "datadir": "/d/"}, "/d/./m.err"),
        ({"log_error": "stderr", "datadir": "/d/"}, "journal:/d/"),
        ({"log_error": "", "datadir": "/d/"}, "journal:/d/"),
        ({"datadir": "/d/"}, ""),
    ],
)
def test_where_mysql_logs(variables: dict[str, str], where: str) -> None:
    assert innodb_log(variables) == where


@pytest.mark.parametrize(
    ("settings", "where"),
    [
        ({"logging_collector": "on", "log_directory": "log"}, "/d/log"),
        ({"logging_collector": "on", "log_directory": "/l"}, "/l"),
        ({"logging_collector": "on"}, ""),
        ({"logging_collector": "off", "log_destination": "stderr"}, "journal:/d"),
        ({"logging_collector": "off", "log_destination": "syslog"}, ""),
        ({"data_directory": "", "logging_collector": "off"}, ""),
    ],
)
def test_where_postgresql_logs(settings: dict[str, str], where: str) -> None:
    assert postgresql_log({"data_directory": "/d", **settings}) == where


@pytest.fixture
def processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A made-up /proc and journalctl: no test has a machine that systemd runs."""
    folder = tmp_path / "proc"
    for pid, cwd, unit in ((7, "other", "x.service"), (8, "data", "mariadb.service")):
        (tmp_path / cwd).mkdir()
        (folder / str(pid)).mkdir(parents=True)
        (folder / str(pid) / "cwd").symlink_to(tmp_path / cwd)
        (folder / str(pid) / "cgroup").write_text(f"0::/system.slice/{unit}\n")
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
    marks = host_journal.mark_journal(path, str(processes))
    assert list(marks) == ["mariadb.service"]
    found = host_log.since(path, marks, 100)
    assert (found["text"], found["truncated"]) == ("Starting crash recovery\n", False)
    assert host_log.since(path, marks, 5)["truncated"]
    assert host_journal.JOURNAL == JOURNAL


@pytest.mark.parametrize("directory", ["other", "absent"])
def test_a_journal_that_shows_nothing_of_the_server_is_not_read(
    directory: str, processes: Path, tmp_path: Path
) -> None:
    path = f"{JOURNAL}{tmp_path}/{directory}"
    with pytest.raises(Refusal):
        host_journal.mark_journal(path, str(processes))


def test_dumps_of_pages_do_not_hide_what_is_logged_after_them(tmp_path: Path) -> None:
    """MySQL dumps a page a hundred times, 48 KiB each, and then names the crash."""
    log = tmp_path / "log"
    log.write_text("old\n")
    marks = host_log.mark(str(log))
    dump = f"[ERROR] page corruption\n len 16384; hex {'0' * 49152}\n"
    log.write_text("old\n" + 100 * dump + "[ERROR] Assertion failure\nunfinished")
    found = host_log.since(str(log), marks, 1 << 20)
    assert found["text"].endswith("0\n[ERROR] Assertion failure\nunfinished")
    assert found["text"].count("\n") == 201
    assert not found["truncated"]
    assert host_log.since(str(log), marks, 5)["text"] == "[ERRO"
    assert host_log.since(str(log), marks, 5)["truncated"]
