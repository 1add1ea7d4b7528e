"""Reads the pods of a database again after the cut, and finds them before the next."""

from __future__ import annotations

import time
from collections.abc import Collection

from dbcheck.base import interrupt
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import DbcheckError, EngineError, HostError, TargetChanged
from dbcheck.cycle.rig import Rig
from dbcheck.model.host import HostAfter
from dbcheck.model.pods import (
    Pod,
    PodsAfter,
    compare_pods,
    find_pod_of_server,
    shows_no_restart,
)
from dbcheck.model.records import Manifest, NodeBefore
from dbcheck.ports.listener import Listener, Phase
from dbcheck.ports.site import Node, PodSource, Site

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


def find_pods_again(
    rig: Rig, manifest: Manifest, leads: str, restarted: Collection[str]
) -> Site:
    """Return the site of *rig* as it is now, once each pod of a run is back.

    leads: the node that is to lead the site.  restarted: the nodes that lost their
    power: until its kubelet has started a pod again, the API shows the address that the
    pod had before, which another one may have by now.
    Raise TargetChanged for a pod of another name, and EngineError if one is not back
    within the time that a server may take.
    """
    assert rig.find_nodes is not None
    ends_s, reported = time.monotonic() + rig.limits.return_s, ""
    while True:
        interrupt.raise_if_interrupted()
        hint = "kubectl describe pod says what it waits for."
        try:
            why = _describe_absent(rig.site.writer, manifest, restarted)
            if not why:
                return rig.find_nodes(leads)
        except TargetChanged:
            raise
        except DbcheckError as error:
            why, hint = str(error), error.hint or hint
        if time.monotonic() >= ends_s:
            raise EngineError(
                f"the pods are not back after {rig.limits.return_s:g} s: {why}",
                id=ErrorId.NODE_NOT_REBUILT,
                hint=f"{hint} Then continue with --resume; dbcheck_wait_s gives them"
                " more time.",
            )
        if why != reported:
            rig.listener.phase(Phase.REBUILD, f"waiting for the pods: {why}")
            reported = why
        time.sleep(POLL_S)


def close_hosts(site: Site) -> None:
    """End the connections to the hosts of *site*, in whose place another one is now."""
    for node in site.nodes.values():
        if node.host is not None:
            node.host.close()


def has_restarted(node: Node, before: Pod | None) -> bool:
    """Return True if the API shows that the pod of a node has started anew.

    before: the pod before the load; None if the node was in none.
    """
    if node.pods is None or before is None:
        return False
    found = [pod for pod in _read(node.pods).pods if pod.named == before.named]
    return any(not shows_no_restart(before, pod) for pod in found)


def _describe_absent(node: Node, manifest: Manifest, restarted: Collection[str]) -> str:
    """Return which pod of a run is not back yet, "" if all are.

    Raise TargetChanged for a pod that is none of that run; HostError.
    """
    assert node.pods is not None
    before = {each.pod.named: each.pod for each in manifest.nodes.values() if each.pod}
    now = {pod.named: pod for pod in node.pods.read()}
    absent = [named for named in before if named not in now]
    if others := [named for named in now if named not in before]:
        gone = f", and {', '.join(absent)} is gone" if absent else ""
        raise TargetChanged(
            f"{', '.join(others)} is not one of the nodes of run {manifest.run_id}"
            f"{gone}: a pod of another name is another node",
            id=ErrorId.TARGET_CHANGED,
            hint="If it is to stay, begin a new campaign: cuts of other nodes must not"
            " be counted together. If not, remove it, and continue with --resume once"
            " the pods are those of before.",
        )
    for named, pod in now.items():
        if pod.ending:
            return f"{named} is being deleted"
        if pod.name in restarted and shows_no_restart(before[named], pod):
            return f"{named} is shown with its container from before the cut"
    return f"{', '.join(absent)} is not there" if absent else ""


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
