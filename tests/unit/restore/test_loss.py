"""When a server was lost, and how far back the restore of its archive may reach."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dbcheck.judge.case import Case
from dbcheck.judge.item import Item, ItemId, Status
from dbcheck.model.cut import Cut, Gone, PowerScope
from dbcheck.model.records import LoadRecord
from dbcheck.model.replication import Change, ReplicationSeen
from dbcheck.model.server import Refill
from dbcheck.model.unobserved import Gap, GapClock, Observed
from dbcheck.model.verdict import Verdict
from dbcheck.model.witness import LogFacts
from dbcheck.restore.judging import judge_restored
from dbcheck.restore.loss import Loss, Reach, find_law, find_loss, measure_reach
from dbcheck.rows.acks import TIME_UNIT_US
from dbcheck.rows.copied import LATEST_US, Copied, CopyLaw, CopyPlan, CopyRecord
from dbcheck.rows.loss import Loss as RowLoss
from dbcheck.rows.loss import Losses, LossKind
from dbcheck.rows.reconcile import Reconciliation
from tests.kit.nodes import after_of, having
from tests.kit.samples import CLEAN, FACTS, LOAD, MANIFEST

S = 1_000_000
RPO_S = 20.0
ASKED_US, SWITCHED_US = 100 * S, 103 * S
SENT_US, ACKED_US = 99_500_000, 100_500_000
EXACT = Cut(ASKED_US, 101 * S)
BY_SWITCH = Cut(ASKED_US, None, {"off_seen": True})
BY_HAND = Cut(None, None)
# Of the 60 commits that were old enough, all are there; of 9 later ones, 4.
KEPT = Copied(60, 3, 60, 9, 4, 0, 0, 81 * S, 98 * S)
ALL = replace(KEPT, open_kept=9, oldest_missing_us=None)
OFF = CopyRecord(restore_s=2.5, stayed_off=True)


def lost_load(cut: Cut = EXACT, gone: Gone = Gone.SILENT, **more: Any) -> LoadRecord:
    """Return the record of a load whose server was cut."""
    values = {
        "began_us": 10 * S,
        "last_ack_us": ACKED_US,
        "gone": gone,
        "gone_us": 101 * S,
        "in_flight": 2,
        "observed": (Observed(ACKED_US, (), SENT_US),),
        "farewells": (),
        "refusals": (),
        "switched_us": None if cut.by_hand else SWITCHED_US,
        "watched": None,
        **more,
    }
    return having(LOAD, cut=cut, host_lived=False, **values)


def of(
    load: LoadRecord | None = None,
    copied: Copied | None = KEPT,
    record: CopyRecord | None = OFF,
    *,
    found: Reconciliation | None = CLEAN,
    rpo_s: float = RPO_S,
    **changed: Any,
) -> Case:
    """Return the case of a restore after a loss; changed: of the reading's record."""
    plan = CopyPlan("postgresql://u@copy/d", rpo_s)
    case = Case(
        having(MANIFEST, facts=FACTS, copy=plan),
        load or lost_load(),
        None,
        having(after_of(changed.pop("facts", FACTS)), **changed),
        logs=(LogFacts(69, 3, 0, ACKED_US, ()),),
    )
    return replace(case, found=found, copied=copied, copy=record)


def lacking_one(**changed: Any) -> Case:
    """Return the case of a restore that lacks a commit which must be there."""
    one = RowLoss(LossKind.MISSING_TAIL, 1, 7, 7, 70 * S, "ledger")
    found = replace(CLEAN, confirmed=60, kept=59, losses=Losses.of([one]))
    old = replace(KEPT, by_order=0, due_kept=59, oldest_missing_us=70 * S)
    return of(found=found, copied=old, **changed)


def item(case: Case, wanted: ItemId) -> Item:
    """Return the item of that name in the evidence of *case*."""
    (found,) = (one for one in judge_restored(case).items if one.id is wanted)
    return found


