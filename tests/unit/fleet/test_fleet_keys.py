"""Which runs of a fleet count as the user's own: those its client knew, or made."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from dbcheck.campaign.folder import CampaignFolder
from dbcheck.fleet.coordinator import Coordinator, make_rig
from dbcheck.fleet.messages import Listing
from dbcheck.fleet.mirror import read_needed_files, unpack_files
from dbcheck.inventory.entry import Entry
from dbcheck.runner.campaign_child import _take_over
from dbcheck.runs import client_key
from dbcheck.runs.folder import RunFolder
from tests.kit.samples import MANIFEST, PLAN

ENTRY = Entry("db1", "postgresql://u@db1/d")
OURS, FOREIGN, NEW = (f"{MANIFEST.run_id[:-1]}{digit}" for digit in "012")


def run(folder: CampaignFolder, run_id: str) -> RunFolder:
    return RunFolder.create(folder.runs, replace(MANIFEST, run_id=run_id))


def test_a_run_that_was_there_before_stays_whose_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stranger's has a key as well, and comes back from the worker with it."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "client"))
    folder = CampaignFolder.create(tmp_path / "campaign", PLAN)
    run(folder, OURS).remember()
    run(folder, FOREIGN)
    rig = make_rig("1", ENTRY, folder, "up")
    assert rig.job.own == (OURS,)
    run(folder, NEW)
    files = read_needed_files(folder)
    listing = {name: hashlib.sha256(each).hexdigest() for name, each in files.items()}
    rig.incoming._held.update(listing)
    rig.agreed = True
    keeps = cast(Any, SimpleNamespace(_view=None))
    Coordinator._check_listing(keeps, rig, Listing(listing))
    own = {each.path.name for each in folder.list_runs_without_cycle() if each.is_own()}
    assert own == {OURS, NEW}


def test_a_worker_takes_over_the_runs_that_its_client_knows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else those of another machine would be settled with less evidence."""
    folder = CampaignFolder.create(tmp_path / "campaign", PLAN)
    for name in (OURS, FOREIGN):
        run(folder, name)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "worker"))
    unpack_files(tmp_path / "there", read_needed_files(folder))
    there = CampaignFolder.open(tmp_path / "there")
    _take_over(there, (OURS,))
    own = {each.path.name for each in there.list_runs_without_cycle() if each.is_own()}
    assert own == {OURS}
    assert client_key.recall(FOREIGN) is None
