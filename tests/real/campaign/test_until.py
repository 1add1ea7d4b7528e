"""--until and --max-cuts: as many cuts as the bound takes, and no more."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dbcheck.cli import FAIL, PASS
from dbcheck.cli.lab import describe_as_host
from dbcheck.model.verdict import PPM, compute_cuts_needed
from tests.kit.labs import process_lab
from tests.kit.rigs import bench

HALF = compute_cuts_needed(PPM // 2)


def dbcheck(folder: Path, *words: str, code: int) -> Any:
    done = subprocess.run(
        (sys.executable, "-m", "dbcheck", *words, "--json"),
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        timeout=280,
    )
    assert done.returncode == code, done.stdout
    return json.loads(done.stdout)


@pytest.mark.wide
def test_a_campaign_ends_at_most_cuts_and_says_what_is_left(tmp_path: Path) -> None:
    with bench(process_lab("postgresql"), tmp_path) as here:
        hosts = {here.lab.name: describe_as_host(here.lab)}
        (tmp_path / "inventory.yml").write_text(json.dumps({"all": {"hosts": hosts}}))
        words = ("campaign", here.lab.name, "--until", "0.5", "--max-cuts", "1")
        (shown,) = dbcheck(tmp_path, *words, code=PASS)["targets"]
    proven = shown["statistics"]
    assert (proven["cuts"], proven["losses"], shown["planned_cuts"]) == (1, 0, 1)
    assert shown["bound_ppm"] == PPM // 2 < proven["loss_ppm_max"] == 950_000
    assert shown["cuts_still_needed"] == HALF - 1
    assert shown["finished"]


@pytest.mark.wide
@pytest.mark.root
def test_the_first_loss_ends_what_was_to_show_a_bound(tmp_path: Path) -> None:
    words = ("lab", "run", "--engine", "postgresql", "--drive", "lying")
    shown = dbcheck(tmp_path, *words, "--until", "0.05", code=FAIL)
    assert len(shown["cycles"]) == 1
    assert (shown["statistics"]["losses"], shown["statistics"]["cuts"]) == (1, 1)


@pytest.mark.soak
@pytest.mark.parametrize(
    "cut", ["process", pytest.param("drive", marks=[pytest.mark.root])]
)
def test_a_lab_is_cut_until_the_bound_is_shown(tmp_path: Path, cut: str) -> None:
    words = ("lab", "run", "--engine", "postgresql", "--cut", cut, "--until", "0.5")
    shown = dbcheck(tmp_path, *words, code=PASS)
    assert shown["statistics"]["cuts"] == HALF
    assert shown["statistics"]["loss_ppm_max"] <= PPM // 2
