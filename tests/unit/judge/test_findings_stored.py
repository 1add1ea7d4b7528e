"""The drive that docs/findings/replay.py builds is the crash state that was stored."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import pytest

from dbcheck.explore.opened import Opened
from dbcheck.explore.states import Timeline
from dbcheck.lab.spec import LabSpec
from dbcheck.model.explored import Finding, LostBlock, StateJudgement, StateResult
from dbcheck.model.verdict import Verdict
from tests.kit.recordings import SIZE, Came, Flushed, recording_of
from tools.findings import FOLDER
from tools.findings.store import stored

BYTES = 1024
# The first flush covers two writes; the second one, which covers all, is too late.
PLACES = (0, 9, 2, 5, 7)
WRITES = [Came(10 * n, 4096 * at, BYTES) for n, at in enumerate(PLACES, 1)]
EVENTS: list[Came | Flushed] = [
    *WRITES[:2],
    Flushed(25, 2),
    *WRITES[2:],
    Flushed(60, 5),
]
LOST = [(2, 512, 512), (4, 0, BYTES)]  # write, first byte, bytes of it that are lost


@pytest.fixture
def replay(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module("replay")


@pytest.fixture
def recorded(tmp_path: Path) -> tuple[dict[str, Any], bytes]:
    """Give what is stored of a state that lacks LOST."""
    recording = recording_of(EVENTS, 70, tmp_path / "files.drive")
    timeline = Timeline([recording], honest=True, since_us=0)
    state = timeline.without(1, [LOST])
    block = LostBlock(0, 2, 1.0, 8704, 512, "data/t.ibd", 512)
    judged = StateJudgement(Verdict.FAIL, 5, {"unrecoverable": 1})
    result = StateResult("finding-1", state, judged, 0.0, (block,))
    found = SimpleNamespace(
        spec=LabSpec("mariadb"),
        timeline=timeline,
        acked=SimpleNamespace(count=lambda _: 7),
    )
    finding = Finding(1, ("1.none.1",), True, True, result, 1)
    return stored(cast(Opened, found), finding)


def drive(without: list[tuple[int, int, int]]) -> bytes:
    """Return what the drive holds after all writes, but for these parts."""
    content = bytearray(SIZE)
    for number, write in enumerate(WRITES):
        new = bytearray([number + 2]) * BYTES  # as recording_of() makes them
        for lost, begin, length in without:
            if lost == number:
                new[begin : begin + length] = bytes(length)
        content[write.offset : write.offset + BYTES] = new
    return bytes(content)


@pytest.mark.parametrize(
    ("lossy", "lost"), [(False, []), (True, LOST)], ids=["control", "power loss"]
)
def test_the_drive_is_that_of_the_state(
    replay: ModuleType,
    recorded: tuple[dict[str, Any], bytes],
    tmp_path: Path,
    lossy: bool,
    lost: list[tuple[int, int, int]],
) -> None:
    image = tmp_path / "image"
    replay.build_drive(image, *recorded, lossy)
    assert image.read_bytes() == drive(lost)


def test_it_says_what_is_lost_and_what_the_server_needs(
    recorded: tuple[dict[str, Any], bytes],
) -> None:
    facts, _ = recorded
    assert facts["lost"] == [
        "512 bytes of data/t.ibd at 512, written 1.0 ms before the power loss"
    ]
    assert facts["cut"] == "7 commits were acknowledged before the power loss"
    assert facts["program"] == "mariadbd"
    assert "--innodb-flush-log-at-trx-commit=1" in facts["options"]
    assert [len(write["kept"]) for write in facts["writes"]] == [1, 1, 0]
