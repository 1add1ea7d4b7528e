"""Reads the pods of one database, with what their volumes lie on."""

from __future__ import annotations

import contextlib
import ipaddress
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import HostError
from dbcheck.config.secret import SECRET_OPTION
from dbcheck.config.target import KubernetesSettings
from dbcheck.kubernetes.client import KubernetesApi, open_api
from dbcheck.kubernetes.kubeconfig import require_library
from dbcheck.kubernetes.objects import ApiClaim, ApiPod, Container, NodeInfo
from dbcheck.kubernetes.roles import find_role, find_server_container, name_operator
from dbcheck.model.pods import (
    CLAIM,
    EPHEMERAL,
    PersistentVolume,
    Pod,
    PodVolume,
    StorageClass,
)

T = TypeVar("T")

# Kinds that hold settings, and never a database.
_OF_SETTINGS = ("configMap", "secret", "projected", "downwardAPI", "image")
# Keys of a PersistentVolume's spec that are no storage.
_NO_STORAGE = {
    *("capacity", "accessModes", "claimRef", "persistentVolumeReclaimPolicy"),
    *("storageClassName", "mountOptions", "volumeMode", "nodeAffinity"),
    "volumeAttributesClassName",
}
_WHAT_NAMES_STORAGE = (
    *("volumeHandle", "path", "server", "volumeID", "pdName", "diskURI", "image"),
    *("targetPortal", "iqn", "wwids", "shareName"),
)
# Names of mount options and parameters whose values no record may hold.
_SECRET = re.compile(f"{SECRET_OPTION.pattern}|key$", re.IGNORECASE)
_HIDDEN = "(hidden)"
_ENDED = ("Succeeded", "Failed")


class DatabasePods:
    """See ports.site.PodSource."""

    def __init__(self, settings: KubernetesSettings) -> None:
        """Nothing is asked yet; raise UsageError if the client is not installed."""
        require_library()
        self._settings = settings

    def read(self) -> Sequence[Pod]:
        """Return the pods that have a node and have not ended; see PodSource.

        Raise HostError also if there is none, or if it is not known which container has
        the server.
        """
        with open_api(self._settings) as api:
            return _PodReader(api, self._settings).read()


