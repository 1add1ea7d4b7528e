"""Cuts the power at the moment drawn for it."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass

from dbcheck.base.errors import EngineError, PartlyCut, PowerError
from dbcheck.base.limits import BEHIND_S
from dbcheck.base.system import now_us
from dbcheck.cycle.hold import Holding
from dbcheck.cycle.preflight.before_load import Started
from dbcheck.cycle.rig import Rig
from dbcheck.cycle.watching import FollowerWatch
from dbcheck.load.load import Load
from dbcheck.model.cut import Cut
from dbcheck.model.moments import Activity
from dbcheck.model.records import CutAsked
from dbcheck.model.server import LogPosition, ServerFacts, is_restarted
from dbcheck.model.witness import CUT_EVENT
from dbcheck.ports.listener import Phase
from dbcheck.rows.tasks import HousekeepingTasks

CLOCK_EVENT = "clock"  # noted before a load on other machines
LATE_S = 0.5  # a witness so late may be about to stop: the cut waits, up to BEHIND_S
RESUMED_S = 0.5  # so young an ack shows that a load which had to wait has resumed
# Tasks of any kind come several times a second; a cut does not wait for one for long.
TASK_WAIT_S, TASK_POLL_S = 3.0, 0.0005
INTERRUPTED = "dbcheck was interrupted before the switch had reported its cut"
PREPARE_S = 3.0  # before the cut is due, its facts are read and noted
PREPARED_MAX_S = 5.0  # so old, they are read and noted once more
NOTE_S = 0.05  # that the watch waits for the note each time
# Before the first commits are answered nothing is at risk: a slow client or server gets
# longer before it is cut.
ANSWERS_MIN, ANSWERS_WAIT_S = 4, 15.0
SAMPLE_WAIT_S = 10.0  # for one more sample of who follows the writer


@dataclass(frozen=True, slots=True)
class _Prepared:
    """The server's facts, when they were asked for, and the note that the cut comes.

    before: None if they could not be read.  noted_us: when the note of that name was
    confirmed, None if none was left.
    """

    before: ServerFacts | None
    read_us: int
    name: str
    noted_us: int | None


class Cutter:
    """Cuts the power once its moment has come.

    load, following: set once they have begun, None before; a single server has no
            following.
    asked:  the switch was asked to cut, whatever the result.
    before, read_us: the server's facts just before that, and when they were asked for;
            None if they could not be read.
    canary_held, switched_us: see model.records.LoadRecord.
    due_us: when the cut was to come, on the client's clock; None before that is known.
    no_checkpoint: why there was none, if the cut was to come in its midst.
    checkpoint_us: see model.records.LoadRecord.
    failed: why a switch that was asked did not report its cut, "" if it did.
    noted_us: see model.records.LoadRecord.
    """

    def __init__(self, rig: Rig, started: Started) -> None:
        self._rig, self._started = rig, started
        manifest = started.manifest
        draw = random.Random(manifest.seed)
        self.after_s = draw.uniform(*manifest.workload.cut_after_s)
        self._into_s, self._into_task_s = 0.0, 0.0
        if manifest.moment is not None:
            self.after_s, self._into_s = manifest.moment.after_s, manifest.moment.into_s
            if manifest.moment.activity is Activity.HOLD:
                self._into_s = 0.0
            if manifest.moment.task is not None:
                self._into_task_s, self._into_s = self._into_s, 0.0
        self.load: Load | None = None
        self.following: FollowerWatch | None = None
        self._holding: Holding | None = None
        self.due_us: int | None = None
        self.no_checkpoint = ""
        self.checkpoint_us: tuple[int, int | None] | None = None
        if self._into_s and started.no_checkpoint:
            self.no_checkpoint, self._into_s = started.no_checkpoint, 0.0
        self.asked, self.failed = False, ""
        self._stored = False  # that it is asked for next
        self._waited = False  # for the witness; the sessions may yet be waiting
        self.cuts: Mapping[str, Cut] = {}
        self.switched_us: int | None = None
        self._sample_us: int | None = None  # since when one more sample is waited for
        self._preparing: Future[_Prepared] | None = None
        self._prepared_us: int | None = None  # when the newest facts were noted
        self._is_in_checkpoint = False  # its moment is not missed yet
        self.noted_us: dict[str, int] = {}
        self._begun = self._read_server_facts()
        self.before: ServerFacts | None = None
        self.read_us: int | None = None
        self.canary_held = True

    def note_clock(self) -> None:
        """Note on the witness how its clock goes with this one, if that will be needed.

        Raise WitnessError.
        """
        if self._started.manifest.own_clocks:
            self.noted_us[CLOCK_EVENT] = self._note_event(CLOCK_EVENT)

    def cut_if_due(self, load_s: float, behind_s: float, ack_us: int | None) -> None:
        """Cut the power if the load has run for its time and it is not cut yet.

        Not before the first commits were answered, nor while the load waits for the
        witness, or before an ack shows that it no longer does: nothing would be at
        risk.  Of a cluster, not before one more sample.  ack_us: when the last ack
        came.
        """
        if self.asked:
            if self.cut is not None and self.cut.by_hand:  # which may take minutes
                self._keep_prepared()
            return
        if load_s >= self.after_s - PREPARE_S:
            self._keep_prepared()
        if self._holding is None:  # once the sessions are held, no ack is young
            if not (self._is_due(load_s, behind_s, ack_us) and self._is_prepared()):
                return
            self._store_asked()
            if self._needs_follower_sample():
                return
        if self._allows_hold_cut():
            self._await_task()
            self._cut(load_s)

    def _is_due(self, load_s: float, behind_s: float, ack_us: int | None) -> bool:
        if load_s < self.after_s:
            return False
        if self.due_us is None:
            self.due_us = now_us() - int((load_s - self.after_s) * 1e6)
        if (
            self._is_idle(self.due_us)
            or self._is_lagging(behind_s, ack_us)
            or (behind_s > LATE_S and now_us() - self.due_us < BEHIND_S * 1e6)
        ):
            self._is_in_checkpoint = False  # its moment is missed
            return False
        if self._into_s:
            if not self._is_prepared():
                return False
            self._begin_checkpoint()
            self._is_in_checkpoint, self._preparing = True, self._prepare()
            self.due_us = now_us() + int(self._into_s * 1e6)
            self.after_s, self._into_s = load_s + self._into_s, 0.0
            return False
        return True

    def _store_asked(self) -> None:
        """Store, once, that the cut is asked for next; raise RunWriteError.

        From then on the power may be cut, whatever becomes of this client.
        """
        if not self._stored:
            self._started.run.write_cut_asked(CutAsked(now_us()))
            self._stored = True

    def _cut(self, load_s: float) -> None:
        self._rig.listener.phase(
            Phase.CUT, f"{self._rig.site.writer.power.kind.value}, {load_s:.1f} s"
        )
        held = self._started.held
        self.canary_held = held is None or held.is_held()
        if self._holding is not None:
            self._holding.note_asked()
        try:
            self.asked = True
            self.cuts = self._rig.site.cut()
        except PowerError as error:
            self.let_go()
            self.failed = str(error)
            if isinstance(error, PartlyCut):
                self.cuts = error.cuts
            raise
        except KeyboardInterrupt:
            self.let_go()
            self.failed = INTERRUPTED
            raise
        # A switch may report its cut before the power goes: the hold ends by itself.
        self.switched_us = now_us()

    def _allows_hold_cut(self) -> bool:
        """Return True once a hold, if one was drawn, allows the cut."""
        moment = self._started.manifest.moment
        if self.load is None or moment is None or moment.activity is not Activity.HOLD:
            return True
        if self._holding is None:
            canaries = self._started.canaries.get(self._rig.site.writer_name)
            reported_us = canaries.reported_us if canaries else lambda: None
            self._holding = Holding(self.load, moment, reported_us)
        return self._holding.may_ask()

    def let_go(self) -> None:
        """Resume sessions that are held, before the load is ended.  Idempotent."""
        if self._holding is not None:
            self._holding.end()

    @property
    def quiet_us(self) -> tuple[tuple[int, int], ...]:
        """See model.records.LoadRecord, once the sessions were let go."""
        return self._holding.quiet_us if self._holding is not None else ()

    def _is_idle(self, due_us: int) -> bool:
        """Return True while the load has too few answers to be cut.

        A load that sends nothing for too long is over, so one whose commits all wait
        for an answer is cut before that.
        """
        if self.load is None or self.load.answered() >= ANSWERS_MIN:
            return False
        moment_us = now_us()
        silent_us = moment_us - (self.load.newest_sent_us() or moment_us)
        if silent_us > self._rig.limits.silence_s / 2 * 1e6:
            return False
        return moment_us - due_us <= ANSWERS_WAIT_S * 1e6

    def _is_lagging(self, behind_s: float, ack_us: int | None) -> bool:
        """Return True while the load waits for the witness, or has not resumed."""
        if behind_s >= BEHIND_S:
            self._waited = True
            return True
        return self._waited and (ack_us is None or now_us() - ack_us > RESUMED_S * 1e6)

    def _needs_follower_sample(self) -> bool:
        """Return True until one more sample shows who follows the writer.

        Asked once all else is done, so that no sample is older than the switch takes.
        """
        if self.following is None:
            return False
        if self._sample_us is None:
            self._sample_us = now_us()
        if self.following.await_sample(self._sample_us):
            return False
        return now_us() - self._sample_us < SAMPLE_WAIT_S * 1e6

    def _await_task(self) -> None:
        """Wait for a task of the kind that was drawn, and for the time into it."""
        drawn, manifest = self._started.manifest.moment, self._started.manifest
        if self.load is None or drawn is None or drawn.task is None:
            return
        tasks = HousekeepingTasks(manifest.seed, manifest.workload.housekeeping)
        ends_s = time.monotonic() + TASK_WAIT_S
        while time.monotonic() < ends_s:
            number = self.load.task()
            if number and tasks.task(number).kind is drawn.task:
                time.sleep(self._into_task_s)
                self.due_us = now_us()
                return
            time.sleep(TASK_POLL_S)

    def check_canary_session(self) -> None:
        """Check again whether the canary's session is open, after a cut by hand.

        A hand takes minutes, in which that connection may break.  Only a server that
        fell silent can show that: one that ended closes it as well.
        """
        held = self._started.held
        if held is not None and self.cut is not None and self.cut.by_hand:
            self.canary_held = self.canary_held and held.is_held()

    def _keep_prepared(self) -> None:
        """Prepare the cut, and again if it has to wait; raise the error of preparing.

        While the sessions are held, or a hand is at the plug, only the facts are read.
        Not while a cut is to come within a checkpoint: it must not miss its moment.
        """
        self._take_prepared()
        if self._preparing is not None:
            return
        if self._prepared_us is not None:
            age_us = now_us() - self._prepared_us
            if self._is_in_checkpoint or age_us <= PREPARED_MAX_S * 1e6:
                return
        self._preparing = self._prepare()

    def _prepare(self) -> Future[_Prepared]:
        """Begin to ask for the facts, and to note on the witness that the cut comes.

        Both may take seconds on a busy host, by which the cut would miss its moment.
        """
        prepared: Future[_Prepared] = Future()
        notes = self._holding is None and not self.asked
        number = len([name for name in self.noted_us if name.startswith(CUT_EVENT)])
        # Each by a name of its own: one that is not confirmed must not count.
        name = f"{CUT_EVENT} {number + 1}" if number else CUT_EVENT

        def prepare() -> None:
            try:
                # A restart undoes what was set for a while: SET GLOBAL, ALTER SYSTEM
                # RESET.
                read_us = now_us()
                noted_us: int | None = None
                before = self._read_server_facts()
                if notes and not self.asked:  # the load may have ended meanwhile
                    noted_us = self._note_event(name)
                prepared.set_result(_Prepared(before, read_us, name, noted_us))
            except Exception as error:  # of whatever kind: the watch raises it
                prepared.set_exception(error)

        threading.Thread(target=prepare, name=CUT_EVENT, daemon=True).start()
        return prepared

    def _take_prepared(self, wait_s: float = 0.0) -> None:
        """Take the prepared facts and note once they are there; raise their error.

        Not in its thread: what that reads after the cut is of a recovered server.
        Facts that cannot be read once more leave those of before, which are dated.
        """
        if self._preparing is None:
            return
        wait([self._preparing], wait_s)
        if not self._preparing.done():
            return  # the witness lags: the watch is to see that
        done = self._preparing.result()
        self._preparing, self._prepared_us = None, done.noted_us or now_us()
        if done.noted_us is not None:
            self.noted_us[done.name] = done.noted_us
        if done.before is not None and not self._is_restarted_server(done.before):
            self.before, self.read_us = done.before, done.read_us

    def _is_restarted_server(self, facts: ServerFacts) -> bool:
        """Return True if the server of *facts* started after the load began."""
        return is_restarted(self._begun or self._started.manifest.writer.facts, facts)

    def _is_prepared(self) -> bool:
        """Return True if all is read and noted; raise the error of preparing."""
        if self._is_in_checkpoint:
            return True
        self._take_prepared(NOTE_S)
        return self._preparing is None and self._prepared_us is not None

    def _note_event(self, name: str) -> int:
        """Note that on the witness; return when it had confirmed it."""
        self._started.log.note({"event": name, "clock_us": now_us()})
        return now_us()

    def _begin_checkpoint(self) -> None:
        """Ask for a checkpoint and do not wait: the cut is to come during it."""

        asked_us = now_us()
        self.checkpoint_us = asked_us, None

        def ask() -> None:
            try:
                refused = self._rig.site.writer.engine.checkpoint()
            except EngineError as error:
                refused = str(error)
            if not refused:
                self.checkpoint_us = asked_us, now_us()
            elif not self.asked:  # else it ended with the server
                self.no_checkpoint = refused

        self._rig.listener.phase(Phase.CHECKPOINT, "asked for; the cut comes meanwhile")
        threading.Thread(target=ask, name="checkpoint", daemon=True).start()

    @property
    def cut(self) -> Cut | None:
        """The cut of the node that takes the load, None if it was not cut."""
        return self.cuts.get(self._rig.site.writer_name)

    @property
    def log(self) -> tuple[LogPosition, LogPosition] | None:
        """The positions of the server's log when the load began and before the cut."""
        begun, before = self._begun, self.before
        if begun is None or begun.log is None or before is None or before.log is None:
            return None
        return begun.log, before.log

    def _read_server_facts(self) -> ServerFacts | None:
        with contextlib.suppress(EngineError):
            return self._rig.site.writer.engine.facts()
        return None

    @property
    def overdue(self) -> bool:
        """Return True if an unattended cut has not stopped the server in its time."""
        if self.cut is None or self.cut.asked_us is None:
            return False
        return now_us() - self.cut.asked_us > self._rig.limits.cut_s * 1e6
