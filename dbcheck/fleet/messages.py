"""Messages between the client, a worker's task and the process of a campaign.

Client and task exchange them over queues of the scheduler, pickled; task and process
over a processes.Channel.  All three are this program, in the same version.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from dbcheck.inventory.entry import Entry
from dbcheck.model.depth import Reached

ALIVE_S = 5.0  # the client speaks to each task at least so often, and hears from it
LOST_S = 60.0  # without a word for so long, a task ends its campaign as Ctrl-C does
END_S = 300.0  # a target without power may need as long to get it back


@dataclass(frozen=True, slots=True)
class Job:
    """One campaign that a worker is to run, at most once.

    attempt: identifies it among all that any client ever gave to this scheduler.
    entry:   the target.  Its secrets are where the worker finds them, never here.
    reached: how deep the switch was seen to go, as this client remembers it.
    up:      the name of the queue to the client.
    files:   the campaign's folder, but for the runs that are settled: path -> content.
    own:     the runs in that folder that the client's user made.
    """

    attempt: str
    entry: Entry
    reached: Reached | None
    up: str
    files: Mapping[str, bytes]
    own: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The target, as the inventory names it."""
        return self.entry.title


class Word(Enum):
    """A message without content."""

    # From the process of a campaign, by way of its task, to the client.
    WANTS_PERMIT = auto()  # the target is to be without power from PERMIT_GRANTED on
    PERMIT_RETURNED = auto()  # the target has its power, and keeps it
    STORE = auto()  # the client is to hold all of the folder before anything goes on
    # From either end to the other.
    ALIVE = auto()
    # From the client to a task.
    GO = auto()  # the job may begin: no other worker has begun it
    REFUSED = auto()  # it may not: it did elsewhere, or the client ends
    PERMIT_GRANTED = auto()  # the target may be without power
    STOP = auto()  # the campaign is to end as Ctrl-C ends it, with the power restored
    # What a task notes itself. LOST: nothing was heard of the client for LOST_S, or the
    # scheduler is gone.
    LOST = auto()
    CLOSED = auto()  # the process has closed its end, as it does when it ends


@dataclass(frozen=True, slots=True)
class Status:
    """The status of a campaign; rate: acks a second, None if no load runs."""

    phase: str
    detail: str
    rate: float | None = None


@dataclass(frozen=True, slots=True)
class Ended:
    """The process is over; error: why before the campaign was, "" if it was not.

    error_id: of that; "" as well if it was interrupted.
    """

    error: str = ""
    error_id: str = ""


@dataclass(frozen=True, slots=True)
class Begin:
    """A worker asks whether it may run the job; down: its queue for the answers."""

    down: str


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a file, in the order of its bytes; path: relative to the folder.

    sha256: of the whole file, in hex, with its last part; "" before that.
    """

    path: str
    offset: int
    content: bytes
    sha256: str


@dataclass(frozen=True, slots=True)
class Listing:
    """All files that the worker holds of the folder: path -> SHA-256 in hex."""

    files: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Kept:
    """The client holds what was listed; missing: files that it does not."""

    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Envelope:
    """A message of the task that runs *attempt*; worker: where that is."""

    attempt: str
    worker: str
    message: object


def pack_message(message: object) -> bytes:
    """Return *message* as a queue takes it."""
    return pickle.dumps(message)


def unpack_message(content: bytes) -> Any:
    """Return the message in *content*, from pack_message()."""
    return pickle.loads(content)
