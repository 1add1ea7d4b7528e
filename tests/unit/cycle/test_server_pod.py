"""The pod that has a server, before its load."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.cycle.preflight import server_pod
from dbcheck.cycle.preflight.server_pod import choose_pod, read_pods
from dbcheck.model.host import Container, HostBefore
from dbcheck.model.pods import Pod, PodRole
from dbcheck.ports.site import Node
from tests.kit.host_samples import BEFORE
from tests.kit.pods import OTHER_UID, POD, REPLICA, Pods, cgroup_of, showing, with_data
from tests.kit.refusals import refused
from tests.kit.rigs import Said

ENGINE: Any = SimpleNamespace(target="postgresql://u@h/d")
POWER: Any = None
STRANGE = replace(POD, uid=OTHER_UID, container_id="e0" * 32)
SECOND = replace(REPLICA, role=PodRole.PRIMARY)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing be waited for."""
    monkeypatch.setattr(server_pod, "SETTLE_S", 0.0, raising=False)


def host_of(pod: Pod, *, machine_id: str = "m1", cgroup: str | None = None) -> Any:
    """Return what the host shows on which the server is in that pod."""
    group = cgroup_of(pod) if cgroup is None else cgroup
    container = Container(4711, group)
    facts = replace(BEFORE.facts, machine_id=machine_id, container=container)
    return replace(BEFORE, facts=facts)


def choose(
    *pods: Pod, host: HostBefore | None = None, is_primary: bool = True
) -> tuple[Pod | None, str]:
    """Return the pod that is chosen, and what was said."""
    node, said = Node(ENGINE, POWER, pods=showing(*pods)), Said()
    found = read_pods(node, grouped=False)
    chosen = choose_pod(node, found, host, said, is_primary=is_primary)
    return chosen, said.text


def test_a_server_that_is_not_on_kubernetes_has_no_pod() -> None:
    node = Node(ENGINE, POWER)
    assert read_pods(node, grouped=False) == ()
    assert choose_pod(node, (), None, Said(), is_primary=True) is None


@pytest.mark.parametrize("host", [None, host_of(POD), host_of(POD, cgroup="")])
def test_the_primary_has_the_server(host: HostBefore | None) -> None:
    assert choose(POD, REPLICA, host=host) == (POD, "")


def test_the_only_pod_has_the_server_whatever_its_role() -> None:
    unknown = replace(POD, role=PodRole.UNKNOWN)
    assert choose(unknown)[0] == choose(unknown, host=host_of(POD))[0] == unknown


def test_the_process_decides_where_no_role_is_known() -> None:
    pods = [replace(pod, role=PodRole.UNKNOWN) for pod in (POD, REPLICA)]
    assert choose(*pods, host=host_of(POD))[0] == pods[0]


def test_another_node_of_a_cluster_is_in_its_own_pod() -> None:
    host = host_of(REPLICA, machine_id="m2")
    assert choose(POD, REPLICA, host=host, is_primary=False)[0] == REPLICA
    assert choose(POD, REPLICA, is_primary=False)[0] == REPLICA


def test_in_a_group_each_pod_may_take_writes() -> None:
    node = Node(ENGINE, POWER, pods=showing(POD, SECOND))
    assert read_pods(node, grouped=True) == (POD, SECOND)


@pytest.mark.parametrize(
    ("call", "id", "naming"),
    [
        pytest.param(
            lambda: choose(POD, SECOND, host=host_of(POD)),
            ErrorId.KUBERNETES_PRIMARY_UNCLEAR,
            "pod prod/orders-1 and pod prod/orders-2",
            id="two primaries",
        ),
        pytest.param(
            lambda: choose(replace(POD, role=PodRole.REPLICA), REPLICA),
            ErrorId.KUBERNETES_PRIMARY_UNCLEAR,
            "no primary among",
            id="no primary",
        ),
        pytest.param(
            lambda: choose(POD, REPLICA, host=host_of(STRANGE)),
            ErrorId.SERVER_IN_OTHER_POD,
            OTHER_UID,
            id="in a pod that is not shown",
        ),
        pytest.param(
            lambda: choose(POD, host=host_of(POD, cgroup="/docker/abc")),
            ErrorId.SERVER_IN_OTHER_POD,
            "/docker/abc",
            id="in no pod",
        ),
        pytest.param(
            lambda: choose(POD, REPLICA, host=host_of(REPLICA)),
            ErrorId.SERVER_IN_OTHER_POD,
            "pod prod/orders-1 is the primary",
            id="in a replica",
        ),
        pytest.param(
            lambda: choose(REPLICA, host=host_of(REPLICA)),
            ErrorId.SERVER_IN_OTHER_POD,
            "is not the primary",
            id="in a replica alone",
        ),
        pytest.param(
            lambda: choose(POD, host=host_of(POD, machine_id="m9")),
            ErrorId.POD_ON_OTHER_NODE,
            ("node-a", "m9"),
            id="on another node",
        ),
        pytest.param(
            lambda: choose(replace(POD, boot_id="b9"), host=host_of(POD)),
            ErrorId.POD_ON_OTHER_NODE,
            ("node-a", "boot id b9"),
            id="on a clone of the node",
        ),
        pytest.param(
            lambda: choose(replace(POD, ready=False)),
            ErrorId.POD_NOT_READY,
            "orders-1 is not ready",
            id="not ready",
        ),
        pytest.param(
            lambda: choose(replace(POD, ending=True)),
            ErrorId.POD_NOT_READY,
            "is being deleted",
            id="ending",
        ),
    ],
)
def test_what_would_show_another_server_is_refused(
    call: Callable[[], object], id: ErrorId, naming: str | tuple[str, ...]
) -> None:
    with refused(id, UsageError, naming=naming):
        call()


def test_a_machine_that_is_not_known_refuses_nothing() -> None:
    assert choose(replace(POD, machine_id=""), host=host_of(POD))[0]
    assert choose(POD, host=host_of(POD, machine_id=""))[0]


def test_what_cannot_be_read_is_said() -> None:
    pod = replace(
        with_data(volume=None, unread={"volume": "forbidden"}), unread={"node": "no"}
    )
    said = choose(pod)[1]
    assert "node of pod prod/orders-1 cannot be read: no" in said
    assert "volume data-orders-1 of pod prod/orders-1 cannot be read: forbid" in said


@pytest.mark.parametrize(
    "early", [replace(POD, ready=False), replace(POD, boot_id="b-before")]
)
def test_what_the_kubelet_reports_late_is_waited_for(
    early: Pod, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server may answer before its node says that it started, and its pod is ready.

    The next cycle of a campaign begins then.
    """
    monkeypatch.setattr(server_pod, "SETTLE_S", 60.0, raising=False)
    monkeypatch.setattr(server_pod, "POLL_S", 0.0, raising=False)
    shown = iter([early, early, early, POD])
    node, said = Node(ENGINE, POWER, pods=Pods(lambda: [next(shown)])), Said()
    pods, host = read_pods(node, grouped=False), host_of(POD)
    assert choose_pod(node, pods, host, said, is_primary=True) == POD
    assert said.text.count("orders-1") == 1


def test_a_pod_that_ends_is_not_waited_for() -> None:
    pods = showing(replace(POD, ready=False, ending=True))
    node = Node(ENGINE, POWER, pods=pods)
    with refused(ErrorId.POD_NOT_READY, UsageError):
        choose_pod(node, read_pods(node, grouped=False), None, Said(), is_primary=True)
    assert pods.asked == 1
