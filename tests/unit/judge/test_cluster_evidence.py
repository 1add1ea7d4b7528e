"""What shows that a standby which took over had to have every commit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dbcheck.judge import cluster, host, insync, load_and_witness, timeoff
from dbcheck.judge.case import Case
from dbcheck.judge.item import ItemId, Status
from dbcheck.judge.judge import judge, list_evidence
from dbcheck.judge.server_end import judge_not_shut_down
from dbcheck.model.cluster import (
    Promise,
    SiteKind,
    compare_lineage,
    judge_settings_for_promise,
    select_settings_for_promise,
)
from dbcheck.model.cut import Cut, CutClass, FaultRecord, Gone, PowerState
from dbcheck.model.outage import OutageRecord, ProbeAck, Probed
from dbcheck.model.records import NodeAfter, NodeAtTheCut
from dbcheck.model.replication import (
    Change,
    CutWhilePromoted,
    Descent,
    Follower,
    PromotedBy,
    Promotion,
    Received,
    ReplicationSeen,
    ReplicationTally,
    ReturnedWriter,
    WriterOff,
)
from dbcheck.model.verdict import ControlOutcome, Verdict
from dbcheck.rows.acks import PREFLIGHT_SESSION
from dbcheck.rows.differences import (
    ChangedRow,
    OtherNode,
    RowsLeftOnNode,
    count_differing_rows,
    find_rows_left_on_node,
)
from dbcheck.rows.loss import Loss, Losses, LossKind
from tests.kit.cases import item, loaded
from tests.kit.cycles import record, records_of
from tests.kit.host_samples import BEFORE as BEFORE_ON_HOST
from tests.kit.nodes import after_of, at_the_cut
from tests.kit.samples import CLEAN, FACTS, MANIFEST

LOST_ROWS = ControlOutcome.LOST
LOST = Loss(LossKind.MISSING_TAIL, 1, 1, 1, 1, "ledger")
OFF = WriterOff(PowerState.OFF, answers=False)
UNKNOWN = WriterOff(PowerState.UNKNOWN, answers=False)
SETTINGS = {
    "fsync": "on",
    "synchronous_commit": "on",
    "synchronous_standby_names": "ANY 1 (b)",
}
BEFORE = replace(
    FACTS,
    identity={"system_identifier": "1", "timeline": "00000001"},
    settings=SETTINGS,
)
AFTER = replace(
    BEFORE,
    identity={**BEFORE.identity, "timeline": "00000002"},
    started_us=BEFORE.started_us + 10_000_000,
)
WRITER = replace(MANIFEST.writer, facts=BEFORE)
SEEN = ReplicationSeen(41, 8_000_000, 9_990_000, 60_000, (Change(8_000_000, ("b",)),))
PROMOTION = Promotion(
    PromotedBy.SQL,
    {"standby": Received(1000, 1000), "other": Received(1000, 900)},
    Descent({"00000001": 1000}, "00000002"),
    (OFF, OFF),
)


def case(
    promise: Promise = Promise.WRITER_GONE,
    promotion: Promotion = PROMOTION,
    seen: ReplicationSeen | None = SEEN,
    **after: Any,
) -> Case:
    """Return a cycle of a cluster in which "standby" took over from "writer"."""
    nodes = {
        "writer": WRITER,
        "standby": replace(WRITER, member="b", connection="slot b"),
        "other": replace(WRITER, member="c", connection="address 10.0.0.3"),
    }
    manifest = replace(
        MANIFEST,
        site=SiteKind.STREAMING,
        nodes=nodes,
        writer_name="writer",
        promise=promise,
        lab={"cut": "process"},
    )
    one = loaded(settings=SETTINGS, gone=Gone.BROKEN)
    cut = NodeAtTheCut(Cut(9_000_000, 10_000_000), host_lived=False)
    cuts = dict.fromkeys(nodes, at_the_cut(one) if promise.cuts_all else cut)
    load = replace(one, nodes=cuts, replication=seen)
    found = {name: NodeAfter(None) for name in nodes} | {"standby": NodeAfter(AFTER)}
    record = replace(
        after_of(), nodes=found, reader_name="standby", promotion=promotion, **after
    )
    return Case(manifest, load, None, record, found=CLEAN)


@pytest.mark.parametrize(
    ("promise", "classes", "says"),
    [
        (
            Promise.WRITER,
            {"writer": CutClass.PROCESS},
            "a kill of the server's process of the writer",
        ),
        (Promise.WRITER, {"writer": CutClass.AC}, "a power cut of the writer"),
        (Promise.WRITER, {"other": CutClass.RESET}, "a power cut of the writer"),
        (
            Promise.ALL,
            {"writer": CutClass.AC, "other": CutClass.RESET},
            "a power cut or reset of the host of all nodes",
        ),
    ],
)
def test_a_cluster_survived_a_power_cut_only_if_power_was_cut(
    promise: Promise, classes: dict[str, CutClass], says: str
) -> None:
    one = case(promise)
    nodes = {
        name: replace(node, cut_class=classes.get(name, CutClass.UNKNOWN))
        for name, node in one.manifest.nodes.items()
    }
    one = replace(one, manifest=replace(one.manifest, nodes=nodes))
    found = cluster.describe_what_was_survived(one)
    assert found is not None
    assert found.what == says


def test_a_sound_takeover_has_all_the_evidence() -> None:
    one = case()
    for each in (
        cluster.judge_promised_settings,
        cluster.judge_writer_off,
        cluster.judge_promoted_node,
        cluster.judge_all_applied,
        insync.judge_in_sync,
    ):
        assert item(each, one).status is Status.PRESENT, each
    assert not judge(one).other_data


def test_of_a_quorum_the_cluster_chooses_who_has_every_commit() -> None:
    """Patroni's choice is tested: a node that lacks a commit is a loss, not a doubt."""
    names = {"synchronous_standby_names": "ANY 1 (b,c)"}
    seen = replace(SEEN, changes=(Change(8_000_000, ("b", "c")),))
    behind = {"standby": Received(900, 900), "other": Received(1000, 1000)}
    for by, status in (
        (PromotedBy.AUTO, Status.PRESENT),
        (PromotedBy.COMMAND, Status.CONTRADICTED),
    ):
        chosen = replace(PROMOTION, by=by, received=behind)
        one = case(promotion=replace(chosen, descent=Descent({"00000001": 900}, "2")))
        facts = replace(BEFORE, settings=SETTINGS | names)
        nodes = {**one.manifest.nodes, "writer": replace(WRITER, facts=facts)}
        manifest = replace(one.manifest, nodes=nodes)
        assert one.load is not None
        one = replace(one, manifest=manifest, load=replace(one.load, replication=seen))
        found = item(insync.judge_in_sync, one)
        assert found.status is Status.PRESENT
        assert "commits waited for any 1 of b, c" in found.reason
        assert item(cluster.judge_promoted_node, one).status is status


