"""Reads from a run folder the series that a page draws beside the run's result."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from functools import partial

from dbcheck.base.errors import LogDamaged
from dbcheck.cycle.outcome import Outcome
from dbcheck.cycle.stored_run import StoredLogs
from dbcheck.judge.cutmoment import find_cut_us
from dbcheck.judge.result import DrivePoint, DriveSeries, RunDetail
from dbcheck.ports.witness import LogReader
from dbcheck.rows.keymap import build_key_map
from dbcheck.rows.loss import Losses
from dbcheck.rows.reconcile import SurvivorStream
from dbcheck.rows.timeline import build_timeline
from dbcheck.runs.folder import RunFolder

_US = 1e6


def read_run_detail(outcome: Outcome, reader: LogReader) -> RunDetail:
    """Read the series that a page draws of a judged run, from its folder alone."""
    run, case, load = outcome.run, outcome.case, outcome.load
    found = outcome.found
    losses = found.losses if found else Losses.of(())
    detail = partial(
        RunDetail,
        outcome.manifest,
        outcome.after,
        compared=found is not None,
        copy=None if case.manifest.is_cut else case.copy,
    )
    if load is None or load.last_ack_us is None:
        why = "No charts: the client's record of the load is missing."
        return detail(timeline=None, keys=None, drives=(), missing=why)
    went_us = find_cut_us(case)
    try:
        logs = StoredLogs(run, reader, case.manifest, load)
        timeline = build_timeline(
            logs.acks, losses, load.began_us, went_us, load.last_ack_us
        )
        keys = None
        # A copy need not have the newest commits, which the map shows.
        if found is not None and case.manifest.copy is None:
            rows = _list_survivor_streams(outcome)
            keys = build_key_map(logs.acks, losses, rows, case.manifest.epoch)
    except LogDamaged as error:
        why = f"No charts: {error}."
        return detail(timeline=None, keys=None, drives=(), missing=why)
    end_us = load.last_ack_us if went_us is None else went_us
    drives, why = _read_drive_series(run, (end_us - load.began_us) / _US)
    whole = timeline if timeline.moments else None
    return detail(timeline=whole, keys=keys, drives=drives, missing=why)


def _list_survivor_streams(outcome: Outcome) -> list[SurvivorStream]:
    """Return the rows of each table that was read."""
    stored = outcome.after.survivors.items()
    return [partial(outcome.run.survivors, name, rows) for name, rows in stored]


def _read_drive_series(
    run: RunFolder, load_s: float
) -> tuple[tuple[DriveSeries, ...], str]:
    """Read drives.csv; return its series, and the error if it cannot be read, or "".

    load_s: how long the load took, up to the end of the timeline.
    """
    path = run.path / "drives.csv"
    if not path.is_file():
        return (), ""
    series: dict[tuple[str, str], list[DrivePoint]] = {}
    try:
        for name, point in _parse_drive_points(path.read_text("utf-8"), load_s):
            series.setdefault(name, []).append(point)
    except (csv.Error, LookupError, TypeError, ValueError) as error:
        return (), f"No chart of the drives: {path} is damaged: {error}."
    except OSError:
        return (), f"No chart of the drives: {path} cannot be read."
    drives = (DriveSeries(*name, tuple(points)) for name, points in series.items())
    return tuple(drives), ""


def _parse_drive_points(
    text: str, load_s: float
) -> Iterator[tuple[tuple[str, str], DrivePoint]]:
    for row in csv.DictReader(text.splitlines()):
        seconds = float(row["seconds"])
        if not 0 < seconds < 1e6:
            raise ValueError(f"a sample of {row['seconds']} s")
        flushes = row["flushes"]
        yield (
            (row["node"], row["drive"]),
            DrivePoint(
                load_s - float(row["at_s"]),
                int(row["writes"]) / seconds,
                int(flushes) / seconds if flushes else None,
            ),
        )
