"""What a control's losses, or their absence, say."""

from __future__ import annotations

import dataclasses
from dataclasses import replace

import pytest

from dbcheck.judge.control import judge_control, judge_control_item
from dbcheck.judge.diagnosis import ByClients
from dbcheck.judge.item import Item, ItemId, Status, doubt_of
from dbcheck.judge.verdict import (
    NO_COMMIT,
    judge_index,
    judge_rows,
    judge_unrecoverable,
)
from dbcheck.model.cut import CutClass
from dbcheck.model.depth import Depth
from dbcheck.model.verdict import ControlFacts, ControlOutcome, Verdict
from dbcheck.rows.loss import IndexLoss, Loss, Losses, LossKind
from dbcheck.rows.reconcile import Reconciliation
from dbcheck.rows.table import LEDGER
from tests.kit.cases import case

CLEAN = Reconciliation(100, 100, 1, 0, 0, 0, {}, Losses.of(()))
FAIR = Item(ItemId.LOAD, Status.PRESENT, "", True)
IDLE = Item(ItemId.LOAD, Status.ABSENT, "idle", True)
SAME = Item(ItemId.RESTARTED, Status.CONTRADICTED, "it did not", True)
NOTHING = "the control lost nothing"
OF_TWO = "the control lost 2 of 100 acknowledged commits"
RUN = "20260102-030405-a1b2c3"


def item_of(controls: list[ControlFacts]) -> Item:
    item = judge_control_item(case(controls=tuple(controls)))
    assert item is not None
    return item


def lost(*kinds: LossKind) -> Reconciliation:
    """Return what a cycle found that lost a row of each of these kinds."""
    losses = Losses.of(Loss(kind, 1, 9, 9, 5, LEDGER.name) for kind in kinds)
    return dataclasses.replace(CLEAN, kept=100 - len(losses), losses=losses)


TAIL = lost(LossKind.MISSING_TAIL, LossKind.MISSING_TAIL)


@pytest.mark.parametrize(
    ("found", "item", "verdict", "words"),
    [
        pytest.param(
            TAIL,
            FAIR,
            Verdict.PASS,
            f"{OF_TWO}, as expected",
            id="a tail",
        ),
        pytest.param(CLEAN, FAIR, Verdict.INCONCLUSIVE, NOTHING, id="nothing"),
        pytest.param(
            TAIL,
            IDLE,
            Verdict.INCONCLUSIVE,
            f"{OF_TWO}, but {doubt_of(IDLE)}",
            id="a tail in no fair test",
        ),
        pytest.param(
            CLEAN,
            SAME,
            Verdict.INCONCLUSIVE,
            f"{NOTHING}, but {doubt_of(SAME)}",
            id="nothing, for no cut came",
        ),
        pytest.param(
            dataclasses.replace(CLEAN, confirmed=0, kept=0),
            FAIR,
            Verdict.INCONCLUSIVE,
            f"{NOTHING}, but {NO_COMMIT}",
            id="no acks",
        ),
        pytest.param(
            dataclasses.replace(TAIL, foreign=1),
            FAIR,
            Verdict.INCONCLUSIVE,
            f"{OF_TWO}, but 1 row belongs to another run",
            id="another run",
        ),
        pytest.param(
            dataclasses.replace(TAIL, earlier_altered=1),
            FAIR,
            Verdict.PASS,
            f"{OF_TWO}, as expected",
            id="rows that were perhaps altered before",
        ),
        pytest.param(
            dataclasses.replace(TAIL, earlier_lost={3: 4}),
            FAIR,
            Verdict.FAIL,
            "the server lost or damaged 4 rows",
            id="rows of an earlier cycle",
        ),
    ],
)
def test_a_control_must_lose_a_tail(
    found: Reconciliation, item: Item, verdict: Verdict, words: str
) -> None:
    judgement = judge_control(judge_rows(found, [item]), found)
    assert judgement.verdict is verdict
    assert judgement.reasons[0].startswith(words)
    assert judgement.items == (item,)


def test_a_control_whose_table_was_replaced_shows_nothing() -> None:
    said = "fs was truncated, rewritten or recreated since the load began"
    items = [FAIR, Item(ItemId.SAME_TABLE, Status.ABSENT, said, False)]
    ordinary = judge_rows(TAIL, items)
    assert judge_control(ordinary, TAIL) == replace(
        ordinary, control=ControlOutcome.UNFAIR
    )
    assert ordinary.verdict is Verdict.INCONCLUSIVE


def test_a_control_that_left_nothing_is_no_more_than_an_ordinary_cycle() -> None:
    """A copy of the data that was put back would lose all, also in honest hands."""
    losses = Losses.of(
        Loss(LossKind.MISSING_TAIL, n % 2, 1, n, 5, LEDGER.name) for n in range(100)
    )
    found = dataclasses.replace(CLEAN, kept=0, recovered=0, losses=losses)
    ordinary = judge_rows(found, [FAIR])
    assert judge_control(ordinary, found) == replace(
        ordinary, control=ControlOutcome.UNFAIR
    )
    assert ordinary.verdict is Verdict.INCONCLUSIVE


def test_a_control_that_loses_what_was_committed_before_it_fails() -> None:
    losses = Losses.of(
        Loss(LossKind.MISSING_TAIL, n, 4, n, 5, LEDGER.name) for n in (0, 1)
    )
    found = dataclasses.replace(CLEAN, kept=98, losses=losses)
    judgement = judge_control(judge_rows(found, [FAIR]), found)
    assert judgement.verdict is Verdict.FAIL
    assert "1 row from before its sessions" in judgement.reasons[0]


