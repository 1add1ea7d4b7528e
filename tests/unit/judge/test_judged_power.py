"""A stored run judged: what its switch, or the hand at the plug, leaves unproven."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dbcheck.campaign import campaign
from dbcheck.campaign.folder import CampaignFolder, CampaignPlan
from dbcheck.campaign.totals import make_result
from dbcheck.config.workload_file import load
from dbcheck.cycle.judging import judge_run
from dbcheck.cycle.outcome import Outcome
from dbcheck.judge.cutmoment import find_cut_us
from dbcheck.judge.item import Item, ItemId, Status
from dbcheck.judge.result import to_values
from dbcheck.model.cut import Cut, CutClass, Gone, PowerScope, SwitchKind
from dbcheck.model.depth import Completed, Counted, Remains, Ring
from dbcheck.model.moments import Activity, PlannedCut, add_lag_to_hold
from dbcheck.model.records import LoadRecord, Manifest
from dbcheck.model.replication import ReplicationSeen
from dbcheck.model.verdict import Verdict
from dbcheck.model.watched import Watched, WatchTally
from dbcheck.report.words.campaign_table import cycle_cells
from dbcheck.runs.folder import RunFolder
from dbcheck.witness.log import FrameLogReader
from tests.kit.cases import case
from tests.kit.client_clocks import LOADED, clocks
from tests.kit.nodes import at_the_cut, cut_of, having, host_after
from tests.kit.stored_run import load_record, manifest, stored_run

LOAD = having(load_record(), canaries=None, gone=Gone.SILENT)  # no depth is known
LAST_US = LOAD.last_ack_us or 0
BY_HAND = having(LOAD, cut=Cut(None, None, {"off_s": 15.0}), gone_us=LAST_US)
DARK_S = 40.0


def switched(**report: object) -> LoadRecord:
    """What a switch that was told at the moment of the last ack reported."""
    return having(LOAD, cut=Cut(LAST_US, None, report))


def judged(
    folder: Path,
    record: LoadRecord,
    cut: CutClass,
    *,
    dark_s: float = DARK_S,
    first: Manifest | None = None,
    found: int = 0,
    answered_s: float | None = None,
    set_s: float = 0.0,
    boot: str = "c1",
) -> Outcome:
    """Judge a run whose host started its kernel so long after it was last heard.

    found: the newest block of the canaries, 0 for what is stored.
    answered_s: from the last ack to the server's next answer.
    set_s, boot: by how much the client's wall clock was set forward after the load, and
    the client's boot then.
    """
    first = having(first or manifest(), cut_class=cut)
    run = stored_run(RunFolder.create(folder, first))
    run.write_load(record)
    after = run.after()
    host = host_after(after)
    assert host.facts is not None
    last_us = max(LAST_US, at_the_cut(record).heard_us or 0)
    facts = replace(host.facts, uptime_s=60.0)
    remains = host.remains
    if found:
        remains = Remains("", (), 1, (Ring(((1, found),)),), 8)
    now_us = last_us + int((dark_s + 60) * 1e6)
    answered_us = now_us if answered_s is None else LAST_US + int(answered_s * 1e6)
    answered, now = (
        clocks(moment_us, set_us=int(set_s * 1e6), boot=boot)
        for moment_us in (answered_us, now_us)
    )
    run.write_after(
        having(
            after,
            answered=answered,
            host=replace(host, facts=facts, clocks=now, remains=remains),
        )
    )
    return judge_run(run, FrameLogReader())


def item(outcome: Outcome, name: str) -> Item:
    (found,) = (one for one in outcome.judgement.items if one.id.value == name)
    return found


def test_a_cut_by_hand_passes_and_says_what_nobody_saw(tmp_path: Path) -> None:
    outcome = judged(tmp_path, BY_HAND, CutClass.AC)
    assert outcome.verdict is Verdict.PASS
    claim, *details = outcome.judgement.reasons
    for name in ("time without power", "load at the cut"):
        assert item(outcome, name).status is Status.ASSUMED
        assert name in claim.partition("; assumed, not seen: ")[2]
        assert any(f"assumed, not seen: {name} (" in each for each in details)


@pytest.mark.parametrize(
    ("later_s", "verdict"), [(0.5, Verdict.PASS), (3.0, Verdict.INCONCLUSIVE)]
)
def test_acks_after_a_switch_had_cut_shorten_its_time(
    later_s: float, verdict: Verdict, tmp_path: Path
) -> None:
    """An outlet with a delay of its own says that it is off before it is."""
    record = replace(
        switched(off_s=15.0, off_seen=True),
        gone_us=LAST_US,
        switched_us=LAST_US - int(later_s * 1e6),
    )
    outcome = judged(tmp_path, record, CutClass.AC)
    assert outcome.verdict is verdict, outcome.judgement
    said = f"acks came for {later_s:.1f} s after"
    assert (said in outcome.judgement.reasons[0]) is (verdict is not Verdict.PASS)


@pytest.mark.parametrize("gone", [Gone.BROKEN, Gone.SILENT])
def test_a_host_that_outlived_the_load_was_not_cut_by_a_switch_either(
    gone: Gone, tmp_path: Path
) -> None:
    """The server crashed while the switch was yet to act."""
    record = having(switched(off_s=15.0, off_seen=True), gone=gone, host_lived=True)
    outcome = judged(tmp_path, record, CutClass.AC)
    assert outcome.verdict is Verdict.INCONCLUSIVE
    found = item(outcome, "load at the cut")
    assert found.status is Status.NOT_OBSERVABLE
    assert "host still answered" in found.reason


@pytest.mark.parametrize(
    ("gone", "late_s", "status"),
    [
        (Gone.SILENT, 0.9, Status.PRESENT),
        (Gone.SILENT, 12.0, Status.ASSUMED),
        (Gone.BROKEN, 0.9, Status.PRESENT),
        (Gone.BROKEN, 12.0, Status.NOT_OBSERVABLE),
    ],
)
def test_a_switch_that_took_long_does_not_date_its_cut(
    gone: Gone, late_s: float, status: Status, tmp_path: Path
) -> None:
    """The network may fail first: a lying drive writes out its cache meanwhile."""
    record = replace(
        switched(off_s=15.0, off_seen=True),
        gone=gone,
        gone_us=LAST_US,
        switched_us=LAST_US + int(late_s * 1e6),
    )
    found = item(judged(tmp_path, record, CutClass.AC), "load at the cut")
    assert found.status is status, found
    assert ("12.0 s" in found.reason) is (late_s > 1)


@pytest.mark.parametrize(
    ("beyond_s", "verdict"), [(0.9, Verdict.PASS), (3.0, Verdict.INCONCLUSIVE)]
)
@pytest.mark.parametrize("by_hand", [True, False])
def test_blocks_that_the_host_wrote_after_the_last_ack_show_a_later_cut(
    by_hand: bool, beyond_s: float, verdict: Verdict, tmp_path: Path
) -> None:
    """The network failed first: a lying drive wrote out its cache meanwhile."""
    record = BY_HAND if by_hand else switched(off_s=15.0, off_seen=True)
    # Of 5 blocks one was reported, so two intervals are certain.
    canaries = Completed(Counted(9, 2), (Counted(1, 1),), LAST_US, int(beyond_s * 5e5))
    record = having(record, gone_us=LAST_US, canaries=canaries)
    outcome = judged(tmp_path, record, CutClass.AC, found=5)
    assert outcome.verdict is verdict, outcome.judgement
    found = item(outcome, "load at the cut")
    said = f"kept writing for at least {beyond_s:.1f} s after the last ack"
    assert (said in found.reason) is (verdict is not Verdict.PASS)


LIVED_S = 2.1


def looked(*connected_us: int, last_us: int) -> Watched:
    """Return looks over connections of those times, the last at *last_us*."""
    tally = WatchTally({})
    for there_us in connected_us:
        tally.connected(there_us)
        tally.add(there_us + 1, {}, there_us + 2)
    tally.add(last_us, {}, last_us + 3)
    return tally.watched()


LIVED_US = LAST_US + int(LIVED_S * 1e6)
ANSWERED = looked(LAST_US - 9_000_000, last_us=LIVED_US)
FOLLOWED = ReplicationSeen(9, LAST_US - 9_000_000, LIVED_US, 40_000, ())
SWITCHED = cut_of(switched(off_s=15.0, off_seen=True))


@pytest.mark.parametrize("cut", [SWITCHED, cut_of(BY_HAND)], ids=["switch", "by hand"])
@pytest.mark.parametrize(
    "answered",
    [
        pytest.param({"watched": ANSWERED}, id="the server's connection"),
        pytest.param(
            {"watched": replace(ANSWERED, connections=())}, id="an old record"
        ),
        pytest.param({"sessions_watched": ANSWERED}, id="sessions of the load"),
        pytest.param({"host_watched": ANSWERED}, id="the host's agent"),
        pytest.param(
            {"canaries": Completed(Counted(0, 0), (), LIVED_US)}, id="the canaries"
        ),
        pytest.param({"replication": FOLLOWED}, id="who is asked for its standbys"),
    ],
)
def test_what_answered_after_the_last_ack_had_its_power_until_then(
    answered: dict[str, Any], cut: Cut, tmp_path: Path
) -> None:
    """A drive that writes nothing more for a while may write out its cache first."""
    record = having(LOAD, cut=cut, gone_us=LAST_US, host_lived=False, **answered)
    outcome = judged(tmp_path, record, CutClass.AC)
    assert outcome.verdict is Verdict.INCONCLUSIVE, outcome.judgement
    found = item(outcome, "load at the cut")
    assert found.status is Status.ABSENT
    assert f"answered {LIVED_S:.1f} s after the last ack" in found.reason
    assert outcome.before_cut_s(LAST_US) == LIVED_S


@pytest.mark.parametrize(
    "answered",
    [
        pytest.param(looked(1, LIVED_US - 2, last_us=LIVED_US), id="it is up again"),
        pytest.param(looked(1, last_us=LAST_US + 400_000), id="a young ack"),
        pytest.param(looked(last_us=LIVED_US), id="an old record, of what came later"),
        pytest.param(WatchTally({}).watched("too many connections"), id="nothing"),
    ],
)
@pytest.mark.parametrize("by", ["watched", "host_watched"])
def test_only_what_connected_before_the_cut_shows_that_it_came_later(
    by: str, answered: Watched, tmp_path: Path
) -> None:
    record = having(switched(off_s=15.0, off_seen=True), **{by: answered})
    outcome = judged(tmp_path, replace(record, gone_us=LAST_US), CutClass.AC)
    assert item(outcome, "load at the cut").status is Status.PRESENT


def test_a_loss_is_a_fail_however_long_the_server_answered(tmp_path: Path) -> None:
    run = stored_run(
        RunFolder.create(tmp_path, having(manifest(), cut_class=CutClass.AC))
    )
    run.write_load(having(LOAD, cut=SWITCHED, gone_us=LAST_US, watched=ANSWERED))
    rows = run.survivors("ledger", run.after().stored_rows("ledger"))
    kept = [one for one in next(rows) if one["seq"] != 3]
    stored = {"ledger": run.write_survivors("ledger", [np.array(kept)])}
    run.write_after(replace(run.after(), survivors=stored))
    outcome = judge_run(run, FrameLogReader())
    assert item(outcome, "load at the cut").status is Status.ABSENT
    assert outcome.verdict is Verdict.FAIL, outcome.judgement


def test_a_moment_that_a_lab_knows_is_not_dated_anew() -> None:
    record = having(LOAD, watched=ANSWERED, cut=Cut(LAST_US, LAST_US + 1))
    assert find_cut_us(case(load=record)) == LAST_US + 1
    alone = having(record, cut=Cut(LAST_US, None), gone_us=LAST_US)
    assert find_cut_us(case(load=alone, scope=PowerScope.DRIVE)) == LAST_US


@pytest.mark.parametrize(
    "cut", [CutClass.AC, CutClass.HYPERVISOR_KILL, CutClass.UNKNOWN]
)
def test_a_container_that_was_restarted_is_no_host_that_went_down(
    cut: CutClass, tmp_path: Path
) -> None:
    """Its boot_id may be another one; the kernel below it ran on."""
    record = switched(off_s=15.0, off_seen=True)
    outcome = judged(tmp_path, record, cut, dark_s=-4431.0)
    assert outcome.verdict is Verdict.INCONCLUSIVE
    found = item(outcome, "host went down")
    assert found.status is Status.CONTRADICTED
    assert "kernel started 4431 s before it was last heard" in found.reason
    assert not any("-4431" in one.reason for one in outcome.judgement.items)


# By how much the client's wall clock was set forward between the load and the reading.
SET_S = [0.0, 60.0, -120.0, 7200.0]


@pytest.mark.parametrize("set_s", SET_S)
@pytest.mark.parametrize(
    ("back_s", "verdict"), [(4.0, Verdict.INCONCLUSIVE), (15.0, Verdict.PASS)]
)
@pytest.mark.parametrize("by", ["kernel", "answer"])
def test_a_clock_that_is_set_hides_no_power_that_was_back_too_soon(
    by: str, back_s: float, verdict: Verdict, set_s: float, tmp_path: Path
) -> None:
    """NTP sets a client's clock once the network is back."""
    outcome = judged(
        tmp_path,
        switched(off_s=15.0, off_seen=True),
        CutClass.AC,
        dark_s=back_s if by == "kernel" else DARK_S,
        answered_s=back_s if by == "answer" else None,
        set_s=set_s,
    )
    assert outcome.verdict is verdict, outcome.judgement
    status = item(outcome, "time without power").status
    assert (status is Status.ASSUMED) is (verdict is Verdict.PASS)


