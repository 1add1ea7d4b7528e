"""The stand-in for an API server of Kubernetes, asked by the official client."""

from __future__ import annotations

import socket
import ssl
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import urllib3
from kubernetes import client
from kubernetes.client.exceptions import (
    ApiException,
    ForbiddenException,
    NotFoundException,
    ServiceException,
    UnauthorizedException,
)

from dbcheck.lab.certificates import Authority
from tests.kit.kubernetes.api import Asked, Fault, Right, StandInApi, open_api
from tests.kit.kubernetes.clients import ask, open_client
from tests.kit.kubernetes.samples import NAMESPACE, SELECTOR, make_orders, make_pod
from tests.kit.threads import new_threads

Core = Any  # client.CoreV1Api, of whose answers each field may be None
ROLE = Path(__file__).parents[3] / "docs/guides/kubernetes/role.yaml"
TIMEOUT = (5.0, 1.0)  # to connect, to read


@pytest.fixture
def api() -> Iterator[StandInApi]:
    with open_api() as api:
        for sample in make_orders():
            api.store.put(sample["kind"], sample)
        yield api


@pytest.fixture
def core(api: StandInApi, tmp_path: Path) -> Iterator[Core]:
    with open_client(api.kubeconfig(tmp_path)) as opened:
        yield client.CoreV1Api(opened)


def names_of(pods: Any) -> list[str]:
    return [pod.metadata.name for pod in pods.items]


def list_pods(core: Core, **query: object) -> Any:
    return core.list_namespaced_pod(NAMESPACE, _request_timeout=TIMEOUT, **query)


@pytest.mark.parametrize(
    "selector, found",
    [
        (SELECTOR, ["orders-1", "orders-2", "orders-3"]),
        (f"{SELECTOR},role=primary", ["orders-1"]),
        ("role in (replica,other)", ["orders-2", "orders-3"]),
        ("!role", ["scratch-1"]),
        ("role!=primary", ["orders-2", "orders-3", "scratch-1"]),
        ("ordinal>2", ["orders-3"]),
        ("role=none", []),
    ],
)
def test_pods_are_found_by_labels(core: Core, selector: str, found: list[str]) -> None:
    assert names_of(list_pods(core, label_selector=selector)) == found


def test_a_selector_that_is_none_is_refused(core: Core) -> None:
    with pytest.raises(ApiException, match="found '=', expected: identifier") as error:
        list_pods(core, label_selector="role===primary")
    assert error.value.status == 400


def test_pages_are_of_one_moment(api: StandInApi, core: Core) -> None:
    """A pod that comes and one that goes meanwhile are not seen in the other pages."""
    first = list_pods(core, label_selector=SELECTOR, limit=2)
    assert names_of(first) == ["orders-1", "orders-2"]
    api.store.remove("Pod", "orders-3", NAMESPACE)
    api.store.put("Pod", make_pod("orders-4", "node1"))
    token = first.metadata._continue
    second = list_pods(core, label_selector=SELECTOR, limit=2, _continue=token)
    assert names_of(second) == ["orders-3"]
    assert second.metadata._continue is None
    assert names_of(list_pods(core, label_selector=SELECTOR))[-1] == "orders-4"


def test_a_page_of_a_forgotten_moment_is_gone(api: StandInApi, core: Core) -> None:
    token = list_pods(core, limit=1).metadata._continue
    api.store.remove("Pod", "orders-3", NAMESPACE)
    api.store.compact()
    with pytest.raises(ApiException, match="too old to display") as error:
        list_pods(core, limit=1, _continue=token)
    assert error.value.status == 410


def test_a_pod_that_moves_is_another_one(api: StandInApi, core: Core) -> None:
    before = core.read_namespaced_pod("orders-1", NAMESPACE)
    api.store.move_pod("orders-1", "node2", NAMESPACE)
    after = core.read_namespaced_pod("orders-1", NAMESPACE)
    assert (before.spec.node_name, after.spec.node_name) == ("node1", "node2")
    assert before.metadata.uid != after.metadata.uid
    found = [pod.status.container_statuses[1].container_id for pod in (before, after)]
    assert found[0] != found[1]


