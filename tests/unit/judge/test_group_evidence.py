"""What shows that a group which was read had to have every commit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from dbcheck.judge import cluster, insync, timeoff
from dbcheck.judge.case import Case
from dbcheck.judge.item import Status
from dbcheck.judge.judge import judge
from dbcheck.judge.server import judge_same_settings
from dbcheck.judge.server_end import judge_not_shut_down, judge_server_log_over_sql
from dbcheck.judge.settings import collect_settings
from dbcheck.judge.timeoff import judge_time_off
from dbcheck.model.cluster import Promise, SiteKind, compare_lineage
from dbcheck.model.cut import Cut, CutClass, Gone, PowerState
from dbcheck.model.depth import Depth
from dbcheck.model.places import DATA, Place
from dbcheck.model.records import NodeAfter, NodeAtTheCut, RestoreRecord
from dbcheck.model.replication import (
    GALERA_CLUSTER,
    Change,
    Descent,
    PromotedBy,
    Promotion,
    Received,
    ReplicationSeen,
    WriterOff,
)
from dbcheck.model.server import DATA_NAME
from dbcheck.model.verdict import Verdict
from dbcheck.model.watched import Watched
from dbcheck.rows.differences import ChangedRow, OtherNode
from dbcheck.rows.loss import Loss, Losses, LossKind
from tests.kit.cases import item, loaded
from tests.kit.client_clocks import LATER
from tests.kit.host_samples import BEFORE as HOST
from tests.kit.host_samples import after as host_after
from tests.kit.nodes import after_of
from tests.kit.place_samples import DONE, LEFT
from tests.kit.samples import CLEAN, FACTS, MANIFEST
from tests.kit.server_logs import MARIA

UUID = "b42ade03-e99a-11f1-8f09-17a7438f329c"
SETTINGS = {
    "autocommit": "ON",
    "innodb_flush_log_at_trx_commit": "1",
    "innodb_doublewrite": "ON",
    "innodb_force_recovery": "0",
    "log_bin": "OFF",
    "wsrep_on": "ON",
    "wsrep_provider": "/lib/galera.so",
    "pc.ignore_quorum": "false",
    "pc.ignore_sb": "false",
}
IDENTITY = {GALERA_CLUSTER: UUID, DATA_NAME: "d", "server_id": "1"}
BEFORE = replace(FACTS, identity=IDENTITY, settings=SETTINGS)
AFTER = replace(BEFORE, started_us=BEFORE.started_us + 10_000_000)
NODE = replace(MANIFEST.writer, facts=BEFORE, cut_class=CutClass.AC)
OFF = WriterOff(PowerState.OFF, answers=False)
SEEN = ReplicationSeen(
    41, 8_000_000, 9_990_000, 60_000, (Change(8_000_000, ("n2", "n3")),)
)
GONE_ON = Promotion(
    PromotedBy.AUTO,
    {"b": Received(20, 20, True, ("n2", "n3"))},
    Descent({UUID: 20}),
    (OFF, OFF),
)
WHOLE = Promotion(
    PromotedBy.AUTO,
    {name: Received(20, 20, True, ("n1", "n2", "n3")) for name in "abc"},
    Descent({UUID: 20}),
)
RECOVERED = f"{MARIA}[Note] InnoDB: Starting crash recovery from checkpoint LSN=9\n"
SHUT = f"{MARIA}[Note] mariadbd: Shutdown complete\n"
LOST = Loss(LossKind.MISSING_TAIL, 1, 1, 1, 1, "ledger")
LOSS = replace(CLEAN, losses=Losses.of([LOST]), kept=CLEAN.kept - 1)


def case(promise: Promise, promotion: Promotion | None, **changed: Any) -> Case:
    """Return a cycle of the group of a, which took the load, b and c."""
    nodes = {
        name: replace(NODE, member=f"n{n}", connection=f"uuid {n}")
        for n, name in enumerate("abc", 1)
    }
    manifest = replace(
        MANIFEST,
        family="mysql",
        site=SiteKind.GALERA,
        nodes=nodes,
        writer_name="a",
        promise=promise,
        lab={"cut": "process"},
    )
    at = Cut(9_000_000, 9_600_000, {"off_s": 5.0, "off_seen": True})
    cut = NodeAtTheCut(at, host_lived=False)
    load = replace(
        loaded(settings=SETTINGS, gone=Gone.BROKEN),
        nodes=dict.fromkeys(nodes, cut),
        replication=SEEN,
    )
    all_cut = promise.cuts_all
    after = replace(
        after_of(),
        nodes={
            name: NodeAfter(AFTER if all_cut or name == "b" else None) for name in nodes
        },
        reader_name="a" if all_cut else "b",
        promotion=promotion,
        answered=LATER,
    )
    restore = RestoreRecord(dict.fromkeys(nodes, 10.0)) if all_cut else None
    made = Case(manifest, load, restore, after, found=CLEAN)
    return replace(made, **changed)


def test_a_majority_that_went_on_has_all_the_evidence() -> None:
    one = case(Promise.WRITER_GONE, GONE_ON)
    for each in (
        cluster.judge_promised_settings,
        cluster.judge_writer_off,
        cluster.judge_promoted_node,
        cluster.judge_all_applied,
        insync.judge_in_sync,
    ):
        assert item(each, one).status is Status.PRESENT, each
    assert timeoff.judge_nodes_cut(one) is None
    assert cluster.judge_all_members(one) is None
    assert judge(one).verdict is Verdict.PASS
    assert judge(replace(one, found=LOSS)).verdict is Verdict.FAIL


@pytest.mark.parametrize(
    ("members", "why"),
    [
        (("n1", "n2", "n3"), "b still counted a as a member"),
        (("n1", "n2"), "b still counted a as a member"),
        ((), "is not known"),
    ],
)
def test_a_node_that_counted_the_writer_is_not_blamed(
    members: tuple[str, ...], why: str
) -> None:
    """Galera delivers what the writer sent last only once the view is without it."""
    received = {"b": Received(20, 20, True, members)}
    one = case(Promise.WRITER_GONE, replace(GONE_ON, received=received))
    found = item(cluster.judge_promoted_node, one)
    assert found.status is Status.NOT_OBSERVABLE
    assert why in found.reason
    assert judge(replace(one, found=LOSS)).verdict is Verdict.INCONCLUSIVE


def test_a_group_that_is_whole_again_has_all_the_evidence() -> None:
    one = case(Promise.ALL, WHOLE)
    found = item(timeoff.judge_nodes_cut, one)
    assert found.status is Status.PRESENT
    assert "a, b, c were cut" in found.reason
    assert item(cluster.judge_all_members, one).status is Status.PRESENT
    for each in (
        cluster.judge_writer_off,
        cluster.judge_promoted_node,
        insync.judge_in_sync,
    ):
        assert each(one) is None
    assert judge(one).verdict is Verdict.PASS
    assert judge(replace(one, found=LOSS)).verdict is Verdict.FAIL


@pytest.mark.parametrize(
    "promotion",
    [
        None,
        replace(WHOLE, received={}),
        replace(WHOLE, received={"a": Received(20, 20, True, ("n1", "n2"))}),
    ],
)
def test_a_group_without_one_of_its_nodes_is_not_blamed(
    promotion: Promotion | None,
) -> None:
    """The missing node may have what the others lack."""
    one = case(Promise.ALL, promotion)
    found = item(cluster.judge_all_members, one)
    assert found.status is Status.NOT_OBSERVABLE
    assert "missing: " in found.reason
    assert found.reason.endswith("c")
    assert judge(replace(one, found=LOSS)).verdict is Verdict.INCONCLUSIVE


def test_a_node_that_was_not_cut_gave_the_others_what_they_lost() -> None:
    """It may be one that joined after the preflight."""
    strange = Received(20, 20, True, ("n1", "n2", "n3", "n4"))
    found = item(
        cluster.judge_all_members,
        case(Promise.ALL, replace(WHOLE, received={"a": strange})),
    )
    assert found.status is Status.CONTRADICTED
    assert found.reason.startswith("n4 is or was a member as well")
    one = case(Promise.ALL, WHOLE)
    assert one.load is not None
    seen = replace(SEEN, changes=(*SEEN.changes, Change(9_000_000, ("n2", "n3", "x"))))
    before = replace(one, load=replace(one.load, replication=seen))
    assert item(cluster.judge_all_members, before).status is Status.CONTRADICTED
    assert judge(before).verdict is Verdict.INCONCLUSIVE


def test_a_writer_that_does_not_start_is_no_loss_of_the_group() -> None:
    one = case(Promise.ALL, WHOLE)
    nodes = {**one.after.nodes, "a": NodeAfter(None)}
    after = replace(one.after, nodes=nodes, failure="exit status 134")
    gone = replace(one, after=after, found=None)
    assert item(cluster.judge_all_members, gone).status is Status.NOT_OBSERVABLE
    judged = judge(gone)
    assert judged.verdict is Verdict.INCONCLUSIVE
    assert "whatever the other nodes have" in judged.reasons[0]


def test_a_node_that_kept_its_power_gives_the_others_what_they_lost() -> None:
    one = case(Promise.ALL, WHOLE)
    nodes = {**one.after.nodes, "c": NodeAfter(BEFORE)}
    found = item(
        timeoff.judge_nodes_cut, replace(one, after=replace(one.after, nodes=nodes))
    )
    assert found.status is Status.CONTRADICTED
    assert found.reason == "the server of c did not restart: it was not cut"
    silent = {**nodes, "c": NodeAfter(None)}
    unread = replace(one, after=replace(one.after, nodes=silent))
    assert item(timeoff.judge_nodes_cut, unread).status is Status.NOT_OBSERVABLE


def test_a_node_that_was_shut_down_had_time_to_flush() -> None:
    one = case(Promise.ALL, WHOLE)
    host = replace(host_after(), shut_down="systemd reached the target shutdown")
    nodes = {**one.after.nodes, "c": NodeAfter(AFTER, host)}
    found = item(
        timeoff.judge_nodes_cut, replace(one, after=replace(one.after, nodes=nodes))
    )
    assert found.status is Status.CONTRADICTED
    assert found.reason.startswith("the host of c shut down in an orderly way")


@pytest.mark.parametrize(
    "read",
    [
        pytest.param({"log": RECOVERED}, id="a crash in its log"),
        pytest.param({"log": SHUT}, id="a shutdown in its log"),
        pytest.param({"canary": False}, id="its canary is gone"),
        pytest.param({"canary": True}, id="its canary is there"),
        pytest.param({"places": (Place(DATA, "/new"),)}, id="its places moved"),
    ],
)
def test_what_the_node_that_was_read_shows_is_no_evidence_of_the_others(
    read: Mapping[str, Any],
) -> None:
    """Nothing else shows how they ended; a is the writer, and b was read."""
    one = case(Promise.ALL, WHOLE)
    assert one.load is not None
    cuts = dict.fromkeys("abc", NodeAtTheCut(Cut(9_000_000, None), host_lived=False))
    nodes = {
        name: replace(node, places=(Place(DATA, "/old"),))
        for name, node in one.manifest.nodes.items()
    }
    one = replace(
        one,
        manifest=replace(one.manifest, nodes=nodes),
        load=replace(one.load, nodes=cuts),
        after=replace(one.after, reader_name="b", **read),
    )
    for name in "ac":
        other = one.as_tested(name)
        assert judge_server_log_over_sql(other) is None
        assert judge_not_shut_down(other).status is Status.NOT_OBSERVABLE
        assert not other.moved
    assert item(timeoff.judge_nodes_cut, one).status is Status.NOT_OBSERVABLE
    itself = one.as_tested("b")
    assert (judge_server_log_over_sql(itself) is not None) is ("log" in read)
    assert bool(itself.moved) is ("places" in read)


def test_nodes_that_were_cut_in_several_ways_have_no_class() -> None:
    one = case(Promise.ALL, WHOLE)
    of_b = replace(one.manifest.nodes["b"], cut_class=CutClass.RESET)
    nodes = {**one.manifest.nodes, "b": of_b}
    several = replace(one, manifest=replace(one.manifest, nodes=nodes))
    assert one.cut_class is CutClass.AC
    assert several.cut_class is CutClass.UNKNOWN


def test_the_node_that_was_off_for_the_shortest_time_counts() -> None:
    one = case(Promise.ALL, WHOLE)
    assert one.restore is not None
    assert item(judge_time_off, one).status is Status.PRESENT
    short = replace(one.restore, off_s={**one.restore.off_s, "c": 0.05})
    found = item(judge_time_off, replace(one, restore=short))
    assert found.status is Status.NOT_OBSERVABLE
    assert found.reason.startswith("c: it was back after 0.05 s")


def test_the_depth_is_that_of_the_node_whose_cut_went_least_deep() -> None:
    one = case(Promise.ALL, WHOLE)
    found = {"a": Depth.DRIVE, "b": Depth.OS, "c": Depth.DRIVE}
    assert depth_of(one, found) is Depth.OS
    assert depth_of(one, {**found, "b": Depth.DRIVE}) is Depth.DRIVE
    assert depth_of(one, {"a": Depth.DRIVE, "b": Depth.DRIVE}) is None


def test_places_of_the_node_that_was_read_are_not_those_of_the_others() -> None:
    found = {"a": Depth.DRIVE, "b": Depth.DRIVE, "c": Depth.DRIVE}
    one = case(Promise.ALL, WHOLE)
    nodes = {
        name: replace(node, places=(Place(DATA, f"/{name}"),))
        for name, node in one.manifest.nodes.items()
    }
    one = replace(one, manifest=replace(one.manifest, nodes=nodes))
    for path, depth in {"/a": Depth.DRIVE, "/tmpfs": None}.items():
        read = replace(one, after=replace(one.after, places=(Place(DATA, path),)))
        assert depth_of(read, found) is depth


def depth_of(one: Case, found: Mapping[str, Depth]) -> Depth | None:
    """Return the depth of a cut that went so deep on the hosts of these nodes."""
    nodes = {
        name: replace(node, host=HOST if name in found else None)
        for name, node in one.manifest.nodes.items()
    }
    after = {
        name: NodeAfter(AFTER, replace(host_after(), remains=LEFT[depth]))
        for name, depth in found.items()
    }
    assert one.load is not None
    seen = replace(one.load.nodes["a"], canaries=DONE)
    return replace(
        one,
        manifest=replace(one.manifest, nodes=nodes),
        load=replace(one.load, nodes=dict.fromkeys(nodes, seen)),
        after=replace(one.after, nodes={**one.after.nodes, **after}),
    ).shown_depth


def test_settings_of_a_writer_that_is_gone_lose_nothing_of_another_node() -> None:
    one = case(Promise.WRITER_GONE, GONE_ON)
    facts = replace(BEFORE, settings={"innodb_flush_log_at_trx_commit": "0"})
    nodes = {**one.manifest.nodes, "a": replace(one.writer, facts=facts)}
    made = replace(one.manifest, nodes=nodes, lab={"cut": "drive"})
    relaxed = replace(one, manifest=made)
    found = collect_settings(relaxed)
    assert found.at_fault(lost=True) == ()
    assert found.item(kept=True).status is not Status.ABSENT
    cut_too = replace(relaxed, manifest=replace(made, promise=Promise.ALL))
    assert collect_settings(cut_too).item(kept=True).status is Status.ABSENT


@pytest.mark.parametrize(
    ("exact_us", "heard_us", "status"),
    [
        (9_700_000, None, Status.PRESENT),
        (10_600_000, None, Status.ABSENT),
        (None, 9_700_000, Status.ASSUMED),
        (None, 29_000_000, Status.ABSENT),
        (None, None, Status.NOT_OBSERVABLE),
    ],
)
def test_each_node_must_have_been_cut_when_the_writer_was(
    exact_us: int | None, heard_us: int | None, status: Status
) -> None:
    """The last ack came at 9.5 s."""
    one = case(Promise.ALL, WHOLE)
    assert one.load is not None
    seen_off = Cut(9_000_000, exact_us, {"off_seen": True})
    late = NodeAtTheCut(seen_off, heard_us=heard_us, host_lived=False)
    load = replace(one.load, nodes={**one.load.nodes, "b": late})
    found = item(timeoff.judge_nodes_cut, replace(one, load=load))
    assert found.status is status
    if status is Status.ASSUMED:
        assert found.reason.endswith("; that b was not shut down before is assumed")
    if status is Status.NOT_OBSERVABLE:
        assert found.reason.startswith("when b lost its power")
    elif status is Status.ABSENT:
        assert ", b " in found.reason


@pytest.mark.parametrize(
    ("lab", "there_us", "status"),
    [
        ({}, 9_000_000, Status.ABSENT),
        ({}, 12_000_000, Status.ASSUMED),
        ({"cut": "process"}, 9_000_000, Status.ASSUMED),
    ],
    ids=["its host", "its host that is up again", "a lab's, which runs on"],
)
def test_a_node_lived_as_long_as_its_host_answered(
    lab: dict[str, str], there_us: int, status: Status
) -> None:
    one = case(Promise.ALL, WHOLE)
    assert one.load is not None
    seen = Watched(
        {}, 2, there_us, 15_000_000, 1, connections=((there_us, 15_000_000),)
    )
    late = NodeAtTheCut(
        Cut(9_000_000, None, {"off_seen": True}),
        heard_us=9_700_000,
        host_lived=False,
        host_watched=seen,
    )
    load = replace(one.load, nodes={**one.load.nodes, "b": late})
    one = replace(one, manifest=replace(one.manifest, lab=lab), load=load)
    assert item(timeoff.judge_nodes_cut, one).status is status


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"innodb_flush_log_at_trx_commit": "2"}, "before any node has flushed it"),
        ({}, "did not begin with the node that had most"),
    ],
)
def test_what_explains_that_a_whole_group_lost(
    changed: dict[str, str], why: str
) -> None:
    one = case(Promise.ALL, WHOLE)
    facts = replace(BEFORE, settings={**SETTINGS, **changed})
    nodes = {**one.manifest.nodes, "a": replace(one.writer, facts=facts)}
    one = replace(one, manifest=replace(one.manifest, nodes=nodes))
    assert why in cluster.explain_missing_commits(one)


@pytest.mark.parametrize(
    ("changed", "other"),
    [
        ({}, ""),
        ({GALERA_CLUSTER: "another"}, "wsrep_cluster_state_uuid was"),
        ({DATA_NAME: "e"}, f"{DATA_NAME} was"),
    ],
)
def test_another_node_is_read_only_of_this_cluster(
    changed: dict[str, str], other: str
) -> None:
    now = {**IDENTITY, "server_id": "2", **changed}
    before = {**IDENTITY, "server_id": "2"}
    found = compare_lineage(SiteKind.GALERA, IDENTITY, now, promoted=before)
    assert other in found.other
    assert bool(found.other) == bool(other)
    itself = compare_lineage(SiteKind.GALERA, IDENTITY, {**IDENTITY, **changed})
    assert bool(itself.other) == bool(other)


def test_a_writer_may_return_as_a_node_that_is_read_only() -> None:
    """The others may have elected another one that takes writes."""
    one = case(Promise.ALL, WHOLE)
    before = replace(BEFORE, settings={**SETTINGS, "super_read_only": "OFF"})
    nodes = {**one.manifest.nodes, "a": replace(one.writer, facts=before)}
    now = replace(AFTER, settings={**SETTINGS, "super_read_only": "ON"})
    after = replace(one.after, nodes={**one.after.nodes, "a": NodeAfter(now)})
    assert one.load is not None
    load = replace(one.load, settings=before.settings)
    manifest = replace(one.manifest, nodes=nodes)
    one = replace(one, manifest=manifest, load=load, after=after)
    assert item(judge_same_settings, one).status is Status.PRESENT
    relaxed = {**SETTINGS, "innodb_flush_log_at_trx_commit": "2"}
    now = replace(AFTER, settings=relaxed)
    after = replace(after, nodes={**after.nodes, "a": NodeAfter(now)})
    assert item(judge_same_settings, replace(one, after=after)).status is (
        Status.CONTRADICTED
    )


def test_nodes_may_be_cut_within_the_time_that_was_asked_for() -> None:
    one = case(Promise.ALL, WHOLE)
    late = Cut(9_000_000, 12_000_000, {"off_s": 5.0, "off_seen": True})
    assert one.load is not None
    nodes = {**one.load.nodes, "c": replace(one.load.nodes["c"], cut=late)}
    one = replace(one, load=replace(one.load, nodes=nodes))
    assert item(timeoff.judge_nodes_cut, one).status is Status.ABSENT
    asked = replace(one, manifest=replace(one.manifest, stagger_s=3.0))
    found = item(timeoff.judge_nodes_cut, asked)
    assert found.status is Status.PRESENT
    assert "c 2." in found.reason
    reason = judge(asked).reasons[0]
    assert "a power cut of all nodes, one after the other within 3 s" in reason
    less = replace(one, manifest=replace(one.manifest, stagger_s=0.5))
    assert item(timeoff.judge_nodes_cut, less).status is Status.ABSENT


@pytest.mark.parametrize(
    ("other", "verdict", "status"),
    [
        (OtherNode(20), Verdict.PASS, Status.PRESENT),
        (
            OtherNode(20, 2, (ChangedRow("ledger", 7, 1, 1, 3, 0, was_there=True),)),
            Verdict.FAIL,
            Status.CONTRADICTED,
        ),
        # What may be older than the run is no FAIL of it.
        (
            OtherNode(20, failure="no such table"),
            Verdict.INCONCLUSIVE,
            Status.CONTRADICTED,
        ),
        (OtherNode(not_done="ended"), Verdict.PASS, Status.NOT_OBSERVABLE),
    ],
)
@pytest.mark.parametrize("promise", [Promise.WRITER_GONE, Promise.ALL])
def test_nodes_of_a_group_must_agree(
    promise: Promise, other: OtherNode, verdict: Verdict, status: Status
) -> None:
    one = case(promise, WHOLE if promise.cuts_all else GONE_ON)
    one = replace(one, after=replace(one.after, others={"c": other}))
    assert item(cluster.judge_nodes_agree, one).status is status
    judgement = judge(one)
    assert judgement.verdict is verdict
    if other.not_done:
        assert "; not checked: nodes agree" in judgement.reasons[0]
        assert any("not compared: c: ended" in each for each in judgement.reasons[1:])
    if verdict is Verdict.FAIL:
        (reason,) = judgement.reasons
        assert reason.endswith(
            f": c and {one.after.reader_name} differ in 2 rows, although both"
            " have applied all; c lacks id 7 of ledger, or has it with other content",
        )
        # A node that may be of a split cluster is not blamed.
        back = (WriterOff(PowerState.ON, answers=True), OFF)
        unsure = GONE_ON if not promise.cuts_all else replace(WHOLE, received={})
        unsure = replace(unsure, old=back) if unsure is GONE_ON else unsure
        doubt = replace(one, after=replace(one.after, promotion=unsure))
        doubt = replace(doubt, manifest=replace(doubt.manifest, promise=promise))
        assert judge(doubt).verdict is Verdict.INCONCLUSIVE


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"stagger_s": -1.0}, "is staggered"),
        ({"stagger_s": float("nan")}, "is staggered"),
        ({"stagger_s": 1e9}, "no cuts are"),
        ({"stagger_s": 3.0, "promise": Promise.ALL_WRITER_GONE}, "is staggered"),
    ],
)
def test_a_manifest_does_not_excuse_nodes_that_went_late(
    changed: dict[str, Any], why: str
) -> None:
    manifest = case(Promise.ALL, WHOLE).manifest
    assert replace(manifest, stagger_s=3.0, lab={}).stagger_s == 3.0
    with pytest.raises(ValueError, match=why):
        replace(manifest, **changed)
