"""What every kind of site must do; see ports.site."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError, PowerError
from dbcheck.model.cluster import Promise, SiteKind
from dbcheck.model.cut import Cut, PowerState
from dbcheck.model.replication import Received
from dbcheck.ports.site import Node, Site
from dbcheck.site.cluster import Cluster
from dbcheck.site.group import Group
from dbcheck.site.single import SingleServer
from tests.kit.bare_engine import BareEngine
from tests.kit.refusals import refused


class Server(BareEngine):
    """An engine and its switch, which share one power supply."""

    attended = False

    def __init__(self) -> None:
        self.state_now, self.prepared = PowerState.ON, 0

    def prepare(self) -> None:
        self.prepared += 1

    def cut(self) -> Cut:
        self.state_now = PowerState.OFF
        return Cut(1, 2)

    def restore(self) -> float | None:
        self.state_now = PowerState.ON
        return 3.5

    def state(self) -> PowerState:
        return self.state_now

    def ready(self) -> str | None:
        return None if self.state_now is PowerState.ON else "no route to host"

    def failure(self) -> str | None:
        return None


class Follower(Server):
    """One that can be a node of a cluster."""

    def __init__(self, family: str, members: str = "") -> None:
        super().__init__()
        self.family, self.members = family, tuple(members)

    def open_followers(self, **_: Any) -> None: ...

    def membership(self) -> None: ...

    def received(self) -> Received:
        if self.ready():
            raise EngineError("no route to host", id=ErrorId.STATEMENT_FAILED)
        return Received(1, 1, True, self.members)

    def accepts(self) -> bool:
        return self.state_now is PowerState.ON

    def promote(self) -> None: ...

    def takes_writes(self) -> None: ...

    def descent(self) -> None: ...


def single() -> tuple[Site, list[Server]]:
    server: Any = Server()
    return SingleServer(Node(server, server)), [server]


def pair(kind: SiteKind) -> tuple[Site, list[Server]]:
    servers: list[Any] = [Follower(kind.family), Follower(kind.family)]
    nodes = {name: Node(one, one) for name, one in zip("ab", servers, strict=True)}
    return Cluster(kind, nodes, "a", Promise.WRITER), servers


def group(kind: SiteKind) -> tuple[Site, list[Server]]:
    servers: list[Any] = [Follower(kind.family, "abc") for _ in "abc"]
    nodes = {name: Node(one, one) for name, one in zip("abc", servers, strict=True)}
    return Group(kind, nodes, "a", Promise.ALL), servers


SITES: dict[SiteKind, Callable[[], tuple[Site, list[Server]]]] = {
    SiteKind.SINGLE: single,
    SiteKind.STREAMING: lambda: pair(SiteKind.STREAMING),
    SiteKind.SEMI_SYNC: lambda: pair(SiteKind.SEMI_SYNC),
    SiteKind.GALERA: lambda: group(SiteKind.GALERA),
    SiteKind.GROUP_REPLICATION: lambda: group(SiteKind.GROUP_REPLICATION),
}


@pytest.fixture(params=list(SiteKind), ids=lambda kind: kind.value)
def site(request: pytest.FixtureRequest) -> Site:
    made, _ = SITES[request.param]()
    assert made.kind is request.param
    return made


def test_its_writer_and_its_reader_are_nodes_of_it(site: Site) -> None:
    assert site.nodes[site.writer_name] is site.writer
    assert site.nodes[site.reader_name] is site.reader


def test_another_writer_keeps_the_names(site: Site) -> None:
    server: Any = Follower(site.kind.family)
    other = site.with_writer(Node(server, server))
    assert other.writer.engine is server
    assert (other.kind, other.writer_name) == (site.kind, site.writer_name)
    assert other.nodes.keys() == site.nodes.keys()


def test_a_cut_names_nodes_that_lose_their_power(site: Site) -> None:
    site.prepare(1)
    assert site.state() is PowerState.ON
    assert site.ready() is None
    cuts = site.cut()
    assert cuts
    assert cuts.keys() <= site.nodes.keys()
    assert site.state() is PowerState.OFF
    for name in cuts:
        assert site.nodes[name].power.state() is PowerState.OFF


def test_a_restore_names_only_nodes_that_were_cut(site: Site) -> None:
    cuts, off_s = site.cut(), site.restore()
    assert off_s.keys() <= cuts.keys()
    assert all(seconds == 3.5 for seconds in off_s.values())
    for name in off_s:
        assert site.nodes[name].power.state() is PowerState.ON


def test_the_nodes_that_are_away_come_back_by_themselves(site: Site) -> None:
    cuts, away = site.cut(), site.kept_off
    assert away <= cuts.keys()
    assert site.restore().keys() == cuts.keys() - away
    assert site.bring_back().keys() == away


def test_a_single_server_promises_nothing_and_a_cluster_does(site: Site) -> None:
    assert (site.promise is None) == (site.kind is SiteKind.SINGLE)
    site.cut()
    site.restore()
    # The writer is read; of a group it is on record how far each node is.
    assert (site.promotion() is None) == (not site.kind.is_group)


def test_one_that_is_cut_is_not_ready_until_it_is_restored(site: Site) -> None:
    site.cut()
    assert site.ready()
    site.restore()
    assert site.ready() is None
    assert site.failure() is None


def test_what_a_switch_says_of_its_target_is_passed_on() -> None:
    def broken() -> None:
        raise PowerError("the drive is broken", id=ErrorId.POWER_COMMAND_FAILED)

    lost: Any = SimpleNamespace(failure=lambda: "no filesystem", attended=True)
    assert SingleServer(Node(lost, lost)).failure() == "no filesystem"
    assert SingleServer(Node(lost, lost)).attended
    faulty: Any = SimpleNamespace(failure=broken)
    with refused(
        ErrorId.POWER_COMMAND_FAILED, PowerError, naming="the drive is broken"
    ):
        SingleServer(Node(faulty, faulty)).failure()


def test_only_a_switch_that_can_is_prepared() -> None:
    site, (server,) = single()
    site.prepare(1)
    assert server.prepared == 1
    plain: Any = SimpleNamespace()
    SingleServer(Node(plain, plain)).prepare(1)
