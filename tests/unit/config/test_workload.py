from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.config import files, workload_file
from dbcheck.rows.plans.registry import plan_of
from dbcheck.rows.schedule import Schedule
from dbcheck.rows.workload import PlanKind, Workload
from dbcheck.runner.matrix_rows import read_matrix
from tests.kit.refusals import refused

GOOD: dict[str, Any] = {
    "plan": "insert",
    "sessions": 2,
    "payload_bytes": [1, 1048576],
    "cut_after_s": [1, 2],
}


def mix(**weights: int) -> dict[str, Any]:
    return {"plan": "mixed", "operations": weights}


def test_every_workload_that_comes_along_is_valid() -> None:
    assert {"insert", "classic"} <= set(files.list_workload_names())
    for name in files.list_workload_names():
        found = workload_file.load(name)
        assert found.name == name
        assert found.description and found.finds and found.cost


@pytest.mark.parametrize("name", files.list_workload_names())
def test_the_operations_of_each_are_the_same_in_another_process(name: str) -> None:
    found = workload_file.load(name)
    plan = plan_of(found, Schedule(1, 2, found.payload_bytes))
    copy = pickle.loads(pickle.dumps(plan))
    for seq in range(1, 50):
        assert copy.operation(1, seq) == plan.operation(1, seq)


def test_payloads_of_the_default_lie_on_both_sides_of_a_page() -> None:
    """Of 4 KiB: what tears in two does not do so in one page alone."""
    sizes = workload_file.load("insert").payload_bytes
    assert min(sizes) < 4096 < max(sizes)


def test_the_classic_workload_is_the_seeds() -> None:
    classic = workload_file.load("classic")
    assert (classic.plan, classic.payload_bytes) == (PlanKind.CLASSIC, ())
    assert files.read_sql("mysql", "insert_fs").upper() == "INSERT INTO FS VALUES(0)"


@pytest.mark.parametrize(
    ("change", "named"),
    [
        pytest.param({"sesions": 3}, "sesions", id="unknown key"),
        pytest.param({"plan": "heap"}, "plan", id="unknown plan"),
        pytest.param({"sessions": 0}, "sessions", id="no session"),
        pytest.param({"sessions": True}, "sessions", id="a truth value"),
        pytest.param({"sessions": 4097}, "sessions", id="too many sessions"),
        pytest.param({"payload_bytes": []}, "payload_bytes", id="no size"),
        pytest.param({"payload_bytes": 5}, "payload_bytes", id="no list"),
        pytest.param({"payload_bytes": [1048577]}, "payload_bytes", id="too large"),
        pytest.param({"plan": "classic"}, "payload_bytes", id="classic with payload"),
        pytest.param(
            {"cut_after_s": [2, 1]}, "cut_after_s", id="latest before earliest"
        ),
        pytest.param({"cut_after_s": [0, 1]}, "cut_after_s", id="at once"),
        pytest.param({"cut_after_s": [1]}, "cut_after_s", id="one moment"),
        pytest.param({"cut_after_s": ["a", "b"]}, "cut_after_s", id="no numbers"),
        pytest.param(
            {"cut_after_s": [float("nan"), 2]}, "cut_after_s", id="not a number"
        ),
        pytest.param({"rate": -1}, "rate", id="a rate below none"),
        pytest.param({"rate": "fast"}, "rate", id="a rate in words"),
        pytest.param({"ramp_s": float("inf")}, "ramp_s", id="an endless ramp"),
        pytest.param({"ramp_s": True}, "ramp_s", id="a ramp that is a truth value"),
        pytest.param({"rows_before": -1}, "rows_before", id="rows below none"),
        pytest.param({"rows_before": 10**8 + 1}, "rows_before", id="too many rows"),
        pytest.param({"plan": "mixed"}, "operations", id="a mix without weights"),
        pytest.param({"operations": {"insert": 1}}, "operations", id="no mix"),
        pytest.param(mix(), "no operation has a weight", id="a mix of nothing"),
        pytest.param(mix(insert=-1), "insert", id="a weight below none"),
        pytest.param(mix(insert=17), "insert", id="a weight too large"),
        pytest.param(mix(truncate=1), "truncate", id="an unknown operation"),
        pytest.param(
            mix(batch=1, update=3, delete=2),
            "take 5 rows.*insert 4",
            id="updates of rows that no batch inserts",
        ),
        pytest.param({"processes": 0}, "processes", id="no process"),
        pytest.param({"processes": 65}, "processes", id="too many processes"),
        pytest.param({"cores": 2}, "cores", id="what only the client knows"),
        pytest.param({"readers": -1}, "readers", id="readers below none"),
        pytest.param({"readers": 17}, "readers", id="too many readers"),
        pytest.param(
            {"plan": "classic", "payload_bytes": [], "readers": 1},
            "readers is given for the classic plan",
            id="rows that readers cannot recognise",
        ),
    ],
)
def test_what_is_wrong_is_named(change: dict[str, Any], named: str) -> None:
    with pytest.raises(UsageError, match=f"mine.toml.*{named}"):
        workload_file.parse_workload("mine", GOOD | change, where="mine.toml")