@pytest.mark.parametrize("set_s", SET_S)
def test_a_clock_that_is_set_accuses_no_host_of_having_run_on(
    set_s: float, tmp_path: Path
) -> None:
    record = switched(off_s=15.0, off_seen=True)
    outcome = judged(tmp_path, record, CutClass.AC, dark_s=15.0, set_s=set_s)
    assert item(outcome, "host went down").status is Status.PRESENT


@pytest.mark.parametrize(
    ("set_s", "status"),
    [
        (0.0, Status.CONTRADICTED),
        (-120.0, Status.CONTRADICTED),
        (60.0, Status.CONTRADICTED),
        (7200.0, Status.NOT_OBSERVABLE),  # or the client stood still for so long
    ],
)
def test_a_clock_that_is_set_hides_no_container_that_was_restarted(
    set_s: float, status: Status, tmp_path: Path
) -> None:
    record = switched(off_s=15.0, off_seen=True)
    outcome = judged(tmp_path, record, CutClass.AC, dark_s=-4431.0, set_s=set_s)
    assert item(outcome, "host went down").status is status
    assert outcome.verdict is Verdict.INCONCLUSIVE


@pytest.mark.parametrize("dark_s", [4.0, 15.0, -4431.0])
@pytest.mark.parametrize("unknown", ["booted", "old record"])
def test_on_clocks_of_another_boot_nothing_bounds_the_time_without_power(
    unknown: str, dark_s: float, tmp_path: Path
) -> None:
    """Also where the records are of a dbcheck that did not note them."""
    record, boot = switched(off_s=15.0, off_seen=True), "c2"
    if unknown == "old record":
        record, boot = replace(record, clocks=None), "c1"
    outcome = judged(tmp_path, record, CutClass.AC, dark_s=dark_s, boot=boot)
    assert outcome.verdict is Verdict.INCONCLUSIVE
    assert item(outcome, "time without power").status is Status.ASSUMED
    assert item(outcome, "host went down").status is Status.NOT_OBSERVABLE


