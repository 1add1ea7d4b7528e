"""One target, one witness and one power switch, put together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

from dbcheck import limits
from dbcheck.core.reached import Reached
from dbcheck.core.values import Json
from dbcheck.ports.engine import Engine
from dbcheck.ports.host import TargetHost
from dbcheck.ports.listener import Listener
from dbcheck.ports.power import PowerSwitch
from dbcheck.ports.witness import LogReader, Witness


@runtime_checkable
class Preparing(Protocol):
    """A power switch with work to do before it can cut at once."""

    def prepare(self) -> None:
        """Connect, and check whether a cut can be made; raise PowerError if not.

        cut() does so itself where it was not done.
        """


@dataclass(frozen=True, slots=True)
class Limits:
    """How long a cycle waits, in seconds, and how far the witness may lag.

    silence_s:   without any reply for so long, the server is gone.
    cut_s:       an unattended cut must stop the acks within this time.
    return_s:    the server must take queries again within this time.
    window_acks: most acks that may be unconfirmed at once.
    """

    silence_s: float = limits.SILENCE_S
    cut_s: float = limits.CUT_S
    return_s: float = limits.RETURN_S
    window_acks: int = limits.WINDOW_ACKS


@dataclass(frozen=True, slots=True)
class Rig:
    """What a cycle runs on.

    runs:     folder that holds the run folders.
    lab:      the lab's spec; {} on real hardware.  Only a lab may have its
              witness on the target's own host.
    host:     the target's host, None if it is not to be asked.
    log_path: the server's log there, as the user named it; "" to take the one that
              the server names.
    restore_command: see runs.Manifest.
    used_epochs: of all cycles that the server ever saw, where each is known and the
              seed may decide the next; None else.
    reached:  how deep this switch was seen to go on the idle host, if it was.
    class_assumed: it was not declared what the human who cuts takes the power from.
    before_load: called in each cycle once its preflight has passed.
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
    restore_command: str = ""
    used_epochs: set[int] | None = None
    reached: Reached | None = None
    class_assumed: bool = False
    before_load: Callable[[], None] = lambda: None
