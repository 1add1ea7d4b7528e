"""A cluster as a site: who is cut, who comes back, who takes over."""

from __future__ import annotations

import threading
from functools import partial
from typing import Any

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError, LabError, PartlyCut, PowerError, UsageError
from dbcheck.cycle.rebuild import find_writer, may_be_off
from dbcheck.model.cluster import Promise, SiteKind, draw_stagger
from dbcheck.model.cut import Cut, PowerState
from dbcheck.model.replication import (
    Descent,
    PromotedBy,
    RebuiltBy,
    Received,
    WriterOff,
)
from dbcheck.ports.site import Node
from dbcheck.site import cluster
from dbcheck.site.cluster import Cluster
from tests.kit.bare_engine import BareEngine
from tests.kit.refusals import refused

NOT_OFF = (
    "the old writer a still answers or has power; dbcheck promotes no standby until it"
    " is off"
)


class Server(BareEngine):
    """A node: its engine and its switch at once."""

    attended = False
    family = "postgresql"

    def __init__(self, *, writes: bool = False, position: int | None = 10) -> None:
        self.writes, self.position = writes, position
        self.power = PowerState.ON
        self.asked = 0
        self.connected = False
        self.applied: int | None = None
        self.broken: PowerError | None = None
        self.reads = True
        self.refusal: EngineError | None = None

    def cut(self) -> Cut:
        if self.broken:
            raise self.broken
        self.power = PowerState.OFF
        return Cut(1, 2)

    def restore(self) -> float:
        if self.broken:
            raise self.broken
        self.power = PowerState.ON
        return 1.5

    def state(self) -> PowerState:
        if self.broken:
            raise self.broken
        return self.power if self.reads else PowerState.UNKNOWN

    def accepts(self) -> bool:
        return self.power is PowerState.ON

    def failure(self) -> None:
        return None

    def ready(self) -> str | None:
        if self.power is not PowerState.ON:
            return "connection refused"
        return None if self.writes else "the server is in recovery"

    def open_followers(self, **_: Any) -> None: ...

    def membership(self) -> None: ...

    def received(self) -> Received:
        if self.power is not PowerState.ON:
            raise EngineError("connection refused", id=ErrorId.STATEMENT_FAILED)
        applied = self.position if self.applied is None else self.applied
        return Received(self.position, applied, self.connected)

    def promote(self) -> None:
        self.asked += 1
        if self.refusal:
            raise self.refusal

    def takes_writes(self) -> bool:
        return self.ready() is None

    def descent(self) -> Descent:
        return Descent({"00000001": 10}, "00000002")


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch) -> dict[str, Server]:
    monkeypatch.setattr(cluster, "SETTLED_S", 0.0)
    return {"a": Server(writes=True), "b": Server(position=10), "c": Server(position=9)}


def site_of(
    servers: dict[str, Server],
    promise: Promise = Promise.WRITER_GONE,
    kind: SiteKind = SiteKind.STREAMING,
    **options: Any,
) -> Cluster:
    for one in servers.values():
        one.family = kind.family
    found: Any = {name: Node(one, one) for name, one in servers.items()}  # type: ignore[arg-type]
    return Cluster(kind, found, "a", promise, **options)


@pytest.mark.parametrize(
    ("promise", "cut", "restored", "away"),
    [
        (Promise.WRITER, "a", "a", ""),
        (Promise.WRITER_GONE, "a", "", "a"),
        (Promise.ALL, "abc", "abc", ""),
        (Promise.ALL_WRITER_GONE, "abc", "bc", "a"),
    ],
)
def test_the_promise_says_who_is_cut_and_who_comes_back(
    nodes: dict[str, Server], promise: Promise, cut: str, restored: str, away: str
) -> None:
    site = site_of(nodes, promise)
    assert site.state() is PowerState.ON
    assert set(site.cut()) == set(cut)
    assert {n for n, one in nodes.items() if one.power is PowerState.OFF} == set(cut)
    assert set(site.restore()) == set(restored)
    assert site.kept_off == set(away)
    assert set(site.bring_back()) == set(away)


def until_asked(site: Cluster, server: Server) -> str:
    """Poll until *server* was asked to take over; return what was shown then."""
    for _ in range(10):
        shown = site.ready() or ""
        if server.asked:
            return shown
    raise AssertionError(shown)


