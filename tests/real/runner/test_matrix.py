"""dbcheck matrix as people use it: in labs and on a target that is left as it was."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dbcheck.lab.lab import Lab
from dbcheck.lab.process import Process
from dbcheck.lab.spec import LabSpec
from tests.kit.lab_access import children, connect
from tests.kit.labs import process_lab
from tests.kit.users import DBCHECK, User
from tests.kit.waiting import wait_until

LABS = """
cuts = 1
workload = "quick.toml"
[defaults]
engine = "mariadb"
cut = "process"
[[rows]]
name = "durable"
expect = "PASS"
price = 100
[[rows]]
name = "no such setting"
settings = { no_such_setting = 1 }
[[rows]]
name = "relaxed"
expect = "FAIL"
settings = { innodb_flush_log_at_trx_commit = 0, innodb_flush_log_at_timeout = 60 }
"""
RESTORED = """
cuts = 1
[defaults]
engine = "postgresql"
sessions = 4
[[rows]]
name = "base backup"
restore = "base-backup"
expect = "PASS"
[[rows]]
name = "receiver"
restore = "receiver"
expect = "PASS"
[[rows]]
name = "files"
restore = "files"
cuts = 20
until_loss = true
expect = "FAIL"
"""
FLUSH_MS = 20  # of matrices/percona-2009.toml
QUICK = 'plan = "insert"\npayload_bytes = [200]\nsessions = 4\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a matrix of process labs."""
    process_lab("mariadb")
    (tmp_path / "labs.toml").write_text(LABS)
    (tmp_path / "quick.toml").write_text(QUICK)
    return tmp_path


