"""A stand-in for the API server of Kubernetes, with the objects of a test.

It speaks what dbcheck asks of one: to read an object and to list objects, in pages and
by labels, over HTTPS with a bearer token, with the errors that a real one answers
(https://kubernetes.io/docs/reference/using-api/api-concepts/, 1.34).  What it does not
know, it refuses: a field selector, a watch, a write.  tests/real/kubernetes compares it
with a real server.
"""

from __future__ import annotations

import base64
import contextlib
import enum
import itertools
import json
import secrets
import socket
import ssl
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml  # type: ignore[import-untyped]

from dbcheck.lab.certificates import Authority, Identity
from tests.kit.kubernetes.answers import (
    EXPIRED,
    VERSION,
    Refusal,
    Reply,
    encode,
    find_resource,
    make_bad,
    make_details,
    make_page,
    make_token,
    read_token,
)
from tests.kit.kubernetes.selectors import SelectorError, parse_selector
from tests.kit.kubernetes.store import ExpiredError, Object, Resource, Store

_TOO_MANY = "Too many requests, please try again later.\n"
_DRIP_S = 0.05


class Fault(enum.Enum):
    """What the server does in place of an answer."""

    TOO_MANY = "429, to be asked again after a second"
    FAILS = "500"
    UNAVAILABLE = "503"
    TORN = "the answer ends in its middle, with the connection"
    HANGS = "nothing comes until the server ends"
    CLOSED = "the connection ends without an answer"
    DRIPS = "a byte at a time, without an end"
    ELSEWHERE = "302, to another server"
    NO_OBJECT = "JSON that is no object of Kubernetes"
    NO_JSON = "a page, as a proxy in between would answer"


class Asked(NamedTuple):
    """One request: "get" or "list", of which resource; name: "" for a list.

    A path that names no resource has verb "" and is in name.
    """

    verb: str
    plural: str
    namespace: str
    name: str
    query: dict[str, str]
    headers: dict[str, str]


_TOO_EARLY = {"Retry-After": "1"}
_TEXT, _PAGE = "text/plain; charset=utf-8", b"<html>Log in first</html>"
_FAULTS = {
    Fault.TOO_MANY: Reply(429, _TOO_MANY.encode(), _TEXT, _TOO_EARLY),
    Fault.FAILS: Refusal(
        500, "InternalError", "Internal error occurred: etcdserver: request timed out"
    ).reply,
    Fault.UNAVAILABLE: Refusal(
        503, "ServiceUnavailable", "apiserver is shutting down"
    ).reply,
    Fault.ELSEWHERE: Reply(302, b"", "", {"Location": "https://localhost:1/"}),
    Fault.NO_OBJECT: encode(200, {"items": 7, "spec": ["no", "pod"]}),
    Fault.NO_JSON: Reply(200, _PAGE, "text/html"),
}


@dataclass
class _Planned:
    fault: Fault
    plural: str
    times: int


class Right(NamedTuple):
    """What may be done with a resource; namespace: None for the whole cluster."""

    verb: str
    plural: str
    namespace: str | None = None


def read_rights(path: Path) -> set[Right]:
    """Return what the roles in a file of manifests allow, each where it belongs."""
    found = set()
    for manifest in filter(None, yaml.safe_load_all(path.read_text())):
        namespace = manifest["metadata"].get("namespace")
        for rule in manifest.get("rules", []):
            for verb, plural in itertools.product(rule["verbs"], rule["resources"]):
                found.add(Right(verb, plural, namespace))
    return found