def test_the_one_that_received_most_is_promoted_once(nodes: dict[str, Server]) -> None:
    site = site_of(nodes)
    site.cut()
    shown = until_asked(site, nodes["b"])
    assert (
        shown
        == site.ready()
        == "b was asked to take over, and does not accept writes yet"
    )
    assert (nodes["b"].asked, nodes["c"].asked) == (1, 0)
    assert site.reader_name == "a"
    nodes["b"].writes = True
    assert site.ready() is None
    assert site.reader_name == "b"
    found = site.promotion()
    assert found is not None
    assert found.by is PromotedBy.SQL
    assert found.received == {"b": Received(10, 10), "c": Received(9, 9)}
    assert found.descent == Descent({"00000001": 10}, "00000002")
    looks = [(one.state, one.taken_over) for one in found.old]
    off = PowerState.OFF
    assert looks == [(off, False), (off, True), (off, True)]


def test_a_writer_that_was_up_in_between_is_not_forgotten(
    nodes: dict[str, Server],
) -> None:
    site = site_of(nodes)
    site.cut()
    site.ready()
    nodes["a"].restore()
    assert site.ready() == NOT_OFF
    nodes["a"].cut()
    nodes["b"].writes = True
    assert site.ready() is None
    found = site.promotion()
    assert found is not None
    assert [one.is_back for one in found.old] == [False, True, False, False]


def test_without_a_switch_that_reads_it_a_connected_standby_forbids_it(
    nodes: dict[str, Server],
) -> None:
    """The client may have lost the writer alone."""
    site = site_of(nodes)
    nodes["a"].cut()
    nodes["a"].reads, nodes["c"].connected = False, True
    for _ in range(5):
        shown = site.ready()
    assert shown == "c is still connected to a, and no switch shows that it is off"
    nodes["c"].connected = False
    until_asked(site, nodes["b"])


def test_a_switch_that_fails_shows_nothing(nodes: dict[str, Server]) -> None:
    site = site_of(nodes)
    site.cut()
    nodes["a"].broken = PowerError(
        "the device does not answer", id=ErrorId.POWER_COMMAND_FAILED
    )
    site.ready()
    found = site.promotion()
    assert found is not None
    assert {one.state for one in found.old} == {PowerState.UNKNOWN}


def test_one_switch_that_fails_keeps_no_other_from_its_work(
    nodes: dict[str, Server],
) -> None:
    site = site_of(nodes, Promise.ALL)
    nodes["b"].broken = PowerError("b does not answer", id=ErrorId.POWER_COMMAND_FAILED)
    with refused(
        ErrorId.POWER_COMMAND_FAILED, PartlyCut, naming="b does not answer"
    ) as caught:
        site.cut()
    assert caught.value.cuts.keys() == {"a", "c"}
    with refused(ErrorId.POWER_COMMAND_FAILED, PowerError, naming="b does not answer"):
        site.restore()
    assert {nodes[name].power for name in "ac"} == {PowerState.ON}


def test_none_is_promoted_beside_a_writer_that_is_up(nodes: dict[str, Server]) -> None:
    site = site_of(nodes)  # its switch did not cut
    assert site.ready() == NOT_OFF
    assert nodes["b"].asked == 0
    found = site.promotion()
    assert found is not None
    assert all(one.is_back for one in found.old)


def test_what_takes_over_by_itself_is_waited_for(nodes: dict[str, Server]) -> None:
    site = site_of(nodes, by=PromotedBy.AUTO)
    site.cut()
    assert site.ready() == "no standby has taken over yet"
    nodes["c"].writes = True
    assert site.ready() is None
    assert site.reader_name == "c"
    assert nodes["b"].asked == nodes["c"].asked == 0


def test_a_refused_promotion_is_shown_and_not_asked_for_again(
    nodes: dict[str, Server],
) -> None:
    """A program that failed may have done a part of its work."""
    site = site_of(nodes)
    site.cut()
    nodes["b"].refusal = EngineError(
        "the promotion was refused", id=ErrorId.STATEMENT_FAILED
    )
    shown = until_asked(site, nodes["b"])
    assert shown == "b was not promoted: the promotion was refused."
    assert site.ready() == shown
    assert nodes["b"].asked == 1


def test_how_far_each_came_is_known_of_what_takes_over_by_itself(
    nodes: dict[str, Server],
) -> None:
    site = site_of(nodes, by=PromotedBy.AUTO)
    site.cut()
    site.ready()
    nodes["c"].writes, nodes["c"].position = True, None
    assert site.ready() is None
    found = site.promotion()
    assert found is not None
    assert found.received["c"] == Received(9, 9)


