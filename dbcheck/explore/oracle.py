"""Recovers one crash state with the real server, and judges its rows.

Acked lists the commits that had been acknowledged by a moment of a recorded load.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError, LabError, NotBack, TableLost
from dbcheck.cycle.judging import judge_run_rows
from dbcheck.cycle.recovery.reading import Reading
from dbcheck.cycle.recovery.waiting import await_facts
from dbcheck.cycle.rig import Rig
from dbcheck.explore.states import Timeline
from dbcheck.judge.after_reading import judge_conditions_among_rows, judge_table_check
from dbcheck.judge.case import Case
from dbcheck.judge.verdict import judge_conditions, judge_index, judge_rows
from dbcheck.lab.drive.replay import Shown
from dbcheck.lab.lab import Lab
from dbcheck.lab.recorded import require_version
from dbcheck.lab.storage.blocks import FileBlocks
from dbcheck.model.cut import CrashState, CutClass
from dbcheck.model.explored import LostRow, StateJudgement
from dbcheck.model.records import (
    AfterRecord,
    LoadRecord,
    Manifest,
    NodeAfter,
    PreparedRecord,
    StoredRows,
)
from dbcheck.model.server import ServerFacts
from dbcheck.model.verdict import Verdict
from dbcheck.rows.acks import (
    ACK_DTYPE,
    HOUSEKEEPING_SESSION,
    PREFLIGHT_SESSION,
    TIME_UNIT_US,
    AckArray,
    AckValues,
)
from dbcheck.rows.loss import Losses, LossKind
from dbcheck.rows.reconcile import Claim
from dbcheck.rows.survivors import Records
from dbcheck.server_log.startlog import (
    find_damage,
    find_lines_about_damage,
    names_damage,
    read_since_last_start,
)


class Acked:
    """The acks of one run that the witness holds, on the clock of the drives."""

    def __init__(self, batches: Iterable[AckArray], load: LoadRecord) -> None:
        """Take the acks of all logs, a session's in order; raise LabError if none.

        load: what the client saw of the whole load.
        """
        acks: AckArray = np.concatenate([np.empty(0, ACK_DTYPE), *batches])
        if not len(acks):
            raise LabError(
                "the recorded load has no acks",
                id=ErrorId.RECORDED_LOAD_TOO_SHORT,
                hint="Let it run for longer: --load-s.",
            )
        for session in np.unique(acks["session"]):
            own = acks["session"] == session
            # The log may date an ack later than the session's next one.
            acks["acked_us"][own] = np.maximum.accumulate(acks["acked_us"][own])
        self._acks = acks[np.argsort(acks["acked_us"], kind="stable")]
        self._times_us = self._acks["acked_us"]
        self._load = load
        self._total = _count_by_session(self._acks)

    def __len__(self) -> int:
        """Return the number of acks."""
        return len(self._acks)

    @property
    def first_us(self) -> int:
        """The time at which the first session of the load had its first ack."""
        of_load = self._acks["session"] != PREFLIGHT_SESSION
        return int(self._times_us[of_load].min(initial=self._times_us[-1]))

    def count(self, time_us: int) -> int:
        """Count the acks before that time."""
        return int(np.searchsorted(self._times_us, time_us))

    def before(self, time_us: int) -> AckArray:
        """Return the acks that came before a time."""
        return self._acks[: self.count(time_us)]

    def each(self) -> Iterator[AckValues]:
        """Yield all acks as plain values, in the order of their times."""
        yield from self._acks.tolist()

    def claim(self, time_us: int) -> Claim:
        """Return how many operations each session may have sent, and had acked, then.

        A session sends an operation once its last one is acked.  The log dates an ack
        up to TIME_UNIT_US too late; its end may lack acks that were not confirmed.
        """
        acked = _count_by_session(self.before(time_us + TIME_UNIT_US))
        sent = {}
        for session, all_sent in self._load.sent.items():
            acked_count = acked.get(session, 0)
            in_log = acked_count < self._total.get(session, 0)
            sent[session] = acked_count + 1 if in_log else all_sent
            if not in_log:
                acked[session] = self._load.acked.get(session, acked_count)
        return Claim(sent, acked)

    def task_times_us(self) -> list[int]:
        """Return the times of the acks of the housekeeping session's tasks."""
        tasks = self._acks["session"] == HOUSEKEEPING_SESSION
        times: list[int] = self._times_us[tasks].tolist()
        return times


