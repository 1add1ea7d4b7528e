"""Runs a go-live check step by step; it can be left at any point, and continued.

Each step is stored when it begins and when it ends.  A step that is over is repeated
only once what it depends on has changed (golive_setup.py).  A campaign that was left in
the midst of a cut is continued first, before the server is asked anything: it may be
without power.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from dbcheck.base import interrupt
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import DbcheckError, RunWriteError, UsageError
from dbcheck.campaign.totals import make_result
from dbcheck.cycle.preflight.earlier_cycles import WHO_REMOVED_ROWS
from dbcheck.inventory.entry import Entry
from dbcheck.model.cut import PowerState
from dbcheck.model.golive import GoLiveResult, StepId, StepResult, StepStatus
from dbcheck.model.verdict import Verdict
from dbcheck.report.html.page import format_golive_page
from dbcheck.report.words import campaign as campaign_words
from dbcheck.runner import assemble, campaign_run
from dbcheck.runner.golive_folder import PAGE, GoLiveFolder, StepRecord
from dbcheck.runner.golive_records import (
    find_failed_campaign,
    has_papers_of,
    list_left_campaigns,
    open_campaign,
    read_records,
    reopen,
)
from dbcheck.runner.golive_setup import (
    SWITCH,
    find_changes,
    list_shown_facts,
    list_wiring,
    read_setup,
    require_same_data,
)
from dbcheck.runner.golive_steps import (
    STEPS,
    Check,
    Found,
    list_commands,
    run_cuts,
    write_papers,
)
from dbcheck.runner.new_inventory import format_command
from dbcheck.runs import stored
from dbcheck.runs.folder import RunFolder

_POLL_S = 1.0
_ROUNDS_MAX = 2  # of all steps, if a cut changes what they rest on
_NOT_AGREED = "nothing was cut: you did not agree to it"


def require_same_target(entry: Entry, check: Check) -> None:
    """Raise UsageError unless *entry* still names the server of the check."""
    plan = check.plan
    if entry.target != plan.target:
        raise UsageError(
            f"host {entry.name}: {check.folder.path} is a go-live check of"
            f" {plan.target}, and the inventory now names {entry.target}",
            id=ErrorId.GOLIVE_OF_OTHER_TARGET,
            hint="Begin a new check, or correct the inventory.",
        )


@dataclass(frozen=True, slots=True)
class Guide:
    """Shows a check to the person who runs it.

    begin:  a step begins, with so many cuts of the campaign to come.
    end:    it is over, or stopped.  keep: it was done before.
    repeat: it was done before, and what it depends on has changed, a clause for each.
    agree:  asks whether the power may be cut now; None if nobody can be asked.
    """

    begin: Callable[[StepId, int], None]
    end: Callable[[StepResult], None]
    keep: Callable[[StepResult], None]
    repeat: Callable[[StepId, list[str]], None]
    agree: Callable[[Check], bool | None]


@dataclass
class GoLive:
    """One client's work on a check."""

    check: Check
    guide: Guide
    setup: Mapping[str, str] = field(default_factory=dict)
    unsettled: StepId | None = None
    changes: dict[StepId, list[str]] = field(default_factory=dict)
    was_asked: bool = False
    has_agreed: bool = False
    has_cut: bool = False

    def run(self) -> GoLiveResult:
        """Do the steps that are not over, until one stops; return what is known.

        The page is written in any case.  Raise DbcheckError, UsageError for what its
        user has to give, or KeyboardInterrupt; the check can then be continued.
        """
        with self.check.folder.locked():
            try:
                if self._has_failed():
                    self._hand_over_failure()
                elif self._settle_cut():
                    for _ in range(_ROUNDS_MAX):
                        if not self._do_steps():
                            break
            except BaseException:
                with contextlib.suppress(RunWriteError):  # the first error is reported
                    self._write_page()
                raise
            return self._write_page()

    def _write_page(self) -> GoLiveResult:
        """Write the page; if that fails, leave none that could be signed."""
        page = self.check.folder.path / PAGE
        try:
            result = make_golive_result(self.check)
            stored.write_file(page, [format_golive_page(result).encode()])
        except BaseException:
            with contextlib.suppress(OSError):
                page.unlink(missing_ok=True)
            raise
        return result

    def _do_steps(self) -> bool:
        """Do the steps until one stops; return True if a cut changed what they rest on.

        A boot may start another kernel, or a server with settings that waited for it.
        """
        for step in StepId:
            if not self._do_step(step):
                return False
            if self.has_cut:
                self.has_cut = False
                _await_server(self.check.entry)
                if self._read_setup():
                    return True
        return False

    def _settle_cut(self) -> bool:
        """Read the setup; return False if the check stops before that.

        A campaign that was left in the midst of a cut is continued first, to its end.
        """
        self._read_setup()
        if self.unsettled is None:
            return True
        if not self._do_step(self.unsettled):
            return False
        self.has_cut = False
        self._read_setup()
        return True

    def _has_failed(self) -> bool:
        """Return True if a cut showed a loss, which no repetition takes back."""
        records = (self.check.folder.record(step) for step in StepId)
        return any(
            record.result.step.is_campaign and record.result.verdict is Verdict.FAIL
            for record in records
            if record is not None
        )

    def _read_setup(self) -> bool:
        """Read the server and its host, unless a cut may have left it without power.

        Return True if steps that were done have to be repeated.
        """
        check = self.check
        self.unsettled = self._find_unsettled_step()
        if self.unsettled is not None:
            self.setup = list_wiring(check.entry)
            return False
        power = check.folder.record(StepId.POWER)
        if power is not None and _may_be_off(power):
            _restore_power(check, power.setup)
        self.setup = read_setup(check.entry)
        records = [check.folder.record(step) for step in StepId]
        for record in filter(None, records):
            require_same_data(record.setup, self.setup, check.entry.target)
        return self._reopen(filter(None, records))

    def _reopen(self, records: Iterable[StepRecord]) -> bool:
        """Store which steps are to be repeated; return True if there is one.

        It comes first, so a check that is then left does not show them as done.
        """
        reopened = False
        for record in records:
            step = record.result.step
            changes = find_changes(step, record.setup, self.setup)
            if not changes:
                continue
            self.changes[step] = changes
            if record.status.is_over or step.is_campaign:
                self.check.folder.write(reopen(record, "; ".join(changes)))
                reopened = True
        if reopened:
            self._write_page()
        return reopened

    def _find_unsettled_step(self) -> StepId | None:
        """Return the step whose campaign has a run that is not judged, if there is one.

        The server may then be without power.  Or the step whose campaign has a loss: it
        is not begun anew.
        """
        if step := find_failed_campaign(self.check.folder):
            return step
        for step in StepId:
            record = self.check.folder.record(step)
            campaign = open_campaign(self.check.folder, record)
            if campaign and any(campaign.list_runs_without_cycle()):
                return step
        return None

    def _do_step(self, step: StepId) -> bool:
        """Do a step unless it is over; return False if the check stops there."""
        record = read_records(self.check.folder, self.check.plan)[step]
        if step is self.unsettled:
            record = self.check.folder.record(step)
        elif record and record.status.is_over:
            self.guide.keep(record.result)
            return True
        if changes := self.changes.pop(step, None):
            self.guide.repeat(step, changes)
        self._reopen_papers(step)
        self.guide.begin(step, self._count_cuts_to_come(step, record))
        if step.cuts_power and find_failed_campaign(self.check.folder) is not step:
            self._require_agreement(step)
        return self._store_step(step, record)

    def _reopen_papers(self, step: StepId) -> None:
        """Store that papers have to be written anew, as *step* is done anew."""
        papers = self.check.folder.record(StepId.PAPERS)
        if papers and papers.status.is_over:
            why = f"the step {step.value} was done anew"
            self.check.folder.write(reopen(papers, why))

    def _require_agreement(self, step: StepId) -> None:
        if self.was_asked or (step is StepId.POWER and self.check.entry.power.attended):
            return
        answer = self.guide.agree(self.check)
        if answer is False:
            hint = f"When the host may lose its power: {self.check.resume}"
            if self.unsettled is not None:
                hint += (
                    ". It may be without power since the last cut:"
                    f" {_name_restore(self.check)}"
                )
            raise UsageError(_NOT_AGREED, id=ErrorId.FIRST_CUT_NEEDS_CONSENT, hint=hint)
        self.was_asked, self.has_agreed = True, bool(answer)

    def _store_step(self, step: StepId, record: StepRecord | None) -> bool:
        """Do a step and store what it found; return False if the check stops there."""
        check = self.check
        command = list_commands(check.plan)[step]
        begun = StepRecord(
            StepResult(step, StepStatus.BEGUN, command, began=_format_now()),
            self.setup,
        )
        folder, is_resumed = "", False
        if step.is_campaign:
            folder, is_resumed = self._find_campaign(step, record)
            if is_resumed and record:
                began, setup = record.result.began, record.setup
                result = replace(begun.result, began=began or begun.result.began)
                begun = replace(begun, result=result, setup=setup, left=record.left)
            elif record:
                begun = replace(begun, left=list_left_campaigns(record))
            begun = replace(begun, folder=folder)
        check.folder.write(begun)
        try:
            found = self._call(step, folder, is_resumed=is_resumed)
        except (KeyboardInterrupt, DbcheckError) as error:
            if isinstance(error, DbcheckError):
                _advise_to_resume(error, check)
            stopped = _make_stopped(begun.result, error)
            begun = check.folder.record(step) or begun  # it may have noted its cut
            with contextlib.suppress(RunWriteError):  # the first error is reported
                check.folder.write(replace(begun, result=stopped))
            self.guide.end(stopped)
            raise
        ended = _make_ended(begun, found)
        check.folder.write(replace(begun, result=ended, papers=found.papers))
        self.has_cut |= step.cuts_power and not found.left_out
        self.guide.end(ended)
        if found.verdict is Verdict.FAIL and step.is_campaign:
            self._hand_over_failure()
        return found.verdict is Verdict.PASS

    def _find_campaign(
        self, step: StepId, record: StepRecord | None
    ) -> tuple[str, bool]:
        """Return the name of a step's campaign folder, and whether it is continued.

        One without a PASS or a FAIL is begun anew once all its runs are judged, and the
        page has said that it came to no verdict, or that its rows are gone.
        """
        if record is not None and record.folder:
            path = self.check.folder.path / record.folder
            if not path.exists():
                return record.folder, False
            campaign = open_campaign(self.check.folder, record)
            if campaign is None:  # what else is there is not ours
                return self.check.folder.find_new_name(step), False
            if any(campaign.list_runs_without_cycle()):  # one may have lost rows
                return record.folder, True
            is_left = list_left_campaigns(record) != record.left
            if make_result(campaign).verdict is not Verdict.INCONCLUSIVE or not is_left:
                return record.folder, True
        return self.check.folder.find_new_name(step), False

    def _count_cuts_to_come(self, step: StepId, record: StepRecord | None) -> int:
        """Return how many cuts of the campaign are still to be made."""
        cuts = self.check.plan.cuts
        if step is not StepId.CAMPAIGN or not self._find_campaign(step, record)[1]:
            return cuts
        campaign = open_campaign(self.check.folder, record)
        made = make_result(campaign).statistics.cuts if campaign else 0
        return max(0, cuts - made)

    def _call(self, step: StepId, folder: str, *, is_resumed: bool) -> Found:
        check = self.check
        if step.is_campaign:
            agreed = replace(check, yes=check.yes or self.has_agreed)
            return run_cuts(agreed, step, folder, is_resumed=is_resumed)
        if step is StepId.PAPERS:
            campaign = check.folder.record(StepId.CAMPAIGN)
            assert campaign is not None, "papers come after the campaign"
            return write_papers(check, campaign.folder)
        if step is StepId.POWER and not check.entry.power.attended:
            yes = check.yes or self.has_agreed
            stored.require_room(check.folder.path)
            campaign_run.require_fit(check.entry, yes=yes, i_know=check.i_know)
        return STEPS[step](check)

    def _hand_over_failure(self) -> None:
        """Write report and bundle of a campaign that failed, unless they are there.

        The verdict is the same if that fails.
        """
        step = find_failed_campaign(self.check.folder)
        failed = self.check.folder.record(step) if step else None
        papers = read_records(self.check.folder, self.check.plan)[StepId.PAPERS]
        if failed is None or (papers and has_papers_of(papers, failed.folder)):
            return
        try:
            found = write_papers(self.check, failed.folder)
        except DbcheckError as error:
            self.check.show(f"report and bundle are not written: {error}")
            return
        command = list_commands(self.check.plan)[StepId.PAPERS]
        begun = StepRecord(
            StepResult(StepId.PAPERS, StepStatus.DONE, command, began=_format_now()),
            self.setup,
            papers=found.papers,
        )
        self.check.folder.write(replace(begun, result=_make_ended(begun, found)))


