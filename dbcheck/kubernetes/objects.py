"""The parts of the API's objects that dbcheck reads, as JSON has them.

https://kubernetes.io/docs/reference/kubernetes-api/ (1.34).  A field that is left out
there has its default here; fields that are not named here are passed over.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec


class _Object(msgspec.Struct, rename="camel", frozen=True, kw_only=True):
    pass


class Metadata(_Object, frozen=True):
    name: str
    uid: str
    namespace: str = ""
    labels: Mapping[str, str] = msgspec.field(default_factory=dict)
    deletion_timestamp: str | None = None


class Mount(_Object, frozen=True):
    name: str
    mount_path: str
    sub_path: str = ""
    sub_path_expr: str = ""


class ContainerPort(_Object, frozen=True):
    container_port: int = 0


class Container(_Object, frozen=True):
    name: str
    volume_mounts: tuple[Mount, ...] = ()
    ports: tuple[ContainerPort, ...] = ()


class AffinityTerm(_Object, frozen=True):
    topology_key: str = ""


class WeightedTerm(_Object, frozen=True):
    pod_affinity_term: AffinityTerm = AffinityTerm()


class AntiAffinity(_Object, frozen=True):
    required: tuple[AffinityTerm, ...] = msgspec.field(
        default=(), name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: tuple[WeightedTerm, ...] = msgspec.field(
        default=(), name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(_Object, frozen=True):
    pod_anti_affinity: AntiAffinity | None = None


class SpreadConstraint(_Object, frozen=True):
    topology_key: str = ""
    when_unsatisfiable: str = "DoNotSchedule"


class PodSpec(_Object, frozen=True):
    node_name: str = ""
    containers: tuple[Container, ...] = ()
    volumes: tuple[Mapping[str, Any], ...] = ()
    affinity: Affinity | None = None
    topology_spread_constraints: tuple[SpreadConstraint, ...] = ()


class Condition(_Object, frozen=True):
    type: str = ""
    status: str = ""


class ContainerStatus(_Object, frozen=True):
    name: str
    container_id: str = msgspec.field(default="", name="containerID")


class PodAddress(_Object, frozen=True):
    ip: str = ""


class PodStatus(_Object, frozen=True):
    phase: str = ""
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    pod_ips: tuple[PodAddress, ...] = msgspec.field(default=(), name="podIPs")


class ApiPod(_Object, frozen=True):
    metadata: Metadata
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class ListMetadata(_Object, frozen=True):
    continue_: str = msgspec.field(default="", name="continue")


class PodList(_Object, frozen=True):
    items: tuple[ApiPod, ...]
    metadata: ListMetadata = ListMetadata()


class NodeInfo(_Object, frozen=True):
    machine_id: str = msgspec.field(default="", name="machineID")
    boot_id: str = msgspec.field(default="", name="bootID")


class NodeStatus(_Object, frozen=True):
    node_info: NodeInfo = NodeInfo()


class ApiNode(_Object, frozen=True):
    metadata: Metadata
    status: NodeStatus = NodeStatus()


class ClaimSpec(_Object, frozen=True):
    volume_name: str = ""
    storage_class_name: str | None = None
    access_modes: tuple[str, ...] = ()


class ApiClaim(_Object, frozen=True):
    metadata: Metadata
    spec: ClaimSpec = ClaimSpec()


class ApiVolume(_Object, frozen=True):
    """A PersistentVolume; one key of its spec is the kind of its storage."""

    metadata: Metadata
    spec: Mapping[str, Any] = msgspec.field(default_factory=dict)


class ApiStorageClass(_Object, frozen=True):
    metadata: Metadata
    provisioner: str = ""
    parameters: Mapping[str, str] | None = None
    mount_options: tuple[str, ...] | None = None


class ApiStatus(_Object, frozen=True):
    """What the API answers in place of an object that it does not give."""

    message: str = ""