def matrix(folder: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        (*DBCHECK, "matrix", *words),
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.wide
def test_a_row_that_does_not_start_loses_no_other(folder: Path) -> None:
    process = matrix(folder, "--preset", "labs.toml", "--seed", "1", "--json")
    out, err = process.communicate(timeout=120)
    assert process.returncode == 4, err
    result = json.loads(out)
    assert not result["as_expected"]
    durable, broken, relaxed = result["rows"]
    assert (durable["verdict"], relaxed["verdict"]) == ("PASS", "FAIL")
    assert durable["as_expected"] and relaxed["as_expected"]
    assert "did not start" in broken["error"]
    assert broken["error_id"] == "lab-server-not-started"
    assert durable["error_id"] is None
    assert broken["verdict"] is None
    assert relaxed["lost"] > 0 == durable["lost"]
    rate = durable["commits_per_s"]
    assert durable["price_per_durable_commit_per_s"] == pytest.approx(100 / rate)
    assert relaxed["price_per_durable_commit_per_s"] is None
    assert "Traceback" not in err


@pytest.mark.wide
def test_an_interrupt_shows_what_there_is(folder: Path) -> None:
    process = matrix(folder, "--preset", "labs.toml", "--seed", "1")
    assert process.stderr is not None
    for line in process.stderr:
        if "relaxed" in line:
            break
    wait_until(lambda: bool(children(process.pid)), "a lab that is being built")
    daemons = [Process.of(pid) for pid in children(process.pid)]
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 4
    assert "Traceback" not in err
    lines = out.splitlines()
    assert any(line.startswith("durable") and "PASS" in line for line in lines)
    assert "relaxed: interrupted" in lines
    assert not any(daemon.alive() for daemon in daemons if daemon)


@pytest.mark.wide
@pytest.mark.root
def test_the_matrix_of_2009_has_two_safe_rows_and_two_fast_ones_that_lose(
    tmp_path: Path,
) -> None:
    words = ("--preset", "percona-2009", "--cuts", "1", "--seed", "2", "--json")
    process = matrix(tmp_path, *words)
    out, err = process.communicate(timeout=200)
    assert process.returncode == 0, err
    safe, bare, uncached, swallowed = rows = json.loads(out)["rows"]
    nodes = [row["cycles"][0]["load"]["nodes"]["server"] for row in rows]
    asked = [node["cut"]["report"] for node in nodes]  # of the drive
    for row in (safe, uncached):
        assert row["verdict"] == "PASS"
        assert row["lost"] == 0
    # Why a row is slow or fast, which a busy machine does not change as it does rates.
    assert asked[0]["flushes_honoured"] >= safe["cycles"][0]["load"]["acked"]["1"]
    assert safe["commits_per_s"] <= 1000 / FLUSH_MS
    assert (asked[2]["flushes"], asked[2]["cached_writes"]) == (0, 0)
    assert uncached["cycles"][0]["lab"]["drive"]["write_ms"] > 0
    for row, drive in ((bare, asked[1]), (swallowed, asked[3])):
        assert row["verdict"] == "FAIL"
        assert row["lost"] > 0
        assert drive["flushes"] == 0 < drive["cached_writes"]
        assert row["cycles"][0]["lab"]["drive"]["write_ms"] == 0
        assert row["commits_per_s"] > safe["commits_per_s"]


@pytest.mark.wide
@pytest.mark.root
def test_ways_to_copy_a_server_stand_side_by_side(tmp_path: Path) -> None:
    """Beside the load, after the loss, and one that is no valid copy."""
    (tmp_path / "restored.toml").write_text(RESTORED)
    process = matrix(tmp_path, "--preset", "restored.toml", "--seed", "1", "--json")
    out, err = process.communicate(timeout=400)
    assert process.returncode == 0, err
    beside, received, torn = rows = json.loads(out)["rows"]
    assert [row["verdict"] for row in rows] == ["PASS", "PASS", "FAIL"]
    assert beside["commits_per_s_while_copied"] > 0
    assert received["commits_per_s_while_copied"] is None
    assert received["cycles"][0]["copy"]["missing"] == 0
    assert all(row["statistics"]["cuts"] == 0 for row in rows)
    lost = [row["cycles"][-1]["verdict"] == "FAIL" for row in rows]
    assert lost == [False, False, True]
    assert len(torn["cycles"]) <= 20


# -------------------------------------------------------------------- on a target


@contextlib.contextmanager
def target(spec: LabSpec, folder: Path) -> Iterator[User]:
    with Lab.start(spec, folder / "lab") as lab:
        yield User(lab, folder)


def flush_setting(user: User) -> Any:
    with contextlib.closing(connect(user.lab.target_url, user.lab.password)) as link:
        cursor = link.cursor()
        cursor.execute("select @@global.innodb_flush_log_at_trx_commit")
        ((value,),) = cursor.fetchall()
        cursor.close()
        return value


@pytest.mark.wide
@pytest.mark.root
def test_settings_of_sessions_are_varied_on_a_target(tmp_path: Path) -> None:
    with target(LabSpec("postgresql"), tmp_path) as user:
        values = "on,off,perhaps"
        vary = ["--vary", f"setting.synchronous_commit={values}", "--cuts", "1"]
        result = user.json("matrix", *user.rig, *vary, code=4)
        on, off, refused = result["rows"]
        assert (on["verdict"], off["verdict"]) == ("PASS", "FAIL")
        assert "synchronous_commit" in refused["error"] and refused["error_id"]
        (cycle,) = off["cycles"]
        assert any("synchronous_commit" in said for said in cycle["settings_at_fault"])


@pytest.mark.wide
def test_the_load_is_varied_on_a_target(tmp_path: Path) -> None:
    with target(process_lab("mariadb"), tmp_path) as user:
        vary = ["--vary", "workload=insert,order-entry", "--vary", "sessions=3"]
        result = user.json("matrix", *user.rig, *vary, "--cuts", "1", code=0)
        rows = result["rows"]
        assert [row["verdict"] for row in rows] == ["PASS"] * 2
        cycles = [row["cycles"][0] for row in rows]
        assert [one["workload"] for one in cycles] == ["insert", "order-entry"]
        assert all({"1", "2", "3"} <= one["load"]["acked"].keys() for one in cycles)


def test_a_relaxed_row_loses_on_a_target_that_is_left_as_it_was(
    tmp_path: Path,
) -> None:
    # The log is written once a second by default; a cut just after that loses nothing.
    settings = {"innodb_flush_log_at_timeout": "60"}
    with target(replace(process_lab("mariadb"), settings=settings), tmp_path) as user:
        vary = ["--vary", "relaxed=false,true", "--cuts", "1"]
        result = user.json("matrix", *user.rig, *vary, code=0)
        durable, relaxed = result["rows"]
        assert (durable["verdict"], relaxed["verdict"]) == ("PASS", "FAIL")
        assert relaxed["cycles"][0]["control"]
        assert result["comparison"]["difference_ppm"] == 1_000_000
        assert flush_setting(user) == 1


@pytest.mark.wide
def test_a_client_killed_in_a_relaxed_row_is_made_good_by_the_next(
    tmp_path: Path,
) -> None:
    with target(process_lab("mariadb"), tmp_path) as user:
        user.workload(600)
        words = ["matrix", *user.rig, "--cuts", "1", "--vary"]
        client = user.start(*words, "relaxed=true")
        wait_until(lambda: flush_setting(user) == 0, "the server is relaxed")
        client.kill()
        client.communicate()
        user.workload(1.2)
        result = user.json(*words, "relaxed=false", code=0)
        assert result["rows"][0]["verdict"] == "PASS"
        assert flush_setting(user) == 1


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("--preset", "percona-2009", "--target", "mysql://u@h/d"), "'engine'"),
        (("--vary", "setting.a=1", "--target", "mysql://u@h/d"), "--witness"),
        (
            (
                *("--vary", "setting.a=1", "--target", "mysql://u@h/d"),
                *("--witness", "ssh://u@w/f"),
            ),
            "cannot be set for a session",
        ),
        (("--engine", "postgresql", "--vary", "colour=red"), "colour"),
        ((), "--engine"),
    ],
)
def test_bad_usage_is_named_and_touches_nothing(
    words: tuple[str, ...], named: str, tmp_path: Path
) -> None:
    process = matrix(tmp_path, *words)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 2, err
    assert named in err
    assert not list(tmp_path.iterdir())
