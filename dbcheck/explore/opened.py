"""An exploration that is stored, read for what judges and reports it; its result."""

from __future__ import annotations

import contextlib
import math
import secrets
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LabError, RunFormatError
from dbcheck.cycle.rig import Rig
from dbcheck.cycle.stored_run import StoredLogs
from dbcheck.explore.explore import Explorer
from dbcheck.explore.folder import Exploration, Line
from dbcheck.explore.oracle import Acked, Oracle
from dbcheck.explore.states import Timeline, draw_by_name, parse_kinds
from dbcheck.lab.drive.recording import RECORD_ANEW, Recordings
from dbcheck.lab.lab import Lab
from dbcheck.lab.recorded import RecordedLab
from dbcheck.lab.spec import LabSpec
from dbcheck.model.cut import CrashState
from dbcheck.model.explored import Coverage, ExploreResult, Finding
from dbcheck.model.verdict import Verdict
from dbcheck.ports.listener import Listener
from dbcheck.witness.log import FrameLogReader


def compute_coverage(timeline: Timeline, states: Iterable[CrashState]) -> Coverage:
    """Return the coverage of *timeline* by the judged *states*."""
    visited: set[int] = set()
    lost: set[tuple[int, int]] = set()
    whole = 0
    for state in states:
        visited.add(state.moment)
        lacking = timeline.lost(state)
        lost.update(
            (drive, write) for drive, parts in enumerate(lacking) for write, *_ in parts
        )
        whole += _is_of_whole_writes(timeline, state)
    drives = range(len(timeline.recordings))
    return Coverage(
        moments=len(timeline.moments),
        visited=len(visited),
        at_risk=max(moment.writes for moment in timeline.moments),
        writes=sum(_count_writes(timeline, drive) for drive in drives),
        lost=len(lost),
        possible=_compute_log_of_states(timeline) if len(drives) == 1 else None,
        whole=whole,
    )


def _count_writes(timeline: Timeline, drive: int) -> int:
    """Count the writes of a drive that could be lost at any moment."""
    found: set[int] = set()
    for moment in timeline.moments:
        held = moment.drives[drive]
        found.update(range(held.stable, held.arrived))
    return len(found)


def _is_of_whole_writes(timeline: Timeline, state: CrashState) -> bool:
    return all(
        begin == 0 and length == recording.lengths[write]
        for recording, (_, parts) in zip(timeline.recordings, state.drives, strict=True)
        for write, begin, length in parts
    )


def _compute_log_of_states(timeline: Timeline) -> float:
    """Return the number of states of whole writes of the one drive, its logarithm.

    The first write that a state lacks decides at which moment it is judged; each later
    write that had come by then is there or not.
    """
    later: Counter[int] = Counter()
    for moment in timeline.moments:
        (held,) = moment.drives
        for first in range(held.stable, held.arrived):
            later[first] = held.arrived - first - 1
    count = 1 + sum(1 << writes for writes in later.values())
    return _compute_log10(count)


def _compute_log10(count: int) -> float:
    """Return the logarithm of an integer of any size."""
    shift = max(0, count.bit_length() - 64)
    return math.log10(count >> shift) + shift * math.log10(2)


def make_result(
    folder: str,
    seed: int,
    lab: Mapping[str, Any],
    timeline: Timeline,
    acked: Acked,
    lines: Collection[Line],
    findings: Sequence[Finding],
    *,
    wanted: int,
    finished: bool,
    per_s: float | None,
) -> ExploreResult:
    """Make the result of *lines*, the states that were judged."""
    failed = [each for each in lines if each.judgement.verdict is Verdict.FAIL]
    unclear = [each for each in lines if each.judgement.verdict is Verdict.INCONCLUSIVE]
    kinds: dict[str, int] = {}
    for line in lines:
        kind = parse_kinds(line.name)
        kinds[kind] = kinds.get(kind, 0) + 1
    verdict = Verdict.FAIL if failed else Verdict.PASS
    if not failed and (unclear or not finished or not lines):
        verdict = Verdict.INCONCLUSIVE
    ended_us = timeline.moments[-1].time_us
    return ExploreResult(
        verdict=verdict,
        folder=folder,
        seed=seed,
        lab=lab,
        commits=acked.count(ended_us),
        load_s=(ended_us - acked.first_us) / 1e6,
        writes=sum(len(each) for each in timeline.recordings),
        flushes=sum(len(each.flushes) for each in timeline.recordings),
        wanted=wanted,
        states=len(lines),
        failed=len(failed),
        inconclusive=len(unclear),
        finished=finished,
        per_s=per_s,
        kinds=dict(sorted(kinds.items())),
        coverage=compute_coverage(timeline, (line.state for line in lines)),
        findings=tuple(findings),
        failing=tuple(each.name for each in failed),
        unclear=tuple(each.name for each in unclear),
        doubts=tuple(dict.fromkeys(each.judgement.reason for each in unclear)),
    )


