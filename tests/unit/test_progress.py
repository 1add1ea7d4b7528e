from __future__ import annotations

import errno
import io
import sys

import pytest
from rich.console import Console

from dbcheck.cli import output
from dbcheck.ports.listener import LoadStatus
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
    PlainProgress(Console(file=text), only={"cut"}).load(status(9.0))
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
    view.phase("restore", "the power comes back")
    view.ask("restore")
    view.load(status(9.0))
    view.__exit__(None, None, None)