@pytest.mark.parametrize(
    ("old", "status"),
    [
        ((OFF, OFF), Status.PRESENT),
        ((UNKNOWN, UNKNOWN), Status.ASSUMED),
        ((OFF, UNKNOWN), Status.ASSUMED),
        ((OFF,), Status.NOT_OBSERVABLE),
        ((), Status.NOT_OBSERVABLE),
        ((OFF, WriterOff(PowerState.ON, answers=False)), Status.CONTRADICTED),
        ((WriterOff(PowerState.OFF, answers=True), OFF), Status.CONTRADICTED),
        ((WriterOff(PowerState.UNKNOWN, answers=True),), Status.CONTRADICTED),
    ],
)
def test_the_old_writer_must_stay_off(old: Any, status: Status) -> None:
    one = case(promotion=replace(PROMOTION, old=old))
    assert item(cluster.judge_writer_off, one).status is status
    verdict = judge(one)
    if status is Status.CONTRADICTED:
        assert verdict.verdict is Verdict.INCONCLUSIVE
        assert "split in two" in verdict.reasons[0]
        assert "acknowledged" not in verdict.reasons[0]
        lost = replace(one, found=replace(CLEAN, losses=Losses.of([LOST])))
        reason = judge(lost).reasons[0]
        # What the new writer lacks is counted, and not held against it.
        assert reason.startswith("1 of the 100 acknowledged commits was lost; but")
        assert "split in two" in reason


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({"descent": None}, Status.NOT_OBSERVABLE),
        ({"descent": Descent(unread="no file")}, Status.NOT_OBSERVABLE),
        ({"descent": Descent({"00000002": 1000}, "00000003")}, Status.CONTRADICTED),
        ({"received": {"standby": Received(999, 1), "other": Received(1000, 1)}},
         Status.CONTRADICTED),
        ({"received": {"standby": Received(None, 1), "other": Received(1, 1)}},
         Status.CONTRADICTED),
        ({"by": PromotedBy.AUTO,
          "received": {"standby": Received(1, 1), "other": Received(1000, 1)}},
         Status.PRESENT),
    ],
)  # fmt: skip
def test_the_node_that_took_over_must_be_the_one(changed: Any, status: Status) -> None:
    one = case(promotion=replace(PROMOTION, **changed))
    assert item(cluster.judge_promoted_node, one).status is status


@pytest.mark.parametrize(
    ("changed", "verdict"),
    [
        ({}, Verdict.FAIL),
        ({"old": (UNKNOWN, UNKNOWN)}, Verdict.FAIL),
        ({"old": (OFF,)}, Verdict.INCONCLUSIVE),
        ({"old": (OFF, WriterOff(PowerState.ON, answers=False))}, Verdict.INCONCLUSIVE),
        ({"descent": Descent(unread="no file")}, Verdict.INCONCLUSIVE),
        ({"descent": Descent({"00000007": 1000}, "8")}, Verdict.INCONCLUSIVE),
        ({"received": {}}, Verdict.INCONCLUSIVE),
    ],
)
def test_a_missing_row_is_a_loss_only_of_a_node_that_must_have_it(
    changed: Any, verdict: Verdict
) -> None:
    one = case(promotion=replace(PROMOTION, **changed))
    lost = replace(one, found=replace(CLEAN, losses=Losses.of([LOST])))
    assert judge(lost).verdict is verdict, judge(lost).reasons


@pytest.mark.parametrize(
    ("switch", "status"),
    [
        (1000, Status.PRESENT),
        (900, Status.PRESENT),  # the beginning of a record
        (1000 - cluster.PARTIAL_RECORD_MAX - 1, Status.CONTRADICTED),
        (None, Status.NOT_OBSERVABLE),
    ],
)
def test_all_that_was_received_must_be_applied(
    switch: int | None, status: Status
) -> None:
    descent = Descent({} if switch is None else {"00000001": switch}, "00000002")
    one = case(promotion=replace(PROMOTION, descent=descent))
    assert item(cluster.judge_all_applied, one).status is status
    unknown = replace(PROMOTION, received={})
    found = item(cluster.judge_all_applied, case(promotion=unknown))
    assert found.status is Status.NOT_OBSERVABLE


@pytest.mark.parametrize(
    ("seen", "status"),
    [
        (SEEN, Status.PRESENT),
        (None, Status.NOT_OBSERVABLE),
        (replace(SEEN, samples=15), Status.NOT_OBSERVABLE),
        (replace(SEEN, last_us=9_400_000), Status.NOT_OBSERVABLE),
        # What the server's own marks show holds between any two samples, and nobody
        # but an administrator ends it after the last one.
        (replace(SEEN, samples=3, marked=True), Status.PRESENT),
        (replace(SEEN, samples=3, marked=True, broken_us=9), Status.NOT_OBSERVABLE),
        (replace(SEEN, last_us=9_400_000, marked=True), Status.ASSUMED),
        (replace(SEEN, last_us=7_900_000, marked=True), Status.NOT_OBSERVABLE),
        (replace(SEEN, changes=(Change(1, ("c",)),)), Status.ABSENT),
        (replace(SEEN, changes=(*SEEN.changes, Change(2, ()))), Status.ABSENT),
        (replace(SEEN, changes=(Change(1, ("b", "x")),)), Status.CONTRADICTED),
        (replace(SEEN, changes=(Change(1, ("b", "b")),)), Status.CONTRADICTED),
    ],
)
def test_commits_must_have_waited_for_it_until_the_cut(
    seen: ReplicationSeen | None, status: Status
) -> None:
    one = case(seen=seen)
    assert item(insync.judge_in_sync, one).status is status
    if status is Status.CONTRADICTED:  # what another standby has may look lost
        lost = replace(CLEAN, losses=Losses.of([LOST]))
        assert judge(replace(one, found=lost)).verdict is Verdict.INCONCLUSIVE


