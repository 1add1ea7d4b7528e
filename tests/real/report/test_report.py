"""dbcheck report as people and machines use it: files, pipes, errors."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import stat
import subprocess
from pathlib import Path

import pytest
from junitparser import JUnitXml

from dbcheck.base.error_ids import ErrorId
from dbcheck.campaign.folder import CampaignFolder, write_matrix
from dbcheck.cli import FAIL, FAILED, PASS, USAGE
from dbcheck.explore.folder import RESULT_FILE, Exploration, ExplorePlan
from dbcheck.judge.result import to_values
from dbcheck.model.verdict import Verdict
from dbcheck.report.formats import FORMATS
from dbcheck.report.rows import Line, make_matrix_result
from dbcheck.runs.folder import RunFolder
from dbcheck.runs.stored import open_private
from tests.kit.explored_results import LOST
from tests.kit.reports import run_result
from tests.kit.samples import PLAN
from tests.kit.stored_run import manifest, stored_run
from tests.kit.users import DBCHECK
from tests.runs import make

STORED = Path(make.__file__).parent
BEGINS = {
    "html": "<!doctype html>",
    "md": "# FAIL: ",
    "junit": "<testsuites",
    "json": "{",
    "prometheus": "# HELP dbcheck_verdict",
    "text": "\n\u256d",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copytree(STORED / "postgresql-lying", tmp_path / "run")
    return tmp_path


def report(
    folder: Path, *words: str, code: int = PASS, umask: int = 0o022
) -> tuple[str, str]:
    """Run dbcheck report in *folder*; return what it printed on stdout and stderr."""
    done = subprocess.run(
        (*DBCHECK, "report", *words),
        cwd=folder,
        capture_output=True,
        text=True,
        umask=umask,
        timeout=120,
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout, done.stderr


@pytest.mark.parametrize(
    ("name", "kind"),
    [(f"a{end}", each.name) for each in FORMATS.values() for end in each.suffixes],
)
def test_the_suffix_of_the_file_says_which_format(
    folder: Path, name: str, kind: str
) -> None:
    out, err = report(folder, "run", "-o", name)
    text = (folder / name).read_text()
    assert text.startswith(BEGINS[kind])
    assert out == ""
    assert err.startswith(f"{name}: {len(text.encode()):,} bytes of ")
    assert sorted(path.name for path in folder.iterdir()) == [name, "run"]


@pytest.mark.parametrize("kind", FORMATS)
def test_standard_output_is_what_a_file_would_hold(folder: Path, kind: str) -> None:
    out, err = report(folder, "run", "--format", kind)
    assert err == ""
    if kind == "text":  # as wide as a terminal
        assert out.splitlines()[2].startswith("\u2502  FAIL ")
        return
    report(folder, "run", "--format", kind, "-o", "file")
    assert out == (folder / "file").read_text()


def test_others_may_read_a_report_as_the_umask_says(folder: Path) -> None:
    for umask, mode in ((0o022, 0o644), (0o077, 0o600)):
        report(folder, "run", "-o", "a.prom", umask=umask)
        assert stat.S_IMODE((folder / "a.prom").stat().st_mode) == mode


def test_a_report_replaces_the_one_before_it(folder: Path) -> None:
    file = folder / "a.md"
    file.write_text("old")
    report(folder, "run", "-o", "a.md")
    assert file.read_text().startswith("# FAIL: ")
    target = folder / "elsewhere"
    target.write_text("old")
    file.unlink()
    file.symlink_to(target)
    report(folder, "run", "-o", "a.md")
    assert file.is_symlink()
    assert target.read_text().startswith("# FAIL: ")


def test_a_device_or_a_pipe_is_written_to_and_not_replaced(folder: Path) -> None:
    pipe = folder / "pipe.md"
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE, text=True) as reader:
        report(folder, "run", "-o", "pipe.md")
        text, _ = reader.communicate(timeout=60)
    assert text.startswith("# FAIL: ")
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_report_that_cannot_be_written_leaves_nothing(folder: Path) -> None:
    _, err = report(folder, "run", "-o", "no/a.html", code=FAILED)
    assert "no/a.html cannot be written: No such file or directory" in err
    (folder / "d.html").mkdir()
    report(folder, "run", "-o", "d.html", code=USAGE)
    assert sorted(path.name for path in folder.iterdir()) == ["d.html", "run"]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            (*DBCHECK, "report", "run", "--format", "html"),
            cwd=folder,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert done.returncode == FAILED
    said = "dbcheck: the result cannot be printed: No space left on device\n"
    assert done.stderr == said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "give either results or --compare with two"),
        (["run", "--compare", "run", "run"], "give either results or --compare"),
        (["nowhere"], "nowhere holds no result"),
        (["empty"], "empty holds no result"),
        (["run", "-o", "a.docx"], "the format of a.docx is not known"),
        (["--compare", "run", "run"], "run cannot be compared with itself"),
        (["--compare", "run", "nowhere"], "nowhere cannot be compared"),
        (["--compare", "run", "run", "-o", "a.xml"], "a comparison has no verdict"),
    ],
)
def test_what_cannot_be_reported_is_refused(
    folder: Path, words: list[str], said: str
) -> None:
    (folder / "empty").mkdir(exist_ok=True)
    out, err = report(folder, *words, code=USAGE)
    assert out == ""
    assert err.startswith("dbcheck: ")
    assert said in err
    assert err.count("\n") == 2  # what is wrong, and what to do


def test_a_file_that_is_no_matrix_is_refused(folder: Path) -> None:
    for text, said in (
        ("", "is not JSON"),
        ("[1]", "is not a record of dbcheck"),
        ((folder / "run" / "manifest.json").read_text(), "is damaged"),
    ):
        (folder / "m.json").write_text(text)
        _, err = report(folder, "m.json", code=FAILED)
        assert said in err


def test_a_stored_matrix_is_shown_and_a_changed_one_refused(folder: Path) -> None:
    row = Line("drive=honest", "", Verdict.PASS, None, [run_result({})], "")
    path = write_matrix(folder / "runs", make_matrix_result([row], 5, "about it"))
    out, _ = report(folder, str(path), "--format", "junit")
    (suite,) = JUnitXml.fromstring(out.encode())
    assert [case.name for case in suite] == ["drive=honest"]
    assert "about it" in report(folder, str(path))[0]
    path.write_text(path.read_text().replace("drive=honest", "drive=lying"))
    _, err = report(folder, str(path), code=FAILED)
    assert "is damaged or was changed" in err


def test_an_exploration_is_shown_and_a_damaged_one_refused(folder: Path) -> None:
    explored = Exploration.create(folder / "explore")
    explored.write_plan(ExplorePlan("0", 7, "run"))
    explored.write_result(to_values(LOST))
    # The recorded cycle lies in it, and yet it is no folder of runs.
    stored_run(RunFolder.create(explored.path, manifest()))
    out, _ = report(folder, "explore", "--format", "junit")
    assert JUnitXml.fromstring(out.encode()).failures == 1
    for kind in ("html", "md", "text"):
        out, _ = report(folder, "explore", "--format", kind)
        assert "finding-1" in out and "missing-tail" in out.replace("\\", "")
    file = explored.path / RESULT_FILE
    file.write_text(file.read_text().replace('"FAIL"', '"FINE"'))
    _, err = report(folder, "explore", code=FAILED)
    assert f"[{ErrorId.RECORD_DAMAGED}]" in err


def test_a_campaign_with_no_cycle_yet_is_shown_and_compared_with_nothing(
    folder: Path,
) -> None:
    CampaignFolder.create(folder / "c", PLAN)
    assert "proves nothing" in report(folder, "c")[0]
    _, err = report(folder, "--compare", "run", "c", code=USAGE)
    assert "c has no cycle that counts" in err


def test_two_runs_are_compared(folder: Path) -> None:
    shutil.copytree(STORED / "mariadb-pass", folder / "other")
    out, _ = report(folder, "--compare", "run", "other", "--format", "json")
    found = json.loads(out)
    assert [found[side]["verdict"] for side in "ab"] == ["FAIL", "PASS"]
    assert found["comparison"]["sentence"].startswith("losses in 1 of 1 cuts against 0")
    differ = {one["name"]: (one["a"], one["b"]) for one in found["differences"]}
    assert differ["lab engine"] == ("postgresql", "mariadb")
    assert differ["lab drive personality"] == ("lying", "honest")
    assert differ["fsync"][1] is None
    assert found["same"] > 5
    shutil.copytree(folder / "run", folder / "copy")
    same, _ = report(folder, "--compare", "run", "copy", "--format", "json")
    assert json.loads(same)["differences"] == []


def test_a_run_in_use_by_another_dbcheck_is_left_alone(folder: Path) -> None:
    import fcntl

    with open_private(folder / "run" / "lock", "ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _, err = report(folder, "run", code=FAILED)
    assert "another dbcheck is using run" in err


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_run_of_another_user_is_shown_and_not_written_to(folder: Path) -> None:
    for path in [folder / "run", *(folder / "run").iterdir()]:
        os.chown(path, 12345, 12345)
    before = sorted(path.name for path in (folder / "run").iterdir())
    assert report(folder, "run")[0].splitlines()[2].startswith("\u2502  FAIL ")
    assert sorted(path.name for path in (folder / "run").iterdir()) == before


def test_a_result_that_a_full_disk_does_not_take_is_no_success(folder: Path) -> None:
    """On stdout, by each verb that shows what is stored; a loss stays a loss."""
    shutil.copytree(STORED / "postgresql-pass", folder / "sound")
    subprocess.run((*DBCHECK, "bundle", "sound", "-o", "b.tar"), cwd=folder, check=True)
    cases = {
        "report run": FAILED,
        "report sound --format md": FAILED,
        "report sound --format json": FAILED,
        "report --compare run sound": FAILED,
        "verify b.tar": FAILED,
        "verify b.tar --json": FAILED,
        "reconcile sound --offline": FAILED,
        "reconcile sound --offline --json": FAILED,
        "reconcile run --offline": FAIL,
        "witness verify sound": FAILED,
        "workloads": FAILED,
    }
    for words, code in cases.items():
        with Path("/dev/full").open("wb") as full:
            done = subprocess.run(
                (*DBCHECK, *words.split()),
                cwd=folder,
                stdout=full,
                stderr=subprocess.PIPE,
                text=True,
            )
        assert done.returncode == code, (words, done.stderr)
        assert done.stderr.count("\n") == 1, (words, done.stderr)


@pytest.mark.parametrize("words", ["report run -o new.html", "bundle run -o new.html"])
def test_a_file_that_a_disk_does_not_take_is_not_made(folder: Path, words: str) -> None:
    """A limit of the size of files ends a write as a full disk does."""
    command = shlex.join((*DBCHECK, *words.split()))
    done = subprocess.run(
        ["sh", "-c", f"ulimit -f 1; exec {command}"],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert done.returncode == FAILED, done.stderr
    assert "Traceback" not in done.stderr
    assert not list(folder.glob("*new*"))
