"""The headline of each verdict: how many commits, of how many, in what, and no more."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dbcheck.judge.control import judge_control
from dbcheck.judge.diagnosis import ByClients
from dbcheck.judge.item import Item, ItemId, Status, doubt_of, meaning
from dbcheck.judge.verdict import (
    Judgement,
    judge_after_second_reading,
    judge_agreement,
    judge_conditions,
    judge_index,
    judge_rows,
    judge_unrecoverable,
)
from dbcheck.model.cut import CutClass
from dbcheck.model.depth import Depth
from dbcheck.model.verdict import Verdict, describe_bound, describe_proof
from dbcheck.report.words.run import caveats, headline, limits, proof
from dbcheck.rows.differences import SecondReading
from dbcheck.rows.loss import Broken, ConditionCheck, IndexLoss, Loss, Losses, LossKind
from dbcheck.rows.reconcile import Reconciliation
from dbcheck.rows.table import ITEM, LEDGER
from tests.kit.reports import run_result
from tests.kit.samples import CLEAN

FAIR = Item(ItemId.LOAD, Status.PRESENT, "at work", True)
AGAINST = Item(ItemId.HOST_DOWN, Status.CONTRADICTED, "its boot_id is the same", True)
ROWS = [kind for kind in LossKind if kind is not LossKind.UNEXPECTED]
AFTER = "this AC power cut (the drive's cache was lost, too)"


def lost(*kinds: LossKind) -> Reconciliation:
    """Return what a cycle found whose acked operations lost a row each, of a kind."""
    losses = (Loss(kind, 1, n, n, 5, LEDGER.name) for n, kind in enumerate(kinds, 1))
    kept = CLEAN.confirmed - len(kinds)
    return replace(CLEAN, kept=kept, losses=Losses.of(losses))


def judged(found: Reconciliation, *items: Item) -> Judgement:
    return judge_rows(found, [FAIR, *items], CutClass.AC, Depth.DRIVE)


def said(judgement: Judgement, **changed: object) -> str:
    """Return the headline that a report shows of a judgement."""
    verdict = judgement.verdict.value
    values = {"verdict": verdict, "reasons": judgement.reasons, **changed}
    return headline(run_result(values))


@pytest.mark.parametrize("kind", ROWS)
def test_a_loss_is_counted_in_commits_and_not_by_its_kind(kind: LossKind) -> None:
    text = said(judged(lost(kind, kind, kind)))
    assert " 3 of the 100 commits that it had acknowledged" in text
    assert text.endswith(f", in {AFTER}")
    gone = "damaged" not in text
    assert text.startswith("the server lost 3" if gone else "the server damaged 3")


def test_a_commit_that_lost_several_rows_is_counted_once() -> None:
    rows = [Loss(LossKind.TORN, 1, 4, n, 5, LEDGER.name) for n in range(7)]
    rows.append(Loss(LossKind.CORRUPT, 1, 5, 9, 5, LEDGER.name))
    text = said(judged(replace(CLEAN, losses=Losses.of(rows))))
    assert text.startswith("the server lost or damaged 2 of the 100 commits")


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        (LossKind.UNEXPECTED, "3 rows were there that this run cannot have written"),
        (LossKind.DUPLICATE, "3 rows were there once more than written"),
    ],
)
def test_a_further_row_that_names_a_commit_is_no_loss_of_that_commit(
    kind: LossKind, says: str
) -> None:
    """The commit's own rows are sound, and the report calls it intact."""
    rows = [Loss(kind, 1, n, n, 5, ITEM.name) for n in (1, 2, 3)]
    text = said(judged(replace(CLEAN, losses=Losses.of(rows))))
    assert text.startswith(says)
    assert "all 100 acknowledged commits of this cycle are intact" in text


def test_a_delete_that_is_undone_is_a_commit_that_is_lost() -> None:
    text = said(judged(lost(LossKind.RESURRECTED)))
    assert text.startswith("the server lost 1 of the 100 commits")