class StandInApi:
    """The server; see open_api().

    store:  its objects.
    token:  what it lets in; revoke() makes it another one.
    user:   whose token that is, as refusals name it.
    asked:  each request that was let in, in their order.
    before: is called with each of them before it is answered, so that a test can change
            objects between two requests.
    port:   on 127.0.0.1.
    authority: the certificate that clients must trust, in PEM.
    """

    def __init__(self, identity: Identity, port: int) -> None:
        self.store = Store()
        self.token = secrets.token_hex(16)
        self.user = "system:serviceaccount:dbcheck:dbcheck"
        self.asked: list[Asked] = []
        self.before: Callable[[Asked], None] = lambda asked: None
        self.port = port
        self.authority = identity.authority
        self._rights: set[Right] | None = None
        self._forbidden: set[tuple[str, str]] = set()
        self._planned: list[_Planned] = []
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        """Its address, as a kubeconfig has it."""
        return f"https://127.0.0.1:{self.port}"

    def grant_only(self, rights: Iterable[Right]) -> None:
        """Let the token's user do that and nothing else; before, it may do all."""
        self._rights = set(rights)

    def forbid(self, verb: str, plural: str) -> None:
        """Let the token's user no longer do that, e.g. "list" "pods"."""
        self._forbidden.add((verb, plural))

    def allow(self, verb: str, plural: str) -> None:
        """Take back what forbid() did."""
        self._forbidden.discard((verb, plural))

    def fail(self, fault: Fault, plural: str = "", times: int = 1) -> None:
        """Do this with the next requests, or the next ones for that resource."""
        with self._lock:
            self._planned.append(_Planned(fault, plural, times))

    def revoke(self) -> None:
        """Let nobody in who has the token of before."""
        self.token = secrets.token_hex(16)

    def kubeconfig(
        self, folder: Path, *, namespace: str = "", context: str = "stand-in"
    ) -> Path:
        """Write a kubeconfig for this server into *folder*; return its path.

        namespace: the one of its context, "" for none.
        """
        authority = base64.b64encode(self.authority.encode()).decode()
        cluster = {"server": self.url, "certificate-authority-data": authority}
        named = {"cluster": "stand-in", "user": "dbcheck"}
        if namespace:
            named["namespace"] = namespace
        path = folder / "kubeconfig"
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": context,
            "clusters": [{"name": "stand-in", "cluster": cluster}],
            "users": [{"name": "dbcheck", "user": {"token": self.token}}],
            "contexts": [{"name": context, "context": named}],
        }
        path.touch(mode=0o600)
        path.write_text(json.dumps(content))  # which is YAML as well
        return path

    def answer(
        self, url: str, authorization: str, headers: dict[str, str]
    ) -> tuple[Reply, Fault | None]:
        """Return the answer to one GET, and what is to happen in place of it."""
        scheme, _, token = authorization.partition(" ")
        same = secrets.compare_digest(token, self.token)
        if scheme.lower() != "bearer" or not same:  # a pod's own client writes "bearer"
            return Refusal(401, "Unauthorized", "Unauthorized").reply, None
        wanted = urlsplit(url)
        query = {name: values[0] for name, values in parse_qs(wanted.query).items()}
        resource, namespace, name = find_resource(wanted.path)
        verb, plural = "", ""
        if resource:
            verb, plural = "get" if name else "list", resource.plural
        asked = Asked(verb, plural, namespace, name, query, headers)
        self.asked.append(asked)
        self.before(asked)
        fault = self._take_fault(plural)
        if fault in _FAULTS:
            return _FAULTS[fault], None
        try:
            return encode(200, self._find(resource, asked)), fault
        except Refusal as refusal:
            return refusal.reply, fault

    def _take_fault(self, plural: str) -> Fault | None:
        with self._lock:
            for planned in self._planned:
                if planned.times and planned.plural in ("", plural):
                    planned.times -= 1
                    return planned.fault
        return None

    def _find(self, resource: Resource | None, asked: Asked) -> Object:
        if resource is None:
            if asked.name == "/version":
                return VERSION
            text = "the server could not find the requested resource"
            raise Refusal(404, "NotFound", text, {})
        self._check_right(resource, asked)
        if asked.name:
            return self._get(resource, asked.namespace, asked.name)
        return self._list(resource, asked.namespace, asked.query)

    def _may(self, asked: Asked) -> bool:
        if (asked.verb, asked.plural) in self._forbidden:
            return False
        rights = [
            Right(asked.verb, asked.plural),
            Right(asked.verb, asked.plural, asked.namespace),
        ]
        return self._rights is None or bool(self._rights.intersection(rights))

    def _check_right(self, resource: Resource, asked: Asked) -> None:
        if self._may(asked):
            return
        namespace, name = asked.namespace, asked.name
        where = (
            f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
        )
        named = f' "{name}"' if name else ""
        raise Refusal(
            403,
            "Forbidden",
            f'{resource.qualified}{named} is forbidden: User "{self.user}" cannot'
            f' {asked.verb} resource "{asked.plural}" in API group "{resource.group}"'
            f" {where}",
            make_details(resource, name),
        )

    def _get(self, resource: Resource, namespace: str, name: str) -> Object:
        found = self.store.find(resource.kind, name, namespace)
        if found is None:
            raise Refusal(
                404,
                "NotFound",
                f'{resource.qualified} "{name}" not found',
                make_details(resource, name),
            )
        return {"kind": resource.kind, "apiVersion": resource.api_version} | found

    def _list(
        self, resource: Resource, namespace: str, query: dict[str, str]
    ) -> Object:
        unknown = query.keys() - {
            "labelSelector",
            "limit",
            "continue",
            "timeoutSeconds",
        }
        if unknown:
            raise make_bad(f"the stand-in does not know {', '.join(sorted(unknown))}")
        try:
            wanted = parse_selector(query.get("labelSelector", ""))
        except SelectorError as error:
            raise make_bad(str(error)) from None
        try:
            limit = max(0, int(query.get("limit") or 0))
        except ValueError:
            text = json.dumps(query["limit"])
            raise make_bad(
                f"strconv.ParseInt: parsing {text}: invalid syntax"
            ) from None
        revision, start = self.store.revision, ""
        if query.get("continue"):
            revision, start = read_token(query["continue"])
        try:
            kept = self.store.read(resource.kind, revision)
        except ExpiredError:
            token = make_token(-1, start)
            raise Refusal(
                410, "Expired", EXPIRED, metadata={"continue": token}
            ) from None
        if revision < 0:
            revision = self.store.revision
        items = {
            key[1] if namespace else "/".join(filter(None, key)): value
            for key, value in kept.items()
            if not namespace or key[0] == namespace
        }
        return make_page(resource, items, wanted, limit, start, revision)


