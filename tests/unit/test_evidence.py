from __future__ import annotations

import dataclasses

import pytest

from dbcheck.core import evidence
from dbcheck.core.depth import Depth
from dbcheck.core.evidence import AtTheCut, Item, Standing, Verdict
from dbcheck.core.loss import Loss, Losses, LossKind
from dbcheck.core.reconcile import Reconciliation

GOOD = AtTheCut(
    last_ack_us=9_500_000, cut_us=10_000_000, asked=True, gone="broken", in_flight=8
)
CLEAN = Reconciliation(100, 100, 1, 0, 0, 0, {}, Losses.of(()))
LOST = dataclasses.replace(
    CLEAN, kept=99, losses=Losses.of([Loss(LossKind.MISSING_TAIL, 1, 9, 9, 5)])
)
SAME = Item("same server", Standing.PRESENT, "", True)
OTHER = Item("same server", Standing.CONTRADICTED, "another server answers", True)


@pytest.mark.parametrize(
    ("load", "standing"),
    [
        pytest.param(GOOD, Standing.PRESENT, id="acks until the cut"),
        pytest.param(None, Standing.NOT_OBSERVABLE, id="the client did not live"),
        pytest.param(
            dataclasses.replace(GOOD, last_ack_us=None), Standing.ABSENT, id="no ack"
        ),
        pytest.param(
            dataclasses.replace(GOOD, gone=""), Standing.CONTRADICTED, id="not gone"
        ),
        pytest.param(
            dataclasses.replace(GOOD, gone="stalled"), Standing.CONTRADICTED, id="stall"
        ),
        pytest.param(
            dataclasses.replace(GOOD, gone="unseen"),
            Standing.NOT_OBSERVABLE,
            id="the witness failed first",
        ),
        pytest.param(
            dataclasses.replace(GOOD, asked=False),
            Standing.ABSENT,
            id="it went by itself",
        ),
        pytest.param(
            dataclasses.replace(GOOD, in_flight=0), Standing.ABSENT, id="idle"
        ),
        pytest.param(
            dataclasses.replace(GOOD, last_ack_us=9_000_000),
            Standing.ABSENT,
            id="last ack a second old",
        ),
        pytest.param(
            dataclasses.replace(GOOD, last_ack_us=9_000_001),
            Standing.PRESENT,
            id="last ack just younger than a second",
        ),
        pytest.param(
            dataclasses.replace(GOOD, cut_us=None),
            Standing.NOT_OBSERVABLE,
            id="moment unknown",
        ),
        pytest.param(
            dataclasses.replace(GOOD, last_ack_us=10_000_500),
            Standing.PRESENT,
            id="a reply that was under way at the cut",
        ),
    ],
)
def test_at_risk(load: AtTheCut | None, standing: Standing) -> None:
    item = evidence.at_risk(load)
    assert (item.standing, item.required) == (standing, True)


@pytest.mark.parametrize(
    ("newest_us", "cut_us", "standing"),
    [
        pytest.param(9_500_000, 10_000_000, Standing.PRESENT, id="young"),
        pytest.param(9_000_001, 10_000_000, Standing.PRESENT, id="just young"),
        pytest.param(9_000_000, 10_000_000, Standing.ABSENT, id="a second old"),
        pytest.param(10_000_500, 10_000_000, Standing.PRESENT, id="read after the cut"),
        pytest.param(None, 10_000_000, Standing.ABSENT, id="not one"),
        pytest.param(9_500_000, None, Standing.NOT_OBSERVABLE, id="moment unknown"),
    ],
)
def test_held_at_the_cut(
    newest_us: int | None, cut_us: int | None, standing: Standing
) -> None:
    item = evidence.held_at_the_cut(newest_us, cut_us)
    assert (item.standing, item.required) == (standing, True)


@pytest.mark.parametrize(
    ("after_us", "error_us", "standing"),
    [
        pytest.param(5_000_000, 0, Standing.CONTRADICTED, id="same start"),
        pytest.param(5_000_001, 0, Standing.PRESENT, id="later start"),
        pytest.param(
            6_900_000, 1_000_000, Standing.CONTRADICTED, id="within the clocks' errors"
        ),
        pytest.param(7_100_000, 1_000_000, Standing.PRESENT, id="beyond them"),
        pytest.param(4_000_000, 0, Standing.PRESENT, id="its clock went back"),
    ],
)
def test_restarted(after_us: int, error_us: int, standing: Standing) -> None:
    item = evidence.restarted(5_000_000, error_us, after_us, error_us)
    assert item.standing is standing


SILENT = dataclasses.replace(GOOD, gone="silent")
FAREWELL = dataclasses.replace(SILENT, farewells=("shutting down",))


