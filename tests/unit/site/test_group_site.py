"""A group as a site: which node is read, and when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError, StillBootstraps, UsageError
from dbcheck.model.cluster import Promise, SiteKind
from dbcheck.model.cut import Cut, PowerState
from dbcheck.model.replication import Descent, Detached, Membership, Received
from dbcheck.ports.site import Node
from dbcheck.site import group as groups
from dbcheck.site.group import Group
from tests.kit.bare_engine import BareEngine
from tests.kit.refusals import refused

ALL = ("a", "b", "c")


class Member(BareEngine):
    """A node: its engine and its switch at once."""

    attended = False
    family = "mysql"

    def __init__(self, name: str, members: tuple[str, ...] = ALL) -> None:
        self.name = name
        self.shown = Received(10, 10, True, members)
        self.power = PowerState.ON
        self.failed = self.refuses = self.busy = self.lacks = ""
        self.writes, self.still_on = True, False
        self.asked: list[object] = []

    def failure(self) -> str | None:
        return self.failed or None

    def cut(self) -> Cut:
        self.power = PowerState.OFF
        return Cut(1, 2)

    def restore(self) -> float:
        self.power = PowerState.ON
        return 1.5

    def state(self) -> PowerState:
        return self.power

    def accepts(self) -> bool:
        return self.power is PowerState.ON

    def open_followers(self, **_: Any) -> None: ...

    def membership(self) -> Membership:
        return Membership(self.name, "the cluster")

    def received(self) -> Received:
        if self.power is not PowerState.ON:
            raise EngineError("connection refused", id=ErrorId.STATEMENT_FAILED)
        return self.shown

    def promote(self) -> None:
        raise AssertionError("no node of a group is promoted")

    def takes_writes(self) -> bool:
        return self.writes

    def require_alone(self) -> None: ...

    def require_may_bootstrap(self) -> None: ...

    def detached(self) -> Detached:
        if self.busy:
            raise EngineError(self.busy, id=ErrorId.STATEMENT_FAILED)
        return Detached(self.name, "the cluster", f"1-{self.shown.position}")

    def end_bootstrap(self) -> None:
        self.asked.append("end")
        if self.still_on:
            raise StillBootstraps(
                "may still be ON", id=ErrorId.GROUP_MAY_START_TWICE, hint="Run OFF."
            )

    def require_all_of(self, others: Mapping[str, str]) -> None:
        if self.lacks:
            raise EngineError(self.lacks, id=ErrorId.STATEMENT_FAILED, hint="Look.")
        self.asked.append(dict(others))

    def bootstrap_group(self) -> None:
        self.asked.append("form")
        if self.still_on:
            raise StillBootstraps(
                "may still be ON", id=ErrorId.GROUP_MAY_START_TWICE, hint="Run OFF."
            )
        if self.refuses:
            raise EngineError(self.refuses, id=ErrorId.STATEMENT_FAILED, hint="Look.")

    def join_group(self) -> None:
        self.asked.append("join")
        if self.refuses:
            raise EngineError(self.refuses, id=ErrorId.STATEMENT_FAILED, hint="Look.")

    def descent(self) -> Descent:
        return Descent({"the cluster": 10})


@pytest.fixture
def nodes() -> dict[str, Member]:
    return {name: Member(name) for name in ALL}


def site_of(nodes: dict[str, Member], promise: Promise = Promise.WRITER_GONE) -> Group:
    found: Any = {name: Node(one, one) for name, one in nodes.items()}  # type: ignore[arg-type]
    return Group(SiteKind.GALERA, found, "a", promise)


def test_a_node_that_still_counts_the_writer_is_not_read(
    nodes: dict[str, Member],
) -> None:
    site = site_of(nodes)
    site.cut()
    assert site.ready() == "c still counts a as a member"
    nodes["c"].shown = replace(nodes["c"].shown, members=("b", "c"))
    assert site.ready() is None
    assert site.reader_name == "c"
    promotion = site.promotion()
    assert promotion is not None
    assert promotion.received["c"].members == ("b", "c")
    assert promotion.descent == Descent({"the cluster": 10})
    assert [off.taken_over for off in promotion.old] == [False, True, True]


def test_another_node_may_have_left_before_the_writer(nodes: dict[str, Member]) -> None:
    site = site_of(nodes)
    site.prepare(1)
    site.cut()
    nodes["b"].shown = replace(nodes["b"].shown, members=("a", "b"))
    assert site.ready() == "c still counts a as a member"
    nodes["b"].shown = replace(nodes["b"].shown, members=("b", "c"))
    assert site.ready() is None


@pytest.mark.parametrize(
    ("shown", "why"),
    [
        (Received(12, 10, True, ("b", "c")), "c still applies what it has received"),
        (Received(10, 10, False, ("b", "c")), "c is not among a majority"),
        (Received(10, 10, True, ()), "c still counts a as a member"),  # it changes
        (Received(None, None), "c is not among a majority"),
    ],
)
def test_a_node_is_read_once_it_has_all_that_the_others_have(
    nodes: dict[str, Member], shown: Received, why: str
) -> None:
    site = site_of(nodes)
    site.cut()
    for name in "bc":
        nodes[name].shown = shown
    assert site.ready() == why
    assert site.reader_name == "a"


def test_a_writer_that_answers_is_on_record(nodes: dict[str, Member]) -> None:
    site = site_of(nodes)
    site.cut()
    nodes["a"].restore()
    assert site.ready() == "the old writer a still answers or has power"
    nodes["a"].cut()
    nodes["b"].shown = replace(nodes["b"].shown, members=("b", "c"))
    assert site.ready() is None
    promotion = site.promotion()
    assert promotion is not None
    assert [off.is_back for off in promotion.old] == [True, False, False]


def test_a_writer_that_was_not_cut_may_be_a_member_of_the_group_that_is_read(
    nodes: dict[str, Member],
) -> None:
    """As one whose load ended before the cut, after it had left and joined again."""
    site = site_of(nodes)
    nodes["c"].shown = replace(nodes["c"].shown, applied=9)
    assert site.ready() == "the old writer a still answers or has power"
    nodes["c"].shown = replace(nodes["c"].shown, applied=10)
    assert site.ready() is None
    assert site.reader_name == "b"
    promotion = site.promotion()
    assert promotion is not None
    assert all(off.is_back for off in promotion.old)


def test_after_a_cut_of_all_nodes_all_must_be_members_again(
    nodes: dict[str, Member],
) -> None:
    site = site_of(nodes, Promise.ALL)
    site.cut()
    assert site.ready() == ("a has not joined the majority yet: connection refused")
    for name in "ab":
        nodes[name].restore()
        nodes[name].shown = replace(nodes[name].shown, members=("a", "b"))
    assert site.ready() == "a sees 2 members, not 3"
    for one in nodes.values():
        one.restore()
        one.shown = Received(10, 10, True, (*ALL, "one that was not cut"))
    assert site.ready() == "a sees 4 members, not 3"
    for one in nodes.values():
        one.shown = Received(10, 10, True, ALL)
    nodes["c"].shown = replace(nodes["c"].shown, position=11)
    assert site.ready() == "c still applies what it has received"
    nodes["c"].shown = replace(nodes["c"].shown, connected=False)
    assert site.ready() == "c has not joined the majority yet"
    nodes["c"].shown = replace(nodes["c"].shown, connected=True, position=10)
    assert site.ready() is None
    assert site.reader_name == "a"
    promotion = site.promotion()
    assert promotion is not None
    assert set(promotion.received) == set(ALL)
    assert promotion.old == ()


def test_a_node_that_will_not_come_back_is_named(nodes: dict[str, Member]) -> None:
    site = site_of(nodes, Promise.ALL)
    assert site.failure() is None
    nodes["b"].failed = "no filesystem"
    assert site.failure() == "b: no filesystem"
    assert site_of(nodes).failure() is None  # which node will be read is not known yet


def test_two_nodes_have_no_majority_without_one(nodes: dict[str, Member]) -> None:
    del nodes["c"]
    with refused(ErrorId.CLUSTER_TOO_SMALL, UsageError, naming="needs 3"):
        site_of(nodes)


@pytest.mark.parametrize("promise", [Promise.WRITER, Promise.ALL_WRITER_GONE])
def test_what_a_group_cannot_promise_is_refused(
    nodes: dict[str, Member], promise: Promise
) -> None:
    with refused(ErrorId.PROMISE_NOT_TESTABLE, UsageError, naming=promise.value) as at:
        site_of(nodes, promise)
    assert "all" in at.value.hint


def formed(nodes: dict[str, Member], *, bootstrap: bool = True) -> Group:
    """Return the site of a replication group whose members were all cut."""
    found: Any = {name: Node(one, one) for name, one in nodes.items()}  # type: ignore[arg-type]
    kind = SiteKind.GROUP_REPLICATION
    site = Group(kind, found, "a", Promise.ALL, bootstrap=bootstrap).led_by("a")
    assert isinstance(site, Group)
    site.prepare(1)
    site.cut()
    for one in nodes.values():
        one.shown = Received(10, 10)
    return site


def back(nodes: dict[str, Member], site: Group) -> None:
    """Restore all, and look once."""
    for one in nodes.values():
        one.restore()
    assert site.ready() == "waiting until no node comes any further"


def test_a_group_is_formed_by_the_node_with_most_once_all_answer(
    nodes: dict[str, Member],
) -> None:
    site = formed(nodes)
    assert site.ready() == "a does not answer yet: connection refused"
    nodes["a"].restore()
    nodes["b"].restore()
    assert site.ready() == "c does not answer yet: connection refused"
    nodes["c"].restore()
    nodes["b"].shown = Received(12, 9)
    assert site.ready() == "waiting until no node comes any further"
    nodes["b"].shown = Received(13, 9)
    assert site.ready() == "waiting until no node comes any further"
    assert site.ready() == "b, which has most transactions, has formed the group again"
    others = {"a": "1-10", "c": "1-10"}
    assert [one.asked for one in nodes.values()] == [[], [others, "form"], []]
    nodes["b"].shown = Received(13, 13, True, ("b",))
    assert site.ready() == "a was asked to join the group"
    assert site.ready() == "c was asked to join the group"
    assert (nodes["a"].asked, nodes["c"].asked) == (["join"], ["join"])
    assert "a joined the group and left it: its error log says" in (site.ready() or "")
    for one in nodes.values():
        one.shown = Received(13, 13, True, ALL)
    assert site.ready() is None
    assert site.reader_name == "a"


def test_a_group_that_would_lack_transactions_is_not_formed(
    nodes: dict[str, Member],
) -> None:
    site = formed(nodes)
    back(nodes, site)
    nodes["a"].lacks = "it lacks 11"
    for _ in range(3):
        assert site.ready() == "a cannot form the group again: it lacks 11. Look."
    assert not any(one.asked for one in nodes.values())


@pytest.mark.parametrize(
    ("refuses", "why"),
    [
        ("", "a formed the group and left it: its error log says why."),
        ("no", "a did not form the group: no. Look. Form it by hand."),
    ],
)
def test_a_group_is_formed_once(
    nodes: dict[str, Member], refuses: str, why: str
) -> None:
    """Where it does not last, each further try would add transactions."""
    site = formed(nodes)
    back(nodes, site)
    nodes["a"].refuses = refuses
    site.ready()
    for _ in range(3):
        assert (site.ready() or "").startswith(why)
    assert nodes["a"].asked.count("form") == 1


def test_a_node_that_was_refused_is_named(nodes: dict[str, Member]) -> None:
    site = formed(nodes)
    back(nodes, site)
    site.ready()
    nodes["a"].shown = Received(10, 10, True, ("a",))
    nodes["b"].refuses = "no"
    assert site.ready() == "b was asked to join the group"
    assert site.ready() == "c was asked to join the group"
    for _ in range(2):
        assert site.ready() == "b did not join the group: no. Look."
    assert nodes["b"].asked == ["join"]


def test_a_node_that_is_asked_once_more_is_named_with_what_came_of_it(
    nodes: dict[str, Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wait for the group may end while it is asked, which takes a minute."""
    monkeypatch.setattr(groups, "AGAIN_S", 0.0)
    site = formed(nodes)
    back(nodes, site)
    site.ready()
    nodes["a"].shown = Received(10, 10, True, ("a", "c"))
    nodes["b"].refuses = "no"
    assert site.ready() == "b was asked to join the group"
    assert site.ready() == (
        "b was asked to join the group once more; before that, b did not join the"
        " group: no. Look."
    )
    assert nodes["b"].asked == ["join", "join"]


