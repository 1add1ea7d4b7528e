"""The pods of one database on Kubernetes, as its API shows them.

A pod never moves: one that is started elsewhere, or anew, is another pod with another
uid (https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/, 1.34).  What
stays is the claim, which is bound to one volume for good
(https://kubernetes.io/docs/concepts/storage/persistent-volumes/#binding).
"""

from __future__ import annotations

import enum
import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

# How kubelet names the control group of a pod: "pod", and its uid; the systemd driver
# writes "_" for each "-" (Kubernetes 1.34, pkg/kubelet/cm: GetPodContainerName in
# pod_container_manager_linux.go, escapeSystemdCgroupName in cgroup_manager_linux.go).
# That of a static pod is a hash, which no pod of the API has as its uid
# (pkg/kubelet/config/common.go).
_POD_IN_CGROUP = re.compile(
    r"pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})(?![0-9a-f])"
)
# Kinds of volumes that are made for a pod and removed with it: what a pod itself names
# as "csi" is ephemeral, too
# (https://kubernetes.io/docs/concepts/storage/ephemeral-volumes/, 1.34).
GONE_WITH_POD = ("csi", "emptyDir", "ephemeral")
CLAIM, EPHEMERAL = "persistentVolumeClaim", "ephemeral"
_CLAIMED = (CLAIM, EPHEMERAL)


class PodRole(enum.Enum):
    """What a pod's server does in its cluster; the value is its name in reports."""

    PRIMARY = "primary"
    REPLICA = "replica"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class StorageClass:
    """What made a volume.

    parameters: as its provisioner takes them, e.g. the number of replicas.
    """

    name: str
    provisioner: str
    parameters: Mapping[str, str] = field(default_factory=dict)
    mount_options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PersistentVolume:
    """A PersistentVolume (PV).

    kind:   of its storage: "csi", "local", "hostPath", "nfs", ...
    driver: the CSI driver, "" without one.
    handle: what names the storage to the driver, or its path or address.
    """

    name: str
    uid: str
    kind: str
    driver: str = ""
    handle: str = ""
    reclaim_policy: str = ""
    mount_options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PodVolume:
    """One volume that the server's container has mounted.

    name:   in the pod.
    kind:   "persistentVolumeClaim", "ephemeral", "emptyDir", "hostPath", ...
    paths:  where the container has it.
    medium: of an emptyDir: "Memory", or "" for the node's disk.
    path:   of a hostPath.
    claim, claim_uid: the PersistentVolumeClaim (PVC), "" without one.
    access_modes: of the claim.
    volume, storage_class: None if there is none, or if it could not be read.
    unread: "claim", "volume" or "storage class" -> why it could not be read.
    folders: for each of *paths* the folder of the volume that is there (subPath), ""
             for all of it; () if that is so for each.
    """

    name: str
    kind: str
    paths: tuple[str, ...]
    medium: str = ""
    path: str = ""
    claim: str = ""
    claim_uid: str = ""
    access_modes: tuple[str, ...] = ()
    volume: PersistentVolume | None = None
    storage_class: StorageClass | None = None
    unread: Mapping[str, str] = field(default_factory=dict)
    folders: tuple[str, ...] = ()

    @property
    def mounted(self) -> dict[str, str]:
        """Each path -> the folder of the volume that is there, "" for all of it."""
        return dict(itertools.zip_longest(self.paths, self.folders, fillvalue=""))

    def describe_claim(self) -> str:
        """Name the claim, and the volume that it is bound to."""
        if self.volume is None:
            return f"{self.claim} (its volume could not be read)"
        kind = self.volume.driver or self.volume.kind
        return f"{self.claim} ({self.volume.name}, {kind})"


@dataclass(frozen=True, slots=True)
class Pod:
    """One pod with a server of a database.

    node:       the name of its node.
    machine_id, boot_id: the node's, as its kubelet reports them; "" if it could not be
                read.
    container:  the container that has the server.
    container_id: without the runtime's name before it; "" if it has not started.
    addresses:  the pod's IP addresses.
    ports:      those that the container declares; it may listen at others.
    ready:      it is Running, and its readiness probe succeeds.
    ending:     it is being deleted.
    volumes:    those that the container has mounted, but for configuration.
    apart:      topology keys over which its pods are kept apart, e.g.
                "kubernetes.io/hostname", by required rules; preferred: by others.
    unread:     "node" -> why it could not be read.
    """

    namespace: str
    name: str
    uid: str
    node: str
    container: str
    addresses: tuple[str, ...]
    role: PodRole
    volumes: tuple[PodVolume, ...]
    ports: tuple[int, ...] = ()
    machine_id: str = ""
    boot_id: str = ""
    container_id: str = ""
    ready: bool = False
    ending: bool = False
    apart: tuple[str, ...] = ()
    preferred_apart: tuple[str, ...] = ()
    unread: Mapping[str, str] = field(default_factory=dict)

    @property
    def named(self) -> str:
        """The pod as kubectl writes it, for reports: "pod prod/orders-1"."""
        return f"pod {self.namespace}/{self.name}"

    @property
    def described(self) -> str:
        """The pod, its node, and what each of its claims is bound to, for reports."""
        claims = [each.describe_claim() for each in self.volumes if each.claim]
        return "; ".join((f"{self.namespace}/{self.name} on {self.node}", *claims))

    def list_volumes(self) -> dict[str, str]:
        """Name what each claim is bound to: "volume of the claim ..." -> that volume.

        Claims whose volume could not be read are left out.
        """
        return {
            f"volume of the claim {each.claim}": f"{where.name} ({where.handle})"
            for each in self.volumes
            if each.claim and (where := each.volume) is not None
        }

    def find_volume(self, path: str) -> PodVolume | None:
        """Return the volume that has *path* in the container, None without one.

        Of mounts below each other, the innermost has it.
        """
        above = [
            (len(PurePosixPath(mounted).parts), volume)
            for volume in self.volumes
            for mounted in volume.paths
            if PurePosixPath(path).is_relative_to(mounted)
        ]
        return max(above, key=lambda found: found[0])[1] if above else None

    def has_process(self, cgroup: str) -> bool:
        """Return True if a process of this control group, by its path, is in the pod.

        The id of its container decides where the path has not the uid of the pod: for
        a static pod, or under a kubelet that makes no group for each pod.
        """
        container_id = self.container_id
        return find_pod_uid(cgroup) == self.uid or bool(
            container_id and container_id in cgroup
        )