@pytest.mark.parametrize(
    ("load", "canary", "exact", "standing"),
    [
        pytest.param(GOOD, False, False, Standing.PRESENT, id="crash recovery"),
        pytest.param(GOOD, True, True, Standing.CONTRADICTED, id="canary kept"),
        pytest.param(SILENT, True, False, Standing.CONTRADICTED, id="kept, silent"),
        pytest.param(FAREWELL, False, True, Standing.CONTRADICTED, id="farewell"),
        pytest.param(GOOD, None, True, Standing.PRESENT, id="the switch knows"),
        pytest.param(SILENT, None, False, Standing.PRESENT, id="silence"),
        pytest.param(GOOD, None, False, Standing.NOT_OBSERVABLE, id="closed"),
        pytest.param(None, None, False, Standing.NOT_OBSERVABLE, id="client lost"),
        pytest.param(None, False, False, Standing.PRESENT, id="client lost, crash"),
    ],
)
def test_not_shut_down(
    load: AtTheCut | None, canary: bool | None, exact: bool, standing: Standing
) -> None:
    item = evidence.not_shut_down(load, canary, exact)
    assert (item.standing, item.required) == (standing, True)


@pytest.mark.parametrize(
    ("off_s", "depth", "standing", "said"),
    [
        pytest.param(15.0, None, Standing.PRESENT, "15.00 s", id="whole"),
        pytest.param(14.9, None, Standing.NOT_OBSERVABLE, "after 14.90 s", id="short"),
        pytest.param(14.9, Depth.OS, Standing.NOT_OBSERVABLE, "again", id="shallow"),
        pytest.param(None, None, Standing.NOT_OBSERVABLE, "nobody saw", id="unseen"),
        pytest.param(2.0, Depth.DRIVE, Standing.PRESENT, "own cache", id="deep"),
        pytest.param(None, Depth.DRIVE, Standing.PRESENT, "own cache", id="only deep"),
    ],
)
def test_without_power(
    off_s: float | None, depth: Depth | None, standing: Standing, said: str
) -> None:
    item = evidence.without_power(15.0, off_s, depth)
    assert item is not None
    assert (item.standing, item.required) == (standing, True)
    assert said in item.reason
    assert evidence.without_power(None, off_s, depth) is None


def test_another_identity_is_another_server() -> None:
    before, after = {"uuid": "a", "datadir": "/d"}, {"uuid": "b", "datadir": "/d"}
    assert evidence.same_server(before, before).standing is Standing.PRESENT
    other = evidence.same_server(before, after)
    assert other.standing is Standing.CONTRADICTED
    assert "uuid was a and is b" in other.reason
    assert evidence.same_server({}, after).standing is Standing.NOT_OBSERVABLE


def test_a_changed_setting_is_seen() -> None:
    before = {"fsync": "on", "synchronous_commit": "on"}
    after = before | {"synchronous_commit": "off"}
    same, other = ("before the cut", before), ("after it", after)
    assert evidence.same_settings(before, same, same).standing is Standing.PRESENT
    for later in ((same, other), (other, same)):
        item = evidence.same_settings(before, *later)
        assert item.standing is Standing.CONTRADICTED
        assert "synchronous_commit was on, and off" in item.reason


def test_only_settings_that_were_read_again_are_called_the_same() -> None:
    before = {"fsync": "on", "synchronous_commit": "on"}
    unread: tuple[str, dict[str, str]] = ("before the cut", {})
    some = ("after the cut", {"fsync": "on"})
    item = evidence.same_settings(before, unread, some)
    assert (item.standing, item.reason) == (
        Standing.PRESENT,
        "1 compared after the cut",
    )
    item = evidence.same_settings(before, unread)
    assert item.standing is Standing.NOT_OBSERVABLE


def items(**standings: Standing) -> list[Item]:
    return [
        Item(name, standing, f"because of {name}", True)
        for name, standing in standings.items()
    ]


def test_a_pass_names_its_depth() -> None:
    assert "at DRIVE depth" in evidence.judge(CLEAN, [SAME], "DRIVE").reasons[0]
    assert "depth" not in evidence.judge(CLEAN, [SAME]).reasons[0]


@pytest.mark.parametrize(
    ("begun", "before", "standing", "said"),
    [
        pytest.param(
            (100, 90), (500, 90), Standing.PRESENT, "all 7 acks", id="no checkpoint"
        ),
        pytest.param(
            (100, 90), (500, 400), Standing.PRESENT, "100 bytes", id="one meanwhile"
        ),
        pytest.param(
            (100, 90), (500, 500), Standing.ABSENT, "checkpointed", id="one just now"
        ),
    ],
)
def test_what_was_written_since_the_checkpoint(
    begun: tuple[int, int], before: tuple[int, int], standing: Standing, said: str
) -> None:
    item = evidence.since_checkpoint(begun, before, 7)
    assert item.standing is standing
    assert said in item.reason
    assert ("acks" in item.reason) == (begun[1] == before[1])


