"""Sessions that run in a process of their own, as the client sees them."""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
import threading
from dataclasses import replace

from dbcheck.base import processes
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import DbcheckError, LoadError
from dbcheck.base.processes import Channel
from dbcheck.load.group import END_S, GroupResult, Snapshot
from dbcheck.load.job import End, Ended, Heard, Hold, Job, Start, receive, send
from dbcheck.ports.witness import SharedLog

_ERROR_BYTES = 2000
_JUDGE = "Judge what the witness holds with dbcheck reconcile."

Child = subprocess.Popen[bytes]


class ProcessGroup:
    """See SessionGroup; connect() to end() hold a process, a thread and a socket."""

    def __init__(self, job: Job, shared: SharedLog | None = None) -> None:
        """shared: the job's log, if it goes over a connection of the client."""
        self._job, self._shared = job, shared
        self._snapshot = Snapshot()
        self._result: GroupResult | None = GroupResult()  # None: it has not come yet
        self._refusal: DbcheckError | None = None
        self._connected = threading.Event()
        # Thread.join() may not be called again after an interrupt (CPython 3.11 then
        # takes the thread for ended, bpo-45274).
        self._has_read = threading.Event()
        self._child: Child | None = None
        self._channel: Channel | None = None
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115

    def connect(self) -> None:
        """Start the process; return once every session there is connected."""
        passed = []
        if self._shared is not None:
            log = self._shared.open()
            passed.append(log.descriptor)
            self._job = replace(self._job, logs=log)
        self._result = None
        self._channel, theirs = Channel.pair()
        with theirs:
            # In a session (setsid(2)) of its own: Ctrl-C then reaches the client alone.
            self._child = subprocess.Popen(
                processes.make_module_command(
                    "dbcheck.load.worker", str(theirs.fileno())
                ),
                # The job brings any other password; this one libpq itself looks for.
                env=processes.make_environment(keep=(processes.LIBPQ_PASSWORD,)),
                stdin=subprocess.DEVNULL,
                stdout=self._errors,
                stderr=self._errors,
                pass_fds=[theirs.fileno(), *passed],
                start_new_session=True,
            )
        self._close_shared()
        threading.Thread(
            target=self._read_messages,
            args=(self._child, self._channel),
            name="load-process",
        ).start()
        self._send_order(self._job)
        self._connected.wait()
        if error := self._refusal or (self._result and self._result.failure):
            raise error

    def start(self, began_us: int) -> None:
        """Let the sessions commit."""
        self._send_order(Start(began_us))

    def hold(self, *, held: bool) -> None:
        """Pause the sessions, or resume them."""
        self._send_order(Hold(held))

    def renew(self, heard_us: int) -> None:
        """Renew the lease of a process that has one; see load/pace.py."""
        self._send_order(Heard(heard_us))

    def order_end(self) -> None:
        """Order the sessions to end, and do not wait for that."""
        self._send_order(End())

    def kill(self) -> None:
        """Kill the process, if there is one; from any thread."""
        if (child := self._child) is not None:
            child.kill()

    def await_result(self) -> None:
        """Return once the process has sent its result, or has ended without it."""
        self._has_read.wait()

    def snapshot(self) -> Snapshot:
        """Return the newest snapshot that came."""
        return self._snapshot

    def task(self) -> int:
        """Return the task of the newest snapshot; it may be over by now."""
        return self._snapshot.task

    def end(self, wait_s: float = END_S) -> GroupResult:
        """End the sessions, the process and what belongs to it; idempotent.

        After an interrupt the next call does the rest.
        """
        if self._child is not None:
            self._end(self._child, wait_s)
            self._child = None
        if self._channel is not None:
            self._channel.close()
        self._close_shared()
        self._errors.close()  # no sooner: the reader may have to quote from it
        return self._result or GroupResult(failure=self._describe_silence())

    def _close_shared(self) -> None:
        if self._shared is not None:
            self._shared.close()

    def _end(self, child: Child, wait_s: float) -> None:
        try:
            self._send_order(End())
            self._has_read.wait(wait_s)
        finally:
            child.kill()
            child.wait()
            self._has_read.wait()  # all that there was to read

    def _read_messages(self, child: Child, channel: Channel) -> None:
        """Take what the process sends, until its result or the end."""
        try:
            while True:
                message = receive(channel)
                if isinstance(message, Snapshot):
                    self._snapshot = message
                elif isinstance(message, Ended):
                    self._result = message.result
                    return
                else:
                    self._refusal, self._result = message, GroupResult()
                    return
                self._connected.set()
        except EOFError:
            self._result = GroupResult(failure=self._describe_loss(child))
            self._snapshot = replace(self._snapshot, running=0, waiting=0, failed=True)
        finally:
            self._connected.set()
            self._has_read.set()

    def _send_order(self, order: Job | Start | Hold | Heard | End) -> None:
        # The process is gone, as the reader notices, or end() closed the channel.
        with contextlib.suppress(OSError):
            if self._channel is not None:
                send(self._channel, order)

    def _describe_loss(self, child: Child) -> LoadError:
        """Describe a process that ended without a result."""
        status = child.wait()
        self._errors.seek(0)
        text = self._errors.read()[-_ERROR_BYTES:].decode("utf-8", "replace")
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        last = lines[-1] if lines else "no output"
        return LoadError(
            f"process {child.pid} of the load, with {self._job.sessions.count}"
            f" sessions, exited unexpectedly (status {status}): {last}",
            id=ErrorId.LOAD_PROCESS_LOST,
            hint=f"{_JUDGE} Check the system's log, e.g. for a lack of memory.",
        )

    def _describe_silence(self) -> LoadError:
        """Describe a process whose result did not come."""
        return LoadError(
            f"a process of the load, with {self._job.sessions.count} sessions, did not"
            " send its result in time",
            id=ErrorId.LOAD_PROCESS_LOST,
            hint=_JUDGE,
        )
