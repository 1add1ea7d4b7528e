"""A server is copied well, and its volumes one after the other, or at one moment."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import HostError
from dbcheck.cycle.copying import run_copied_cycle
from dbcheck.cycle.outcome import Outcome
from dbcheck.hosts.host import open_host
from dbcheck.hosts.volumes import CopiedFolder, VolumesOfHost
from dbcheck.judge.item import ItemId, Status
from dbcheck.model.verdict import Verdict
from tests.kit import copy_methods
from tests.kit.copies import Copies, copies_of, require_kept
from tests.kit.refusals import refused
from tests.kit.rigs import SEED, quick

STREAM = copy_methods.base_backup("-X", "stream")


@pytest.fixture
def places() -> Iterator[list[Path]]:
    """Give two folders, on two filesystems."""
    made = [
        Path(tempfile.mkdtemp(prefix="dbcheck-", dir=above))
        for above in (tempfile.gettempdir(), "/dev/shm")
    ]
    try:
        if len({each.stat().st_dev for each in made}) < len(made):
            pytest.skip("one filesystem is all that is here")
        yield made
    finally:
        for each in made:
            shutil.rmtree(each)


@pytest.fixture
def copies() -> Iterator[Copies]:
    with copies_of("postgresql") as made:
        yield made


def judge(copies: Copies, places: list[Path]) -> Outcome:
    """Return the verdict on a backup, with which each place was copied in turn."""
    copied = [
        CopiedFolder(str(place), f"{copies.folder}/copies/{{run}}.volume-{number}")
        for number, place in enumerate(places)
    ]
    texts = [
        f'cp -r {each.target} "{each.restored.replace("{run}", "$1")}"\nsleep 1\n'
        for each in copied
    ]
    method = replace(STREAM, copy=STREAM.copy + "".join(texts))
    rig = copies.rig(copies.settings(method))
    assert rig.copying is not None
    host = open_host("local:")
    watch = VolumesOfHost(host, copied, host)
    try:
        copying = replace(rig.copying, volumes=watch)
        return run_copied_cycle(replace(rig, copying=copying), quick(), SEED)
    finally:
        host.close()
        assert not any(list(place.iterdir()) for place in places if place.exists())


def status_of(outcome: Outcome) -> Status:
    items = {item.id: item.status for item in outcome.judgement.items}
    return items[ItemId.ONE_INSTANT]


@pytest.mark.wide
def test_one_volume_is_of_one_moment_and_the_copy_passes(
    copies: Copies, places: list[Path]
) -> None:
    outcome = judge(copies, places[:1])
    require_kept(outcome)
    assert status_of(outcome) is Status.PRESENT


def test_volumes_that_were_copied_one_after_the_other_keep_a_whole_copy_from_a_pass(
    copies: Copies, places: list[Path]
) -> None:
    outcome = judge(copies, places)
    assert outcome.verdict is Verdict.INCONCLUSIVE, outcome.judgement
    assert status_of(outcome) is Status.CONTRADICTED
    copy = outcome.result.copy
    assert copy is not None
    assert copy.due
    assert copy.due == copy.due_kept
    (reason,) = outcome.judgement.reasons
    assert "volume-0 is older than" in reason


@pytest.mark.wide
def test_a_folder_that_is_not_there_ends_it_before_anything_is_touched(
    copies: Copies, places: list[Path]
) -> None:
    absent = places[0] / "absent"
    with refused(ErrorId.HOST_PATH_MISSING, HostError, naming=str(absent)):
        judge(copies, [absent])
    assert not copies.here.rig.runs.exists()  # no run was begun
