"""Objects of Kubernetes in memory, as an API server keeps them.

Each write makes a new revision of all objects.  What a list shows is of one revision,
also if it is read in several pages
(https://kubernetes.io/docs/reference/using-api/api-concepts/#retrieving-large-results-sets-in-chunks).
"""

from __future__ import annotations

import copy
import datetime
import threading
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Object = dict[str, Any]
Key = tuple[str, str]  # the namespace, "" without one, and the name


@dataclass(frozen=True)
class Resource:
    """One kind of objects; group: "" for the core."""

    kind: str
    plural: str
    group: str = ""
    namespaced: bool = False

    @property
    def api_version(self) -> str:
        """The version as objects have it."""
        return f"{self.group}/v1" if self.group else "v1"

    @property
    def qualified(self) -> str:
        """The name that errors have, e.g. "storageclasses.storage.k8s.io"."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


RESOURCES = {
    resource.kind: resource
    for resource in (
        Resource("EndpointSlice", "endpointslices", "discovery.k8s.io", True),
        Resource("Namespace", "namespaces"),
        Resource("Node", "nodes"),
        Resource("PersistentVolume", "persistentvolumes"),
        Resource("PersistentVolumeClaim", "persistentvolumeclaims", "", True),
        Resource("Pod", "pods", "", True),
        Resource("Service", "services", "", True),
        Resource("StatefulSet", "statefulsets", "apps", True),
        Resource("StorageClass", "storageclasses", "storage.k8s.io"),
        Resource("VolumeAttachment", "volumeattachments", "storage.k8s.io"),
    )
}


class ExpiredError(Exception):
    """A revision that is no longer kept."""


class Store:
    """The objects, which a test may change while clients ask.

    What goes in and what comes out are copies.  A kind is named as in a manifest.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._revision = 1
        self._kinds: dict[str, dict[Key, Object]] = {kind: {} for kind in RESOURCES}
        # Objects are replaced and never changed, so a copy of the names is a snapshot.
        self._kept: dict[int, dict[str, dict[Key, Object]]] = {}
        self._keep()

    @property
    def revision(self) -> int:
        """The latest revision."""
        with self._lock:
            return self._revision

    def put(self, kind: str, given: Mapping[str, Any]) -> Object:
        """Add an object, or replace that of its name; return it as it is kept.

        What is new gets a uid and a time, unless it has them.
        """
        made = copy.deepcopy(dict(given))
        made |= {"kind": kind, "apiVersion": RESOURCES[kind].api_version}
        metadata = made.setdefault("metadata", {})
        if RESOURCES[kind].namespaced:
            metadata.setdefault("namespace", "default")
        key = (metadata.get("namespace", ""), metadata["name"])
        with self._lock:
            old = self._kinds[kind].get(key, {}).get("metadata", {})
            now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            metadata.setdefault("uid", old.get("uid") or str(uuid.uuid4()))
            metadata.setdefault(
                "creationTimestamp", old.get("creationTimestamp") or now
            )
            self._write(kind, key, made)
        return copy.deepcopy(made)

    def change(
        self, kind: str, name: str, patch: Mapping[str, Any], namespace: str = ""
    ) -> Object:
        """Change what *patch* names, as a JSON merge patch (RFC 7386).

        A list is replaced as a whole; None removes a key.  Raise KeyError if there is
        no such object.
        """
        with self._lock:
            made = copy.deepcopy(self._kinds[kind][namespace, name])
            merge(made, patch)
            self._write(kind, (namespace, name), made)
        return copy.deepcopy(made)

    def remove(self, kind: str, name: str, namespace: str = "") -> None:
        """Remove an object; raise KeyError if there is none."""
        with self._lock:
            del self._kinds[kind][namespace, name]
            self._revision += 1
            self._keep()

    def move_pod(self, name: str, node: str, namespace: str) -> Object:
        """Put a new pod of this name in place of the old one, on another node.

        It has what a controller's new pod has: another uid, and other containers.
        """
        with self._lock:
            made = copy.deepcopy(self._kinds["Pod"][namespace, name])
            made["metadata"]["uid"] = str(uuid.uuid4())
            made["spec"]["nodeName"] = node
            for container in made.get("status", {}).get("containerStatuses", []):
                container["containerID"] = f"containerd://{uuid.uuid4().hex * 2}"
                container["restartCount"] = 0
            self._write("Pod", (namespace, name), made)
        return copy.deepcopy(made)

    def find(self, kind: str, name: str, namespace: str = "") -> Object | None:
        """Return an object as it is now, None if there is none."""
        with self._lock:
            return copy.deepcopy(self._kinds[kind].get((namespace, name)))

    def read(self, kind: str, revision: int) -> dict[Key, Object]:
        """Return all objects of a revision, -1 for the latest, in a list's order.

        Raise ExpiredError if it is not kept.
        """
        with self._lock:
            revision = self._revision if revision < 0 else revision
            if revision not in self._kept:
                raise ExpiredError
            return copy.deepcopy(dict(sorted(self._kept[revision][kind].items())))

    def compact(self) -> None:
        """Forget all revisions but the latest, as an API server does after minutes."""
        with self._lock:
            self._kept.clear()
            self._keep()

    def _write(self, kind: str, key: Key, made: Object) -> None:
        self._revision += 1
        made["metadata"]["resourceVersion"] = str(self._revision)
        self._kinds[kind][key] = copy.deepcopy(made)
        self._keep()

    def _keep(self) -> None:
        self._kept[self._revision] = {
            kind: dict(objects) for kind, objects in self._kinds.items()
        }


def merge(target: Object, patch: Mapping[str, Any]) -> None:
    """Apply a JSON merge patch."""
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        elif isinstance(value, Mapping) and isinstance(target.get(key), dict):
            merge(target[key], value)
        else:
            target[key] = copy.deepcopy(value)