def _count_by_session(acks: AckArray) -> dict[int, int]:
    sessions, counts = np.unique(acks["session"], return_counts=True)
    return dict(zip(sessions.tolist(), counts.tolist(), strict=True))


_LOG_LINES = 400
_LOSSES_KEPT = 10  # losses of a state that are kept one by one


class InMemory:
    """A RowStore without a folder.

    claimed: what the client knew of its load by the moment of the state.
    """

    def __init__(self, claimed: LoadRecord) -> None:
        self._claimed = claimed
        self._rows: dict[str, list[Records]] = {}
        self._prepared: PreparedRecord | None = None

    def load(self) -> LoadRecord:
        return self._claimed

    def read_earlier_records(self) -> list[AfterRecord | PreparedRecord]:
        return []

    def is_own(self) -> bool:
        return False  # nothing is asked of a lab's host while states are judged

    def log_bytes(self) -> tuple[int, ...]:
        return ()

    def prepared(self) -> PreparedRecord | None:
        return self._prepared

    def write_prepared(self, prepared: PreparedRecord) -> None:
        self._prepared = prepared

    def write_survivors(self, table: str, batches: Iterable[Records]) -> StoredRows:
        self._rows[table] = [records.copy() for records in batches]
        return StoredRows(sum(map(len, self._rows[table])), "")

    def survivors(self, table: str, rows: StoredRows) -> Iterator[Records]:
        return iter(self._rows[table])

    def write_different(self, table: str, lines: Iterable[str]) -> None:
        """Drop them, as the losses name each of them."""