def waited(*connections: str, names: str = "b") -> Any:
    """Return what was seen of a standby awaited over these connections in turn."""
    changes = (
        Change(8_000_000 + at, tuple(names), None, (found,) * len(names))
        for at, found in enumerate(connections)
    )
    return replace(SEEN, changes=tuple(changes))


@pytest.mark.parametrize(
    ("seen", "status"),
    [
        (waited("slot b"), Status.PRESENT),
        (waited("slot x"), Status.CONTRADICTED),
        (waited("slot x", "slot b"), Status.CONTRADICTED),
        # The standby is gone, and its slot with it; or another bears its name alone.
        (waited("slot b", "address 10.0.0.9"), Status.ABSENT),
        (waited("address 10.0.0.9", "slot b"), Status.PRESENT),
        (waited("slot b", names="bb"), Status.CONTRADICTED),
        (replace(SEEN, shared=("b",)), Status.CONTRADICTED),
        (replace(SEEN, shared=("c",)), Status.CONTRADICTED),
        (replace(SEEN, shared=("pg_basebackup",)), Status.PRESENT),
    ],
)
def test_a_name_alone_shows_no_node(seen: ReplicationSeen, status: Status) -> None:
    one = case(seen=seen)
    assert item(insync.judge_in_sync, one).status is status
    if status is Status.CONTRADICTED:
        lost = replace(CLEAN, losses=Losses.of([LOST]))
        assert judge(replace(one, found=lost)).verdict is Verdict.INCONCLUSIVE


@pytest.mark.parametrize(
    ("seen", "awaited"),
    [
        (SEEN, {"standby"}),
        (replace(SEEN, changes=(Change(1, ("b", "c")),)), {"standby", "other"}),
        (replace(SEEN, changes=(*SEEN.changes, Change(2, ()))), set()),
        (waited("slot b"), {"standby"}),
        (waited("slot b", "address 10.0.0.9"), set()),
        # Another server may be meant, or the writer was not asked.
        (waited("slot x"), None),
        (replace(SEEN, changes=(Change(1, ("b", "x")),)), None),
        (replace(SEEN, shared=("b",)), None),
        (None, None),
    ],
)
def test_only_a_node_that_is_known_is_listed_as_awaited(
    seen: ReplicationSeen | None, awaited: set[str] | None
) -> None:
    assert insync.find_awaited_nodes(case(seen=seen)) == awaited


NOT_AWAITED = replace(SEEN, changes=(Change(8_000_000, ()),))
DETACHED = replace(SEEN, shared=("b",), changes=(*SEEN.changes, Change(2, ())))
EARLY = Loss(LossKind.MISSING_TAIL, PREFLIGHT_SESSION, 1, 1, 1, "ledger")


def control_of(seen: ReplicationSeen | None = NOT_AWAITED, **more: Any) -> Case:
    one = case(seen=seen, **more)
    return replace(one, manifest=replace(one.manifest, control=True))


@pytest.mark.parametrize("seen", [NOT_AWAITED, DETACHED, SEEN, None])
def test_what_the_commits_of_a_control_waited_for_decides_nothing(
    seen: ReplicationSeen | None,
) -> None:
    """They were told not to wait, and a standby that connects again is shown twice."""
    one = control_of(seen)
    assert not [each for each in list_evidence(one) if each.id is ItemId.IN_SYNC]
    lost = replace(one, found=replace(CLEAN, losses=Losses.of([LOST])))
    judgement = judge(lost)
    assert (judgement.control, judgement.verdict) == (LOST_ROWS, Verdict.PASS)
    assert cluster.explain_missing_commits(lost) == ""
    assert judge(one).control is ControlOutcome.BLIND


@pytest.mark.parametrize(
    "one",
    [
        pytest.param(control_of(waited("slot b", names="bx")), id="a stranger"),
        pytest.param(
            control_of(promotion=replace(PROMOTION, descent=None)), id="whose"
        ),
        pytest.param(control_of(promotion=replace(PROMOTION, old=(OFF,))), id="off"),
        pytest.param(
            control_of(
                promotion=replace(PROMOTION, received={"standby": Received(9000000, 1)})
            ),
            id="not applied",
        ),
        pytest.param(
            control_of(
                promotion=replace(
                    PROMOTION, received={**PROMOTION.received, "x": Received(2000, 9)}
                )
            ),
            id="another had more",
        ),
    ],
)
def test_a_control_needs_the_evidence_that_another_node_took_over(one: Case) -> None:
    lost = replace(one, found=replace(CLEAN, losses=Losses.of([LOST])))
    judgement = judge(lost)
    assert judgement.control is ControlOutcome.UNFAIR
    assert judgement.verdict is Verdict.INCONCLUSIVE


@pytest.mark.parametrize("loss", [EARLY, LOST._replace(kind=LossKind.CORRUPT)])
def test_a_control_of_a_cluster_loses_no_more_than_its_last_commits(loss: Loss) -> None:
    """Each node had the first rows, and no kind of control damages any."""
    one = replace(control_of(), found=replace(CLEAN, losses=Losses.of([LOST, loss])))
    assert judge(one).control is ControlOutcome.FAILED


def test_the_headline_of_a_loss_names_the_cluster_and_who_took_over() -> None:
    lost = replace(case(), found=replace(CLEAN, losses=Losses.of([LOST])))
    assert judge(lost).reasons[0].startswith("the cluster lost 1 of the ")
    assert judge(lost).reasons[0].endswith("; standby took over")