def test_a_client_that_slept_while_the_load_ran_blames_no_host(tmp_path: Path) -> None:
    """Its monotonic clock stood still for the time in which the host went down."""
    began, ended = LOADED
    slept_us = 90 * 10**6
    ended = replace(ended, boot_us=ended.boot_us + slept_us)
    record = replace(switched(off_s=15.0, off_seen=True), clocks=(began, ended))
    outcome = judged(tmp_path, record, CutClass.AC, dark_s=20.0)
    assert item(outcome, "host went down").status is Status.NOT_OBSERVABLE


@pytest.mark.parametrize("assumed", [True, False])
def test_a_class_that_nobody_declared_is_assumed(assumed: bool, tmp_path: Path) -> None:
    first = having(manifest(), class_assumed=assumed)
    outcome = judged(tmp_path, BY_HAND, CutClass.AC, first=first)
    assert outcome.verdict is Verdict.PASS
    reasons = "\n".join(outcome.judgement.reasons)
    assert ("assumed, not seen: class of the cut (" in reasons) is assumed
    if assumed:
        assert item(outcome, "class of the cut").status is Status.ASSUMED
    assert to_values(outcome.result)["class_assumed"] is assumed


def test_an_unknown_boot_before_the_load_bounds_no_time_off(tmp_path: Path) -> None:
    first = manifest()
    assert first.writer.host is not None
    unknown = replace(
        first.writer.host, facts=replace(first.writer.host.facts, boot_id="")
    )
    outcome = judged(
        tmp_path, BY_HAND, CutClass.AC, dark_s=4.0, first=having(first, host=unknown)
    )
    assert "kernel started" not in " ".join(outcome.judgement.reasons)


