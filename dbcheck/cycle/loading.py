"""The load of one cycle: commits, cuts the power, sees the server go."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dbcheck.base import interrupt
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError, WitnessError
from dbcheck.base.system import now_us
from dbcheck.cycle.cutter import Cutter
from dbcheck.cycle.detaching import DetachingWatch, begin_detaching
from dbcheck.cycle.fault import FaultWatch
from dbcheck.cycle.host import end_canaries, read_client_clocks
from dbcheck.cycle.preflight.before_load import Started
from dbcheck.cycle.preflight.first_rows import WARM_ROWS
from dbcheck.cycle.rig import Rig
from dbcheck.cycle.watching import (
    DriveCounts,
    FollowerWatch,
    Watching,
    begin_counting,
    begin_following,
    format_csv,
    watch_hosts,
    watch_server,
)
from dbcheck.load.compiled import make_loop
from dbcheck.load.group import GroupResult, SessionGroup
from dbcheck.load.job import Job
from dbcheck.load.load import Load
from dbcheck.load.process import ProcessGroup
from dbcheck.load.readers import Readers
from dbcheck.load.sessions import Sessions, is_same_server
from dbcheck.model.cluster import Weakens
from dbcheck.model.cut import Gone, PowerScope
from dbcheck.model.host import ClientClocks
from dbcheck.model.records import LoadRecord, NodeAtTheCut
from dbcheck.model.unobserved import Observed
from dbcheck.model.witness import LOAD_EVENT, Json, WindowFacts
from dbcheck.ports.listener import Phase
from dbcheck.rows.acks import PREFLIGHT_SESSION
from dbcheck.rows.table import LEDGER
from dbcheck.runs import stored
from dbcheck.runs.client_key import ClientKey

ENDING = (
    "stopping the load; waiting up to a minute for the witness to confirm the last "
    "acks (Ctrl-C again stops waiting; confirmed acks are kept)"
)
FIRST_LOOK_S = 60.0  # the longest wait for the first looks, all together
POLL_S = 0.05  # between two looks at the load
SHOW_S = 0.25  # between two texts about the load


def load_until_cut(
    rig: Rig,
    started: Started,
    cutter: Cutter,
    gone: Callable[[], None] = lambda: None,
    fault: FaultWatch | None = None,
) -> LoadRecord:
    """Run the load until the server is gone; store and return its record.

    gone: called as soon as the server is gone.  fault: begun here, and not ended.

    Whatever ends the load, also an error or an interrupt, first every session and the
    log are closed and the record is stored, so that the run can be reconciled.  A
    second interrupt ends the waiting for the witness: acks that it has not confirmed by
    then are not claimed.  If further interrupts leave the result of a part of the
    sessions unknown, nothing is stored: a partial record would be wrong.
    """
    fault = fault or FaultWatch(rig, started, cutter.after_s)

    def watch(load: Load, drives: DriveCounts | None) -> None:
        _watch(rig, load, cutter, fault, drives)
        if load.gone is not Gone.NEVER:
            gone()

    silence_s = fault.extend(rig.limits.silence_s)
    record, load, failure = run_load(rig, started, cutter, watch, silence_s)
    if load.gone is not Gone.NEVER:
        return record
    require_logged(load, failure)
    # Of a group the others may go on without these sessions: what they have is read.
    if cutter.cut is None and not rig.site.kind.is_group:
        raise EngineError(
            "every session ended before the cut: "
            + ("; ".join(load.result.refusals) or "the server closed them"),
            id=ErrorId.ALL_SESSIONS_ENDED,
            hint="Nothing was cut. Fix what the server reports, then run again.",
        )
    return record


def require_logged(load: Load, failure: WitnessError | None) -> None:
    """Raise the error that kept acks of *load* from the witness, if there is one.

    failure: of the client's own log.
    """
    if error := load.result.witness_error or failure or load.result.close_error:
        raise error


def run_load(
    rig: Rig,
    started: Started,
    cutter: Cutter,
    watch: Callable[[Load, DriveCounts | None], None],
    silence_s: float,
) -> tuple[LoadRecord, Load, WitnessError | None]:
    """Run the load as long as *watch* does; end it, store its record.

    Return the record, the load, and the error of the client's own log.
    silence_s: without any reply for so long, the server is gone.  See load_until_cut().
    """
    load = Load(make_session_groups(rig, started), silence_s)
    cutter.load = load
    monitors = LoadMonitors(make_readers(rig, started))
    notice = ""
    try:
        rig.site.prepare(started.manifest.seed)
        rig.before_load()
        cutter.note_clock()
        monitors.drives = begin_counting(rig, started, load.acked)
        monitors.following = begin_following(rig, started.manifest.writer.facts)
        monitors.detaching = begin_detaching(rig, started.manifest)
        monitors.hosts = watch_hosts(rig, started)
        monitors.server = watch_server(rig, started)
        monitors.await_first_looks()
        cutter.following = monitors.following
        monitors.readers.begin()
        monitors.began = read_client_clocks()
        load.begin()
        if monitors.detaching is not None:
            monitors.detaching.begin()
        watch(load, monitors.drives.get(rig.site.writer_name))
    except KeyboardInterrupt:
        notice = ENDING
        raise
    finally:
        record, failure = _end_load(rig, started, load, monitors, cutter, notice)
    if load.result.failure is not None:
        raise load.result.failure
    return record, load, failure


@dataclass(slots=True)
class LoadMonitors:
    """Monitors of server, hosts, drives and followers while the load runs.

    drives: the counts of each node's drives, by the node's name.
    following: asks the writer for its followers; None for a single server.
    detaching: keeps a control's commits from them; None where nothing has to.
    began:  the client's clocks just before the first commit, None if it never came.
    hosts:  what looks at each node's host, by the node's name.
    server: what looks at the writer.
    """

    readers: Readers
    drives: Mapping[str, DriveCounts] = field(default_factory=dict)
    following: FollowerWatch | None = None
    detaching: DetachingWatch | None = None
    began: ClientClocks | None = None
    hosts: Mapping[str, Watching] = field(default_factory=dict)
    server: Watching | None = None

    @property
    def _watching(self) -> list[Watching]:
        return [*self.hosts.values(), *filter(None, (self.server,))]

    def await_first_looks(self) -> None:
        """Wait until each server and host was looked at, or could not be.

        A busy host takes long.  One that hangs is awaited for FIRST_LOOK_S alone: the
        judge then finds that nothing was looked at.
        """
        until_s = time.monotonic() + FIRST_LOOK_S
        for watching in self._watching:
            watching.await_first(until_s)

    def end_counting(self) -> None:
        """End the counting, the questions and the looks; idempotent."""
        for counts in self.drives.values():
            counts.end()
        if self.detaching is not None:
            self.detaching.end()
        if self.following is not None:
            self.following.end()
        for watching in self._watching:
            watching.end()


def make_session_groups(rig: Rig, started: Started) -> list[SessionGroup]:
    """Return the sessions: in a thread here, in processes here, or on Dask workers."""
    manifest = started.manifest
    workload = manifest.workload
    sessions = Sessions(
        rig.site.writer.engine,
        manifest.writer.facts,
        started.plan,
        Weakens.for_promise(manifest.promise) if manifest.control else None,
        workload.sessions,
        rate=workload.rate,
        ramp_s=workload.ramp_s,
        # Some tasks flush the log whatever the session's setting is.
        has_housekeeping=bool(workload.housekeeping) and not manifest.control,
    )
    if manifest.ack_logs == 1:
        return [make_loop(sessions, started.log)]
    run_id, numbers = manifest.run_id, range(1, manifest.ack_logs)
    parts = zip(numbers, sessions.split(len(numbers)), strict=True)
    if rig.far is not None:
        far_jobs = [Job(part, rig.witness, run_id, number) for number, part in parts]
        return rig.far.loading(rig.site.writer_name).groups(far_jobs)
    shared = rig.witness.share(run_id, numbers)
    return [
        ProcessGroup(Job(part, None, run_id, number), log)
        for (number, part), log in zip(parts, shared, strict=True)
    ]


def make_readers(rig: Rig, started: Started) -> Readers:
    """Return the readers of the newest rows; none unless the run asks for them."""
    manifest = started.manifest
    if not manifest.seen_log:
        return Readers(0)
    engine, server = rig.site.writer.engine, manifest.writer.facts
    return Readers(
        manifest.workload.readers,
        lambda: engine.open_newest(LEDGER, manifest.epoch, server=server),
        lambda: rig.witness.join(manifest.run_id, manifest.ack_logs),
        after_id=manifest.tables[LEDGER.name].row_id_max,
        sessions=manifest.workload.sessions,
    )


def _find_stall(rig: Rig, started: Started) -> Gone:
    """Return STALLED if the server that was silent answers by now, else SILENT."""
    engine = rig.site.writer.engine
    with contextlib.suppress(EngineError):
        facts = started.manifest.writer.facts
        if engine.ready() is None and is_same_server(engine, facts):
            return Gone.STALLED
    return Gone.SILENT


class LoadView:
    """Shows how a load goes, a few times a second."""

    def __init__(self, rig: Rig, load: Load, drives: DriveCounts | None) -> None:
        self._rig, self._load, self._drives = rig, load, drives
        self._shown_s = 0.0

    def show(self, due_s: float | None = None) -> None:
        """Show the load, if that is due.

        due_s: after how many seconds of the load the cut comes; None if none comes.
        """
        if (moment_s := time.monotonic()) - self._shown_s < SHOW_S:
            return
        self._shown_s = moment_s
        work = self._drives.newest if self._drives is not None else None
        status = replace(self._load.status(), drives=work)
        if due_s is not None:
            status = replace(status, cut_in_s=max(0.0, due_s - status.seconds))
        self._rig.listener.load(status)


def _watch(
    rig: Rig,
    load: Load,
    cutter: Cutter,
    fault: FaultWatch,
    drives: DriveCounts | None,
) -> None:
    """Show how the load goes, and have it cut; return once the server is gone."""
    rig.listener.phase(Phase.LOAD, f"the cut comes after {cutter.after_s:.1f} s")
    view = LoadView(rig, load, drives)
    while not load.poll() and not cutter.overdue:
        interrupt.raise_if_interrupted()
        view.show(cutter.after_s)
        load_s = (now_us() - load.began_us) / 1e6
        if fault.allows_cut(load_s):
            cutter.cut_if_due(load_s, load.behind_s(), load.last_ack_us())
        time.sleep(POLL_S)
    rig.listener.load(load.status())
    lasting = "; ".join(["it still answers", *load.result.refusals])
    rig.listener.phase(Phase.GONE, describe_loss_of_server(rig, load) or lasting)


def describe_loss_of_server(rig: Rig, load: Load) -> str:
    """Return how *load* saw the server go, "" if it did not."""
    texts = {
        Gone.BROKEN: "every connection broke",
        Gone.SILENT: f"no reply for {rig.limits.silence_s:g} s",
    }
    return texts.get(load.gone, "")


def _end_load(
    rig: Rig,
    started: Started,
    load: Load,
    monitors: LoadMonitors,
    cutter: Cutter,
    notice: str,
) -> tuple[LoadRecord, WitnessError | None]:
    """End the load and the log; store and return the record, and the witness's error.

    notice: the text to show first, "" unless an interrupt ended the load.  An interrupt
    ends the waiting.
    """
    try:
        if notice:
            rig.listener.phase(Phase.INTERRUPT, notice)
        cutter.let_go()
        load.end()
        monitors.end_counting()
        if why := monitors.readers.end():
            rig.listener.phase(Phase.READERS, why)
        if load.gone is Gone.SILENT:
            cutter.check_canary_session()
        end_canaries(rig.site, started.canaries)
        if load.gone is Gone.SILENT:
            load.gone = _find_stall(rig, started)
    except KeyboardInterrupt:
        started.log.abandon()
        load.end(wait_s=0)
        monitors.end_counting()
        monitors.readers.abandon()
        raise
    finally:
        # What ended the load left it no time to see the server go.
        failed = notice or load.result.witness_error or cutter.failed
        if failed and cutter.asked and load.gone is Gone.NEVER:
            load.gone = Gone.UNSEEN
        record_and_failure = _store_load(started, load, monitors, cutter)
    return record_and_failure


def _store_load(
    started: Started, load: Load, monitors: LoadMonitors, cutter: Cutter
) -> tuple[LoadRecord, WitnessError | None]:
    record = replace(
        _make_load_record(started, load, monitors, cutter),
        seen=monitors.readers.seen,
        seen_watermark=monitors.readers.watermark,
    )
    # If the result of a part of the sessions was lost, what that part sent is not
    # known.  A record without it would call the part's rows foreign.  So no record is
    # stored, and the run is judged as if this client were lost.
    try:
        failure = _close_log(started, record if load.is_whole else None)
    finally:
        watermark, window = started.log.watermark(), started.log.window()
        own, *others = record.observed or ()
        record = replace(
            record,
            observed=(own.with_gaps(started.log.new_gaps()), *others),
            watermarks=(watermark, *record.watermarks[1:]),
            windows=(window, *record.windows[1:]),
        )
        if load.is_whole:
            started.run.write_load(record)
        if monitors.drives:
            lines = format_csv(monitors.drives, load.began_us)
            started.run.write_lines("drives.csv", lines)
    return record, failure


def _close_log(started: Started, record: LoadRecord | None) -> WitnessError | None:
    """Leave the record with the witness, in case this client is lost; close the log."""
    failure: WitnessError | None = None
    try:
        if record is not None:
            started.log.note(seal_load(started.run.key(), record))
    except WitnessError as error:
        failure = error
    except KeyboardInterrupt:
        started.log.abandon()
        with contextlib.suppress(WitnessError):
            started.log.close()
        raise
    try:
        started.log.close()
    except WitnessError as error:
        failure = failure or error
    return failure


def seal_load(key: ClientKey | None, record: LoadRecord) -> Json:
    """Return the event that leaves *record* on the witness, sealed with *key*."""
    content = stored.to_bytes(record)
    event = {"event": LOAD_EVENT, "load": content.decode()}
    return event if key is None else {**event, "seal": key.seal(content)}


def _make_load_record(
    started: Started, load: Load, monitors: LoadMonitors, cutter: Cutter
) -> LoadRecord:
    warm = {PREFLIGHT_SESSION: WARM_ROWS}
    nodes = started.manifest.nodes
    last_us = load.last_ack_us()
    result = load.result
    parts = load.results if started.manifest.ack_logs > 1 else []
    acked = sum(result.acked.values())
    loaded_us = (last_us or load.began_us) - load.began_us
    return LoadRecord(
        sent=warm | result.sent,
        acked=warm | result.acked,
        began_us=load.began_us,
        last_ack_us=last_us,
        gone=load.gone,
        gone_us=None if load.gone is Gone.NEVER else load.gone_us,
        in_flight=load.in_flight,
        rate=acked / (loaded_us / 1e6) if loaded_us else 0.0,
        latency_ms=load.latency_ms(),
        watermarks=(started.log.watermark(), *(part.watermark for part in parts)),
        windows=(
            started.log.window(),
            *(part.window or WindowFacts(0, 0.0) for part in parts),
        ),
        refusals=tuple(result.refusals),
        farewells=tuple(load.farewells),
        nodes={name: _describe_node(started, monitors, cutter, name) for name in nodes},
        settings=cutter.before.settings if cutter.before else None,
        settings_us=cutter.read_us,
        log=cutter.log,
        canary_held=cutter.canary_held,
        switched_us=cutter.switched_us,
        due_us=cutter.due_us,
        quiet_us=cutter.quiet_us,
        no_checkpoint=cutter.no_checkpoint,
        checkpoint_us=cutter.checkpoint_us,
        cut_failed=cutter.failed,
        lost_early=tuple(load.lost_early),
        task_at_end=load.task_at_end,
        noted_us=cutter.noted_us,
        warned=result.warned,
        warnings=tuple(result.warnings),
        replication=monitors.following.seen() if monitors.following else None,
        watched=monitors.server.seen() if monitors.server else None,
        observed=_list_observed(load, parts),
        sessions_watched=result.watched,
        replaced=result.replaced,
        clocks=None
        if monitors.began is None
        else (monitors.began, read_client_clocks()),
    )


def _list_observed(load: Load, parts: Sequence[GroupResult]) -> tuple[Observed, ...]:
    """Return the observed acks of each log; log 0 has none if the load has parts."""
    own = load.results[0].observed if load.results and not parts else Observed()
    return (own, *(part.observed for part in parts))


def _describe_node(
    started: Started, monitors: LoadMonitors, cutter: Cutter, name: str
) -> NodeAtTheCut:
    """Return the facts of the node *name* at the cut."""
    cut, canaries = cutter.cuts.get(name), started.canaries.get(name)
    counts, watching = monitors.drives.get(name), monitors.hosts.get(name)
    if canaries is None:
        return NodeAtTheCut(cut, host_lived=False)
    scope = started.manifest.nodes[name].scope
    completed, *elsewhere = canaries.completed(host_kept=scope is PowerScope.DRIVE)
    return NodeAtTheCut(
        cut,
        completed,
        tuple(elsewhere),
        canaries.data.heard_us(),
        # The host of a lab keeps running.
        host_lived=not started.manifest.lab and canaries.answered(),
        drives=counts.whole if counts is not None else None,
        host_watched=watching.seen() if watching is not None else None,
    )