@pytest.mark.parametrize(
    ("kind", "of_writer", "names"),
    [
        (SiteKind.SINGLE, True, []),
        (SiteKind.STREAMING, True, ["synchronous_standby_names", "synchronous_commit"]),
        (SiteKind.STREAMING, False, []),
        (SiteKind.SEMI_SYNC, True, ["rpl_semi_sync_source_enabled"]),
        (SiteKind.SEMI_SYNC, False, ["sync_relay_log"]),
        (SiteKind.GALERA, False, ["innodb_flush_log_at_trx_commit", "pc.ignore_sb"]),
        (
            SiteKind.GROUP_REPLICATION,
            True,
            ["innodb_flush_log_at_trx_commit", "sync_binlog"],
        ),
    ],
)
def test_a_report_shows_the_settings_that_a_promise_rests_on(
    kind: SiteKind, of_writer: bool, names: list[str]
) -> None:
    read = (
        *("fsync", "synchronous_standby_names", "synchronous_commit", "sync_binlog"),
        *("rpl_semi_sync_source_enabled", "sync_relay_log", "pc.ignore_sb"),
        "innodb_flush_log_at_trx_commit",
    )
    settings = dict.fromkeys(read, "x")
    shown = select_settings_for_promise(kind, settings, of_writer=of_writer)
    assert list(shown) == names


def test_another_address_is_another_server() -> None:
    """The node "c" uses no slot."""
    both = Change(8_000_000, ("b", "c"), None, ("slot b", "address 10.0.0.9"))
    found = item(insync.judge_in_sync, case(seen=replace(SEEN, changes=(both,))))
    assert found.status is Status.CONTRADICTED


@pytest.mark.parametrize(
    ("connection", "doubt"), [(None, ""), ("address 10.0.0.2", "behind NAT")]
)
def test_a_connection_that_was_not_recognised_is_assumed(
    connection: str | None, doubt: str
) -> None:
    one = case()
    node = replace(
        one.manifest.nodes["standby"], connection=connection, member_doubt=doubt
    )
    nodes = {**one.manifest.nodes, "standby": node}
    found = item(
        insync.judge_in_sync, replace(one, manifest=replace(one.manifest, nodes=nodes))
    )
    assert found.status is Status.ASSUMED
    assert doubt in found.reason


def test_a_name_that_two_bear_at_a_sample_is_remembered() -> None:
    tally = ReplicationTally()
    one = Follower("15/main", "streaming", "sync", connection="slot b")
    other = replace(one, sync="potential", connection="address 10.0.0.9")
    for at, followers in ((10, [one, other]), (20, [one])):
        tally.add(at, followers, at + 1)
    seen = tally.seen()
    assert seen is not None
    assert seen.awaited() == ("15/main",)
    assert seen.shared == ("15/main",)
    assert not seen.is_unbroken()  # no marks


def test_a_late_sample_shows_little_where_the_wait_may_end_by_itself() -> None:
    late = replace(SEEN, last_us=9_400_000, marked=True)
    both = replace(late, changes=(Change(8_000_000, ("b", "c")),))
    assert item(insync.judge_in_sync, case(seen=both)).status is Status.NOT_OBSERVABLE
    for timeout, status in (
        ("10000", Status.ASSUMED),
        ("900", Status.NOT_OBSERVABLE),
        (None, Status.NOT_OBSERVABLE),
    ):
        one = case(seen=late)
        writer, name = one.manifest.writer, one.manifest.writer_name
        settings = dict(writer.facts.settings)
        if timeout is not None:
            settings["rpl_semi_sync_source_timeout"] = timeout
        facts = replace(writer.facts, settings=settings)
        nodes = {**one.manifest.nodes, name: replace(writer, facts=facts)}
        manifest = replace(one.manifest, nodes=nodes, site=SiteKind.SEMI_SYNC)
        found = item(insync.judge_in_sync, replace(one, manifest=manifest))
        assert found.status is status, timeout


@pytest.mark.parametrize(
    ("answered_us", "exact_us", "status"),
    [
        (9_000_000, 9_001_000, Status.PRESENT),
        (8_999_999, 9_001_000, Status.ABSENT),
        (None, 9_001_000, Status.ABSENT),
        (9_000_000, None, Status.ABSENT),
    ],
)
def test_a_writer_that_outlives_a_standby_waited_for_it_at_the_cut(
    answered_us: int | None, exact_us: int | None, status: Status
) -> None:
    """The standbys' switches were asked at 9.0 s; the writer showed none after that."""
    changes = (*SEEN.changes, Change(8_999_000, (), answered_us))
    one = case(Promise.ALL_WRITER_GONE, seen=replace(SEEN, changes=changes))
    assert one.load is not None
    cut = NodeAtTheCut(Cut(9_000_000, exact_us), host_lived=False)
    nodes = {**one.load.nodes, "standby": cut, "other": cut}
    nodes["writer"] = NodeAtTheCut(Cut(8_990_000, 10_000_000), host_lived=False)
    one = replace(one, load=replace(one.load, nodes=nodes))
    assert item(insync.judge_in_sync, one).status is status


@pytest.mark.parametrize(
    ("exact_us", "heard_us", "status"),
    [
        (9_600_000, None, Status.PRESENT),
        (10_600_000, None, Status.ABSENT),
        (None, None, Status.NOT_OBSERVABLE),
        (None, 9_700_000, Status.ASSUMED),
        (None, 29_000_000, Status.ABSENT),
    ],
)
def test_a_standby_must_have_been_cut_when_the_writer_was(
    exact_us: int | None, heard_us: int | None, status: Status
) -> None:
    """The last ack came at 9.5 s, and no session is connected to a standby."""
    one = case(Promise.ALL_WRITER_GONE)
    assert one.load is not None
    cut = NodeAtTheCut(Cut(9_000_000, exact_us), heard_us=heard_us, host_lived=False)
    load = replace(one.load, nodes=dict.fromkeys(one.manifest.nodes, cut))
    assert item(timeoff.judge_nodes_cut, replace(one, load=load)).status is status
    none = {**load.nodes, "other": NodeAtTheCut(None)}
    found = item(timeoff.judge_nodes_cut, replace(one, load=replace(load, nodes=none)))
    assert found.status is Status.NOT_OBSERVABLE
    assert "no cut of other" in found.reason


