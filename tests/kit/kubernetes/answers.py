"""Answers of the stand-in for an API server, and what comes in place of one."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from tests.kit.kubernetes.selectors import Requirement, fits
from tests.kit.kubernetes.store import RESOURCES, Object, Resource

VERSION = {
    "major": "1",
    "minor": "34",
    "emulationMajor": "1",
    "emulationMinor": "34",
    "minCompatibilityMajor": "1",
    "minCompatibilityMinor": "33",
    "gitVersion": "v1.34.4",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "2026-02-10T12:00:00Z",
    "goVersion": "go1.24.13",
    "compiler": "gc",
    "platform": "linux/amd64",
}
_CONTINUE_VERSION = "meta.k8s.io/v1"
EXPIRED = (
    "The provided continue parameter is too old to display a consistent list result."
    " You can start a new list without the continue parameter, or use the continue"
    " token in this response to retrieve the remainder of the results. Continuing with"
    " the provided token results in an inconsistent list - objects that were created,"
    " modified, or deleted between the time the first chunk was returned and now may"
    " show up in the list."
)


@dataclass
class Reply:
    """An answer; kind: the type of its content."""

    status: int
    body: bytes
    kind: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)


def encode(status: int, content: Object) -> Reply:
    return Reply(status, json.dumps(content, separators=(",", ":")).encode())


class Refusal(Exception):
    """An error, as the Status object that a client gets (api-concepts)."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        details: dict[str, Any] | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> None:
        content = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": metadata or {},
            "status": "Failure",
            "message": message,
            "reason": reason,
            **({} if details is None else {"details": details}),
            "code": code,
        }
        self.reply = encode(code, content)


def make_bad(message: str) -> Refusal:
    return Refusal(400, "BadRequest", message)


def make_details(resource: Resource, name: str) -> dict[str, Any]:
    found = {"name": name, "group": resource.group, "kind": resource.plural}
    return {key: value for key, value in found.items() if value}


def find_resource(path: str) -> tuple[Resource | None, str, str]:
    """Return what a path names: the resource, its namespace, its name ("" for all).

    None for a path of no resource, which is then the name.
    """
    match unquote(path).removeprefix("/").split("/"):
        case ["api", "v1", *rest]:
            group = ""
        case ["apis", group, "v1", *rest]:
            pass
        case _:
            rest, group = [], ""
    namespace = ""
    if rest[:1] == ["namespaces"] and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    for resource in RESOURCES.values():
        if (resource.group, [resource.plural]) != (group, rest[:1]) or len(rest) > 2:
            continue
        name = rest[1] if len(rest) == 2 else ""
        if bool(namespace) == resource.namespaced or not (namespace or name):
            return resource, namespace, name
    return None, "", path.rstrip("/")


def make_page(
    resource: Resource,
    items: dict[str, Object],
    wanted: list[Requirement],
    limit: int,
    start: str,
    revision: int,
) -> Object:
    """Return the items from key *start* on that fit, at most *limit*, 0 for all."""
    shown: list[Object] = []
    rest = [key for key in items if key >= start]
    token = ""
    while rest and not (limit and len(shown) == limit):
        last = rest.pop(0)
        found = items[last]
        if fits(wanted, found["metadata"].get("labels") or {}):
            # Items of a list do not repeat what the list says of all.
            kept = {key: found[key] for key in found if key not in _OF_LISTS}
            shown.append(kept)
        if limit and len(shown) == limit and rest:
            token = make_token(revision, last + "\0")
    metadata: dict[str, Any] = {"resourceVersion": str(revision)}
    if token:
        metadata["continue"] = token
        if not wanted:
            metadata["remainingItemCount"] = len(rest)
    return {
        "kind": f"{resource.kind}List",
        "apiVersion": resource.api_version,
        "metadata": metadata,
        "items": shown,
    }


_OF_LISTS = ("kind", "apiVersion")


def make_token(revision: int, start: str) -> str:
    content = {"v": _CONTINUE_VERSION, "rv": revision, "start": start}
    encoded = json.dumps(content, separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(encoded).decode().rstrip("=")


def read_token(token: str) -> tuple[int, str]:
    """Return the revision, -1 for the latest, and the key with which a list goes on."""
    try:
        found = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        return int(found["rv"]), str(found["start"])
    except (ValueError, KeyError, TypeError):
        text = "invalid continue token: continue key is not valid"
        raise make_bad(text) from None