def test_a_clean_cycle_passes() -> None:
    judgement = evidence.judge(CLEAN, [SAME, *items(cut=Standing.PRESENT)])
    assert judgement.verdict is Verdict.PASS


@pytest.mark.parametrize(
    "standing", [standing for standing in Standing if standing is not Standing.PRESENT]
)
def test_no_pass_without_its_evidence(standing: Standing) -> None:
    judgement = evidence.judge(CLEAN, [SAME, *items(cut=standing)])
    assert judgement.verdict is Verdict.INCONCLUSIVE
    assert "because of cut" in judgement.reasons[0]


def test_an_item_that_is_not_required_may_be_unobservable_but_not_contradicted() -> (
    None
):
    optional = Item("extra", Standing.NOT_OBSERVABLE, "", False)
    assert evidence.judge(CLEAN, [optional]).verdict is Verdict.PASS
    against = dataclasses.replace(optional, standing=Standing.CONTRADICTED)
    assert evidence.judge(CLEAN, [against]).verdict is Verdict.INCONCLUSIVE


def test_no_pass_without_acks() -> None:
    nothing = dataclasses.replace(CLEAN, confirmed=0, kept=0)
    assert evidence.judge(nothing, [SAME]).verdict is Verdict.INCONCLUSIVE


def test_a_loss_fails_however_thin_the_evidence() -> None:
    judgement = evidence.judge(LOST, items(cut=Standing.NOT_OBSERVABLE))
    assert judgement.verdict is Verdict.FAIL
    assert judgement.reasons == ("1 missing-tail of 100 confirmed commits",)


def test_another_server_is_never_accused() -> None:
    judgement = evidence.judge(LOST, [OTHER])
    assert judgement.verdict is Verdict.INCONCLUSIVE


def test_rows_of_another_run_give_no_verdict() -> None:
    disturbed = dataclasses.replace(CLEAN, foreign=3)
    assert evidence.judge(disturbed, [SAME]).verdict is Verdict.INCONCLUSIVE


def test_lost_rows_of_earlier_cycles_fail() -> None:
    lost = dataclasses.replace(CLEAN, earlier_lost={3: 2})
    assert evidence.judge(lost, [SAME]).verdict is Verdict.FAIL


def test_a_server_that_does_not_come_back_fails() -> None:
    judgement = evidence.judge_unrecoverable(
        "mount: structure needs cleaning", [], missing=False, explained=False
    )
    assert judgement.verdict is Verdict.FAIL


def test_a_server_that_nobody_cut_is_not_to_blame_for_its_absence() -> None:
    judgement = evidence.judge_unrecoverable(
        "exit status 1", [], missing=False, explained=True, uncut=True
    )
    assert judgement.verdict is Verdict.INCONCLUSIVE
    assert "no cut of its power is on record" in judgement.reasons[0]


@pytest.mark.parametrize(
    ("standing", "explained", "verdict"),
    [
        (Standing.PRESENT, False, Verdict.FAIL),
        (Standing.PRESENT, True, Verdict.FAIL),
        (Standing.NOT_OBSERVABLE, False, Verdict.INCONCLUSIVE),
        (Standing.NOT_OBSERVABLE, True, Verdict.FAIL),
        (Standing.CONTRADICTED, True, Verdict.INCONCLUSIVE),
    ],
)
def test_the_loss_of_everything_may_be_a_restored_copy(
    standing: Standing, explained: bool, verdict: Verdict
) -> None:
    restored = [Item(evidence.RESTORED, standing, "as seen", False)]
    losses = Losses.of(Loss(LossKind.MISSING_TAIL, 0, n, n, n) for n in range(1, 4))
    gone = Reconciliation(3, 0, 0, 0, 0, 0, {}, losses)
    judged = evidence.judge(gone, restored, explained=explained)
    assert judged.verdict is verdict
    if standing is not Standing.CONTRADICTED:  # its table is then not even read
        judged = evidence.judge_unrecoverable(
            "no such table", restored, missing=True, explained=explained
        )
        assert judged.verdict is verdict


def test_a_single_survivor_shows_that_no_copy_was_restored() -> None:
    unseen = [Item(evidence.RESTORED, Standing.NOT_OBSERVABLE, "", False)]
    losses = Losses.of([Loss(LossKind.MISSING_TAIL, 1, 2, 2, 2)])
    for kept, recovered, unconfirmed in ((1, 0, 0), (0, 1, 0), (0, 0, 1)):
        found = Reconciliation(2, kept, recovered, unconfirmed, 0, 0, {}, losses)
        assert evidence.judge(found, unseen).verdict is Verdict.FAIL


def test_the_worst_verdict_counts() -> None:
    order = [Verdict.PASS, Verdict.INCONCLUSIVE, Verdict.FAIL]
    assert evidence.worst(order) is Verdict.FAIL
    assert evidence.worst(order[:2]) is Verdict.INCONCLUSIVE
    assert evidence.worst(order[:1]) is Verdict.PASS
