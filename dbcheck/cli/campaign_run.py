"""Runs one campaign in this process, or several in processes of their own."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dbcheck import children
from dbcheck.campaign.campaign import run_campaign
from dbcheck.campaign.folder import CampaignFolder, folders_in
from dbcheck.campaign.totals import ERROR_FILE, result
from dbcheck.cli import FAIL, FAILED, INCONCLUSIVE, PASS, assemble, output
from dbcheck.cli.guard import guard, require_passable, require_sole
from dbcheck.core.verdict import Verdict
from dbcheck.errors import DbcheckError, RunWriteError, UsageError
from dbcheck.inventory.entry import Entry
from dbcheck.judge.results import CampaignResult
from dbcheck.power import consent
from dbcheck.power.registry import UNATTENDED
from dbcheck.report.live import progress
from dbcheck.report.progress import PlainProgress
from dbcheck.stored import private, require_own, write, writing
from dbcheck.witness.window import WindowLimits

POLL_S = 0.5
END_S = 300.0  # a target without power may need as long to get it back


def require_fit(entry: Entry, *, yes: bool, i_know: bool) -> None:
    """Raise UsageError if *entry* cannot be cut unattended, or must not be."""
    if entry.power.attended:
        raise UsageError(
            f"host {entry.name}: a campaign needs a switch that works unattended",
            hint=f"Give it one by dbcheck_power: {UNATTENDED}.",
        )
    require_passable(entry)
    guard(entry, assemble.engine(entry.target, entry.password), yes=yes, i_know=i_know)


def require_same(entry: Entry, folder: CampaignFolder, *, yes: bool) -> None:
    """Raise UsageError unless *entry* still is what the campaign was begun on.

    The server itself is not asked: an earlier client may have left it without power.
    """
    plan = folder.plan()
    if entry.target != plan.target:
        raise UsageError(
            f"host {entry.name}: {folder.path} is a campaign on {plan.target}, and the"
            f" inventory now names {entry.target}",
            hint="Start a new campaign, or correct the inventory.",
        )
    if entry.power.guarded:
        require_sole(entry)
        consent.require(entry.wiring, yes=yes)


def stored(root: Path) -> list[CampaignFolder]:
    """Return the campaigns in the folder *root*; raise UsageError if there is none.

    Raise RunWriteError if others may have put one there: a plan names the inventory,
    and with it programs that run.
    """
    folders = folders_in(root)
    for path in {root, *(folder.path for folder in folders)}:
        require_own(path)
    return folders


def run_one(
    entry: Entry, folder: CampaignFolder, *, as_json: bool
) -> list[CampaignResult]:
    """Run one campaign here; return what it shows.

    Raise RunWriteError, with nothing touched, if another client runs it.
    """
    with (
        folder.locked(),
        progress(output.progress_console(), live=not as_json) as view,
    ):
        (folder.path / ERROR_FILE).unlink(missing_ok=True)
        try:
            _run(entry, folder, view)
        except (KeyboardInterrupt, DbcheckError) as error:
            text = str(error) or "interrupted"
            with contextlib.suppress(RunWriteError):  # the first error is reported
                write(folder.path / ERROR_FILE, [text.encode(errors="replace"), b"\n"])
            view.line("ended", f"dbcheck campaign --resume {folder.path}")
            raise
    return [result(folder)]


def _run(entry: Entry, folder: CampaignFolder, view: PlainProgress) -> None:
    limits = WindowLimits()
    with assemble.opened_witness(entry, limits) as witness:
        rig = assemble.entry_rig(entry, witness, view, folder.runs, limits)
        rig = replace(rig, twice=folder.plan().twice)
        view.line("campaign", f"{folder.path}, seed {folder.plan().seed}")
        run_campaign(rig, folder)


def run_many(
    folders: Sequence[CampaignFolder], inventory: Path, *, yes: bool
) -> list[CampaignResult]:
    """Run each campaign in a process of its own; return what each shows.

    One that fails does not disturb the others.  Each writes to progress.log in its
    folder.  When this process ends, they end as by Ctrl-C, with the power restored.
    Raise UsageError where processes cannot be ended that way.
    """
    if not children.can_die_with_parent():
        raise UsageError(
            "several campaigns cannot run at once: setpriv is not installed",
            hint="Install the Debian package util-linux, or run one campaign after the "
            "other.",
        )
    view = PlainProgress(output.progress_console())
    started: list[Child] = []
    reported: set[tuple[str, str]] = set()
    try:
        for folder in folders:
            started.append(_started(folder, inventory, yes=yes))
        while any(child.process.poll() is None for child in started):
            time.sleep(POLL_S)
            _report_new(folders, view, reported)
    finally:
        _end(started)
    _report_new(folders, view, reported)
    return list(map(_ended, folders, started))


@dataclass(frozen=True, slots=True)
class Child:
    """A campaign in a process of its own.

    log: the file that it writes its progress to, after the first *since* bytes.
    """

    process: subprocess.Popen[bytes]
    log: Path
    since: int

    def ending(self) -> str:
        """Return how the process ended, and the reason in its log, if there is one."""
        status = self.process.returncode
        ended = f"exit status {status}" if status >= 0 else signal.Signals(-status).name
        text = self.log.read_bytes()[self.since :].decode(errors="replace")
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith("dbcheck: ")]
        last = [*lines, *errors][-1] if lines else "no output"
        return f"{ended}: {last.removeprefix('dbcheck: ')} ({self.log})"


def _started(folder: CampaignFolder, inventory: Path, *, yes: bool) -> Child:
    command = children.module("dbcheck", "campaign", "--json")
    command += ["--resume", str(folder.path), "--inventory", str(inventory)]
    command += ["--yes"] if yes else []  # consent is stored at the first cut only
    with writing(folder.path):
        log = private(folder.path / "progress.log", "ab")
    with log:
        process = subprocess.Popen(
            children.die_with_parent(command, signal.SIGTERM),
            env=children.environment(keep=os.environ),  # it reads the same secrets
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
            start_new_session=True,  # Ctrl-C is for us; we pass it on
        )
        return Child(process, Path(log.name), log.tell())


def _report_new(
    folders: Sequence[CampaignFolder],
    view: PlainProgress,
    reported: set[tuple[str, str]],
) -> None:
    """Write a line for each cycle that has ended since the last call."""
    for folder in folders:
        plan = folder.plan()
        for cycle in folder.cycles():
            name = (plan.name, f"{cycle.number}/{cycle.run}")
            if name not in reported:
                reported.add(name)
                place = f"{cycle.number}/{plan.cuts}" if cycle.number else "control"
                view.line(plan.name, f"{place} {cycle.verdict.value}: {cycle.reason}")


def _ended(folder: CampaignFolder, child: Child) -> CampaignResult:
    """Return what a campaign shows whose process has ended.

    Some reasons for an early end are only in its log: another client runs the campaign.
    """
    shown = result(folder)
    if shown.error or shown.finished:
        return shown
    return replace(shown, error=child.ending())


def _end(started: Sequence[Child]) -> None:
    """Interrupt the processes that still run, and wait for them."""
    running = [child.process for child in started if child.process.poll() is None]
    for process in running:
        process.send_signal(signal.SIGINT)
    for process in running:
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def exit_code(shown: Sequence[CampaignResult]) -> int:
    """Return the exit code for several campaigns: that of the worst."""
    codes = set(map(_exit_code, shown))
    return next(code for code in (FAIL, FAILED, INCONCLUSIVE, PASS) if code in codes)


def _exit_code(shown: CampaignResult) -> int:
    if shown.verdict is Verdict.FAIL:
        return FAIL
    if shown.error:
        return FAILED
    return INCONCLUSIVE if shown.verdict is Verdict.INCONCLUSIVE else PASS
