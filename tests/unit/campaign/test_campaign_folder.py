"""What a campaign keeps of its cycles."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import RunFormatError
from dbcheck.campaign.folder import CampaignFolder, CampaignPlan, Cycle
from dbcheck.model.verdict import CycleVerdict
from dbcheck.runs import stored
from tests.kit.refusals import refused
from tests.kit.samples import PLAN


def test_cycles_come_in_their_order_however_many_there_are(tmp_path: Path) -> None:
    folder = CampaignFolder.create(tmp_path / "campaign", PLAN)
    kept = [(0, "a"), (0, "b"), (1, "c"), (9_999, "d"), (10_000, "e"), (100_000, "f")]
    for number, run in reversed(kept):
        folder.add(Cycle(number, run, "steady", 1.0, CycleVerdict.PASS, "", ""))
    assert [(cycle.number, cycle.run) for cycle in folder.cycles()] == kept


@pytest.mark.parametrize(
    ("bound", "allowed"), [(0, 0), (99, 0), (100, 1), (500_001, 0)]
)
def test_a_plan_has_a_bound_that_cuts_can_show(bound: int, allowed: int) -> None:
    """A stored plan may be anybody's; to count the cuts for 1 ppm takes minutes."""
    content = stored.to_bytes(PLAN).replace(
        b'"bound_ppm": null', b'"bound_ppm": %d' % bound
    )
    values = json.loads(content)
    del values["format"], values["sha256"]
    changed = stored.to_bytes(values)
    if allowed:
        assert stored.from_bytes(changed, CampaignPlan, "it").bound_ppm == bound
    else:
        with refused(ErrorId.RECORD_DAMAGED, RunFormatError, naming="bound"):
            stored.from_bytes(changed, CampaignPlan, "it")