def test_a_file_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('plan = "insert"\npayload_bytes = [10]\n')
    mine = workload_file.load(str(path))
    assert mine == Workload("mine", "", PlanKind.INSERT, 1, (10,), (3.0, 6.0))


@pytest.mark.parametrize(
    ("content", "why"),
    [(b"plan = ", ErrorId.FILE_NOT_TOML), (b"\xff", ErrorId.FILE_NOT_READABLE)],
)
def test_a_file_that_is_no_workload(
    tmp_path: Path, content: bytes, why: ErrorId
) -> None:
    path = tmp_path / "mine.toml"
    path.write_bytes(content)
    with refused(why, UsageError, naming="mine.toml"):
        workload_file.load(str(path))


def test_an_unknown_name_lists_the_known_ones() -> None:
    with refused(
        ErrorId.FILE_NOT_READABLE, UsageError, naming=("workload", "nosuch")
    ) as caught:
        workload_file.load("nosuch")
    assert "classic, insert" in caught.value.hint


def test_another_number_of_sessions() -> None:
    insert = workload_file.load("insert")
    assert insert.with_sessions(3).sessions == 3
    assert insert.with_sessions(None) is insert
    with refused(ErrorId.VALUE_INVALID, UsageError, naming="0 sessions"):
        insert.with_sessions(0)


def test_a_tempo_of_ones_own() -> None:
    given = GOOD | {"rate": 5, "ramp_s": 2.5, "rows_before": 9}
    mine = workload_file.parse_workload("mine", given, where="mine.toml")
    assert (mine.rate, mine.ramp_s, mine.rows_before) == (5.0, 2.5, 9)
    assert workload_file.change_workload(mine, {}, "mine") == mine
    changed = workload_file.change_workload(
        mine, {"rate": 7, "ramp_s": 0, "readers": 2}, "mine"
    )
    assert (changed.rate, changed.ramp_s, changed.processes) == (7, 0, None)
    assert (changed.readers, changed.rows_before) == (2, 9)
    assert (
        workload_file.change_workload(mine, {"rows_before": 0}, "mine").rows_before == 0
    )


def test_readers_cannot_recognise_a_classic_row() -> None:
    classic = workload_file.load("classic")
    assert workload_file.change_workload(classic, {"readers": 0}, "classic") == classic
    with refused(
        ErrorId.KEY_NOT_FOR_CLASSIC_PLAN,
        UsageError,
        naming="readers is given for the classic plan",
    ):
        workload_file.change_workload(classic, {"readers": 1}, "classic")


def test_there_are_no_more_processes_than_sessions() -> None:
    mine = workload_file.parse_workload(
        "mine", GOOD | {"processes": 5}, where="mine.toml"
    )
    assert mine.processes == GOOD["sessions"] == 2
    assert mine.with_sessions(1).processes == 1
    insert = workload_file.load("insert").with_sessions(3)
    assert (
        workload_file.change_workload(insert, {"processes": 64}, "insert").processes
        == 3
    )


@pytest.mark.parametrize("number", ["9" * 5000, "0x" + "f" * 5000, str(10**400)])
def test_a_number_of_too_many_digits_is_not_toml(tmp_path: Path, number: str) -> None:
    path = tmp_path / "x.toml"
    path.write_text(f'plan = "classic"\nsessions = {number}\n')
    with refused(ErrorId.FILE_NOT_TOML, UsageError, naming="is not TOML"):
        workload_file.load(str(path))
    with refused(ErrorId.FILE_NOT_TOML, UsageError, naming="is not TOML"):
        read_matrix(str(path), [], target=True, seed=1)


def test_the_mark_that_windows_puts_before_a_text_says_nothing(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_text('plan = "classic"\n', encoding="utf-8-sig")
    assert workload_file.load(str(path)).name == "x"


def test_a_file_in_another_encoding_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_bytes(b'# 1\n# Z\xfcrich\nplan = "classic"\n')
    for read in (
        workload_file.load,
        lambda path: read_matrix(path, [], target=True, seed=1),
    ):
        with refused(
            ErrorId.FILE_NOT_READABLE,
            UsageError,
            naming=("x.toml", "line 2 is not UTF"),
        ):
            read(str(path))
