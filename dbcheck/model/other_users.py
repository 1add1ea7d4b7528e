"""What else depends on the power of a server's host."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class OtherUsers:
    """Who else would be hit if this server's power were cut.

    databases:   names of databases, schemas or tables that are not dbcheck's.
    connections: of other clients, at this moment.
    unreadable:  "databases" or "connections" -> why that could not be read.
    """

    databases: tuple[str, ...]
    connections: int
    unreadable: Mapping[str, str] = field(default_factory=dict)