@contextlib.contextmanager
def open_api(identity: Identity | None = None) -> Iterator[StandInApi]:
    """Serve a new stand-in; no thread and no connection is left afterwards.

    identity: its certificate; by default one for 127.0.0.1, of an authority of its own.
    """
    identity = identity or Authority().issue_certificate("stand-in")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with identity.in_memory() as (files, _):
        context.load_cert_chain(files.certificate, files.key)
    server = _Server(context)
    api = StandInApi(identity, server.server_address[1])
    server.api = api
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield api
    finally:
        server.end()
        thread.join()


@pytest.fixture(name="api")
def empty_api() -> Iterator[StandInApi]:
    """A stand-in that has no objects yet."""
    with open_api() as api:
        yield api


class _Server(ThreadingHTTPServer):
    """A thread for each connection, which ends with it or with the server."""

    daemon_threads = False  # so that server_close() waits for them
    api: StandInApi

    def __init__(self, context: ssl.SSLContext) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.ending = threading.Event()
        self._context = context
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()

    def get_request(self) -> tuple[socket.socket, Any]:
        plain, address = super().get_request()
        # The handshake is left to the connection's own thread.
        return (
            self._context.wrap_socket(
                plain, server_side=True, do_handshake_on_connect=False
            ),
            address,
        )

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.discard(request)
            super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: clients that end in the middle are what tests do."""

    def end(self) -> None:
        self.ending.set()
        self.shutdown()
        with self._lock:
            for connection in self._open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # an answer is sent at once, with its headers
    server: _Server

    def do_GET(self) -> None:
        with contextlib.suppress(OSError):
            self._serve()

    def _serve(self) -> None:
        api = self.server.api
        reply, fault = api.answer(
            self.path, self.headers.get("Authorization", ""), dict(self.headers)
        )
        if fault is Fault.HANGS:
            self.server.ending.wait()
        if fault in (Fault.HANGS, Fault.CLOSED):
            self.close_connection = True
            return
        body = reply.body
        if fault is Fault.TORN:
            body = body[: len(body) // 2]
            self.close_connection = True
        self.send_response_only(reply.status)
        self.send_header("Date", self.date_time_string())
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.send_header("Audit-Id", str(uuid.uuid4()))
        self.send_header("Cache-Control", "no-cache, private")
        if reply.kind:
            self.send_header("Content-Type", reply.kind)
        self.send_header(
            "Content-Length",
            "1000000" if fault is Fault.DRIPS else str(len(reply.body)),
        )
        self.end_headers()
        while fault is Fault.DRIPS and not self.server.ending.wait(_DRIP_S):
            self.wfile.write(b" ")
            self.wfile.flush()
        self.wfile.write(body)
        self.wfile.flush()

    def log_message(self, format: str, *args: object) -> None:
        """Write nothing."""
