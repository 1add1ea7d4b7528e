"""What a server says of itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class LogPosition:
    """How far the server's write-ahead log (PostgreSQL) or redo log (InnoDB) is.

    written, checkpoint: bytes from the log's beginning: the newest, and where recovery
    would begin to replay now.
    """

    written: int
    checkpoint: int


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """What a server says of itself, read over an ordinary connection.

    product:    "PostgreSQL", "MariaDB" or "MySQL".
    version:    as the server spells it, e.g. "15.18".
    identity:   name -> value of what must be equal after the cut
                (system_identifier, server_uuid, data directory, ...).
    started_us: server's own clock when the server process started, in
                microseconds since the epoch; resolution as in started_error_us.
    started_error_us: how far off started_us may be, in microseconds.
    clock_us:   server's own clock when these facts were read.
    settings:   effective in the session that asked: name -> value as text.
    unreadable: fact -> why it could not be read.
    log:      see LogPosition; None if the server does not tell.
    server_log: path of its log on its host, see engines.server_log; "" if unknown.
    """

    product: str
    version: str
    identity: Mapping[str, str]
    started_us: int
    started_error_us: int
    clock_us: int
    settings: Mapping[str, str]
    unreadable: Mapping[str, str] = field(default_factory=dict)
    log: LogPosition | None = None
    server_log: str = ""

    @property
    def start_ambiguous_us(self) -> int:
        """Microseconds until a restart would surely show another start time.

        0 or less: it would already.
        """
        return 4 * self.started_error_us - (self.clock_us - self.started_us)
