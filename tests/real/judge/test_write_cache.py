"""A drive with a volatile cache of which the kernel believes that it has none."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from dbcheck.cycle.cycle import run_cycle
from dbcheck.judge.item import ItemId, Status
from dbcheck.lab.spec import LabSpec
from dbcheck.model.depth import Depth
from dbcheck.model.verdict import Verdict
from dbcheck.report.verdict import verdict_report
from tests.kit.rigs import SEED, bench, quick


@pytest.mark.root
def test_a_drive_that_is_never_flushed_is_shown_to_be_volatile(tmp_path: Path) -> None:
    with bench(LabSpec("mariadb", write_cache="write through"), tmp_path) as here:
        outcome = run_cycle(here.rig, quick(), SEED)
    assert outcome.verdict is Verdict.FAIL
    assert outcome.case.depth is not None
    assert outcome.case.depth.depth is Depth.DRIVE
    (item,) = (i for i in outcome.judgement.items if i.id is ItemId.WRITE_CACHE)
    assert item.status is Status.CONTRADICTED
    file = io.StringIO()
    Console(file=file, width=400).print(verdict_report(outcome.result))
    assert file.getvalue().count("sends no flush to loop") == 3
    assert "RAID controller" not in file.getvalue()
