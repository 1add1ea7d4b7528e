"""A forced failover: what dbcheck claims of it, with a real server behind programs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dbcheck.cycle.cycle import run_cycle
from dbcheck.judge.item import ItemId, Status
from dbcheck.model.cut import CutClass
from dbcheck.model.verdict import Verdict
from dbcheck.report.words.run import scope
from tests.kit.labs import process_lab
from tests.kit.nodes import with_node
from tests.kit.rigs import SEED, bench, quick
from tests.real.cycle.hold_client import programs


@pytest.mark.wide
def test_a_pass_of_a_failover_claims_no_depth(tmp_path: Path) -> None:
    with bench(process_lab("postgresql"), tmp_path) as here:
        power = programs(here.lab.name, 0.1, tmp_path, CutClass.FAILOVER)
        # Asking a host does not let dbcheck claim more.
        outcome = run_cycle(with_node(here.rig, power=power), quick(), SEED)
    assert outcome.verdict is Verdict.PASS, outcome.judgement
    claim, left_open, *_ = outcome.judgement.reasons
    assert "survived this forced failover (no power cut was tested)" in claim
    assert left_open.startswith("another server took over")
    assert outcome.result.depth is None
    assert "What was cut: forced failover" in scope(replace(outcome.result, lab={}))
    items = {item.id: item for item in outcome.judgement.items}
    assert items[ItemId.TIME_OFF].status is Status.ABSENT
    assert not items[ItemId.NOT_SHUT_DOWN].required
