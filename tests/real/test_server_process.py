"""What keeps a server's flushes from its files and what no statement shows."""

from __future__ import annotations

import contextlib
import ctypes.util
from pathlib import Path
from typing import Any

import pytest

from dbcheck.audit.result import AuditResult
from dbcheck.campaign.auditing import audit
from dbcheck.core.audited import RuleStanding
from dbcheck.hosts.agent.process import is_no_sync
from dbcheck.hosts.host import open_host
from dbcheck.lab.servers.base import DatabaseServer
from tests.kit.servers import NewServer, engine_of

OF_THE_PROCESS = {"host-flush-replaced", "host-no-sync-option", "host-preloaded"}


def audited(server: DatabaseServer) -> AuditResult:
    with contextlib.closing(open_host("local:")) as host:
        return audit(engine_of(server), host, (), "")


def unsafe(found: AuditResult) -> dict[str, str | None]:
    """Return the values of the facts of the process that are not safe, by rule."""
    return {
        each.rule: each.value
        for each in found.findings
        if each.rule in OF_THE_PROCESS and each.standing is RuleStanding.UNSAFE
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


def test_a_server_as_it_is_has_flushes_of_its_own(server: DatabaseServer) -> None:
    found = audited(server)
    assert unsafe(found) == {}
    (host,) = [each for each in found.subjects if each.name == "the target's host"]
    assert host.facts["flush calls"].value == "the c library's"


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
    assert is_no_sync(option) is is_it
