"""What a command leaves out: drivers, SSH and the lab load slowly, and few need all."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dbcheck.cli import FAIL, FAILED, PASS
from tests.runs import make

RUNS = Path(make.__file__).parent
PROGRAM = """
import json, sys
from dbcheck.cli.root import run
code = run()
sys.stderr.write("\\n" + json.dumps([code, sorted(sys.modules)]))
"""
AT_ITS_END = """
import atexit, gc, json, os, sys
def said():
    threads = len(os.listdir("/proc/self/task"))
    found = [threads, gc.isenabled(), gc.get_freeze_count() > len(sys.modules)]
    sys.stderr.write("\\n" + json.dumps(found))
atexit.register(said)
from dbcheck.cli import main
main()
"""
DASK = {"distributed", "dask", "dbcheck.load.far"}
SSH, LAB = {"paramiko"}, {"dbcheck.lab", "asyncssh"}
POSTGRESQL, MYSQL = {"psycopg", "psycopg2"}, {"mysql.connector"}
DRIVERS = {"sqlalchemy", *POSTGRESQL, *MYSQL}
JUDGING = {"numpy", "msgspec", "cryptography", "rich"}
OWN = {f"dbcheck.{name}" for name in ("inventory", "power", "hosts", "load", "engines")}
# What a load has and a judgement does not: the parts of a rig, and child processes.
RIG = {
    *(f"dbcheck.ports.{name}" for name in ("engine", "host", "power")),
    *(f"dbcheck.{name}" for name in ("cycle.rig", "cli.flags.load")),
    "dbcheck.base.processes",
    *("dbcheck.witness.window", "dbcheck.config.secret", "subprocess"),
}
# What loads slowly, and is needed only for what a sound run of few rows lacks.
RARE = {"numpy.ma"}
INVENTORY = """
all:
  hosts:
    db1:
      dbcheck_target: {target}
      dbcheck_witness: file:{folder}/witness
      dbcheck_ask_host: false
      dbcheck_power: exec
      dbcheck_power_state: [echo, "on"]
      dbcheck_power_cut: ["false"]
      dbcheck_power_restore: ["false"]
    db2:
      dbcheck_target: postgresql://u@db2/d
      dbcheck_ask_host: false
      dbcheck_power: lab
      dbcheck_power_lab: one
"""
PG = "postgresql://u@127.0.0.1:1/d"
MY = "mysql://u@127.0.0.1:1/d"


def written(program: str, folder: Path, *words: str) -> Any:
    """Run *program* with *words* in *folder*; return what it wrote last, as JSON."""
    done = subprocess.run(
        [sys.executable, "-c", program, *words],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    return json.loads(done.stderr.splitlines()[-1])


def imported(folder: Path, *words: str) -> tuple[int, set[str]]:
    """Run dbcheck with *words* in *folder*; return its exit code and its modules."""
    code, modules = written(PROGRAM, folder, *words)
    return code, set(modules)


@pytest.mark.parametrize(
    ("words", "code", "absent"),
    [
        ("--help", PASS, DRIVERS | SSH | LAB | JUDGING | OWN),
        ("--version", PASS, DRIVERS | SSH | LAB | JUDGING | OWN),
        ("reconcile run --offline", PASS, DRIVERS | SSH | LAB | OWN | RIG | RARE),
        ("report run", PASS, DRIVERS | SSH | {"jinja2", "junitparser"}),
        ("report run --format html", PASS, DRIVERS | SSH | {"junitparser"}),
        ("power state db1", PASS, DRIVERS | SSH | LAB),
        ("witness check --witness file:w", PASS, DRIVERS | SSH | LAB),
        ("witness show run", PASS, DRIVERS | SSH | LAB),
        ("run db1", FAILED, MYSQL | SSH | LAB | DASK),
        ("campaign db1 --cuts 1", FAILED, MYSQL | SSH | LAB),
        (f"run --target {MY} --witness file:w", FAILED, POSTGRESQL | SSH | LAB),
        (f"reconcile run --target {PG} --witness file:w", FAILED, MYSQL | SSH | LAB),
        (f"clean --target {PG}", FAILED, MYSQL | SSH | LAB),
    ],
)
def test_a_command_imports_nothing_that_it_has_no_use_for(
    words: str, code: int, absent: set[str], tmp_path: Path
) -> None:
    text = INVENTORY.format(target=PG, folder=tmp_path)
    (tmp_path / "inventory.yml").write_text(text)
    shutil.copytree(RUNS / "postgresql-pass", tmp_path / "run")
    ended, modules = imported(tmp_path, *words.split())
    assert ended == code
    assert sorted(absent & modules) == []


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("classic-lying", FAIL),
        ("mariadb-lying", FAIL),
        ("registers-lying", FAIL),
        ("registers-pass", PASS),
    ],
)
def test_no_run_needs_more_to_be_judged(name: str, code: int, tmp_path: Path) -> None:
    shutil.copytree(RUNS / name, tmp_path / "run")
    ended, modules = imported(tmp_path, "reconcile", "run", "--offline")
    assert ended == code
    assert sorted((DRIVERS | SSH | LAB | OWN | RIG | RARE) & modules) == []


def test_an_import_starts_no_thread_and_is_not_searched_for_garbage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    shutil.copytree(RUNS / "postgresql-pass", tmp_path / "run")
    found = written(AT_ITS_END, tmp_path, "reconcile", "run", "--offline")
    threads, collects, is_frozen = found
    assert threads == 1
    assert collects
    assert is_frozen


def test_what_is_looked_for_has_these_names(tmp_path: Path) -> None:
    """A module that was renamed would be missed by the tests above for ever."""
    names = DRIVERS | SSH | LAB | JUDGING | OWN | RIG | RARE
    subprocess.run(
        [sys.executable, "-c", f"import {', '.join(sorted(names))}"],
        cwd=tmp_path,
        check=True,
    )
