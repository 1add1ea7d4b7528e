"""Several logs of one run, read as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from dbcheck.campaign.judging import judge_run
from dbcheck.campaign.logs import StoredLogs
from dbcheck.core.history import Ack
from dbcheck.core.reconcile import count_acks
from dbcheck.core.records import LoadRecord
from dbcheck.core.witnessed import WindowFacts
from dbcheck.errors import LogDamaged, RunFormatError, WitnessError
from dbcheck.runs import RunFolder
from dbcheck.witness.log import FrameLogReader
from tests.kit.samples import LOAD, MANIFEST
from tests.kit.stored_run import acks_of as stored_acks
from tests.kit.stored_run import manifest, stored_run
from tests.kit.witness_logs import LogMaker


def acks_of(session: int, count: int, after: int = 0) -> list[Ack]:
    return [Ack(session, seq, seq, seq) for seq in range(after + 1, after + count + 1)]


def logs_of(*logs: Sequence[Ack]) -> list[LogMaker]:
    makers = [LogMaker(MANIFEST.run_id, number) for number in range(len(logs))]
    for maker, acks in zip(makers, logs, strict=True):
        maker.add_acks(acks)
    return makers


def stored(
    folder: Path, makers: Sequence[LogMaker], load: LoadRecord | None = None
) -> StoredLogs:
    """Store the logs in a run folder, each under its own number."""
    manifest = replace(MANIFEST, logs=len(makers))
    run = RunFolder.create(folder, manifest)
    for number, maker in enumerate(makers):
        run.write_acks(number, [maker.data()])
    return StoredLogs(run, FrameLogReader(), manifest, load)


def load_of(makers: Sequence[LogMaker]) -> LoadRecord:
    marks = tuple(maker.watermark() for maker in makers)
    return replace(LOAD, watermarks=marks, windows=(WindowFacts(1, 0.1),) * len(makers))


def test_the_acks_of_all_logs_are_counted(tmp_path: Path) -> None:
    makers = logs_of(acks_of(0, 4), acks_of(1, 9) + acks_of(3, 2), acks_of(2, 7))
    logs = stored(tmp_path, makers, load_of(makers))
    assert [facts.acks for facts in logs.facts()] == [4, 11, 7]
    assert count_acks(logs.acks)[:4].tolist() == [4, 9, 7, 2]


def test_acks_of_the_preflight_are_not_of_the_load(tmp_path: Path) -> None:
    """They come soon before a cut in ramp-up, and nothing of them is at risk."""
    warm, first = Ack(0, 1, 1, 900), Ack(1, 1, 2, 500)
    facts = stored(tmp_path, logs_of([warm], [first, warm], [])).facts()
    assert [one.newest_us for one in facts] == [None, 500, None]


def test_a_log_that_is_absent_is_told(tmp_path: Path) -> None:
    logs = stored(tmp_path, logs_of(acks_of(0, 1), acks_of(1, 1)))
    (tmp_path / MANIFEST.run_id / "acks-1.log").unlink()
    with pytest.raises(WitnessError, match="cannot read .*acks-1.log"):
        logs.facts()
    with pytest.raises(WitnessError, match="cannot read .*acks-1.log"):
        list(logs.acks())


def test_logs_that_were_swapped_are_damaged(tmp_path: Path) -> None:
    makers = logs_of(acks_of(0, 1), acks_of(1, 1), acks_of(2, 1))
    makers[1:] = makers[:0:-1]
    logs = stored(tmp_path, makers)
    with pytest.raises(LogDamaged, match="it is log 2 of the run, not 1"):
        logs.facts()


def test_a_log_cut_off_at_a_frame_s_end_is_damaged(tmp_path: Path) -> None:
    makers = logs_of(acks_of(0, 1), acks_of(1, 1), acks_of(2, 1))
    load = load_of(makers)
    del makers[2].frames[-1]
    with pytest.raises(LogDamaged, match="2 frames were confirmed, 1 are there"):
        stored(tmp_path, makers, load).facts()


def test_a_log_of_which_nothing_is_known_to_be_confirmed_is_read(
    tmp_path: Path,
) -> None:
    """Its process died before it could tell."""
    makers = logs_of(acks_of(0, 1), acks_of(1, 5))
    load = replace(load_of(makers), watermarks=(makers[0].watermark(), None))
    assert [facts.acks for facts in stored(tmp_path, makers, load).facts()] == [1, 5]


@pytest.mark.parametrize("after", [0, 3])
def test_a_session_in_two_logs_is_damage(tmp_path: Path, after: int) -> None:
    """Whether its acks were replayed, or go on where those of the other log end."""
    logs = stored(tmp_path, logs_of([], acks_of(1, 3), acks_of(1, 3, after)))
    with pytest.raises(LogDamaged, match="another log's session"):
        list(logs.acks())


def test_a_load_of_other_logs_is_refused(tmp_path: Path) -> None:
    makers = logs_of(acks_of(0, 1), acks_of(1, 1))
    with pytest.raises(
        RunFormatError, match="load.json lists 1 witness logs, manifest.json 2"
    ):
        stored(tmp_path, makers, load_of(makers[:1]))


def test_a_moment_beyond_the_calendar_is_left_out(tmp_path: Path) -> None:
    run = stored_run(RunFolder.create(tmp_path, replace(manifest(), logs=1)))
    (run.path / "load.json").unlink()
    maker = LogMaker(run.path.name)
    far = [Ack(session, seq, 50 + seq, 2**62) for session, seq, _, _ in stored_acks(1)]
    maker.add_acks(far)
    run.write_acks(0, [maker.data()])
    outcome = judge_run(run, FrameLogReader())
    assert outcome.found is not None
    assert outcome.found.counts
    assert ",,ledger\n" in (run.path / "losses.csv").read_text()