class Oracle:
    """Judges the crash states of one recorded run, on one lab that replays it."""

    def __init__(
        self,
        lab: Lab,
        rig: Rig,
        manifest: Manifest,
        load: LoadRecord,
        acked: Acked,
        timeline: Timeline,
    ) -> None:
        """rig: of *lab*.  load: the client's record of the whole load."""
        self._lab, self._rig = lab, rig
        self._manifest, self._load = manifest, load
        self._acked, self._timeline = acked, timeline

    def judge(self, state: CrashState) -> StateJudgement:
        """Recover *state*, read its rows and compare them with the acks before it.

        What the server's data keep from coming back is a FAIL, as in a cycle; what may
        have another cause is INCONCLUSIVE, if it happens twice.  Raise LabError or
        PowerError if the lab failed.
        """
        judgement = self._judge_once(state)
        if judgement.verdict is Verdict.INCONCLUSIVE:
            return self._judge_once(state)
        return judgement

    def _judge_once(self, state: CrashState) -> StateJudgement:
        time_us = self._timeline.moments[state.moment].time_us
        acks = self._acked.count(time_us)
        status = self._lab.show(_list_shown_parts(state))
        self._require_sound_lab(status.broken)
        if status.failure:
            return _make_unrecoverable(acks, status.failure)
        claim = self._acked.claim(time_us)
        claimed = replace(self._load, sent=claim.sent, acked=claim.acked)
        try:
            return self._read_rows(claimed, self._acked.before(time_us))
        except TableLost as error:
            return _make_unrecoverable(acks, str(error))
        except (EngineError, NotBack) as error:
            return self._judge_doubtful(acks, str(error))

    def blocks(self, state: CrashState) -> list[FileBlocks] | None:
        """Return the blocks of each file in *state*, before any server recovers.

        None if its filesystem cannot be mounted.
        """
        status = self._lab.show(_list_shown_parts(state), start=False)
        self._require_sound_lab(status.broken)
        return None if status.failure else self._lab.blocks()

    def _require_sound_lab(self, broken: str | None) -> None:
        if broken:
            raise LabError(
                f"lab {self._lab.name} is broken: {broken}",
                id=ErrorId.LAB_BROKEN,
                hint="The server is not at fault. Continue with the same folder: what"
                " was judged is kept.",
            )

    def _read_rows(self, claimed: LoadRecord, acks: AckArray) -> StateJudgement:
        facts, failure = await_facts(self._rig)
        if facts is None:
            return _make_unrecoverable(len(acks), failure)
        # The lab compares versions when it is built, and if a state is not recovered.
        require_version(facts.version, self._manifest.writer.facts.version)
        run = InMemory(claimed)
        reading = Reading(self._rig, run, self._adapt_manifest(facts))
        reading.read(facts)
        if reading.failure:
            return _make_unrecoverable(len(acks), reading.failure)
        if reading.unanswered:
            return self._judge_doubtful(len(acks), reading.unanswered)
        if reading.engines:
            engines = ", ".join(reading.engines.values())
            return self._judge_doubtful(
                len(acks), f"tables of other engines: {engines}"
            )
        return self._compare_with_acks(run, reading, facts, claimed, acks)

    def _adapt_manifest(self, facts: ServerFacts) -> Manifest:
        """Return the manifest as if this lab's server had taken the load.

        This server has the recorded server's data, but its own port and a later start.
        """
        name, manifest = self._manifest.writer_name, self._manifest
        writer = manifest.writer
        facts = replace(facts, started_us=writer.facts.started_us)
        return replace(manifest, nodes={name: replace(writer, facts=facts)})

    def _compare_with_acks(
        self,
        run: InMemory,
        reading: Reading,
        facts: ServerFacts,
        claimed: LoadRecord,
        acks: AckArray,
    ) -> StateJudgement:
        reader = self._rig.site.reader_name
        after = reading.record({reader: NodeAfter(facts)}, reader)
        case = Case(self._manifest, claimed, None, after)
        found = judge_run_rows(run, lambda: [acks], case)
        # Judged like a cycle, but the cut needs no evidence here.
        items = [
            item
            for item in (judge_conditions_among_rows(case), judge_table_check(case))
            if item
        ]
        judgement = judge_rows(found, items, CutClass.LAB_DRIVE, explained=True)
        judgement = judge_index(judgement, found, after.index)
        judgement = judge_conditions(judgement, found, after.conditions)
        if judgement.verdict is Verdict.PASS:
            return StateJudgement(Verdict.PASS, len(acks), {})
        losses = dict(found.counts)
        if after.index is not None:
            losses[LossKind.INDEX_MISMATCH.value] = after.index.rows
        if after.conditions is not None and after.conditions.broken:
            losses[LossKind.INCONSISTENT.value] = 1
        reason = "; ".join(judgement.reasons)
        rows = tuple(_list_first_losses(found.losses))
        return StateJudgement(judgement.verdict, len(acks), losses, reason, rows)

    def _judge_doubtful(self, acks: int, reason: str) -> StateJudgement:
        """Return a FAIL if the server's log names damaged data since its start.

        The recorded server ran on the same data without such messages.  Damage that the
        log reports only for statements counts if it kept the rows from being read.
        """
        logged = read_since_last_start(self._lab.server_log(_LOG_LINES))
        lines = find_damage(logged)
        if not lines and names_damage(reason):
            lines = find_lines_about_damage(logged)
        if lines:
            return _make_unrecoverable(acks, f"{reason}: {'; '.join(lines)}")
        return StateJudgement(Verdict.INCONCLUSIVE, acks, {}, reason)


def _make_unrecoverable(acks: int, reason: str) -> StateJudgement:
    kind = LossKind.UNRECOVERABLE.value
    return StateJudgement(Verdict.FAIL, acks, {kind: 1}, f"{kind}: {reason}")


def _list_shown_parts(state: CrashState) -> list[Shown]:
    """Return the state in the form that Lab.show() takes."""
    return [(whole, list(parts)) for whole, parts in state.drives]


def _list_first_losses(losses: Losses) -> Iterator[LostRow]:
    for loss in losses[:_LOSSES_KEPT]:
        yield LostRow(loss.kind.value, loss.table, loss.session, loss.seq, loss.row_id)
