"""Judges by canaries if copies of several volumes are of one moment.

One increasing number was written to a file on each volume in turn, each flushed before
the next was written (agent/host/volumes.py).  So at each moment the volumes have all
numbers from 1 to the newest; the one that was being written may be there, or torn, as
if it were not.  A number that is missing although a later one is there was on its
volume before the later one was begun: its volume was copied earlier.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from dbcheck.judge.case import Case
from dbcheck.judge.item import Item, ItemId, Status
from dbcheck.model.verdict import format_count
from dbcheck.rows.copied import VolumeNumbers, VolumesRecord

_UNSEEN_S = 1.0  # more is no evidence: copies so far apart may not be seen to be
_STEPS_MIN = 20  # before the copy: so many show that they are written at all


def find_numbers(found: Mapping[str, Sequence[range]]) -> VolumeNumbers:
    """Find up to which number the copies of volumes have all, and the newest of each.

    found: of each folder the numbers in it, in any order.
    """
    parts = [
        np.arange(run.start, run.stop, run.step)
        for runs in found.values()
        for run in runs
    ]
    numbers = np.unique(np.concatenate([np.zeros(1, int), *parts]))
    gaps = np.flatnonzero(numbers != np.arange(numbers.size))
    until = int(gaps[0]) - 1 if gaps.size else int(numbers[-1])
    newest = {
        folder: max((max(run, default=0) for run in runs), default=0)
        for folder, runs in found.items()
    }
    return VolumeNumbers(until, newest)


def judge_volumes(case: Case) -> Item | None:
    """Judge whether the volumes were copied at one moment; None if that is not asked.

    A server may recover from volumes of several moments by luck, so no row shows it.
    """
    record = case.copy.volumes if case.copy else None
    if record is None:
        return None
    status, reason = _judge(record)
    return Item(ItemId.ONE_INSTANT, status, reason, required=True)


def describe_apart(record: VolumesRecord) -> str:
    """Return how the copies of volumes are not of one moment, "" if that is not seen.

    For the copy on which no server can be started.
    """
    status, reason = _judge(record)
    return reason if status is Status.CONTRADICTED else ""


def _judge(record: VolumesRecord) -> tuple[Status, str]:
    numbers, after = record.numbers, record.after
    if record.failure:
        return Status.NOT_OBSERVABLE, record.failure
    if numbers is None or after is None:
        return Status.NOT_OBSERVABLE, "the restored volumes were not read"
    newest = max(numbers.newest.values(), default=0)
    of = format_count(len(numbers.newest), "volume")
    if not newest:
        reason = f"nothing that dbcheck wrote beside the load is in {of}: they are"
        return Status.NOT_OBSERVABLE, f"{reason} older copies, or other folders"
    if newest > numbers.until:
        return Status.CONTRADICTED, _describe_gap(numbers, newest)
    if newest > after:
        reason = "they have what was written after the copy was taken: they are the"
        return Status.CONTRADICTED, f"{reason} server's own, or follow them"
    if newest < record.before:
        reason = f"they end {record.before - newest:,} steps before the copy was begun"
        return Status.CONTRADICTED, f"{reason}: they are older copies"
    if record.before < _STEPS_MIN:
        reason = f"only {format_count(record.before, 'step')} before the copy was begun"
        return Status.NOT_OBSERVABLE, reason
    unseen_s = _measure_unseen_s(record.longest_s, len(numbers.newest))
    reason = (
        f"all of the {newest:,} steps that were written to {of} in turn are there, up"
        f" to the last; moments less than {max(0.001, unseen_s):.3f} s apart could look"
        " so, too"
    )
    return Status.ASSUMED if unseen_s > _UNSEEN_S else Status.PRESENT, reason


def _measure_unseen_s(longest_s: float, volumes: int) -> float:
    """Return how far apart copies may be without a number that is missing.

    The earlier copy has step n, maybe as it is written, and lacks n + volumes.  So the
    later one lacks what is after that on its volume, which is n + 2 * volumes - 1 at
    most, maybe as it is written.  All these steps may lie between the two.
    """
    return 2 * volumes * longest_s


def _describe_gap(numbers: VolumeNumbers, newest: int) -> str:
    """Return how far the copies of volumes are apart."""
    old = min(numbers.newest, key=lambda folder: numbers.newest[folder])
    new = max(numbers.newest, key=lambda folder: numbers.newest[folder])
    reason = f"step {numbers.until + 1:,} is missing, and step {newest:,} is there"
    if old == new:
        return reason
    apart = format_count(newest - numbers.until - 1, "step")
    return f"{reason}, {apart} later: {old} is older than {new}"
