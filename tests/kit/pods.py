"""Pods of a database on Kubernetes, and a source that shows them as a test says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from dbcheck.model.pods import PersistentVolume, Pod, PodRole, PodVolume, StorageClass

VOLUME = PersistentVolume(
    name="pvc-0a",
    uid="0a0a0a0a-0000-4000-8000-000000000001",
    kind="csi",
    driver="disk.csi.example.net",
    handle="vol-0a",
    reclaim_policy="Delete",
)
DATA = PodVolume(
    name="data",
    kind="persistentVolumeClaim",
    paths=("/var/lib/postgresql/data",),
    claim="data-orders-1",
    claim_uid="0c0c0c0c-0000-4000-8000-000000000001",
    access_modes=("ReadWriteOnce",),
    volume=VOLUME,
    storage_class=StorageClass("fast", "disk.csi.example.net"),
)
SCRATCH = PodVolume(name="scratch", kind="emptyDir", paths=("/scratch",))
UID = "5f1c2d3e-1111-4222-8333-444455556666"
OTHER_UID = "5f1c2d3e-1111-4222-8333-77778888aaaa"
CONTAINER_ID = "c0" * 32
POD = Pod(
    namespace="prod",
    name="orders-1",
    uid=UID,
    node="node-a",
    container="postgres",
    addresses=("192.0.2.11",),
    role=PodRole.PRIMARY,
    volumes=(DATA, SCRATCH),
    machine_id="m1",
    container_id=CONTAINER_ID,
    ready=True,
)
REPLICA = replace(
    POD,
    name="orders-2",
    uid="5f1c2d3e-1111-4222-8333-bbbbccccdddd",
    node="node-b",
    machine_id="m2",
    container_id="d0" * 32,
    role=PodRole.REPLICA,
    volumes=(
        replace(
            DATA,
            claim="data-orders-2",
            claim_uid="0c0c0c0c-0000-4000-8000-000000000002",
            volume=replace(VOLUME, name="pvc-0b", uid="0b", handle="vol-0b"),
        ),
        SCRATCH,
    ),
)


def with_data(pod: Pod = POD, **changed: Any) -> Pod:
    """Return *pod* with other values of its data volume."""
    data, *others = pod.volumes
    return replace(pod, volumes=(replace(data, **changed), *others))


def with_volume(pod: Pod = POD, **changed: Any) -> Pod:
    """Return *pod* with other values of what its data's claim is bound to."""
    volume = pod.volumes[0].volume
    assert volume is not None
    return with_data(pod, volume=replace(volume, **changed))


def cgroup_of(pod: Pod, *, systemd: bool = True) -> str:
    """Return the control group of the pod's container, as a kubelet names it."""
    if systemd:
        uid = pod.uid.replace("-", "_")
        above = "/kubepods.slice/kubepods-burstable.slice"
        in_pod = f"{above}/kubepods-burstable-pod{uid}.slice"
        return f"{in_pod}/cri-containerd-{pod.container_id}.scope"
    return f"/kubepods/burstable/pod{pod.uid}/{pod.container_id}"


class Pods:
    """A source that shows the pods that *read* returns, or raises what it raises."""

    def __init__(self, read: Callable[[], Sequence[Pod]]) -> None:
        self._read = read
        self.asked = 0

    def read(self) -> Sequence[Pod]:
        """Return the pods as they are now."""
        self.asked += 1
        return self._read()


def showing(*pods: Pod) -> Pods:
    """Return a source that shows these pods, whenever it is asked."""
    return Pods(lambda: pods)
