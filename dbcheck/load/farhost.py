"""The worker's side of load/far.py: runs sessions on a Dask worker.

The sessions run in a process beside the worker, as they run beside a client that loads
from its own machine (load/process.py).  That process ends with the worker, or when its
lease runs out because nothing comes from the client any more.
"""

from __future__ import annotations

import asyncio
import pickle
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Any

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import DbcheckError, LoadError
from dbcheck.base.system import now_us
from dbcheck.load.group import GroupResult, Snapshot
from dbcheck.load.job import Job
from dbcheck.load.process import ProcessGroup
from dbcheck.model.server import ServerFacts
from dbcheck.ports.engine import Engine
from dbcheck.ports.witness import Witness, WitnessHostFacts

OpenEngine = Callable[[], Engine]


class Order(Enum):
    """The client's orders to a group."""

    START = auto()
    HOLD = auto()
    RESUME = auto()
    END = auto()


@dataclass(frozen=True)
class News:
    """The state of a group at clock_us, on the monotonic clock of its machine.

    is_begun:  the group was begun on the worker that answers; False on another worker
               that was started in the place of a lost one.
    connected: every session was connected.
    refusal:   why a session could not be connected.
    result:    None until all sessions have ended.
    """

    clock_us: int
    is_begun: bool = False
    connected: bool = False
    snapshot: Snapshot = Snapshot()
    refusal: DbcheckError | None = None
    result: GroupResult | None = None


@dataclass(frozen=True)
class Reached:
    """The server and the witness that a worker reaches, as they describe themselves."""

    server: ServerFacts
    witness: WitnessHostFacts


def pack_job(job: Job) -> bytes:
    """Return *job* without its engine, which may hold the password.

    No secret goes over Dask.
    """
    no_engine: Any = None
    return pickle.dumps(_replace_engine(job, no_engine))


def unpack_job(content: bytes, engine: Engine) -> Job:
    """Return the job, with *engine*, which is this machine's."""
    return _replace_engine(pickle.loads(content), engine)


def _replace_engine(job: Job, engine: Engine) -> Job:
    return replace(job, sessions=replace(job.sessions, engine=engine))


async def reach(open_engine: OpenEngine, witness: Witness) -> Reached | DbcheckError:
    """Return the server and witness that this machine reaches, or the error.

    An error is returned, not raised, as Dask logs the arguments of a failed call.
    """
    return await asyncio.to_thread(_reach, open_engine, witness)


def _reach(open_engine: OpenEngine, witness: Witness) -> Reached | DbcheckError:
    try:
        return Reached(open_engine().facts(), witness.facts())
    except DbcheckError as error:
        return error
    finally:
        witness.close()


class FarHost:
    """A group of sessions; an actor of Dask, whose methods the client calls.

    Only kill() waits for the sessions; otherwise a thread does.
    """

    def __init__(self) -> None:
        self._group: ProcessGroup | None = None
        self._connected = False
        self._refusal: DbcheckError | None = None
        self._result: GroupResult | None = None
        self._begun = self._ending = False
        self._ended = threading.Event()

    def begin(self, job: bytes, open_engine: OpenEngine) -> None:
        """Start the process and connect the sessions, in a thread."""
        if not self._begun:
            self._begun = True
            threading.Thread(
                target=self._run, args=(job, open_engine), name="far-load", daemon=True
            ).start()

    def exchange(self, heard_us: int, orders: Sequence[Order]) -> News:
        """Take *orders*; return the news.

        heard_us: clock_us of the newest news that the client has, with which the lease
        is renewed; 0 if it has none yet.
        """
        if not self._begun:
            return News(now_us())
        group = self._group
        if group is not None and heard_us:
            group.renew(heard_us)
        for order in orders:
            self._ending = self._ending or order is Order.END
            if group is not None:
                _carry_out(group, order)
        return News(
            now_us(),
            is_begun=True,
            connected=self._connected,
            snapshot=group.snapshot() if group is not None else Snapshot(),
            refusal=self._refusal,
            result=self._result,
        )

    def kill(self) -> bool:
        """Kill the process; return once it is gone.  False if it was not begun here."""
        if not self._begun:
            return False
        self._ending = True
        if self._group is not None:
            self._group.kill()
        self._ended.wait()
        return True

    def _run(self, content: bytes, open_engine: OpenEngine) -> None:
        try:
            self._result = self._run_job(content, open_engine)
        except DbcheckError as error:
            self._refusal, self._result = error, GroupResult()
        except Exception as error:  # a defect of ours must not hang the client
            self._result = GroupResult(
                failure=LoadError(f"{error!r}", id=ErrorId.LOAD_WORKER_NOT_FIT)
            )
        finally:
            self._ended.set()

    def _run_job(self, content: bytes, open_engine: OpenEngine) -> GroupResult:
        """Run the sessions; return their result."""
        job = replace(unpack_job(content, open_engine()), leased=True)
        group = self._group = ProcessGroup(job)
        try:
            if self._ending:
                return GroupResult()
            group.connect()
            self._connected = True
            if self._ending:
                group.order_end()
            group.await_result()
        except BaseException:
            group.end(0)
            raise
        return group.end(0)


def _carry_out(group: ProcessGroup, order: Order) -> None:
    if order is Order.START:
        group.start(now_us())
    elif order is Order.END:
        group.order_end()
    else:
        group.hold(held=order is Order.HOLD)
