"""The CI job of docs/guides/ci in a plain shell: exit codes, artifacts, signals."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from junitparser import JUnitXml

from dbcheck.cli import FAIL, FAILED, INCONCLUSIVE, PASS, USAGE
from dbcheck.lab import state
from tests.kit.drive_mounts import own_mounts as own_mounts
from tests.kit.lab_state import own_state as own_state
from tests.kit.servers import skip_without_server
from tests.kit.waiting import wait_until

JOB = Path(__file__).parents[3] / "docs" / "guides" / "ci" / "dbcheck-job.sh"
KEPT = {"html", "xml", "dbcheck.tar"}
LYING = "--drive lying --seed 1"
# Documented to lose commits, and loses none: the drive keeps what was not flushed.
LUCKY = "--fs ext4 --mount-options barrier=0 --kept-writes all"


@pytest.fixture(autouse=True)
def no_labs() -> Iterator[None]:
    """End the labs that a job left; the next test is to fail by itself alone."""
    yield
    subprocess.run([sys.executable, "-m", "dbcheck", "lab", "down"], check=True)


@dataclass(frozen=True)
class Job:
    """A folder in which the job runs as a CI system would run it."""

    folder: Path
    program: Path

    @property
    def artifacts(self) -> Path:
        return self.folder / "kept"

    def start(self, steps: str, more: Mapping[str, str]) -> subprocess.Popen[str]:
        temporary = self.folder / "tmp"
        temporary.mkdir(exist_ok=True)
        own = {
            "DBCHECK": str(self.program),
            "DBCHECK_STEPS": steps,
            "DBCHECK_ARTIFACTS": "kept",
            "DBCHECK_CUTS": "1",
            "TMPDIR": str(temporary),
        }
        return subprocess.Popen(
            ["sh", str(JOB)],
            cwd=self.folder,
            env={**os.environ, **own, **more},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, steps: str, code: int, **more: str) -> str:
        """Run the job; return what it said. Nothing of it is left."""
        with self.start(steps, more) as job:
            said, _ = job.communicate(timeout=250)
        assert job.returncode == code, said
        self.require_nothing_left()
        return said

    def require_nothing_left(self) -> None:
        """Fail if a lab, a process or a file of the job is there.

        Its loop devices go with its processes (real/lab/test_lab_ends.py).
        """
        assert state.list_labs() == []
        assert list((self.folder / "tmp").iterdir()) == []
        wait_until(lambda: not self.processes(), "no process of the job")

    def processes(self) -> list[str]:
        """Return the environments of processes that the job started."""
        mark = f"TMPDIR={self.folder / 'tmp'}"
        found = (_text(path) for path in Path("/proc").glob("[0-9]*/environ"))
        return [text for text in found if mark in text]

    def junit(self, name: str) -> JUnitXml:
        return JUnitXml.fromstring((self.artifacts / f"{name}.xml").read_bytes())


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


@pytest.fixture
def job(tmp_path: Path) -> Job:
    program = tmp_path / "dbcheck"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -P -m dbcheck "$@"\n')
    program.chmod(0o755)
    return Job(tmp_path, program)


@pytest.mark.root
def test_a_job_that_passes_keeps_reports_and_evidence(job: Job) -> None:
    skip_without_server("postgresql")
    said = job.run("lab-run campaign", PASS)
    for name in ("lab-run", "campaign"):
        files = {file.name for file in job.artifacts.glob(f"{name}.*")}
        assert files == {f"{name}.{suffix}" for suffix in KEPT}
        whole = job.junit(name)
        assert (whole.tests, whole.failures, whole.errors) == (1, 0, 0)
        assert "</html>" in (job.artifacts / f"{name}.html").read_text()
        bundle = str(job.artifacts / f"{name}.dbcheck.tar")
        subprocess.run([job.program, "verify", bundle], check=True)
    assert said.count("dbcheck-job: lab run: PASS") == 1
    assert said.count("dbcheck-job: campaign: PASS") == 1


@pytest.mark.wide
@pytest.mark.root
def test_the_demo_is_a_step(job: Job) -> None:
    skip_without_server("mariadb")
    job.run("demo", PASS)
    shown = (job.artifacts / "demo.txt").read_text()
    assert shown.count("FAIL") == 4


@pytest.mark.wide_with("campaign")
@pytest.mark.root
@pytest.mark.parametrize("step", ["lab-run", "campaign"])
def test_a_drive_that_lies_fails_the_job(job: Job, step: str) -> None:
    skip_without_server("postgresql")
    said = job.run(step, FAIL, DBCHECK_LAB=LYING)
    assert "FAIL (exit code 1)" in said
    whole = job.junit(step)
    assert (whole.tests, whole.failures, whole.errors) == (1, 1, 0)
    files = {file.name for file in job.artifacts.iterdir()}
    assert files == {f"{step}.{suffix}" for suffix in KEPT}


@pytest.mark.root
def test_a_cut_that_proves_nothing_fails_the_job(job: Job) -> None:
    skip_without_server("postgresql")
    said = job.run("lab-run", INCONCLUSIVE, DBCHECK_LAB=LUCKY)
    assert "INCONCLUSIVE (exit code 3)" in said
    whole = job.junit("lab-run")
    assert (whole.failures, whole.errors, whole.skipped) == (0, 1, 0)


@pytest.mark.wide
def test_without_devices_a_job_can_kill_the_server(job: Job) -> None:
    skip_without_server("postgresql")
    job.run("lab-run campaign", PASS, DBCHECK_CUT="process")
    assert "PROCESS" in (job.artifacts / "campaign.html").read_text()


# What stands in the job's output, or in its folder, when it is cancelled.
MOMENTS = {
    "lab-run": "*/runs/*/manifest.json",
    "lab up": "*/lab-is-up",
    "campaign": "*/campaign/runs/*/manifest.json",
}


@pytest.mark.wide_with("2", "campaign")
@pytest.mark.root
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_job_that_is_cancelled_leaves_nothing(
    job: Job, moment: str, number: signal.Signals
) -> None:
    skip_without_server("postgresql")
    step = "lab-run" if moment == "lab-run" else "campaign"
    with job.start(step, {"DBCHECK_CUTS": "50"}) as running:
        there = (job.folder / "tmp").glob
        wait_until(lambda: any(there(MOMENTS[moment])), moment)
        assert job.processes()
        running.send_signal(number)
        said, _ = running.communicate(timeout=120)
    assert running.returncode == 128 + number, said
    job.require_nothing_left()


# The exit codes of lab run, campaign and report; and that of the job.
CODES = {
    "0 0 0": PASS,
    "3 0 0": INCONCLUSIVE,
    "0 3 0": INCONCLUSIVE,
    "3 2 0": USAGE,
    "2 4 0": FAILED,
    "4 1 0": FAIL,
    "1 4 0": FAIL,
    "1 3 0": FAIL,
    "0 0 4": FAILED,
    "137 0 0": FAILED,
    "0 137 0": FAILED,
}


@pytest.mark.parametrize("codes", CODES)
def test_the_worst_step_decides(job: Job, codes: str) -> None:
    """A program that only ends with the given codes, and leaves a folder for each."""
    run, campaign, report = codes.split()
    job.program.write_text(
        f"""#!/bin/sh
case "$1 $2" in
"lab run") mkdir -p runs/1; exit {run} ;;
campaign*) mkdir campaign; exit {campaign} ;;
report*) exit {report} ;;
esac
"""
    )
    job.run("lab-run campaign", CODES[codes])


def test_a_step_that_is_not_known_is_an_error(job: Job) -> None:
    assert "step demon" in job.run("demon", USAGE)


def test_the_job_is_what_shellcheck_likes() -> None:
    found = shutil.which("shellcheck", path=f"{Path(sys.executable).parent}:/usr/bin")
    assert found, "make setup installs shellcheck"
    subprocess.run([found, "--shell=sh", "--severity=style", str(JOB)], check=True)


def test_the_guide_names_what_can_be_set() -> None:
    named = set(re.findall(r"\$\{(DBCHECK\w*):", JOB.read_text()))
    guide = (JOB.parents[1] / "ci.md").read_text()
    assert {name for name in named if f"`{name}`" not in guide} == set()
