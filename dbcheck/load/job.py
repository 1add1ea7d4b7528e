"""What goes over the pipes between the client and a process of the load.

Both ends are this program, and nobody else has the pipes, so objects go as pickles.
To the process: a Job, when to start (an int), whether to hold the sessions (a bool) and
None for the end; from it: Looks, the first of which says that every session is
connected, and in the end Ended or the error that kept it from connecting.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import IO, Any

from dbcheck.core.schedule import Schedule
from dbcheck.load.crew import Told
from dbcheck.load.team import Team
from dbcheck.ports.witness import Witness, WitnessLog


@dataclass(frozen=True)
class Job:
    """What a process is to do, with a log of its own on the witness."""

    team: Team
    schedule: Schedule
    witness: Witness
    run_id: str
    log: int

    def open_log(self) -> WitnessLog:
        """Open the log; raise WitnessError."""
        return self.witness.join(self.run_id, self.log)


@dataclass(frozen=True)
class Ended:
    """Every session has ended, and the log is closed."""

    told: Told


def tell(stream: IO[bytes], message: object) -> None:
    """Send *message*; raise OSError if nobody is there any more."""
    stream.write(pickle.dumps(message))
    stream.flush()


def hear(stream: IO[bytes]) -> Any:
    """Return the next message; raise EOFError if there will be none."""
    try:
        return pickle.load(stream)
    except Exception as error:  # half a pickle can raise anything
        raise EOFError from error
