"""Commits of the load beside the flushes of the drives below the log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from dbcheck.config import files
from dbcheck.config.workload_file import load
from dbcheck.judge.flushes import judge_commits_per_flush
from dbcheck.judge.item import Item, Status
from dbcheck.model.flushes import Counts, UnderLoad
from dbcheck.model.host import Layer, Volume, VolumeCanaries
from dbcheck.rows.acks import HOUSEKEEPING_SESSION
from dbcheck.rows.operation import ROLLBACK
from dbcheck.rows.plans.registry import plan_of
from dbcheck.rows.schedule import Schedule
from tests.kit.cases import case, loaded
from tests.kit.host_samples import BEFORE, FACTS, VOLUME
from tests.kit.samples import MANIFEST

SESSIONS = 4
BACK, THROUGH = "write back", "write through"


def layer(name: str, cache: str = BACK, *, fua: str = "0") -> Layer:
    return Layer(name, "disk", "", "", "", cache, fua, ())


def volume(*layers: Layer, place: str = "WAL") -> Volume:
    return replace(VOLUME, places={place: f"/{place}"}, layers=layers, drives=())


def counts(flushes: int | None) -> Counts:
    return Counts(9, 9 * 512, 1, flushes, None if flushes is None else 1)


def judged(
    acked: int,
    flushes: Mapping[str, int | None],
    *volumes: Volume,
    tasks: bool = False,
) -> Item | None:
    done = UnderLoad(2.0, acked, {name: counts(n) for name, n in flushes.items()})
    others = (VolumeCanaries("/c", "n"),) * (len(volumes) - 1)
    before = replace(BEFORE, facts=replace(FACTS, volumes=volumes), elsewhere=others)
    kinds = {"housekeeping": ("drop",)} if tasks else {"housekeeping": ()}
    workload = replace(MANIFEST.workload, sessions=SESSIONS, **kinds)
    return judge_commits_per_flush(
        case(before, load=loaded(drives=done), workload=workload)
    )


@pytest.mark.parametrize(
    ("acked", "flushes", "status"),
    [
        (100, 400, Status.PRESENT),
        (100, 100, Status.PRESENT),
        (100, 25, Status.PRESENT),  # each flush covers one commit of each session
        (101, 25, Status.ASSUMED),
        (1, 0, Status.ASSUMED),
    ],
)
def test_no_flush_covers_two_commits_of_one_session(
    acked: int, flushes: int, status: Status
) -> None:
    item = judged(acked, {"sda": flushes}, volume(layer("sda")))
    assert item is not None
    assert (item.status, item.required) == (status, False)
    assert f"{acked:,} commits, {flushes:,} flushes of sda" in item.reason


def test_the_least_number_without_a_flush_is_named() -> None:
    item = judged(1000, {"sda": 25}, volume(layer("sda")))
    assert item is not None
    assert "at least 900 were answered without one" in item.reason


def test_the_session_of_the_tasks_commits_too() -> None:
    item = judged(125, {"sda": 25}, volume(layer("sda")), tasks=True)
    assert item is not None
    assert item.status is Status.PRESENT


def test_of_several_drives_the_one_that_was_flushed_most_counts() -> None:
    mirror = volume(layer("sda"), layer("sdb"))
    item = judged(100, {"sda": 0, "sdb": 90}, mirror)
    assert item is not None
    assert item.status is Status.PRESENT
    assert "90 flushes of sdb" in item.reason


def test_a_drive_without_a_log_does_not_count() -> None:
    """However often the data are flushed: a commit is in the log."""
    data, log = volume(layer("sda"), place="data"), volume(layer("sdb"))
    item = judged(100, {"sda": 1000, "sdb": 1}, data, log)
    assert item is not None
    assert item.status is Status.ASSUMED


@pytest.mark.parametrize("cache", [THROUGH, ""])
def test_a_drive_that_is_sent_no_flush_is_not_judged(cache: str) -> None:
    assert judged(100, {"sda": 0}, volume(layer("sda", cache))) is None


def test_writes_that_need_no_flush_are_not_accused() -> None:
    item = judged(100, {"sda": 0}, volume(layer("sda", fua="1")))
    assert item is not None
    assert item.status is Status.NOT_OBSERVABLE
    assert "FUA" in item.reason


@pytest.mark.parametrize("flushes", [{"sda": None, "sdb": 90}, {"sdb": 0}])
def test_a_drive_that_was_not_counted_leaves_it_open(
    flushes: Mapping[str, int | None],
) -> None:
    item = judged(100, flushes, volume(layer("sda"), layer("sdb")))
    assert item is not None
    assert item.status is Status.NOT_OBSERVABLE
    assert "sda" in item.reason
    assert ("kernel" in item.reason) is ("sda" in flushes)  # else it was gone


def test_without_counts_or_commits_there_is_no_item() -> None:
    assert judged(0, {"sda": 1}, volume(layer("sda"))) is None
    assert judge_commits_per_flush(case(BEFORE, load=loaded())) is None
    assert judge_commits_per_flush(case()) is None


@pytest.mark.parametrize("name", files.list_workload_names())
def test_each_ack_is_of_a_commit_that_leaves_a_row(name: str) -> None:
    """Else an operation that writes nothing would look like one without a flush."""
    workload = load(name)
    plan = plan_of(workload, Schedule(1, 2, workload.payload_bytes))
    acked, *_ = plan.statements
    sessions = [1, HOUSEKEEPING_SESSION] if workload.housekeeping else [1]
    for session in sessions:
        for seq in range(1, 200):
            done = [each.name for each in plan.operation(session, seq).statements]
            assert done.count(acked.name) == 1
            undone = done.index(ROLLBACK.name) if ROLLBACK.name in done else -1
            assert done.index(acked.name) > undone