def said(case: Case, verdict: Verdict) -> str:
    """Return the headline of *case*, whose verdict must be that one."""
    judgement = judge_restored(case)
    assert judgement.verdict is verdict, judgement.reasons
    return judgement.reasons[0]


@pytest.mark.parametrize(
    ("load", "loss"),
    [
        pytest.param(lost_load(), Loss(101 * S, 101 * S), id="a lab knows it"),
        pytest.param(
            lost_load(BY_SWITCH), Loss(SENT_US, SWITCHED_US), id="from sent to off"
        ),
        pytest.param(
            lost_load(BY_SWITCH, observed=(Observed(102 * S, (), 102 * S),)),
            Loss(102 * S, SWITCHED_US),
            id="it answered what was sent later",
        ),
        pytest.param(lost_load(BY_HAND), Loss(SENT_US, 101 * S), id="by hand"),
        pytest.param(
            lost_load(BY_SWITCH, switched_us=None),
            Loss(SENT_US, None),
            id="the switch reported nothing",
        ),
        pytest.param(
            lost_load(BY_SWITCH, observed=(Observed(111 * S, (), 110 * S),)),
            Loss(110 * S, None),
            id="it answered after the switch had reported its cut",
        ),
    ],
)
def test_a_loss_lies_between_the_last_life_and_the_report(
    load: LoadRecord, loss: Loss
) -> None:
    assert find_loss(of(load)) == loss


@pytest.mark.parametrize("gone", [Gone.NEVER, Gone.STALLED, Gone.UNSEEN])
def test_a_server_that_was_not_seen_to_go_is_not_lost(gone: Gone) -> None:
    case = of(lost_load(gone=gone), None)
    assert find_loss(case) is None
    assert find_law(case) is None
    said(case, Verdict.INCONCLUSIVE)


def test_a_host_that_runs_on_without_its_drives_is_not_lost() -> None:
    case = of(None, None)
    case = replace(case, manifest=having(case.manifest, scope=PowerScope.DRIVE))
    assert find_loss(case) is None
    assert item(case, ItemId.NOT_SHUT_DOWN).status is Status.CONTRADICTED


def test_a_commit_is_due_by_the_earliest_moment_of_the_loss() -> None:
    assert find_law(of(lost_load(BY_SWITCH))) == CopyLaw(SENT_US - 20 * S, None)


def test_where_none_may_be_lost_each_is_due_also_one_that_came_at_the_loss() -> None:
    """The server answered it, so it lived, whatever the switch says of the moment."""
    law = find_law(of(lost_load(BY_SWITCH), rpo_s=0))
    assert law == CopyLaw(LATEST_US, None)
    one = RowLoss(LossKind.MISSING_TAIL, 1, 7, 7, ACKED_US, "ledger")
    found = replace(CLEAN, confirmed=60, kept=59, losses=Losses.of([one]))
    last = replace(ALL, due_kept=59, open=0, oldest_missing_us=ACKED_US)
    case = of(lost_load(BY_SWITCH), last, found=found, rpo_s=0)
    said(case, Verdict.FAIL)


def test_how_far_it_reaches_back_is_known_between_both_moments() -> None:
    most_s = 5 + TIME_UNIT_US / 1e6
    assert measure_reach(of(lost_load(BY_SWITCH))) == Reach(1.5, most_s)
    assert measure_reach(of(copied=ALL)) == Reach(0.0, 0.0)
    unknown = lost_load(BY_SWITCH, switched_us=None)
    assert measure_reach(of(unknown)) == Reach(1.5, None)


def test_time_that_the_client_did_not_see_makes_what_is_missing_older() -> None:
    """It was suspended for 50 s, and read the reply 98 s after the start."""
    gap = Gap(90 * S, 98 * S, 58 * S, GapClock.BOOT)
    slept = lost_load(observed=(Observed(ACKED_US, (gap,), SENT_US),))
    reach = measure_reach(of(slept))
    assert reach is not None
    assert reach.least_s == 3.0
    assert reach.most_s == pytest.approx(61, abs=0.001)
    said(of(slept), Verdict.INCONCLUSIVE)