def test_what_a_promotion_would_delete_is_waited_for(nodes: dict[str, Server]) -> None:
    """A replica of MySQL that stops to follow deletes what it has not applied."""
    site = site_of(nodes, kind=SiteKind.SEMI_SYNC)
    site.cut()
    nodes["b"].applied = 8
    for _ in range(5):
        shown = site.ready() or ""
    assert shown.startswith("b has received transaction 10 and applied 8; waiting")
    nodes["b"].applied = 10
    until_asked(site, nodes["b"])


def test_several_hosts_are_not_cut_by_hand(nodes: dict[str, Server]) -> None:
    nodes["b"].attended = True
    site_of(nodes)
    with refused(ErrorId.CLUSTER_CUT_BY_HAND, UsageError, naming="b cannot"):
        site_of(nodes, Promise.ALL)


def test_a_standby_that_does_not_answer_is_named(nodes: dict[str, Server]) -> None:
    site = site_of(nodes)
    site.cut()
    nodes["c"].cut()
    assert "c does not answer" in (site.ready() or "")
    nodes["c"].restore()
    nodes["c"].position = None
    assert site.ready() == "a standby does not report how much it has applied"


def test_a_server_that_cannot_follow_makes_no_cluster() -> None:
    class Other:
        family = "other"

    for server in (Other(), Server()):
        node: Any = Node(server, Server())  # type: ignore[arg-type]
        with refused(ErrorId.TOPOLOGY_NOT_FOR_ENGINE, UsageError, naming=server.family):
            Cluster(SiteKind.SEMI_SYNC, {"a": node}, "a", Promise.WRITER)


def staggered_site(nodes: dict[str, Server], stagger_s: float) -> Cluster:
    writer: Any = nodes["a"]
    site = site_of(nodes, Promise.ALL, stagger_s=stagger_s)
    site = site.with_writer(Node(writer, writer))
    site.prepare(7)
    return site


