"""Runs a job on a worker: one campaign, in a process of its own.

Unlike a thread of the worker, the process can be ended as by Ctrl-C, and then restores
the power.  It ends in this way by itself when the worker dies; the worker ends it in
this way when the client, or the scheduler, is silent for LOST_S.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue

from distributed import Queue, get_client, get_worker

from dbcheck.base import processes
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import FleetError
from dbcheck.base.processes import Channel, NotAMessage
from dbcheck.fleet.messages import (
    ALIVE_S,
    LOST_S,
    Begin,
    Ended,
    Envelope,
    Job,
    Kept,
    Word,
    pack_message,
    unpack_message,
)
from dbcheck.fleet.mirror import Outgoing, unpack_files

PROGRESS = "progress.log"  # what the campaigns of a folder wrote to their terminals
CHILD = "dbcheck.runner.campaign_child"
_TRIES = 3  # to send a file
_LOG_BYTES = 4000
_LOST = "the client, or the scheduler, is lost"


def run_job(job: Job) -> None:
    """Run *job* to its end, unless the client says that it began elsewhere.

    On return the client has all files of the campaign, and the error that ended it
    early, if any.  Raise FleetError if the client or the scheduler is lost.
    """
    # Removed by no finalizer: as the worker ends, the campaign may still write to it.
    place = tempfile.mkdtemp(prefix="dbcheck-fleet-", dir=get_worker().local_directory)
    try:
        with Link(job) as link:
            link.send(Begin(link.down))
            if _await_permission(link):
                unpack_files(Path(place, "campaign"), job.files)
                Task(job, Path(place), link).run()
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _await_permission(link: Link) -> bool:
    while True:
        answer = link.inbox.get()
        if answer is Word.LOST:
            raise FleetError(_LOST, id=ErrorId.FLEET_CLIENT_LOST)
        if answer in (Word.GO, Word.REFUSED, Word.STOP):
            return answer is Word.GO


class Link:
    """The queues to the client and from it."""

    def __init__(self, job: Job) -> None:
        """Listen from now on; messages of the client are put into the inbox."""
        client = get_client()
        self._attempt, self._worker = job.attempt, get_worker().address
        self.down = f"dbcheck-{secrets.token_hex(8)}"
        self._up, self._down = Queue(job.up, client), Queue(self.down, client)
        self.inbox: SimpleQueue[object] = SimpleQueue()
        self._over = threading.Event()
        threading.Thread(target=self._listen, name="from-client", daemon=True).start()

    def __enter__(self) -> Link:
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        with contextlib.suppress(Exception):  # Dask's errors if the scheduler is gone
            self._down.close()
            self._up.close()

    def send(self, message: object) -> None:
        """Send to the client; raise FleetError if that is not possible."""
        content = pack_message(Envelope(self._attempt, self._worker, message))
        try:
            self._up.put(content, timeout=LOST_S)
        except Exception as error:  # Dask raises errors of many kinds
            raise FleetError(
                f"the client cannot be reached: {error}", id=ErrorId.FLEET_CLIENT_LOST
            ) from error

    def _listen(self) -> None:
        heard_s = time.monotonic()
        while not self._over.is_set():
            try:
                message = unpack_message(self._down.get(timeout=ALIVE_S))
                heard_s = time.monotonic()
            except TimeoutError:
                if time.monotonic() - heard_s < LOST_S:
                    continue
                message = Word.LOST
            except Exception:  # any error of Dask: the scheduler is gone
                message = Word.LOST
            self.inbox.put(message)
            if message is Word.LOST:
                return


class Task:
    """One campaign in a process; passes messages between it and the client."""

    def __init__(self, job: Job, place: Path, link: Link) -> None:
        self._job, self._link = job, link
        self._folder, self._log = place / "campaign", place / PROGRESS
        self._outgoing = Outgoing(self._folder, job.files)
        self._send_tries, self._unanswered = 0, 0
        self._ended: Ended | None = None

    def run(self) -> None:
        """Run the process until it has ended and the client has all its files."""
        with self._run_process() as (process, channel):
            while not self._handle(self._link.inbox.get(), process, channel):
                pass
            process.wait()

    def _handle(
        self, message: object, process: subprocess.Popen[bytes], channel: Channel
    ) -> bool:
        """Handle one message; return True if nothing is left to do."""
        if message is Word.LOST:
            raise FleetError(_LOST, id=ErrorId.FLEET_CLIENT_LOST)
        if message is Word.STOP:
            process.send_signal(signal.SIGTERM)
        elif isinstance(message, Ended):
            self._send_last_files(message)
        elif message is Word.STORE:
            self._send_files()
        elif message is Word.CLOSED:
            if self._ended is None:
                self._send_last_files(
                    Ended(self._describe_ending(process), ErrorId.CAMPAIGN_PROCESS_LOST)
                )
        elif isinstance(message, Kept):
            return self._handle_kept(message, channel)
        elif message is Word.PERMIT_GRANTED:
            _pass_on(message, channel)
        else:  # a message of the campaign, or ALIVE, which answers the client's ALIVE
            self._link.send(message)
        return False

    def _handle_kept(self, kept: Kept, channel: Channel) -> bool:
        """Send the files that the client lacks; return True if all is over."""
        self._unanswered -= 1
        if kept.missing:
            self._send_tries += 1
            if self._send_tries > _TRIES:
                raise FleetError(
                    f"the client did not take {kept.missing[0]}",
                    id=ErrorId.FLEET_FILE_NOT_KEPT,
                )
            self._outgoing.lacks(kept.missing)
            self._send_files()
        elif self._unanswered:
            return False
        elif self._ended is not None:
            self._link.send(self._ended)
            _pass_on(kept, channel)
            return True
        else:
            self._send_tries = 0
            self._outgoing.drop_settled()  # the process waits for the answer
            _pass_on(kept, channel)
        return False

    def _send_last_files(self, ended: Ended) -> None:
        """Send all unsent files, and the campaign's terminal output."""
        self._ended = ended
        with (self._folder / PROGRESS).open("ab") as log:
            log.write(self._log.read_bytes())
        self._send_files()

    def _send_files(self) -> None:
        for piece in self._outgoing.pieces():
            self._link.send(piece)
        self._link.send(self._outgoing.listing())
        self._unanswered += 1

    @contextlib.contextmanager
    def _run_process(self) -> Iterator[tuple[subprocess.Popen[bytes], Channel]]:
        """Start the process, and wait for its end, with the power restored."""
        channel, child_channel = Channel.pair()
        with child_channel, self._log.open("wb") as log:
            process = subprocess.Popen(
                processes.make_module_command(CHILD, str(child_channel.fileno())),
                # The child reads the same secrets.
                env=processes.make_environment(keep=os.environ),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                pass_fds=[child_channel.fileno()],
                start_new_session=True,  # Ctrl-C is for the client
            )
        try:
            channel.send(pack_message((self._job, self._folder)))
            threading.Thread(
                target=self._listen, args=(channel,), name="from-campaign", daemon=True
            ).start()
            yield process, channel
        finally:
            channel.close()  # a process that still runs ends as by Ctrl-C
            process.wait()  # which may first wait for the time without power

    def _listen(self, channel: Channel) -> None:
        with contextlib.suppress(OSError, EOFError, NotAMessage):
            while True:
                self._link.inbox.put(unpack_message(channel.receive()))
        self._link.inbox.put(Word.CLOSED)

    def _describe_ending(self, process: subprocess.Popen[bytes]) -> str:
        """Return the end of a process that gave no reason, in words."""
        status = process.wait()
        ending = (
            f"exit status {status}" if status >= 0 else signal.Signals(-status).name
        )
        text = self._log.read_bytes()[-_LOG_BYTES:].decode(errors="replace")
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        return f"its process ended with {ending}: {lines[-1] if lines else 'no output'}"


def _pass_on(message: object, channel: Channel) -> None:
    with contextlib.suppress(OSError):  # the process has ended; CLOSED follows
        channel.send(pack_message(message))
