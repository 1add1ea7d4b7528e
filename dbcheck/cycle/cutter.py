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

CLOCK_EVENT = "clock"  # the event that is noted before a load on other machines
# A witness that is so late may be about to stop: the cut waits for it, up to BEHIND_S.
LATE_S = 0.5
# An ack that is younger shows that a load which had to wait has resumed.
RESUMED_S = 0.5
# Tasks of any kind come several times a second; a cut does not wait for one for long.
TASK_WAIT_S, TASK_POLL_S = 3.0, 0.0005
INTERRUPTED = "dbcheck was interrupted before the switch had reported its cut"
# So long before the cut is due, the server's facts are read and the cut is noted.
PREPARE_S = 3.0
PREPARED_MAX_S = 5.0  # older facts are read, and the cut is noted, once more
PREPARED_WAIT_S = 0.05  # how long each look at a due cut waits for its facts and note
# Before the first commits are answered nothing is at risk: a slow client or server gets
# longer before it is cut.
ANSWERS_MIN, ANSWERS_WAIT_S = 4, 15.0
SAMPLE_WAIT_S = 10.0  # the longest wait for one more sample of the writer's followers


@dataclass(frozen=True, slots=True)
class _Prepared:
    """The server's facts, when they were asked for, and the note that the cut comes.

    facts: None if they could not be read.  name: of the note.  noted_us: when the
    witness had confirmed the note, None if none was sent.
    """

    facts: ServerFacts | None
    read_us: int
    name: str
    noted_us: int | None


