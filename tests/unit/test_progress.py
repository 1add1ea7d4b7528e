from __future__ import annotations

import errno
import io
import sys

import pytest
from rich.console import Console

from dbcheck.cli import output
from dbcheck.core.counters import Counts, UnderLoad
from dbcheck.ports.listener import LoadStatus, Phase
from dbcheck.report.progress import LiveProgress, PlainProgress


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


def test_the_load_is_shown_whole_on_80_columns() -> None:
    text = io.StringIO()
    view = LiveProgress(Console(file=text, width=80))
    latency = {"p50": 120.25, "p99": 999.99, "max": 45000.75}
    view.load(LoadStatus(86400.0, 9_999_999, 9_995_903, 99_999.0, latency, 4096, 0.0))
    Console(file=text, width=80).print(view._draw())
    heading, numbers = text.getvalue().splitlines()
    assert "witnessed" in heading
    assert numbers.split() == [
        *("86400", "9,999,999", "9,995,903", "4,096", "99,999"),
        *("120.25", "999.99", "45000.75", "4096"),
    ]


@pytest.mark.parametrize("phase", Phase)
def test_whatever_it_is_at_is_shown_while_it_lasts(phase: Phase) -> None:
    text = io.StringIO()
    view = LiveProgress(Console(file=text, width=80))
    view.phase(phase, "detail")
    Console(file=text, width=80).print(view._draw())
    line, shown = text.getvalue().splitlines()
    assert line.split() == [*phase.value.split(), "detail"]
    assert shown.strip() == f"{phase.value}: 0 s"


def test_drives_are_shown_on_80_columns_the_most_flushed_first() -> None:
    text = io.StringIO()
    view = LiveProgress(Console(file=text, width=80))
    drives = {
        "mmcblk0boot0": Counts(10, 4096, 3, None, None),
        "nvme10n1": Counts(1_000_000, 10**10, 90, 99_999 * 2, 10_000),
        "sdb": Counts(4, 4096, 3, 0, 0),
    }
    load = LoadStatus(9.0, 9, 9, 9.0, {}, 4, 0.0, UnderLoad(2.0, 400_000, drives))
    view.load(load)
    Console(file=text, width=80).print(view._draw())
    _, _, heading, first, *rest = text.getvalue().splitlines()
    columns = "drive  flushes/s  ms each  commits per flush  writes/s  MB/s"
    assert heading.split() == columns.split()
    assert first.split() == ["nvme10n1", "99,999", "0.05", "2.0", "500,000", "5,000.0"]
    assert [line.split() for line in rest] == [
        ["mmcblk0boot0", "-", "-", "-", "5", "0.0"],
        ["sdb", "0", "-", "-", "2", "0.0"],
    ]


def test_of_many_drives_the_rest_are_counted() -> None:
    text = io.StringIO()
    view = LiveProgress(Console(file=text, width=80))
    drives = {f"sd{letter}": Counts(1, 512, 1, 1, 1) for letter in "abcdefg"}
    view.load(LoadStatus(9.0, 9, 9, 9.0, {}, 4, 0.0, UnderLoad(1.0, 1, drives)))
    Console(file=text, width=80).print(view._draw())
    assert text.getvalue().splitlines()[-1].strip() == "3 more"


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
    view = kind(output.progress_console())
    view.phase(Phase.RESTORE, "the power comes back")
    view.ask("restore")
    view.load(status(9.0))
    view.__exit__(None, None, None)