@dataclass(frozen=True, slots=True)
class PodsAfter:
    """The pods of a database after the cut, as the API of Kubernetes showed them.

    failure: why the API could not be asked, "" if it could; then there are no pods.
    """

    pods: tuple[Pod, ...] = ()
    failure: str = ""


def find_pod_uid(cgroup: str) -> str:
    """Return the uid of the pod that the path of a control group names, "" without one.

    Of nested ones, as where a node is itself in a pod, the innermost.
    """
    found = _POD_IN_CGROUP.findall(cgroup)
    return found[-1].replace("_", "-") if found else ""


def shows_no_restart(then: Pod, now: Pod) -> bool:
    """Return True if a pod still has the container that it had before a cut.

    A node that starts again starts a new one in each pod that stayed (Kubernetes 1.34,
    pkg/kubelet/kuberuntime/kuberuntime_manager.go, computePodActions), and the status
    of a node that is off, "ready" too, stays as it was for 50 s.
    """
    same = then.uid == now.uid and then.container_id == now.container_id
    return same and bool(now.container_id)


def list_primaries(pods: Sequence[Pod]) -> list[Pod]:
    """List the pods that are primaries and are not being deleted."""
    return [pod for pod in pods if pod.role is PodRole.PRIMARY and not pod.ending]


def list_live_primaries(pods: Sequence[Pod]) -> list[Pod]:
    """List the primaries that are ready, or all of them if none is.

    A pod whose node has lost its power keeps the label that Patroni gave it, beside the
    pod that took over (see kubernetes.roles).
    """
    primaries = list_primaries(pods)
    return [pod for pod in primaries if pod.ready] or primaries


def find_pod_of_server(
    pods: Sequence[Pod],
    cgroup: str = "",
    *,
    is_primary: bool = True,
    known: Pod | None = None,
) -> tuple[Pod | None, str]:
    """Return the pod that has a server, or None and the reason why it is not known.

    cgroup:     of the server's process, as its host shows it; "" if it is not known.
    is_primary: the server is the primary, or the only one.
    known:      the server's pod at an earlier time, which another server is known by.
    """
    if not pods:
        return None, "there is no such pod"
    if cgroup:
        found = [pod for pod in pods if pod.has_process(cgroup)]
        if len(found) == 1:
            return found[0], ""
        where = f"pod {find_pod_uid(cgroup)}" if find_pod_uid(cgroup) else cgroup
        return None, (
            f"the server's process on its host is in {where}, and the API shows"
            f" {_list_names(pods)}"
        )
    if is_primary:
        primaries = list_primaries(pods)
        found = primaries or [pod for pod in pods if not pod.ending] or list(pods)
        if len(found) == 1:
            return found[0], ""
        which = "no primary" if not primaries else f"{len(primaries)} primaries"
        return None, f"the API shows {which} among {_list_names(found)}"
    for field_name in ("uid", "name"):
        for pod in pods:
            if known and getattr(pod, field_name) == getattr(known, field_name):
                return pod, ""
    others = [pod for pod in pods if pod.role is not PodRole.PRIMARY]
    if known is None and len(others) == 1:
        return others[0], ""
    return None, f"which of {_list_names(pods)} has this server is not known"


def _list_names(pods: Sequence[Pod]) -> str:
    return ", ".join(pod.named for pod in pods)


@dataclass(frozen=True, slots=True)
class PodComparison:
    """What tells a server's pod after the cut from its pod before the load.

    changed: what is another one: its node, or what its data lie on; "" if nothing is.
    unseen:  what could not be compared, and why; "" if all could.
    """

    changed: str = ""
    unseen: str = ""