def test_an_objective_that_was_met_passes_and_says_what_was_lost() -> None:
    assert said(of(), Verdict.PASS) == (
        "the recovery point objective of 20 s was met: the restored copy lacks 5"
        " commits, the oldest acknowledged at most 3.1 s before the loss, and has all"
        " that came before it"
    )
    assert said(of(copied=ALL), Verdict.PASS) == (
        "no commit was lost with the server: the restored copy has all 69 acknowledged"
        " commits"
    )


def test_a_commit_that_is_older_than_the_objective_fails() -> None:
    assert said(lacking_one(), Verdict.FAIL) == (
        "1 of the 60 commits that the restored copy must have is missing. The oldest"
        " missing commit was acknowledged 31.0 s before the loss, and the objective is"
        " 20 s"
    )


def test_a_gap_within_the_objective_fails_by_the_order_alone() -> None:
    one = RowLoss(LossKind.MISSING_HOLE, 1, 7, 7, 95 * S, "ledger")
    found = replace(CLEAN, confirmed=60, kept=59, losses=Losses.of([one]))
    hole = replace(KEPT, due_kept=59, oldest_missing_us=95 * S)
    why = said(of(found=found, copied=hole), Verdict.FAIL)
    assert "Of these 60 commits, 3 must be there since later commits are there" in why
    assert "the objective" not in why


def test_a_moment_that_decides_both_ways_is_no_verdict() -> None:
    """It lived 18.5 s after the oldest missing commit, and was off after 22 s."""
    between = replace(KEPT, oldest_missing_us=81 * S)
    why = said(of(lost_load(BY_SWITCH), between), Verdict.INCONCLUSIVE)
    assert "acknowledged 18.500 to 22.000 s before it" in why
    said(of(lost_load(BY_SWITCH), ALL), Verdict.PASS)


def test_a_loss_of_unknown_end_passes_only_if_nothing_is_missing() -> None:
    unknown = lost_load(BY_SWITCH, switched_us=None)
    said(of(unknown), Verdict.INCONCLUSIVE)
    said(of(unknown, ALL), Verdict.PASS)


def test_a_load_that_was_shorter_than_the_objective_shows_nothing() -> None:
    short = replace(KEPT, by_order=60)
    assert item(of(copied=short), ItemId.OBJECTIVE).status is Status.ABSENT
    why = said(of(copied=short), Verdict.INCONCLUSIVE)
    assert "Let the load run longer than the objective" in why


@pytest.mark.parametrize(
    ("stayed_off", "status", "verdict"),
    [
        (True, Status.PRESENT, Verdict.PASS),
        (None, Status.ASSUMED, Verdict.PASS),
        (False, Status.CONTRADICTED, Verdict.INCONCLUSIVE),
    ],
)
def test_a_server_that_had_power_before_the_restore_may_have_shipped_more(
    stayed_off: bool | None, status: Status, verdict: Verdict
) -> None:
    case = of(record=replace(OFF, stayed_off=stayed_off))
    assert item(case, ItemId.STAYED_OFF).status is status
    said(case, verdict)


def test_a_loss_is_found_although_the_server_had_power_before_the_restore() -> None:
    """It can only have shipped more."""
    said(lacking_one(record=replace(OFF, stayed_off=False)), Verdict.FAIL)


MISSING = "relation does not exist"


def test_tables_that_were_not_due_yet_may_be_missing() -> None:
    """The client was killed before the cut, or it came before the objective."""
    gone: dict[str, Any] = {"failure": MISSING, "missing": True, "found": None}
    said(of(copied=None, **gone), Verdict.FAIL)
    said(of(lost_load(gone=Gone.UNSEEN), None, **gone), Verdict.INCONCLUSIVE)
    said(of(copied=None, rpo_s=92, **gone), Verdict.INCONCLUSIVE)


