"""An exploration that is stored, read for what judges and reports it."""

from __future__ import annotations

import contextlib
import secrets
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LabError, RunFormatError
from dbcheck.cycle.rig import Rig
from dbcheck.cycle.stored_run import StoredLogs
from dbcheck.explore.acked import Acked
from dbcheck.explore.choice import drawn_by_name
from dbcheck.explore.explore import Explorer
from dbcheck.explore.folder import Exploration, Line
from dbcheck.explore.oracle import Oracle
from dbcheck.explore.states import Timeline
from dbcheck.lab.drive.recording import RECORD_ANEW, Recordings
from dbcheck.lab.lab import Lab
from dbcheck.lab.recorded import RecordedLab
from dbcheck.lab.spec import LabSpec
from dbcheck.ports.listener import Listener
from dbcheck.witness.log import FrameLogReader


def lab_folder() -> Path:
    """Return where a lab may make its folder: it removes it as well."""
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
            if drawn_by_name(self.timeline, line.name) != line.state:
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
        """What was recorded, in a few words."""
        moments = self.timeline.moments
        acks = self.acked.count(moments[-1].time_us)
        count = f"{len(moments):,} moments" if len(moments) > 1 else "one moment"
        return f"{acks:,} acks; states are judged at {count}"

    def explorer(self, listener: Listener) -> Explorer:
        """Return what explores it."""
        seed = self.plan.seed
        return Explorer(self.folder, self.timeline, self.acked, seed, listener)

    @contextlib.contextmanager
    def oracle(self) -> Iterator[Oracle]:
        """Build a lab that replays the recording; give what judges states on it."""
        recordings = Recordings(self.folder.recording, replayed=True)
        with Lab.start(self.spec, lab_folder(), recordings=recordings) as lab:
            rig = self._rig_of(lab)
            with contextlib.closing(rig.witness):
                yield Oracle(
                    *(lab, rig, self._manifest, self._load),
                    *(self.acked, self.timeline),
                )
