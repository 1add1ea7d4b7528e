"""What power test saw on the idle host, and what a later verdict says of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dbcheck.cycle.judging import judge_run
from dbcheck.judge.item import ItemId, Status
from dbcheck.judge.watched import judge_depth_of_switch
from dbcheck.model.depth import Reached, ReachedVolume
from dbcheck.model.host import Expected, HostBefore
from dbcheck.power.kinds.exec import ExecConfig
from dbcheck.power.switched_host import (
    SwitchedHost,
    recall_measured_depth,
    remember_measured_depth,
)
from dbcheck.runs.folder import RunFolder
from dbcheck.witness.log import FrameLogReader
from tests.kit.cases import case
from tests.kit.nodes import having
from tests.kit.stored_run import manifest, stored_run

HOST = manifest().writer.host
SWITCHED_HOST = SwitchedHost(
    "db1", "postgresql://db1/x", "", Expected(), ExecConfig(("pdu", "7"))
)


def seen(host: HostBefore, depth: str = "DRIVE") -> Reached:
    """What a test on that host measured."""
    uuid = host.facts.data.filesystem_uuid
    at = "2026-01-02T03:04:05+00:00"
    return Reached(at, host.facts.machine_id, (ReachedVolume(uuid, depth),))


@pytest.fixture
def host() -> HostBefore:
    assert HOST is not None
    return HOST


def test_a_verdict_cites_what_the_switch_reached(
    host: HostBefore, tmp_path: Path
) -> None:
    first = having(manifest(), reached=seen(host))
    run = stored_run(RunFolder.create(tmp_path, first))
    items = judge_run(run, FrameLogReader()).judgement.items
    (item,) = [item for item in items if item.id is ItemId.SWITCH_DEPTH]
    assert (item.status, item.required) == (Status.PRESENT, False)
    assert item.reason.startswith("power test of 2026-01-02T03:04:05+00:00")
    assert "DRIVE on " in item.reason


def test_of_another_host_or_filesystem_nothing_is_known(host: HostBefore) -> None:
    reached = seen(host)
    assert judge_depth_of_switch(case(host, reached=reached)) is not None
    assert judge_depth_of_switch(case(host, reached=None)) is None
    assert judge_depth_of_switch(case(None, reached=reached)) is None
    assert (
        judge_depth_of_switch(
            case(host, reached=replace(reached, machine_id="another"))
        )
        is None
    )
    other = replace(reached, volumes=(ReachedVolume("another", "DRIVE"),))
    assert judge_depth_of_switch(case(host, reached=other)) is None
    unmeasured = judge_depth_of_switch(case(host, reached=seen(host, "")))
    assert unmeasured is not None
    assert "unknown on " in unmeasured.reason


def test_it_is_remembered_by_host_and_switch(
    host: HostBefore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert recall_measured_depth(SWITCHED_HOST) is None
    path = remember_measured_depth(SWITCHED_HOST, seen(host, "OS"))
    assert recall_measured_depth(SWITCHED_HOST) == seen(host, "OS")
    remember_measured_depth(SWITCHED_HOST, seen(host))
    assert recall_measured_depth(SWITCHED_HOST) == seen(host)
    other = replace(SWITCHED_HOST, config=ExecConfig(("pdu", "8")))
    assert recall_measured_depth(other) is None
    path.write_text("{}")
    assert recall_measured_depth(SWITCHED_HOST) is None
