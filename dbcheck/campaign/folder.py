"""The folder of a campaign: its plan, its runs, a line and a file for each cycle.

    campaign.json    the plan, written once
    runs/ID/         the run folder of each cycle and of each control
    cycles/0001.json the result of the cycle, written whole or not at all; the full
                     judgement is the verdict.json of its run
    server.json      what the runs showed of the server, for the next cycle
    cycles.jsonl     a short line for each cycle, for people and for tail -f

The files under cycles/ are the truth; a client that was killed leaves at most one run
that no file there names.  A matrix has a file of its own, beside its runs.
"""

from __future__ import annotations

import contextlib
import json
import shlex
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, Self

import msgspec

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import RunFormatError, UsageError
from dbcheck.cycle.preflight.earlier_cycles import NOTHING_KNOWN, Known
from dbcheck.judge.results import MatrixResult
from dbcheck.model.cluster import Promise
from dbcheck.model.cut import CutClass
from dbcheck.model.depth import Depth
from dbcheck.model.records import Manifest
from dbcheck.model.verdict import ControlFacts, CycleVerdict, JudgedCycle
from dbcheck.rows.workload import Workload
from dbcheck.runs import stored
from dbcheck.runs.folder import RunFolder, new_run_id
from dbcheck.runs.records import can_name_folder

_SUBJECT = "campaigns"  # the name in the state folder, see runs.stored
_SETTLED_NS = 1_000_000_000
_BOUNDS_PPM = range(100, 500_001)  # as --until takes them


def write_matrix(runs: Path, result: MatrixResult) -> Path:
    """Store *result* in the folder *runs*; return the file.

    Raise RunWriteError if it cannot be written.
    """
    stored.make_folder(runs)
    path = runs / f"matrix-{new_run_id(f'{datetime.now(UTC):%Y%m%d-%H%M%S}')}.json"
    stored.write_file(path, [stored.to_bytes(result)])
    return path


def read_matrix(path: Path) -> MatrixResult:
    """Read a stored result; raise RunFormatError if it is none, or is damaged."""
    return stored.read_record(path, MatrixResult)


