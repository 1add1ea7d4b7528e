"""What --seed repeats: every row of a lab; on a server with a past, not the bytes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dbcheck.lab.lab import list_missing
from dbcheck.lab.spec import LabSpec
from dbcheck.rows.survivors import RECORD
from dbcheck.rows.table import LEDGER
from tests.kit.labs import process_lab
from tests.kit.rigs import SEED, bench, quick

pytestmark = pytest.mark.wide

Rows = dict[tuple[int, int], tuple[int, int]]


def rows(run: Path) -> Rows:
    """Return the epoch and the checksum of each row by its session and seq.

    A checksum covers the key and every byte of the payload.
    """
    found = np.fromfile(run / "survivors-ledger.bin", RECORD)
    return {
        (row["session"].item(), row["seq"].item()): (
            row["epoch"].item(),
            row["checksum"].item(),
        )
        for row in found
    }


def lab_run(folder: Path) -> tuple[dict[str, Any], Rows]:
    words = ("lab", "run", "--cut", "process", "--engine", "postgresql")
    done = subprocess.run(
        (sys.executable, "-m", "dbcheck", *words, "--seed", "7", "--json"),
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0
    (run,) = (folder / "runs").iterdir()
    return json.loads((run / "manifest.json").read_text()), rows(run)


def test_a_lab_run_is_repeated_to_the_byte(tmp_path: Path) -> None:
    assert not list_missing(LabSpec("postgresql", cut="process"))
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    first, one = lab_run(tmp_path / "one")
    second, two = lab_run(tmp_path / "two")
    assert first["run_id"] != second["run_id"]
    assert first["epoch"] == second["epoch"]
    shared = one.keys() & two.keys()
    assert len(shared) > 50
    assert {key: one[key] for key in shared} == {key: two[key] for key in shared}


def test_two_runs_of_one_seed_on_one_table_are_told_apart(tmp_path: Path) -> None:
    with bench(process_lab("postgresql"), tmp_path) as here:
        ran = [here.cut_cycle(quick(), SEED) for _ in range(2)]
        first, second = (started.manifest for started in ran)
        assert first.seed == second.seed == SEED
        assert first.epoch != second.epoch
        outcome = here.judge(ran[1])
        assert outcome.found is not None
        before = second.tables[LEDGER.name]
        assert outcome.found.earlier == sum(before.rows_by_epoch.values())
        assert outcome.found.counts == {}
