"""The end of a campaign whose power a person cuts."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dbcheck.campaign.folder import CampaignFolder
from dbcheck.runner import campaign_run
from dbcheck.runs.folder import RunFolder
from tests.kit.chosen_runs import manifest_of
from tests.kit.samples import PLAN


def test_a_damaged_record_does_not_hide_that_the_power_may_be_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = CampaignFolder.create(tmp_path / "campaign", PLAN)
    run = RunFolder.create(folder.runs, manifest_of(1))
    (run.path / "cut.json").write_text("{}")

    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(campaign_run, "run_stored", interrupt)
    entry: Any = SimpleNamespace(power=SimpleNamespace(attended=True))
    with pytest.raises(KeyboardInterrupt):
        campaign_run.run_one(entry, folder, as_json=False)
    assert "restore it" in capfd.readouterr().err
