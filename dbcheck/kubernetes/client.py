"""Asks the API of Kubernetes with the user's own login and rights; it reads only."""

from __future__ import annotations

import contextlib
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from dbcheck.base.decoding import UNDECODABLE, decode_json
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import HostError
from dbcheck.config.target import KubernetesSettings
from dbcheck.kubernetes.kubeconfig import (
    TOKEN,
    configure,
    make_client,
    refuse_failed_login,
)
from dbcheck.kubernetes.objects import (
    ApiClaim,
    ApiNode,
    ApiPod,
    ApiStatus,
    ApiStorageClass,
    ApiVolume,
    PodList,
)

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

T = TypeVar("T")

# Seconds for a connection, and for each part of a reply.
_TIMEOUT_S = (5.0, 20.0)
_ANSWER_S = 60.0  # for a whole reply
_ANSWER_BYTES = 64_000_000
_PART_BYTES = 65_536
_MESSAGE_MAX = 1_000
_PAGE_PODS = 500
_PODS_MAX = 5_000
_PAGES_MAX = 100  # a page may have fewer pods than were asked for
_HEADERS = {"Accept": "application/json"}
_NO_QUERY: Mapping[str, object] = MappingProxyType({})
_ONE_AT_A_TIME = threading.Lock()
_HINT_BY_STATUS = {
    401: "Log in to the cluster again; kubectl auth whoami shows whether it worked.",
    403: "Grant that right; docs/guides/kubernetes.md has a Role with all of them.",
    404: "Check dbcheck_kubernetes, and the context of the kubeconfig.",
}


@contextlib.contextmanager
def open_api(settings: KubernetesSettings) -> Iterator[KubernetesApi]:
    """Give the API that *settings* name; nothing is asked yet.

    It is for a few requests at once: a login may end after minutes.  Raise HostError.
    """
    # For the same certificate the library gives all its clients the same file.
    with _ONE_AT_A_TIME, tempfile.TemporaryDirectory(prefix="dbcheck-") as folder:
        configuration, namespace = configure(settings, folder)
        with make_client(configuration) as client:
            yield KubernetesApi(client, namespace)


class KubernetesApi:
    """The API server.

    Each call raises HostError: KUBERNETES_NOT_ANSWERING if no answer came, and
    KUBERNETES_REFUSED if the answer is not what was asked for.
    """

    def __init__(self, client: ApiClient, namespace: str) -> None:
        """namespace: of pods and claims."""
        self._client, self.namespace = client, namespace

    def list_pods(self, selector: str) -> list[ApiPod]:
        """Return the pods that *selector* matches."""
        pods, token = list[ApiPod](), ""
        for _ in range(_PAGES_MAX):
            query = {"labelSelector": selector, "limit": _PAGE_PODS}
            page = self._read(
                f"pods in the namespace {self.namespace}",
                PodList,
                "/api/v1/namespaces/{namespace}/pods",
                query | ({"continue": token} if token else {}),
                namespace=self.namespace,
            )
            pods += page.items
            token = page.metadata.continue_
            if not token:
                return pods
            if len(pods) >= _PODS_MAX:
                raise HostError(
                    f"more than {_PODS_MAX} pods in the namespace {self.namespace}"
                    f" match {selector}",
                    id=ErrorId.KUBERNETES_PRIMARY_UNCLEAR,
                    hint="Give a selector that matches the pods of one database.",
                )
        raise _make_no_answer(f"a list of {len(pods)} pods without an end")

    def read_claim(self, name: str) -> ApiClaim:
        """Return a PersistentVolumeClaim."""
        return self._read(
            f"the claim {self.namespace}/{name}",
            ApiClaim,
            "/api/v1/namespaces/{namespace}/persistentvolumeclaims/{name}",
            namespace=self.namespace,
            name=name,
        )

    def read_volume(self, name: str) -> ApiVolume:
        """Return a PersistentVolume."""
        path = "/api/v1/persistentvolumes/{name}"
        return self._read(f"the volume {name}", ApiVolume, path, name=name)

    def read_storage_class(self, name: str) -> ApiStorageClass:
        """Return a StorageClass."""
        path = "/apis/storage.k8s.io/v1/storageclasses/{name}"
        return self._read(f"the storage class {name}", ApiStorageClass, path, name=name)

    def read_node(self, name: str) -> ApiNode:
        """Return a Node."""
        path = "/api/v1/nodes/{name}"
        return self._read(f"the node {name}", ApiNode, path, name=name)

    def _read(
        self,
        what: str,
        kind: type[T],
        path: str,
        query: Mapping[str, object] = _NO_QUERY,
        **names: str,
    ) -> T:
        """Return the answer to one request as a *kind*.

        what: for errors.  names: of *path*, which the library quotes.  The answer is
        read and decoded here: the library reads a refusal without a limit of time, and
        its errors repeat what is in an answer.
        """
        from kubernetes.client.exceptions import ApiException
        from urllib3.exceptions import HTTPError

        if not all(names.values()):  # an empty name would ask for a list
            raise _make_refusal(what, 404, b"")
        client: Any = self._client  # without types
        try:
            with refuse_failed_login():
                request = client.param_serialize(
                    *("GET", path, names, list(query.items()), _HEADERS),
                    auth_settings=[TOKEN],
                )
                reply = client.call_api(*request, _request_timeout=_TIMEOUT_S)
            content = _read_reply(reply.response)
        except ApiException as error:  # of TLS
            raise _make_no_answer(str(error.reason).partition("\n")[0]) from None
        except (HTTPError, OSError) as error:
            raise _make_no_answer(f"{type(error).__name__}: {error}") from None
        except (TypeError, ValueError) as error:  # its text may hold the token
            raise _make_no_answer(type(error).__name__) from None
        if not 200 <= reply.status <= 299:
            raise _make_refusal(what, reply.status, content)
        try:
            return decode_json(content, kind)
        except UNDECODABLE:
            raise HostError(
                f"the API of Kubernetes answered something else than {what}",
                id=ErrorId.KUBERNETES_NOT_ANSWERING,
                hint="See what is at the address in the kubeconfig: a proxy?",
            ) from None


def _read_reply(reply: Any) -> bytes:
    """Return the body of a urllib3 response; raise OSError if it is too long, or late.

    The library's own limit is for the time between two bytes.
    """
    ends_s, parts, size = time.monotonic() + _ANSWER_S, list[bytes](), 0
    try:
        while part := reply.read1(_PART_BYTES):
            parts.append(part)
            size += len(part)
            if size > _ANSWER_BYTES:
                raise OSError(f"an answer of more than {_ANSWER_BYTES:,} bytes")
            if time.monotonic() >= ends_s:
                raise TimeoutError(f"no whole answer within {_ANSWER_S:.0f} s")
    except BaseException:
        reply.close()
        raise
    return b"".join(parts)


def _make_no_answer(why: str) -> HostError:
    return HostError(
        f"the API of Kubernetes does not answer: {why}",
        id=ErrorId.KUBERNETES_NOT_ANSWERING,
        hint="See whether kubectl reaches it with the same context.",
    )


def _make_refusal(what: str, status: int, body: bytes) -> HostError:
    try:
        message = decode_json(body, ApiStatus).message[:_MESSAGE_MAX]
    except UNDECODABLE:
        message = ""
    return HostError(
        f"the API of Kubernetes does not give {what}:"
        f" {message or f'HTTP status {status}'}",
        id=ErrorId.KUBERNETES_REFUSED,
        hint=_HINT_BY_STATUS.get(status, "See what the API server logs."),
    )