def test_a_hand_that_gave_the_power_back_at_once_is_no_pass(tmp_path: Path) -> None:
    outcome = judged(tmp_path, BY_HAND, CutClass.AC, dark_s=4.0)
    assert outcome.verdict is Verdict.INCONCLUSIVE
    assert "kernel started 4.0 s after" in " ".join(outcome.judgement.reasons)


@pytest.mark.parametrize(
    ("answered_s", "verdict"), [(2.2, Verdict.INCONCLUSIVE), (40.0, Verdict.PASS)]
)
def test_an_answer_bounds_how_long_a_hand_left_the_power_off(
    answered_s: float, verdict: Verdict, tmp_path: Path
) -> None:
    outcome = judged(tmp_path, BY_HAND, CutClass.AC, answered_s=answered_s)
    assert outcome.verdict is verdict, outcome.judgement
    said = "the server answered again 2.2 s after the last ack"
    found = said in " ".join(outcome.judgement.reasons)
    assert found is (verdict is not Verdict.PASS)


@pytest.mark.parametrize(
    ("later_s", "status"),
    [(0.4, Status.ASSUMED), (0.0, Status.ASSUMED), (30.0, Status.ABSENT)],
)
def test_the_last_report_of_the_host_is_taken_to_date_a_cut_by_hand(
    later_s: float, status: Status, tmp_path: Path
) -> None:
    """A server that hung while its host lived on was idle when the power went."""
    record = having(BY_HAND, heard_us=LAST_US + int(later_s * 1e6))
    found = item(judged(tmp_path, record, CutClass.AC), "load at the cut")
    assert found.status is status
    assert f"{later_s:.3f} s" in found.reason


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        pytest.param({"gone": Gone.BROKEN}, "ended by itself", id="it crashed first"),
        pytest.param(
            {"host_lived": True}, "host still answered", id="its host lived on"
        ),
    ],
)
@pytest.mark.parametrize("heard_us", [None, LAST_US + 1000])
def test_a_server_that_went_before_the_hand_cut_is_no_pass(
    seen: dict[str, Any], words: str, heard_us: int | None, tmp_path: Path
) -> None:
    """The canaries end with the load, so their last report dates nothing then."""
    record = having(BY_HAND, heard_us=heard_us, **seen)
    outcome = judged(tmp_path, record, CutClass.AC)
    assert outcome.verdict is Verdict.INCONCLUSIVE
    found = item(outcome, "load at the cut")
    assert found.status is Status.NOT_OBSERVABLE
    assert words in found.reason
    assert outcome.before_cut_s(LAST_US) is None


