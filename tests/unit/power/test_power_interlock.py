from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError, HostError, UsageError
from dbcheck.config.target import KubernetesSettings
from dbcheck.inventory.entry import Entry
from dbcheck.model.cut import CutClass, OtherUsers
from dbcheck.model.host import Expected, Identity
from dbcheck.model.places import DataNames, FoundData
from dbcheck.model.server import ServerFacts
from dbcheck.ports.engine import Engine
from dbcheck.power import interlock
from dbcheck.power.kinds.exec import ExecConfig
from dbcheck.runner import assemble
from dbcheck.runner.guard import check_interlocks
from tests.kit.bare_engine import BareEngine
from tests.kit.inventories import loaded
from tests.kit.refusals import refused
from tests.kit.samples import FACTS

SEEN = Identity("db1.example.net", "m1", "b1", "S1", frozenset({"10.0.0.1"}))


@pytest.mark.parametrize(
    ("name", "expected", "seen", "server"),
    [
        pytest.param("db1", Expected(), SEEN, {}, id="by its short name"),
        pytest.param("db1.example.net", Expected(), SEEN, {}, id="by its name"),
        pytest.param("other", Expected(serial="s1"), SEEN, {}, id="by its serial"),
        pytest.param("other", Expected(machine_id="m1"), SEEN, {}, id="by machine id"),
        pytest.param("DB1", Expected(), None, {"hostname": "db1"}, id="by SQL alone"),
        pytest.param("db1", Expected(), SEEN, {"hostname": "db1"}, id="by both"),
    ],
)
def test_the_right_host_is_recognised(
    name: str, expected: Expected, seen: Identity | None, server: dict[str, str]
) -> None:
    assert interlock.require_host(name, expected, seen, server)


@pytest.mark.parametrize(
    ("name", "expected", "seen", "server", "said"),
    [
        pytest.param("db2", Expected(), SEEN, {}, "not db2", id="another name"),
        pytest.param(
            "db1.other.net", Expected(), SEEN, {}, "not db1.other.net", id="domain"
        ),
        pytest.param(
            "db1", Expected(serial="S2"), SEEN, {}, "serial is S1", id="another serial"
        ),
        pytest.param(
            "db1",
            Expected("db1", "S2"),
            SEEN,
            {},
            "serial is S1",
            id="the name is right, the serial is not",
        ),
        pytest.param(
            "db1",
            Expected(serial="S1"),
            replace(SEEN, serial=""),
            {},
            "cannot read",
            id="the serial is hidden",
        ),
        pytest.param("db1", Expected(), None, {}, "cannot read", id="nobody says"),
        pytest.param(
            "db1",
            Expected(),
            SEEN,
            {"hostname": "db7"},
            "runs on db7",
            id="SQL differs",
        ),
        pytest.param("10.0.0.1", Expected(), SEEN, {}, "an IP address", id="no name"),
    ],
)
def test_a_wrong_host_is_never_cut(
    name: str,
    expected: Expected,
    seen: Identity | None,
    server: dict[str, str],
    said: str,
) -> None:
    with pytest.raises(UsageError, match=said):
        interlock.require_host(name, expected, seen, server)


def test_the_url_must_lead_to_the_host() -> None:
    interlock.require_address("db1", SEEN, frozenset({"10.0.0.1"}), i_know=False)
    interlock.require_address("db1", SEEN, frozenset(), i_know=False)
    interlock.require_address("db1", None, frozenset({"10.0.0.9"}), i_know=False)
    interlock.require_address("db1", SEEN, frozenset({"10.0.0.9"}), i_know=True)
    with refused(ErrorId.TARGET_ADDRESS_NOT_OF_HOST, UsageError, naming="10.0.0.9"):
        interlock.require_address("db1", SEEN, frozenset({"10.0.0.9"}), i_know=False)


DB1 = """
all:
  hosts:
    db1:
      dbcheck_target: postgresql://dbcheck@db1/dbcheck
      dbcheck_power: exec
      dbcheck_power_class: AC
      dbcheck_power_cut: [pdu, "off", 7]
      dbcheck_power_state: [pdu, state, 7]
"""


class Server(BareEngine):
    """The engine, as far as the guard asks it."""

    def __init__(self, *hosts: str) -> None:
        self._hosts = hosts

    def endpoints(self) -> list[tuple[str, int]]:
        return [(host, 5432) for host in self._hosts]

    def facts(self) -> ServerFacts:
        return FACTS

    def other_users(self) -> OtherUsers:
        return OtherUsers((), 0)


