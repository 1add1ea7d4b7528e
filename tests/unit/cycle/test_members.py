"""Which of the writer's connections is that of a node: never by its name alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError
from dbcheck.cycle.preflight.members import Address, find_address, recognise_node
from dbcheck.engines.registry import open_engine
from dbcheck.model.replication import Follower, Membership
from tests.kit.refusals import refused

OWN = Address(frozenset({"10.0.0.2"}), 5432)
WRITER = Address(frozenset({"10.0.0.1"}), 5432)
NAME = "15/main"  # as Debian's packages call every cluster of that version
SLOT = Follower(NAME, "streaming", "sync", "1", "slot db2")
PLAIN = replace(SLOT, connection="address 10.0.0.2")
BY_SLOT = Membership(NAME, "", "slot db2", ("10.9.9.9", 6432), "172.17.0.2")
BY_ADDRESS = Membership(NAME, "", "", ("10.0.0.1", 5432), "172.17.0.2")
REPLICA = Follower("2", "streaming", "sync", "1", "db2:3306")
OF_MYSQL = Membership("2", "1", "db2:3306", semi_sync=True)


def of(member: Membership, *found: Follower) -> tuple[str, str]:
    return recognise_node("db2", member, found, own=OWN, writer=WRITER)


@pytest.mark.parametrize(
    ("member", "found"),
    [
        (BY_SLOT, SLOT),  # through NAT and a relay: the slot shows it
        (BY_ADDRESS, PLAIN),
        (replace(BY_ADDRESS, own_address="10.8.8.8"), PLAIN),
        (OF_MYSQL, REPLICA),
        (OF_MYSQL, replace(REPLICA, sync="async")),
    ],
)
def test_a_connection_that_is_the_nodes_is_recognised(
    member: Membership, found: Follower
) -> None:
    other = replace(SLOT, name="db3", connection="slot db3")
    assert of(member, other, found) == (found.connection, "")


@pytest.mark.parametrize(
    ("member", "found", "doubt"),
    [
        # NAT before the writer: it sees another address than the node's.
        (BY_ADDRESS, replace(PLAIN, connection="address 10.5.5.5"), "10.5.5.5"),
        # A virtual address of the writer, and a relay on another port.
        (replace(BY_ADDRESS, sender=("10.0.0.100", 5432)), PLAIN, "10.0.0.100"),
        (replace(BY_ADDRESS, sender=("10.0.0.1", 6432)), PLAIN, "6432"),
        (replace(BY_ADDRESS, sender=("/run/postgresql", 5432)), PLAIN, "/run"),
        (replace(BY_ADDRESS, sender=None), PLAIN, "the server"),
        # A socket file, or an account that may not see it.
        (BY_ADDRESS, replace(PLAIN, connection=""), NAME),
    ],
)
def test_what_is_not_seen_is_assumed_and_said(
    member: Membership, found: Follower, doubt: str
) -> None:
    connection, assumed = of(member, found)
    assert connection == found.connection
    assert doubt in assumed


@pytest.mark.parametrize(
    ("member", "found"),
    [
        (BY_SLOT, PLAIN),  # its slot is not in use at the writer
        (BY_SLOT, replace(SLOT, connection="slot db3")),
        (BY_SLOT, replace(SLOT, connection="")),
        (BY_ADDRESS, SLOT),  # the node uses none
        (OF_MYSQL, replace(REPLICA, connection="db9:3306")),
        (OF_MYSQL, replace(REPLICA, connection="db2:3307")),
        (replace(OF_MYSQL, semi_sync=False), REPLICA),  # another one acknowledges
    ],
)
def test_the_connection_of_another_is_refused(
    member: Membership, found: Follower
) -> None:
    with refused(ErrorId.NODE_NOT_RECOGNISED, EngineError, naming="db2") as caught:
        of(member, found)
    assert caught.value.id is ErrorId.NODE_NOT_RECOGNISED


@pytest.mark.parametrize("state", ["streaming", "catchup", "startup", "backup"])
@pytest.mark.parametrize("sync", ["sync", "potential", "async", "quorum"])
def test_a_name_that_two_bear_is_refused_in_any_state(state: str, sync: str) -> None:
    other = replace(SLOT, state=state, sync=sync, connection="address 10.7.7.7")
    with refused(ErrorId.NODES_SHARE_NAME, EngineError, naming=NAME) as caught:
        of(BY_SLOT, SLOT, other)
    assert caught.value.id is ErrorId.NODES_SHARE_NAME


def test_a_node_that_the_writer_does_not_list_is_refused() -> None:
    with refused(ErrorId.NODE_NOT_LISTED, EngineError, naming=NAME) as caught:
        of(BY_SLOT, replace(SLOT, name="db3"))
    assert caught.value.id is ErrorId.NODE_NOT_LISTED


def test_where_a_server_is_reached() -> None:
    local = open_engine("postgresql+psycopg2://a@127.0.0.1/b")
    assert find_address(local) == Address(frozenset({"127.0.0.1"}), 5432)
    assert find_address(open_engine("mysql://a@127.0.0.1:3307/b")).port == 3307
