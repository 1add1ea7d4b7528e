"""A replication group of one MySQL server."""

from __future__ import annotations

import uuid
from types import SimpleNamespace
from typing import Any

from dbcheck.lab.clusters.replication import BOOTSTRAP, RECOVERY, make_group_settings
from dbcheck.lab.servers.base import USER, DatabaseServer


def settings_of(server: DatabaseServer) -> dict[str, str]:
    """Return what makes a server that is off the only member of a new group."""
    port: Any = SimpleNamespace(number=server.port)  # where it listens for clients
    return make_group_settings(str(uuid.uuid4()), 1, [port], {})


def bootstrap_of(server: DatabaseServer) -> tuple[str, ...]:
    """Return the statements that begin the group on that server."""
    return (RECOVERY.format(user=USER, password=server.password), *BOOTSTRAP)
