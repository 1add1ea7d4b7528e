"""A fault beside the load, which the user's own programs begin and end.

A record is stored before it begins.  So whoever finishes the run ends the fault, if the
client that began it could not: nothing is worse than one that stays on a network.
"""

from __future__ import annotations

import random
import threading
from dataclasses import replace

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import DbcheckError, EngineError, UsageError
from dbcheck.base.system import now_us
from dbcheck.cycle.preflight.before_load import Started
from dbcheck.cycle.rig import Rig
from dbcheck.model.cut import FaultRecord
from dbcheck.ports.listener import Phase
from dbcheck.ports.site import FaultPrograms
from dbcheck.runs.folder import RunFolder, reconcile_command

# How long before the cut it begins at most, as a share of the time until that.  Short
# times are drawn more often: where commits wait in the fault, nothing is at risk later.
_LASTS_MAX = 0.6


class FaultWatch:
    """The fault of one cycle; a rig without programs for it has none.

    It begins at a moment that the seed draws, and the cut waits until its program has
    ended.
    """

    def __init__(self, rig: Rig, started: Started, cut_after_s: float) -> None:
        """cut_after_s: of the load, as it is planned."""
        manifest = started.manifest
        self._rig, self._run, self._programs = rig, started.run, rig.fault
        draw = random.Random(f"fault {manifest.seed}")
        self._lasts_s = draw.random() ** 2 * _LASTS_MAX * cut_after_s
        self._begins_s = cut_after_s - self._lasts_s
        self._node = manifest.writer_name
        self._record: FaultRecord | None = None
        self._begun: threading.Thread | None = None
        self._failure: DbcheckError | None = None

    def extend(self, silence_s: float) -> float:
        """Return after how long a silence the server is gone: commits may wait."""
        return silence_s if self._programs is None else silence_s + self._lasts_s

    def allows_cut(self, load_s: float) -> bool:
        """Begin the fault once it is due; return True once the cut may come.

        Raise EngineError if it could not begin, RunWriteError if nothing is stored.
        """
        if self._programs is None:
            return True
        if self._begun is None:
            if load_s >= self._begins_s:
                self._begin(self._programs)
            return False
        if self._begun.is_alive():
            return False
        if self._failure is not None:
            raise self._failure
        return True

    def end(self) -> None:
        """End the fault if one was begun and is still there; never raises.

        Its beginning is waited for.
        """
        if self._begun is not None:
            self._begun.join()
        if self._programs is None or self._record is None or self._record.is_over:
            return
        try:
            self._record = _end(self._programs, self._run, self._record)
        except DbcheckError as error:
            self._record = replace(self._record, end_failure=str(error))
            self._say(f"{self._node}: STILL THERE: {error}")
            self._store_quietly(self._record)
            return
        self._say(f"{self._node}: ended")

    def _begin(self, programs: FaultPrograms) -> None:
        self._record = FaultRecord(self._node, now_us())
        self._run.write_fault(self._record)
        self._say(f"{self._node}: begins")
        self._begun = threading.Thread(
            target=self._run_begin, args=(programs, self._record), name="fault"
        )
        self._begun.start()

    def _run_begin(self, programs: FaultPrograms, record: FaultRecord) -> None:
        try:
            programs.begin(self._node)
            self._record = replace(record, began_us=now_us())
        except DbcheckError as error:
            self._failure = error
            self._record = replace(record, failure=str(error))
        self._store_quietly(self._record)

    def _store_quietly(self, record: FaultRecord) -> None:
        try:
            self._run.write_fault(record)
        except DbcheckError as error:
            self._say(f"not stored: {error}")

    def _say(self, text: str) -> None:
        self._rig.listener.phase(Phase.FAULT, text)


def end_fault_left(rig: Rig, run: RunFolder) -> None:
    """End the fault that the client of *run* began and did not end.

    Raise UsageError if the rig has no program that ends it, EngineError if it fails.
    """
    record = run.fault()
    if record is None or record.is_over:
        return
    if rig.fault is None or record.node not in rig.site.nodes:
        raise UsageError(
            f"run {run.path.name} may have begun a fault of {record.node}, and there is"
            " no record that it ended",
            id=ErrorId.FAULT_NOT_ENDED,
            hint="Name the host or group, so that its dbcheck_fault_end is known, which"
            f" runs first: {reconcile_command(run.path, ('--name', 'NAME'))}",
        )
    rig.listener.phase(Phase.FAULT, f"{record.node}: it may still be there; ending it")
    _end(rig.fault, run, record)


def require_fault_ended(rig: Rig, run: RunFolder) -> None:
    """Raise EngineError if the fault of *run* is still there."""
    record = run.fault()
    if record is not None and not record.is_over:
        raise EngineError(
            f"the fault of {record.node} is still there:"
            f" {record.end_failure or 'it was not ended'}",
            id=ErrorId.FAULT_NOT_ENDED,
            hint="End it by hand now, or mend what keeps dbcheck_fault_end from it;"
            f" then run it again: {rig.reconcile_command(run.path)}",
        )


def _end(programs: FaultPrograms, run: RunFolder, record: FaultRecord) -> FaultRecord:
    """End the fault; return its record, which is stored.  Raise DbcheckError."""
    programs.end(record.node)
    ended = replace(record, ended_us=now_us(), end_failure="")
    run.write_fault(ended)
    return ended
