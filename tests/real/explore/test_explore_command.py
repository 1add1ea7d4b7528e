"""dbcheck lab explore, as people use it at a shell."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from dbcheck.lab import state
from dbcheck.lab.lab import list_missing
from dbcheck.lab.spec import LabSpec
from tests.kit.drive_mounts import own_mounts as own_mounts
from tests.kit.files import STRANGER
from tests.kit.lab_state import own_state as own_state
from tests.kit.waiting import wait_until

QUICK = ("--load-s", "0.4", "--seed", "3", "--sessions", "2")


def command(*words: object) -> list[str]:
    return [sys.executable, "-m", "dbcheck", "lab", "explore", *map(str, words)]


def explore(*words: object, code: int = 0) -> str:
    """Run the command; return what it printed."""
    done = subprocess.run(
        command(*words),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == code, done.stdout + done.stderr
    printed = done.stdout if code in (0, 1, 3) else done.stderr
    return printed if "--json" in words else " ".join(printed.split())


def result(*words: object, code: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(explore(*words, "--json", code=code))
    return found


def names(folder: object) -> list[str]:
    lines = Path(str(folder), "states.jsonl").read_text().splitlines()
    return [json.loads(line)["name"] for line in lines]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if lacking := list_missing(LabSpec("postgresql")):
        pytest.skip("; ".join(lacking))
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def kept(runs: Path, own_mounts: None, own_state: None) -> dict[str, Any]:
    """The result of an exploration in which nothing was lost."""
    return result("--engine", "postgresql", "--states", 8, "--runs", runs, *QUICK)


@pytest.fixture(autouse=True)
def no_labs() -> Iterator[None]:
    yield
    assert state.list_labs() == []


@pytest.mark.root
def test_nothing_is_lost_at_durable_defaults(kept: dict[str, Any]) -> None:
    assert (kept["verdict"], kept["states"], kept["failed"]) == ("PASS", 8, 0)
    assert kept["commits"] > 20 and kept["finished"] and kept["per_s"] > 0
    assert kept["coverage"]["visited"] <= 8 <= kept["coverage"]["moments"]
    assert len(names(kept["folder"])) == len(set(names(kept["folder"]))) == 8
    stored = json.loads(Path(kept["folder"], "explored.json").read_text())
    assert stored == kept


@pytest.mark.root
def test_an_exploration_goes_on_where_it_ended(kept: dict[str, Any]) -> None:
    before = names(kept["folder"])
    more = result(kept["folder"], "--states", 12, "--labs", 1)
    assert (more["verdict"], more["states"]) == ("PASS", 12)
    assert names(kept["folder"])[:8] == before
    assert len(set(names(kept["folder"]))) == 12
    text = explore(kept["folder"], "--states", 12)
    assert "12 different crash states" in text and "all kept" in text


@pytest.mark.root
def test_one_state_is_judged_again_by_its_name(kept: dict[str, Any]) -> None:
    name = names(kept["folder"])[0]
    again = result(kept["folder"], "--state", name)
    line = Path(kept["folder"], "states.jsonl").read_text().splitlines()[0]
    stored = json.loads(line)
    assert again["state"] == stored["state"]
    assert again["judgement"] == {"reason": "", "rows": []} | stored["judgement"]
    text = explore(kept["folder"], "--state", name)
    assert name in text and "PASS" in text


def stranger(folder: str, to: Path, **changed: str) -> Path:
    """Return a copy of an exploration with another recording/lab.json."""
    shutil.copytree(folder, to)
    lab = to / "recording" / "lab.json"
    lab.write_text(json.dumps(json.loads(lab.read_text()) | changed))
    return to


@pytest.mark.root
def test_an_exploration_of_a_stranger_is_not_run(
    kept: dict[str, Any], tmp_path: Path
) -> None:
    """Neither its settings nor its data: nobody knows what they would start."""
    other = stranger(kept["folder"], tmp_path / "other", password="another")
    said = explore(other, "--states", 9, code=2)
    assert f"nothing shows that you recorded {other}" in said
    assert len(names(other)) == len(names(kept["folder"]))
    drive = Path(shutil.copytree(kept["folder"], tmp_path / "more"))
    with (drive / "recording" / "files.drive").open("ab") as file:
        file.write(b"x")
    assert "add --trust" in explore(drive, "--states", 9, code=2)
    (other / "recording").chmod(0o770)
    os.chown(other / "recording", -1, STRANGER)
    assert f"the group {STRANGER} may write" in explore(
        other, "--states", 9, "--trust", code=2
    )


@pytest.mark.root
def test_an_exploration_names_no_folder_of_this_machine(
    kept: dict[str, Any], tmp_path: Path
) -> None:
    """What a lab has its storage in is made there, and given to its server."""
    victim = tmp_path / "victim"
    (victim / "run").mkdir(parents=True)
    other = stranger(kept["folder"], tmp_path / "other", base=str(victim))
    explore(other, "--states", len(names(other)) + 1, "--labs", 1, "--trust", code=4)
    assert (victim / "run").stat().st_uid == 0
    assert list(victim.iterdir()) == [victim / "run"]


@pytest.mark.root
def test_an_exploration_that_is_trusted_is_run(
    kept: dict[str, Any], tmp_path: Path
) -> None:
    other = shutil.copytree(kept["folder"], tmp_path / "other")
    environment = os.environ | {"XDG_STATE_HOME": str(tmp_path / "state")}
    words = command(other, "--state", names(other)[0])
    for more, code in (([], 2), (["--trust"], 0)):
        done = subprocess.run([*words, *more], env=environment, capture_output=True)
        assert done.returncode == code, done.stderr


@pytest.mark.root
def test_a_loss_is_reduced_named_and_repeated(runs: Path) -> None:
    # The WAL writer sleeps through the load, so what it acknowledges is not written;
    # but the state that fails first may be of a moment when all was.
    settings = ("synchronous_commit=off", "wal_writer_delay=10s")
    relaxed = tuple(chain(*(("--setting", one) for one in settings)))
    words = ("--engine", "postgresql", "--runs", runs, "--states", 6, *relaxed)
    for seed in range(3, 11):
        found = result(*words, *QUICK, "--seed", seed, code=1)
        assert found["verdict"] == "FAIL" and found["failed"] > 0
        (finding,) = [one for one in found["findings"] if one["number"] == 1]
        smallest = finding["smallest"]
        assert finding["again"] and smallest["judgement"]["losses"]["missing-tail"] > 0
        if not smallest["lost"]:
            break
    # Acknowledged before it was written: even with all that was, the rows are gone.
    assert smallest["lost"] == []
    again = result(found["folder"], "--state", "finding-1", code=1)
    assert again["judgement"] == smallest["judgement"]
    text = explore(found["folder"], "--states", 6, code=1)
    assert "finding-1" in text and "missing-tail" in text
    assert "had not written" in text


@pytest.mark.wide_with("9")
@pytest.mark.root
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_client_that_ends_early_leaves_its_states_and_no_lab(
    number: signal.Signals, kept: dict[str, Any], tmp_path: Path
) -> None:
    folder, before = kept["folder"], len(names(kept["folder"]))
    many = command(folder, "--states", 400, "--json")
    client = subprocess.Popen(
        many, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        wait_until(lambda: len(names(folder)) >= before + 3, "three more states", 60)
    finally:
        client.send_signal(number)
        printed, _ = client.communicate(timeout=60)
    wait_until(lambda: not any(e.alive() for e in state.list_labs()), "labs to end", 30)
    state.remove_dead()
    assert len(set(names(folder))) == len(names(folder)) < 400
    if number is signal.SIGINT:
        assert client.returncode == 4
        report = json.loads(printed)
        assert not report["finished"] and report["verdict"] == "INCONCLUSIVE"
        assert report["states"] == len(names(folder))
    goes_on = result(folder, "--states", len(names(folder)) + 1)
    assert goes_on["verdict"] == "PASS"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ([], "neither --engine nor the folder"),
        (["--state", "1.none.1"], "none is given"),
        (["{empty}"], "holds no exploration"),
        (["{empty}", "--engine", "postgresql"], "cannot be used with FOLDER"),
        (["--engine", "postgresql", "--setting", "fsync"], "has no value"),
        (["--engine", "oracle"], "is not one of"),
        (["--engine", "postgresql", "--drive", "fickle"], "is not one of"),
        (["--engine", "postgresql", "--workload", "none"], "workload"),
        (["--engine", "postgresql", "--workload", "readers"], "--readers 0"),
        (["{empty}", "--seed", "3"], "cannot be used with FOLDER"),
        (["{empty}", "--runs", "runs"], "cannot be used with FOLDER"),
        (["{empty}", "--state", "1.none.1", "--states", "3"], "judges one state"),
    ],
)
def test_what_cannot_be_explored_is_refused(
    words: list[str], text: str, tmp_path: Path
) -> None:
    given = [word.format(empty=tmp_path) for word in words]
    runs = () if "{empty}" in words else ("--runs", tmp_path / "runs")
    printed = explore(*given, *runs, code=2)
    assert text in printed and "Traceback" not in printed
    assert not (tmp_path / "runs").exists()


@pytest.mark.root
def test_an_unknown_state_is_refused(kept: dict[str, Any]) -> None:
    printed = explore(kept["folder"], "--state", "finding-9", code=2)
    assert "has no state 'finding-9'" in printed


@pytest.mark.root
@pytest.mark.parametrize("damaged", ["recording/files.drive", "recording/lab.json"])
def test_a_damaged_recording_is_an_error(
    damaged: str, kept: dict[str, Any], tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-a", kept["folder"], copy], check=True)
    content = bytearray((copy / damaged).read_bytes())
    content[len(content) // 2 :] = b"#" * 20
    (copy / damaged).write_bytes(content)
    assert "as it is now" in explore(copy, code=2)
    printed = explore(copy, "--trust", code=4)
    assert damaged.rpartition("/")[2] in printed and "Record anew" in printed


def test_an_ordinary_user_learns_what_is_missing(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root has what it needs")
    words = ("--engine", "postgresql", "--runs", tmp_path / "runs")
    printed = explore(*words, code=4)
    assert "cannot build this lab" in printed and "root" in printed
