"""What windows with and without a commit show of the drives below a log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from rich.console import Console

from dbcheck.model.flushes import Counts, Sample
from dbcheck.model.host import Drive, Layer
from dbcheck.model.places import BINARY_LOG, REDO_LOG, WAL
from dbcheck.model.verdict import PPM
from dbcheck.probe.flushes import (
    DevicePath,
    Outcome,
    Window,
    Windows,
    explain_by_settings,
    find_layer_that_stops_flushes,
    judge_windows,
)
from dbcheck.probe.flushes_result import FlushesResult, VolumeResult
from dbcheck.probe.measure_flushes import find_unread_logs
from dbcheck.report.flushes import draw_all_flushes
from tests.kit.host_samples import FACTS, VOLUME

NOTHING = Counts(0, 0, 0, 0, 0)
COMMIT = Counts(2, 8192, 1, 1, 1)  # written and flushed
WRITTEN = replace(NOTHING, writes=1, bytes_written=8192)
UNCOUNTED = replace(WRITTEN, flushes=None, flush_ms=None)


def layer(
    name: str, kind: str = "disk", cache: str = "write back", **more: str
) -> Layer:
    below = tuple(each for each in (more.get("below", ""),) if each)
    return Layer(name, kind, "", "", "", cache, more.get("fua", "0"), below)


def path(
    *layers: Layer, drives: Sequence[str] = ("sda",), has_cache: bool | None = None
) -> DevicePath:
    there = tuple(Drive(name, "", "", "", "write back", None, None) for name in drives)
    volume = replace(VOLUME, layers=layers or (layer("sda"),), drives=there)
    return DevicePath(volume, dict.fromkeys(drives, has_cache))


def windows(busy: Sequence[Window], idle: Sequence[Window] = ()) -> Windows:
    return Windows(busy, idle or [dict.fromkeys(busy[0], NOTHING)] * len(busy))


def sda(counts: Counts, number: int = 100) -> list[Window]:
    return [{"sda": counts}] * number


# ------------------------------------------------------------- windows of samples


def stat(writes: int, flushes: int) -> Counts:
    fields = [0, 0, 0, 0, writes, 0, writes * 8, 0, 0, 0, 0, 0, 0, 0, 0, flushes, 0]
    return Counts.of(fields, queues=True)


def test_windows_are_busy_and_idle_in_turn() -> None:
    counts = [stat(5, 7), stat(7, 8), stat(8, 8), stat(10, 10)]
    seen = Windows.of([Sample(0, {"sda": each}) for each in counts])
    assert [(w["sda"].writes, w["sda"].flushes) for w in seen.busy] == [(2, 1), (2, 2)]
    assert [(w["sda"].writes, w["sda"].flushes) for w in seen.idle] == [(1, 0)]
    assert seen.busy[0]["sda"].bytes_written == 2 * 8 * 512


def test_a_device_that_was_not_read_each_time_is_left_out() -> None:
    seen = Windows.of([Sample(0, {"sda": stat(1, 1)}), Sample(1, {})])
    assert seen.busy == [{}]
    assert not seen.counts_flushes("sda")


@pytest.mark.parametrize("fields", [11, 15])
def test_an_older_kernel_does_not_count_flushes(fields: int) -> None:
    assert Counts.of([9] * fields, queues=True).flushes is None


def test_a_device_that_passes_everything_on_does_not_count_flushes() -> None:
    assert Counts.of([9] * 17, queues=False).flushes is None
    assert Counts.of([9] * 17, queues=True).flushes == 9


def test_too_few_fields_are_an_error() -> None:
    with pytest.raises(ValueError, match="7 fields"):
        Counts.of([9] * 7, queues=True)


# ------------------------------------------------------------- the outcome


def test_a_flush_for_each_commit() -> None:
    found = judge_windows(path(), windows(sda(COMMIT)))
    assert found.outcome is Outcome.FLUSHED
    assert "sda was flushed for each of 100 commits" in found.sentence
    assert "At most 3% may" in found.sentence


def test_one_commit_without_a_flush_is_enough() -> None:
    found = judge_windows(path(), windows([*sda(COMMIT, 99), {"sda": WRITTEN}]))
    assert found.outcome is Outcome.MISSING
    assert "1 of 100 commits were answered although sda had not" in found.sentence


def test_flushes_of_others_between_the_commits_leave_it_unknown() -> None:
    """Commits that flush nothing, and another program that always flushes."""
    always = windows(sda(COMMIT), sda(COMMIT))
    assert judge_windows(path(), always).outcome is Outcome.UNCLEAR
    often = windows(sda(COMMIT), [*sda(COMMIT, 80), *sda(NOTHING, 20)])
    assert judge_windows(path(), often).outcome is Outcome.UNCLEAR
    seldom = windows(sda(COMMIT), [*sda(COMMIT, 20), *sda(NOTHING, 80)])
    assert judge_windows(path(), seldom).outcome is Outcome.FLUSHED


@pytest.mark.parametrize("idle_flushed", [0, 10, 50])
def test_what_others_may_hide_is_bounded(idle_flushed: int) -> None:
    """More commits than the bound without a flush would have shown, in 95 of 100."""
    seen = windows(
        sda(COMMIT), [*sda(COMMIT, idle_flushed), *sda(NOTHING, 100 - idle_flushed)]
    )
    share = seen.unseen_ppm(["sda"]) / PPM
    shown = share * (1 - idle_flushed / 100)  # of a commit, in the best case
    assert (1 - shown) ** 100 <= 0.05
    assert share < 0.1


def test_without_idle_windows_nothing_is_known() -> None:
    alone = Windows(sda(COMMIT), ())
    assert judge_windows(path(), alone).outcome is Outcome.UNCLEAR


def test_a_drive_that_takes_writes_past_its_cache_is_not_accused() -> None:
    """Such a write (FUA) needs no flush, and the kernel does not count it apart."""
    fua = path(layer("sda", fua="1"))
    found = judge_windows(fua, windows([*sda(COMMIT, 99), {"sda": WRITTEN}]))
    assert found.outcome is Outcome.UNCLEAR
    assert "queue/fua is 1" in found.sentence
    nothing = judge_windows(fua, windows([*sda(COMMIT, 99), {"sda": NOTHING}]))
    assert nothing.outcome is Outcome.MISSING


def test_a_device_that_does_not_count_leaves_it_unknown() -> None:
    found = judge_windows(path(), windows(sda(UNCOUNTED)))
    assert found.outcome is Outcome.UNCLEAR
    assert "does not count the flushes of sda" in found.sentence
    gone = Windows([{}] * 100, [{}] * 100)
    assert judge_windows(path(), gone).outcome is Outcome.UNCLEAR


def test_no_drive_and_no_commit_leave_it_unknown() -> None:
    seen = windows(sda(COMMIT))
    assert judge_windows(path(drives=()), seen).outcome is Outcome.UNCLEAR
    assert judge_windows(path(), Windows([], [])).outcome is Outcome.UNCLEAR


def test_of_two_drives_one_that_is_left_out_is_named() -> None:
    both = path(layer("sda"), layer("sdb"), drives=("sda", "sdb"))
    flushed = {"sda": COMMIT, "sdb": COMMIT}
    half = {"sda": COMMIT, "sdb": WRITTEN}
    assert judge_windows(both, windows([flushed] * 100)).outcome is Outcome.FLUSHED
    found = judge_windows(both, windows([half] * 100))
    assert found.outcome is Outcome.UNCLEAR
    assert "sdb was not flushed for 100 of 100 commits" in found.sentence
    neither = {"sda": WRITTEN, "sdb": WRITTEN}
    assert judge_windows(both, windows([neither] * 100)).outcome is Outcome.MISSING


# ------------------------------------------------------------- drives without flushes


@pytest.mark.parametrize(
    ("has_cache", "outcome"),
    [
        (True, Outcome.MISSING),
        (None, Outcome.UNCLEAR),
        (False, Outcome.FLUSHED),
    ],
)
def test_a_drive_that_is_never_flushed(
    has_cache: bool | None, outcome: Outcome
) -> None:
    through = path(layer("sda", cache="write through"), has_cache=has_cache)
    assert judge_windows(through, windows(sda(WRITTEN))).outcome is outcome


def test_what_was_not_even_written_is_lost() -> None:
    through = path(layer("sda", cache="write through"), has_cache=False)
    found = judge_windows(through, windows([*sda(WRITTEN, 98), *sda(NOTHING, 2)]))
    assert found.outcome is Outcome.MISSING
    assert "2 of 100 commits were answered although nothing had" in found.sentence


def test_writes_that_the_kernel_does_not_count_accuse_nobody() -> None:
    through = path(layer("sda", cache="write through"), has_cache=False)
    found = judge_windows(through, windows([*sda(WRITTEN, 99), {}]))
    assert found.outcome is Outcome.UNCLEAR
    assert "does not count the writes of sda" in found.sentence


def test_the_worst_of_two_kinds_of_drives_counts() -> None:
    layers = layer("sda"), layer("sdb", cache="write through")
    both = path(*layers, drives=("sda", "sdb"), has_cache=True)
    found = judge_windows(both, windows([{"sda": COMMIT, "sdb": WRITTEN}] * 100))
    assert found.outcome is Outcome.MISSING
    assert "sdb" in found.sentence


# ------------------------------------------------------------- a server that need not

FLUSH, BINLOG = "innodb_flush_log_at_trx_commit", "sync_binlog"


@pytest.mark.parametrize(
    ("logs", "settings", "outcome"),
    [
        ([REDO_LOG, BINARY_LOG], {FLUSH: "1", BINLOG: "1"}, Outcome.FLUSHED),
        ([REDO_LOG, BINARY_LOG], {FLUSH: "3", BINLOG: "1"}, Outcome.FLUSHED),
        ([REDO_LOG, BINARY_LOG], {FLUSH: "2", BINLOG: "1"}, Outcome.UNCLEAR),
        ([REDO_LOG, BINARY_LOG], {FLUSH: "1", BINLOG: "0"}, Outcome.UNCLEAR),
        ([REDO_LOG, BINARY_LOG], {FLUSH: "0", BINLOG: "1000"}, Outcome.UNCLEAR),
        ([REDO_LOG], {FLUSH: "1", BINLOG: "0"}, Outcome.FLUSHED),
        ([REDO_LOG], {FLUSH: "2", BINLOG: "1"}, Outcome.UNCLEAR),
        ([BINARY_LOG], {FLUSH: "2", BINLOG: "1"}, Outcome.FLUSHED),
        ([WAL], {"fsync": "on", "synchronous_commit": "local"}, Outcome.FLUSHED),
        ([WAL], {"fsync": "on", "synchronous_commit": "off"}, Outcome.UNCLEAR),
        ([WAL], {"fsync": "off", "synchronous_commit": "on"}, Outcome.UNCLEAR),
        ([WAL], {}, Outcome.FLUSHED),
    ],
)
def test_flushes_of_a_server_that_need_not_wait_prove_nothing(
    logs: list[str], settings: dict[str, str], outcome: Outcome
) -> None:
    found = judge_windows(path(), windows(sda(COMMIT)))
    assert explain_by_settings(found, logs, settings).outcome is outcome
    missing = judge_windows(path(), windows(sda(WRITTEN)))
    assert explain_by_settings(missing, logs, settings) == missing


# ------------------------------------------------------------- where they stop


def stopped(found: DevicePath, **counts: Counts) -> str:
    return find_layer_that_stops_flushes(found, windows([counts] * 100))


def test_a_filesystem_that_sends_none_is_named() -> None:
    found = stopped(path(), sda=WRITTEN)
    assert found == "xfs at / (rw) passes none on to sda"


def test_flushes_that_reach_the_drive_stop_nowhere() -> None:
    assert stopped(path(), sda=COMMIT) == ""


def test_a_layer_that_keeps_them_is_named() -> None:
    loop = path(layer("loop0", "loop", below="sda"), layer("sda"))
    found = stopped(loop, loop0=COMMIT, sda=WRITTEN)
    assert found == "loop0 passes none on to sda"


def test_a_layer_that_is_taken_to_need_none_is_named() -> None:
    mapped = path(layer("dm-0", "dm", "write through", below="sda"), layer("sda"))
    found = stopped(mapped, **{"dm-0": UNCOUNTED, "sda": WRITTEN})
    assert found.startswith("dm-0 drops them")


def test_a_layer_that_does_not_count_may_be_it_too() -> None:
    mapped = path(layer("dm-0", "dm", below="sda"), layer("sda"))
    found = stopped(mapped, **{"dm-0": UNCOUNTED, "sda": WRITTEN})
    assert found == "xfs at / (rw) or dm-0 passes none on to sda"


# ------------------------------------------------------------- logs that are not read


def test_a_log_that_cannot_be_read_is_named() -> None:
    on_data = replace(VOLUME, places={"data": "/d", REDO_LOG: "/d"})
    facts = replace(FACTS, volumes=(on_data,))
    assert find_unread_logs(facts) == {}
    unseen = {BINARY_LOG: "/b: Permission denied", "table": "/t: Permission denied"}
    assert find_unread_logs(replace(facts, unseen=unseen)) == {
        BINARY_LOG: "/b: Permission denied"
    }
    away = replace(VOLUME, places={f"{REDO_LOG} files": "/fast/ib_logfile0"})
    found = find_unread_logs(replace(facts, volumes=(on_data, away)))
    assert list(found) == [f"{REDO_LOG} files"]
    assert "/fast/ib_logfile0" in found[f"{REDO_LOG} files"]


@pytest.mark.parametrize("outcome", Outcome)
def test_flushes_of_one_log_show_nothing_of_another(outcome: Outcome) -> None:
    commits = windows(sda(COMMIT))
    counted = VolumeResult.of(path(), commits, commits, [REDO_LOG], {})
    volume = replace(counted, outcome=outcome)
    read = FlushesResult("db1", "", "", "", 100, 100, 1, 1, (volume,))
    assert read.outcome is outcome
    partly = replace(read, unread={BINARY_LOG: "/b: Permission denied"})
    missing = outcome is Outcome.MISSING
    assert partly.outcome is (Outcome.MISSING if missing else Outcome.UNCLEAR)
    console = Console(width=200, no_color=True)
    with console.capture() as shown:
        console.print(draw_all_flushes([partly]))
    assert "not probed: binary log: /b: Permission denied" in shown.get()