@pytest.mark.parametrize(
    ("cut", "report", "verdict", "status"),
    [
        pytest.param(
            *(CutClass.AC, {"off_s": 15.0, "off_seen": True}, Verdict.PASS),
            *(Status.ASSUMED,),
            id="a program that looks",
        ),
        pytest.param(
            *(CutClass.AC, {"off_s": 15.0, "off_seen": False}, Verdict.PASS),
            *(Status.ASSUMED,),
            id="one that cannot look",
        ),
        pytest.param(
            *(CutClass.AC, {}, Verdict.INCONCLUSIVE, Status.NOT_OBSERVABLE),
            id="an outlet that comes back by itself",
        ),
        pytest.param(
            *(CutClass.AC, {"off_s": 0, "off_seen": True}, Verdict.INCONCLUSIVE),
            *(Status.NOT_OBSERVABLE,),
            id="for no time at all",
        ),
        pytest.param(*(CutClass.RESET, {}, Verdict.PASS, Status.ABSENT), id="a reset"),
        pytest.param(
            *(CutClass.UNKNOWN, {}, Verdict.PASS, Status.NOT_OBSERVABLE),
            id="undeclared",
        ),
    ],
)
def test_what_is_known_of_the_time_decides(
    cut: CutClass,
    report: dict[str, Any],
    verdict: Verdict,
    status: Status,
    tmp_path: Path,
) -> None:
    outcome = judged(tmp_path, switched(**report), cut)
    assert outcome.verdict is verdict, outcome.judgement
    assert item(outcome, "time without power").status is status
    reasons = "\n".join(outcome.judgement.reasons)
    if cut in (CutClass.RESET, CutClass.UNKNOWN):
        assert "says nothing about their caches" in reasons
    assumed = "assumed, not seen: time without power (" in reasons
    assert assumed is (status is Status.ASSUMED)
    assert to_values(outcome.result)["cut_class"] == cut.value


