"""What durations of writes say, and how a probe compares with the ones before."""

from __future__ import annotations

import random
import statistics

import pytest

from dbcheck.model.flushes import Counts, Method, Sample, Shape, Timed
from dbcheck.probe.latency import (
    MAIN,
    SIZES,
    Earlier,
    FileioResult,
    FolderResult,
    LatencyResult,
    Spread,
    TimingResult,
    compute_device_share,
    give_advice,
    list_usual_shapes,
    make_histogram,
)
from dbcheck.report.latency import draw_latencies
from tests.kit.reports import printed

IDLE = Sample(0, {"sda": Counts(0, 0, 0, 0, 0)})


def test_percentiles_are_those_of_the_list() -> None:
    spread = Spread.of([each * 1000 for each in range(100, 0, -1)])
    assert (spread.p50_us, spread.p90_us, spread.p99_us) == (50.0, 90.0, 99.0)
    assert (spread.writes, spread.max_us) == (100, 100.0)
    assert Spread.of([7000]).p50_us == Spread.of([7000]).p99_us == 7.0


def test_the_median_agrees_with_the_library() -> None:
    draw = random.Random(3)
    took = [draw.randrange(1, 10**9) for _ in range(1001)]
    assert Spread.of(took).p50_us == statistics.median(took) / 1000


def test_without_a_write_there_is_no_spread() -> None:
    with pytest.raises(ValueError, match="no write"):
        Spread.of([])


def test_each_write_is_in_the_bucket_that_holds_it() -> None:
    draw = random.Random(4)
    took = [draw.randrange(1, 10**10) for _ in range(500)]
    buckets = make_histogram(took)
    assert sum(each.writes for each in buckets) == 500
    for bucket in buckets:
        inside = [e for e in took if bucket.from_us <= e / 1000 < bucket.to_us]
        assert len(inside) == bucket.writes
    assert buckets[0].writes
    assert buckets[-1].writes
    assert make_histogram([]) == []


def test_each_method_and_size_is_timed_once() -> None:
    shapes = list_usual_shapes()
    assert len(shapes) == len(set(shapes))
    assert {shape.method for shape in shapes} == set(Method)
    assert {shape.size for shape in shapes} == set(SIZES)
    assert MAIN in shapes


def test_the_share_of_a_device_is_what_it_counted() -> None:
    after = Sample(1, {"sda": Counts(10, 0, 30, 10, 20)})
    timed = Timed((100_000_000,), IDLE, after)
    assert compute_device_share(timed, "sda") == 0.5
    assert compute_device_share(timed, "sdb") is None
    uncounted = Sample(1, {"sda": Counts(10, 0, 30, None, None)})
    assert compute_device_share(Timed((1,), IDLE, uncounted), "sda") is None
    assert compute_device_share(Timed((), IDLE, after, "no"), "sda") is None


@pytest.mark.parametrize(
    ("p50_us", "rotational", "says"),
    [
        (500.0, True, "takes this for a rotating disk, which cannot write so quickly"),
        (8000.0, True, "usual for a rotating disk that honours flushes"),
        (5.0, False, "Hardly any drive is so quick"),
        (5.0, None, "Hardly any drive is so quick"),
        (100.0, False, "power-loss protection"),
        (1500.0, None, "solid-state drive that honours flushes"),
    ],
)
def test_advice(p50_us: float, rotational: bool | None, says: str) -> None:
    assert says in give_advice(p50_us, rotational)


def folder(p50_us: float, *earlier: Earlier) -> FolderResult:
    spread = Spread(1, p50_us, p50_us, p50_us, p50_us)
    other = TimingResult(Method.FSYNC, 8192, 0, Spread(1, 1, 1, 1, 1), {}, "")
    main = TimingResult(MAIN.method, MAIN.size, MAIN.offset, spread, {}, "")
    return FolderResult((), "/d", "/", "xfs", (), (other, main), (), (), "", earlier)


def test_drift_is_measured_against_the_last_probe() -> None:
    first, last = Earlier("2026-01-01", 100.0, 1.0), Earlier("2026-02-01", 200.0, 1.0)
    assert folder(300.0, first, last).drift == 1.5
    assert folder(300.0).drift is None


def test_what_was_not_possible_is_kept_with_its_reason() -> None:
    shape = Shape(Method.DIRECT, 1, 0)
    result = TimingResult.of(shape, Timed((), IDLE, IDLE, "Invalid argument"), ["sda"])
    assert result.spread is None
    assert result.why == "Invalid argument"


# ------------------------------------------------------------- random writes by fio

FIO_3_33 = """{"fio version": "fio-3.33", "jobs": [{"jobname": "dbcheck",
 "write": {"iops": 25585.244267, "clat_ns": {"percentile":
  {"50.000000": 55040, "99.000000": 136192}}},
 "sync": {"total_ios": 0, "lat_ns": {"N": 25662, "percentile":
  {"50.000000": 87552, "99.000000": 160768}}}}]}"""
UNFLUSHED = FIO_3_33.partition('"sync"')[0] + '"sync": {"lat_ns": {}}}]}'


def test_what_fio_prints() -> None:
    found = FileioResult.of(4, True, FIO_3_33, "")
    assert found.writes_per_s == pytest.approx(25585.24, abs=0.01)
    assert (found.write_p50_us, found.write_p99_us) == (55.04, 136.192)
    assert (found.sync_p50_us, found.sync_p99_us) == (87.552, 160.768)
    never = FileioResult.of(4, False, UNFLUSHED, "")
    assert (never.sync_p50_us, never.sync_p99_us, never.why) == (None, None, "")


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"jobs": []}', '{"jobs": [{}]}', UNFLUSHED, "[" * 9999]
)
def test_what_is_not_fio_s_output_is_no_number(text: str) -> None:
    found = FileioResult.of(4, True, text, "")
    assert found.why == "fio printed something that is not known"
    assert found.writes_per_s == 0


def test_why_fio_did_not_run_is_kept() -> None:
    found = FileioResult.of(1, True, "", "fio is not installed")
    assert found.why == "fio is not installed"


def test_two_groups_of_times_are_said_and_refusals_stand_below_the_table() -> None:
    refused = TimingResult(Method.DSYNC, 8192, 0, None, {}, f"refused {'why ' * 20}")
    timed = TimingResult(MAIN.method, MAIN.size, MAIN.offset, SPREAD, {}, "")
    for slow_us, said in ((60, False), (900, True)):
        took = [us * 1000 for us in (60, slow_us) for _ in range(100)]
        folder = FolderResult(
            *(("data",), "/d", "/", "xfs", ("sda",), (timed, refused)),
            *(tuple(make_histogram(took)), (), "advice", ()),
        )
        result = LatencyResult("db1", "", "", (folder,), "", "")
        text = printed(draw_latencies([result]), 80)
        assert ("two groups" in text) is said
        assert all(len(line.rstrip()) <= 80 for line in text.splitlines())
        assert "\u2026" not in text  # nothing is clipped
        assert "O_DSYNC, 8,192 bytes at 0: refused why why" in text


SPREAD = Spread(100, 1234.5, 4567.8, 16345.6, 163456.7)
