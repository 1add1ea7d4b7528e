"""Reads from a run folder what a page draws beside the run's result."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from functools import partial

from dbcheck.campaign.logs import StoredLogs
from dbcheck.campaign.outcome import Outcome
from dbcheck.core.keymap import key_map
from dbcheck.core.loss import Losses
from dbcheck.core.observed import SurvivorStream
from dbcheck.core.timeline import Timeline, timeline_of
from dbcheck.errors import LogDamaged
from dbcheck.judge.cutmoment import cut_us
from dbcheck.judge.detail import DrivePoint, DriveSeries, RunDetail
from dbcheck.ports.witness import LogReader
from dbcheck.runs import RunFolder

_US = 1e6


def detail_of(outcome: Outcome, reader: LogReader) -> RunDetail:
    """Return what is drawn of a judged run; touches no server and no witness."""
    run, case, load = outcome.run, outcome.case, outcome.load
    losses = outcome.found.losses if outcome.found else Losses.of(())
    detail = partial(RunDetail, outcome.manifest, outcome.after)
    if load is None or load.last_ack_us is None:
        return detail(None, None, (), "the client's record of the load is missing")
    went_us = cut_us(case)
    try:
        logs = StoredLogs(run, reader, case.manifest, load)
        timeline = timeline_of(
            logs.acks, losses, load.began_us, went_us, load.last_ack_us
        )
        keys = key_map(logs.acks, losses, _survivors(outcome), case.manifest.epoch)
    except LogDamaged as error:
        return detail(None, None, (), str(error))
    end_us = load.last_ack_us if went_us is None else went_us
    drives, why = _drives(run, (end_us - load.began_us) / _US)
    return detail(_or_none(timeline), keys, drives, why)


def _or_none(timeline: Timeline) -> Timeline | None:
    return timeline if timeline.moments else None


def _survivors(outcome: Outcome) -> list[SurvivorStream]:
    """Return the rows of each table that was read, if they were judged by this."""
    if outcome.found is None:
        return []
    return [partial(outcome.run.survivors, name) for name in outcome.after.survivors]


def _drives(run: RunFolder, load_s: float) -> tuple[tuple[DriveSeries, ...], str]:
    """Return what drives.csv holds, and why it cannot be read, "" if it can.

    load_s: how long the load took, up to the end of the timeline.
    """
    path = run.path / "drives.csv"
    if not path.is_file():
        return (), ""
    series: dict[tuple[str, str], list[DrivePoint]] = {}
    try:
        for name, point in _points(path.read_text("utf-8"), load_s):
            series.setdefault(name, []).append(point)
    except (csv.Error, LookupError, TypeError, ValueError) as error:
        return (), f"{path} is damaged: {error}"
    except OSError as error:
        return (), f"{path} cannot be read: {error.strerror}"
    found = (DriveSeries(*name, tuple(points)) for name, points in series.items())
    return tuple(found), ""


def _points(text: str, load_s: float) -> Iterator[tuple[tuple[str, str], DrivePoint]]:
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