@pytest.mark.parametrize(
    ("kind", "status"),
    [(SwitchKind.FENCE, Status.PRESENT), (SwitchKind.EXEC, Status.ASSUMED)],
)
def test_the_word_of_a_users_program_is_a_named_assumption(
    kind: SwitchKind, status: Status, tmp_path: Path
) -> None:
    """Either passes; an agent reads the state from its device, a program may not."""
    first = having(manifest(), power=kind)
    record = switched(off_s=15.0, off_seen=True)
    outcome = judged(tmp_path, record, CutClass.AC, first=first)
    assert outcome.verdict is Verdict.PASS, outcome.judgement
    assert item(outcome, ItemId.TIME_OFF.value).status is status


@pytest.mark.parametrize(
    ("drawn", "changed", "activity"),
    [
        ("checkpoint", {"checkpoint_us": (LAST_US, None)}, "checkpoint"),
        ("checkpoint", {"checkpoint_us": (LAST_US, LAST_US + 100)}, "steady"),
        ("checkpoint", {"no_checkpoint": "must be superuser"}, "steady"),
        ("checkpoint", {}, ""),
        ("ramp-up", {"began_us": LAST_US - 1_900_000}, "ramp-up"),
        ("ramp-up", {"began_us": LAST_US - 2_000_000}, "steady"),
    ],
)
def test_a_campaign_counts_what_went_on_and_not_what_was_drawn(
    drawn: str, changed: dict[str, Any], activity: str, tmp_path: Path
) -> None:
    """Within a second of when it was due, as with a switch that takes that long."""
    moment = PlannedCut(1, Activity(drawn), 1.0, 0.1)
    run = RunFolder.create(tmp_path, replace(manifest(), moment=moment))
    stored_run(run)
    went_us = LAST_US + 300  # after the last ack
    load = replace(LOAD, due_us=went_us - 900_000, **changed)
    run.write_load(load)
    folder = CampaignFolder.create(tmp_path / "campaign", campaign_plan())
    campaign.add_outcome(folder, judge_run(run, FrameLogReader()))
    (cycle,) = folder.cycles()
    assert cycle.activity == activity
    assert bool(cycle.missed) is (activity != drawn)
    assert (cycle.drawn, cycle.after_s) == (drawn, 1.0)
    assert cycle.cut_s == round((went_us - load.began_us) / 1e6, 3)
    shown = make_result(folder)
    assert shown.activities == ({activity: 1} if activity else {})
    assert (shown.cycles[0].drawn, shown.cycles[0].cut_s) == (drawn, cycle.cut_s)


