"""What is checked of all targets before a campaign cuts any of them."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from rich.console import Console

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import DbcheckError, FleetError, HostError, UsageError
from dbcheck.campaign.folder import CampaignFolder
from dbcheck.cycle.rig import Rig
from dbcheck.inventory.entry import Entry
from dbcheck.model.records import CutAsked
from dbcheck.power.kinds.exec import ExecConfig
from dbcheck.report.progress import PlainProgress
from dbcheck.runner import assemble, campaign_run
from dbcheck.runner.matrix_cycles import run_on_target
from dbcheck.runs.folder import RunFolder
from tests.kit.nodes import one, site_of
from tests.kit.partial_rig import RecordingListener, rig_of
from tests.kit.refusals import refused
from tests.kit.stored_run import manifest

REFUSED = UsageError(
    "its name is another", id=ErrorId.OPTIONS_CONFLICT, hint="Rename it."
)
AWAY = HostError("cannot reach it", id=ErrorId.HOST_UNREACHABLE)


def checked(monkeypatch: pytest.MonkeyPatch, **found: DbcheckError | None) -> None:
    """Check targets of which each passes, or fails so."""

    def fit(entry: Entry, **_: Any) -> None:
        if error := found[entry.name]:
            raise error

    monkeypatch.setattr(campaign_run, "require_fit", fit)
    entries = [Entry(name, "postgresql://h/d", "") for name in found]
    campaign_run.require_all_fit(entries, yes=True, i_know=False)


def test_all_that_fail_are_named_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    checked(monkeypatch, db1=None, db2=None)
    with refused(ErrorId.TARGETS_NOT_FIT, UsageError, naming="2 of 3") as caught:
        checked(monkeypatch, db1=REFUSED, db2=None, db3=REFUSED)
    _, *lines = str(caught.value).split("\n")
    assert lines == ["db1: its name is another", "db3: its name is another"]
    assert caught.value.hint == "Rename it."
    many = {f"db{number}": REFUSED for number in range(9)}
    with refused(ErrorId.TARGETS_NOT_FIT, UsageError) as caught:
        checked(monkeypatch, **many)
    assert str(caught.value).endswith("\ndb4: its name is another\nand 4 more")


def test_one_that_cannot_be_asked_is_no_misuse(monkeypatch: pytest.MonkeyPatch) -> None:
    with refused(ErrorId.TARGETS_NOT_FIT, FleetError, naming="db2: cannot reach it"):
        checked(monkeypatch, db1=REFUSED, db2=AWAY)
    with refused(AWAY.id, HostError) as alone:
        checked(monkeypatch, db1=AWAY)
    assert str(alone.value) == str(AWAY)


def begin_a_campaign(entry: Entry) -> None:
    campaign_run.require_all_fit([entry], yes=True, i_know=True)


def resume_a_campaign(entry: Entry) -> None:
    folder = SimpleNamespace(
        path=Path("c"),
        runs=Path("c/runs"),
        plan=lambda: replace(entry),
        list_manifests=lambda: [],
    )
    campaign_run.require_same(entry, cast(CampaignFolder, folder), yes=True)


def begin_a_matrix(entry: Entry) -> None:
    site = site_of(assemble.make_engine(entry.target, None), None)
    rig = replace(rig_of(RecordingListener()), site=site, runs=Path("runs"))
    view = PlainProgress(Console(quiet=True))
    run_on_target([], rig, 1, view, entry)


@pytest.mark.parametrize("begin", [begin_a_campaign, resume_a_campaign, begin_a_matrix])
def test_a_server_of_a_run_that_is_not_judged_is_not_written_to(
    begin: Callable[[Entry], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of another run in its tables would leave it without a verdict."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(campaign_run, "check_interlocks", lambda *_, **__: None)
    entry = Entry("db1", "postgresql://u@h/d", power=ExecConfig(("off",)))
    begin(entry)
    target = assemble.make_engine(entry.target, None).target
    stored = manifest()
    stored = replace(stored, nodes=one(replace(stored.writer, target=target)))
    run = RunFolder.create(tmp_path / "runs", stored)
    begin(entry)  # nothing was cut
    run.write_cut_asked(CutAsked(1))
    with refused(ErrorId.RUN_NOT_JUDGED, UsageError):
        begin(entry)
    begin(replace(entry, target="postgresql://u@other/d"))


@pytest.mark.parametrize("twice", [False, True])
def test_a_run_of_a_campaign_is_reconciled_with_its_host_s_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, twice: bool
) -> None:
    made: list[Rig] = []
    nothing: Any = None
    rig = rig_of(RecordingListener())
    monkeypatch.setattr(assemble, "open_entry_witness", lambda *_: nullcontext())
    monkeypatch.setattr(assemble, "make_rig", lambda *_: rig)
    monkeypatch.setattr(
        campaign_run,
        "lock_witness",
        lambda *_: nullcontext(SimpleNamespace(require=print)),
    )
    monkeypatch.setattr(campaign_run, "run_campaign", lambda rig, *_: made.append(rig))
    folder: Any = SimpleNamespace(
        path=tmp_path, runs=tmp_path, plan=lambda: SimpleNamespace(twice=twice, seed=1)
    )
    entry = Entry("db 1", "postgresql://u@h/d", inventory="/my hosts.yml")
    view = PlainProgress(Console(quiet=True))
    campaign_run.run_stored(entry, folder, view, nothing)
    words = shlex.split(made[0].reconcile_command(Path("a run")))
    given = ["--name", "db 1", "--inventory", "/my hosts.yml"]
    given += ["--twice"] if twice else []
    assert words == ["dbcheck", "reconcile", "a run", *given]