def test_objects_change(api: StandInApi, core: Core) -> None:
    """A test can rebind a claim, make two primaries, and remove a label."""
    change = api.store.change
    claim = "PersistentVolumeClaim"
    change(claim, "orders-1", {"spec": {"volumeName": "pv-3"}}, NAMESPACE)
    found = core.read_namespaced_persistent_volume_claim("orders-1", NAMESPACE)
    assert found.spec.volume_name == "pv-3"
    change("Pod", "orders-2", {"metadata": {"labels": {"role": "primary"}}}, NAMESPACE)
    primaries = list_pods(core, label_selector="role=primary")
    assert names_of(primaries) == ["orders-1", "orders-2"]
    change("Pod", "orders-2", {"metadata": {"labels": {"role": None}}}, NAMESPACE)
    assert names_of(list_pods(core, label_selector="!role"))[0] == "orders-2"
    same, other = primaries.items[1], core.read_namespaced_pod("orders-2", NAMESPACE)
    assert same.metadata.uid == other.metadata.uid
    assert int(same.metadata.resource_version) < int(other.metadata.resource_version)


def test_every_kind_is_read(api: StandInApi, core: Core) -> None:
    storage = client.StorageV1Api(core.api_client)
    assert storage.read_storage_class("fast").parameters == {"replicas": "3"}
    assert core.read_persistent_volume("pv-1").spec.csi.volume_handle == "rbd/orders-1"
    assert core.read_node("node1").status.node_info.machine_id
    version = client.VersionApi(core.api_client).get_code()
    assert (version.major, version.minor) == ("1", "34")
    service = {"metadata": {"name": "orders-rw", "namespace": NAMESPACE}}
    api.store.put("Service", service | {"spec": {"selector": {"role": "primary"}}})
    found = core.read_namespaced_service("orders-rw", NAMESPACE)
    assert found.spec.selector == {"role": "primary"}
    api.store.put("EndpointSlice", service | {"addressType": "IPv4", "endpoints": []})
    slices = client.DiscoveryV1Api(core.api_client)
    assert len(slices.list_namespaced_endpoint_slice(NAMESPACE).items) == 1


def test_what_is_absent_is_not_found(core: Core) -> None:
    with pytest.raises(NotFoundException, match='pods \\\\"orders-9\\\\" not found'):
        core.read_namespaced_pod("orders-9", NAMESPACE)


def test_a_right_that_is_missing_is_named(api: StandInApi, core: Core) -> None:
    api.forbid("get", "nodes")
    with pytest.raises(ForbiddenException, match='cannot get resource \\\\"nodes') as e:
        core.read_node("node1")
    assert api.user in str(e.value)
    api.allow("get", "nodes")
    assert core.read_node("node1").metadata.name == "node1"


def test_only_what_is_granted_is_allowed(api: StandInApi, core: Core) -> None:
    api.grant_only([Right("list", "pods", NAMESPACE), Right("get", "nodes")])
    list_pods(core)
    core.read_node("node1")
    refused: list[Callable[[], object]] = [
        lambda: core.list_namespaced_pod("default"),
        lambda: core.list_pod_for_all_namespaces(),
        lambda: core.read_namespaced_pod("orders-1", NAMESPACE),
        lambda: core.list_node(),
    ]
    for ask_for in refused:
        with pytest.raises(ForbiddenException, match="is forbidden"):
            ask_for()


def test_objects_can_change_between_two_requests(api: StandInApi, core: Core) -> None:
    def move(asked: Asked) -> None:
        if asked.verb == "get":
            api.store.move_pod("orders-1", "node3", NAMESPACE)

    api.before = move
    assert list_pods(core).items[0].spec.node_name == "node1"
    moved = core.read_namespaced_pod("orders-1", NAMESPACE)
    assert moved.spec.node_name == "node3"


def test_a_token_that_ended_lets_nobody_in(
    api: StandInApi, core: Core, tmp_path: Path
) -> None:
    list_pods(core)
    api.revoke()
    with pytest.raises(UnauthorizedException, match="Unauthorized"):
        list_pods(core)
    with open_client(api.kubeconfig(tmp_path)) as again:
        list_pods(client.CoreV1Api(again))


