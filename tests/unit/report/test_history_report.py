"""The report on a folder of runs, in each format that needs no verdict of its own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dbcheck.campaign.history import read_history
from dbcheck.judge.checks import HistoryResult
from dbcheck.model.verdict import Statistics, Tally, Verdict, withhold_bound
from dbcheck.report.campaign import draw_history
from dbcheck.report.formats import FORMATS, format_report
from dbcheck.report.words import history as words
from tests.kit.chosen_runs import manifest_of, run_of
from tests.kit.reports import printed

SHOWING = [each.name for each in FORMATS.values() if not each.needs_verdict]


@pytest.fixture
def history(tmp_path: Path) -> HistoryResult:
    """Two checks of a server, of which the newer one lost rows."""
    run_of(tmp_path, 1)
    writer = manifest_of(2).writer
    settings = {**writer.facts.settings, "fsync": "off"}
    changed = replace(writer, facts=replace(writer.facts, settings=settings))
    run_of(tmp_path, 2, changed, lost=1)
    return read_history(tmp_path)


@pytest.mark.parametrize("name", SHOWING)
def test_it_shows_each_check_and_what_changed(
    name: str, history: HistoryResult
) -> None:
    text = format_report(history, name)
    for shown in ("2026-01-02", "2026-01-01", "FAIL", "PASS", "fsync"):
        assert shown in text, shown


def test_the_box_counts_the_newest_check_of_each_server(history: HistoryResult) -> None:
    (failed,) = history.servers
    passed = replace(failed, target="b", checks=failed.checks[1:])
    unjudged = replace(failed.checks[0], verdict=None)
    open_ = replace(failed, target="c", checks=(unjudged,))
    for servers, verdict, named in (
        ((failed, passed, open_), Verdict.FAIL, words.name_server(failed.target)),
        ((passed, open_), Verdict.INCONCLUSIVE, "c"),
        ((passed,), Verdict.PASS, "1 server"),
    ):
        box = words.summarize_history(replace(history, servers=servers))
        assert box.verdict is verdict
        assert named in box.headline


def test_a_pass_after_a_loss_still_names_the_loss(history: HistoryResult) -> None:
    (server,) = history.servers
    later = replace(server, checks=server.checks[::-1])
    assert later.newest.verdict is Verdict.PASS
    assert any("2026-01-02" in line for line in words.lines(later))
    box = words.summarize_history(replace(history, servers=(later,)))
    assert "An earlier check lost data" in box.warning
    assert words.name_server(later.target) in box.warning


@pytest.mark.parametrize(
    ("target", "name"),
    [
        ("postgresql+psycopg2://u@db1:5432/d", "postgresql://db1:5432/d"),
        ("mysql+mysqlconnector://db1/d", "mysql://db1/d"),
        ("mariadb://u@[::1]/d", "mariadb://[::1]/d"),
        ("db1", "db1"),
    ],
)
def test_a_server_is_named_without_driver_and_account(target: str, name: str) -> None:
    assert words.name_server(target) == name


def test_the_bound_in_the_table_is_that_of_the_tile(history: HistoryResult) -> None:
    """Beside "at least 5%" a bare 100% would read as the share of cuts that lose."""
    (server,) = history.servers
    tile = next(one for one in words.list_tiles(server) if one.name == "bound")
    row = dict(zip(words.COLUMNS, words.cells(server.newest), strict=True))
    assert row["bound"] == tile.value == "at least 5%"


def test_the_table_of_checks_fits_a_terminal_of_80_columns(
    history: HistoryResult,
) -> None:
    (server,) = history.servers
    widest = replace(
        server.newest,
        kind="campaign",
        verdict=Verdict.INCONCLUSIVE,
        statistics=Tally(1, 1000, 0, {"OS": 1000}).statistics,
        commits_per_s=123_456.0,
    )
    servers = (replace(server, checks=(widest,)),)
    text = printed(draw_history(replace(history, servers=servers)), 80)
    assert "\N{HORIZONTAL ELLIPSIS}" not in text
    assert "INCONCLUSIVE" in text
    assert "123,456" in text


def test_the_box_says_that_a_folder_that_was_not_read_may_hold_a_loss(
    history: HistoryResult,
) -> None:
    assert not words.summarize_history(history).warning
    box = words.summarize_history(replace(history, unread={"runs/x": "no manifest"}))
    assert box.warning.startswith("1 folder could not be read")


FIVE = Tally(0, 5, 0, {"OS": 5}).statistics


@pytest.mark.parametrize(
    ("verdict", "found", "is_shown"),
    [
        (Verdict.PASS, FIVE, True),
        (Verdict.INCONCLUSIVE, withhold_bound(FIVE, "a cut is not judged"), False),
        (Verdict.FAIL, FIVE, False),  # a loss without a cut
        (Verdict.FAIL, Tally(5, 5, 0, {"OS": 5}).statistics, True),
        (Verdict.PASS, None, False),
    ],
)
def test_a_bound_is_shown_only_while_it_holds(
    verdict: Verdict, found: Statistics | None, is_shown: bool, history: HistoryResult
) -> None:
    (server,) = history.servers
    check = replace(server.newest, verdict=verdict, statistics=found)
    tiles = words.list_tiles(replace(server, checks=(check,)))
    assert ("bound" in [tile.name for tile in tiles]) is is_shown
    bound = dict(zip(words.COLUMNS, words.cells(check), strict=True))["bound"]
    assert (bound != "-") is is_shown


def test_the_page_has_a_chart_of_the_rate_from_two_checks_on(
    history: HistoryResult,
) -> None:
    page = format_report(history, "html")
    assert page.count('<svg class="chart"') == 1
    assert "Jan 01" in page and "Jan 02" in page
    (server,) = history.servers
    once = replace(history, servers=(replace(server, checks=server.checks[:1]),))
    assert '<svg class="chart"' not in format_report(once, "html")


def test_two_checks_of_one_second_and_rate_have_a_page(history: HistoryResult) -> None:
    (server,) = history.servers
    twice = replace(server, checks=(server.checks[0], *server.checks))
    assert "FAIL" in format_report(replace(history, servers=(twice,)), "html")


def test_two_checks_of_one_day_can_be_told_apart(history: HistoryResult) -> None:
    (check, *_) = history.servers[0].checks
    same_day = replace(check, began="2026-01-02T21:08:04+00:00")
    assert "2026-01-02 21:08" in words.cells(same_day)