def test_no_node_is_asked_to_join_what_others_formed(nodes: dict[str, Member]) -> None:
    """The group may lack what that node has, and take it in later with other rows."""
    site = formed(nodes)
    for one in nodes.values():
        one.restore()
    nodes["b"].shown = Received(10, 10, True, ("b",))
    for _ in range(3):
        assert (site.ready() or "").startswith("a is not in the group, which dbcheck")
    assert not any(one.asked for one in nodes.values())


def test_no_group_is_formed_beside_another(nodes: dict[str, Member]) -> None:
    site = formed(nodes)
    back(nodes, site)
    nodes["c"].busy = "it still tries to join the group by itself"
    assert "cannot form the group again: c: it still tries" in (site.ready() or "")
    assert not any(one.asked for one in nodes.values())
    for name in "ab":
        nodes[name].shown = Received(10, 10, True, (name,))
    assert (site.ready() or "").startswith("a and b are in different groups")
    assert not any(one.asked for one in nodes.values())


@pytest.mark.parametrize("changed", ["b", "x"])
def test_another_server_at_an_address_forms_no_group(
    nodes: dict[str, Member], changed: str
) -> None:
    site = formed(nodes)
    back(nodes, site)
    nodes["c"].name = changed
    why = f"at the address of c answers server {changed} of group the cluster"
    assert why in (site.ready() or "")
    assert not any(one.asked for one in nodes.values())