def test_the_writer_s_silence_says_nothing_of_a_standby() -> None:
    one = case(Promise.ALL_WRITER_GONE)
    assert one.load is not None
    silent = replace(one.load, gone=Gone.SILENT, farewells=("bye",))
    silent = replace(
        silent, nodes=dict.fromkeys(one.manifest.nodes, NodeAtTheCut(Cut(1, None)))
    )
    ended = judge_not_shut_down(replace(one, load=silent))
    assert ended.status is Status.NOT_OBSERVABLE
    assert "no session is connected to a standby" in ended.reason


def test_a_fenced_writer_that_fell_silent_and_stayed_off_was_not_shut_down() -> None:
    one = case()
    assert one.load is not None
    fenced = NodeAtTheCut(Cut(1, None, {"off_seen": True}))
    nodes = {**one.load.nodes, "writer": fenced}
    load = replace(one.load, gone=Gone.SILENT, nodes=nodes)
    assert judge_not_shut_down(replace(one, load=load)).status is Status.ASSUMED
    unread = replace(one.after, promotion=replace(PROMOTION, old=(OFF, UNKNOWN)))
    found = judge_not_shut_down(replace(one, load=load, after=unread))
    assert found.status is Status.NOT_OBSERVABLE


def test_nothing_of_it_is_asked_where_the_writer_is_read() -> None:
    one = case(Promise.WRITER)
    found = {name: NodeAfter(BEFORE) for name in one.manifest.nodes}
    read = replace(one.after, nodes=found, reader_name="writer", promotion=None)
    one = replace(one, after=read)
    ids = {each.id for each in list_evidence(one)}
    assert not ids & {ItemId.IN_SYNC, ItemId.WRITER_OFF, ItemId.PROMOTED}
    assert ItemId.PROMISED_SETTINGS in ids
    assert one.tested_name == "writer"
    assert not one.reader_kept_power


def test_which_node_is_judged_by_its_cut() -> None:
    gone = case()
    assert (gone.tested_name, gone.reader_kept_power) == ("writer", True)
    assert gone.depths == []
    everywhere = case(Promise.ALL_WRITER_GONE)
    assert (everywhere.tested_name, everywhere.reader_kept_power) == ("standby", False)


def test_nobody_is_told_to_name_the_host_of_a_writer_that_stays_off() -> None:
    gone = case()
    writer = replace(gone.manifest.writer, host=BEFORE_ON_HOST)
    nodes = {**gone.manifest.nodes, "writer": writer}
    gone = replace(gone, manifest=replace(gone.manifest, nodes=nodes))
    asked = host.judge_readings_after_cut(gone)
    for one in (asked, host.judge_not_restored(gone)):
        assert one is not None
        assert "writer stays off" in one.reason
        assert "--target-host" not in one.reason
    assert "--target-host" in host.judge_not_restored(case()).reason


@pytest.mark.parametrize(
    ("promise", "changed", "why"),
    [
        (Promise.WRITER_GONE, {}, ""),
        (Promise.WRITER_GONE, {"synchronous_commit": "remote_apply"}, ""),
        (Promise.WRITER_GONE, {"synchronous_commit": "remote_write"}, ""),
        (Promise.ALL_WRITER_GONE, {"synchronous_commit": "remote_write"}, "flushed"),
        (Promise.WRITER_GONE, {"synchronous_commit": "local"}, "= local"),
        (Promise.WRITER_GONE, {"synchronous_commit": "off"}, "= off"),
        (Promise.WRITER_GONE, {"synchronous_standby_names": ""}, "is empty"),
        (Promise.ALL, {"synchronous_standby_names": ""}, ""),
        (Promise.WRITER, {"synchronous_commit": "local"}, ""),
    ],
)
def test_settings_that_contradict_the_promise(
    promise: Promise, changed: dict[str, str], why: str
) -> None:
    found = judge_settings_for_promise(
        SiteKind.STREAMING, promise, {**SETTINGS, **changed}, {}
    )
    assert why in found.contradiction
    assert bool(found.contradiction) == bool(why)
    assert not found.doubts


SEMI_SYNC = {
    "rpl_semi_sync_source_enabled": "ON",
    "rpl_semi_sync_source_timeout": "4294967295",
    "rpl_semi_sync_source_wait_no_replica": "ON",
}
REPLICA = {"relay_log_recovery": "OFF", "sync_relay_log": "1"}


@pytest.mark.parametrize(
    ("promise", "changed", "why", "doubts"),
    [
        (Promise.WRITER_GONE, {}, "", 0),
        (Promise.ALL_WRITER_GONE, {}, "", 0),
        (Promise.WRITER_GONE, {"rpl_semi_sync_source_enabled": "OFF"}, "is off", 0),
        (Promise.WRITER, {"rpl_semi_sync_source_enabled": "OFF"}, "", 0),
        (Promise.WRITER_GONE, {"rpl_semi_sync_source_timeout": "10000"}, "", 1),
        (Promise.WRITER_GONE, {"rpl_semi_sync_source_wait_no_replica": "OFF"}, "", 1),
        (Promise.ALL_WRITER_GONE, {"relay_log_recovery": "ON"}, "discards", 0),
        (Promise.ALL_WRITER_GONE, {"sync_relay_log": "10000"}, "not flushed", 0),
        (Promise.WRITER_GONE, {"sync_relay_log": "10000"}, "", 0),
    ],
)
def test_what_semi_synchronous_replication_promises(
    promise: Promise, changed: dict[str, str], why: str, doubts: int
) -> None:
    writer, replica = {**SEMI_SYNC, **changed}, {**REPLICA, **changed}
    found = judge_settings_for_promise(SiteKind.SEMI_SYNC, promise, writer, replica)
    assert why in found.contradiction
    assert bool(found.contradiction) == bool(why)
    assert len(found.doubts) == doubts
    old = {name.replace("source", "master"): v for name, v in writer.items()}
    old = {name.replace("no_replica", "no_slave"): v for name, v in old.items()}
    old["binlog_commit_wait_count"] = "0"
    of_mariadb = judge_settings_for_promise(
        SiteKind.SEMI_SYNC, promise, old, replica
    ).contradiction
    if promise is Promise.ALL_WRITER_GONE:
        assert "MariaDB" in of_mariadb or "is off" in of_mariadb
    else:
        assert of_mariadb == found.contradiction


