"""A go-live check whose steps are played, for tests of the order and the proofs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from dbcheck.campaign.folder import CampaignFolder, Cycle
from dbcheck.inventory.entry import Entry
from dbcheck.model.cut import PowerState
from dbcheck.model.golive import GoLiveResult, StepId, StepResult
from dbcheck.model.verdict import ControlFacts, ControlOutcome, CycleVerdict
from dbcheck.power.kinds.exec import ExecConfig
from dbcheck.runner import assemble, campaign_run, golive
from dbcheck.runner.golive import GoLive, Guide
from dbcheck.runner.golive_folder import GoLiveFolder, GoLivePlan
from dbcheck.runner.golive_records import describe_paper
from dbcheck.runner.golive_setup import list_wiring
from dbcheck.runner.golive_steps import Check, Found
from tests.kit.rigs import plan as campaign_plan

ALL = [
    *("setup", "witness", "audit", "flushes", "power"),
    *("first-cut", "campaign", "papers"),
]


ENTRY = Entry(
    name="db1",
    target="postgresql://u@db1/x",
    witness="ssh://w/~/x",
    power=ExecConfig(cut=("pdu", "off")),
    inventory="/etc/inventory.yml",
)
SETUP = {
    "identity system_identifier": "7",
    "server": "PostgreSQL 15.18",
    "setting fsync": "on",
    "host": "db1",
    "kernel": "6.1.0",
    "drives of data": "model A",
}
FIRST_CYCLE = Cycle(1, "", "steady", 1.0, CycleVerdict.PASS, "it is there", "")
CONTROL = Cycle(
    *(0, "c", "steady", 1.0, CycleVerdict.INCONCLUSIVE, "a control", ""),
    control=ControlFacts("c", ControlOutcome.LOST, "it lost rows"),
)
NO_LOSS = Found("no loss")
CUTS = 3


@dataclass
class Desk:
    """A check whose steps are played, and what was done of it.

    found:  what a step finds; a step that is not named finds nothing wrong.
    during: called in the midst of a step, before its result.
    """

    folder: GoLiveFolder
    entry: Entry = ENTRY
    setup: dict[str, str] = field(default_factory=lambda: dict(SETUP))
    found: dict[StepId, Found] = field(default_factory=dict)
    during: dict[StepId, Callable[[], None]] = field(default_factory=dict)
    done: list[str] = field(default_factory=list)
    kept: list[StepId] = field(default_factory=list)
    repeated: list[StepId] = field(default_factory=list)
    ended: list[StepResult] = field(default_factory=list)
    agrees: bool | None = True
    cuts: int = CUTS
    control: bool = True
    may_cut: list[bool] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    to_come: list[int] = field(default_factory=list)
    state: PowerState = PowerState.OFF

    @property
    def switch(self) -> SimpleNamespace:
        """The switch, which shows when it restores the power."""
        return SimpleNamespace(
            state=lambda: self.state, restore=lambda: self.done.append("on")
        )

    def run(self) -> GoLiveResult:
        """Run it as a new client."""
        for each in (self.done, self.kept, self.repeated, self.ended):
            each.clear()
        guide = Guide(
            begin=lambda step, to_come: self.to_come.append(to_come),
            end=self.ended.append,
            keep=lambda result: self.kept.append(result.step),
            repeat=lambda step, changes: self.repeated.append(step),
            agree=lambda check: self.agrees,
        )
        return GoLive(self.check, guide).run()

    @property
    def check(self) -> Check:
        return Check(
            entry=self.entry,
            folder=self.folder,
            plan=self.folder.plan(),
            yes=False,
            i_know=False,
            accept_new_key=False,
            as_json=True,
            show=self.said.append,
            resume="dbcheck golive --resume x",
        )

    def read_setup(self, entry: Entry) -> dict[str, str]:
        if "setup" not in self.done:  # it is read after each cut, too
            self.done.append("setup")
        return {**list_wiring(entry), **self.setup}

    def play(self, step: StepId) -> Found:
        self.done.append(step.value)
        if act := self.during.get(step):
            act()
        return self.found.get(step, Found("all is well"))

    def write_papers(self, check: Check, folder: str) -> Found:
        found = self.play(StepId.PAPERS)
        file = check.folder.path / f"{folder}.html"
        file.write_text("a report")
        return replace(found, papers=(describe_paper(file, "the report"),))

    def cut(self, check: Check, step: StepId, name: str, *, is_resumed: bool) -> Found:
        path, cuts = check.folder.path / name, self.cuts
        if step is StepId.FIRST_CUT:
            cuts = 1
        if not is_resumed:
            made = campaign_plan(cuts=cuts, target=ENTRY.target)
            CampaignFolder.create(path, made)
        self.done.append(f"{name}{' again' if is_resumed else ''}")
        if act := self.during.get(step):
            act()
        folder, found = CampaignFolder.open(path), self.found.get(step, NO_LOSS)
        if step is StepId.FIRST_CUT and self.control:
            folder.add(CONTROL)
        verdict = CycleVerdict(found.verdict.value)
        for number in range(1, cuts + 1):
            folder.add(replace(FIRST_CYCLE, number=number, verdict=verdict))
        return found


def make_desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """Return the desk of a new check."""
    plan = GoLivePlan(
        created="2026-01-02T03:04:05+00:00",
        dbcheck="0",
        name="db1",
        target=ENTRY.target,
        inventory=ENTRY.inventory,
        cuts=CUTS,
        bound_ppm=None,
        control=True,
        seed=7,
    )
    desk = Desk(GoLiveFolder.create(tmp_path / "check", plan))
    steps = {step: lambda check, step=step: desk.play(step) for step in StepId}
    monkeypatch.setattr(golive, "STEPS", steps)
    monkeypatch.setattr(golive, "read_setup", lambda entry: desk.read_setup(entry))
    monkeypatch.setattr(golive, "run_cuts", desk.cut)
    monkeypatch.setattr(golive, "write_papers", desk.write_papers)
    monkeypatch.setattr(
        campaign_run, "require_fit", lambda entry, yes, i_know: desk.may_cut.append(yes)
    )
    monkeypatch.setattr(golive, "_await_server", lambda entry: None)
    monkeypatch.setattr(assemble, "make_scoped_switch", lambda entry, show: desk.switch)
    return desk
