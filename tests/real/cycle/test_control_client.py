"""Controls as people run them, and what is left when their client is killed."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dbcheck.cycle.preflight.before_load import run_preflight
from dbcheck.lab.lab import Lab
from tests.kit.labs import process_lab
from tests.kit.rigs import SEED, Bench, bench, quick
from tests.kit.users import DBCHECK, User, said_until, user_of
from tests.kit.waiting import wait_until

FLUSH = "innodb_flush_log_at_trx_commit"
AGAIN = f"{FLUSH} is 1 again; a control had set it to 0"


@pytest.fixture(params=["postgresql", "mariadb"])
def user(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[User]:
    """A user whose lab has no drive."""
    with Lab.start(process_lab(request.param), tmp_path / "lab") as lab:
        yield User(lab, tmp_path)


@user_of("mariadb")
def test_a_control_comes_first_and_stands_in_the_result(user: User) -> None:
    result = user.json("run", *user.rig, "--control", code=0)
    assert result["verdict"] == "PASS"
    assert not result["control"]
    control = result["controls"][-1]
    assert control["control"]
    assert control["verdict"] == "PASS"
    lost = control["losses"]["missing-tail"]
    of = f"{lost:,} of {control['confirmed']:,} acknowledged commits"
    said = f"the control lost {of}, as expected"
    assert control["reasons"] == [said]
    (item,) = [item for item in result["evidence"] if item["item"] == "control"]
    assert item["reason"] == said
    shown = user.run("reconcile", control["folder"], "--offline", code=0)
    assert said in flat(shown)
    shown = user.run("reconcile", result["folder"], "--offline", code=0)
    assert said in flat(shown)


def flat(shown: str) -> str:
    """Return a report as one line, without its frame."""
    return " ".join(shown.replace("\N{BOX DRAWINGS LIGHT VERTICAL}", " ").split())


@pytest.mark.wide
def test_cycles_in_a_lab_share_one_control(tmp_path: Path) -> None:
    process_lab("postgresql")
    (tmp_path / "quick.toml").write_text(
        'plan = "insert"\npayload_bytes = [200]\nsessions = 4\n'
    )
    words = ("lab", "run", "--engine", "postgresql", "--cut", "process", "--control")
    more = ("--cycles", "2", "--workload", "quick.toml", "--json")
    done = subprocess.run(
        (*DBCHECK, *words, *more), cwd=tmp_path, capture_output=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert [cycle["verdict"] for cycle in result["cycles"]] == ["PASS", "PASS"]
    assert result["controls"][-1]["verdict"] == "PASS"
    assert result["controls"][-1]["losses"]


# ------------------------------------------------------------ the client is killed


@pytest.fixture
def abandoned(tmp_path: Path) -> Iterator[Bench]:
    """A MariaDB that a control had relaxed when its client was killed."""
    with bench(process_lab("mariadb"), tmp_path) as here:
        user = User(here.lab, tmp_path)
        user.workload(600)
        client = user.start("run", *user.rig, "--control")
        try:
            wait_until(lambda: flush_log(here) == 0, "the server is relaxed")
        finally:
            client.kill()
            client.communicate()
        assert flush_log(here) == 0
        user.workload(1.2)
        yield here


def flush_log(here: Bench) -> int:
    ((value,),) = here.execute(f"select @@global.{FLUSH}")
    return int(value)


def tables(here: Bench) -> set[str]:
    return {row[0] for row in here.execute("show tables")}


def of_the_next_run(here: Bench) -> None:
    started = run_preflight(here.rig, quick(), SEED)
    started.log.close()
    assert started.manifest.writer.facts.settings[FLUSH] == "1"
    assert AGAIN in here.said.text


def of_the_reconciliation(here: Bench) -> None:
    user = User(here.lab, here.rig.runs.parent)
    (run,) = here.rig.runs.iterdir()
    done = user.start("reconcile", str(run), *user.witness)
    out, err = done.communicate(timeout=60)
    assert done.returncode == 3, err
    assert AGAIN in err
    assert "control lost nothing, but" in flat(out)


def of_cleaning(here: Bench) -> None:
    user = User(here.lab, here.rig.runs.parent)
    user.run("clean", "--target", here.lab.target_url, code=0)


@pytest.mark.wide_with("of_the_next_run", "of_the_reconciliation")
@pytest.mark.parametrize(
    "preparation", [of_the_next_run, of_the_reconciliation, of_cleaning]
)
def test_what_a_killed_client_left_is_put_back_by_what_comes_next(
    abandoned: Bench, preparation: Callable[[Bench], None]
) -> None:
    preparation(abandoned)
    assert flush_log(abandoned) == 1
    assert "relaxed" not in tables(abandoned)


def test_a_restart_puts_it_back_by_itself(abandoned: Bench) -> None:
    """The note of it goes with it, so that nobody undoes it again."""
    switch = abandoned.rig.site.writer.power
    switch.cut()
    switch.restore()
    assert flush_log(abandoned) == 1
    abandoned.execute(f"set global {FLUSH} = 0")  # an administrator's own change
    assert abandoned.rig.site.writer.engine.restore_durability() is None
    assert flush_log(abandoned) == 0
    assert "relaxed" not in tables(abandoned)


def test_an_interrupt_puts_it_back(tmp_path: Path) -> None:
    with bench(process_lab("mariadb"), tmp_path) as here:
        user = User(here.lab, tmp_path)
        user.workload(600)
        client = user.start("run", *user.rig, "--control")
        try:
            wait_until(lambda: flush_log(here) == 0, "the server is relaxed")
            client.send_signal(signal.SIGINT)
            _, said = client.communicate(timeout=60)
        finally:
            client.kill()
            client.communicate()
        assert client.returncode == 4
        assert "Traceback" not in said
        assert AGAIN in said
        assert flush_log(here) == 1
        assert "relaxed" not in tables(here)


# ------------------------------------------------------------------ a human cuts


@pytest.mark.wide
@user_of("postgresql")
def test_a_human_is_asked_twice(user: User) -> None:
    """A lab plays the server on another host; the human is the test.

    Only the server is killed, so a control on MariaDB would lose nothing: it leaves the
    commits in the page cache.  PostgreSQL's leaves them in the server.
    """
    client = user.start_by_hand("--control", off_s=1.0)
    assert "cut the power twice" in said_until(client, "NOW")
    user.cut_by_hand(client)
    said = said_until(client, "NOW")
    assert "the control is over; now the cycle that counts" in said
    user.cut_by_hand(client)
    out, err = client.communicate(timeout=60)
    assert client.returncode in (0, 3), err
    result = json.loads(out)
    (control,) = result["controls"]
    lost = control["losses"]
    assert result["verdict"] == ("PASS" if lost else "INCONCLUSIVE")
    assert client.returncode == (0 if lost else 3)
