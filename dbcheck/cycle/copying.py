"""A cycle in which the server is copied under load, and its restored copy is read.

No power is cut.  Commits that were acknowledged before the program of the copy was
started must be in the copy; commits that were sent after it had ended cannot be.  In
the place of a copy a point of the server's log can be read, to which its archive is
restored: the same holds for the time that the reading took.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import replace

from dbcheck.base import interrupt
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError, UsageError
from dbcheck.base.points import PointKind, name_restore_point
from dbcheck.base.system import now_us
from dbcheck.cycle.cutter import Cutter
from dbcheck.cycle.fetching import fetch_logs
from dbcheck.cycle.loading import (
    POLL_S,
    LoadView,
    describe_loss_of_server,
    require_logged,
    run_load,
)
from dbcheck.cycle.outcome import Outcome
from dbcheck.cycle.preflight.before_load import Started, run_preflight
from dbcheck.cycle.preflight.pending_runs import require_none_on_witness
from dbcheck.cycle.reconciling import read_and_judge
from dbcheck.cycle.restored import remove_unfinished_copy, restored_copy
from dbcheck.cycle.rig import Rig
from dbcheck.cycle.volumes import WatchedVolumes, watched_volumes
from dbcheck.cycle.watching import DriveCounts
from dbcheck.load.load import Load
from dbcheck.ports.listener import Phase
from dbcheck.ports.site import Copying
from dbcheck.rows.copied import CopyRecord
from dbcheck.rows.workload import PlanKind, Workload

# Two more commits of each session are awaited, and no longer than this: the second one
# was sent after the copy was taken, as the first was answered after it.
_AFTER_S = 30.0
_AFTER_EACH = 2
_PLANS = (PlanKind.INSERT, PlanKind.CLASSIC)


def require_copyable(workload: Workload) -> None:
    """Raise UsageError for a workload that cannot be judged on a copy.

    Rows that later operations change show only the newest of them, and a copy ends at a
    moment that is not known exactly.
    """
    if workload.plan in _PLANS and not workload.housekeeping:
        return
    raise UsageError(
        f"the workload {workload.name} cannot be judged on a copy: its operations"
        " change rows, or create and drop tables",
        id=ErrorId.WORKLOAD_NOT_FOR_COPY,
        hint="Use a workload that only inserts, as insert: --workload insert.",
    )


def run_copied_cycle(
    rig: Rig, workload: Workload, seed: int, rows_max: int | None = None
) -> Outcome:
    """Run one cycle on *rig*, which copies the server; return its verdict.

    rows_max: the most commits that the load may make before the copy is complete.
    Raise UsageError for a workload that cannot be judged on a copy, EngineError if no
    copy was taken, or if it could not be restored: the run can then be reconciled.
    """
    require_copyable(workload)
    assert rig.copying is not None
    require_none_on_witness(rig)
    with contextlib.ExitStack() as watching:
        volumes = watching.enter_context(watched_volumes(rig))
        started = run_preflight(rig, workload, seed)
        run, manifest = started.run, started.manifest
        with run.locked():
            try:
                load_while_copied(rig, started, rig.copying, volumes, rows_max)
            finally:
                watching.close()
                if started.held is not None:
                    started.held.close()
                remove_unfinished_copy(rig, run, rig.copying)
            fetched = fetch_logs(rig, run, manifest)
            with restored_copy(rig, run) as restored:
                return read_and_judge(restored, run, manifest, fetched)


def load_while_copied(
    rig: Rig,
    started: Started,
    copying: Copying,
    volumes: WatchedVolumes,
    rows_max: int | None = None,
) -> None:
    """Run the load, and have a copy taken meanwhile; store the records of both.

    Raise EngineError if no copy could be taken, if the server went meanwhile, or if the
    load made *rows_max* commits: there is nothing to restore then.
    """
    cutter = Cutter(rig, started)

    def watch(load: Load, drives: DriveCounts | None) -> None:
        copier = _Copier(rig, started, load, drives, volumes, rows_max)
        copier.copy(copying, cutter.after_s)

    _, load, failure = run_load(rig, started, cutter, watch, rig.limits.silence_s)
    require_logged(load, failure)


class _Copier:
    """Has a copy taken while a load goes on."""

    def __init__(
        self,
        rig: Rig,
        started: Started,
        load: Load,
        drives: DriveCounts | None,
        volumes: WatchedVolumes,
        rows_max: int | None,
    ) -> None:
        self._volumes = volumes
        self._rig, self._run, self._load = rig, started.run, load
        self._sessions = started.manifest.workload.sessions
        self._view = LoadView(rig, load, drives)
        self._rows_max = rows_max

    def copy(self, copying: Copying, after_s: float) -> None:
        """Take the copy after *after_s* seconds of the load; then await commits."""
        begins = "the copy begins" if copying.until is None else "the point is read"
        self._say(f"{begins} after {after_s:.1f} s", Phase.LOAD)
        while (now_us() - self._load.began_us) / 1e6 < after_s:
            self._look()
            time.sleep(POLL_S)
        if copying.until is None:
            self._take(copying)
        else:
            self._read_point(copying.until)
        self._await_commits()

    def _take(self, copying: Copying) -> None:
        """Have the copy taken; store when."""
        written = self._volumes.begin()
        record = CopyRecord(now_us(), volumes=written)
        self._run.write_copy(record)
        self._say("its program runs, and the load goes on")
        copying.programs.take(self._run.manifest().run_id, self._look)
        ended_us = now_us()
        written = self._volumes.end(written)
        record = replace(record, ended_us=ended_us, volumes=written)
        self._run.write_copy(record)
        self._say(f"taken in {record.taken_s:.1f} s; the load goes on a little")

    def _read_point(self, kind: PointKind) -> None:
        """Read the point of the log that is now; store it, and when."""
        manifest, engine = self._run.manifest(), self._rig.site.writer.engine
        name = name_restore_point(manifest.run_id)
        read = engine.read_point(kind, name, server=manifest.writer.facts)
        self._run.write_copy(CopyRecord(read.began_us, read.ended_us, point=read.point))
        took_ms = (read.ended_us - read.began_us) / 1e3
        text = f"{kind.value} {read.point.value}, read in {took_ms:.1f} ms"
        self._say(f"{text}; the load goes on a little")

    def _await_commits(self) -> None:
        """Wait until commits were answered that were sent after the copy was taken.

        The copy is whole, also if the server goes meanwhile.
        """
        wanted = self._load.acked() + _AFTER_EACH * self._sessions
        ends_s = time.monotonic() + _AFTER_S
        while self._load.acked() < wanted and time.monotonic() < ends_s:
            if self._is_over():
                break
            time.sleep(POLL_S)

    def _is_over(self) -> bool:
        """Show the load; return True if it is over."""
        interrupt.raise_if_interrupted()
        self._view.show()
        return self._load.poll()

    def _look(self) -> None:
        """Show the load; raise EngineError if it is over, or has grown too large."""
        most = self._rows_max
        if most is not None and self._load.acked() >= most:
            raise EngineError(
                f"the load wrote {self._load.acked():,} rows before the copy was"
                f" complete, and --rows-max is {most:,}",
                id=ErrorId.COPY_ROWS_EXCEEDED,
                hint="Choose a lower --rate, so that the load lasts as long as the copy"
                " takes, or allow more rows.",
            )
        if not self._is_over():
            return
        why = "; ".join(self._load.result.refusals)
        why = why or describe_loss_of_server(self._rig, self._load)
        raise EngineError(
            "the load ended before the copy was taken:"
            f" {why or 'the server closed the sessions'}",
            id=ErrorId.ALL_SESSIONS_ENDED,
            hint="There is nothing to restore. See the server's log: taking a copy must"
            " not stop it. Then run it again.",
        )

    def _say(self, text: str, phase: Phase = Phase.COPY) -> None:
        self._rig.listener.phase(phase, text)