def test_settings_that_were_not_read_are_assumed() -> None:
    gone = Promise.ALL_WRITER_GONE
    of_postgresql = judge_settings_for_promise(SiteKind.STREAMING, gone, {}, {})
    assert of_postgresql.doubts == ("synchronous_standby_names could not be read",)
    (doubt,) = judge_settings_for_promise(
        SiteKind.SEMI_SYNC, gone, SEMI_SYNC, {}
    ).doubts
    assert "relay_log_recovery" in doubt


@pytest.mark.parametrize(
    ("identity", "other"),
    [
        ({"system_identifier": "1", "timeline": "00000002"}, ""),
        ({"system_identifier": "1", "timeline": "0000000A"}, ""),
        ({"system_identifier": "2", "timeline": "00000002"}, "not of this cluster"),
        ({"system_identifier": "1", "timeline": "00000001"}, "was not promoted"),
    ],
)
def test_another_node_is_read_only_of_this_cluster(
    identity: dict[str, str], other: str
) -> None:
    found = compare_lineage(
        SiteKind.STREAMING, BEFORE.identity, identity, promoted=BEFORE.identity
    )
    assert other in found.other
    assert bool(found.other) == bool(other)
    forged = {**identity, "timeline": "zz"}
    assert not compare_lineage(
        SiteKind.STREAMING, BEFORE.identity, forged, promoted={}
    ).same
    unread = compare_lineage(SiteKind.STREAMING, {}, identity, promoted=BEFORE.identity)
    assert "could not be read" in unread.unknown


def test_the_writer_itself_must_be_the_same_server() -> None:
    found = compare_lineage(SiteKind.STREAMING, BEFORE.identity, AFTER.identity)
    assert "timeline was" in found.other


def test_samples_show_who_was_awaited_and_when_that_changed() -> None:
    tally = ReplicationTally()
    assert tally.seen() is None
    sync = Follower("b", "streaming", "quorum", connection="slot b")
    for at, followers in ((10, [sync]), (40, [sync]), (50, [])):
        tally.add(at, followers, at + 1)
    catching_up = replace(sync, state="catchup")
    tally.add(60, [catching_up], 61)
    seen = tally.seen("gone")
    assert seen == ReplicationSeen(
        *(4, 10, 60, 30),
        (Change(10, ("b",), 11, ("slot b",)), Change(50, (), 51)),
        "gone",
        marked=False,
        broken_us=51,
    )
    assert seen.awaited() == ()


@pytest.mark.parametrize(
    ("marks", "unbroken"),
    [
        (("1", "1", "1"), True),
        (("1", "1", "2"), False),
        (("1", "2", "1"), False),
        (("", "", ""), False),  # the server shows no mark
        (("1", "", "1"), False),
    ],
)
def test_equal_marks_show_that_the_wait_never_lapsed(
    marks: tuple[str, ...], unbroken: bool
) -> None:
    tally = ReplicationTally()
    for at, mark in enumerate(marks):
        tally.add(at * 10, [Follower("b", "streaming", "sync", mark)], at * 10 + 1)
    seen = tally.seen()
    assert seen is not None
    assert seen.is_unbroken() is unbroken


def test_a_wait_that_ended_with_the_standby_was_unbroken_before() -> None:
    tally, sync = ReplicationTally(), Follower("b", "streaming", "sync", "1")
    for at, followers in ((10, [sync]), (20, [sync]), (30, [])):
        tally.add(at, followers, at + 1)
    seen = tally.seen()
    assert seen is not None
    assert seen.is_unbroken(before_us=31)
    assert not seen.is_unbroken(before_us=32)
    assert not seen.is_unbroken()


def test_what_another_node_has_alone() -> None:
    """Of rows 1 to 5 the node that took over has 1 and 2; 3 and 4 were acked."""
    rows = records_of(record(1, seq, epoch=2) for seq in range(1, 6))
    lost = Losses.of(
        Loss(LossKind.MISSING_TAIL, 1, seq, seq, 0, "ledger") for seq in (3, 4)
    )
    assert find_rows_left_on_node([rows], [rows[:2]], lost, 2) == RowsLeftOnNode(
        behind=2, extra=1
    )
    assert find_rows_left_on_node([rows], [rows], lost, 2) == RowsLeftOnNode(0, 0)
    assert find_rows_left_on_node([rows], [rows[:2]], lost, 3) == RowsLeftOnNode(0, 0)


GONE_ROW = (ChangedRow("ledger", 7, 1, 1, 3, 0, was_there=True),)
NEW_ROW = (ChangedRow("ledger", 9, 1, 1, 4, 0, was_there=False),)


@pytest.mark.parametrize(
    ("found", "status", "why"),
    [
        (OtherNode(20), Status.PRESENT, "writer: the same 20 rows"),
        (
            OtherNode(22, extra=2, first_extra=NEW_ROW),
            Status.ABSENT,
            "rejoined-extra: writer rejoined, and has 2 rows that standby lacks, e.g."
            " id 9; its clients see them",
        ),
        (
            OtherNode(not_done="it is stuck", extra=1),
            Status.ABSENT,
            "rejoined-extra: writer rejoined, and has 1 row that standby lacks; its"
            " clients see them; writer: it is stuck",
        ),
        (OtherNode(not_done="no"), Status.NOT_OBSERVABLE, "not compared: writer: no"),
        (
            OtherNode(19, 1, GONE_ROW, extra=2, first_extra=NEW_ROW),
            Status.CONTRADICTED,
            "writer and standby differ in 1 row, although both have applied all; writer"
            " lacks id 7 of ledger",
        ),
    ],
)
def test_what_a_node_that_rejoined_has(
    found: OtherNode, status: Status, why: str
) -> None:
    one = case(others={"writer": found})
    agree = item(cluster.judge_nodes_agree, one)
    assert agree.status is status
    assert why in agree.reason
    # Rows that it alone has break no promise; rows that it lacks do.
    judgement = judge(one)
    assert (judgement.verdict is Verdict.FAIL) is bool(found.differing)


