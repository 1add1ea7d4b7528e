"""dbcheck lab up, password and down, as people use them at a shell."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dbcheck.lab import state
from dbcheck.lab.lab import Lab
from dbcheck.lab.spec import LabSpec
from tests.kit.drive_mounts import own_mounts as own_mounts
from tests.kit.lab_state import own_state as own_state
from tests.kit.servers import skip_without_server
from tests.kit.waiting import wait_until

QUICK = (
    'plan = "insert"\npayload_bytes = [200]\nsessions = 4\ncut_after_s = [1.2, 1.2]\n'
)


@pytest.fixture(autouse=True)
def no_labs() -> Iterator[None]:
    """End the labs that a test started."""
    yield
    dbcheck("lab", "down")
    assert state.list_labs() == []


def dbcheck(*words: str, code: int = 0) -> str:
    """Run a command; return what it said."""
    done = subprocess.run(
        [sys.executable, "-m", "dbcheck", *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
    )
    assert done.returncode == code, done.stdout
    return done.stdout


def said_on_stdout(*words: str) -> str:
    """Run a command that succeeds; return what it printed as its result."""
    command = [sys.executable, "-m", "dbcheck", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def up(engine: str, name: str, *words: str) -> str:
    """Bring a lab up; skip if there can be none."""
    skip_without_server(engine)
    return dbcheck("lab", "up", "--engine", engine, "--name", name, *words)


def commands(printed: str) -> list[str]:
    """Return the commands that `lab up` printed, each as it would be pasted."""
    blocks = printed.split("\n\n")
    return [block for block in blocks if block.startswith("  ")]


@pytest.mark.wide
def test_what_up_prints_can_be_pasted(tmp_path: Path) -> None:
    printed = up("mariadb", "pasted")
    assert Lab.find("pasted").password not in printed
    run, down = commands(printed)
    (tmp_path / "quick.toml").write_text(QUICK)
    words = "--workload quick.toml --twice"
    pasted = f"cd {tmp_path}\n{run.rstrip()} {words}\n{down}"
    shell = ["sh", "-e", "-c", pasted]
    done = subprocess.run(shell, stdout=subprocess.PIPE, text=True, timeout=100)
    assert done.returncode == 0
    assert "PASS" in done.stdout
    assert "second reading" in done.stdout
    assert done.stdout.endswith("lab pasted is down\n")


def test_a_lab_that_starts_or_ends_is_left_out_of_the_inventory() -> None:
    """Others of this account come and go at any moment."""
    entry, lock = state.create("moving")  # as `lab up` begins one
    entry.note(stays=True)
    assert json.loads(said_on_stdout("lab", "inventory"))["all"]["hosts"] == {}
    os.close(lock)  # as it ends
    assert json.loads(said_on_stdout("lab", "inventory"))["all"]["hosts"] == {}


@pytest.mark.wide
def test_labs_that_are_up_are_an_inventory(tmp_path: Path) -> None:
    for name in ("one", "two"):
        up("postgresql", name, "--cut", "process")
    (tmp_path / "quick.toml").write_text(QUICK)
    inventory, folder = tmp_path / "inventory.yml", str(tmp_path / "campaign")
    listed = json.loads(dbcheck("lab", "inventory"))
    listed["all"]["vars"] = {"dbcheck_workload": str(tmp_path / "quick.toml")}
    inventory.write_text(json.dumps(listed))
    words = ["one", "two", "--inventory", str(inventory), "--cuts", "1", "--twice"]
    said = dbcheck("campaign", *words, "--folder", folder)
    assert said.count("1/1 PASS") == 2
    for name in ("one", "two"):
        (record,) = Path(folder, name, "runs").glob("*/after.json")
        assert json.loads(record.read_bytes())["again"]["rows"] > 0
    where = ["--name", "two", "--inventory", str(inventory)]
    run, *facts = dbcheck("witness", "show", *where).split()
    assert facts[1] == "judged"
    assert "is intact" in dbcheck("witness", "verify", run, *where)
    said = dbcheck("clean", "two", "--inventory", str(inventory), "--run", run)
    assert "dropped" in said
    assert f"removed run {run}" in said
    assert dbcheck("witness", "show", *where) == ""
    assert dbcheck("witness", "show", "--name", "one", *where[2:])


def test_a_server_that_does_not_come_back_is_named_by_the_command_that_restores(
    tmp_path: Path,
) -> None:
    up("postgresql", "gone", "--cut", "process")
    inventory = tmp_path / "inventory.yml"
    inventory.write_text(dbcheck("lab", "inventory"))
    where = ("gone", "--inventory", str(inventory))
    dbcheck("power", "cut", *where)
    folder = state.find("gone").folder()
    assert folder is not None
    (folder / "files/data/global/pg_control").write_bytes(b"")
    assert "pg_control" in dbcheck("power", "restore", *where, code=4)
    seen = json.loads(dbcheck("power", "state", *where, "--json"))
    assert seen["state"] == "on"
    assert "pg_control" in seen["failure"]


def test_a_lab_is_ended_by_its_name() -> None:
    up("postgresql", "one", "--cut", "process")
    assert "no lab named two is running" in dbcheck("lab", "down", "two", code=4)
    assert dbcheck("lab", "down", "one") == "lab one is down\n"
    assert "no lab named one is running" in dbcheck("lab", "down", "one", code=4)


def test_a_dead_lab_is_removed_by_its_name() -> None:
    up("postgresql", "dead", "--cut", "process")
    entry = state.find("dead")
    daemon, folder = entry.daemon(), entry.folder()
    assert daemon is not None
    assert folder is not None
    daemon.kill()
    assert entry.wait_until_dead(5)
    said = dbcheck("lab", "down", "dead")
    assert said == "lab dead was dead; its leftovers were removed\n"
    assert not folder.exists()


def test_a_lab_that_somebody_works_with_is_left_alone(tmp_path: Path) -> None:
    spec = LabSpec("postgresql", cut="process")
    skip_without_server("postgresql")
    with Lab.start(spec, tmp_path / "lab", name="held") as lab:
        said = dbcheck("lab", "down")
        assert said == "lab held ends with the command that runs it\n"
        assert lab.switch().failure() is None
        assert dbcheck("lab", "down", "held") == "lab held is down\n"


@pytest.mark.wide
def test_without_a_name_all_are_ended() -> None:
    assert dbcheck("lab", "down") == "no lab is running\n"
    up("postgresql", "one", "--cut", "process")
    up("postgresql", "two", "--cut", "process")
    daemon = state.find("two").daemon()
    assert daemon is not None
    os.kill(daemon.pid, signal.SIGKILL)
    assert state.find("one").alive()
    assert state.make_record("two").wait_until_dead(5)
    assert dbcheck("lab", "down").splitlines() == [
        "lab one is down",
        "lab two was dead; its leftovers were removed",
    ]


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("--cut", "process", "--drive", "lying"), "--drive"),
        (
            ("--cut", "process", "--fs", "ext4", "--kept-writes", "torn"),
            "--kept-writes",
        ),
        (("--setting", "port=1"), "port"),
        (("--setting", "bind-address=::"), "bind-address"),
    ],
)
@pytest.mark.parametrize("verb", ["run", "up"])
def test_what_would_be_ignored_is_refused(
    verb: str, words: tuple[str, ...], named: str
) -> None:
    said = dbcheck("lab", verb, "--engine", "mariadb", *words, code=2)
    assert named in said.splitlines()[-2]
    assert state.list_labs() == []


@pytest.mark.parametrize("cycles", ["1", "3"])
def test_a_number_of_cycles_beside_a_bound_is_refused(cycles: str) -> None:
    words = ("lab", "run", "--engine", "mariadb", "--cut", "process")
    said = dbcheck(*words, "--cycles", cycles, "--until", "0.5", code=2)
    assert "either --cycles or --until" in said
    assert state.list_labs() == []


def test_an_image_needs_a_drive() -> None:
    words = ("lab", "run", "--engine", "mariadb", "--cut", "process", "--keep-image")
    assert "--keep-image needs a virtual drive" in dbcheck(*words, code=2)


@pytest.mark.wide
@pytest.mark.root
def test_the_drive_is_kept_as_the_cut_left_it(tmp_path: Path) -> None:
    """What the report names can be mounted, and holds a server that was not shut."""
    skip_without_server("postgresql")
    words = ("lab", "run", "--engine", "postgresql", "--fs", "ext4", "--drive", "lying")
    said = dbcheck(*words, "--keep-image", "--runs", str(tmp_path / "runs"), code=1)
    (image,) = tmp_path.glob("runs/*/drive.img")
    assert f"{image},thedriveasthecutleftit" in "".join(said.split())
    assert image.stat().st_blocks * 512 < image.stat().st_size / 2
    folder = tmp_path / "mounted"
    folder.mkdir()
    mount = ["mount", "-o", "loop,ro,noload", str(image), str(folder)]
    subprocess.run(mount, check=True)
    try:
        assert (folder / "data/postmaster.pid").exists()
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_a_killed_lab_run_leaves_no_folder(tmp_path: Path) -> None:
    """Not even one that is empty; `lab down` removes what the daemon could not."""
    skip_without_server("postgresql")
    words = ("lab", "run", "--engine", "postgresql", "--cut", "process")
    with subprocess.Popen(
        [sys.executable, "-m", "dbcheck", *words, "--runs", str(tmp_path / "runs")],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    ) as client:
        wait_until(lambda: any(e.folder() for e in state.list_labs()), "a lab is made")
        (entry,) = state.list_labs()
        wait_until(lambda: entry.daemon() is not None, "its daemon is started")
        assert list(tmp_path.glob("dbcheck-lab-*"))
        client.kill()
    entry.wait_until_dead(30)
    dbcheck("lab", "down")
    assert list(tmp_path.glob("dbcheck-lab-*")) == []
