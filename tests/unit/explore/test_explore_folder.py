"""The folder of an exploration: what is stored, and what of it is damaged."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LabError, RunFormatError, RunWriteError, UsageError
from dbcheck.explore.folder import Exploration, ExplorePlan, Line
from dbcheck.lab.namespace import BASE
from dbcheck.lab.recorded import RecordedLab
from dbcheck.lab.spec import LabSpec
from dbcheck.model.cut import CrashState
from dbcheck.model.explored import (
    Finding,
    LostBlock,
    LostRow,
    StateJudgement,
    StateResult,
)
from dbcheck.model.verdict import Verdict
from tests.kit.refusals import refused

PLAN = ExplorePlan("0.1.0", 7, "20260102-030405-a1b2c3")
OTHER_DEVICE = json.dumps(
    {**LabSpec("postgresql").to_values(), "mount_options": "logdev=/dev/sda"}
)
STATE = CrashState(3, ((17, ((18, 0, 512), (19, 1024, 512))), (4, ())))
ROW = LostRow("missing-tail", "ledger", 2, 9, 40)
FAILED = StateJudgement(Verdict.FAIL, 41, {"missing-tail": 1}, "1 missing-tail", (ROW,))
LINES = [
    Line("3.random+none.1", STATE, FAILED),
    Line("4.none+all.2", STATE, StateJudgement(Verdict.PASS, 42, {})),
]
BLOCK = LostBlock(0, 17, 1.25, 4096, 512, "data/base/1", 8192)
FINDING = Finding(
    1,
    ("3.random+none.1",),
    True,
    True,
    StateResult("finding-1", STATE, FAILED, 0.5, (BLOCK,)),
    9,
)


@pytest.fixture
def folder(tmp_path: Path) -> Exploration:
    made = Exploration.create(tmp_path / "runs" / "one")
    made.write_plan(PLAN)
    with made.appending() as file:
        for line in LINES:
            made.add(file, line)
    return made


def test_what_was_stored_is_read_again(folder: Exploration) -> None:
    again = Exploration.open(folder.path)
    assert again.plan() == PLAN
    assert again.lines() == LINES
    folder.write_findings([FINDING])
    assert again.findings() == [FINDING]
    assert FINDING.name == "finding-1"
    second = replace(FINDING, number=2)
    again.write_findings([second])
    assert again.findings() == [FINDING, second]


def test_of_a_state_that_was_judged_again_the_last_line_counts(
    folder: Exploration,
) -> None:
    again = Line(LINES[0].name, STATE, StateJudgement(Verdict.PASS, 41, {}))
    with folder.appending() as file:
        folder.add(file, again)
    assert folder.lines() == [again, LINES[1]]


def test_only_its_user_may_read_it(folder: Exploration) -> None:
    for path in (folder.path, folder.recording):
        assert path.stat().st_mode & 0o777 == 0o700
    assert (folder.path / "states.jsonl").stat().st_mode & 0o777 == 0o600


def test_a_line_that_a_killed_client_left_unfinished_is_dropped(
    folder: Exploration,
) -> None:
    path = folder.path / "states.jsonl"
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        done = whole[:length].count(b"\n")
        assert folder.lines() == LINES[:done]
        with folder.appending() as file:
            for line in LINES[done:]:
                folder.add(file, line)
        assert path.read_bytes() == whole


@pytest.mark.parametrize(
    "line", [b"{}\n", b"[1]\n", b"\n", b'{"name": 1}\n', b"\xff\n"]
)
def test_a_damaged_line_is_an_error(folder: Exploration, line: bytes) -> None:
    path = folder.path / "states.jsonl"
    path.write_bytes(line + path.read_bytes())
    with refused(
        ErrorId.EXPLORED_STATES_DAMAGED, RunFormatError, naming="states.jsonl"
    ):
        folder.lines()


def test_a_changed_plan_or_finding_is_an_error(folder: Exploration) -> None:
    folder.write_findings([FINDING])
    for name in ("exploration.json", "finding-1.json"):
        path = folder.path / name
        values = json.loads(path.read_text())
        values["number" if "number" in values else "seed"] = 5
        path.write_text(json.dumps(values))
    with refused(ErrorId.RECORD_DAMAGED, RunFormatError, naming="checksum"):
        folder.plan()
    with refused(ErrorId.RECORD_DAMAGED, RunFormatError, naming="checksum"):
        folder.findings()


def test_another_folder_is_refused(tmp_path: Path) -> None:
    with refused(ErrorId.NOT_AN_EXPLORATION, UsageError):
        Exploration.open(tmp_path)


def test_two_clients_do_not_work_on_it_at_once(folder: Exploration) -> None:
    with (
        folder.locked(),
        refused(ErrorId.FOLDER_IN_USE, RunWriteError),
        Exploration.open(folder.path).locked(),
    ):
        pass


# --------------------------------------------------------------- whose the recording is


def test_a_recording_is_the_users_own_to_the_last_byte(
    folder: Exploration, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(folder.path / "state"))
    drive, lab = folder.recording / "files.drive", folder.recording / "lab.json"
    for path in (drive, lab):
        path.write_bytes(b"recorded")
    assert not folder.is_own()
    folder.remember()
    assert Exploration.open(folder.path).is_own()
    for path in (drive, lab):
        path.write_bytes(b"changed")
        assert not folder.is_own()
        path.write_bytes(b"recorded")
    assert folder.is_own()
    log = folder.recording / "log.drive"
    log.write_bytes(b"")
    assert not folder.is_own()
    log.unlink()
    os.mkfifo(log)
    with refused(
        ErrorId.RECORDING_NOT_USABLE, LabError, naming=(str(log), "not a regular file")
    ):
        folder.is_own()


@pytest.mark.parametrize("name", [".", "recording", "recording/lab.json"])
def test_a_recording_that_others_may_change_is_refused(
    folder: Exploration, name: str
) -> None:
    (folder.recording / "lab.json").write_bytes(b"{}")
    folder.require_closed()
    path = folder.path / name
    path.chmod(path.stat().st_mode | 0o002)
    with refused(
        ErrorId.EXPLORATION_OPEN_TO_OTHERS, UsageError, naming="part of an exploration"
    ) as caught:
        folder.require_closed()
    assert f"chmod o-w {path}" in caught.value.hint


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"base": "/etc"}, "no lab has its storage in"),
        ({"base": f"{BASE}/../../etc"}, "no lab has its storage in"),
        ({"base": f"{BASE}/.."}, "no lab has its storage in"),
        ({"base": str(BASE)}, "no lab has its storage in"),
        ({"base": f"{BASE}/a/b"}, "no lab has its storage in"),
        ({"spec": "[]"}, "cannot be read"),
        ({"spec": "{}"}, "describes no lab"),
        ({"spec": "no JSON"}, "cannot be read"),
        ({"spec": "[" * 100_000}, "describes no lab"),
        ({"spec": OTHER_DEVICE}, "names a device that is not the lab"),
    ],
)
def test_a_recorded_lab_has_its_storage_where_labs_have_it(
    tmp_path: Path, changed: dict[str, str], why: str
) -> None:
    spec = LabSpec("postgresql").to_json()
    values = {"spec": spec, "server": "1", "base": f"{BASE}/lab-1", "password": "p"}
    (tmp_path / "lab.json").write_text(json.dumps(values))
    assert RecordedLab.read(tmp_path).base == f"{BASE}/lab-1"
    (tmp_path / "lab.json").write_text(json.dumps(values | changed))
    with refused(ErrorId.RECORDING_NOT_USABLE, LabError, naming=why):
        RecordedLab.read(tmp_path)
