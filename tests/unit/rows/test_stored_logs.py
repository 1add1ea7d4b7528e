"""Several logs of one run, read as one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dbcheck.agent import witness as agent
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LogDamaged, RunFormatError, WitnessError
from dbcheck.cycle.judging import judge_run
from dbcheck.cycle.stored_run import StoredLogs
from dbcheck.model.records import LoadRecord
from dbcheck.model.witness import WindowFacts
from dbcheck.rows.acks import Ack, pack
from dbcheck.rows.summary import AckSummary
from dbcheck.rows.table import LEDGER
from dbcheck.runs.folder import RunFolder
from dbcheck.witness.log import FrameLogReader
from tests.kit.refusals import refused
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
    assert AckSummary.of(logs.acks).counts[:4].tolist() == [4, 9, 7, 2]


def test_acks_of_the_preflight_are_not_of_the_load(tmp_path: Path) -> None:
    """They come soon before a cut in ramp-up, and nothing of them is at risk."""
    warm, first = Ack(0, 1, 1, 900), Ack(1, 1, 2, 500)
    facts = stored(tmp_path, logs_of([warm], [first, warm], [])).facts()
    assert [one.newest_us for one in facts] == [None, 500, None]


def test_a_log_that_is_absent_is_told(tmp_path: Path) -> None:
    logs = stored(tmp_path, logs_of(acks_of(0, 1), acks_of(1, 1)))
    (tmp_path / MANIFEST.run_id / "acks-1.log").unlink()
    with refused(ErrorId.RECORD_UNREADABLE, WitnessError, naming="acks-1.log"):
        logs.facts()
    with refused(ErrorId.RECORD_UNREADABLE, WitnessError, naming="acks-1.log"):
        list(logs.acks())


def test_logs_that_were_swapped_are_damaged(tmp_path: Path) -> None:
    makers = logs_of(acks_of(0, 1), acks_of(1, 1), acks_of(2, 1))
    makers[1:] = makers[:0:-1]
    logs = stored(tmp_path, makers)
    with refused(
        ErrorId.WITNESS_LOG_DAMAGED, LogDamaged, naming="it is log 2 of the run, not 1"
    ):
        logs.facts()


def test_a_log_cut_off_at_a_frame_s_end_is_damaged(tmp_path: Path) -> None:
    makers = logs_of(acks_of(0, 1), acks_of(1, 1), acks_of(2, 1))
    load = load_of(makers)
    del makers[2].frames[-1]
    with refused(
        ErrorId.WITNESS_LOG_DAMAGED,
        LogDamaged,
        naming="2 frames were confirmed, 1 are there",
    ):
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
    with refused(
        ErrorId.WITNESS_LOG_DAMAGED,
        LogDamaged,
        naming=("the witness log is damaged: ", "another log's session"),
    ):
        list(logs.acks())


def test_a_load_of_other_logs_is_refused(tmp_path: Path) -> None:
    makers = logs_of(acks_of(0, 1), acks_of(1, 1))
    with refused(
        ErrorId.RECORD_DAMAGED, RunFormatError, naming=("lists 1", "manifest.json 2")
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


def test_the_log_of_a_sound_run_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each reading verifies all of it, and it may have a gigabyte."""
    read: list[str] = []

    def stream(path: Path) -> Iterator[bytes]:
        read.append(path.name)
        yield path.read_bytes()

    monkeypatch.setattr("dbcheck.witness.log.stream_file", stream)
    run = stored_run(RunFolder.create(tmp_path, manifest()))
    outcome = judge_run(run, FrameLogReader())
    assert outcome.found is not None
    assert (outcome.found.kept, outcome.found.counts) == (8, {})
    assert read == ["acks.log", "acks-1.log"]


def test_a_stored_row_with_another_id_is_found_by_what_the_ids_weigh(
    tmp_path: Path,
) -> None:
    run = stored_run(RunFolder.create(tmp_path, manifest()))
    after = run.after()
    (sound,) = run.survivors(LEDGER.name, after.survivors[LEDGER.name])
    rows = sound.copy()
    swapped = np.flatnonzero(rows["session"] == 2)[:2]
    rows["row_id"][swapped] = rows["row_id"][swapped[::-1]]
    stored_rows = {LEDGER.name: run.write_survivors(LEDGER.name, [rows])}
    run.write_after(replace(after, survivors=stored_rows))
    outcome = judge_run(run, FrameLogReader())
    assert outcome.found is not None
    assert outcome.found.counts == {"corrupt": 2}
    assert outcome.found.kept == 6


def changed(acks: Sequence[Ack], *, event: bool = False) -> bytes:
    (maker,) = logs_of(acks)
    if event:
        maker.add_event({})
    return maker.data()