def make_golive_result(check: Check) -> GoLiveResult:
    """Make the result of a check from its folder; no server is asked."""
    plan, folder = check.plan, check.folder
    commands = list_commands(plan)
    records = read_records(folder, plan)
    steps = tuple(
        record.result if record else StepResult(step, StepStatus.OPEN, commands[step])
        for step, record in records.items()
    )
    papers = records[StepId.PAPERS]
    campaign = open_campaign(folder, records[StepId.CAMPAIGN])
    shown = make_result(campaign) if campaign else None
    setups = [record.setup for record in records.values() if record]
    subject = list_shown_facts({k: v for setup in setups for k, v in setup.items()})
    verdict = _find_verdict(steps)
    if find_failed_campaign(folder):
        verdict = Verdict.FAIL
    return GoLiveResult(
        name=plan.name,
        target=plan.target,
        witness=check.entry.witness,
        folder=str(folder.path),
        inventory=plan.inventory,
        created=plan.created,
        dbcheck=plan.dbcheck,
        verdict=verdict,
        planned_cuts=plan.cuts,
        bound_ppm=plan.bound_ppm,
        switch=f"{check.entry.power.kind.value} ({check.entry.power.cut_class.value})",
        clean=format_command(Path(plan.inventory), "clean", plan.name),
        steps=steps,
        subject=subject,
        campaign=shown.folder if shown else "",
        statistics=shown.statistics if shown else None,
        confirmed=shown.confirmed if shown else None,
        limits=tuple(campaign_words.limits(shown)) if shown else (),
        papers=papers.papers if papers else (),
    )