class _PodReader:
    """Reads the pods, and for each what its volumes lie on."""

    def __init__(self, api: KubernetesApi, settings: KubernetesSettings) -> None:
        self._api, self._settings = api, settings

    def read(self) -> list[Pod]:
        selector, namespace = self._settings.selector, self._api.namespace
        found = self._api.list_pods(selector)
        pods = [
            self._describe(pod)
            for pod in sorted(found, key=lambda each: each.metadata.name)
            if pod.spec.node_name and pod.status.phase not in _ENDED
        ]
        if not pods:
            state = f"none of {len(found)} runs" if found else "there is none"
            raise HostError(
                f"no pod in the namespace {namespace} for the selector {selector}:"
                f" {state}",
                id=ErrorId.KUBERNETES_POD_MISSING,
                hint=f"Check the selector: kubectl get pods -n {namespace} -l"
                f" '{selector}'",
            )
        return pods

    def _describe(self, pod: ApiPod) -> Pod:
        container = self._find_container(pod)
        status = next(
            (s for s in pod.status.container_statuses if s.name == container.name), None
        )
        node, why = _try(lambda: self._api.read_node(pod.spec.node_name))
        of_node = node.status.node_info if node else NodeInfo()
        required, preferred = _list_kept_apart(pod)
        ready = [c.status for c in pod.status.conditions if c.type == "Ready"]
        return Pod(
            namespace=pod.metadata.namespace or self._api.namespace,
            name=pod.metadata.name,
            uid=pod.metadata.uid,
            node=pod.spec.node_name,
            machine_id=of_node.machine_id,
            boot_id=of_node.boot_id,
            container=container.name,
            container_id=status.container_id.rpartition("/")[2] if status else "",
            addresses=tuple(filter(_is_address, (a.ip for a in pod.status.pod_ips))),
            ports=tuple(each.container_port for each in container.ports),
            role=find_role(pod.metadata.labels),
            ready=pod.status.phase == "Running" and ready == ["True"],
            ending=pod.metadata.deletion_timestamp is not None,
            volumes=tuple(self._describe_volumes(pod, container)),
            apart=required,
            preferred_apart=preferred,
            unread={"node": why} if why else {},
        )

    def _find_container(self, pod: ApiPod) -> Container:
        names = {each.name: each for each in pod.spec.containers}
        chosen = self._settings.container or find_server_container(
            pod.metadata.labels, list(names)
        )
        if chosen in names:
            return names[chosen]
        named = f"pod {pod.metadata.namespace}/{pod.metadata.name}"
        message = f"{named} has several containers"
        if operator := name_operator(pod.metadata.labels):
            message = f"{named} of {operator} has no container with a server"
        if chosen:
            message = f"{named} has no container {chosen}"
        raise HostError(
            message,
            id=ErrorId.KUBERNETES_CONTAINER_UNKNOWN,
            hint="If it has a server, name its container in dbcheck_kubernetes:"
            f" {', '.join(names)}. If it has none, as a pooler, give a selector that"
            " leaves it out.",
        )

    def _describe_volumes(
        self, pod: ApiPod, container: Container
    ) -> Iterator[PodVolume]:
        """Yield the volumes that the container has mounted, but for settings."""
        for volume in pod.spec.volumes:
            name = _read_text(volume, "name")
            mounts = [each for each in container.volume_mounts if each.name == name]
            kind = next((key for key in volume if key != "name"), "emptyDir")
            if not mounts or kind in _OF_SETTINGS:
                continue
            source = _read_mapping(volume, kind)
            folders = tuple(each.sub_path or each.sub_path_expr for each in mounts)
            mounted = PodVolume(
                name,
                kind,
                tuple(each.mount_path for each in mounts),
                medium=_read_text(source, "medium"),
                path=_read_text(source, "path"),
                folders=folders if any(folders) else (),
            )
            if kind == CLAIM:
                claim = _read_text(source, "claimName")
                yield self._describe_claim(mounted, claim)
            elif kind == EPHEMERAL:  # its claim is named after the pod and the volume
                yield self._describe_claim(mounted, f"{pod.metadata.name}-{name}")
            else:
                yield mounted

    def _describe_claim(self, mounted: PodVolume, claim_name: str) -> PodVolume:
        claim, why = _try(lambda: self._api.read_claim(claim_name))
        if claim is None:
            unread = {"claim": why}
            return replace(mounted, claim=claim_name, unread=unread)
        unread = dict[str, str]()
        volume, why = _try(lambda: self._read_volume(claim))
        if why:
            unread["volume"] = why
        of_class = None
        if claim.spec.storage_class_name:
            class_name = claim.spec.storage_class_name
            of_class, why = _try(lambda: self._read_class(class_name))
            if why:
                unread["storage class"] = why
        return replace(
            mounted,
            claim=claim_name,
            claim_uid=claim.metadata.uid,
            access_modes=claim.spec.access_modes,
            volume=volume,
            storage_class=of_class,
            unread=unread,
        )

    def _read_volume(self, claim: ApiClaim) -> PersistentVolume | None:
        if not claim.spec.volume_name:
            return None
        read = self._api.read_volume(claim.spec.volume_name)
        kind = next((key for key in sorted(read.spec) if key not in _NO_STORAGE), "")
        source = _read_mapping(read.spec, kind)
        options = read.spec.get("mountOptions")
        named = [str(source[key]) for key in _WHAT_NAMES_STORAGE if source.get(key)]
        return PersistentVolume(
            name=read.metadata.name,
            uid=read.metadata.uid,
            kind=kind,
            driver=_read_text(source, "driver") if kind == "csi" else "",
            handle=" ".join(named),
            reclaim_policy=_read_text(read.spec, "persistentVolumeReclaimPolicy"),
            mount_options=_hide_secrets(options if isinstance(options, list) else ()),
        )

    def _read_class(self, name: str) -> StorageClass:
        read = self._api.read_storage_class(name)
        return StorageClass(
            name=name,
            provisioner=read.provisioner,
            parameters={
                name: _HIDDEN if _SECRET.search(name) else value
                for name, value in (read.parameters or {}).items()
            },
            mount_options=_hide_secrets(read.mount_options or ()),
        )


def _list_kept_apart(pod: ApiPod) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the topology keys over which pods are kept apart: required, preferred.

    Whose pods a rule names is not compared: the operators' rules name the database's.
    """
    required, preferred = list[str](), list[str]()
    if pod.spec.affinity and (rules := pod.spec.affinity.pod_anti_affinity):
        required += [term.topology_key for term in rules.required]
        preferred += [each.pod_affinity_term.topology_key for each in rules.preferred]
    for spread in pod.spec.topology_spread_constraints:
        strict = spread.when_unsatisfiable == "DoNotSchedule"
        (required if strict else preferred).append(spread.topology_key)
    return tuple(dict.fromkeys(required)), tuple(dict.fromkeys(preferred))


def _hide_secrets(options: Iterable[object]) -> tuple[str, ...]:
    """Return mount options, of which each may be several, without passwords."""
    return tuple(
        ",".join(map(_hide_secret, str(option).split(","))) for option in options
    )


def _hide_secret(option: str) -> str:
    name, equals, _ = option.partition("=")
    return f"{name}={_HIDDEN}" if equals and _SECRET.search(name) else option


def _is_address(text: str) -> bool:
    """Return True for an IP address; a password may be sent there."""
    with contextlib.suppress(ValueError):
        ipaddress.ip_address(text)
        return True
    return False


def _read_mapping(values: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Return a mapping of an object, {} if something else is there."""
    found = values.get(key)
    return found if isinstance(found, dict) else {}


def _read_text(values: Mapping[str, Any], key: str) -> str:
    """Return a text of an object, "" if something else is there."""
    found = values.get(key)
    return found if isinstance(found, str) else ""


def _try(read: Callable[[], T]) -> tuple[T | None, str]:
    """Return what *read* returns, or None and why the API refuses it.

    Raise HostError if the API does not answer.
    """
    try:
        return read(), ""
    except HostError as error:
        if error.id is not ErrorId.KUBERNETES_REFUSED:
            raise
        return None, str(error)
