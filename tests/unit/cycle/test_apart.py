"""Which ids are of one host."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.cycle.preflight import independence
from dbcheck.cycle.preflight.independence import require_other_host, require_other_pod
from dbcheck.engines.registry import open_engine
from dbcheck.judge.item import Status
from dbcheck.judge.load_and_witness import judge_witness_host
from dbcheck.model.witness import Apart, is_same_host, is_same_start
from dbcheck.ports.witness import WitnessHostFacts
from dbcheck.remote.same_host import locate_target
from tests.kit.cases import case
from tests.kit.host_samples import BEFORE, FACTS
from tests.kit.pods import POD, REPLICA, showing, with_data, with_volume
from tests.kit.refusals import refused


@pytest.mark.parametrize(
    ("ours", "theirs", "same"),
    [
        pytest.param(("m", "b"), ("m", "b"), True, id="one host"),
        pytest.param(("m", "b"), ("n", "b"), True, id="containers of one kernel"),
        pytest.param(("m", "b"), ("m", "c"), False, id="clones of one image"),
        pytest.param(("m", ""), ("m", "b"), True, id="a boot id unknown"),
        pytest.param(("m", ""), ("n", "b"), False, id="other machine ids"),
        pytest.param(("", ""), ("m", "b"), None, id="nothing known"),
        pytest.param(("m", ""), ("", "b"), None, id="nothing in common"),
    ],
)
def test_same_host(
    ours: tuple[str, str], theirs: tuple[str, str], same: bool | None
) -> None:
    assert is_same_host(ours, theirs) is same
    assert is_same_host(theirs, ours) is same


def test_it_is_said_where_only_addresses_were_compared() -> None:
    item = judge_witness_host(case(apart=Apart.ADDRESSES))
    assert item is not None
    assert item.status is Status.NOT_OBSERVABLE
    assert "only addresses" in item.reason
    item = judge_witness_host(case(apart=Apart.IDS))
    assert item is not None
    assert item.status is Status.PRESENT


@pytest.mark.parametrize(
    ("ours_us", "theirs_us", "same"),
    [(5, 5, True), (5, 1005, True), (5, 1006, False), (None, None, False)],
)
def test_kernels_that_started_at_the_same_moment_may_be_one(
    ours_us: int | None, theirs_us: int | None, same: bool
) -> None:
    """Containers may have ids of their own, and no start of their own."""
    assert (
        is_same_start(ours_us, theirs_us) is is_same_start(theirs_us, ours_us) is same
    )
    witness = WitnessHostFacts("w", "m2", "b2", frozenset(), "/w", "", 1, 1, theirs_us)
    host = replace(BEFORE, facts=replace(FACTS, booted_us=ours_us))
    if same:
        with refused(
            ErrorId.WITNESS_ON_TARGET,
            UsageError,
            naming="kernels started at the same moment",
        ):
            require_other_host(host, witness)
    else:
        assert require_other_host(host, witness) is Apart.IDS


@pytest.mark.parametrize(
    ("kind", "machine", "boot", "is_refused"),
    [
        pytest.param("ssh", "m", "b", True, id="this host"),
        pytest.param("ssh", "n", "b", True, id="a container of this kernel"),
        pytest.param("ssh", "m", "c", False, id="a clone of this host's image"),
        pytest.param("ssh", "m", "", True, id="the boot id is unknown"),
        pytest.param("file", "n", "c", True, id="a folder here"),
    ],
)
def test_a_witness_beside_a_local_target_is_refused(
    kind: str,
    machine: str,
    boot: str,
    is_refused: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(independence, "read_machine_id", lambda: "m")
    monkeypatch.setattr(independence, "read_boot_id", lambda: "b")
    witness = WitnessHostFacts("w", machine, boot, frozenset(), "/w", "xfs", 1, 1)
    target = [("127.0.0.1", 5432)]
    if is_refused:
        with refused(
            ErrorId.WITNESS_ON_TARGET, UsageError, naming="on the target's own host"
        ):
            independence.require_independent(target, kind, witness)
    else:
        assert independence.require_independent(target, kind, witness)


@pytest.mark.parametrize(
    ("addresses", "why"),
    [
        ({"192.0.2.9", "127.0.0.1"}, ErrorId.WITNESS_ON_TARGET),
        ({"192.0.2.9", "what"}, None),
        (set(), ErrorId.WITNESS_NOT_IDENTIFIED),
    ],
)
def test_without_ids_addresses_show_whether_a_witness_is_here(
    addresses: set[str], why: ErrorId | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(independence, "read_machine_id", lambda: "")
    monkeypatch.setattr(independence, "read_boot_id", lambda: "")
    witness = WitnessHostFacts("w", "", "", frozenset(addresses), "/w", "apfs", 1, 1)
    target = [("127.0.0.1", 5432)]
    if why:
        with refused(why, UsageError):
            independence.require_independent(target, "ssh", witness)
    else:
        assert independence.require_independent(target, "ssh", witness)


def test_a_witness_without_addresses_is_compared_with_nothing() -> None:
    witness = WitnessHostFacts("w", "", "", frozenset(), "/w", "apfs", 1, 1)
    said = independence.require_independent([("192.0.2.7", 5432)], "ssh", witness)
    assert "nothing was compared" in said


WITNESS = "192.0.2.7"


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A home without files; the environment names no server."""
    for name in ("PGHOST", "PGHOSTADDR", "PGSERVICE", "PGSERVICEFILE", "MYSQL_PWD"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    ("variables", "url"),
    [
        ({"PGHOST": WITNESS}, "postgresql:///d"),
        ({"PGHOSTADDR": WITNESS}, "postgresql:///d"),
        ({"PGHOSTADDR": WITNESS}, "postgresql://db1/d"),
        ({"PGHOST": f"/run,{WITNESS}"}, "postgresql:///d"),
        ({"PGSERVICE": "far"}, "postgresql:///d"),
        ({}, "postgresql:///d?service=far"),
        ({}, f"postgresql:///d?host={WITNESS}:5433"),
        ({}, f"postgresql://127.0.0.1/d?hostaddr={WITNESS}"),
        ({}, "mysql:///d?option_files={}/client.cnf"),
        ({}, f"mysql://127.0.0.1/d?host={WITNESS}"),
        ({}, f"mysql://[::ffff:{WITNESS}]/d"),
        ({}, f"postgresql://[::ffff:{WITNESS}]/d"),
    ],
)
def test_a_target_is_where_its_driver_connects(
    variables: dict[str, str],
    url: str,
    elsewhere: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever says so: the URL, the environment or a file."""
    (elsewhere / ".pg_service.conf").write_text(f"[far]\nhost={WITNESS}\n")
    (elsewhere / "client.cnf").write_text(f"[client]\nhost={WITNESS}\n")
    (elsewhere / "client.cnf").chmod(0o600)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    endpoints = open_engine(url.format(elsewhere)).endpoints()
    addresses = frozenset({WITNESS})
    assert list(locate_target(endpoints).others.values()) == [addresses]
    witness = WitnessHostFacts("w", "m", "b", addresses, "/w", "xfs", 1, 1)
    monkeypatch.setattr(independence, "read_machine_id", lambda: "another")
    with refused(ErrorId.WITNESS_ON_TARGET, UsageError, naming=WITNESS):
        independence.require_independent(endpoints, "ssh", witness)


@pytest.mark.parametrize(
    ("variables", "url"),
    [
        ({"PGHOST": "/run/postgresql"}, "postgresql:///d"),
        ({"PGHOST": "@abstract"}, "postgresql:///d"),
        ({"PGSERVICE": "here"}, "postgresql:///d"),
        ({"PGHOST": WITNESS}, "postgresql://127.0.0.1/d"),
        ({"PGHOST": WITNESS}, "postgresql:///d?host=/run/postgresql"),
        ({}, "postgresql:///d"),
        ({}, "mysql:///d"),
        ({}, f"mysql://{WITNESS}/d?unix_socket=mysqld.sock"),
        ({}, "mysql://127.0.0.1/d?option_files={}/client.cnf"),
    ],
)
def test_a_target_here_is_none_elsewhere(
    variables: dict[str, str],
    url: str,
    elsewhere: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (elsewhere / ".pg_service.conf").write_text("[here]\nhost=/run/postgresql\n")
    (elsewhere / "client.cnf").write_text(f"[client]\nhost={WITNESS}\n")
    (elsewhere / "client.cnf").chmod(0o600)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    where = locate_target(open_engine(url.format(elsewhere)).endpoints())
    assert where.here
    assert not where.others


SOCKET, LOOPBACK, FAR = ("", 5432), ("127.0.0.1", 5432), (WITNESS, 5432)


@pytest.mark.parametrize("here", [SOCKET, LOOPBACK])
@pytest.mark.parametrize(
    ("kind", "ids", "addresses", "why"),
    [
        ("ssh", "other", {"192.0.2.8"}, ""),
        ("ssh", "other", {WITNESS}, f"has the target's address {WITNESS}"),
        ("ssh", "other", {"127.0.0.1"}, ""),
        ("ssh", "own", {"192.0.2.8"}, "on the target's own host"),
        ("file", "other", {"192.0.2.8"}, "on the target's own host"),
    ],
)
def test_a_witness_is_on_none_of_a_target_s_hosts(
    here: tuple[str, int],
    kind: str,
    ids: str,
    addresses: set[str],
    why: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """libpq tries each host of a URL: one may be here and another one the witness."""
    monkeypatch.setattr(independence, "read_machine_id", lambda: "own")
    monkeypatch.setattr(independence, "read_boot_id", lambda: "own")
    witness = WitnessHostFacts("w", ids, ids, frozenset(addresses), "/w", "xfs", 1, 1)
    if why:
        with refused(ErrorId.WITNESS_ON_TARGET, UsageError, naming=why):
            independence.require_independent([here, FAR], kind, witness)
        return
    said = independence.require_independent([here, FAR], kind, witness)
    assert "the witness is another host; the target's other hosts: the" in said


@pytest.mark.parametrize("kind", ["ssh", "file"])
@pytest.mark.parametrize(
    ("server", "is_refused"),
    [
        (WITNESS, True),
        (f"::ffff:{WITNESS}", True),
        ("192.0.2.9", False),
        ("127.0.0.1", False),
        ("no-such-host.invalid", False),
        ("", False),
    ],
)
def test_a_witness_whose_files_are_the_target_s_is_refused(
    server: str, is_refused: bool, kind: str
) -> None:
    """Its folder may be mounted from there, by NFS or CIFS."""
    facts = WitnessHostFacts("w", "m", "b", frozenset({"192.0.2.8"}), "/w", "", 1, 1)
    witness = replace(facts, file_server=server)
    target = replace(BEFORE, facts=replace(FACTS, addresses=frozenset({WITNESS})))
    if is_refused:
        with refused(
            ErrorId.WITNESS_ON_TARGET, UsageError, naming=f"on the file server {server}"
        ):
            independence.require_independent([FAR], kind, witness)
        with refused(
            ErrorId.WITNESS_ON_TARGET, UsageError, naming=f"on the file server {server}"
        ):
            require_other_host(target, witness)
        return
    assert independence.require_independent([FAR], kind, witness)
    assert require_other_host(target, witness)


def test_nor_may_they_be_on_this_host_where_the_target_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(independence, "read_machine_id", lambda: "another")
    monkeypatch.setattr(independence, "is_own_address", {"192.0.2.1"}.__contains__)
    facts = WitnessHostFacts("w", "m", "b", frozenset({"192.0.2.8"}), "/w", "", 1, 1)
    with refused(
        ErrorId.WITNESS_ON_TARGET, UsageError, naming="on the file server 192.0.2.1"
    ):
        independence.require_independent(
            [SOCKET], "ssh", replace(facts, file_server="192.0.2.1")
        )
    for server in ("127.0.0.1", "192.0.2.9"):
        witness = replace(facts, file_server=server)
        assert independence.require_independent([SOCKET], "ssh", witness)


def test_of_a_target_here_and_elsewhere_both_are_told_apart() -> None:
    where = locate_target([SOCKET, LOOPBACK, FAR])
    assert where.here
    assert where.others == {WITNESS: {WITNESS}}


def test_a_host_of_the_target_that_does_not_resolve_is_named() -> None:
    witness = WitnessHostFacts("w", "m", "b", frozenset({"10.0.0.7"}), "/w", "", 1, 1)
    hosts = [FAR, ("no-such-host.invalid", 5432)]
    said = independence.require_independent(hosts, "ssh", witness)
    assert said == "no-such-host.invalid does not resolve here, so it was not compared"


@pytest.mark.parametrize(
    ("url", "variables", "expected"),
    [
        ("postgresql:///d?port=%2B5433", {}, ("", 5433)),
        ("postgresql://db1/d", {"PGPORT": " 5433 "}, ("db1", 5433)),
        ("postgresql://db1/d", {"PGPORT": ""}, ("db1", 5432)),
        ("mysql://db1/d?port=%205433", {}, ("db1", 5433)),
        ("mysql://db1/d?port=54_33", {}, ("db1", 5433)),
        ("mysql://db1/d", {}, ("db1", 3306)),
    ],
)
def test_a_port_is_read_as_the_driver_does(
    url: str,
    variables: dict[str, str],
    expected: tuple[str, int],
    elsewhere: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else a server that runs is taken for one that is off."""
    monkeypatch.delenv("PGPORT", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert open_engine(url).endpoints() == [expected]


@pytest.mark.parametrize("url", ["mysql://db1/d?port=x", "postgresql://db1/d?port=x"])
def test_a_port_that_is_no_number_is_refused(url: str, elsewhere: Path) -> None:
    with refused(ErrorId.TARGET_URL_OPTION_INVALID, naming="port"):
        open_engine(url).endpoints()


def test_an_empty_place_in_a_list_of_addresses_is_a_socket_here(
    elsewhere: Path,
) -> None:
    endpoints = open_engine("postgresql:///d?hostaddr=192.0.2.9,").endpoints()
    assert endpoints == [("192.0.2.9", 5432), ("", 5432)]


WITNESS_POD = replace(
    with_volume(REPLICA, driver="files.csi.example.net", uid="w", handle="w"),
    name="dbcheck-witness-0",
    uid="5f1c2d3e-1111-4222-8333-eeeeeeeeeeee",
    addresses=("192.0.2.40",),
)
WITNESS_POD = with_data(WITNESS_POD, claim_uid="w", paths=("/w",), storage_class=None)


def on_pod(hostname: str, *addresses: str) -> WitnessHostFacts:
    return WitnessHostFacts(
        hostname, "m", "b", frozenset(addresses), "/w/acks", "xfs", 1, 1
    )


@pytest.mark.parametrize(
    "witness", [on_pod("dbcheck-witness-0"), on_pod("w", "192.0.2.40", "127.0.0.1")]
)
def test_the_pod_of_a_witness_is_known_by_name_or_address(
    witness: WitnessHostFacts,
) -> None:
    shown = showing(POD, WITNESS_POD)
    evidence = require_other_pod([POD], shown, witness)
    assert "dbcheck-witness-0 is on the node node-b" in evidence


def test_a_witness_in_no_pod_or_in_several_is_refused() -> None:
    with refused(ErrorId.WITNESS_POD_UNKNOWN, UsageError, naming="it is none of"):
        require_other_pod([POD], showing(WITNESS_POD), on_pod("w"))
    twin = replace(WITNESS_POD, name="w")
    with refused(ErrorId.WITNESS_POD_UNKNOWN, naming="more than one of"):
        require_other_pod([POD], showing(WITNESS_POD, twin), on_pod("w", "192.0.2.40"))


def test_a_witness_on_the_node_or_the_storage_of_the_database_is_refused() -> None:
    witness = on_pod("dbcheck-witness-0")
    beside = replace(WITNESS_POD, node=POD.node)
    with refused(ErrorId.WITNESS_ON_TARGET, UsageError):
        require_other_pod([POD], showing(beside), witness)
    same = with_volume(WITNESS_POD, driver="disk.csi.example.net")
    with refused(ErrorId.WITNESS_ON_DATABASE_STORAGE, UsageError):
        require_other_pod([POD], showing(same), witness)
