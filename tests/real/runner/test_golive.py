"""dbcheck golive on labs: left and continued, stopped by an audit, and by a loss."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.cli import FAIL, FAILED, PASS, USAGE
from dbcheck.cli.lab import describe_as_host
from dbcheck.evidence.verify import verify
from dbcheck.lab.spec import DriveSpec, LabSpec
from dbcheck.model.cut import PowerState
from dbcheck.witness.log import FrameLogReader
from tests.kit.rigs import Bench, bench, write_quick
from tests.kit.terminal import Terminal
from tests.kit.waiting import wait_until

# A whole check has three cuts or more, and some tests begin it three times.
pytestmark = [pytest.mark.root, pytest.mark.timeout(1200)]
HONEST = LabSpec("postgresql")


class Operator:
    """Somebody with a lab in an inventory, and a folder for the check."""

    def __init__(self, here: Bench, folder: Path) -> None:
        self.here, self.folder, self.check = here, folder, folder / "check"
        workload = str(write_quick(folder))
        host = describe_as_host(here.lab) | {"dbcheck_workload": workload}
        listed = {"all": {"hosts": {here.lab.name: host}}}
        self.inventory = folder / "inventory.yml"
        self.inventory.write_text(json.dumps(listed))

    @property
    def new(self) -> list[str]:
        """The words of a new check."""
        of_lab = [self.here.lab.name, "--inventory", str(self.inventory)]
        return [*of_lab, "--folder", str(self.check)]

    @property
    def resumed(self) -> list[str]:
        """The words that continue it."""
        return ["--resume", str(self.check)]

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "dbcheck", "golive", *words, "--json"],
            stdin=subprocess.DEVNULL,
            stdout=-1,
            stderr=-1,
        )

    def run(self, *words: str, code: int = PASS) -> Any:
        """Run it to its end; return its JSON, or what it said if it printed none."""
        with self.start(*words) as child:
            out, err = child.communicate(timeout=600)
        assert child.returncode == code, err.decode()
        assert b"Traceback" not in err
        return json.loads(out) if out else err.decode()

    def end_in(self, step: str, title: str, end: signal.Signals, *words: str) -> None:
        """End a client once it said *title* in a step."""
        with self.start(*words) as child:
            assert child.stderr is not None
            wanted = [step, title]
            for line in child.stderr:
                if line.decode().strip().startswith(wanted[0]):
                    wanted.pop(0)
                if not wanted:
                    break
            else:
                pytest.fail(f"it ended without {wanted}")
            child.send_signal(end)
            child.communicate(timeout=60)
        assert child.returncode == (FAILED if end is signal.SIGINT else -end)


@pytest.fixture
def operator(tmp_path: Path) -> Iterator[Operator]:
    with bench(HONEST, tmp_path) as here:
        yield Operator(here, tmp_path)


def test_what_was_typed_before_the_question_is_no_consent(operator: Operator) -> None:
    words = (sys.executable, "-m", "dbcheck", "golive", *operator.new)
    with Terminal(*words, environment=os.environ, folder=Path.cwd()) as terminal:
        terminal.until("1 of 7")
        terminal.type("y\n")
        terminal.until("4 of 7", "Cut the power of", "[y/N]: ")
        terminal.type("n\n")
        terminal.until(ErrorId.FIRST_CUT_NEEDS_CONSENT)
    assert not (operator.check / "steps" / "power.json").exists()
    page = (operator.check / "golive.html").read_text("utf-8")
    assert "the next step is Power test" in page


def by_step(result: Any) -> dict[str, Any]:
    return {step["step"]: step for step in result["steps"]}


def test_a_check_that_is_left_goes_on_where_it_was(operator: Operator) -> None:
    operator.end_in(
        "5 of 7", "load", signal.SIGINT, *operator.new, "--cuts", "2", "--seed", "3"
    )
    left = {
        path.name: path.read_bytes() for path in (operator.check / "steps").iterdir()
    }
    operator.end_in("6 of 7", "cut", signal.SIGKILL, *operator.resumed)
    result = operator.run(*operator.resumed)
    assert result["verdict"] == "PASS"
    assert {step["status"] for step in result["steps"]} == {"done"}
    statistics = result["statistics"]
    assert (statistics["cuts"], statistics["losses"]) == (2, 0)
    for name in ("witness", "audit", "flushes", "power"):  # they were not repeated
        path = operator.check / "steps" / f"{name}.json"
        assert path.read_bytes() == left[path.name]
    assert operator.here.rig.site.writer.power.state() is PowerState.ON
    page = (operator.check / "golive.html").read_text("utf-8")
    for text in ("Sign-off", "2 of 2", "Campaign", "DRIVE", result["clean"]):
        assert text in page
    for paper in result["papers"]:
        assert (operator.check / paper["file"]).is_file()
        assert paper["sha256"] in page
    (bundle,) = operator.check.glob("*.dbcheck.tar")
    assert verify(bundle, FrameLogReader()).same
    # It is over: nothing is done again.
    assert operator.run(*operator.resumed) == result


def change(here: Bench, name: str, value: str) -> None:
    """Change a setting of the server."""
    here.execute(f"alter system set {name} = {value}")
    here.execute("select pg_reload_conf()")
    wait_until(lambda: here.execute(f"show {name}") == [(value,)], f"it is {value}")


def test_an_audit_error_stops_it_before_any_cut(operator: Operator) -> None:
    change(operator.here, "synchronous_commit", "off")
    words = ("--cuts", "1", "--no-control")
    result = operator.run(*operator.new, *words, code=FAIL)
    audit = by_step(result)["audit"]
    assert (result["verdict"], audit["status"]) == ("FAIL", "stopped")
    assert "pg-synchronous-commit" in audit["fix"]
    for name in ("flushes", "power", "first-cut", "campaign", "papers"):
        assert by_step(result)[name]["status"] == "open"
    assert "must not go live" in (operator.check / "golive.html").read_text("utf-8")

    change(operator.here, "synchronous_commit", "on")
    mended = operator.run(*operator.resumed)
    assert mended["verdict"] == "PASS"
    assert by_step(mended)["witness"] == by_step(result)["witness"]
    assert any("no control" in text for text in list_to_accept(mended))


def list_to_accept(result: Any) -> list[str]:
    return [text for step in result["steps"] for text in step["to_accept"]]


def test_a_loss_ends_it_and_is_handed_over(tmp_path: Path) -> None:
    drive = DriveSpec(personality="lying")
    with bench(replace(HONEST, drive=drive), tmp_path) as here:
        operator = Operator(here, tmp_path)
        result = operator.run(*operator.new, "--no-control", code=FAIL)
        assert result["verdict"] == "FAIL"
        steps = by_step(result)
        assert (steps["first-cut"]["status"], steps["campaign"]["status"]) == (
            "stopped",
            "open",
        )
        (bundle,) = operator.check.glob("*.dbcheck.tar")
        assert verify(bundle, FrameLogReader()).verdict.value == "FAIL"
        runs = list((operator.check / "first-cut" / "runs").iterdir())
        again = operator.run(*operator.resumed, code=FAIL)  # no cut takes it back
        assert again == result
        assert list((operator.check / "first-cut" / "runs").iterdir()) == runs


@pytest.mark.wide
def test_what_changed_is_checked_again(operator: Operator) -> None:
    words = ("--cuts", "1", "--no-control")
    first = by_step(operator.run(*operator.new, *words))
    change(operator.here, "full_page_writes", "off")
    operator.run(*operator.resumed, code=FAIL)  # the audit calls that an error
    change(operator.here, "full_page_writes", "on")
    again = by_step(operator.run(*operator.resumed))
    assert again["witness"] == first["witness"]
    assert again["audit"] != first["audit"]


def test_another_server_is_not_taken_for_the_one_of_the_check(
    operator: Operator, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    with bench(HONEST, other) as there:
        operator.end_in("3 of 7", "does", signal.SIGINT, *operator.new)
        listed = json.loads(operator.inventory.read_text())
        (name,) = listed["all"]["hosts"]
        listed["all"]["hosts"][name] = describe_as_host(there.lab)
        operator.inventory.write_text(json.dumps(listed))
        said = operator.run(*operator.resumed, code=USAGE)
        assert ErrorId.GOLIVE_OF_OTHER_TARGET in said


@pytest.mark.wide
def test_a_check_whose_tables_were_cleaned_goes_on_and_says_so(
    operator: Operator,
) -> None:
    words = (*operator.new, "--cuts", "1")
    operator.end_in("5 of 7", "cycle  1:", signal.SIGINT, *words)
    of_lab = [operator.here.lab.name, "--inventory", str(operator.inventory)]
    clean = [sys.executable, "-m", "dbcheck", "clean", *of_lab]
    subprocess.run(clean, check=True, capture_output=True, timeout=60)
    said = operator.run(*operator.resumed, code=FAILED)
    assert f"golive --resume {operator.check}" in said
    result = operator.run(*operator.resumed)
    assert result["verdict"] == "PASS"
    assert any("were gone" in text for text in list_to_accept(result))


@pytest.mark.wide
def test_the_rows_of_a_cut_that_is_not_judged_are_not_cleaned(
    operator: Operator,
) -> None:
    """Without them the cut would be a FAIL, which no resume takes back."""
    words = (*operator.new, "--cuts", "1", "--no-control")
    operator.end_in("5 of 7", "server gone", signal.SIGKILL, *words)
    operator.here.lab.switch().restore()
    of_lab = [operator.here.lab.name, "--inventory", str(operator.inventory)]
    clean = [sys.executable, "-m", "dbcheck", "clean", *of_lab]
    done = subprocess.run(clean, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (USAGE, "")
    assert ErrorId.RUN_NOT_JUDGED in done.stderr
    assert "(--resume)" in " ".join(done.stderr.split())
    assert operator.run(*operator.resumed)["verdict"] == "PASS"
    subprocess.run(clean, check=True, capture_output=True, timeout=60)