def test_rows_that_differ_are_counted_where_none_is_kept_by_name() -> None:
    reason = OtherNode(19, 3).reason("b", "a")
    assert reason == "b and a differ in 3 rows, although both have applied all"


def test_the_losses_of_a_node_that_rejoined_are_those_that_it_lacks() -> None:
    found = OtherNode(19, 1, GONE_ROW, extra=2, first_extra=NEW_ROW)
    assert count_differing_rows({"writer": found}) == {"diverged": 1}
    assert count_differing_rows({"writer": OtherNode(22, extra=2)}) == {}


@pytest.mark.parametrize("node", [case().manifest.writer_name, ""])
def test_a_writer_that_answered_a_probe_after_the_cut_was_not_off(node: str) -> None:
    """Without a node it was at the clients' address: who answered is not known."""
    ack = ProbeAck(1, None, 10, 11, 12, lasted=False)
    outage = OutageRecord(5, probed=(Probed("t", node, (ack,)),))
    one = replace(case(), outage=outage)
    found = item(cluster.judge_writer_off, one)
    assert found.status is Status.CONTRADICTED
    assert "1 commit of dbcheck's probes got an answer after the cut" in found.reason
    assert judge(one).verdict is Verdict.INCONCLUSIVE


def test_a_probe_whose_commit_lasted_says_nothing_of_the_writer() -> None:
    ack = ProbeAck(1, None, 10, 11, 12, lasted=True)
    one = case()
    probed = Probed("t", one.manifest.writer_name, (ack,))
    one = replace(one, outage=OutageRecord(5, probed=(probed,)))
    assert item(cluster.judge_writer_off, one).status is Status.PRESENT


CUT = CutWhilePromoted("standby", 0, 50_000, 40_000, None, 10_000, again=True)


@pytest.mark.parametrize(
    ("changed", "status", "says"),
    [
        ({}, Status.PRESENT, "came back as a standby, and took over when it was asked"),
        ({"answered_us": None}, Status.ASSUMED, "that the first order reached it"),
        ({"answered_us": 60_000}, Status.ASSUMED, "that the first order reached it"),
        ({"again": False}, Status.PRESENT, "no writes 10 ms before that; it came back"),
        ({"again": False, "looked_us": None}, Status.NOT_OBSERVABLE, "was not seen"),
        ({"again": False, "gone_us": 900_000}, Status.NOT_OBSERVABLE, "was not seen"),
        ({"again": False, "taken_us": 45_000}, Status.ABSENT, "took writes 5 ms befor"),
        ({"taken_us": 45_000}, Status.ABSENT, "came back as a standby all the same"),
    ],
)
def test_the_node_that_takes_over_must_be_cut_on_its_way(
    changed: Any, status: Status, says: str
) -> None:
    one = case(promotion=replace(PROMOTION, cut=replace(CUT, **changed)))
    found = item(cluster.judge_cut_while_promoted, one)
    assert (found.status, found.required) == (status, True)
    assert says in found.reason
    survived = cluster.describe_what_was_survived(one)
    assert survived is not None
    assert survived.what.endswith(", and a cut of standby while it took over")
    assert (judge(one).verdict is Verdict.PASS) <= (status is not Status.ABSENT)


def test_what_such_a_cut_took_is_lost_although_it_was_received() -> None:
    """The node had applied it when it was asked, and ends earlier after its cut."""
    far = cluster.PARTIAL_RECORD_MAX + 2000
    received = {"standby": Received(far, far)}
    promotion = replace(PROMOTION, received=received, cut=CUT)
    one = replace(
        case(promotion=promotion), found=replace(CLEAN, losses=Losses.of([LOST]))
    )
    assert item(cluster.judge_all_applied, one).status is Status.PRESENT
    assert judge(one).verdict is Verdict.FAIL
    assert "not kept what the server flushed" in cluster.explain_missing_commits(one)
    uncut = case(promotion=replace(promotion, cut=None))
    assert item(cluster.judge_all_applied, uncut).status is Status.CONTRADICTED


def test_a_cut_that_was_planned_and_did_not_come_tested_nothing() -> None:
    one = case()
    assert cluster.judge_cut_while_promoted(one) is None
    lab = {**one.manifest.lab, "cluster": {"cut_promoted_ms": 100.0}}
    one = replace(one, manifest=replace(one.manifest, lab=lab))
    assert item(cluster.judge_cut_while_promoted, one).status is Status.ABSENT


def test_a_commit_that_such_a_cut_undid_keeps_the_run_from_counting() -> None:
    acks = (ProbeAck(1, None, 1, 2, 30_000, lasted=False),)
    outage = OutageRecord(5, probed=(Probed("t", "standby", acks),))
    one = replace(case(promotion=replace(PROMOTION, cut=CUT)), outage=outage)
    found = item(cluster.judge_cut_while_promoted, one)
    assert found.status is Status.CONTRADICTED
    assert "1 commit of dbcheck's probes, which it answered before that" in found.reason


# A third node takes over: "standby" is the one that is read, "first" was lost before.
LOST_NODE = replace(CUT, node="first", again=False, off=OFF)


def case_of_two_losses(names: str = "ANY 2 (a, b)", **changed: Any) -> Case:
    received = {**PROMOTION.received, "first": Received(2 << 40, 2 << 40)}
    cut = replace(LOST_NODE, **changed)
    one = case(promotion=replace(PROMOTION, received=received, cut=cut))
    nodes = dict(one.manifest.nodes)
    writer = nodes[one.manifest.writer_name]
    awaited = {"synchronous_standby_names": names}
    facts = replace(writer.facts, settings={**writer.facts.settings, **awaited})
    nodes[one.manifest.writer_name] = replace(writer, facts=facts)
    assert one.load is not None and one.load.settings is not None
    return replace(
        one,
        manifest=replace(one.manifest, nodes=nodes),
        load=replace(one.load, settings={**one.load.settings, **awaited}),
    )