def measure_cut_s(folder: GoLiveFolder) -> float | None:
    """Return how long a cycle of the first cut's campaign took, None if not known."""
    record = read_records(folder, folder.plan())[StepId.FIRST_CUT]
    campaign = open_campaign(folder, record)
    if campaign is None or (record and record.status is not StepStatus.DONE):
        return None
    cycles = campaign.cycles()
    whole = [one for one in cycles if one.run and one.ended and not one.settled]
    if not whole:  # a client was lost in the midst of each
        return None
    last = whole[-1]
    began = RunFolder.open(campaign.runs / last.run).manifest().created
    took = datetime.fromisoformat(last.ended) - datetime.fromisoformat(began)
    return max(0.0, took.total_seconds())


def _find_verdict(steps: tuple[StepResult, ...]) -> Verdict:
    if any(step.verdict is Verdict.FAIL for step in steps):
        return Verdict.FAIL
    is_over = all(step.status.is_over for step in steps)
    return Verdict.PASS if is_over else Verdict.INCONCLUSIVE


def _advise_to_resume(error: DbcheckError, check: Check) -> None:
    """Have the hints that depend on the check name the command to type."""
    if error.id is ErrorId.FIRST_CUT_NEEDS_CONSENT:
        error.hint = f"If this is correct: {check.resume} --yes"
    if error.id is ErrorId.EARLIER_ROWS_LOST:
        error.hint = (
            f"{WHO_REMOVED_ROWS} Then: {check.resume}, which begins this step anew,"
            " keeps what was measured, and lists the missing rows for acceptance."
        )


