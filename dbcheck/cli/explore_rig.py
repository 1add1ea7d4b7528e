"""The rig of a lab that records a load, or replays one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from dbcheck.cli import output
from dbcheck.cli.lab_rig import lab_rig
from dbcheck.cycle.rig import Limits, Rig
from dbcheck.explore.folder import Exploration
from dbcheck.explore.opened import Opened
from dbcheck.lab.lab import Lab
from dbcheck.report.progress import PlainProgress

_NOWHERE = Path()  # for what stores no run
_RETURN_S = 10  # more than the lab itself waits; what recovers longer is INCONCLUSIVE


def rig_of(lab: Lab, view: PlainProgress, runs: Path = _NOWHERE) -> Rig:
    """Return the rig of a lab that records or replays, which asks no host."""
    rig = lab_rig(lab, view, runs, Limits(return_s=_RETURN_S), lab.switch())
    node = replace(rig.site.writer, host=None, log_path="")
    return replace(rig, site=rig.site.with_writer(node))


def opened(folder: Exploration) -> Opened:
    """Open a stored exploration; nothing is shown of how its states are read."""
    unheard = PlainProgress(output.progress_console(), frozenset())
    return Opened(folder, lambda lab: rig_of(lab, unheard))
