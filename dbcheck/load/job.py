"""Messages between the client and a process of the load, over a Channel.

Both ends are this program, and no other has the sockets, so objects go as pickles.
To the process: a Job, Start, Hold, Heard, and End; from it: Snapshots, the first of
which means that every session is connected, and in the end Ended or the error that kept
it from connecting.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any

from dbcheck.base.processes import Channel, NotAMessage
from dbcheck.load.group import GroupResult
from dbcheck.load.sessions import Sessions
from dbcheck.ports.witness import LoadLog, LogOpener


@dataclass(frozen=True)
class Job:
    """The work of one process, with a log of its own on the witness.

    logs:   what opens the log; None in a client that has not opened it (process.py).
    leased: its client is on another machine, and it ends without news of it.
    """

    sessions: Sessions
    logs: LogOpener | None
    run_id: str
    log: int
    leased: bool = False

    def open_log(self) -> LoadLog:
        """Open the log; raise WitnessError."""
        assert self.logs is not None
        return self.logs.join(self.run_id, self.log)


@dataclass(frozen=True)
class Start:
    """The sessions are to start their load, which began at *began_us*."""

    began_us: int


@dataclass(frozen=True)
class Hold:
    """The sessions are to pause, or to go on if *held* is False."""

    held: bool


@dataclass(frozen=True)
class End:
    """The sessions are to end."""


@dataclass(frozen=True)
class Heard:
    """The client has what was reported at clock_us, on the clock of this machine."""

    clock_us: int


@dataclass(frozen=True)
class Ended:
    """Every session has ended, and the log is closed."""

    result: GroupResult


def send(channel: Channel, message: object) -> None:
    """Send *message*; raise OSError if the other end is closed."""
    channel.send(pickle.dumps(message))


def receive(channel: Channel) -> Any:
    """Return the next message; raise EOFError if there will be none."""
    try:
        message = channel.receive()
    except (OSError, NotAMessage) as error:
        raise EOFError from error
    return pickle.loads(message)