@pytest.mark.parametrize(
    "kind",
    [x for x in LossKind if x is not LossKind.MISSING_TAIL],
)
@pytest.mark.parametrize("item", [FAIR, IDLE])
def test_a_control_that_loses_more_than_a_tail_fails(
    kind: LossKind, item: Item
) -> None:
    found = lost(LossKind.MISSING_TAIL, kind)
    judgement = judge_control(judge_rows(found, [item]), found)
    assert judgement.verdict is Verdict.FAIL
    assert "lost or damaged 1 row " in judgement.reasons[0]


@pytest.mark.parametrize(
    "excuse",
    [
        SAME,
        Item(ItemId.NOT_REFILLED, Status.ABSENT, "other servers wrote", False),
        Item(ItemId.PROMOTED, Status.ABSENT, "it is not known", True),
    ],
)
def test_what_excuses_an_ordinary_cycle_excuses_a_control(excuse: Item) -> None:
    found = lost(LossKind.CORRUPT)
    ordinary = judge_rows(found, [excuse])
    assert ordinary.verdict is Verdict.INCONCLUSIVE
    assert judge_control(ordinary, found) == replace(
        ordinary, control=ControlOutcome.UNFAIR
    )


def test_a_control_does_not_fail_for_what_clients_did() -> None:
    """Its own loss of a tail keeps an ordinary cycle from being excused."""
    found = lost(LossKind.MISSING_TAIL, LossKind.DUPLICATE)
    for by_clients, verdict in ((1, Verdict.INCONCLUSIVE), (0, Verdict.FAIL)):
        clients = ByClients(by_clients, ("a proxy may have sent it again",))
        ordinary = judge_rows(found, [FAIR], clients=clients)
        judgement = judge_control(ordinary, found, clients=clients)
        assert judgement.verdict is verdict
        assert ("a proxy" in judgement.reasons[0]) is bool(by_clients)


def test_an_index_that_a_control_breaks_names_the_cut() -> None:
    ordinary = judge_rows(CLEAN, [FAIR], CutClass.PROCESS, Depth.PROCESS)
    control = judge_control(ordinary, CLEAN)
    failed = judge_index(control, CLEAN, IndexLoss("it lacks id 3", 1, (3,)))
    assert "after this kill of the server's process" in failed.reasons[0]


def test_a_control_that_was_not_weak_does_not_call_the_rig_blind() -> None:
    judgement = judge_control(judge_rows(CLEAN, [FAIR]), CLEAN, "sync_binlog = 1")
    assert judgement.verdict is Verdict.INCONCLUSIVE
    assert judgement.reasons == (
        f"{NOTHING}, but its commits were durable: sync_binlog = 1",
    )
    assert judgement.control is ControlOutcome.UNFAIR
    lost_all_the_same = judge_control(judge_rows(TAIL, [FAIR]), TAIL, "unknown")
    assert lost_all_the_same.verdict is Verdict.PASS


def test_a_server_that_a_control_killed_for_good_fails() -> None:
    gone = judge_unrecoverable(
        "mount: structure needs cleaning", [FAIR], missing=False, explained=True
    )
    assert judge_control(gone, None) == replace(gone, control=ControlOutcome.FAILED)


def test_another_servers_table_says_nothing_of_a_control() -> None:
    other = Item(ItemId.SAME_SERVER, Status.CONTRADICTED, "another one answers", True)
    judgement = judge_control(judge_rows(None, [other]), None)
    assert judgement.verdict is Verdict.INCONCLUSIVE
    assert judgement.reasons == ("another one answers",)


LOST = ControlFacts(RUN, ControlOutcome.LOST, "the control lost 2 rows, as expected")
BLIND = ControlFacts(RUN, ControlOutcome.BLIND, NOTHING)
UNFAIR = ControlFacts(RUN, ControlOutcome.UNFAIR, f"{NOTHING}, but it was idle")


@pytest.mark.parametrize(
    ("controls", "status", "reason"),
    [
        pytest.param([LOST], Status.PRESENT, LOST.reason, id="lost"),
        pytest.param([BLIND, LOST], Status.PRESENT, LOST.reason, id="in the end"),
        pytest.param(
            [BLIND],
            Status.ABSENT,
            f"{NOTHING}: this set-up cannot see losses",
            id="blind",
        ),
        pytest.param(
            [UNFAIR, BLIND, BLIND],
            Status.ABSENT,
            f"{NOTHING}, the last of 3 tries: this set-up cannot see losses",
            id="blind three times",
        ),
        pytest.param([UNFAIR], Status.ABSENT, UNFAIR.reason, id="no fair test"),
    ],
)
def test_what_the_cycles_after_it_take_from_a_control(
    controls: list[ControlFacts], status: Status, reason: str
) -> None:
    item = item_of(controls)
    assert item == Item(ItemId.CONTROL, status, reason, True)


def test_no_pass_after_a_control_that_lost_nothing_but_a_fail_stays() -> None:
    item = item_of([BLIND])
    judgement = judge_rows(CLEAN, [item])
    assert judgement.verdict is Verdict.INCONCLUSIVE
    assert "the control lost nothing" in judgement.reasons[0]
    assert judge_rows(TAIL, [item]).verdict is Verdict.FAIL
    assert judge_rows(CLEAN, [item_of([LOST])]).verdict is Verdict.PASS