def test_a_switch_that_scatters_draws_no_hold_and_the_campaign_says_so(
    tmp_path: Path,
) -> None:
    hold = PlannedCut(1, Activity.HOLD, 1.0, 0.1)
    run = RunFolder.create(
        tmp_path, replace(manifest(), moment=add_lag_to_hold(hold, (0, 2)))
    )
    stored_run(run)
    run.write_load(replace(LOAD, due_us=LAST_US))
    folder = CampaignFolder.create(tmp_path / "campaign", campaign_plan())
    campaign.add_outcome(folder, judge_run(run, FrameLogReader()))
    shown = make_result(folder)
    assert shown.activities == {"steady": 1}
    assert shown.cycles[0].drawn == "hold"
    assert "2.0 s" in shown.cycles[0].missed


def test_a_cycle_whose_client_was_lost_has_no_known_activity(
    tmp_path: Path,
) -> None:
    """Where the cut fell is not known, so it counts for no activity."""
    drawn = PlannedCut(1, Activity.RAMP_UP, 1.0, 0.0)
    run = stored_run(RunFolder.create(tmp_path, replace(manifest(), moment=drawn)))
    run.write_load(replace(LOAD, due_us=None))
    folder = CampaignFolder.create(tmp_path / "campaign", campaign_plan())
    campaign.add_outcome(folder, judge_run(run, FrameLogReader()))
    (cycle,) = folder.cycles()
    assert (cycle.activity, cycle.drawn) == ("", Activity.RAMP_UP.value)
    assert cycle.missed
    result = make_result(folder)
    assert "ramp-up was drawn" in cycle_cells(result.cycles[0])
    assert result.activities == {}


def campaign_plan() -> CampaignPlan:
    return CampaignPlan(
        "c", "0", "n", "postgresql://u@h/d", 1, load("insert"), 3, 9, None, False, True
    )


@pytest.mark.parametrize("meant_s", ["15", None, [], float("nan")])
def test_a_time_without_power_that_is_no_number_is_not_reached(
    tmp_path: Path, meant_s: object
) -> None:
    run = stored_run(RunFolder.create(tmp_path, manifest()))
    load = run.load()
    assert load is not None
    cut = replace(cut_of(load), report={"off_s": meant_s})
    run.write_load(having(load, cut=cut, canaries=None))  # no depth is known
    items = judge_run(run, FrameLogReader()).judgement.items
    (item,) = [item for item in items if item.id.value == "time without power"]
    assert item.status is Status.NOT_OBSERVABLE
