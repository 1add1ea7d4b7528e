"""What a member of a replication group shows of itself, and what makes one in a lab."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError, StillBootstraps, UsageError
from dbcheck.engines.mysql import group_replication
from dbcheck.engines.mysql.check import require_server, require_standalone
from dbcheck.engines.mysql.group_replication import View, is_member
from dbcheck.lab.clusters.replication import make_group_settings
from dbcheck.lab.servers.mysql import MysqlServer, require_no_group
from dbcheck.model.cluster import (
    Promise,
    SiteKind,
    compare_lineage,
    judge_settings_for_promise,
)
from tests.kit.refusals import refused

GROUP = "1727aa1a-81b1-4727-89f9-f868b5154cba"
FLUSH, BINLOG = "innodb_flush_log_at_trx_commit", "sync_binlog"


class Answers:
    """A link that answers each statement with these rows, and notes what ran."""

    def __init__(self, **rows: Any) -> None:
        self.rows_of = {
            "executed_mysql": [("a", f"{GROUP}:1-10")],
            "group_members": [("a", "ONLINE"), ("b", "ONLINE"), ("c", "ONLINE")],
            "group_queue": [(0,)],
            "group_received": [(f"{GROUP}:1-10", "")],
            "cluster_node": [("group_replication_group_name", GROUP.upper())],
            **rows,
        }
        self.ran: list[str] = []

    def rows(self, statement: str, *_: Any, **__: Any) -> list[Any]:
        self.ran.append(statement)
        found = self.rows_of.get(statement, [])
        if isinstance(found, Exception):
            raise found
        return list(found)

    def texts(self, *statements: str) -> list[list[Any]]:
        return [self.rows(one) for one in statements]

    def row(self, statement: str, *_: Any) -> Any:
        return self.rows(statement)[0]


def link(**rows: Any) -> Any:
    return Answers(**rows)


@pytest.mark.parametrize(
    ("states", "online", "joined"),
    [
        ({"a": "ONLINE", "b": "ONLINE", "c": "ONLINE"}, True, True),
        ({"a": "ONLINE", "b": "ONLINE", "c": "UNREACHABLE"}, True, True),
        ({"a": "ONLINE", "b": "UNREACHABLE", "c": "UNREACHABLE"}, False, True),
        ({"a": "ONLINE", "b": "UNREACHABLE"}, False, True),
        ({"a": "RECOVERING", "b": "ONLINE", "c": "ONLINE"}, False, True),
        ({"a": "ERROR"}, False, False),
        ({}, False, False),
        ({"b": "ONLINE", "c": "ONLINE"}, False, False),
    ],
)
def test_a_member_is_online_with_a_majority(
    states: dict[str, str], online: bool, joined: bool
) -> None:
    view = View("a", states)
    assert (view.online, view.joined) == (online, joined)
    assert view.names == tuple(sorted(states))


def test_what_is_queued_is_received_and_not_applied() -> None:
    received = group_replication.received(link())
    assert (received.position, received.applied) == (10, 10)
    assert received.connected
    assert received.members == ("a", "b", "c")
    behind = link(group_queue=[(2,)], group_received=[(f"{GROUP}:1-7", f"{GROUP}:8")])
    received = group_replication.received(behind)
    assert (received.position, received.applied) == (10, 7)
    # The view is read first: what it lacks was handed on before.
    assert behind.ran.index("group_members") < behind.ran.index("group_queue")
    assert behind.ran.index("group_queue") < behind.ran.index("group_received")
    off = group_replication.received(link(group_members=[("a", "ERROR")]))
    assert (off.position, off.connected, off.members) == (10, False, ())
    # A queue that is not shown may hold anything.
    assert group_replication.received(link(group_queue=[])).position is None


def test_a_member_is_known_by_its_uuid_and_its_group() -> None:
    membership = group_replication.membership(link())
    assert membership is not None
    assert (membership.name, membership.source) == ("a", GROUP)
    assert group_replication.membership(link(group_members=[])) is None
    assert group_replication.descent(link()).parents == {GROUP: 10}


@pytest.mark.parametrize(
    ("states", "awaited"),
    [
        ([("a", "ONLINE"), ("c", "ONLINE"), ("b", "ONLINE")], ["b", "c"]),
        ([("a", "ONLINE"), ("b", "ONLINE"), ("c", "RECOVERING")], ["b"]),
        ([("a", "ONLINE"), ("b", "ONLINE"), ("c", "UNREACHABLE")], ["b"]),
        ([("a", "ERROR")], []),
    ],
)
def test_commits_wait_for_the_members_that_are_online(
    states: list[tuple[str, str]], awaited: list[str]
) -> None:
    found = [(name, state, "1") for name, state in states]
    members = group_replication.followers(link(group_followers=found))
    assert [one.name for one in members.read() if one.is_awaited] == awaited


@pytest.mark.parametrize(
    ("changed", "states", "takes"),
    [
        ({}, None, True),
        ({"super_read_only": "ON"}, None, False),
        ({"read_only": "1"}, None, False),
        ({}, [("a", "RECOVERING")], False),
    ],
)
def test_the_primary_takes_writes(
    changed: dict[str, str], states: Any, takes: bool
) -> None:
    variables = {"read_only": "OFF", "super_read_only": "OFF", **changed}
    rows: dict[str, Any] = {"variables": list(variables.items())}
    if states:
        rows["group_members"] = states
    assert group_replication.takes_writes(link(**rows)) is takes


def unneeded() -> None:
    raise AssertionError("no other connection is needed")


OUT: dict[str, Any] = {"group_members": [], "group_lacking": [("",)]}


def test_a_group_is_formed_by_a_server_that_has_all() -> None:
    has_all = link(**OUT)
    group_replication.require_all_of(has_all, {"b": f"{GROUP}:1-9"})
    group_replication.bootstrap(has_all, unneeded)
    assert has_all.ran[-4:] == [
        "stop_group",
        "bootstrap_on",
        "start_group",
        "bootstrap_off",
    ]
    lacks = link(**{**OUT, "group_lacking": [(f"{GROUP}:11",)]})
    with refused(
        ErrorId.GROUP_LACKS_TRANSACTIONS,
        EngineError,
        naming=(f"{GROUP}:11", "which b has"),
    ) as at:
        group_replication.require_all_of(lacks, {"b": f"{GROUP}:1-9:11"})
    assert "must be cloned" in at.value.hint
    with refused(
        ErrorId.NODE_JOINED_MEANWHILE,
        EngineError,
        naming="it has joined a group meanwhile",
    ):
        group_replication.bootstrap(member := link(), unneeded)
    assert not {"stop_group", "bootstrap_on"} & set(member.ran)


def test_a_group_that_is_not_formed_leaves_no_server_to_form_one() -> None:
    failing = link(
        **OUT,
        start_group=EngineError(
            "3092: not configured properly", id=ErrorId.STATEMENT_FAILED
        ),
    )
    with refused(ErrorId.GROUP_NOT_FORMED, EngineError, naming="3092"):
        group_replication.bootstrap(failing, unneeded)
    assert failing.ran[-1] == "bootstrap_off"
    ended: list[str] = []
    gone = link(
        **OUT,
        start_group=EngineError("gone", id=ErrorId.STATEMENT_FAILED),
        bootstrap_off=EngineError("gone", id=ErrorId.STATEMENT_FAILED),
    )
    with refused(ErrorId.GROUP_NOT_FORMED, EngineError, naming="gone"):
        group_replication.bootstrap(gone, lambda: ended.append("anew"))
    assert ended == ["anew"]
    on = group_replication.still_bootstraps_error(
        EngineError("cannot connect", id=ErrorId.STATEMENT_FAILED)
    )
    assert "may still be ON: cannot connect" in str(on)
    assert "set global group_replication_bootstrap_group = OFF" in on.hint

    def still_on() -> None:
        raise on

    with refused(ErrorId.GROUP_MAY_START_TWICE, StillBootstraps):
        group_replication.bootstrap(gone, still_on)


def test_a_server_out_of_its_group_shows_what_it_has() -> None:
    found = group_replication.detached(link(**OUT))
    assert (found.name, found.group) == ("a", GROUP)
    assert found.transactions == f"{GROUP}:1-10"
    more = link(**OUT, group_received=[("x:1", "y:2")])
    assert group_replication.detached(more).transactions == "x:1,y:2"
    with refused(
        ErrorId.NODE_JOINED_MEANWHILE, EngineError, naming="it is in a group already"
    ):
        group_replication.detached(link())


def test_a_server_that_joins_by_itself_is_left_alone() -> None:
    busy = link(**OUT, group_joining=[("a thread",)])
    for act in (
        group_replication.detached,
        group_replication.join,
        lambda to: group_replication.bootstrap(to, unneeded),
    ):
        with refused(ErrorId.NODE_STILL_JOINS, EngineError) as at:
            act(busy)
        assert at.value.hint == "dbcheck waits for that."
    assert not {"stop_group", "start_group", "bootstrap_on"} & set(busy.ran)
    failed = link(group_members=[("a", "ERROR")], group_joining=[("a thread",)])
    group_replication.join(failed)
    assert failed.ran[-2:] == ["stop_group", "start_group"]
    member = link()
    group_replication.join(member)
    assert "start_group" not in member.ran


@pytest.mark.parametrize(
    ("grants", "enough"),
    [
        (["GRANT GROUP_REPLICATION_ADMIN,SYSTEM_VARIABLES_ADMIN ON *.* TO `a`"], True),
        (["GRANT ALL PRIVILEGES ON *.* TO `a` WITH GRANT OPTION"], True),
        (["GRANT SUPER ON *.* TO `a`"], True),
        (["GRANT USAGE ON *.* TO `a`", "GRANT `dba` TO `a`"], True),  # perhaps
        (["GRANT SYSTEM_VARIABLES_ADMIN ON *.* TO `a`"], False),
        (["GRANT ALL PRIVILEGES ON `dbcheck`.* TO `a`"], False),
    ],
)
def test_the_account_must_be_allowed_to_form_a_group(
    grants: list[str], enough: bool
) -> None:
    asked = link(grants=[(each,) for each in grants])
    if enough:
        group_replication.require_group_privileges(asked)
        assert "bootstrap_off" in asked.ran
        return
    with refused(
        ErrorId.PRIVILEGE_MISSING, EngineError, naming="GROUP_REPLICATION_ADMIN"
    ) as at:
        group_replication.require_group_privileges(asked)
    assert "docs/privileges.md" in at.value.hint


@pytest.mark.parametrize(
    ("text", "id", "hint"),
    [
        ("1227: Access denied", ErrorId.PRIVILEGE_MISSING, "Grant the account"),
        ("3092: not configured", ErrorId.GROUP_NOT_FORMED, "Look into its error log"),
    ],
)
def test_a_refusal_says_what_to_do(text: str, id: ErrorId, hint: str) -> None:
    with refused(id, EngineError, naming=text[:4]) as at:
        group_replication.join(
            link(
                group_members=[],
                start_group=EngineError(text, id=ErrorId.STATEMENT_FAILED),
            )
        )
    assert hint in at.value.hint


def test_no_member_is_promoted() -> None:
    with refused(
        ErrorId.PROMOTION_NOT_FOR_GROUP, EngineError, naming="is not promoted"
    ):
        group_replication.promote(link())


def test_a_member_is_not_tested_alone() -> None:
    name = ("group_replication_group_name", GROUP)
    assert is_member(dict([name]))
    assert not is_member({"group_replication_group_name": ""})
    begins = [name, ("group_replication_start_on_boot", "ON")]
    left = [name, ("group_replication_start_on_boot", "OFF")]
    denied = EngineError("denied", id=ErrorId.STATEMENT_FAILED)
    for member in (
        link(variables=begins),
        link(variables=[(name.upper(), value) for name, value in begins]),
        link(variables=left, group_state=[("ONLINE",)]),
        link(variables=left, group_state=[("RECOVERING",)]),
    ):
        with refused(ErrorId.SERVER_IN_CLUSTER, EngineError) as at:
            require_standalone(member)
        assert "dbcheck_topology: group-replication" in at.value.hint
    require_standalone(link(variables=left))
    require_standalone(link(variables=left, group_state=denied))


@pytest.mark.parametrize(
    ("state", "is_advised"),
    [
        ([], True),
        ([("ONLINE",)], False),
        ([("ERROR",)], False),
        (EngineError("denied", id=ErrorId.STATEMENT_FAILED), False),
    ],
)
def test_only_a_server_that_left_its_group_is_to_be_made_writable(
    state: Any, is_advised: bool
) -> None:
    """A row that is written to a secondary is on no other member."""
    server = link(
        server=[("8.4.9", "MySQL Community Server", "u@h")], group_state=state
    )
    variables = {"group_replication_group_name": GROUP, "super_read_only": "ON"}
    with refused(
        ErrorId.SERVER_READ_ONLY, EngineError, naming=("super_read_only", "is ON")
    ) as at:
        require_server(server, variables)
    assert at.value.id is ErrorId.SERVER_READ_ONLY
    assert ("SET GLOBAL super_read_only = OFF;" in at.value.hint) is is_advised
    assert ("dbcheck_writer" in at.value.hint) is not is_advised


@pytest.mark.parametrize(
    ("promise", "changed", "why"),
    [
        (Promise.WRITER_GONE, {}, ""),
        (Promise.WRITER_GONE, {FLUSH: "0", BINLOG: "0"}, ""),
        (Promise.ALL, {}, ""),
        (Promise.ALL, {FLUSH: "2"}, f"{FLUSH} = 2: a commit is answered before any"),
        (Promise.ALL, {FLUSH: "0"}, f"{FLUSH} = 0: a commit is answered before any"),
        (Promise.ALL, {FLUSH: "3"}, f"{FLUSH} = 3: a commit is answered before any"),
        (Promise.ALL, {BINLOG: "0"}, f"{BINLOG} = 0: a commit is answered before any"),
    ],
)
def test_what_a_group_promises(
    promise: Promise, changed: dict[str, str], why: str
) -> None:
    settings = {FLUSH: "1", BINLOG: "1", **changed}
    found = judge_settings_for_promise(
        SiteKind.GROUP_REPLICATION, promise, settings, {}
    )
    assert why in found.contradiction
    assert bool(found.contradiction) == bool(why)
    assert found.doubts == ()


def test_settings_that_were_not_read_are_assumed() -> None:
    found = judge_settings_for_promise(
        SiteKind.GROUP_REPLICATION, Promise.ALL, {FLUSH: "1"}, {}
    )
    assert found.doubts == (f"{BINLOG} could not be read",)
    found = judge_settings_for_promise(
        SiteKind.GROUP_REPLICATION, Promise.ALL, {BINLOG: "0"}, {}
    )
    assert BINLOG in found.contradiction


def test_the_reader_is_a_server_that_was_there_before() -> None:
    writer = {"group_replication_group_name": GROUP, "server_uuid": "a"}
    member = {**writer, "server_uuid": "b"}
    kind = SiteKind.GROUP_REPLICATION
    assert compare_lineage(kind, writer, member, promoted=member).same == (
        "server_uuid",
    )
    stranger = {**writer, "server_uuid": "x"}
    assert compare_lineage(kind, writer, stranger, promoted=member).other
    elsewhere = {**member, "group_replication_group_name": "another"}
    assert compare_lineage(kind, writer, elsewhere, promoted=member).other
    assert compare_lineage(kind, writer, writer).same


def test_the_members_of_a_lab_know_each_other() -> None:
    ports: list[Any] = [SimpleNamespace(number=number) for number in (11, 12, 13)]
    given = {"group-replication-consistency": "AFTER", BINLOG: "0"}
    second = make_group_settings(GROUP, 2, ports, given)
    assert second["group_replication_local_address"] == "127.0.0.1:12"
    assert second["group_replication_group_seeds"] == (
        "127.0.0.1:11,127.0.0.1:12,127.0.0.1:13"
    )
    assert second["server_id"] == "2"
    assert MysqlServer.port_in(second) == 12
    assert MysqlServer.port_in({BINLOG: "0"}) == 0
    assert second["group_replication_consistency"] == "AFTER"
    assert second[BINLOG] == "0"
    for what in ("group_name", "bootstrap_group", "communication_stack", "ssl_mode"):
        name = f"group_replication_{what}"
        for given_name in (name, f"loose_{name}", f"loose_skip_{name}"):
            with refused(ErrorId.LAB_DECIDES_SETTING, UsageError, naming=given_name):
                make_group_settings(GROUP, 2, ports, {given_name: "x"})


@pytest.mark.parametrize(
    "name",
    [
        "group_replication_local_address",
        "Group-Replication-consistency",
        "loose-group-replication-group-seeds",
    ],
)
def test_settings_of_a_group_are_refused_outside_of_one(name: str) -> None:
    with refused(
        ErrorId.SETTING_INVALID, UsageError, naming="member of a replication group"
    ) as refusal:
        require_no_group({BINLOG: "1", name: "127.0.0.1:33061"})
    assert "--topology group-replication" in refusal.value.hint
    require_no_group({BINLOG: "1"})
