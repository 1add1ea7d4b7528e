"""What a node of a Galera cluster prints of itself, and what makes one in a lab."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError, UsageError
from dbcheck.engines.mysql.check import require_standalone
from dbcheck.engines.mysql.galera import is_node, parse_quorum_options, parse_view
from dbcheck.lab.clusters.replication import Ports, make_galera_settings
from dbcheck.model.cluster import Promise, SiteKind, judge_settings_for_promise
from tests.kit.refusals import refused

CLUSTER = "b42ade03-e99a-11f1-8f09-17a7438f329c"
STATUS = {
    "wsrep_cluster_state_uuid": CLUSTER,
    "wsrep_cluster_status": "Primary",
    "wsrep_cluster_size": "2",
    "wsrep_local_state": "4",
    "wsrep_ready": "ON",
    "wsrep_last_committed": "15",
    "wsrep_local_recv_queue": "3",
}
MEMBERS = [("node2",), ("node1",)]


def test_a_node_in_sync_shows_its_view() -> None:
    view = parse_view(STATUS.items(), MEMBERS)
    assert (view.cluster, view.primary) == (CLUSTER, True)
    assert view.members == ("node1", "node2")
    assert view.takes_writes
    assert view.is_readable
    assert (view.committed, view.queued) == (15, 3)


@pytest.mark.parametrize(
    ("changed", "members", "takes_writes", "answers"),
    [
        ({"wsrep_local_state": "2"}, ("node1", "node2"), False, True),
        ({"wsrep_local_state": "3"}, ("node1", "node2"), False, False),
        ({"wsrep_ready": "OFF"}, ("node1", "node2"), False, False),
        ({"wsrep_cluster_status": "non-Primary"}, (), False, False),
        ({"wsrep_cluster_size": "3"}, (), True, True),  # the view changes
    ],
)
def test_a_node_that_is_not_in_sync(
    changed: dict[str, str],
    members: tuple[str, ...],
    takes_writes: bool,
    answers: bool,
) -> None:
    view = parse_view({**STATUS, **changed}.items(), MEMBERS)
    assert view.members == members
    assert (view.takes_writes, view.is_readable) == (takes_writes, answers)


def test_a_node_without_a_cluster_names_none() -> None:
    nil = {"wsrep_cluster_state_uuid": "00000000-0000-0000-0000-000000000000"}
    assert parse_view({**STATUS, **nil}.items(), MEMBERS).cluster == ""
    assert not parse_view([]).is_readable


@pytest.mark.parametrize(
    ("variables", "node"),
    [
        ({"wsrep_on": "ON", "wsrep_provider": "/lib/galera.so"}, True),
        ({"wsrep_on": "1", "wsrep_provider": "/lib/galera.so"}, True),
        ({"wsrep_on": "ON", "wsrep_provider": "none"}, False),
        ({"wsrep_on": "ON"}, False),
        ({"wsrep_on": "OFF", "wsrep_provider": "/lib/galera.so"}, False),
        ({}, False),
    ],
)
def test_which_server_is_a_node(variables: dict[str, str], node: bool) -> None:
    assert is_node(variables) is node
    if node:
        with refused(
            ErrorId.SERVER_IN_CLUSTER,
            EngineError,
            naming="is a node of a Galera cluster",
        ):
            require_standalone(link(variables))
    else:
        require_standalone(link(variables))


def test_a_node_whose_commits_stay_its_own_is_in_the_cluster_still() -> None:
    off = {"wsrep_on": "OFF", "wsrep_provider": "/lib/galera.so"}
    with refused(
        ErrorId.SERVER_IN_CLUSTER, EngineError, naming="wsrep_connected is ON"
    ) as at:
        require_standalone(link(off, wsrep_connected="ON"))
    assert at.value.id is ErrorId.SERVER_IN_CLUSTER
    require_standalone(link(off, wsrep_connected="OFF"))


def link(variables: Mapping[str, str], **status: str) -> Any:
    """Return a link to a server that shows these."""
    found = {"variables": [*variables.items()], "refill": [*status.items()]}
    return SimpleNamespace(rows=lambda statement: found.get(statement, []))


def test_the_options_that_ignore_the_majority_are_read() -> None:
    text = "base_host = 10.0.0.1; pc.ignore_quorum = false; pc.ignore_sb = true; x"
    assert parse_quorum_options({"wsrep_provider_options": text}) == {
        "pc.ignore_quorum": "false",
        "pc.ignore_sb": "true",
    }
    assert parse_quorum_options({}) == {}


FLUSH = "innodb_flush_log_at_trx_commit"


@pytest.mark.parametrize(
    ("promise", "changed", "why", "doubts"),
    [
        (Promise.WRITER_GONE, {}, "", 0),
        (Promise.ALL, {}, "", 0),
        (Promise.WRITER_GONE, {FLUSH: "0"}, "", 0),
        (Promise.ALL, {FLUSH: "3"}, "", 0),
        (Promise.ALL, {FLUSH: "0"}, f"{FLUSH} = 0: a commit is answered before any", 0),
        (Promise.ALL, {FLUSH: "2"}, f"{FLUSH} = 2: a commit is answered before any", 0),
        (Promise.WRITER_GONE, {"pc.ignore_sb": "true"}, "", 1),
        (Promise.WRITER_GONE, {"pc.ignore_quorum": "yes"}, "", 1),
        (Promise.WRITER_GONE, {"pc.ignore_quorum": "false"}, "", 0),
    ],
)
def test_what_galera_promises(
    promise: Promise, changed: dict[str, str], why: str, doubts: int
) -> None:
    usual = {FLUSH: "1", "pc.ignore_quorum": "false", "pc.ignore_sb": "false"}
    found = judge_settings_for_promise(
        SiteKind.GALERA, promise, {**usual, **changed}, {}
    )
    assert why in found.contradiction
    assert bool(found.contradiction) == bool(why)
    assert len(found.doubts) == doubts


def test_settings_that_were_not_read_are_assumed() -> None:
    (flush,) = judge_settings_for_promise(SiteKind.GALERA, Promise.ALL, {}, {}).doubts
    assert flush == f"{FLUSH} could not be read"
    assert (
        len(
            judge_settings_for_promise(
                SiteKind.GALERA, Promise.WRITER_GONE, {}, {}
            ).doubts
        )
        == 2
    )


def test_only_the_first_node_of_a_lab_begins_the_cluster() -> None:
    held: list[Any] = [SimpleNamespace(number=10 + n) for n in range(9)]
    ports = [Ports(*held[n : n + 3]) for n in (0, 3, 6)]
    given = {"wsrep-provider-options": "pc.ignore_sb=true", FLUSH: "2"}
    first, second, _ = (
        make_galera_settings(["a", "b", "c"], number, ports, given)
        for number in (1, 2, 3)
    )
    assert first["wsrep_new_cluster"] == ""
    assert "wsrep_new_cluster" not in second
    address = "gcomm://127.0.0.1:10,127.0.0.1:13,127.0.0.1:16"
    assert first["wsrep_cluster_address"] == second["wsrep_cluster_address"] == address
    assert second["wsrep_node_name"] == "b"
    assert second["wsrep_node_address"] == "127.0.0.1:13"
    assert second["wsrep_sst_receive_address"] == "127.0.0.1:15"
    assert "ist.recv_addr=127.0.0.1:14;" in second["wsrep_provider_options"]
    assert second["wsrep_provider_options"].endswith(";pc.ignore_sb=true")
    assert second[FLUSH] == "2"
    for name in ("wsrep_node_name", "wsrep_new_cluster", "server_id"):
        with refused(ErrorId.LAB_DECIDES_SETTING, UsageError, naming=name):
            make_galera_settings(["a", "b", "c"], 2, ports, {name: "x"})
    plain = make_galera_settings(["a", "b", "c"], 2, ports, {})
    assert plain["wsrep_provider_options"].endswith("=32M")