def test_nodes_are_cut_one_after_the_other_the_writer_first(
    nodes: dict[str, Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    went: list[str] = []

    def cut(name: str) -> Cut:
        went.append(name)
        return Cut(1, 2)

    for name in nodes:
        monkeypatch.setattr(nodes[name], "cut", partial(cut, name))
    site = staggered_site(nodes, 0.05)
    assert site.cut().keys() == nodes.keys()
    assert went[0] == "a"
    assert sorted(went) == ["a", "b", "c"]


def test_a_writer_that_is_not_cut_spares_the_others(nodes: dict[str, Server]) -> None:
    nodes["a"].broken = PowerError("no answer", id=ErrorId.POWER_COMMAND_FAILED)
    with refused(ErrorId.POWER_COMMAND_FAILED, PartlyCut, naming="no answer") as at:
        staggered_site(nodes, 60.0).cut()
    assert at.value.cuts == {}
    assert {one.power for one in nodes.values()} == {PowerState.ON}


def test_an_interrupt_leaves_no_cut_to_come(
    nodes: dict[str, Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cluster, "wait", interrupted)
    site = staggered_site(nodes, 60.0)
    with pytest.raises(KeyboardInterrupt):
        site.cut()
    assert [nodes[name].power for name in "bc"] == [PowerState.ON] * 2
    assert not [t for t in threading.enumerate() if "ThreadPoolExecutor" in t.name]


def test_the_seed_draws_the_order_and_the_times() -> None:
    drawn = [draw_stagger("abcd", "c", 3.0, seed) for seed in range(20)]
    assert {next(iter(one.items())) for one in drawn} == {("c", 0.0)}
    assert {tuple(one)[1] for one in drawn} == {"a", "b", "d"}
    assert {max(one.values()) for one in drawn} == {3.0}
    assert drawn[1] == draw_stagger("dcba", "c", 3.0, 1)
    assert set(draw_stagger("abc", "a", 0.0, 1).values()) == {0.0}


@pytest.mark.parametrize("promise", [each for each in Promise if each.value != "all"])
def test_only_the_cut_of_all_nodes_is_staggered(
    nodes: dict[str, Server], promise: Promise
) -> None:
    with refused(ErrorId.PROMISE_NOT_STAGGERED, UsageError):
        site_of(nodes, promise, stagger_s=1.0)


def test_another_promise_cuts_other_nodes_and_only_all_is_staggered(
    nodes: dict[str, Server],
) -> None:
    site = site_of(nodes, Promise.WRITER_GONE, stagger_of_all_s=3.0).led_by("b")
    wanted = {
        Promise.WRITER: ("b", "", 0.0),
        Promise.WRITER_GONE: ("b", "b", 0.0),
        Promise.ALL: ("bac", "", 3.0),
        Promise.ALL_WRITER_GONE: ("bac", "b", 0.0),
    }
    for promise, (cut, away, stagger_s) in wanted.items():
        site = site.promising(promise)
        assert (site.promise, site.writer_name) == (promise, "b")
        assert set(site._cut_nodes()) == set(cut)
        assert site.kept_off == set(away)
        assert site.stagger_s == stagger_s


def test_the_others_cannot_follow_a_writer_that_is_brought_back(
    nodes: dict[str, Server],
) -> None:
    isolated: list[PowerState] = []
    site = site_of(nodes, isolate=lambda: isolated.append(nodes["a"].power))
    site.cut()
    site.bring_back()
    assert isolated == [PowerState.OFF]
    assert nodes["a"].power is PowerState.ON


def test_a_writer_that_cannot_be_isolated_stays_off(nodes: dict[str, Server]) -> None:
    def fail() -> None:
        gone, advice = "a link of the lab is gone", "Start a new lab."
        raise LabError(gone, id=ErrorId.LAB_DAEMON_FAILED, hint=advice)

    site = site_of(nodes, isolate=fail)
    site.cut()
    with refused(
        ErrorId.LAB_DAEMON_FAILED,
        PowerError,
        naming="a link of the lab is gone; a stays off",
    ) as caught:
        site.bring_back()
    assert caught.value.hint == "Start a new lab."
    assert nodes["a"].power is PowerState.OFF


def test_every_other_node_is_asked_to_rejoin(nodes: dict[str, Server]) -> None:
    asked: list[tuple[str, str]] = []

    def rejoin(name: str, writer: str) -> None:
        asked.append((name, writer))
        if name == "c":
            raise LabError("it is refused", id=ErrorId.LAB_DAEMON_FAILED)

    site = site_of(nodes, rejoin=rejoin)
    assert site.rejoins
    assert site.rejoin() == {"b": "", "c": "it is refused"}  # no other took over yet
    assert asked == [("b", "a"), ("c", "a")]
    assert not site_of(nodes).rejoins
    assert site_of(nodes).rejoin() == {}


def test_the_others_follow_the_new_writer_before_the_old_one_is_back(
    nodes: dict[str, Server],
) -> None:
    """A standby that still follows the old writer would take what it alone has."""
    followed: list[tuple[str, str, PowerState]] = []

    def rebuild(name: str, writer: str) -> None:
        followed.append((name, writer, nodes["a"].power))

    by: dict[str, Any] = {"rebuilt_by": RebuiltBy.COMMAND, "rebuild": rebuild}
    site = site_of(nodes, brings_back=True, **by)
    site.cut()
    until_asked(site, nodes["b"])
    nodes["b"].writes = True
    assert site.ready() is None and site.reader_name == "b"
    site.bring_back()
    assert followed == [("c", "b", PowerState.OFF)]
    assert nodes["a"].power is PowerState.ON
    led = site.led_by("b")
    assert (led.writer_name, led.reader_name) == ("b", "b")
    led.rebuild("a")
    assert followed[1:] == [("a", "b", PowerState.ON)]


def test_the_old_writer_stays_off_if_another_node_may_follow_it(
    nodes: dict[str, Server],
) -> None:
    def rebuild(name: str, writer: str) -> None:
        raise EngineError("no room", id=ErrorId.REBUILD_COMMAND_FAILED)

    by: dict[str, Any] = {"rebuilt_by": RebuiltBy.COMMAND, "rebuild": rebuild}
    site = site_of(nodes, brings_back=True, **by)
    site.cut()
    with refused(ErrorId.REBUILD_COMMAND_FAILED, PowerError, naming="a stays off"):
        site.bring_back()
    assert nodes["a"].power is PowerState.OFF


class Promoted(Server):
    """A standby that takes over once it was asked *times* times."""

    def __init__(self, times: int = 1, failure: str | None = None) -> None:
        super().__init__()
        self.times, self.broken_by = times, failure

    def promote(self) -> None:
        super().promote()
        self.writes = self.asked >= self.times

    def facts(self, **_: Any) -> Any:
        return None

    def failure(self) -> Any:
        return self.broken_by


def test_the_node_that_takes_over_is_cut_and_asked_again_if_it_must(
    nodes: dict[str, Server],
) -> None:
    for times, asked in ((1, 1), (2, 2)):
        nodes = {"a": Server(writes=True), "b": Promoted(times)}
        site = site_of(nodes, cut_promoted_s=0.001)
        site.prepare(1)
        site.cut()
        until_asked(site, nodes["b"])
        assert site.ready() is None and site.reader_name == "b"
        promotion = site.promotion()
        assert promotion is not None and promotion.cut is not None
        assert promotion.cut.node == "b"
        assert promotion.cut.again is (times == 2)
        assert nodes["b"].asked == asked
        assert nodes["b"].power is PowerState.ON
        assert site.led_by("b").promotion().cut is None  # type: ignore[union-attr]


def test_a_node_that_such_a_cut_keeps_down_is_the_one_to_be_read(
    nodes: dict[str, Server],
) -> None:
    nodes["b"] = Promoted(9, "its log is damaged")
    site = site_of(nodes, cut_promoted_s=0.001)
    site.prepare(1)
    site.cut()
    until_asked(site, nodes["b"])
    assert site.reader_name == "b"
    assert site.failure() == "its log is damaged"


def test_another_node_takes_over_if_the_one_that_was_cut_stays_off(
    nodes: dict[str, Server],
) -> None:
    nodes["b"], nodes["c"] = Promoted(9), Promoted(1)
    nodes["c"].position = 9  # b has received more
    site = site_of(
        nodes, cut_promoted_s=0.001, promoted_stays_off=True, brings_back=True
    )
    site.prepare(1)
    assert site.kept_off == {"a"}
    site.cut()
    until_asked(site, nodes["b"])
    assert nodes["b"].power is PowerState.OFF and nodes["c"].asked == 0
    assert site.kept_off == {"a", "b"}
    until_asked(site, nodes["c"])
    assert site.ready() is None and site.reader_name == "c"
    assert (nodes["b"].asked, nodes["c"].asked) == (1, 1)
    promotion = site.promotion()
    assert promotion is not None and promotion.cut is not None
    assert promotion.cut.node == "b" and promotion.cut.off == WriterOff(
        PowerState.OFF, answers=False
    )
    assert set(site.bring_back()) == {"a"} and nodes["b"].power is PowerState.OFF
    nodes["b"].power = PowerState.ON  # by somebody else
    back = site.promotion()
    assert back is not None and back.cut is not None and back.cut.off is not None
    assert back.cut.off.is_back
    assert site.led_by("c").kept_off == {"c"}


def test_an_old_writer_returns_beside_the_one_that_took_over(
    nodes: dict[str, Server],
) -> None:
    done: list[PowerState] = []
    site = site_of(
        nodes,
        old_writer_returns_s=0.01,
        brings_back=True,
        isolate=lambda: done.append(nodes["a"].power),
        reconnect=lambda: done.append(nodes["a"].power),
    )
    site.cut()
    until_asked(site, nodes["b"])
    nodes["b"].writes = True
    assert site.ready() is None and site.reader_name == "b"
    assert done == [PowerState.OFF]
    assert nodes["a"].power is PowerState.ON
    promotion = site.promotion()
    assert promotion is not None and promotion.returned is not None
    assert promotion.returned.until_us - promotion.returned.back_us >= 10_000
    assert [one.planned for one in promotion.old[-2:]] == [True, True]
    assert not any(one.is_back for one in promotion.old)
    site.bring_back()
    assert done == [PowerState.OFF, PowerState.ON]


def test_the_writer_is_the_node_that_takes_writes(nodes: dict[str, Server]) -> None:
    site = site_of(nodes)
    assert find_writer(site, "a") == find_writer(site, "c") == "a"
    nodes["a"].writes, nodes["b"].writes = False, True
    assert find_writer(site, "a") == "b"
    nodes["c"].writes = True
    assert find_writer(site, "c") == "c"
    with refused(ErrorId.CLUSTER_HAS_NO_WRITER, EngineError, naming="b and c do"):
        find_writer(site, "a")
    nodes["b"].writes = nodes["c"].writes = False
    with refused(ErrorId.CLUSTER_HAS_NO_WRITER, EngineError, naming="no node does"):
        find_writer(site, "a")


@pytest.mark.parametrize(
    ("power", "reads", "expected"),
    [
        (PowerState.ON, True, False),
        (PowerState.OFF, True, True),
        (PowerState.ON, False, False),  # it accepts connections
        (PowerState.OFF, False, True),
    ],
)
def test_a_node_is_given_power_also_where_no_switch_reads_it(
    nodes: dict[str, Server], power: PowerState, *, reads: bool, expected: bool
) -> None:
    nodes["a"].power, nodes["a"].reads = power, reads
    assert may_be_off(site_of(nodes).nodes["a"]) is expected