def every_fail() -> dict[str, Judgement]:
    """Return a FAIL of each sort; rows of several kinds are lost in one of them."""
    clean = judged(CLEAN)
    unstable = SecondReading(rows=9, index="it lacks id 3")
    gone = SecondReading(failure="it did not start")
    broken = ConditionCheck((Broken(1, 1, 1, 2, 3),))
    return {
        "rows": judged(lost(*ROWS)),
        "index": judge_index(clean, CLEAN, IndexLoss("it lacks id 3", 1, (3,))),
        "conditions": judge_conditions(clean, CLEAN, broken),
        "again": judge_after_second_reading(clean, CLEAN, unstable),
        "not again": judge_after_second_reading(clean, CLEAN, gone),
        "nodes": judge_agreement(clean, CLEAN, "a and b differ in 2 rows"),
        "server": not_back(answers=False),
        "table": not_back(answers=True),
    }


def not_back(*, answers: bool) -> Judgement:
    """Return the verdict on a table, or a server, that did not come back."""
    return judge_unrecoverable(
        "no such file",
        [Item(ItemId.NOT_RESTORED, Status.PRESENT, "", False)],
        missing=answers,
        explained=False,
        cut=AFTER,
        acks=100,
        answers=answers,
    )


@pytest.mark.parametrize("sort", every_fail())
def test_each_fail_says_how_many_commits_and_what_was_cut(sort: str) -> None:
    judgement = every_fail()[sort]
    assert judgement.verdict is Verdict.FAIL
    text = said(judgement)
    assert "100 " in text
    assert AFTER in text
    assert not [kind for kind in LossKind if kind.value in text]


def test_the_kinds_stand_below_the_headline_with_their_rows() -> None:
    lossy = {"losses": {"torn": 2, "stale": 1}, "verdict": "FAIL"}
    result = run_result({**lossy, "earlier_losses": {"missing-hole": 3}})
    below = "\n".join(caveats(result))
    for words in ("torn, 2 rows: ", "stale, 1 row: ", "hole, 3 rows of earlier cycles"):
        assert words in below


@pytest.mark.parametrize("depth", [None, *Depth])
@pytest.mark.parametrize("cut", CutClass)
def test_a_headline_claims_the_loss_of_a_cache_only_where_it_was_measured(
    cut: CutClass, depth: Depth | None
) -> None:
    for found in (CLEAN, lost(LossKind.MISSING_TAIL)):
        text = said(judge_rows(found, [FAIR], cut, depth))
        assert cut.description in text
        drive = depth is Depth.DRIVE and not cut.keeps_power
        kills = cut in (CutClass.PROCESS, CutClass.FAILOVER)
        assert ("the drive's cache was lost" in text) is drive
        cached = depth in (Depth.OS, Depth.DRIVE) and not drive and not kills
        assert ("the page cache was lost" in text) is cached


@pytest.mark.parametrize("depth", [None, *Depth])
def test_a_pass_of_a_killed_process_claims_no_power_cut(depth: Depth | None) -> None:
    judgement = judge_rows(CLEAN, [FAIR], CutClass.PROCESS, depth)
    assert judgement.verdict is Verdict.PASS
    text = said(judgement, lab={"cut": "process"}, cut_class="process")
    assert text.startswith("in a lab, all 100 acknowledged commits survived this kill")
    for claim in ("power", "drive", "cache"):
        assert claim not in text


def test_a_loss_that_the_evidence_of_the_cut_contradicts_says_so() -> None:
    text = said(judged(lost(LossKind.MISSING_TAIL), AGAINST))
    assert text.endswith(f"{AFTER}, which the evidence contradicts")
    uncut = judge_rows(lost(LossKind.MISSING_TAIL), [FAIR], never_cut=True)
    assert said(uncut).endswith("in a stop for which no power cut is on record")


def test_a_cut_that_does_not_count_says_why_and_what_to_do() -> None:
    text = said(judged(CLEAN, AGAINST))
    start = "this cut does not count: the host did not lose its power: its boot_id is"
    assert text.startswith(start)
    assert "dbcheck power test" in text
    waiting = said(judged(CLEAN, AGAINST), final=False)
    assert waiting.startswith("this cut has no verdict yet: ")