def test_a_damaged_table_is_a_failure_whenever_it_was_shipped() -> None:
    damaged: dict[str, Any] = {"failure": "invalid page", "found": None}
    said(of(lost_load(gone=Gone.UNSEEN), None, **damaged), Verdict.FAIL)


def test_an_orderly_shutdown_ships_the_rest_and_is_no_loss() -> None:
    closed = lost_load(BY_SWITCH, farewells=("terminating connection",))
    assert item(of(closed), ItemId.NOT_SHUT_DOWN).status is Status.CONTRADICTED
    said(of(closed), Verdict.INCONCLUSIVE)


def test_silence_alone_is_taken_for_a_loss_and_named_as_assumed() -> None:
    """A switch that shows no state, or a human."""
    for cut in (Cut(ASKED_US, None), BY_HAND):
        case = of(lost_load(cut))
        assert item(case, ItemId.NOT_SHUT_DOWN).status is Status.ASSUMED
        assert any("assumed, not seen" in one for one in judge_restored(case).reasons)


def test_a_restored_server_that_still_follows_another_is_not_read() -> None:
    case = of(refill=Refill("follows db1", "promote it"))
    assert "let the restore end its recovery" in said(case, Verdict.INCONCLUSIVE)


def test_a_replica_that_was_promoted_has_what_it_received() -> None:
    ended = Refill("was told to replicate", "Stop it", ended=True)
    said(of(refill=ended), Verdict.PASS)
    said(lacking_one(refill=ended), Verdict.FAIL)


def test_nobody_is_accused_by_a_server_that_may_still_apply_its_log() -> None:
    hidden = Refill("may follow another server", "Grant it", unknown=True)
    assert "Grant it" in said(of(refill=hidden), Verdict.INCONCLUSIVE)
    assert "Grant it" in said(lacking_one(refill=hidden), Verdict.INCONCLUSIVE)


def followed(*names: str, samples: int = 1000, last_us: int = 101 * S) -> Any:
    """Return what the server showed of its receivers, at each change."""
    changes = tuple(
        Change(number * S, (name,) if name else ()) for number, name in enumerate(names)
    )
    return ReplicationSeen(samples, 11 * S, last_us, S // 10, changes)


@pytest.mark.parametrize(
    ("seen", "status"),
    [
        pytest.param(None, Status.NOT_OBSERVABLE, id="not asked"),
        pytest.param(followed("receiver"), Status.PRESENT, id="all through the load"),
        pytest.param(followed(""), Status.ABSENT, id="none"),
        pytest.param(followed("receiver", ""), Status.ABSENT, id="not to its end"),
        pytest.param(followed("receiver", "", "receiver"), Status.ABSENT, id="a while"),
        pytest.param(
            followed("receiver", samples=90), Status.NOT_OBSERVABLE, id="too rarely"
        ),
        pytest.param(
            followed("receiver", last_us=98 * S), Status.NOT_OBSERVABLE, id="too early"
        ),
        pytest.param(
            followed("receiver", last_us=100 * S), Status.ASSUMED, id="a second before"
        ),
    ],
)
def test_no_commit_may_be_lost_only_where_a_receiver_is_awaited(
    seen: Any, status: Status
) -> None:
    case = of(lost_load(replication=seen), ALL, rpo_s=0)
    assert item(case, ItemId.RECEIVER).status is status
    if status not in (Status.PRESENT, Status.ASSUMED):
        assert judge_restored(case).verdict is Verdict.INCONCLUSIVE


def test_an_objective_above_none_needs_no_receiver_and_no_durable_settings() -> None:
    names = {one.id for one in judge_restored(of()).items}
    assert not names & {ItemId.RECEIVER, ItemId.SETTINGS}