@dataclass(frozen=True, slots=True)
class CampaignPlan:
    """What a campaign does, on which target.

    name:     of the target, as the user calls it.
    target:   URL without a password.
    inventory: the file that names the target, "" if it is not known.
    seed:     decides each cycle's moment and sizes.
    cuts:     number of cycles that must count, unless one fails before.
    cycles_max: cycles in all, with those that do not count.
    bound_ppm: what the cuts are to show if none loses, None if only a number was given.
    keep_going: a loss does not end the campaign.
    control:  controls run before the cycles.
    twice:    once a cycle's rows were read, the server is restarted, and they are read
              again.
    price:    of what the target runs on, in any currency; None if not given.
    promises: of a cluster, what its commits must survive, by name: each cut tests one,
              see campaign.promises.  () of a single server, and in a campaign of an
              older dbcheck, which tests the one that the inventory names.
    """

    created: str
    dbcheck: str
    name: str
    target: str
    seed: int
    workload: Workload
    cuts: int
    cycles_max: int
    bound_ppm: int | None
    keep_going: bool
    control: bool
    inventory: str = ""
    twice: bool = False
    price: float | None = None
    promises: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a bound outside of what --until takes, and unknown promises."""
        for name in self.promises:
            Promise(name)
        if len(set(self.promises)) < len(self.promises):
            raise ValueError("a promise is listed twice")
        bound = self.bound_ppm
        if bound is not None and bound not in _BOUNDS_PPM:
            raise ValueError(f"a bound of {bound} ppm is outside 100..500000")


@dataclass(frozen=True, slots=True)
class Cycle(JudgedCycle):
    """The result of one cycle.

    number:   1-based; 0 for a control.
    run:      run id, "" if the cycle ended before it had one.
    activity:  what went on when the power went, see model.moments; "" if not known.
    missed:   why the power may have gone in another activity than the one that was
              drawn, "" if it did not.
    drawn:    the activity that was drawn, "" if none was or it is not known.
    after_s:  see model.moments: the moment that was drawn.
    cut_s:    seconds of load when the power went, as well as it is known; None if it
              is not.
    lag_s:    seconds from the request to the switch until the power went, None if not
              seen.
    reason:   the first reason of the verdict, or the error.
    depth:    how deep the cut went, "" if it was not measured.
    confirmed, lost: rows; None if the table was not read.
    earlier_lost: lost rows of earlier cycles; None if the table was not read, or if the
              file of the cycle lacks this field.
    acks_per_s: of the load; None if the client was lost before it stored the rate.
    ended:    when, UTC, ISO 8601.
    settled:  judged by a later client, as the client that began it was lost before.
    gone:     the server, or its table, certainly did not come back.
    control:  what later cycles must know of a control, None of an ordinary cycle.
    cut_class: what the switch cuts, as model.cut names it, even if uncut; "" if the
              cycle came to no verdict.  Of a cluster: the switch of the node whose cut
              was judged.
    window:   the task that was under way at the cut, see rows.tasks; "" if none was.
    seen, seen_lost: how many rows readers saw, and how many of these are missing and
              were never acknowledged, see rows.seen; None without readers, or if the
              table was not read after the cut.
    at_fault: settings under which such a cut loses commits, a sentence for each.
    error_id: of the error, "" if it came to a verdict, or its client was lost.
    despite:  why a PASS is worth less: each finding of the audit before the load whose
              severity is above a note, and each assumption about settings, a text for
              each.
    uncut:    no cut of the server's power was asked for, whatever ended the load.
    writer, reader: of a cluster, the node that took the load, and the one that was read
              ("" if none was); "" of a single server.
    promise:  of a cluster, what the cut tested, see model.cluster; "" of a single
              server, or if an older dbcheck ran the cycle.
    doubts:   the items of evidence that keep an INCONCLUSIVE cycle from counting, by
              name; () of another cycle.
    outage_s, outage_lost: the time to recover in seconds, and how many commits were
              answered after the cut and did not last, see model.outage; None, 0 if that
              was not measured.
    outage_over_s: where no commit lasted as long as dbcheck tried: that time, which the
              time to recover exceeds; None otherwise.
    """

    number: int
    run: str
    activity: str
    after_s: float
    verdict: CycleVerdict
    reason: str
    ended: str
    depth: str = ""
    confirmed: int | None = None
    lost: int | None = None
    acks_per_s: float | None = None
    settled: bool = False
    gone: bool = False
    control: ControlFacts | None = None
    cut_class: str = ""
    missed: str = ""
    at_fault: tuple[str, ...] = ()
    earlier_lost: int | None = None
    window: str = ""
    seen: int | None = None
    seen_lost: int | None = None
    error_id: str = ""
    drawn: str = ""
    cut_s: float | None = None
    lag_s: float | None = None
    despite: tuple[str, ...] = ()
    uncut: bool = False
    doubts: tuple[str, ...] = ()
    writer: str = ""
    reader: str = ""
    outage_s: float | None = None
    outage_lost: int = 0
    outage_over_s: float | None = None
    promise: str = ""

    def __post_init__(self) -> None:
        """Refuse an unknown class, depth or promise, and an id that names no folder."""
        if self.promise:
            Promise(self.promise)
        if self.run and not can_name_folder(self.run):
            raise ValueError(f"{self.run!r} is not a run id")
        if self.cut_class:
            CutClass(self.cut_class)
        if self.depth:
            Depth(self.depth)


class _FileState(NamedTuple):
    """Of a file: it differs once the file was written or replaced.

    stored.write_file() makes a new file each time.
    """

    device: int
    inode: int
    size: int
    changed_ns: int

    @classmethod
    def of(cls, path: Path) -> Self:
        """Return the state of a file, links followed; raise OSError."""
        status = path.stat()
        return cls(status.st_dev, status.st_ino, status.st_size, status.st_ctime_ns)

    @property
    def is_settled(self) -> bool:
        """False if the file changed so lately that another change may look the same.

        The kernel's times move in steps, of 10 ms at most.
        """
        return self.changed_ns < time.time_ns() - _SETTLED_NS


class CampaignFolder:
    """One folder on the client's disk."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.runs = path / "runs"
        self._read: dict[str, tuple[_FileState, Cycle]] = {}

    @classmethod
    def create(cls, path: Path, plan: CampaignPlan) -> CampaignFolder:
        """Make the folder of a new campaign; raise UsageError if there is one."""
        folder = cls(path)
        if folder._plan.exists():
            raise UsageError(
                f"{path} holds a campaign already",
                id=ErrorId.CAMPAIGN_EXISTS,
                hint="Continue it (--resume), or name another folder.",
            )
        stored.make_folder(folder.runs)
        stored.make_folder(path / "cycles")
        stored.write_file(folder._plan, [stored.to_bytes(plan)])
        return folder

    @classmethod
    def open(cls, path: Path) -> CampaignFolder:
        """Open a stored campaign; raise UsageError if there is none."""
        folder = cls(path)
        if not folder._plan.is_file():
            raise UsageError(
                f"{path} holds no campaign: it has no campaign.json",
                id=ErrorId.NOT_A_CAMPAIGN_FOLDER,
                hint="Give the folder that dbcheck campaign named.",
            )
        return folder

    @property
    def _plan(self) -> Path:
        return self.path / "campaign.json"

    @cached_property
    def _content(self) -> bytes:
        """The content of the plan's file; read once, so what was checked is used."""
        return stored.read_content(self._plan)

    def locked(self) -> contextlib.AbstractContextManager[None]:
        """Keep every other dbcheck out; raise RunWriteError if one is in."""
        return stored.lock_folder(self.path)

    def plan(self) -> CampaignPlan:
        """Read the plan."""
        return stored.from_bytes(self._content, CampaignPlan, str(self._plan))

    def remember(self) -> None:
        """Note that the campaign is this user's own; raise RunWriteError."""
        stored.note_made_here(_SUBJECT, self._content)

    def is_own(self) -> bool:
        """Return True if this user's client made the campaign, by this very plan.

        Another's plan may not choose the inventory: it names programs that are run.
        """
        return stored.is_made_here(_SUBJECT, self._content)

    def cycles(self) -> list[Cycle]:
        """Read the result of each cycle, in their order; controls come first.

        A file that is as it was when it was read before is not read again: a campaign
        asks for its cycles several times in each.
        """
        found = map(self._read_cycle, (self.path / "cycles").glob("*.json"))
        return sorted(found, key=lambda cycle: (cycle.number, cycle.run))

    def _read_cycle(self, path: Path) -> Cycle:
        with contextlib.suppress(OSError):  # to read it tells the error
            state = _FileState.of(path)
            was, cycle = self._read.get(path.name, (None, None))
            if cycle is None or was != state:
                cycle = stored.read_record(path, Cycle)
                if state.is_settled:
                    self._read[path.name] = state, cycle
            return cycle
        return stored.read_record(path, Cycle)

    def add(self, *cycles: Cycle) -> None:
        """Store the results of cycles."""
        for cycle in cycles:
            path = self.path / "cycles" / self.file_of(cycle)
            stored.write_file(path, [stored.to_bytes(cycle)])
        self.write_lines()

    @staticmethod
    def file_of(cycle: Cycle) -> str:
        """Return the name of the file that holds a cycle."""
        name = f"{cycle.number:04}" if cycle.number else f"0000-{cycle.run}"
        return f"{name}.json"

    def write_lines(self) -> None:
        """Write cycles.jsonl anew: a killed client may have left it behind."""
        lines = (format_cycle(cycle) + "\n" for cycle in self.cycles())
        stored.write_file(self.path / "cycles.jsonl", (line.encode() for line in lines))

    def known(self) -> Known:
        """Read what the runs so far showed of the server."""
        path = self.path / "server.json"
        if not path.is_file():
            return NOTHING_KNOWN
        return stored.read_record(path, Known)

    def write_known(self, known: Known) -> None:
        """Store what the runs so far showed of the server."""
        stored.write_file(self.path / "server.json", [stored.to_bytes(known)])

    def list_manifests(self) -> Iterator[Manifest]:
        """Yield the manifest of each run; one that is damaged is left out."""
        for path in sorted(self.runs.glob("*/manifest.json")):
            with contextlib.suppress(RunFormatError):
                yield RunFolder(path.parent).manifest()

    def list_runs_without_cycle(self) -> Iterator[RunFolder]:
        """Yield the runs that no cycle names: their client was lost before that."""
        runs_with_cycle = {cycle.run for cycle in self.cycles()}
        for path in sorted(self.runs.glob("*/manifest.json")):
            if path.parent.name not in runs_with_cycle:
                yield RunFolder.open(path.parent)


def resume_command(folder: Path) -> str:
    """Return the command, as a shell takes it, that continues the campaign there."""
    return shlex.join(("dbcheck", "campaign", "--resume", str(folder)))


def list_folders(root: Path) -> list[CampaignFolder]:
    """Return the campaigns in the folder *root*; raise UsageError if there is none."""
    found = sorted(path.parent for path in root.glob("*/campaign.json"))
    if (root / "campaign.json").is_file() or not found:  # open() reports a missing one
        found = [root]
    return [CampaignFolder.open(path) for path in found]


def format_cycle(cycle: Cycle) -> str:
    """Return a cycle as one line of JSON."""
    names = (
        "number",
        "run",
        "activity",
        "drawn",
        "after_s",
        "cut_s",
        "verdict",
        "reason",
        "cut_class",
        "depth",
    )
    rows = ("confirmed", "lost", "earlier_lost", "seen", "seen_lost")
    more = ("missed", "window", *rows, "acks_per_s", "ended", "settled")
    values = {name: getattr(cycle, name) for name in (*names, *more)}
    return json.dumps(msgspec.to_builtins(values))