def _make_stopped(result: StepResult, error: BaseException) -> StepResult:
    stopped = replace(
        result, status=StepStatus.STOPPED, ended=_format_now(), summary="interrupted"
    )
    if isinstance(error, DbcheckError):
        return replace(stopped, summary=str(error), fix=error.hint, error_id=error.id)
    return stopped


def _make_ended(begun: StepRecord, found: Found) -> StepResult:
    status = StepStatus.LEFT_OUT if found.left_out else StepStatus.DONE
    if found.verdict is not Verdict.PASS:
        status = StepStatus.STOPPED
    return replace(
        begun.result,
        status=status,
        verdict=found.verdict,
        ended=_format_now(),
        summary=found.summary,
        details=found.details,
        to_accept=(*begun.left, *found.to_accept),
        fix=found.fix,
    )


def _name_restore(check: Check) -> str:
    switched = check.entry.machine or check.plan.name
    return format_command(Path(check.plan.inventory), "power", "restore", switched)


def _restore_power(check: Check, setup: Mapping[str, str]) -> None:
    """Restore the power that a power test may have left off; wait for the server.

    setup: that of the power test.
    """
    entry = check.entry
    if entry.power.attended:
        return
    if setup.get(SWITCH) != entry.switched_host.fingerprint():
        check.show(
            f"the power test of {entry.name} did not end, and the inventory now names"
            " another switch: look whether the host has power"
        )
        return
    switch = assemble.make_scoped_switch(entry, check.show)
    state = switch.state()
    if state is PowerState.UNKNOWN:
        check.show(
            f"the power test of {entry.name} did not end, and its switch reports no"
            f" state. If the power is off: {_name_restore(check)}"
        )
    if state is not PowerState.OFF:
        return
    check.show(f"the power of {entry.name} is off since the power test; restoring it")
    switch.restore()
    _await_server(entry)


def _await_server(entry: Entry) -> None:
    """Wait for a server that was cut, as long as its inventory allows."""
    engine = assemble.make_engine(entry.target, entry.password)
    ends_s = time.monotonic() + entry.return_s
    while engine.ready() is not None and time.monotonic() < ends_s:
        interrupt.raise_if_interrupted()
        time.sleep(_POLL_S)


def _may_be_off(power: StepRecord) -> bool:
    """Return True if a power test may have left the power off."""
    is_left = power.status in (StepStatus.BEGUN, StepStatus.STOPPED)
    return is_left and power.told_to_cut


def _format_now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
