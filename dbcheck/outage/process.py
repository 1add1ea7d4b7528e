"""The process of the probes, as the client sees it, and their messages.

Both ends are this program, and no other has the sockets, so objects go as pickles.  To
the process: a Job, then Orders; from it: an Answer to SHOW and to END.

A program of the user's that it runs is in its process group, which ends as a whole.
"""

from __future__ import annotations

import contextlib
import enum
import os
import pickle
import signal
import subprocess
import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from dbcheck.base import processes
from dbcheck.base.processes import Channel, NotAMessage
from dbcheck.model.outage import Probed
from dbcheck.outage.probing import CONNECT_S, INSERT, Address
from dbcheck.outage.program import ClientProgram, describe_program
from dbcheck.ports.engine import Engine

# The longest wait for the process, which answers at once: on a machine that is so busy
# that commits take seconds, it may not be scheduled for as long.
ANSWER_S = 30.0
_ERROR_BYTES = 2000


class Order(enum.Enum):
    """What the process is to do.

    REHEARSE: one try at each address, while the server is still there.  BEGIN: the
    tries.  SHOW what came of them; END.
    """

    REHEARSE = "rehearse"
    BEGIN = "begin"
    SHOW = "show"
    END = "end"


@dataclass(frozen=True, slots=True)
class Job:
    """The work of the process.

    engines: name of a node -> the engine of its URL; "" for the address of the clients.
    epoch:   of the cycle, which the rows have.
    command: the program of the user's that commits instead; () if there is none.
    schema:  see ports.engine.Engine; for that program.
    hidden:  secrets that it may print, and nobody is to see.
    """

    engines: Mapping[str, Engine]
    epoch: int
    command: Sequence[str] = ()
    schema: str = ""
    hidden: Collection[str] = ()

    def open_addresses(self) -> list[Address]:
        """Return the addresses at which to try; start the program, if there is one."""
        if self.command:
            program = ClientProgram(self.command, self.schema, self.hidden)
            target = describe_program(self.command)
            return [Address(lambda: program, target, patient=True)]
        return [
            Address(partial(engine.open_client, INSERT, CONNECT_S), engine.target, name)
            for name, engine in self.engines.items()
        ]


@dataclass(frozen=True, slots=True)
class Answer:
    """Tries so far; see model.outage.OutageRecord."""

    began_us: int | None
    probed: tuple[Probed, ...]
    gaps: tuple[tuple[int, int], ...]


class ProbeProcess:
    """A process that tries to commit; it has to be killed by kill().

    failure: why it is of no use, "" as long as it is.
    """

    def __init__(self, job: Job) -> None:
        """Start the process; nothing is tried yet.  What fails is the failure."""
        self.failure = ""
        self._child: subprocess.Popen[bytes] | None = None
        self._channel: Channel | None = None
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        try:
            self._start(job)
        except (OSError, TypeError, AttributeError, pickle.PicklingError) as error:
            self.failure = f"the process of the probes did not start: {error}"

    def _start(self, job: Job) -> None:
        self._channel, theirs = Channel.pair()
        with theirs:
            # In a session (setsid(2)) of its own: Ctrl-C then reaches the client alone.
            self._child = subprocess.Popen(
                processes.make_module_command(
                    "dbcheck.outage.worker", str(theirs.fileno())
                ),
                # The job brings any other password; this one libpq itself looks for.
                env=processes.make_environment(keep=(processes.LIBPQ_PASSWORD,)),
                stdin=subprocess.DEVNULL,
                stdout=self._errors,
                stderr=self._errors,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        self._channel.send(pickle.dumps(job), ANSWER_S)

    @property
    def pid(self) -> int:
        """The id of the process, 0 if it did not start or was ended."""
        return self._child.pid if self._child else 0

    def await_start(self) -> None:
        """Return once the process could begin its tries at once."""
        self._ask(Order.SHOW)

    def rehearse(self) -> None:
        """Have one try made at each address; show() shows what came of it."""
        self._send(Order.REHEARSE)

    def begin(self) -> None:
        """Have the tries begin; idempotent."""
        self._send(Order.BEGIN)

    def show(self) -> Answer | None:
        """Return what came of the tries so far; None if the process failed."""
        return self._ask(Order.SHOW)

    def end(self) -> Answer | None:
        """End tries and process; return what came of them, None if it failed."""
        answer = self._ask(Order.END)
        self.kill()
        return answer

    def kill(self) -> None:
        """Kill the process with its group, free what belongs to it; idempotent."""
        if self._child is not None:
            # Until it was waited for, no other group can have its number.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._child.pid, signal.SIGKILL)
            self._child.wait()
            self._child = None
        if self._channel is not None:
            self._channel.close()
        self._errors.close()

    def _send(self, order: Order) -> None:
        if self.failure or self._channel is None:
            return
        try:
            self._channel.send(pickle.dumps(order), ANSWER_S)
        except OSError as error:
            self._note_loss(error)

    def _ask(self, order: Order) -> Answer | None:
        self._send(order)
        if self.failure or self._channel is None:
            return None
        try:
            answer: Answer = pickle.loads(self._channel.receive(ANSWER_S))
        except (EOFError, OSError, NotAMessage) as error:
            self._note_loss(error)
            return None
        return answer

    def _note_loss(self, error: Exception) -> None:
        """Note that the process has ended, or hangs, with its last words if any."""
        hangs = isinstance(error, TimeoutError)
        what = f"did not answer for {ANSWER_S:g} s" if hangs else "ended"
        text = ""
        with contextlib.suppress(OSError, ValueError):
            self._errors.seek(0)
            text = self._errors.read()[-_ERROR_BYTES:].decode("utf-8", "replace")
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        last = f": {lines[-1]}" if lines else ""
        self.failure = f"the process of the probes {what}{last}"
