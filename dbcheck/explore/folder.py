"""The folder of an exploration: the recorded cycle, and each crash state judged.

exploration.json   the plan of the exploration, see ExplorePlan
recording/         the recorded requests to the drives, and data to replay them in a lab
RUN/               the recorded cycle: an ordinary run folder
states.jsonl       one line for each judged state, in the order of judging
finding-N.json     a failing state, reduced
explored.json      the output of --json
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, Any

import msgspec

from dbcheck.base import plain
from dbcheck.base.access import require_closed
from dbcheck.base.decoding import UNDECODABLE, decode_json, decode_json_lines
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LabError, RunFormatError, UsageError
from dbcheck.lab.drive.recording import RECORD_ANEW, SUFFIX, Recording
from dbcheck.lab.spec import DATA_DRIVE, LOG_DRIVE
from dbcheck.model.cut import CrashState
from dbcheck.model.explored import ExploreResult, Finding, StateJudgement
from dbcheck.runs import stored
from dbcheck.runs.folder import RunFolder

RESULT_FILE = "explored.json"
_PLAN, _STATES = "exploration.json", "states.jsonl"
_SUBJECT = "explorations"  # in the state folder


class ExplorePlan(msgspec.Struct, frozen=True):
    """ExplorePlan of an exploration.

    seed: decides which states are judged, in which order.
    run:  the name of the recorded cycle's folder.
    """

    dbcheck: str
    seed: int
    run: str


class Line(msgspec.Struct, frozen=True):
    """One judged state; name: as states.format_name() returns it."""

    name: str
    state: CrashState
    judgement: StateJudgement


class Exploration:
    """The folder of one exploration."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.recording = path / "recording"

    @classmethod
    def create(cls, path: Path) -> Exploration:
        """Make the folder, for the recording that comes next."""
        stored.make_folder(path.parent)
        stored.make_new_folder(path)
        found = cls(path)
        stored.make_new_folder(found.recording)
        return found

    def discard_unless_recorded(self) -> None:
        """Remove the folder if nothing can be explored in it; never raises."""
        if not (self.path / _PLAN).exists():
            shutil.rmtree(self.path, ignore_errors=True)

    @classmethod
    def open(cls, path: Path) -> Exploration:
        """Open a stored exploration; raise UsageError if there is none."""
        found = cls(path)
        if not (path / _PLAN).is_file():
            raise UsageError(
                f"{path} holds no exploration: it has no {_PLAN}",
                id=ErrorId.NOT_AN_EXPLORATION,
                hint="Give the folder that dbcheck lab explore named.",
            )
        return found

    def locked(self) -> AbstractContextManager[None]:
        """Keep every other dbcheck out; raise RunWriteError if one is in."""
        return stored.lock_folder(self.path)

    def write_plan(self, plan: ExplorePlan) -> None:
        """Store what is explored: from now on the folder can be opened."""
        stored.write_file(self.path / _PLAN, [stored.to_bytes(plan)])

    def plan(self) -> ExplorePlan:
        """Read it; raise RunFormatError if it is damaged."""
        return stored.read_record(self.path / _PLAN, ExplorePlan)

    def remember(self) -> None:
        """Note that the recording is this user's own; raise RunWriteError."""
        stored.note_made_here(_SUBJECT, self._recorded())

    def is_own(self) -> bool:
        """Return True if this user's client made the recording, to the last byte.

        Another's holds the settings and the data of a server that would be started.
        """
        return stored.is_made_here(_SUBJECT, self._recorded())

    def require_closed(self) -> None:
        """Raise UsageError if another user may change what a lab is built from."""
        for path in (self.recording, *self._files()):
            require_closed(
                path,
                "an exploration",
                ErrorId.EXPLORATION_OPEN_TO_OTHERS,
                "A lab runs what an exploration holds. Copy it to a folder of your own,"
                " or",
            )

    def _files(self) -> list[Path]:
        """Return the files that a lab is built from."""
        return sorted(path for path in self.recording.glob("*") if not path.is_dir())

    def _recorded(self) -> bytes:
        """Return the digest of each of these files, by name, as JSON.

        Raise LabError if one cannot be read.
        """
        digests = {}
        for path in self._files():
            try:
                with plain.open_regular(path) as file:
                    digests[path.name] = hashlib.file_digest(file, "sha256").hexdigest()
            except OSError as error:
                raise LabError(
                    f"{path} cannot be read: {error.strerror}",
                    id=ErrorId.RECORDING_NOT_USABLE,
                    hint=RECORD_ANEW,
                ) from None
        return json.dumps(digests).encode()

    def run(self) -> RunFolder:
        """Return the recorded cycle."""
        return RunFolder.open(self.path / self.plan().run)

    def recordings(self) -> list[Recording]:
        """Read what each drive recorded; raise LabError."""
        paths = [self.recording / f"{name}{SUFFIX}" for name in (DATA_DRIVE, LOG_DRIVE)]
        return [Recording(path) for path in paths if path == paths[0] or path.exists()]

    def lines(self) -> list[Line]:
        """Read the states that were judged; drop a last line that was cut short.

        Of a state that was judged again the last line counts.  Raise RunFormatError if
        another line is damaged.
        """
        path = self.path / _STATES
        if not path.exists():
            return []
        whole, _, rest = stored.read_content(path).rpartition(b"\n")
        if rest:
            stored.write_file(path, [whole + b"\n"] if whole else [])
        try:
            read = decode_json_lines(whole, Line)
            return list({line.name: line for line in read}.values())
        except UNDECODABLE as error:
            raise RunFormatError(
                f"{path} is damaged: {error}",
                id=ErrorId.EXPLORED_STATES_DAMAGED,
                hint="Remove that file to judge all states again.",
            ) from None

    @contextlib.contextmanager
    def appending(self) -> Iterator[IO[bytes]]:
        """Give the file of states, to which add() appends."""
        with (
            stored.translate_write_errors(self.path),
            stored.open_private(self.path / _STATES, "ab") as file,
        ):
            yield file

    def add(self, file: IO[bytes], line: Line) -> None:
        """Append a state; a client that is killed loses the last one at most."""
        file.write(msgspec.json.encode(line) + b"\n")
        file.flush()

    def write_findings(self, findings: Sequence[Finding]) -> None:
        """Store the findings; they replace any that have the same numbers."""
        for finding in findings:
            path = self.path / f"{finding.name}.json"
            stored.write_file(path, [stored.to_bytes(finding)])

    def findings(self) -> list[Finding]:
        """Read the findings, in their order."""
        paths = self.path.glob("finding-*.json")
        found = [stored.read_record(path, Finding) for path in paths]
        return sorted(found, key=lambda finding: finding.number)

    def write_result(self, values: Any) -> None:
        """Store what --json prints."""
        text = json.dumps(values, indent=1) + "\n"
        stored.write_file(self.path / RESULT_FILE, [text.encode()])

    def result(self) -> ExploreResult:
        """Read what --json printed; raise RunFormatError if it is damaged."""
        path = self.path / RESULT_FILE
        try:
            return decode_json(stored.read_content(path), ExploreResult)
        except UNDECODABLE as error:
            raise RunFormatError(
                f"{path} is damaged or was changed: {error}",
                id=ErrorId.RECORD_DAMAGED,
                hint=f"Judge its states again: dbcheck lab explore {self.path}",
            ) from None
