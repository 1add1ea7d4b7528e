"""The table of a fleet's campaigns."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from dbcheck.report.fleet import (
    LiveFleet,
    PlainFleet,
    RigStatus,
    State,
    _draw_now,
    draw_fleet,
    make_fleet_view,
)
from dbcheck.report.terminal import BAD, DOUBTFUL, GOOD

RUNNING = RigStatus("db1", State.RUNNING, 3, 0, 20, "load: 5 acked", 1234.5, 0.5)
LOST = RigStatus("db2", State.LOST, 1, 0, 20, error="its worker ended")
LOSSY = RigStatus("db3", State.ENDED, 4, 1, 20, failed=True)
WAITING = RigStatus("db4", State.WAITING, 0, 0, 20)
SILENT = RigStatus("db5", State.RUNNING, 2, 0, 20, "cut", None, 31.0)


def shown(rigs: list[RigStatus], rows: int = 9, width: int = 80) -> list[str]:
    console = Console(file=io.StringIO(), width=width)
    with console.capture() as caught:
        console.print(draw_fleet(rigs, rows))
    return caught.get().splitlines()


ENDED = RigStatus("db6", State.ENDED, 20, 0, 20)


@pytest.mark.parametrize(
    ("rig", "words", "style"),
    [
        pytest.param(ENDED, "ended", GOOD, id="all cuts"),
        pytest.param(LOSSY, "ended: FAIL", BAD, id="a cut that lost"),
        pytest.param(
            replace(ENDED, cuts=0),
            "ended: no cut counts, so nothing is shown",
            DOUBTFUL,
            id="no cut",
        ),
        pytest.param(
            replace(ENDED, cuts=3),
            "ended: too few cuts count, 3 of 20",
            DOUBTFUL,
            id="too few cuts",
        ),
    ],
)
def test_only_a_campaign_with_all_of_its_cuts_ends_in_green(
    rig: RigStatus, words: str, style: str
) -> None:
    now = _draw_now(rig)
    assert (now.plain, now.style) == (words, style)


BY_NO_CUT = "by a control or a loss without a power cut"


@pytest.mark.parametrize(
    ("rig", "now"),
    [
        (replace(ENDED, cuts=0, failed=True), f"ended: FAIL {BY_NO_CUT}"),
        (replace(RUNNING, failed=True), f"FAIL {BY_NO_CUT}; load: 5 acked"),
        (replace(LOST, failed=True), f"FAIL {BY_NO_CUT}; its worker ended"),
    ],
)
def test_a_fail_that_no_cut_counts_is_shown_and_comes_first(
    rig: RigStatus, now: str
) -> None:
    """Such as a loss in a stop without a power cut, or in a control."""
    _, first, *_, sums = shown([LOST, RUNNING, rig], width=160)
    assert f" {now} " in first
    assert sums.endswith(f"0 lost; 1 target failed {BY_NO_CUT}")
    drawn = _draw_now(rig)
    assert BAD in (drawn.style, *(span.style for span in drawn.spans))


def test_each_target_has_a_line() -> None:
    head, first, *_, sums = shown([RUNNING, WAITING, SILENT])
    assert head.split() == ["target", "cuts", "lossy", "acks/s", "now"]
    assert first.split() == [
        "db1",
        "3",
        "of",
        "20",
        "0",
        "1,234",
        "load:",
        "5",
        "acked",
    ]
    assert "db5" in shown([RUNNING, SILENT])[2]
    assert "silent for 31 s" in "".join(shown([SILENT]))
    assert sums == "3 targets: 2 running, 1 waiting; 5 cuts count, 0 lost"


def test_one_target_and_one_cut_are_counted_in_the_singular() -> None:
    one = RigStatus("db1", State.RUNNING, 1, 0, 2)
    assert shown([one])[-1] == "1 target: 1 running; 1 cut counts, 0 lost"


def test_what_lost_and_what_went_wrong_comes_first() -> None:
    lines = shown([WAITING, RUNNING, LOST, LOSSY])
    assert [line.split()[0] for line in lines[1:5]] == ["db3", "db2", "db1", "db4"]


def test_of_many_targets_the_first_are_shown_and_all_counted() -> None:
    many = [RigStatus(f"db{n}", State.RUNNING, 1, 0, 2) for n in range(500)]
    lines = shown([*many, LOSSY], rows=10)
    assert len(lines) == 12
    assert lines[1].split()[0] == "db3"
    assert lines[-1] == (
        "501 targets: 500 running, 1 ended; 504 cuts count, 1 lost (491 not shown)"
    )


def test_it_fits_on_eighty_columns() -> None:
    long = RigStatus("d" * 40, State.RUNNING, 100, 9, 1000, "x" * 200, 1e6)
    assert all(len(line) <= 80 for line in shown([long]))
    head, first, _ = shown([replace(long, name="db1")])
    assert head.split() == ["target", "cuts", "lossy", "acks/s", "now"]
    assert first.split()[:5] == ["db1", "100", "of", "1000", "9"]


@pytest.mark.parametrize("live", [True, False])
def test_it_is_drawn_on_a_terminal_that_can(live: bool) -> None:
    console = Console(file=io.StringIO(), force_terminal=live, width=80)
    view = make_fleet_view(console, live=True)
    assert isinstance(view, LiveFleet) is live
    assert isinstance(view, PlainFleet)
    with view:
        view.show([RUNNING])
        view.line("db1", "begins")
