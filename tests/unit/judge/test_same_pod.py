"""The pod that is read is held to the node and the volumes that took the load."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dbcheck.judge.absence import judge_absence
from dbcheck.judge.case import Case
from dbcheck.judge.item import Item, ItemId, Status
from dbcheck.judge.judge import has_other_data, judge, list_evidence
from dbcheck.judge.server import judge_same_pod
from dbcheck.judge.verdict import judge_agreement, judge_index, judge_rows
from dbcheck.model.cluster import ONLY_NODE, Promise, SiteKind
from dbcheck.model.host import Container, HostAfter
from dbcheck.model.places import Place
from dbcheck.model.pods import Pod, PodRole, PodsAfter
from dbcheck.model.records import NodeAfter, NodeAtTheCut
from dbcheck.model.verdict import Verdict
from dbcheck.rows.loss import IndexLoss, Loss, Losses, LossKind
from dbcheck.rows.table import LEDGER
from tests.kit import cases
from tests.kit.cases import item, loaded
from tests.kit.host_samples import BEFORE, after
from tests.kit.nodes import after_of, having
from tests.kit.pods import (
    OTHER_UID,
    POD,
    REPLICA,
    SCRATCH,
    cgroup_of,
    with_data,
    with_volume,
)
from tests.kit.samples import CLEAN, FACTS, MANIFEST
from tests.kit.server_logs import PG_WAL

PRESENT, CONTRADICTED = Status.PRESENT, Status.CONTRADICTED
UNSEEN = Status.NOT_OBSERVABLE
PLACES = (Place("data", "/var/lib/postgresql/data/pgdata"),)
NOW = replace(POD, container_id="e0" * 32)
ANEW = replace(NOW, uid=OTHER_UID, container_id="ea" * 32)
SECOND = replace(REPLICA, role=PodRole.PRIMARY)
STARTED = replace(FACTS, started_us=FACTS.started_us + 10_000_000)
LOST = replace(
    CLEAN,
    kept=99,
    losses=Losses.of([Loss(LossKind.MISSING_TAIL, 1, 3, 3, 1, LEDGER.name)]),
)
UNREADABLE = PodsAfter(failure="connection refused")


def host_of(pod: Pod) -> HostAfter:
    """Return what the host shows after the cut, on which the server is in that pod."""
    host = after()
    assert host.facts is not None
    facts = replace(host.facts, container=Container(9, cgroup_of(pod)))
    return replace(host, facts=facts)


def case(
    *pods: Pod,
    then: Pod | None = POD,
    seen: PodsAfter | None = None,
    host: HostAfter | None = None,
    **more: Any,
) -> Case:
    """Return a case of a single server in a pod, after which the API shows *pods*."""
    before = BEFORE if host else None
    manifest = having(MANIFEST, pod=then, places=PLACES, host=before)
    shown = seen or PodsAfter(pods)
    record = having(after_of(STARTED, host), pods=shown if pods or seen else None)
    return replace(Case(manifest, loaded(), None, record, found=CLEAN), **more)


def same_pod(one: Case) -> Item:
    """Return the item of evidence, which each of these cases has."""
    return item(judge_same_pod, one)


def test_a_server_in_no_pod_has_no_such_evidence() -> None:
    assert judge_same_pod(case(then=None)) is None
    assert judge_same_pod(case(NOW, then=None)) is None


@pytest.mark.parametrize(
    ("one", "words"),
    [
        pytest.param(case(NOW), "is on node node-a again, on the same", id="same"),
        pytest.param(case(NOW, REPLICA), "prod/orders-1", id="beside a replica"),
        pytest.param(case(NOW, host=host_of(NOW)), "(data-orders-1)", id="by process"),
        pytest.param(case(ANEW), "it was made anew", id="another pod of that name"),
        pytest.param(
            case(replace(ANEW, name="orders-7f")), "prod/orders-7f", id="of another"
        ),
        pytest.param(
            case(replace(NOW, ending=True), host=host_of(NOW)), "orders-1", id="ending"
        ),
    ],
)
def test_the_same_node_and_volumes_are_the_same_place(one: Case, words: str) -> None:
    found = same_pod(one)
    assert (found.status, found.required) == (PRESENT, True)
    assert words in found.reason


@pytest.mark.parametrize(
    ("one", "words"),
    [
        pytest.param(
            case(replace(ANEW, node="node-b", machine_id="m2")),
            "pod prod/orders-1 came back on node node-b, not on node-a: the power of"
            " node-b was not cut",
            id="other node",
        ),
        pytest.param(case(replace(NOW, machine_id="m9")), "machine", id="replaced"),
        pytest.param(case(with_volume(ANEW, handle="x")), "another vol", id="restored"),
        pytest.param(case(with_data(ANEW, claim_uid="9")), "made anew", id="fresh"),
        pytest.param(
            case(
                with_data(ANEW, kind="emptyDir", claim="", volume=None),
                then=with_data(POD, kind="emptyDir", claim="", volume=None),
            ),
            "each pod gets an empty one",
            id="emptyDir of a new pod",
        ),
        pytest.param(
            case(replace(NOW, volumes=(SCRATCH,))), "no volume data", id="no volume"
        ),
        pytest.param(
            case(NOW, SECOND),
            "more than one pod is a primary now: pod prod/orders-1 and pod",
            id="two primaries",
        ),
        pytest.param(
            case(replace(NOW, role=PodRole.REPLICA), SECOND),
            "pod prod/orders-2 has the server now, on node node-b; pod prod/orders-1"
            " had it, on node node-a: the power of node-b was not cut",
            id="another primary",
        ),
        pytest.param(
            case(replace(NOW, role=PodRole.REPLICA), SECOND, host=host_of(NOW)),
            "read is in pod prod/orders-1, and pod prod/orders-2 is the primary",
            id="another primary than was read",
        ),
    ],
)
def test_another_place_is_other_data(one: Case, words: str) -> None:
    found = same_pod(one)
    assert found.status is CONTRADICTED
    assert words in found.reason
    assert has_other_data(one)
    gone = replace(one, after=having(one.after, failure="a table is damaged"))
    for other in (one, replace(one, found=LOST), gone):
        judgement = judge(other)
        assert judgement.verdict is Verdict.INCONCLUSIVE
        assert words in judgement.reasons[0]


@pytest.mark.parametrize(
    ("one", "words"),
    [
        pytest.param(case(), "was not asked", id="not asked"),
        pytest.param(
            case(POD),
            "pod prod/orders-1 is shown with its container from before the cut",
            id="of a node that may be off",
        ),
        pytest.param(case(seen=UNREADABLE), "connection refused", id="no API"),
        pytest.param(case(seen=PodsAfter()), "no such pod", id="no pod"),
        pytest.param(
            case(replace(NOW, role=PodRole.UNKNOWN), REPLICA), "no primary", id="role"
        ),
        pytest.param(
            case(NOW, host=host_of(ANEW)), OTHER_UID, id="in a pod that is not shown"
        ),
        pytest.param(
            case(with_data(NOW, volume=None, unread={"volume": "forbidden"})),
            "could not be read after the cut: forbidden",
            id="unread now",
        ),
        pytest.param(
            case(NOW, then=with_data(volume=None, unread={"volume": "forbidden"})),
            "could not be read before the load: forbidden",
            id="unread then",
        ),
    ],
)
def test_what_cannot_be_seen_clears_and_accuses_nobody(one: Case, words: str) -> None:
    found = same_pod(one)
    assert (found.status, found.required) == (UNSEEN, True)
    assert words in found.reason
    assert not has_other_data(one)
    gone = replace(one, after=having(one.after, failure="a table is damaged"))
    for other in (one, replace(one, found=LOST), gone):
        judgement = judge(other)
        assert judgement.verdict is Verdict.INCONCLUSIVE
        assert words in " ".join(judgement.reasons)


def items(pod: Status, restored: Status | None = None) -> tuple[Item, ...]:
    """Return that evidence, and whether the data were seen to be no copy."""
    found = [Item(ItemId.SAME_POD, pod, "as it was seen", True)]
    if restored is not None:
        found.append(Item(ItemId.NOT_RESTORED, restored, "the same files", False))
    return tuple(found)


@pytest.mark.parametrize(
    ("evidence", "verdict"),
    [
        (items(PRESENT), Verdict.FAIL),
        (items(UNSEEN), Verdict.INCONCLUSIVE),
        (items(UNSEEN, UNSEEN), Verdict.INCONCLUSIVE),
        (items(UNSEEN, PRESENT), Verdict.FAIL),
        (items(CONTRADICTED, PRESENT), Verdict.INCONCLUSIVE),
    ],
)
def test_a_loss_counts_where_the_volume_is_known(
    evidence: tuple[Item, ...], verdict: Verdict
) -> None:
    """The host may show the same data directory where Kubernetes shows nothing."""
    assert judge_rows(LOST, evidence).verdict is verdict
    kept = judge_rows(CLEAN, evidence)
    expected = Verdict.PASS if verdict is Verdict.FAIL else Verdict.INCONCLUSIVE
    if evidence[0].status is UNSEEN:
        expected = Verdict.INCONCLUSIVE
    assert kept.verdict is expected
    index = judge_index(kept, CLEAN, IndexLoss("it lacks a row", 1))
    assert index.verdict is verdict
    assert "it lacks a row" in " ".join(index.reasons) or evidence[0].status is (
        CONTRADICTED
    )
    assert judge_agreement(kept, CLEAN, "b lacks rows").verdict is verdict


def test_a_loss_in_the_same_place_is_a_fail() -> None:
    one = case(NOW)
    gone = having(one.after, failure="a table is damaged")
    for lost in (replace(one, found=LOST), replace(one, after=gone)):
        assert judge(lost).verdict is Verdict.FAIL
    assert ItemId.SAME_POD in {each.id for each in list_evidence(one)}


def test_a_server_that_does_not_come_back_is_known_by_its_pod() -> None:
    """Nobody gives it the label of a primary, and nothing was read."""
    down = replace(NOW, role=PodRole.UNKNOWN, ready=False)
    one = case(down, REPLICA)
    assert same_pod(one).status is UNSEEN
    absent = replace(one, after=having(one.after, facts=None))
    assert same_pod(absent).status is PRESENT
    taken_over = case(down, SECOND)
    taken_over = replace(taken_over, after=having(taken_over.after, facts=None))
    assert same_pod(taken_over).status is CONTRADICTED


@pytest.mark.parametrize(
    ("pod", "blamed"),
    [
        (PodsAfter((NOW,)), True),
        (PodsAfter((with_volume(NOW, uid="9"),)), False),
        (UNREADABLE, False),
    ],
)
def test_absence_is_no_failure_of_data_on_another_volume(
    pod: PodsAfter, blamed: bool
) -> None:
    one = case(seen=pod, host=after(PG_WAL))
    one = replace(one, after=having(one.after, facts=None))
    found = judge_absence(one)
    assert bool(found.failure) is blamed, found


WRITER, STANDBY = "writer", "standby"


def cluster(
    now: PodsAfter, promise: Promise, kind: SiteKind = SiteKind.STREAMING
) -> Case:
    """Return a case of two nodes, of which the standby is read."""
    node = MANIFEST.nodes[ONLY_NODE]
    before = {
        WRITER: replace(node, pod=POD, places=PLACES),
        STANDBY: replace(node, pod=REPLICA, places=PLACES),
    }
    manifest = replace(
        MANIFEST, site=kind, nodes=before, writer_name=WRITER, promise=promise
    )
    seen = dict.fromkeys(before, NodeAtTheCut(cut=None))
    found = {name: NodeAfter(STARTED, None, now) for name in before}
    record = replace(after_of(), nodes=found, reader_name=STANDBY)
    return Case(manifest, replace(loaded(), nodes=seen), None, record, found=CLEAN)


@pytest.mark.parametrize(
    ("pods", "status", "words"),
    [
        pytest.param((SECOND,), PRESENT, "orders-2 is on node node-b", id="alone"),
        # Nobody takes the label of a primary from a pod whose node is off.
        pytest.param((POD, SECOND), PRESENT, "orders-2", id="beside the old writer"),
        pytest.param((ANEW, SECOND), CONTRADICTED, "more than one", id="two"),
        pytest.param(
            (replace(SECOND, uid=OTHER_UID),),
            CONTRADICTED,
            "is another pod than before, although the power of its node was not cut",
            id="anew",
        ),
        pytest.param(
            (replace(SECOND, node="node-c", machine_id=""),),
            CONTRADICTED,
            "on node node-c, not on node-b",
            id="moved",
        ),
        pytest.param((POD, REPLICA), PRESENT, "orders-2", id="label comes late"),
        pytest.param((ANEW, REPLICA), CONTRADICTED, "orders-1 is the", id="another"),
        pytest.param((POD,), UNSEEN, "which of", id="gone"),
    ],
)
def test_where_a_standby_took_over_only_its_pod_counts(
    pods: tuple[Pod, ...], status: Status, words: str
) -> None:
    found = same_pod(cluster(PodsAfter(pods), Promise.WRITER_GONE))
    assert found.status is status, found
    assert words in found.reason
    assert "was not cut: " not in found.reason


def test_where_all_nodes_were_cut_a_standby_may_have_a_new_pod() -> None:
    anew = replace(SECOND, uid=OTHER_UID)
    assert same_pod(cluster(PodsAfter((anew,)), Promise.ALL)).status is PRESENT


def test_of_a_whole_group_each_pod_counts() -> None:
    both = cluster(PodsAfter((NOW, SECOND)), Promise.ALL, SiteKind.GALERA)
    assert same_pod(both).status is PRESENT
    moved = PodsAfter((replace(NOW, node="node-c", machine_id=""), SECOND))
    one = same_pod(cluster(moved, Promise.ALL, SiteKind.GALERA))
    assert one.status is CONTRADICTED
    assert "prod/orders-1" in one.reason
    gone = same_pod(cluster(PodsAfter((SECOND,)), Promise.ALL, SiteKind.GALERA))
    assert gone.status is UNSEEN


def test_evidence_of_pods_is_none_elsewhere() -> None:
    assert judge_same_pod(cases.case()) is None