@pytest.mark.parametrize(
    ("content", "naming"),
    [
        pytest.param(changed(acks_of(1, 4)), "it differs", id="more acks in a frame"),
        pytest.param(
            changed([*acks_of(1, 2), Ack(1, 3, 9, 3)]), "it differs", id="another id"
        ),
        pytest.param(changed([]), "2 frames were confirmed", id="no acks"),
        pytest.param(b"", "it has no header", id="nothing"),
    ],
)
def test_a_log_that_was_changed_between_two_readings_is_damaged(
    content: bytes, naming: str, tmp_path: Path
) -> None:
    """Nothing of it was known to be confirmed, so only the first reading shows it."""
    logs = stored(tmp_path, logs_of(acks_of(1, 3)))
    assert logs.summary.total == 3
    (tmp_path / MANIFEST.run_id / "acks.log").write_bytes(content)
    with refused(ErrorId.WITNESS_LOG_DAMAGED, LogDamaged, naming=naming):
        list(logs.acks())


@pytest.mark.parametrize("session", [1, 2])
def test_a_log_that_grew_between_two_readings_is_damaged(
    session: int, tmp_path: Path
) -> None:
    (maker,) = logs_of(acks_of(1, 3))
    logs = stored(tmp_path, [maker])
    logs.facts()
    path = tmp_path / MANIFEST.run_id / "acks.log"
    assert sum(map(len, logs.acks())) == 3
    maker.add_event({})
    path.write_bytes(maker.data())
    assert sum(map(len, logs.acks())) == 3  # an event is no ack
    maker.add_acks([Ack(session, 4, 4, 4)])
    path.write_bytes(maker.data())
    with refused(
        ErrorId.WITNESS_LOG_DAMAGED, LogDamaged, naming="changed while it was judged"
    ):
        list(logs.acks())


def test_a_gap_in_the_acks_is_told_when_they_are_needed(tmp_path: Path) -> None:
    """What a log holds is told of a server that never came back as well."""
    logs = stored(tmp_path, logs_of([Ack(1, 1, 1, 1), Ack(1, 3, 3, 3)]))
    assert [facts.acks for facts in logs.facts()] == [2]
    with refused(ErrorId.WITNESS_LOG_DAMAGED, LogDamaged, naming="ack 3 of session 1"):
        assert logs.summary


WALL_US, AHEAD_US = 1_700_000_000_000_000, 7_200_000_000
NOTED = {"clock": 1_010_000, "cut asked": 9_005_000}


def far_logs(
    folder: Path, *, set_us: int = 0, noted: Mapping[str, int] = NOTED
) -> StoredLogs:
    """Store a run on another machine, whose clock is two hours ahead.

    The client's clock read 1 s when the witness's read WALL_US + 1 s, and the cut was
    asked at 9 s.  An ack came half a second before that, another one after it, and each
    frame took 20 ms to the witness.  set_us: by how much its clock was set in between.
    """
    client, far = LogMaker(MANIFEST.run_id), LogMaker(MANIFEST.run_id, 1)
    for name, at_us in (("clock", 1_000_000), ("cut asked", 9_000_000)):
        moved_us = set_us if name == "cut asked" else 0
        event = {"event": name, "clock_us": at_us}
        client.add(
            agent.EVENT,
            0,
            json.dumps(event).encode(),
            clock_us=WALL_US + at_us + 3_000 + moved_us,
        )
    for seq, at_us in ((1, 8_500_000), (2, 9_100_000)):
        (body,) = pack([Ack(1, seq, seq, AHEAD_US + at_us)])
        received_us = WALL_US + at_us + 20_000 + set_us
        far.add(agent.ACKS, 1, body, clock_us=received_us)
    made = replace(MANIFEST, logs=2, own_clocks=True)
    run = RunFolder.create(folder, made)
    for number, maker in enumerate((client, far)):
        run.write_acks(number, [maker.data()])
    load = replace(load_of((client, far)), noted_us=noted)
    return StoredLogs(run, FrameLogReader(), made, load)


def test_an_ack_of_another_machine_never_looks_as_if_it_came_before_the_cut(
    tmp_path: Path,
) -> None:
    logs = far_logs(tmp_path)
    (batch,) = logs.acks()
    before_us, after_us = batch["acked_us"].tolist()
    assert 8_500_000 <= before_us < 8_530_000
    assert 9_100_000 <= after_us < 9_130_000
    assert logs.clock_set == ""
    assert logs.late_us == 100_000  # the oldest ack that was unconfirmed
    newest_us = logs.facts()[1].newest_us
    assert newest_us is not None
    # Dated early where its age is evidence, but for what its frame took.
    assert 9_100_000 <= newest_us < after_us


def test_a_witness_whose_clock_was_set_dates_nothing(tmp_path: Path) -> None:
    logs = far_logs(tmp_path, set_us=-3_600_000_000)
    assert "was set by 3599.990 s or more" in logs.clock_set
    assert logs.late_us is None


def test_a_run_whose_client_noted_nothing_is_damaged(tmp_path: Path) -> None:
    maker = LogMaker(MANIFEST.run_id)
    made = replace(MANIFEST, logs=2, own_clocks=True)
    run = RunFolder.create(tmp_path, made)
    far = LogMaker(MANIFEST.run_id, 1)
    far.add_acks(acks_of(1, 2))
    for number, one in enumerate((maker, far)):
        run.write_acks(number, [one.data()])
    logs = StoredLogs(run, FrameLogReader(), made, None)
    with refused(
        ErrorId.WITNESS_LOG_DAMAGED,
        LogDamaged,
        naming=("the witness log is damaged: ", "lacks what dates the acks"),
    ):
        logs.facts()
