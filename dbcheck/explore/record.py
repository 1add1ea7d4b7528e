"""Records the drives of a lab under one load, up to a cut of its power."""

from __future__ import annotations

from dbcheck import __version__
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LabError
from dbcheck.cycle.cycle import finish_cycle
from dbcheck.cycle.preflight.before_load import preflight
from dbcheck.cycle.rig import Rig
from dbcheck.explore.folder import Exploration, Plan
from dbcheck.lab.lab import Lab
from dbcheck.rows.workload import Workload


def record(
    lab: Lab, rig: Rig, workload: Workload, seed: int, folder: Exploration
) -> None:
    """Run a cycle on *rig*, whose lab records; store the run and what was recorded.

    rig: it asks no host, so that nothing but the server writes to the drives.
    """
    started = preflight(rig, workload, seed, emptied=lambda _known: None)
    outcome = finish_cycle(rig, started)
    if outcome.load is None:
        raise LabError(
            "the recorded load has no record: its client's part of it was lost",
            id=ErrorId.RECORDED_LOAD_LOST,
            hint="Run the command again.",
        )
    lab.save_recordings()
    folder.write_plan(Plan(__version__, seed, outcome.run.path.name))
