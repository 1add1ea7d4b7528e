"""Cuts by a switch that takes its time, while the sessions are held."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from dbcheck.base.system import now_us
from dbcheck.cycle.cycle import run_cycle
from dbcheck.cycle.outcome import Outcome, find_met_activity
from dbcheck.cycle.preflight.earlier_cycles import NOTHING_KNOWN, Known
from dbcheck.cycle.rig import Limits
from dbcheck.judge.cutmoment import measure_switch_lag_s
from dbcheck.lab.spec import DriveSpec, LabSpec
from dbcheck.model.cut import Cut
from dbcheck.model.depth import Depth
from dbcheck.model.moments import (
    Activity,
    PlannedCut,
    add_lag_to_hold,
    find_lag_range,
    plan_cut,
)
from dbcheck.model.verdict import Verdict
from tests.kit.nodes import with_node
from tests.kit.rigs import CUTS_MAX, FAMILIES, SEED, Bench, bench, quick

TAKES_S, SCATTERS_S = 1.5, 0.2
FLUSH_MS = 100.0
CUTS = 20

pytestmark = pytest.mark.root


class SlowSwitch:
    """A lab's switch that acts late, and does not know when the power went."""

    def __init__(self, real: Any) -> None:
        self._real, self._draw = real, random.Random(SEED)
        self.went_us = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def cut(self) -> Cut:
        asked_us = now_us()
        time.sleep(TAKES_S + self._draw.uniform(0, SCATTERS_S))
        cut: Cut = self._real.cut()
        self.went_us = cut.exact_us or 0
        return Cut(asked_us, None, cut.report)


@dataclass(frozen=True)
class Slow:
    """A lab with such a switch."""

    here: Bench
    switch: SlowSwitch

    @classmethod
    def of(cls, here: Bench) -> Slow:
        switch = SlowSwitch(here.rig.site.writer.power)
        rig = replace(with_node(here.rig, power=switch), used_epochs=set())
        return cls(replace(here, rig=rig), switch)

    def cut(self, drawn: PlannedCut, known: Known = NOTHING_KNOWN) -> Outcome:
        rig, seed = self.here.rig, SEED + drawn.number
        chosen = quick(sessions=8)
        outcome = run_cycle(rig, chosen, seed, moment=drawn, known=known)
        assert outcome.verdict is not Verdict.FAIL, outcome.judgement
        return outcome

    def shown(self, outcome: Outcome) -> Mapping[str, object]:
        """Return what is seen of a cut, by a clock that the judge does not have."""
        load, depth = outcome.load, outcome.case.shown_depth
        met = find_met_activity(outcome)
        assert load is not None and outcome.case.depth is not None
        assert met is not None
        return {
            "last ack, s": round(
                (self.switch.went_us - (load.last_ack_us or 0)) / 1e6, 3
            ),
            "in flight": not any(
                begun <= self.switch.went_us <= ended
                for begun, ended in load.quiet_us or ()
            ),
            "verdict": outcome.verdict.value,
            "depth": depth and depth.value,
            "canaries": str(outcome.case.depth.direct),
            "missed": met.missed,
        }


def slow_drive(engine: str) -> LabSpec:
    return LabSpec(engine, drive=DriveSpec(flush_ms=FLUSH_MS))


def test_a_slow_switch_cuts_while_nothing_is_in_flight(tmp_path: Path) -> None:
    """The moment of its cut was seen before, and tells when to hold the sessions."""
    with bench(slow_drive("mariadb"), tmp_path, Limits(return_s=120)) as here:
        slow = Slow.of(here)
        first = slow.cut(PlannedCut(1, Activity.STEADY, 0.6, 0.0))
        seen_s = measure_switch_lag_s(first.case)
        assert seen_s is not None and seen_s >= TAKES_S
        known = NOTHING_KNOWN.with_outcome(first)
        shown: list[Mapping[str, object]] = []
        while not shown or shown[-1]["missed"]:  # on a machine that stood still
            assert len(shown) < CUTS_MAX, shown
            drawn = PlannedCut(2 + len(shown), Activity.HOLD, 0.6, 0.1)
            outcome = slow.cut(add_lag_to_hold(drawn, find_lag_range([seen_s])), known)
            known = known.with_outcome(outcome)
            shown.append(slow.shown(outcome))
        assert not shown[-1]["in flight"], shown
        assert shown[-1]["depth"] == Depth.DRIVE.value, shown


@pytest.mark.soak
@pytest.mark.parametrize("engine", FAMILIES)
def test_nine_of_ten_honest_holds_of_a_slow_switch_show_the_drive(
    engine: str, tmp_path: Path
) -> None:
    """Each cut tells the next ones how long the switch takes; -s shows the table."""
    with bench(slow_drive(engine), tmp_path, Limits(return_s=120)) as here:
        slow = Slow.of(here)
        first = slow.cut(PlannedCut(0, Activity.STEADY, 1.0, 0.0))
        lags_s, known, deep = (
            [measure_switch_lag_s(first.case)],
            NOTHING_KNOWN.with_outcome(first),
            0,
        )
        for number in range(1, CUTS + 1):
            drawn = plan_cut(SEED, number, (1.0, 2.5), [Activity.HOLD])
            drawn = add_lag_to_hold(
                drawn, find_lag_range([one for one in lags_s if one])
            )
            outcome = slow.cut(drawn, known)
            known = known.with_outcome(outcome)
            lags_s.append(measure_switch_lag_s(outcome.case))
            shown = slow.shown(outcome)
            row = " | ".join(map(str, (number, *shown.values())))
            sys.stdout.write(f"{row}\n")
            held = drawn.activity is Activity.HOLD and not shown["missed"]
            passed = outcome.verdict is Verdict.PASS
            deep += held and passed and shown["depth"] == Depth.DRIVE.value
    assert deep >= 0.9 * CUTS
