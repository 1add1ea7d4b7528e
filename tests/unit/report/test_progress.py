from __future__ import annotations

import errno
import io
import sys
from typing import Any

import pytest
from rich.console import Console

from dbcheck.model.flushes import Counts, UnderLoad
from dbcheck.ports.listener import LoadStatus, Phase, Progress, Unit
from dbcheck.report.console import make_progress_console
from dbcheck.report.live import LiveProgress, make_progress
from dbcheck.report.progress import PlainProgress


def status(behind_s: float) -> LoadStatus:
    return LoadStatus(1.0, 10, 5, 3.0, {}, 2, behind_s)


@pytest.mark.parametrize("kind", [PlainProgress, LiveProgress])
def test_a_load_that_waits_for_the_witness_says_so_once(
    kind: type[PlainProgress],
) -> None:
    text = io.StringIO()
    view = kind(Console(file=text, width=100))
    for behind_s in (0.0, 1.9, 2.0, 3.0, 9.0, 0.1, 0.0, 5.0):
        view.load(status(behind_s))
    said = [line.split("  ")[-1] for line in text.getvalue().splitlines()]
    assert said == [
        "is 2 s behind; the load waits for it",
        "confirms again",
        "is 5 s behind; the load waits for it",
    ]


def test_a_view_that_shows_no_load_does_not_tell() -> None:
    text = io.StringIO()
    PlainProgress(Console(file=text), only={Phase.CUT}).load(status(9.0))
    assert text.getvalue() == ""


WIDTH = 80
LATENCY = {"p50": 120.25, "p99": 999.99, "max": 45000.75}


def drawn(view: LiveProgress, **given: Any) -> list[str]:
    """Return the live part of a view, line by line, on a terminal of 80 columns."""
    text = io.StringIO()
    Console(file=text, width=WIDTH, **given).print(view._draw())
    return text.getvalue().splitlines()


def live() -> LiveProgress:
    return LiveProgress(Console(file=io.StringIO(), width=WIDTH))


def test_the_load_is_shown_whole_on_80_columns() -> None:
    view = live()
    view.load(
        LoadStatus(86400.0, 9_999_999, 9_995_903, 99_999.0, LATENCY, 4096, cut_in_s=9.0)
    )
    bar, _, heading, numbers, *_ = drawn(view)
    assert bar.endswith("the cut comes in 9.0 s")
    assert "witnessed" in heading
    assert numbers.split() == [
        *("86400", "9,999,999", "9,995,903", "4,096", "99,999"),
        *("120.25", "999.99", "45000.75", "4096"),
    ]


@pytest.mark.parametrize(
    ("cut_in_s", "said"), [(None, "load"), (0.0, "the cut is due"), (1.0, "in 1.0 s")]
)
def test_the_time_to_the_cut_is_shown(cut_in_s: float | None, said: str) -> None:
    view = live()
    view.load(LoadStatus(3.0, 1, 1, 1.0, {}, 1, cut_in_s=cut_in_s))
    first, *_ = drawn(view)
    assert first.rstrip().endswith(said)
    assert ("\u2501" in first) is (cut_in_s is not None)
    assert first.count("\u2501") <= 20


def test_rate_and_latency_are_drawn_as_they_went() -> None:
    view = live()
    for rate, p99 in ((0.0, 8.0), (400.0, 4.0), (800.0, 0.0)):
        view.load(LoadStatus(3.0, 1, 1, rate, LATENCY, 1, recent_ms={"p99": p99}))
    rates, latencies = (line.split() for line in drawn(view)[-2:])
    assert rates == ["acks/s", "\u2581\u2585\u2588", "0", "to", "800"]
    assert latencies == ["p99", "ms", "\u2588\u2585\u2581", "0", "to", "8.00"]


def test_only_the_newest_of_a_long_load_are_drawn() -> None:
    view = live()
    for rate in (1e9, *range(1, 41)):
        view.load(LoadStatus(3.0, 1, 1, float(rate), {}, 1))
    line = drawn(view)[-2]
    assert line.split()[-1] == "40"
    assert len(line) <= WIDTH


def test_a_terminal_without_such_characters_gets_others() -> None:
    view = live()
    for rate in (0.0, 8.0):
        view.load(LoadStatus(3.0, 1, 1, rate, {}, 1, cut_in_s=3.0))
    view.ask("pull the plug")
    raw = io.BytesIO()
    with io.TextIOWrapper(raw, encoding="ascii") as file:
        Console(file=file, width=WIDTH).print(view._draw())
        file.flush()
        text = raw.getvalue().decode("ascii")
    assert "acks/s  _#" in text
    assert "+---" in text


@pytest.mark.parametrize("phase", Phase)
def test_whatever_it_is_at_is_shown_while_it_lasts(phase: Phase) -> None:
    text = io.StringIO()
    view = LiveProgress(Console(file=text, width=WIDTH))
    view.phase(phase, "detail")
    assert text.getvalue().split() == [*phase.value.split(), "detail"]
    (shown,) = drawn(view)
    assert shown.split() == [*phase.value.split(), "0", "s"]