@pytest.mark.parametrize("tunnel", ["", "127.0.0.1"])
def test_what_is_here_may_be_a_tunnel_and_what_is_not_must_be_the_host(
    tunnel: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """libpq tries each host of a URL."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    seen = SimpleNamespace(identity=lambda: SEEN)
    monkeypatch.setattr(assemble, "make_power_host", lambda _: seen)
    entry = loaded(tmp_path, DB1).entry("db1")

    def guarded(*hosts: str) -> str:
        return check_interlocks(
            entry, cast(Engine, Server(*hosts)), yes=True, i_know=False
        )

    assert guarded(tunnel)
    assert guarded(tunnel, "10.0.0.1")
    for first in (tunnel, "10.0.0.1"):
        with refused(ErrorId.TARGET_ADDRESS_NOT_OF_HOST, UsageError, naming="10.0.0.9"):
            guarded(first, "10.0.0.9")


class Failing(Server):
    """A server that is down, or one that only does not tell who uses it."""

    def __init__(self, failing: str) -> None:
        super().__init__("10.0.0.1")
        self._failing = failing

    def facts(self) -> ServerFacts:
        self._fail("facts")
        return FACTS

    def other_users(self) -> OtherUsers:
        self._fail("other_users")
        return OtherUsers((), 0)

    def _fail(self, asked: str) -> None:
        if asked == self._failing:
            raise EngineError(
                "nobody there", id=ErrorId.CONNECTION_FAILED, hint="Start it."
            )


@pytest.mark.parametrize(
    ("failing", "loads", "hint"),
    [
        ("facts", True, "Start it."),
        ("facts", False, "Start it. Or add --i-know to cut without this check."),
        ("other_users", True, "Start it. Or add --i-know to cut without this check."),
    ],
)
def test_no_flag_is_advised_on_a_server_that_has_to_take_the_load(
    failing: str,
    loads: bool,
    hint: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(assemble, "make_power_host", lambda _: None)
    entry = loaded(tmp_path, DB1).entry("db1")
    engine = cast(Engine, Failing(failing))
    id = ErrorId.CONNECTION_FAILED if hint == "Start it." else NOT_KNOWN
    with refused(id, EngineError, naming="nobody there") as caught:
        check_interlocks(entry, engine, yes=True, i_know=False, loads_server=loads)
    assert caught.value.hint == hint


USERS, NOT_KNOWN = ErrorId.SERVER_HAS_OTHER_USERS, ErrorId.OTHER_USERS_UNKNOWN


@pytest.mark.parametrize(
    ("found", "id", "named"),
    [
        (OtherUsers(("shop", "crm"), 0), USERS, "shop, crm"),
        (OtherUsers((), 3), USERS, "3 connections of other clients"),
        (
            OtherUsers((), 0, {"databases": "no right"}),
            NOT_KNOWN,
            "has other databases: no right",
        ),
        (OtherUsers(tuple("abcdefg"), 0), USERS, "a, b, c, d, e and 2 more"),
    ],
)
def test_others_are_not_cut_unless_they_are_known(
    found: OtherUsers, id: ErrorId, named: str
) -> None:
    with refused(id, UsageError, naming=named):
        interlock.require_no_other_users("db1", found, i_know=False)
    interlock.require_no_other_users("db1", found, i_know=True)
    interlock.require_no_other_users("db1", OtherUsers((), 0), i_know=False)


class Contained(SimpleNamespace):
    """The node of a pod, with what lies at the path of the data directory there."""

    def identity(self) -> Identity:
        return SEEN

    def find_data(self, data_directory: str) -> list[FoundData]:
        return [FoundData(4711, self.names, "orders-0")]


def in_pod(**identity: str) -> tuple[Entry, Engine]:
    """Return a target in a pod, placed on db1, and its engine."""
    entry = Entry(
        "orders",
        "mysql+pymysql://u@orders.prod.svc/d",
        host="ssh://root@db1",
        power=ExecConfig(("off",), state=("state",), declared=CutClass.AC),
        expected=Expected(machine_id="m1"),
        kubernetes=KubernetesSettings("app=orders"),
        machine="db1",
    )
    server = Server("orders.prod.svc")
    facts = replace(FACTS, identity={"datadir": "/data", **identity})
    vars(server).update(facts=lambda: facts, mark_data=lambda: "")
    return entry, cast(Engine, server)


def test_a_server_in_a_pod_has_the_hostname_of_the_pod(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(assemble, "make_power_host", lambda _: Contained())
    entry, engine = in_pod(hostname="orders-0")
    said = check_interlocks(entry, engine, yes=True, i_know=False)
    assert said == "machine_id m1"


def test_a_node_without_the_server_is_not_cut_without_a_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cycle finds the server on its node; dbcheck power has no cycle."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    entry, engine = in_pod(server_uuid="one")
    for uuid in ("one", "another"):
        host = Contained(names=DataNames(False, "", None, uuid, frozenset(), {}))
        monkeypatch.setattr(assemble, "make_power_host", lambda _, host=host: host)
        expected = (
            nullcontext()
            if uuid == "one"
            else refused(ErrorId.DATA_DIRECTORY_NOT_ON_HOST, HostError)
        )
        with expected:
            check_interlocks(entry, engine, yes=True, i_know=False, loads_server=False)