def test_what_two_standbys_had_must_be_on_the_second_one_that_takes_over() -> None:
    one = case_of_two_losses()
    assert item(cluster.judge_cut_while_promoted, one).status is Status.PRESENT
    # That the lost node had received more does not count.
    assert item(cluster.judge_promoted_node, one).status is Status.PRESENT
    assert item(cluster.judge_promised_settings, one).status is Status.PRESENT
    off = item(cluster.judge_writer_off, one)
    assert off.status is Status.PRESENT
    assert "that of first read off once the rows were read" in off.reason
    survived = cluster.describe_what_was_survived(one)
    assert survived is not None
    assert survived.what.endswith("writer, and that of first while it took over")
    lost = replace(one, found=replace(CLEAN, losses=Losses.of([LOST])))
    assert judge(lost).verdict is Verdict.FAIL
    assert "standby, which took over without them" in cluster.explain_missing_commits(
        lost
    )


@pytest.mark.parametrize("names", ["ANY 1 (a, b)", "FIRST 1 (a, b)", "a, b", "*"])
def test_no_run_passes_where_one_standby_was_enough_and_that_one_is_lost(
    names: str,
) -> None:
    one = case_of_two_losses(names)
    found = item(cluster.judge_promised_settings, one)
    assert found.status is Status.ABSENT
    assert "once 1 of the standbys have it, and 1 may be lost" in found.reason
    assert judge(one).verdict is Verdict.INCONCLUSIVE
    back_again = case_of_two_losses(names, off=None, again=True, node="standby")
    promised = item(cluster.judge_promised_settings, back_again)
    assert promised.status is Status.PRESENT


@pytest.mark.parametrize(
    ("off", "status"),
    [
        (WriterOff(PowerState.ON, answers=False), Status.CONTRADICTED),
        (WriterOff(PowerState.OFF, answers=True), Status.CONTRADICTED),
        (WriterOff(PowerState.UNKNOWN, answers=False), Status.ASSUMED),
    ],
)
def test_a_node_that_was_asked_to_take_over_and_lost_must_stay_off(
    off: WriterOff, status: Status
) -> None:
    """Else it may be a writer as well, and have what is missing."""
    one = case_of_two_losses(off=off)
    assert item(cluster.judge_writer_off, one).status is status
    if status is Status.CONTRADICTED:
        lost = replace(one, found=replace(CLEAN, losses=Losses.of([LOST])))
        for each in (one, lost):
            assert judge(each).verdict is Verdict.INCONCLUSIVE


def test_a_node_that_took_writes_before_it_was_lost_tested_nothing_on_its_way() -> None:
    one = case_of_two_losses(taken_us=45_000)
    assert item(cluster.judge_cut_while_promoted, one).status is Status.ABSENT
    unordered = case_of_two_losses(answered_us=None)
    found = item(cluster.judge_cut_while_promoted, unordered)
    assert found.status is Status.ASSUMED


BACK = WriterOff(PowerState.ON, answers=True, taken_over=True, planned=True)
RETURNED = ReturnedWriter(20, 6_000_020)


@pytest.mark.parametrize(
    ("tries", "old", "status", "says"),
    [
        (Probed("t", "writer", refused=3, error="read-only", tried_us=30), (OFF, BACK),
         Status.ASSUMED, "refused 3, left 0 without an answer, since the cut; the last"
         " it said: read-only"),
        (Probed("t", "writer", refused=3, tried_us=30),
         (OFF, replace(BACK, answers=False)), Status.NOT_OBSERVABLE, "no connections"),
        (Probed("t", "writer", refused=3, tried_us=10), (OFF, BACK),
         Status.NOT_OBSERVABLE, "was not tried"),
        (None, (OFF, BACK), Status.NOT_OBSERVABLE, "was not seen"),
        (Probed("t", "writer", refused=3, tried_us=30),
         (OFF, WriterOff(PowerState.ON, answers=False), BACK),
         Status.CONTRADICTED, "was up again before"),
        (Probed("t", "writer", (ProbeAck(7, None, 1, 2, 3, lasted=False),
         ProbeAck(9, None, 1, 2, 3, lasted=False)), tried_us=30), (OFF, BACK),
         Status.CONTRADICTED, "2 commits of dbcheck's probes (number 7 to 9) got an"
         " answer after the cut, and standby lacks them: clients would have lost them"),
    ],
)  # fmt: skip
def test_an_old_writer_that_returns_must_answer_nothing(
    tries: Probed | None, old: Any, status: Status, says: str
) -> None:
    one = case(promotion=replace(PROMOTION, old=old, returned=RETURNED))
    if tries is not None:
        one = replace(one, outage=OutageRecord(5, probed=(tries,)))
    found = item(cluster.judge_writer_off, one)
    assert found.status is status
    assert says in found.reason
    if status in (Status.CONTRADICTED, Status.NOT_OBSERVABLE):
        assert judge(one).verdict is Verdict.INCONCLUSIVE


THERE = FaultRecord("writer", 9_000_000, 9_100_000, ended_us=10_500_000)


@pytest.mark.parametrize(
    ("fault", "status", "says"),
    [
        (THERE, Status.PRESENT, "0.9 s before the cut, until 0.5 s after it"),
        (replace(THERE, ended_us=3), Status.PRESENT, "a later client ended it"),
        (replace(THERE, began_us=10_200_000), Status.ABSENT, "began after the cut"),
        (replace(THERE, began_us=None, failure="exit 1"), Status.ABSENT,
         "the fault of writer did not begin: exit 1"),
        (replace(THERE, began_us=None), Status.ABSENT,
         "whether the fault of writer began is not known"),
        (replace(THERE, ended_us=None, end_failure="no route"), Status.NOT_OBSERVABLE,
         "may still be there: no route"),
        (replace(THERE, ended_us=None), Status.NOT_OBSERVABLE, "the client was lost"),
    ],
)  # fmt: skip
def test_a_fault_must_have_come_before_the_cut_and_gone(
    fault: FaultRecord, status: Status, says: str
) -> None:
    one = replace(case(), fault=fault)
    found = item(load_and_witness.judge_fault, one)
    assert (found.status, found.required) == (status, True)
    assert says in found.reason
    assert load_and_witness.judge_fault(case()) is None
    lost = replace(one, found=replace(CLEAN, losses=Losses.of([LOST])))
    assert judge(lost).verdict is Verdict.FAIL
    if status is not Status.PRESENT:
        assert judge(one).verdict is Verdict.INCONCLUSIVE
