"""The folder of a go-live check: its plan, the record of each step, and its papers.

golive.json        the plan, written once
inventory.yml      if flags described the host
steps/STEP.json    what a step showed, and on what; written when it begins and ends
first-cut/, campaign/   the folders of its campaigns; those that were begun anew
                   after a change have a number: campaign-2/
golive.html        the page to sign; the report and the bundle lie beside it
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.model.golive import PaperResult, StepId, StepResult, StepStatus
from dbcheck.runs import stored

_SUBJECT = "golives"  # the name in the state folder, see runs.stored
PLAN_FILE, PAGE = "golive.json", "golive.html"


@dataclass(frozen=True, slots=True)
class GoLivePlan:
    """What a go-live check does, on which host.

    name:      of the host in the inventory.
    target:    URL without a password.
    cuts:      of the campaign, if none loses.
    bound_ppm: what the cuts are to show, None if their number was given.
    control:   the first cut comes after a control.
    seed:      of the first cut's campaign; the other campaign has the next one.
    """

    created: str
    dbcheck: str
    name: str
    target: str
    inventory: str
    cuts: int
    bound_ppm: int | None
    control: bool
    seed: int


@dataclass(frozen=True, slots=True)
class StepRecord:
    """One step as it is stored.

    setup:  on what it was done, see golive_setup.read_setup(); a step is repeated once
            what it depends on is otherwise.
    folder: the name of its campaign's folder, "" if it has none.
    papers: the files that it made.
    told_to_cut: a power test has told its switch to cut, or was about to.
    left:   why it has a new campaign and did not continue an earlier one, to be
            accepted; a text for each.
    """

    result: StepResult
    setup: Mapping[str, str] = field(default_factory=dict)
    folder: str = ""
    papers: tuple[PaperResult, ...] = ()
    told_to_cut: bool = False
    left: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse names that are not those of files in the folder of the check."""
        step = self.result.step
        if self.folder and not (
            step.is_campaign and re.fullmatch(rf"{step.value}(-\d+)?", self.folder)
        ):
            raise ValueError(f"{self.folder!r} is no campaign of the step {step.value}")
        for paper in self.papers:
            if Path(paper.file).name != paper.file:
                raise ValueError(f"{paper.file!r} is no file beside the page")

    @property
    def status(self) -> StepStatus:
        """The status of the step."""
        return self.result.status


class GoLiveFolder:
    """One folder on the client's disk."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._steps = path / "steps"

    @classmethod
    def create(cls, path: Path, plan: GoLivePlan) -> GoLiveFolder:
        """Make the folder of a new check; raise UsageError if there is one."""
        folder = cls(path)
        folder.require_unused()
        stored.make_folder(path)  # nothing is made in one of another user
        stored.make_folder(folder._steps)
        stored.write_file(path / PLAN_FILE, [stored.to_bytes(plan)])
        return folder

    @classmethod
    def open(cls, path: Path) -> GoLiveFolder:
        """Open a stored check; raise UsageError if there is none.

        Raise RunWriteError if others may have put it there.
        """
        folder = cls(path)
        if not (path / PLAN_FILE).is_file():
            raise UsageError(
                f"{path} holds no go-live check",
                id=ErrorId.NOT_A_GOLIVE_FOLDER,
                hint="Give the folder that dbcheck golive named, as golive/ID; or begin"
                " a check: dbcheck golive NAME.",
            )
        stored.require_own(path)
        return folder

    def require_unused(self) -> None:
        """Raise UsageError if the folder holds a check."""
        if (self.path / PLAN_FILE).exists():
            raise UsageError(
                f"{self.path} holds a go-live check already",
                id=ErrorId.GOLIVE_EXISTS,
                hint="Continue it (--resume), or name another folder.",
            )

    @cached_property
    def _content(self) -> bytes:
        """The content of the plan's file; read once, so what was checked is used."""
        return stored.read_content(self.path / PLAN_FILE)

    def locked(self) -> contextlib.AbstractContextManager[None]:
        """Keep every other dbcheck out; raise RunWriteError if one is in."""
        return stored.lock_folder(self.path)

    def plan(self) -> GoLivePlan:
        """Read the plan."""
        return stored.from_bytes(self._content, GoLivePlan, str(self.path / PLAN_FILE))

    def remember(self) -> None:
        """Note that the check is this user's own; raise RunWriteError."""
        stored.note_made_here(_SUBJECT, self._content)

    def is_own(self) -> bool:
        """Return True if this user's client made the check, by this very plan.

        Another's plan may not choose the inventory: it names programs that are run.
        """
        return stored.is_made_here(_SUBJECT, self._content)

    def record(self, step: StepId) -> StepRecord | None:
        """Read what is stored of a step, None if it was not begun.

        Raise RunFormatError if that is damaged, or is another step's.
        """
        path = self._steps / f"{step.value}.json"
        if not path.is_file():
            return None
        record = stored.read_record(path, StepRecord)
        if record.result.step is not step:
            why = f"it is of the step {record.result.step.value}"
            raise stored.damaged_record_error(str(path), why)
        return record

    def write(self, record: StepRecord) -> None:
        """Store what a step showed."""
        path = self._steps / f"{record.result.step.value}.json"
        stored.write_file(path, [stored.to_bytes(record)])

    def note_cut(self, step: StepId) -> None:
        """Store that a step that has begun now tells its switch to cut."""
        record = self.record(step)
        assert record is not None, "a step is stored when it begins"
        self.write(replace(record, told_to_cut=True))

    def find_new_name(self, step: StepId) -> str:
        """Return the name of a folder that does not exist yet for a step's campaign."""
        name, number = step.value, 1
        while (self.path / name).exists():
            number += 1
            name = f"{step.value}-{number}"
        return name
