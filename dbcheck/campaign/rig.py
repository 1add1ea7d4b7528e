"""One target, one witness and one power switch, put together."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from dbcheck.ports import (
    Engine,
    Json,
    Listener,
    LogReader,
    PowerSwitch,
    TargetHost,
    Witness,
)


@dataclass(frozen=True, slots=True)
class Limits:
    """How long a cycle waits, in seconds, and how far the witness may lag.

    silence_s:   without any reply for so long, the server is gone.
    cut_s:       an unattended cut must stop the acks within this time.
    return_s:    the server must take queries again within this time.
    window_acks: most acks that may be unconfirmed at once.
    """

    silence_s: float = 5.0
    cut_s: float = 60.0
    return_s: float = 1800.0
    window_acks: int = 4096


@dataclass(frozen=True, slots=True)
class Rig:
    """What a cycle runs on.

    runs:     folder that holds the run folders.
    lab:      the lab's spec; {} on real hardware.  Only a lab may have its
              witness on the target's own host.
    host:     the target's host, None if it is not to be asked.
    log_path: the server's log there, "" if it is not known.
    """

    engine: Engine
    witness: Witness
    power: PowerSwitch
    reader: LogReader
    listener: Listener
    runs: Path
    limits: Limits = Limits()
    lab: Json = field(default_factory=dict)
    host: TargetHost | None = None
    log_path: str = ""
