"""Finds the pod of Kubernetes that has a server, before its load.

Only what is read of this very pod after the cut shows that the server is still on the
node whose power is cut, and on the volumes that took the load.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from dbcheck.base import interrupt
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.model.host import HostBefore
from dbcheck.model.pods import Pod, PodRole, find_pod_of_server, list_live_primaries
from dbcheck.ports.listener import Listener, Phase
from dbcheck.ports.site import Node

# For a readiness probe, and for a kubelet that has just started.
SETTLE_S = 90.0
POLL_S = 1.0


def read_pods(node: Node, *, grouped: bool) -> tuple[Pod, ...]:
    """Return the pods of the node's database, () if it is not on Kubernetes.

    grouped: each of them may take writes.
    Raise UsageError if more than one is a primary; HostError.
    """
    if node.pods is None:
        return ()
    pods = tuple(node.pods.read())
    primaries = [] if grouped else list_live_primaries(pods)
    if len(primaries) > 1:
        named = " and ".join(pod.named for pod in primaries)
        raise UsageError(
            f"more than one pod is a primary: {named}",
            id=ErrorId.KUBERNETES_PRIMARY_UNCLEAR,
            hint="Wait until the cluster has one primary, or name the pods of one"
            " database only in the selector of dbcheck_kubernetes.",
        )
    return pods


def choose_pod(
    node: Node,
    pods: Sequence[Pod],
    host: HostBefore | None,
    listener: Listener,
    *,
    is_primary: bool,
) -> Pod | None:
    """Return the pod that has the node's server; None without pods.

    host: its host, as it was inspected; None if it is not asked.
    is_primary: the API must not know another pod as the primary.
    Raise UsageError if the pod is not known, is another than the API says, is not on
    that host, or is not ready.
    """
    if node.pods is None:
        return None
    pod = _find_pod(node, pods, host, is_primary=is_primary)
    ends_s, reported = time.monotonic() + SETTLE_S, False
    while (why := _find_late_report(pod, host)) and time.monotonic() < ends_s:
        if not reported:
            text = f"waiting for up to {SETTLE_S:.0f} s: {pod.named} {why}"
            listener.phase(Phase.PREFLIGHT, text)
            reported = True
        interrupt.raise_if_interrupted()
        time.sleep(POLL_S)
        pods = read_pods(node, grouped=not is_primary)
        pod = _find_pod(node, pods, host, is_primary=is_primary)
    _require_node(pod, host)
    _require_ready(pod)
    for what, why in _list_unread(pod):
        listener.phase(Phase.PREFLIGHT, f"{what} of {pod.named} cannot be read: {why}")
    return pod


def _find_pod(
    node: Node, pods: Sequence[Pod], host: HostBefore | None, *, is_primary: bool
) -> Pod:
    container = host.facts.container if host else None
    cgroup = container.cgroup if container else ""
    pod, doubt = find_pod_of_server(pods, cgroup, is_primary=is_primary)
    if pod is None and cgroup:
        raise _refuse_other_pod(node, doubt)
    if pod is None:
        raise UsageError(
            f"which pod has the server {node.engine.target} is not known: {doubt}",
            id=ErrorId.KUBERNETES_PRIMARY_UNCLEAR,
            hint="Have dbcheck ask the host (dbcheck_ask_host), which shows the pod of"
            " the server's process; or name one pod alone in the selector.",
        )
    primaries = list_live_primaries(pods)
    if (
        is_primary
        and pod not in primaries
        and (primaries or pod.role is PodRole.REPLICA)
    ):
        known = f"{primaries[0].named} is" if primaries else "is not"
        raise _refuse_other_pod(
            node, f"the server runs in {pod.named}, and {known} the primary"
        )
    return pod


def _find_late_report(pod: Pod, host: HostBefore | None) -> str:
    """Name what the kubelet still reports from before a restart, "" if nothing."""
    if not pod.ready and not pod.ending:
        return "is not ready"
    ids = [(pod.machine_id, host.facts.machine_id)] if host else []
    ids += [(pod.boot_id, host.facts.boot_id)] if host else []
    differ = [all(pair) and pair[0] != pair[1] for pair in ids]
    return "is on a node that shows an earlier boot" if differ == [False, True] else ""


def _refuse_other_pod(node: Node, why: str) -> UsageError:
    return UsageError(
        f"the server {node.engine.target} is not in the pod that the API shows: {why}",
        id=ErrorId.SERVER_IN_OTHER_POD,
        hint="The selector of dbcheck_kubernetes and the URL must lead to the same"
        " server: name the service of the primary in dbcheck_target, and wait until a"
        " failover is over.",
    )


def _require_node(pod: Pod, host: HostBefore | None) -> None:
    """Raise UsageError if the host is another machine than the node of the pod.

    Machines that were cloned may have one machine id, and no two have one boot id.
    """
    if host is None:
        return
    ids = {
        "machine id": (pod.machine_id, host.facts.machine_id),
        "boot id": (pod.boot_id, host.facts.boot_id),
    }
    for what, (of_node, of_host) in ids.items():
        if of_node and of_host and of_node != of_host:
            raise UsageError(
                f"the pod of the server is on another machine: {pod.named} is on node"
                f" {pod.node} ({what} {of_node}), and host {host.facts.hostname} has"
                f" the {what} {of_host}",
                id=ErrorId.POD_ON_OTHER_NODE,
                hint="Name each node in the inventory as Kubernetes does, with its own"
                " address and switch: the power of that node is cut.",
            )


def _require_ready(pod: Pod) -> None:
    """Raise UsageError unless the pod runs, is ready and stays."""
    if pod.ending or not pod.ready:
        state = "is being deleted" if pod.ending else "is not ready"
        raise UsageError(
            f"the pod of the server must be ready and stay: {pod.named} {state}",
            id=ErrorId.POD_NOT_READY,
            hint="Wait until kubectl get pods shows it as Running and ready, and run it"
            " again. Another pod may be about to take its place.",
        )


def _list_unread(pod: Pod) -> list[tuple[str, str]]:
    """List what of a pod could not be read, and why."""
    found = [(what, why) for what, why in pod.unread.items()]
    for volume in pod.volumes:
        named = volume.claim or volume.name
        found += [(f"the {what} {named}", why) for what, why in volume.unread.items()]
    return found
