"""What a campaign keeps of its cycles."""

from __future__ import annotations

import json
from dataclasses import replace
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


def test_a_cycle_is_read_once_until_its_file_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A campaign of a thousand cycles asks for all of them several times in each."""
    read: list[str] = []

    def read_record(path: Path, kind: type[Cycle]) -> Cycle:
        read.append(path.name)
        return stored.from_bytes(path.read_bytes(), kind, str(path))

    folder = CampaignFolder.create(tmp_path / "campaign", PLAN)
    cycles = [Cycle(n, "", "steady", 1.0, CycleVerdict.PASS, "", "") for n in (1, 2)]
    folder.add(*cycles)
    monkeypatch.setattr("dbcheck.campaign.folder._SETTLED_NS", -(10**18))
    assert folder.cycles() == cycles
    monkeypatch.setattr("dbcheck.runs.stored.read_record", read_record)
    assert folder.cycles() == cycles
    assert read == []
    lost = replace(cycles[1], verdict=CycleVerdict.FAIL)
    CampaignFolder.open(folder.path).add(lost)
    read.clear()
    assert folder.cycles() == [cycles[0], lost]
    assert read == ["0002.json"]
    (folder.path / "cycles" / "0001.json").unlink()
    assert folder.cycles() == [lost]


def test_a_cycle_that_was_written_just_now_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two changes within one step of the kernel's time look the same."""
    monkeypatch.setattr("dbcheck.campaign.folder._SETTLED_NS", 10**18)
    folder = CampaignFolder.create(tmp_path / "campaign", PLAN)
    folder.add(Cycle(1, "", "steady", 1.0, CycleVerdict.PASS, "", ""))
    assert folder.cycles()
    path = folder.path / "cycles" / "0001.json"
    path.write_bytes(path.read_bytes().replace(b"steady", b"stead2"))
    with refused(ErrorId.RECORD_DAMAGED, RunFormatError, naming="checksum"):
        folder.cycles()
