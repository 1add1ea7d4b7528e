"""Reads the pods of a database again after the cut."""

from __future__ import annotations

import time

from dbcheck.base import interrupt
from dbcheck.base.errors import HostError
from dbcheck.model.host import HostAfter
from dbcheck.model.pods import (
    Pod,
    PodsAfter,
    compare_pods,
    find_pod_of_server,
    shows_no_restart,
)
from dbcheck.model.records import NodeBefore
from dbcheck.ports.listener import Listener, Phase
from dbcheck.ports.site import Node, PodSource

API_S = 90.0  # after a boot the server may answer long before the API of Kubernetes
POLL_S = 1.0


def read_pods_again(
    node: Node,
    listener: Listener,
    before: Pod | None,
    host: HostAfter | None,
    *,
    is_primary: bool,
    waits: bool = True,
) -> PodsAfter | None:
    """Return the pods once they show the server's, or as they are after API_S.

    None if the node was not in a pod before the load, or Kubernetes is not to be asked.
    host: what its host showed after the cut.  is_primary: see find_pod_of_server().
    waits: False if the API was waited for in vain just now.

    Each failure is waited for.  An API server that has just started cannot be reached,
    and then refuses accounts until it has read their rights; and no program can say of
    any other failure that it is for good.  A pod that is not shown yet, or a volume
    that cannot be read although it could before the load, is waited for as well, and so
    is the restart of its container, if nothing on the host shows that it is the pod's.
    """
    if node.pods is None or before is None:
        return None
    facts = host.facts if host else None
    cgroup = facts.container.cgroup if facts and facts.container else ""
    ends_s, reported = time.monotonic() + API_S, False
    while True:
        interrupt.raise_if_interrupted()
        found = _read(node.pods)
        doubt = found.failure or _find_doubt(found, before, cgroup, is_primary)
        if not (doubt and waits) or time.monotonic() >= ends_s:
            return found
        if not reported:
            text = f"asking Kubernetes again for up to {API_S:.0f} s: {doubt}"
            listener.phase(Phase.RESTORE, text)
            reported = True
        time.sleep(POLL_S)


def explain_moved_pod(
    node: Node, listener: Listener, before: NodeBefore, *, is_primary: bool
) -> str:
    """Explain why the server may have other volumes than before the load, else "".

    "" as well if it was in no pod then, or Kubernetes is not to be asked.
    """
    found = read_pods_again(node, listener, before.pod, None, is_primary=is_primary)
    if found is None or before.pod is None:
        return ""
    if found.failure:
        return f"Kubernetes could not be asked: {found.failure}"
    pod, doubt = find_pod_of_server(found.pods, is_primary=is_primary, known=before.pod)
    if pod is None:
        return doubt
    paths = [place.path for place in before.places if place.path]
    compared = compare_pods(before.pod, pod, paths)
    what = compared.changed or compared.unseen
    return f"{pod.named} {what}" if what else ""


def _read(pods: PodSource) -> PodsAfter:
    try:
        return PodsAfter(tuple(pods.read()))
    except HostError as error:
        return PodsAfter(failure=str(error))


def _find_doubt(found: PodsAfter, before: Pod, cgroup: str, is_primary: bool) -> str:
    """Name what makes another reading of the pods worthwhile, "" if nothing does."""
    pod, doubt = find_pod_of_server(
        found.pods, cgroup, is_primary=is_primary, known=before
    )
    if pod is None:
        return doubt
    if is_primary and not cgroup and shows_no_restart(before, pod):
        return f"{pod.named} is shown with its container from before the cut"
    unread = [why for volume in pod.volumes for why in volume.unread.values()]
    could_be_read = not any(volume.unread for volume in before.volumes)
    return next(iter(unread), "") if could_be_read else ""
