"""Has the copy of a run restored, and removed once it was read."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import replace

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import DbcheckError, EngineError, PowerError, UsageError
from dbcheck.cycle.rig import Rig
from dbcheck.cycle.volumes import read_volumes
from dbcheck.model.cut import PowerState
from dbcheck.ports.listener import Phase
from dbcheck.ports.site import Copying
from dbcheck.rows.copied import CopyRecord
from dbcheck.runs.folder import RunFolder


@contextlib.contextmanager
def restored_copy(rig: Rig, run: RunFolder) -> Iterator[Rig]:
    """Have the copy of *run* restored; give the rig that reads it; then remove it.

    It stays until its rows were read, as the run can be reconciled until then.  Raise
    EngineError if it cannot be restored, and UsageError if no copy was taken, or *rig*
    does not say how to restore one.
    """
    plan, copying = run.manifest().copy, rig.copying
    assert plan is not None
    record = run.copy() or CopyRecord()
    if not plan.is_after_loss and record.ended_us is None:
        raise UsageError(
            f"run {run.path.name} has no record here of a copy that was taken, so"
            " nothing can be restored",
            id=ErrorId.COPY_NOT_TAKEN,
            hint="Run dbcheck snapshot again.",
        )
    if copying is None:
        raise UsageError(
            f"how to restore what run {run.path.name} is to read is not known",
            id=ErrorId.RESTORE_NOT_SET_UP,
            hint="Name the host of the inventory with dbcheck_restore: --name NAME.",
        )
    if copying.until is not plan.until:
        taken = "a point was read" if plan.until else "no point was read"
        raise UsageError(
            f"run {run.path.name} cannot be restored as dbcheck_restore says now:"
            f" {taken} under its load",
            id=ErrorId.RESTORE_NOT_SET_UP,
            hint="Set until in dbcheck_restore as it was in that run.",
        )
    try:
        _restore(rig, run, record, copying)
        yield replace(rig, site=copying.restored, read_twice=False)
    finally:
        if run.was_read() or not copying.lasts:
            _remove(rig, run, copying)
        else:
            command = rig.reconcile_command(run.path)
            text = f"what was restored stays until its rows were read: {command}"
            rig.listener.phase(Phase.COPY, text)


def remove_unfinished_copy(rig: Rig, run: RunFolder, copying: Copying) -> None:
    """Have what is there of a copy removed that was begun, and not completed."""
    record = run.copy()
    if record is not None and record.ended_us is None:
        _remove(rig, run, copying)


def _restore(rig: Rig, run: RunFolder, record: CopyRecord, copying: Copying) -> None:
    """Have the copy restored; store how long that took, and if the lost server is off.

    Whether it is off is read now, as it could ship more until now.
    """
    rig.listener.phase(Phase.RESTORE, "the copy is restored by its program")
    began_s = time.monotonic()
    try:
        copying.programs.restore(run.manifest().run_id, record.point)
    except EngineError as error:
        if apart := read_volumes(rig, run):
            error.args = (f"{error}\nthe volumes are not of one moment: {apart}",)
        if copying.lasts:
            error.hint = f"{error.hint} Then: {rig.reconcile_command(run.path)}"
        raise
    took_s = time.monotonic() - began_s
    stayed_off = _has_stayed_off(rig, run) if rig.cuts_power else None
    run.write_copy(replace(record, restore_s=took_s, stayed_off=stayed_off))
    read_volumes(rig, run)
    rig.listener.phase(Phase.RESTORE, f"restored in {took_s:.1f} s")


def _has_stayed_off(rig: Rig, run: RunFolder) -> bool | None:
    """Return whether the lost server had no power since the cut; None if not known."""
    if run.restore() is not None:
        return False
    try:
        state = rig.site.state()
    except PowerError:
        state = PowerState.UNKNOWN
    if state is not PowerState.UNKNOWN:
        return state is PowerState.OFF
    return False if rig.site.writer.engine.ready() is None else None


def _remove(rig: Rig, run: RunFolder, copying: Copying) -> None:
    """Have the copy removed; show why if that fails, as the verdict stands."""
    try:
        copying.programs.remove(run.manifest().run_id)
    except DbcheckError as error:
        rig.listener.phase(Phase.COPY, f"NOT REMOVED: {error} {error.hint}")
