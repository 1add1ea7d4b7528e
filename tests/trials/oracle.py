"""What must hold whatever became of the witness, judged without dbcheck's judge.

It knows what the sessions received (recorded.py), what the witness's disk holds
(raw_log.py), which rows a plain driver selects after recovery, and what dbcheck said.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.trials.raw_log import RawLog
from tests.trials.recorded import Record

FRESH_S = 1.0  # a PASS needs a confirmed commit as young as this at the cut
_MISSING = ("missing-tail", "missing-hole")
VERDICTS = {0: "PASS", 1: "FAIL", 3: "INCONCLUSIVE"}


@dataclass(frozen=True)
class Said:
    """What one command said: exit code, stderr, and its run folder."""

    code: int
    err: str
    run: Path

    @property
    def verdict(self) -> str:
        """The verdict, "" if it gave none."""
        return VERDICTS.get(self.code, "")

    def json(self, name: str) -> Any:
        """Return a file of the run folder, None if it is not there."""
        path = self.run / name
        return json.loads(path.read_bytes()) if path.is_file() else None

    def lost_ids(self) -> set[int]:
        """Return the ids of the acked rows that it lists as missing."""
        text = (self.run / "losses.csv").read_text()
        rows = csv.DictReader(io.StringIO(text))
        return {int(row["row_id"]) for row in rows if row["kind"] in _MISSING}


@dataclass(frozen=True)
class Facts:
    """What is known of a trial.

    lying:   the drive ignores flushes.
    window:  most acks of a process that may be unconfirmed.
    records, logs: by the log's number.
    rows:    (session, seq) -> id of this run's rows after recovery, None if the table
             could not be read.
    """

    lying: bool
    window: int
    records: Mapping[int, Record]
    logs: Mapping[int, RawLog]
    rows: Mapping[tuple[int, int], int] | None

    @property
    def held(self) -> dict[tuple[int, int], int]:
        """The acks that the witness holds."""
        acks = (ack for log in self.logs.values() for ack in log.acks)
        return {(session, seq): row_id for session, seq, row_id in acks}

    @property
    def absent(self) -> set[int]:
        """The ids of acks that the witness holds and whose rows are not there."""
        rows = self.rows or {}
        return {i for key, i in self.held.items() if rows.get(key) != i}


def witness_complaints(facts: Facts) -> Iterator[str]:
    """Say what is wrong between the sessions and the witness's logs."""
    for number, record in facts.records.items():
        log = facts.logs[number]
        acks = [(one.session, one.seq, one.row_id) for one in record.received]
        if log.acks != acks[: len(log.acks)]:
            yield f"log {number} does not hold what was received, in that order"
        if len(log.acks) < record.confirmed:
            yield (
                f"log {number} lost confirmed acks: {record.confirmed} were confirmed,"
                f" {len(log.acks)} are there"
            )
        for at, one in enumerate(record.received, 1):
            if at - one.confirmed > facts.window:
                yield f"log {number}: {at - one.confirmed} acks were unconfirmed"
                break


def verdict_complaints(facts: Facts, said: Said) -> Iterator[str]:
    """Say what is wrong with a verdict."""
    verdict, absent = said.verdict, facts.absent
    if not verdict:
        return
    if facts.lying and verdict == "PASS":
        yield "a lying drive passed"
    if not facts.lying and verdict == "FAIL":
        yield "an honest drive failed"
    if facts.rows is None:
        if verdict == "PASS":
            yield "it passed though the table cannot be read"
        return
    if verdict == "FAIL" and said.lost_ids() != absent:
        yield f"it lists {sorted(said.lost_ids())}, absent are {sorted(absent)}"
    nothing_is_left = "no row of this run survived" in str(said.json("verdict.json"))
    if absent and verdict != "FAIL" and not nothing_is_left:
        yield f"{len(absent)} confirmed rows are absent, and it says {verdict}"
    if verdict == "PASS" and (age_s := _newest_age_s(facts, said)) >= FRESH_S:
        yield f"it passed on acks of which the newest confirmed is {age_s:.1f} s old"


def said_complaints(facts: Facts, said: Said) -> Iterator[str]:
    """Say what is wrong with what a person was told."""
    if "Traceback" in said.err:
        yield "it ended with a traceback"
    if said.verdict:
        if said.json("verdict.json")["verdict"] != said.verdict:
            yield "its exit code is not its verdict"
        return
    _, _, told = said.err.rpartition("dbcheck: ")
    error, _, hint = told.partition("\n")
    if said.code != 4 or not error:
        yield f"it ended with {said.code} and without a word"
    elif not hint.strip().endswith((".", "reconcile")):
        yield f"it does not say what to do: {told!r}"
    if "dbcheck reconcile" not in said.err:
        yield "it does not say that the run can be reconciled"


def window_complaints(facts: Facts, said: Said) -> Iterator[str]:
    """Say whether the client's own measure of the window is beyond its limit."""
    load = said.json("load.json")
    for window in load["windows"] if load else ():
        if window["acks"] > facts.window:
            yield f"a window of {window['acks']} acks, {facts.window} are the limit"


def complaints(facts: Facts, said: Said) -> list[str]:
    """Return all that is wrong; [] if nothing is."""
    parts = (verdict_complaints, said_complaints, window_complaints)
    found = [one for part in parts for one in part(facts, said)]
    return [*witness_complaints(facts), *found]


def _newest_age_s(facts: Facts, said: Said) -> float:
    """Return how long before the cut the newest ack came that the witness holds."""
    load = said.json("load.json")
    if load is None:
        return math.inf
    (node,) = load["nodes"].values()
    cut_us = node["cut"]["exact_us"]
    held = facts.held.keys()
    newest_us = max(
        (
            one.clock_us
            for record in facts.records.values()
            for one in record.received
            if (one.session, one.seq) in held
        ),
        default=0,
    )
    return float(max(0, cut_us - newest_us)) / 1e6
