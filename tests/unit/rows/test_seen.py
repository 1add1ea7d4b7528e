"""Rows that a reader saw and that are gone: found, and counted once."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from click.testing import CliRunner

from dbcheck.cli.root import root
from dbcheck.cycle.judging import judge_run
from dbcheck.cycle.outcome import SEEN_MAX, Outcome
from dbcheck.judge.result import SeenRow
from dbcheck.model.verdict import Verdict
from dbcheck.report.verdict import verdict_report
from dbcheck.rows.acks import SESSION_MAX, Ack
from dbcheck.rows.reconcile import Claim
from dbcheck.rows.seen import judge_seen_rows
from dbcheck.rows.table import LEDGER
from dbcheck.runs.folder import RunFolder
from dbcheck.witness.log import FrameLogReader
from tests.kit.cycles import array_of, record, records_of
from tests.kit.reports import printed
from tests.kit.stored_run import ACKS, EPOCH, RUN, load_record, manifest, stored_run
from tests.kit.witness_logs import LogMaker

SEEN_US = 10**6 + 550
GONE = Ack(2, 4, 77, SEEN_US)  # sent, never acked, and no survivor
THERE = Ack(1, 6, 6, SEEN_US)  # sent, never acked, and a survivor
ACKED = Ack(1, 5, 1005, SEEN_US)


def judged(
    folder: Path, seen: Sequence[Ack], *, without: tuple[int, int] | None = None
) -> Outcome:
    """Judge a run whose readers saw that; *without* the row of one key."""
    log = LogMaker(RUN, 2)
    log.add_acks(seen)
    run = RunFolder.create(folder, replace(manifest(), logs=3, seen_log=True))
    stored_run(run)
    run.write_load(
        replace(load_record(), seen=len(seen), seen_watermark=log.watermark())
    )
    run.write_acks(2, [log.data()])
    if without is not None:
        _remove(run, without)
    return judge_run(run, FrameLogReader())


def _remove(run: RunFolder, key: tuple[int, int]) -> None:
    after = run.after()
    (rows,) = run.survivors(LEDGER.name, after.stored_rows(LEDGER.name))
    left = rows[(rows["session"] != key[0]) | (rows["seq"] != key[1])]
    stored = {LEDGER.name: run.write_survivors(LEDGER.name, [left])}
    run.write_after(replace(after, survivors=stored))


def test_a_row_that_was_seen_and_is_gone_is_found(tmp_path: Path) -> None:
    outcome = judged(tmp_path, [ACKED, THERE, GONE])
    seen = outcome.result.seen
    assert seen is not None
    assert (seen.rows, seen.lost, seen.left_out) == (3, 1, 0)
    assert seen.first == (SeenRow(77, 2, 4, 0.00025),)
    assert "Seen by a reader, then lost" in printed(verdict_report(outcome.result))


def test_it_decides_nothing(tmp_path: Path) -> None:
    without = judged(tmp_path / "1", [ACKED, THERE])
    outcome = judged(tmp_path / "2", [ACKED, THERE, GONE])
    assert without.result.seen is not None and not without.result.seen.lost
    assert outcome.verdict is without.verdict is Verdict.PASS
    assert outcome.result.losses == without.result.losses == {}
    assert "Seen by a reader" not in printed(verdict_report(without.result))


def test_an_acked_row_that_is_gone_is_missing_and_not_counted_twice(
    tmp_path: Path,
) -> None:
    outcome = judged(tmp_path, [ACKED, GONE], without=(1, 5))
    assert outcome.verdict is Verdict.FAIL
    assert sum((outcome.result.losses or {}).values()) == 1
    assert outcome.result.seen is not None
    assert [row.id for row in outcome.result.seen.first] == [77]


def test_of_a_run_in_which_nobody_looked_nothing_is_said(tmp_path: Path) -> None:
    run = stored_run(RunFolder.create(tmp_path, manifest()))
    result = judge_run(run, FrameLogReader()).result
    assert result.seen is None
    assert "readers" not in printed(verdict_report(result))


def test_a_row_that_the_client_never_sent_is_left_to_the_judge(tmp_path: Path) -> None:
    seen = judged(tmp_path, [Ack(2, ACKS[2] + 2, 99, SEEN_US), Ack(9, 1, 98, SEEN_US)])
    assert seen.result.seen is not None
    assert (seen.result.seen.rows, seen.result.seen.lost) == (0, 0)


def test_a_log_that_lacks_what_was_confirmed_voids_the_run(tmp_path: Path) -> None:
    outcome = judged(tmp_path, [GONE])
    outcome.run.write_acks(2, [LogMaker(RUN, 2).data()])
    again = judge_run(outcome.run, FrameLogReader())
    assert again.verdict is Verdict.INCONCLUSIVE
    assert again.result.seen is None
    assert "confirmed" in again.case.damage


def test_the_witness_s_logs_call_it_seen(tmp_path: Path) -> None:
    folder = str(judged(tmp_path, [THERE, GONE]).run.path)
    lines = [json.loads(line) for line in _shown("show", folder)]
    assert [line for line in lines if "seen_us" in line] == [
        {"session": 1, "seq": 6, "row_id": 6, "seen_us": SEEN_US},
        {"session": 2, "seq": 4, "row_id": 77, "seen_us": SEEN_US},
    ]
    assert sum("acked_us" in line for line in lines) == sum(ACKS.values())
    verified = _shown("verify", folder)
    assert "intact: 5 acks" in verified[0]
    assert "intact: 2 rows that readers saw" in verified[2]


def _shown(*arguments: str) -> list[str]:
    done = CliRunner().invoke(root, ["witness", *arguments])
    assert done.exit_code == 0, done.output
    return done.output.splitlines()


def test_only_some_of_many_are_listed(tmp_path: Path) -> None:
    many = SEEN_MAX + 5
    run = stored_run(
        RunFolder.create(tmp_path, replace(manifest(), logs=3, seen_log=True))
    )
    log = LogMaker(RUN, 2)
    log.add_acks([Ack(3, n, 9000 - n, SEEN_US) for n in range(1, many + 1)])
    load = load_record()
    run.write_load(
        replace(load, sent={**load.sent, 3: many}, seen_watermark=log.watermark())
    )
    run.write_acks(2, [log.data()])
    seen = judge_run(run, FrameLogReader()).result.seen
    assert seen is not None
    assert (seen.lost, len(seen.first), seen.left_out) == (many, SEEN_MAX, 5)
    assert seen.first[0].id == 9000 - many


def test_rows_of_other_epochs_and_without_a_key_are_no_survivors() -> None:
    rows = records_of([record(2, 4, epoch=EPOCH + 1), record(-2, 4, epoch=EPOCH)])

    found = judge_seen_rows(
        lambda: array_of([GONE]),
        np.zeros(SESSION_MAX + 1, np.int64),
        partial(iter, [rows]),
        EPOCH,
        Claim({2: 4}, {}),
    )
    assert found.lost["seq"].tolist() == [4]