def choose_lab_folder() -> Path:
    """Return a folder that a lab may make: it removes it as well."""
    return Path(tempfile.gettempdir(), f"dbcheck-lab-{secrets.token_hex(4)}")


class Opened:
    """A stored exploration.

    spec:     of the lab whose drives were recorded, and of those that replay them.
    acked:    what the witness holds of the recorded load.
    timeline: its moments, from the first ack of the load on.
    """

    def __init__(self, folder: Exploration, rig_of: Callable[[Lab], Rig]) -> None:
        """Read *folder*; raise LabError, RunFormatError or LogDamaged.

        rig_of: returns the rig of a lab, which asks no host: canaries would write to
        the drives, beside the server.
        """
        self.folder, self._rig_of = folder, rig_of
        self.plan, run = folder.plan(), folder.run()
        self._manifest, load = run.manifest(), run.load()
        if load is None:
            raise LabError(
                f"{run.path} lacks what the client saw of the load",
                id=ErrorId.RECORDING_NOT_USABLE,
                hint=RECORD_ANEW,
            )
        self._load = load
        self.spec = LabSpec.from_json(RecordedLab.read(folder.recording).spec)
        logs = StoredLogs(run, FrameLogReader(), self._manifest, load)
        self.acked = Acked(logs.acks(), load)
        recordings = folder.recordings()
        if min(each.ended_us for each in recordings) <= self.acked.first_us:
            raise LabError(
                f"{folder.recording} ends before the first ack of the load",
                id=ErrorId.RECORDING_NOT_USABLE,
                hint=RECORD_ANEW,
            )
        self.timeline = Timeline(
            recordings,
            honest=self.spec.drive.personality == "honest",
            since_us=self.acked.first_us,
        )

    def lines(self) -> dict[str, Line]:
        """Read the states that were judged, by name.

        Raise RunFormatError if one is not the state of its name: the file was changed,
        or another version of dbcheck made it.
        """
        lines = self.folder.lines()
        for line in lines:
            if draw_by_name(self.timeline, line.name) != line.state:
                raise RunFormatError(
                    f"{self.folder.path}: the state {line.name} in states.jsonl is not"
                    " the state of that name",
                    id=ErrorId.EXPLORED_STATES_DAMAGED,
                    hint=f"dbcheck {self.plan.dbcheck} wrote it: use that version, or"
                    " remove that file to judge all states again.",
                )
        return {line.name: line for line in lines}

    @property
    def summary(self) -> str:
        """A summary of the recording, in a few words."""
        moments = self.timeline.moments
        acks = self.acked.count(moments[-1].time_us)
        count = f"{len(moments):,} moments" if len(moments) > 1 else "one moment"
        return f"{acks:,} acks; states are judged at {count}"

    def explorer(self, listener: Listener) -> Explorer:
        """Return its explorer."""
        seed = self.plan.seed
        return Explorer(self.folder, self.timeline, self.acked, seed, listener)

    @contextlib.contextmanager
    def oracle(self) -> Iterator[Oracle]:
        """Build a lab that replays the recording; give what judges states on it."""
        recordings = Recordings(self.folder.recording, replayed=True)
        with Lab.start(self.spec, choose_lab_folder(), recordings=recordings) as lab:
            rig = self._rig_of(lab)
            with contextlib.closing(rig.witness):
                yield Oracle(
                    *(lab, rig, self._manifest, self._load),
                    *(self.acked, self.timeline),
                )