def compare_pods(then: Pod, now: Pod, places: Sequence[str] = ()) -> PodComparison:
    """Compare the node of a server's pod, and each volume that its container has.

    places: the paths of its data and logs, as the server names them.  A volume that is
    made anew for each pod may be another one if none of them lies on it; () if they are
    not known, and then it counts as well.
    """
    if elsewhere := _compare_nodes(then, now):
        return PodComparison(elsewhere)
    same_pod = then.uid == now.uid
    if not same_pod and not then.volumes:
        return PodComparison("has no volume, and a new pod has nothing of the old one")
    unseen: list[str] = []
    for volume in then.volumes:
        later = _find_volume(volume, now.volumes)
        if later is None:
            return PodComparison(f"has no volume {_name_volume(volume)} any more")
        new = not same_pod and volume.kind in GONE_WITH_POD and not volume.claim
        if new and later.kind == volume.kind and not _holds(volume, then, places):
            continue
        changed, doubt = _compare_volumes(volume, later, same_pod=same_pod)
        if changed:
            return PodComparison(changed)
        unseen += [doubt] if doubt else []
    for volume in now.volumes:
        added = _find_volume(volume, then.volumes) is None
        if added and (volume.kind in _CLAIMED or _holds(volume, now, places)):
            return PodComparison(f"has a new volume {_name_volume(volume)}")
    if not same_pod:
        unseen += [
            f"{path} is on no volume, so a new pod may not have what was there"
            for path in places
            if then.find_volume(path) is None
        ]
    return PodComparison(unseen="; ".join(unseen))


def _compare_nodes(then: Pod, now: Pod) -> str:
    """Return what is another node, "" if none is."""
    if then.node != now.node and then.name != now.name:
        had = f"{then.named} had it, on node {then.node}"
        return f"has the server now, on node {now.node}; {had}"
    if then.node != now.node:
        return f"came back on node {now.node}, not on {then.node}"
    if then.machine_id and now.machine_id and then.machine_id != now.machine_id:
        return (
            f"came back on node {now.node}, which is another machine now (its machine"
            f" id was {then.machine_id} and is {now.machine_id})"
        )
    return ""


def _find_volume(wanted: PodVolume, volumes: Sequence[PodVolume]) -> PodVolume | None:
    """Return the volume with the name of *wanted*, or at its paths."""
    named = [each for each in volumes if each.name == wanted.name]
    there = [each for each in volumes if set(each.paths) & set(wanted.paths)]
    return next(iter(named or there), None)


def _name_volume(volume: PodVolume) -> str:
    return f"{volume.name} ({', '.join(volume.paths)})"


def _holds(volume: PodVolume, pod: Pod, places: Sequence[str]) -> bool:
    """Return True if one of the *places* lies on the volume, or if none is known."""
    return not places or any(pod.find_volume(place) is volume for place in places)


def _compare_volumes(
    then: PodVolume, now: PodVolume, *, same_pod: bool
) -> tuple[str, str]:
    """Return what is another one, and what could not be compared; each may be ""."""
    name = _name_volume(then)
    if then.kind != now.kind:
        return f"has another volume {name}: {then.kind} was replaced by {now.kind}", ""
    if set(then.paths) != set(now.paths):
        where = ", ".join(now.paths)
        return f"has the volume {name} mounted elsewhere: {where}", ""
    if then.mounted != now.mounted:
        return f"has another folder of the volume {name} mounted (subPath)", ""
    if then.kind in _CLAIMED:
        return _compare_claims(then, now)
    if then.path != now.path:
        return f"has another volume {name}: {then.path} was replaced by {now.path}", ""
    if same_pod or then.kind == "hostPath":
        return "", ""
    if then.kind in GONE_WITH_POD:
        return f"has a new volume {name}: each pod gets an empty one ({then.kind})", ""
    return "", f"nothing shows whether the volume {name} ({then.kind}) is the same"


def _compare_claims(then: PodVolume, now: PodVolume) -> tuple[str, str]:
    """Compare what two volumes with a claim lie on; see _compare_volumes()."""
    claim = f"the claim {then.claim}" if then.claim else f"the claim of {then.name}"
    if then.claim != now.claim:
        return f"has the claim {now.claim}, not {then.claim}", ""
    other = _name_other_volume(then.volume, now.volume)
    if then.claim_uid and now.claim_uid and then.claim_uid != now.claim_uid:
        return f"has {claim}, which was deleted and made anew{other}", ""
    if other:
        return f"has {claim}{other}", ""
    for volume, when in ((then, "before the load"), (now, "after the cut")):
        if volume.volume is None or not volume.claim_uid:
            why = "; ".join(volume.unread.values()) or "the API shows no volume of it"
            return "", f"what {claim} is bound to could not be read {when}: {why}"
    return "", ""


def _name_other_volume(
    then: PersistentVolume | None, now: PersistentVolume | None
) -> str:
    """Return which other volume a claim is bound to, "" if none or if it is unknown."""
    if then is None or now is None:
        return ""
    if then.name != now.name:
        return f", bound to another volume: {now.name}, not {then.name}"
    for what in ("uid", "kind", "driver", "handle"):
        old, new = getattr(then, what), getattr(now, what)
        if old != new:
            return f", bound to another volume: {now.name} ({what} {new}, not {old})"
    return ""
