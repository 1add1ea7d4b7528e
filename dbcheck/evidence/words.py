"""The texts of records beside the names of hosts, and the pods in them."""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from dbcheck.model.pods import Pod
from dbcheck.model.records import Manifest

# Fields of a manifest that name people or machines, and those of the nodes.
_NOT_LISTED = ("nodes", "writer_name", "witness", "user", "client_target", "copy")


def list_other_words(manifest: Manifest, urls: Iterable[str]) -> Iterator[str]:
    """Yield each whole text of a manifest that is not the name of a host."""
    for url in urls:
        with contextlib.suppress(ArgumentError, ValueError):
            parts = make_url(url)
            yield from filter(None, (parts.drivername, parts.username, parts.database))
    for name, node in manifest.nodes.items():
        if not manifest.site.is_cluster:
            yield name
        host = node.host
        if host is not None:
            host = replace(host, facts=replace(host.facts, hostname=""))
        kept = replace(node, target="", host=host, pod=None)
        yield from list_texts(replace(kept, member="", connection=None))
    for each in fields(manifest):
        if each.name not in _NOT_LISTED:
            yield from list_texts(getattr(manifest, each.name))


def find_pods(value: Any) -> Iterator[Pod]:
    """Yield each pod in records."""
    if isinstance(value, Pod):
        yield value
    elif is_dataclass(value):
        for each in fields(value):
            yield from find_pods(getattr(value, each.name))
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from find_pods(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from find_pods(each)


def list_texts(value: Any) -> Iterator[str]:
    """Yield the texts of records but for host names; names of fields are none."""
    if isinstance(value, str):
        yield value
    elif is_dataclass(value):
        for each in fields(value):
            yield from list_texts(getattr(value, each.name))
    elif isinstance(value, Mapping):
        for name, each in value.items():
            yield from list_texts(name)
            if "host" not in str(name):  # as hostname in a server's identity
                yield from list_texts(each)
    elif isinstance(value, list | tuple | set | frozenset):
        for each in value:
            yield from list_texts(each)
    elif isinstance(value, enum.Enum):
        yield from list_texts(value.value)
