"""The official client, as tests ask an API server with it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from kubernetes import client, config
from kubernetes.client.exceptions import ApiException

_TIMEOUT = (5.0, 30.0)  # to connect, to read


class Answer(NamedTuple):
    """The status and the JSON of one answer."""

    status: int
    content: Any


@contextlib.contextmanager
def open_client(kubeconfig: Path, token: str = "") -> Iterator[client.ApiClient]:
    """Yield a client that asks once and waits for no retry.

    token: in place of what the kubeconfig lets in with.
    """
    settings = client.Configuration()
    untyped: Any = config
    untyped.load_kube_config(
        str(kubeconfig), client_configuration=settings, persist_config=False
    )
    settings.retries = False
    if token:
        settings.cert_file = settings.key_file = None
        settings.refresh_api_key_hook = None  # it would put the other one back
        settings.api_key["BearerToken"] = f"Bearer {token}"
    with client.ApiClient(settings) as opened:
        yield opened


def ask(opened: client.ApiClient, path: str, **query: object) -> Answer:
    """Return what the server says to a GET; raise what the client does otherwise."""
    try:
        reply: Any = opened.call_api(
            *opened.param_serialize(
                "GET", path, query_params=list(query.items()), auth_settings=_AUTH
            ),
            _request_timeout=_TIMEOUT,
        )
        data = reply.read()
    except ApiException as error:
        return Answer(error.status, json.loads(error.body or ""))
    return Answer(reply.status, json.loads(data))


_AUTH = ["BearerToken"]