def test_nothing_is_read_while_a_second_group_may_be_formed(
    nodes: dict[str, Member],
) -> None:
    site = formed(nodes)
    back(nodes, site)
    nodes["a"].still_on = True
    assert site.ready() == "a: may still be ON. Run OFF."
    for one in nodes.values():
        one.shown = Received(13, 13, True, ALL)
    assert site.ready() == "a: may still be ON. Run OFF."
    assert nodes["a"].asked[-1] == "end"
    nodes["a"].still_on = False
    assert site.ready() is None


def test_a_group_that_others_form_is_left_to_them(nodes: dict[str, Member]) -> None:
    site = formed(nodes, bootstrap=False)
    for one in nodes.values():
        one.restore()
    for _ in range(3):
        assert site.ready() == "a has not joined the majority yet"
    assert not any(one.asked for one in nodes.values())


def test_a_galera_cluster_is_never_bootstrapped(nodes: dict[str, Member]) -> None:
    found: Any = {name: Node(one, one) for name, one in nodes.items()}  # type: ignore[arg-type]
    site = Group(SiteKind.GALERA, found, "a", Promise.ALL, bootstrap=True)
    for one in nodes.values():
        one.shown = Received(10, 10)
    for _ in range(3):
        assert site.ready() == "a has not joined the majority yet"
    assert not any(one.asked for one in nodes.values())


def test_a_secondary_is_not_read_before_there_is_a_primary(
    nodes: dict[str, Member],
) -> None:
    site = site_of(nodes)
    site.cut()
    for name in "bc":
        nodes[name].shown = replace(nodes[name].shown, members=("b", "c"))
        nodes[name].writes = False
    assert site.ready() == "c takes no writes"
    nodes["c"].writes = True
    assert site.ready() is None
    assert site.reader_name == "c"
