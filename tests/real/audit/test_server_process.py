"""What keeps a server's flushes from its files and what no statement shows."""

from __future__ import annotations

import contextlib
import ctypes.util
import re
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dbcheck.agent.host.process import describe_server_process, is_no_sync_option
from dbcheck.audit import platform
from dbcheck.audit.result import AuditResult
from dbcheck.audit.rules import find_located_findings
from dbcheck.audit.stack import make_subjects
from dbcheck.cycle.preflight.audit import audit_server
from dbcheck.hosts.host import open_host
from dbcheck.lab.servers.base import DatabaseServer
from dbcheck.model.audited import RuleStatus
from dbcheck.model.host import Readings, ServerProcess
from tests.kit.host_samples import BEFORE
from tests.kit.servers import NewServer, engine_of
from tests.kit.waiting import wait_until

OF_THE_PROCESS = {"host-flush-replaced", "host-no-sync-option", "host-preloaded"}


def audited(server: DatabaseServer) -> AuditResult:
    with contextlib.closing(open_host("local:")) as host:
        return audit_server(engine_of(server), host, (), "")


def unsafe(found: AuditResult) -> dict[str, str | None]:
    """Return the values of the facts of the process that are not safe, by rule."""
    return {
        each.rule: each.value
        for each in found.findings
        if each.rule in OF_THE_PROCESS and each.status is RuleStatus.UNSAFE
    }


def eatmydata() -> Path:
    found = sorted(Path("/usr/lib").glob("*/libeatmydata.so.1"))
    if not found:
        pytest.skip("libeatmydata1 is not installed")
    return found[0].resolve()


@pytest.mark.parametrize("engine", ["postgresql", "mariadb"])
def test_an_object_that_defines_fsync_is_named(
    engine: str, new_server: NewServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    library, server = eatmydata(), new_server(engine)
    environment = server._environment

    def preloaded() -> dict[str, str]:
        return {**environment(), "LD_PRELOAD": str(library)}

    monkeypatch.setattr(server, "_environment", preloaded)
    server.start()
    assert unsafe(audited(server)) == {
        "host-flush-replaced": str(library),
        "host-preloaded": str(library),
    }


def test_a_preloaded_object_that_defines_no_flush_is_only_named(
    new_server: NewServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, library = new_server("postgresql"), ctypes.util.find_library("util")
    assert library is not None
    environment = server._environment
    changed: Any = lambda: {**environment(), "LD_PRELOAD": library}  # noqa: E731
    monkeypatch.setattr(server, "_environment", changed)
    server.start()
    assert unsafe(audited(server)) == {"host-preloaded": library}


def test_an_option_that_no_statement_shows_is_named(new_server: NewServer) -> None:
    server = new_server("mariadb")
    server.settings = {**server.settings, "debug_no_sync": "1"}
    server.start()
    found = unsafe(audited(server))
    assert found.keys() == {"host-no-sync-option"}
    assert "no" in (found["host-no-sync-option"] or "")


# Each is what the option files say, and whether the server flushes nothing then.
OPTION_FILES = {
    "loose": ({"my.cnf": "[mariadbd]\nloose_debug_no_sync\n"}, True),
    "included": (
        {
            "my.cnf": "[client]\n!includedir {folder}/conf.d\n",
            "conf.d/50-server.cnf": "[mysqld-{version}]\nenable-debug-no-s=1\n",
        },
        True,
    ),
    "undone": (
        {
            "my.cnf": "[mysqld]\ndebug-no-sync\n!include {folder}/late.cnf\n",
            "late.cnf": "[server]\nskip-debug-no-sync\n",
        },
        False,
    ),
}


def with_option_file(
    server: DatabaseServer, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Have *server* start with the option file at *path*, and no other."""
    _, *others = server._arguments()
    words = [f"--defaults-file={path}", *others]
    monkeypatch.setattr(server, "_arguments", lambda: words)


@pytest.mark.parametrize("case", OPTION_FILES)
def test_an_option_in_an_option_file_is_named(
    case: str, new_server: NewServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, (files, is_off) = new_server("mariadb"), OPTION_FILES[case]
    (version,) = re.findall(r"\b\d+\.\d+", server.version())[:1]
    folder = server.data.parent
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text.format(folder=folder, version=version))
    with_option_file(server, folder / "my.cnf", monkeypatch)
    server.start()
    expected = {"host-no-sync-option"} if is_off else set()
    assert unsafe(audited(server)).keys() == expected


def test_an_option_file_that_was_changed_since_the_start_is_not_in_force(
    new_server: NewServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = new_server("mariadb")
    option_file = server.data.parent / "my.cnf"
    option_file.write_text("[mysqld]\n")
    with_option_file(server, option_file, monkeypatch)
    server.start()
    option_file.write_text("[mysqld]\ndebug-no-sync\n")
    assert unsafe(audited(server)) == {}


@pytest.mark.parametrize(
    ("words", "status"),
    [((), RuleStatus.UNKNOWN), (("--debug-no-sync",), RuleStatus.UNSAFE)],
    ids=["not on its command line", "on its command line"],
)
def test_a_program_that_does_not_show_its_variable_is_not_called_safe(
    words: tuple[str, ...], status: RuleStatus, tmp_path: Path
) -> None:
    """It knows the option, which then may stand in an option file."""
    program = tmp_path / "mariadbd"
    program.write_bytes(Path("/bin/sh").read_bytes() + b"debug-no-sync\0")
    program.chmod(0o755)
    command = [str(program), "-c", "read line", "sh", *words]
    with subprocess.Popen(command, cwd=tmp_path, stdin=subprocess.PIPE) as running:
        # Shown later than its program, as the kernel makes a process (fs/exec.c).
        shown = Path(f"/proc/{running.pid}/cmdline")
        wait_until(lambda: shown.read_bytes().startswith(bytes(program)), "it runs")
        read = msgspec.convert(describe_server_process(str(tmp_path)), ServerProcess)
        assert running.stdin is not None
        running.stdin.close()
    facts = replace(BEFORE.facts, process=read)
    host = make_subjects(facts, Readings(), 16 << 10, guarded=True)
    found = {
        e.finding.rule.id: e.finding.status
        for e in find_located_findings("mysql", host)
    }
    assert found["host-no-sync-option"] is status


def test_a_server_as_it_is_has_flushes_of_its_own(server: DatabaseServer) -> None:
    found = audited(server)
    assert unsafe(found) == {}
    (host,) = [each for each in found.subjects if each.name == "the target's host"]
    assert host.facts["flush calls"].value == "the c library's"
    assert host.facts[platform.NO_SYNC_OPTION].value == platform.NONE


@pytest.mark.parametrize(
    ("option", "is_it"),
    [
        ("--debug-no-sync", True),
        ("--debug_no_sync=1", True),
        ("--loose-debug-no-s", True),
        ("--debug-no-sync=OFF", False),
        ("--debug-no-thread-alarm", False),
        ("--debug", False),
        ("debug-no-sync", False),
    ],
)
def test_the_option_in_all_its_spellings(option: str, is_it: bool) -> None:
    assert is_no_sync_option(option) is is_it
