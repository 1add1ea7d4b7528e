"""Wrappers that write down what sessions received, and what the witness confirmed.

The record is kept beside dbcheck, by the session that reads a reply and not by the
log that is to keep it; each entry is written at once, so it outlives a SIGKILL.
"""

from __future__ import annotations

import os
import pickle
import struct
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from dbcheck.model.cluster import Weakens
from dbcheck.ports.connection import Session
from dbcheck.ports.engine import Engine
from dbcheck.ports.witness import InheritedLog, LoadLog, SharedLog, Witness, WitnessLog
from dbcheck.rows.operation import Operation, StatementSpec
from tests.trials.agents import change_agent

ENTRY = struct.Struct("<HIqqq")  # session, seq (0: a mark alone), row id, time, mark


@dataclass(frozen=True, slots=True)
class Received:
    """An ack as a session had it; confirmed: acks of its log at that moment."""

    session: int
    seq: int
    row_id: int
    clock_us: int
    confirmed: int


class _Recorder:
    """Writes the record of one process, which has one log."""

    def __init__(self, folder: Path, number: int, log: LoadLog) -> None:
        path = folder / f"log-{number}.record"
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._log, self._lock = log, threading.Lock()

    def write(self, session: int = 0, seq: int = 0, row_id: int = 0) -> None:
        """Write an ack, or how much is confirmed."""
        with self._lock:
            now_us, mark = time.monotonic_ns() // 1000, self._log.watermark().acks
            os.write(self._fd, ENTRY.pack(session, seq, row_id, now_us, mark))


_recorders: list[_Recorder] = []


@dataclass
class _RecordedSession:
    inner: Session
    _key: tuple[int, int] = (0, 0)

    def send(self, operation: Operation, *, look: bool = False) -> bool:
        self._key = operation.session, operation.seq
        return self.inner.send(operation, look=look)

    def receive(self) -> int | None:
        row_id = self.inner.receive()
        if row_id is not None:
            _recorders[-1].write(*self._key, row_id)
        return row_id

    def __getattr__(self, name: str) -> Any:
        if name == "wire":  # the loop's part in C would read replies past receive()
            raise AttributeError(name)
        return getattr(self.inner, name)


@dataclass
class _RecordedLog:
    inner: LoadLog

    def close(self) -> Any:
        try:
            return self.inner.close()
        finally:
            _recorders[-1].write()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


@dataclass(frozen=True)
class RecordedEngine:
    """An engine whose sessions' acks are recorded; can be pickled."""

    inner: Engine

    def open_session(
        self, statements: Sequence[StatementSpec], **options: Any
    ) -> Session:
        """Open a session that records."""
        session = self.inner.open_session(statements, **options)
        return cast(Session, _RecordedSession(session))

    def open_weak_session(
        self, statements: Sequence[StatementSpec], weakens: Weakens, **options: Any
    ) -> Session:
        """Open a control's session that records."""
        session = self.inner.open_weak_session(statements, weakens, **options)
        return cast(Session, _RecordedSession(session))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # pickle asks before there is an inner
            raise AttributeError(name)
        return getattr(self.inner, name)


@dataclass(frozen=True)
class RecordedWitness:
    """A witness whose logs say into *folder* what they confirm; can be pickled."""

    inner: Witness
    folder: Path

    def create(self, run_id: str, manifest: bytes) -> WitnessLog:
        """Open log 0."""
        log = self.inner.create(run_id, manifest)
        return cast(WitnessLog, _record(log, self.folder, 0))

    def join(self, run_id: str, number: int) -> WitnessLog:
        """Open another log."""
        log = self.inner.join(run_id, number)
        return cast(WitnessLog, _record(log, self.folder, number))

    def share(self, run_id: str, numbers: Sequence[int]) -> Sequence[SharedLog]:
        """Open the logs of processes, each of which records its own."""
        shared = self.inner.share(run_id, numbers)
        return [_RecordedShare(log, self.folder) for log in shared]

    def __reduce__(self) -> tuple[Any, ...]:
        """Be pickled so that its agent is changed before anything imports it."""
        return _in_a_process, (pickle.dumps(self.inner), self.folder)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.inner, name)


def _in_a_process(inner: bytes, folder: Path) -> RecordedWitness:
    """Return the witness in a process of the load."""
    change_agent(os.environ["TRIAL_PLANT"])
    return RecordedWitness(pickle.loads(inner), folder)


def _record(log: Any, folder: Path, number: int) -> Any:
    _recorders.append(_Recorder(folder, number, log))
    return _RecordedLog(log)


@dataclass(frozen=True)
class _RecordedShare:
    inner: SharedLog
    folder: Path

    def open(self) -> InheritedLog:
        return _RecordedInheritance(self.inner.open(), self.folder)

    def close(self) -> None:
        self.inner.close()


@dataclass(frozen=True)
class _RecordedInheritance:
    inner: InheritedLog
    folder: Path

    @property
    def descriptor(self) -> int:
        return self.inner.descriptor

    def join(self, run_id: str, number: int) -> LoadLog:
        log: LoadLog = _record(self.inner.join(run_id, number), self.folder, number)
        return log


@dataclass(frozen=True, slots=True)
class Record:
    """What one process recorded: its acks in order, and the newest confirmation."""

    received: tuple[Received, ...]
    confirmed: int


def read_records(folder: Path) -> dict[int, Record]:
    """Return the records, by the number of the log."""
    found = {}
    for path in folder.glob("log-*.record"):
        entries = [Received(*values) for values in _entries(path.read_bytes())]
        received = tuple(entry for entry in entries if entry.seq)
        confirmed = max((entry.confirmed for entry in entries), default=0)
        found[int(path.stem.removeprefix("log-"))] = Record(received, confirmed)
    return found


def _entries(content: bytes) -> Iterator[tuple[Any, ...]]:
    return ENTRY.iter_unpack(content[: len(content) // ENTRY.size * ENTRY.size])