@pytest.mark.parametrize(
    "fault, expected, text",
    [
        (Fault.TOO_MANY, ApiException, "Too many requests"),
        (Fault.FAILS, ServiceException, "etcdserver: request timed out"),
        (Fault.UNAVAILABLE, ServiceException, "shutting down"),
        (Fault.TORN, urllib3.exceptions.ProtocolError, "IncompleteRead"),
        (Fault.HANGS, urllib3.exceptions.ReadTimeoutError, "Read timed out"),
        (Fault.CLOSED, urllib3.exceptions.ProtocolError, "without response"),
        (Fault.ELSEWHERE, ApiException, "Found"),
        (Fault.NO_OBJECT, TypeError, "not iterable"),
        (Fault.NO_JSON, ValueError, "Log in first"),
    ],
)
def test_each_fault_comes_once_and_is_what_the_client_then_says(
    api: StandInApi,
    core: Core,
    fault: Fault,
    expected: type[Exception],
    text: str,
) -> None:
    api.fail(fault, "pods")
    core.read_node("node1")
    with pytest.raises(expected, match=text):
        list_pods(core)
    assert len(list_pods(core).items) == 4


def test_an_answer_says_when_to_ask_again(api: StandInApi, core: Core) -> None:
    api.fail(Fault.TOO_MANY, times=2)
    for _ in range(2):
        with pytest.raises(ApiException, match="Too many requests") as error:
            list_pods(core)
        assert error.value.headers
        assert error.value.headers["Retry-After"] == "1"
    list_pods(core)


def test_each_request_is_noted(api: StandInApi, core: Core) -> None:
    list_pods(core, label_selector=SELECTOR, limit=50)
    core.read_node("node1")
    first, second = api.asked
    assert first[:4] == ("list", "pods", NAMESPACE, "")
    assert first.query == {"labelSelector": SELECTOR, "limit": "50"}
    assert second[:4] == ("get", "nodes", "", "node1")


def test_what_it_does_not_know_is_refused(core: Core) -> None:
    for query in ({"field_selector": "spec.nodeName=node1"}, {"watch": True}):
        with pytest.raises(ApiException, match="the stand-in does not know"):
            list_pods(core, **query)
    with pytest.raises(ApiException, match="Unsupported method"):
        core.delete_namespaced_pod("orders-1", NAMESPACE)


def test_a_client_that_trusts_another_authority_turns_away(
    api: StandInApi, tmp_path: Path
) -> None:
    api.authority = Authority().issue_certificate("another").authority
    with (
        open_client(api.kubeconfig(tmp_path)) as opened,
        pytest.raises(ApiException, match="CERTIFICATE_VERIFY_FAILED"),
    ):
        client.CoreV1Api(opened).read_node("node1")
    assert api.asked == []


def test_the_kubeconfig_is_its_owners_and_names_a_namespace(
    api: StandInApi, tmp_path: Path
) -> None:
    path = api.kubeconfig(tmp_path, namespace=NAMESPACE)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert f'"namespace": "{NAMESPACE}"' in path.read_text()


@pytest.mark.parametrize("fault", [Fault.HANGS, Fault.DRIPS])
def test_nothing_is_left_of_it(tmp_path: Path, fault: Fault) -> None:
    """Not of a client that waits, of one that keeps its connection, of one not yet in.

    What the client says at the end shows that its connection was ended.
    """
    before = list(threading.enumerate())
    said: list[BaseException] = []
    with open_api() as api, open_client(api.kubeconfig(tmp_path)) as opened:
        assert ask(opened, "/version").status == 200
        api.fail(fault)

        def wait() -> None:
            ended = "Connection (aborted|broken)"
            with pytest.raises(urllib3.exceptions.ProtocolError, match=ended) as e:
                ask(opened, "/api/v1/nodes")
            said.append(e.value)

        waiting = threading.Thread(target=wait)
        waiting.start()
        while len(api.asked) < 2:
            waiting.join(0.01)
        silent = socket.create_connection(("127.0.0.1", api.port))
        halfway = socket.create_connection(("127.0.0.1", api.port))
        halfway.sendall(b"\x16\x03\x01")
    waiting.join()
    with silent, halfway:
        for connection in (silent, halfway):
            connection.settimeout(5)
            assert is_ended(connection)
    assert len(said) == 1
    assert new_threads(before) == []
    with pytest.raises(ConnectionRefusedError, match="refused"):
        socket.create_connection(("127.0.0.1", api.port))


def is_ended(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except (ConnectionResetError, ssl.SSLError):
        return True
