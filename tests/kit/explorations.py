"""Recorded loads, to be explored."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from dbcheck.config import workload_file
from dbcheck.explore.folder import Exploration
from dbcheck.explore.labs import record_load
from dbcheck.explore.opened import Opened, choose_lab_folder
from dbcheck.explore.oracle import Acked, Oracle
from dbcheck.explore.states import Timeline
from dbcheck.lab.drive.recording import Recordings
from dbcheck.lab.lab import Lab, list_missing
from dbcheck.lab.spec import LabSpec
from dbcheck.model.cut import CrashState
from dbcheck.model.explored import StateJudgement
from dbcheck.rows.workload import Workload
from dbcheck.runner.lab_rig import make_recording_rig, open_exploration
from tests.kit.rigs import Said

SEED = 11


def load(name: str = "insert", sessions: int = 2, seconds: float = 0.3) -> Workload:
    """Return a load that runs for so long."""
    chosen = workload_file.load(name).with_sessions(sessions)
    return replace(chosen, cut_after_s=(seconds, seconds))


def recorded(spec: LabSpec, folder: Path, workload: Workload) -> Opened:
    """Record *workload* on a lab; skip if there can be none."""
    if lacking := list_missing(spec):
        pytest.skip("; ".join(lacking))
    exploration = Exploration.create(folder / "exploration")
    recordings = Recordings(exploration.recording, replayed=False)
    with Lab.start(spec, folder / "lab", recordings=recordings) as lab:
        rig = replace(
            make_recording_rig(lab, Said(), exploration.path), used_epochs=set()
        )
        with contextlib.closing(rig.witness):
            record_load(lab, rig, workload, SEED, exploration)
    return open_exploration(exploration)


@dataclass(frozen=True)
class Replaying:
    """A lab that replays a recording, and what judges on it."""

    lab: Lab
    oracle: Oracle

    def judge(self, *states: CrashState) -> list[StateJudgement]:
        """Judge one state after the other."""
        return [self.oracle.judge(state) for state in states]


@contextlib.contextmanager
def replaying(
    found: Opened, *, timeline: Timeline | None = None, acked: Acked | None = None
) -> Iterator[Replaying]:
    """Give a lab that replays *found*; judge by other moments or acks, if given."""
    recordings = Recordings(found.folder.recording, replayed=True)
    run = found.folder.run()
    manifest, client = run.manifest(), run.load()
    assert client is not None
    with Lab.start(found.spec, choose_lab_folder(), recordings=recordings) as lab:
        rig = make_recording_rig(lab, Said())
        with contextlib.closing(rig.witness):
            judges_by = acked or found.acked, timeline or found.timeline
            yield Replaying(lab, Oracle(lab, rig, manifest, client, *judges_by))
