"""Damaged files, and what is not the data's fault, of servers that start for real."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.servers import skip_without_server
from tools.damage.servers import SETUPS, Prepared, prepared
from tools.damage.sweep import damaged, kept_from_starting


@pytest.fixture(scope="module")
def made(request: pytest.FixtureRequest) -> Iterator[Prepared]:
    """A server that was killed with rows in it; the parameter is the engine."""
    skip_without_server(request.param)
    with (
        tempfile.TemporaryDirectory(prefix="dbcheck-") as base,
        prepared(SETUPS[request.param], Path(base)) as made,
    ):
        yield made


@pytest.mark.parametrize(
    ("made", "kind", "damage"),
    [
        ("postgresql", "control file", "zeros"),
        ("postgresql", "postmaster.pid", "empty"),
        ("postgresql", "relation map, shared", "zeros"),
        ("mariadb", "binary log", "zeros"),
        ("mariadb", "redo log", "zeros"),
        ("mysql", "data dictionary", "gone"),
        ("mysql", "mysqld-auto.cnf", "zeros"),
    ],
    indirect=["made"],
)
def test_damage_that_keeps_a_server_down_is_a_failure(
    made: Prepared, kind: str, damage: str
) -> None:
    line = damaged(made, kind, damage)
    assert line is not None
    assert line.verdict == "FAIL", line


@pytest.mark.parametrize(
    ("made", "what"),
    [
        ("postgresql", "port in use"),
        ("postgresql", "pg_control not readable"),
        ("mariadb", "port in use"),
        ("mysql", "port in use"),
    ],
    indirect=["made"],
)
def test_what_is_not_the_datas_fault_is_none(made: Prepared, what: str) -> None:
    line = kept_from_starting(made.server.name, made, what)
    assert line.verdict == "INCONCLUSIVE", line


@pytest.mark.parametrize("made", ["mysql"], indirect=True)
def test_mysqls_log_in_json_is_read(made: Prepared) -> None:
    made.server.settings["log_error_services"] = "log_sink_json"
    try:
        line = damaged(made, "redo log, in use", "empty")
    finally:
        del made.server.settings["log_error_services"]
    assert line is not None
    assert '"err_code" : 13856' in line.log
    assert line.verdict == "FAIL", line