class Cutter:
    """Cuts the power once its moment has come.

    load, following: set once they have begun, None before; a single server has no
            following.
    asked:  the switch was asked to cut, whatever the result.
    before, read_us: the server's facts just before the cut, and when they were asked
            for; None if they could not be read.
    canary_held, switched_us, noted_us, checkpoint_us: as in model.records.LoadRecord.
    due_us: when the cut was to come, on the client's clock; None before that is known.
    no_checkpoint: why there was no checkpoint although the cut was to come during one,
            "" otherwise.
    failed: why a switch that was asked did not report its cut, "" if it did.
    """

    def __init__(self, rig: Rig, started: Started) -> None:
        self._rig, self._started = rig, started
        manifest = started.manifest
        draw = random.Random(manifest.seed)
        self.after_s = draw.uniform(*manifest.workload.cut_after_s)
        if manifest.copy is not None:  # only older commits than that must be there
            self.after_s += manifest.copy.rpo_s or 0.0
        # Seconds from a checkpoint's request, and from a task's beginning, to the cut.
        # A hold waits by itself, see Hold.
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
        self._is_asked_stored = False  # whether CutAsked is in the run's folder
        # Whether the load had to wait for the witness; its sessions may be waiting yet.
        self._had_to_wait = False
        self.cuts: Mapping[str, Cut] = {}
        self.switched_us: int | None = None
        self._sample_us: int | None = None  # since when one more sample is waited for
        self._preparing: Future[_Prepared] | None = None
        self._prepared_us: int | None = None  # when the newest facts were noted
        # Whether a checkpoint was asked for, and the cut during it is not missed yet.
        self._is_in_checkpoint = False
        self.noted_us: dict[str, int] = {}
        self._facts_at_start = self._read_server_facts()
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

        The cut waits until the first commits were answered, and as long as the load
        waits for the witness or no ack shows that it has resumed: nothing would be at
        risk.  The cut of a cluster also waits for one more sample of the followers.
        behind_s: how late the witness is.  ack_us: when the last ack came.
        """
        if self.asked:
            # A cut by hand may take minutes.
            if self.cut is not None and self.cut.by_hand:
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
        if self._is_hold_ready():
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
            self._is_in_checkpoint = False  # the cut during the checkpoint is missed
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
        if not self._is_asked_stored:
            self._started.run.write_cut_asked(CutAsked(now_us()))
            self._is_asked_stored = True

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

    def _is_hold_ready(self) -> bool:
        """Return True once the hold allows the cut, or if no hold was drawn."""
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
        """The quiet_us of a LoadRecord, once the sessions were let go."""
        return self._holding.quiet_us if self._holding is not None else ()

    def _is_idle(self, due_us: int) -> bool:
        """Return True while the load has too few answers to be cut.

        A load that sends nothing for too long is over.  So a load whose commits all
        wait for an answer is cut before that.
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
            self._had_to_wait = True
            return True
        return self._had_to_wait and (
            ack_us is None or now_us() - ack_us > RESUMED_S * 1e6
        )

    def _needs_follower_sample(self) -> bool:
        """Return True until one more sample shows who follows the writer.

        This is asked after all other conditions of the cut, so that the sample is no
        older at the cut than the switch takes.
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

        A hand takes minutes, in which the session's connection may break.  Only a
        server that fell silent shows whether it did: a server that ended closes the
        connection as well.
        """
        held = self._started.held
        if held is not None and self.cut is not None and self.cut.by_hand:
            self.canary_held = self.canary_held and held.is_held()

    def _keep_prepared(self) -> None:
        """Prepare the cut, and again if it has to wait; raise the error of preparing.

        While the sessions are held, or a hand is at the plug, only the facts are read.
        A cut that is to come during a checkpoint is not prepared again: it must not
        miss its moment.
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

        Both may take seconds on a busy host.  A cut that waited for them would miss its
        moment, so a thread does them.
        """
        prepared: Future[_Prepared] = Future()
        notes = self._holding is None and not self.asked
        number = len([name for name in self.noted_us if name.startswith(CUT_EVENT)])
        # Each note has its own name, so that a note that is not confirmed cannot count.
        name = f"{CUT_EVENT} {number + 1}" if number else CUT_EVENT

        def prepare() -> None:
            try:
                # The facts are read before the cut: a restart undoes SET GLOBAL, and
                # puts an ALTER SYSTEM RESET into effect.
                read_us = now_us()
                noted_us: int | None = None
                facts = self._read_server_facts()
                if notes and not self.asked:  # the load may have ended meanwhile
                    noted_us = self._note_event(name)
                prepared.set_result(_Prepared(facts, read_us, name, noted_us))
            except Exception as error:  # the thread that looks for the cut raises it
                prepared.set_exception(error)

        threading.Thread(target=prepare, name=CUT_EVENT, daemon=True).start()
        return prepared

    def _take_prepared(self, wait_s: float = 0.0) -> None:
        """Take the prepared facts and note once they are there; raise their error.

        The thread of _prepare() does not store them: the facts that it reads after the
        cut may be those of a recovered server.  If the facts cannot be read this time,
        the earlier facts stay; read_us says when they were asked for.
        """
        if self._preparing is None:
            return
        wait([self._preparing], wait_s)
        if not self._preparing.done():
            return  # the next look judges whether the witness lags
        done = self._preparing.result()
        self._preparing, self._prepared_us = None, done.noted_us or now_us()
        if done.noted_us is not None:
            self.noted_us[done.name] = done.noted_us
        if done.facts is not None and not self._is_restarted_server(done.facts):
            self.before, self.read_us = done.facts, done.read_us

    def _is_restarted_server(self, facts: ServerFacts) -> bool:
        """Return True if the server of *facts* started after the load began."""
        return is_restarted(
            self._facts_at_start or self._started.manifest.writer.facts, facts
        )

    def _is_prepared(self) -> bool:
        """Return True if all is read and noted; raise the error of preparing."""
        if self._is_in_checkpoint:
            return True
        self._take_prepared(PREPARED_WAIT_S)
        return self._preparing is None and self._prepared_us is not None

    def _note_event(self, name: str) -> int:
        """Note the event *name* on the witness; return when it had confirmed that."""
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
            elif not self.asked:  # after the cut the checkpoint ends with the server
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
        first, before = self._facts_at_start, self.before
        if first is None or first.log is None or before is None or before.log is None:
            return None
        return first.log, before.log

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