@pytest.mark.parametrize(
    ("progress", "said", "bar"),
    [
        (Progress("ledger", 5, 10, Unit.ROWS), "ledger: 5 of 10 rows", True),
        (Progress("item", 1e7, None, Unit.ROWS), "item: 10,000,000 rows", False),
        (
            Progress("orderline", 1e7, 1e8, Unit.ROWS),
            "orderline: 10,000,000 of 100,000,000 rows",
            True,
        ),
        (Progress("ledger", 11, 10, Unit.ROWS), "ledger: 11 rows", True),
        (Progress("ledger", 0, 0, Unit.ROWS), "ledger: 0 of 0 rows", False),
        (
            Progress("the server", 312.4, 600.0, Unit.SECONDS),
            "waited 312 of 600 s for the server",
            True,
        ),
    ],
)
def test_how_far_a_phase_is_is_drawn_until_the_next(
    progress: Progress, said: str, bar: bool
) -> None:
    view = live()
    view.phase(Phase.READ, "")
    view.progress(progress)
    (line,) = drawn(view)
    assert line.rstrip().endswith(said)
    assert ("\u2501" in line) is bar
    view.phase(Phase.JUDGE, "")
    assert said not in drawn(view)[0]


def test_a_campaign_is_drawn_below_each_phase(monkeypatch: pytest.MonkeyPatch) -> None:
    view = live()
    clock = iter((0.0, 0.0, 600.0, 600.0, 600.0, 600.0))
    monkeypatch.setattr("dbcheck.report.live.time.monotonic", lambda: next(clock))
    view.progress(Progress("campaign", 10, 59, Unit.CUTS))
    assert drawn(view)[-1].rstrip().endswith("10 of 59 cuts")
    view.phase(Phase.READ, "")
    view.progress(Progress("campaign", 15, 59, Unit.CUTS))
    above, line = drawn(view)
    assert above.split()[:2] == ["read", "survivors"]
    assert line.rstrip().endswith("15 of 59 cuts, about 88 min left")
    assert "\u2501" in line


def test_a_pipe_gets_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    text = io.StringIO()
    view = PlainProgress(Console(file=text, width=WIDTH))
    view.phase(Phase.READ, "every row")
    for done in range(100):
        view.progress(Progress("ledger", done, 100, Unit.ROWS))
    assert text.getvalue().count("ledger") == 0
    monkeypatch.setattr("dbcheck.report.progress.STEP_S", 0.0)
    view.progress(Progress("ledger", 60, 100, Unit.ROWS))
    assert text.getvalue().splitlines()[1].strip() == "ledger: 60 of 100 rows"
    quiet = PlainProgress(Console(file=text), only={Phase.LAB})
    quiet.progress(Progress("ledger", 61, 100, Unit.ROWS))
    assert "61" not in text.getvalue()


def test_a_long_line_is_one_line_in_a_pipe_and_folded_on_a_terminal() -> None:
    detail = "word " * 40
    for is_terminal in (False, True):
        text = io.StringIO()
        console = Console(file=text, width=WIDTH, force_terminal=is_terminal)
        PlainProgress(console).line("check", detail)
        lines = text.getvalue().splitlines()
        assert (len(lines) == 1) is not is_terminal
        assert all(line.startswith(" " * 17) for line in lines[1:])


@pytest.mark.parametrize(
    ("environment", "kind"),
    [
        ({"TERM": "xterm-256color"}, LiveProgress),
        ({"TERM": "dumb"}, PlainProgress),
        ({"TERM": "unknown"}, PlainProgress),
    ],
)
def test_only_a_terminal_that_can_is_drawn_on(
    environment: dict[str, str], kind: type[PlainProgress]
) -> None:
    console = Console(
        file=io.StringIO(),
        force_terminal=True,
        _environ={**environment, "COLUMNS": "80"},
    )
    assert type(make_progress(console, live=True)) is kind
    assert type(make_progress(console, live=False)) is PlainProgress
    assert type(make_progress(Console(file=io.StringIO()), live=True)) is PlainProgress


def test_drives_are_shown_on_80_columns_the_most_flushed_first() -> None:
    view = live()
    drives = {
        "mmcblk0boot0": Counts(10, 4096, 3, None, None),
        "nvme10n1": Counts(1_000_000, 10**10, 90, 99_999 * 2, 10_000),
        "sdb": Counts(4, 4096, 3, 0, 0),
    }
    view.load(LoadStatus(9.0, 9, 9, 9.0, {}, 4, 0.0, UnderLoad(2.0, 400_000, drives)))
    heading, first, *rest = drawn(view)[-4:]
    columns = "drive  flushes/s  ms each  commits per flush  writes/s  MB/s"
    assert heading.split() == columns.split()
    assert first.split() == ["nvme10n1", "99,999", "0.05", "2.0", "500,000", "5,000.0"]
    assert [line.split() for line in rest] == [
        ["mmcblk0boot0", "-", "-", "-", "5", "0.0"],
        ["sdb", "0", "-", "-", "2", "0.0"],
    ]


def test_of_many_drives_the_rest_are_counted() -> None:
    view = live()
    drives = {f"sd{letter}": Counts(1, 512, 1, 1, 1) for letter in "abcdefg"}
    view.load(LoadStatus(9.0, 9, 9, 9.0, {}, 4, 0.0, UnderLoad(1.0, 1, drives)))
    assert drawn(view)[-1].strip() == "3 more"


class Gone(io.StringIO):
    """A terminal, or a pipe, that nobody reads any more."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self._number = number

    def write(self, text: str) -> int:
        raise OSError(self._number, "gone")  # which Python makes a BrokenPipeError


@pytest.mark.parametrize("number", [errno.EIO, errno.EPIPE])
@pytest.mark.parametrize("kind", [PlainProgress, LiveProgress])
def test_a_cycle_goes_on_though_nobody_reads_how_it_goes(
    kind: type[PlainProgress], number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", Gone(number))
    view = kind(make_progress_console())
    view.phase(Phase.RESTORE, "the power comes back")
    view.ask("restore")
    view.load(status(9.0))
    view.__exit__(None, None, None)
