"""How failed states become findings: their manner, the reduction, the files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from dbcheck.explore import finding as module
from dbcheck.explore.finding import Places, Reduction, describe_manner, group_by_manner
from dbcheck.explore.folder import Line
from dbcheck.explore.oracle import Oracle
from dbcheck.explore.states import Timeline
from dbcheck.lab.storage.blocks import Extent, FileBlocks
from dbcheck.model.cut import CrashState
from dbcheck.model.explored import StateJudgement
from dbcheck.model.server import is_restarted
from dbcheck.model.verdict import Verdict
from tests.kit.recordings import Came, Flushed, recording_of
from tests.kit.samples import FACTS, MANIFEST

PASSED = StateJudgement(Verdict.PASS, 5, {})


def failed(reason: str, kind: str = "unrecoverable", rows: int = 1) -> StateJudgement:
    return StateJudgement(Verdict.FAIL, 5, {kind: rows}, reason)


def test_numbers_make_no_other_manner() -> None:
    start = "unrecoverable: the server did not start: exit status 1\n"
    one = failed(start + "FATAL:  invalid page in block 7 of relation base/5/16434")
    assert describe_manner(one) == describe_manner(
        failed(start + "FATAL:  invalid page in block 12 of relation base/5/1259\nmore")
    )
    assert describe_manner(one) != describe_manner(
        failed(start + "PANIC:  no valid checkpoint record")
    )
    rows = failed("2 missing-tail", "missing-tail", 2)
    assert describe_manner(rows) == describe_manner(
        failed("9 missing-tail", "missing-tail", 9)
    )
    assert (
        describe_manner(rows)
        != describe_manner(failed("2 corrupt", "corrupt", 2))
        != describe_manner(one)
    )


# Six writes of 1024 bytes; the first flush covers two, a second one five.
EVENTS: list[Came | Flushed] = [
    *(Came(10 + number, 4096 * number, 1024) for number in range(2)),
    Flushed(20, 2),
    *(Came(30 + number, 4096 * (2 + number), 1024) for number in range(3)),
    Flushed(40, 5),
    Came(50, 4096 * 5, 1024),
]


@pytest.fixture
def timeline(tmp_path: Path) -> Timeline:
    recording = recording_of(EVENTS, 60, tmp_path / "files.drive")
    return Timeline([recording], honest=True, since_us=0)


def test_the_manner_of_most_states_comes_first_with_what_lacks_least(
    timeline: Timeline,
) -> None:
    def line(name: str, kind: str, judged: StateJudgement) -> Line:
        return Line(name, timeline.drawn(1, [kind], 1), judged)

    rows, page = failed("1 missing-tail", "missing-tail"), failed("page 3")
    lines = [
        line("one", "none", page),
        line("two", "none", rows),
        line("three", "but-one", rows),
    ]
    groups = group_by_manner(lines, timeline)
    assert [[each.name for each in group] for group in groups] == [
        ["three", "two"],
        ["one"],
    ]


class Judge:
    """Fails the states that a test says fail; counts them."""

    def __init__(self, fails: Callable[[CrashState], bool]) -> None:
        self._fails, self.judged = fails, 0

    def judge(self, state: CrashState) -> StateJudgement:
        self.judged += 1
        return failed("page 3") if self._fails(state) else PASSED


def reduced(
    timeline: Timeline, judge: Judge, state: CrashState, *, ended: bool = False
) -> tuple[CrashState, Reduction]:
    reduction = Reduction(cast(Oracle, judge), timeline, lambda: ended)
    return reduction.reduce(state, describe_manner(failed("page 3"))), reduction


def lacks(timeline: Timeline, *numbers: int) -> Callable[[CrashState], bool]:
    """Say whether a state lacks a byte of each of these writes."""

    def fails(state: CrashState) -> bool:
        (lost,) = timeline.lost(state)
        return set(numbers) <= {write for write, *_ in lost}

    return fails


@pytest.mark.parametrize("needed", [(2,), (3,), (4,), (2, 4)])
def test_a_state_is_reduced_to_the_writes_it_must_lack(
    timeline: Timeline, needed: Sequence[int]
) -> None:
    judge = Judge(lacks(timeline, *needed))
    found, reduction = reduced(timeline, judge, timeline.drawn(1, ["none"], 1))
    (lost,) = timeline.lost(found)
    assert [write for write, *_ in lost] == list(needed)
    assert found.moment == 1 and not reduction.stopped
    assert reduction.tries == judge.judged


def test_what_fails_without_any_loss_is_found_to_lack_nothing(
    timeline: Timeline,
) -> None:
    found, _ = reduced(timeline, Judge(lambda _: True), timeline.drawn(1, ["none"], 1))
    assert timeline.lost(found) == [[]]


def test_only_the_part_of_a_write_that_must_be_lost_is_kept(timeline: Timeline) -> None:
    first, second = (2, 0, 512), (4, 512, 512)
    judge = Judge(lambda state: second in timeline.lost(state)[0])
    state = timeline.without(1, [[first, second, (4, 0, 256)]])
    found, _ = reduced(timeline, judge, state)
    assert timeline.lost(found) == [[second]]


@pytest.mark.parametrize("limit", ["ended", "tries", "time"])
def test_a_reduction_that_is_stopped_says_so_and_keeps_a_state_that_fails(
    timeline: Timeline, limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if limit == "tries":
        monkeypatch.setattr(module, "TRIES_MAX", 1)
    if limit == "time":
        monkeypatch.setattr(module, "TRY_S", -1.0)
    judge = Judge(lacks(timeline, 2, 4))
    state = timeline.drawn(1, ["none"], 1)
    found, reduction = reduced(timeline, judge, state, ended=limit == "ended")
    assert found == state and reduction.stopped
    assert reduction.tries <= 1


FILES = [
    FileBlocks("data/one", 0, [Extent(0, 4096, 4096), Extent(4096, 16384, 4096)]),
    FileBlocks("data/two", 0, [Extent(8192, 8192, 4096)]),
    FileBlocks("log/three", 1, [Extent(0, 0, 4096)]),
]


@pytest.mark.parametrize(
    ("drive", "place", "length", "expected"),
    [
        (0, 4608, 512, [("data/one", 512, 512)]),
        (0, 16384, 4096, [("data/one", 4096, 4096)]),
        (0, 7168, 2048, [("data/one", 3072, 1024), ("data/two", 8192, 1024)]),
        (0, 0, 512, [("", -1, 512)]),
        (0, 3584, 1024, [("", -1, 512), ("data/one", 0, 512)]),
        (0, 12288, 8192, [("", -1, 4096), ("data/one", 4096, 4096)]),
        (0, 20480, 512, [("", -1, 512)]),
        (1, 0, 512, [("log/three", 0, 512)]),
        (2, 0, 512, [("", -1, 512)]),
    ],
)
def test_lost_bytes_are_named_by_file(
    drive: int, place: int, length: int, expected: Any, tmp_path: Path
) -> None:
    recording = recording_of([Came(10, place, length)], 60, tmp_path / "one.drive")
    found = Places(FILES).blocks(drive, recording, (0, 0, length), cut_us=1510)
    assert [(block.file, block.at, block.length) for block in found] == expected
    assert [block.place for block in found][0] == place
    assert {(block.drive, block.write, block.age_ms) for block in found} == {
        (drive, 0, 1.5)
    }


def test_no_file_is_known_of_a_filesystem_that_cannot_be_mounted(
    tmp_path: Path,
) -> None:
    recording = recording_of([Came(10, 4608, 512)], 60, tmp_path / "one.drive")
    (block,) = Places(None).blocks(0, recording, (0, 0, 512), cut_us=1510)
    assert (block.file, block.place, block.at) == (None, 4608, -1)


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        (["PASS"], "PASS"),
        (["FAIL"], "FAIL"),
        (["INCONCLUSIVE", "PASS"], "PASS"),
        (["INCONCLUSIVE", "FAIL"], "FAIL"),
        (["INCONCLUSIVE", "INCONCLUSIVE"], "INCONCLUSIVE"),
    ],
)
def test_a_state_that_could_not_be_judged_is_tried_once_more(
    answers: list[str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = [StateJudgement(Verdict(answer), 5, {}) for answer in answers]
    monkeypatch.setattr(Oracle, "_judge_once", lambda _self, _state: left.pop(0))
    nothing = cast(Any, None)
    oracle = Oracle(nothing, nothing, nothing, nothing, nothing, nothing)
    assert oracle.judge(CrashState(0, ())).verdict is Verdict(expected)
    assert not left


def test_a_server_that_replays_a_run_was_started_since_its_load() -> None:
    """Only then does a reading decide what is prepared."""
    nothing: Any = None
    oracle = Oracle(nothing, nothing, MANIFEST, nothing, nothing, nothing)
    facts = replace(FACTS, started_us=FACTS.started_us + 1)
    writer = oracle._adapt_manifest(facts).writer.facts
    assert is_restarted(writer, facts)
    assert writer.identity == facts.identity
