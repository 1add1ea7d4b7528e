"""A cluster as a site: who is cut, who comes back, who takes over."""

from __future__ import annotations

from typing import Any

import pytest

from dbcheck.core.cut import Cut, PowerState
from dbcheck.core.promise import Promise
from dbcheck.core.replication import Branch, PromotedBy, Received
from dbcheck.core.site import SiteKind
from dbcheck.errors import EngineError, UsageError
from dbcheck.ports.site import Node
from dbcheck.site import cluster
from dbcheck.site.cluster import Cluster


class Server:
    """A node: its engine and its switch at once."""

    attended = False
    family = "postgresql"

    def __init__(self, *, writes: bool = False, position: int | None = 10) -> None:
        self.writes, self.position = writes, position
        self.power = PowerState.ON
        self.asked = 0
        self.refusal: EngineError | None = None

    def cut(self) -> Cut:
        self.power = PowerState.OFF
        return Cut(1, 2)

    def restore(self) -> float:
        self.power = PowerState.ON
        return 1.5

    def state(self) -> PowerState:
        return self.power

    def failure(self) -> None:
        return None

    def ready(self) -> str | None:
        if self.power is not PowerState.ON:
            return "connection refused"
        return None if self.writes else "the server is in recovery"

    def open_followers(self, **_: Any) -> None: ...

    def member(self) -> str:
        return ""

    def received(self) -> Received:
        if self.power is not PowerState.ON:
            raise EngineError("connection refused")
        return Received(self.position, self.position)

    def promote(self) -> None:
        self.asked += 1
        if self.refusal:
            raise self.refusal

    def branch(self) -> Branch:
        return Branch("00000002", "00000001", 10)


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch) -> dict[str, Server]:
    monkeypatch.setattr(cluster, "SETTLED_S", 0.0)
    return {"a": Server(writes=True), "b": Server(position=10), "c": Server(position=9)}


def site_of(
    servers: dict[str, Server], promise: Promise = Promise.WRITER_GONE, **options: Any
) -> Cluster:
    found: Any = {name: Node(one, one) for name, one in servers.items()}  # type: ignore[arg-type]
    return Cluster(SiteKind.STREAMING, found, "a", promise, **options)


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
    assert site.away == set(away)
    assert set(site.bring_back()) == set(away)


def test_the_one_that_received_most_is_promoted_once(nodes: dict[str, Server]) -> None:
    site = site_of(nodes)
    site.cut()
    waiting = [site.ready(), site.ready()]
    while nodes["b"].asked == 0:
        waiting.append(site.ready())
    assert site.ready() == "b was asked to take over, and is still in recovery"
    assert (nodes["b"].asked, nodes["c"].asked) == (1, 0)
    assert site.reader_name == "a"
    nodes["b"].writes = True
    assert site.ready() is None
    assert site.reader_name == "b"
    found = site.promotion()
    assert found is not None
    assert found.by is PromotedBy.SQL
    assert found.received == {"b": Received(10, 10), "c": Received(9, 9)}
    assert found.branch == Branch("00000002", "00000001", 10)
    assert [one.state for one in found.old] == [PowerState.OFF, PowerState.OFF]


def test_none_is_promoted_beside_a_writer_that_is_up(nodes: dict[str, Server]) -> None:
    site = site_of(nodes)  # its switch did not cut
    assert site.ready() == "the writer a is not off: no other may take over"
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


def test_a_refused_promotion_is_shown_and_asked_for_again(
    nodes: dict[str, Server],
) -> None:
    site = site_of(nodes)
    site.cut()
    nodes["b"].refusal = EngineError("the promotion was refused")
    while nodes["b"].asked == 0:
        shown = site.ready()
    assert shown == "the promotion was refused"
    nodes["b"].refusal = None
    site.ready()
    assert nodes["b"].asked == 2


def test_a_standby_that_does_not_answer_is_named(nodes: dict[str, Server]) -> None:
    site = site_of(nodes)
    site.cut()
    nodes["c"].cut()
    assert "c does not answer" in (site.ready() or "")
    nodes["c"].restore()
    nodes["c"].position = None
    assert site.ready() == "a standby does not show what it has applied"


def test_a_server_that_cannot_follow_makes_no_cluster() -> None:
    class Other:
        family = "mysql"

    node: Any = Node(Other(), Server())  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="does not know how mysql servers follow"):
        Cluster(SiteKind.STREAMING, {"a": node}, "a", Promise.WRITER)