def test_a_control_and_a_lab_are_named() -> None:
    found = lost(LossKind.MISSING_TAIL, LossKind.MISSING_TAIL)
    control = judge_control(judged(found), found)
    text = said(control, control=True)
    assert text == "the control lost 2 of 100 acknowledged commits, as expected"
    assert said(judged(CLEAN), lab={"cut": "drive"}).startswith("in a lab, all 100 ")
    gone = every_fail()["server"]
    gone = judge_control(gone, None)
    assert said(gone, control=True, lab={"x": 1}).startswith(
        "in a lab, in a control, the "
    )
    blind = judge_control(judged(CLEAN), CLEAN)
    start = "this control does not count: the control lost nothing"
    assert said(blind, control=True).startswith(start)


def test_a_control_is_named_even_if_the_server_s_log_speaks_of_another() -> None:
    for reason in ("PANIC: could not read pg_control", "no space for the controller"):
        judgement = judge_unrecoverable(
            reason, [], missing=False, explained=False, answers=False
        )
        assert said(judgement, control=True).startswith("in a control, the server did")


def test_a_control_shows_that_losses_are_found_only_if_it_lost_what_it_should() -> None:
    for verdict, shows, says_nothing in (
        ("PASS", "It shows that this check finds losses.", True),
        ("INCONCLUSIVE", "It does not show that this check finds losses.", True),
        ("FAIL", "it counts against the server", False),
    ):
        text = proof(run_result({"control": True, "verdict": verdict}))
        assert text.startswith("This was a control")
        assert shows in text
        assert ("It says nothing about the server." in text) is says_nothing


def test_a_pass_says_that_one_cut_proves_almost_nothing() -> None:
    result = run_result({"reasons": judged(CLEAN).reasons})
    assert proof(result) == describe_proof(0, 1)
    assert "59 passes bound losses at 5%" in describe_proof(0, 1)
    assert describe_proof(0, 1) != describe_proof(0, 59)
    assert describe_bound(0, 1)[0] == "up to 95%"
    assert describe_bound(1, 1)[0] == "at least 5%"
    assert describe_bound(1, 4)[0] == "1.2% to 76%"
    assert describe_bound(0, 0) == ("", "")


def test_a_loss_that_clients_may_have_caused_in_part_says_how_much_of_it() -> None:
    found = lost(*[LossKind.PREPARED] * 3)
    for by_clients in (2, 0):
        clients = ByClients(by_clients, ("somebody else decided",))
        text = said(judge_rows(found, [FAIR], CutClass.AC, None, clients=clients))
        assert ("other clients may have caused 2 of these" in text) is bool(by_clients)


@pytest.mark.parametrize("cut", [CutClass.AC, CutClass.FAILOVER])
def test_a_flag_is_advised_only_where_it_can_measure_the_depth(cut: CutClass) -> None:
    first, *_ = limits(run_result({"cut_class": cut.value}))
    assert "was not measured" in first
    assert ("--target-host" in first) is (cut is not CutClass.FAILOVER)


def test_limits_count_the_acks_that_were_not_checked() -> None:
    for acked, says in ((103, "3 more acknowledgements reached"), (100, "")):
        shown = {"confirmed": 100, "unconfirmed": 0, "load": {"acked": {1: acked}}}
        found = [one for one in limits(run_result(shown)) if "not the witness" in one]
        assert [one[: len(says)] for one in found] == [says] * bool(says)


def test_limits_of_a_loss_do_not_say_that_nothing_was_at_risk() -> None:
    for which in (ItemId.LOAD, ItemId.REPLAYED, ItemId.SINCE_CHECKPOINT):
        item = {"item": which.value, "status": "absent", "reason": "-"}
        item = {**item, "required": True}
        shown = {"verdict": "FAIL", "losses": {"torn": 1}, "evidence": [item]}
        text = " ".join(limits(run_result(shown)))
        assert "nothing was" not in text
        assert "shows that" in text


@pytest.mark.parametrize("which", ItemId)
@pytest.mark.parametrize("status", [Status.ABSENT, Status.CONTRADICTED])
def test_each_item_has_words_for_a_cut_that_it_keeps_from_counting(
    which: ItemId, status: Status
) -> None:
    text = doubt_of(Item(which, status, "as seen", True))
    assert "as seen" in text
    assert text.startswith(meaning(which, status))
    assert not [each.value for each in Status if f" {each.value}: " in text]
