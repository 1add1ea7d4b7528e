"""Logs made in memory, frame by frame, for the tests of their reader."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence

from dbcheck.agent import witness as agent
from dbcheck.base.errors import WitnessError
from dbcheck.model.unobserved import Gap
from dbcheck.model.witness import Watermark
from dbcheck.rows.acks import Ack, AckValues, pack, unpack
from dbcheck.witness.log import AckBatch, LogScan
from dbcheck.witness.window import Window, WindowLimits

RUN = "20260101-120000-ab12"


class LogMaker:
    """Writes frames as an agent does; every part can be made wrong."""

    def __init__(self, run_id: str = RUN, number: int = 0) -> None:
        self.sha = hashlib.sha256()
        self.frames: list[bytes] = []
        self.acks = 0
        self.add_header(run_id, number)

    def add_header(self, run_id: str, number: int) -> None:
        header = {"format": agent.FORMAT, "run": run_id, "log": number}
        self.add(agent.HEADER, 0, json.dumps(header).encode())

    def add(
        self,
        kind: int,
        count: int,
        body: bytes,
        chain: bytes | None = None,
        clock_us: int | None = None,
    ) -> None:
        if clock_us is None:
            clock_us = 1_000_000 * len(self.frames)
        chain = self.sha.digest()[: agent.CHAIN_BYTES] if chain is None else chain
        self.add_raw(agent.make_frame(kind, count, clock_us, chain, body))
        self.acks += count

    def add_raw(self, frame: bytes) -> None:
        self.sha.update(frame)
        self.frames.append(frame)

    def add_acks(self, acks: Sequence[Ack]) -> None:
        for body in pack(acks):
            self.add(agent.ACKS, len(unpack([body])), body)

    def add_event(self, event: object) -> None:
        self.add(agent.EVENT, 0, json.dumps(event).encode())

    def watermark(self) -> Watermark:
        return Watermark(len(self.frames), self.acks, self.sha.hexdigest())

    def data(self) -> bytes:
        return b"".join(self.frames)


def entries(
    data: bytes | Iterable[bytes],
    confirmed: Watermark | None = None,
    *,
    number: int = 0,
) -> tuple[list[Ack | str], LogScan]:
    """Read a log to its end; return its acks, its events as JSON, and the scan."""
    chunks = [data] if isinstance(data, bytes) else data
    scan = LogScan(chunks, RUN, confirmed, number=number)
    found: list[Ack | str] = []
    for entry in scan:
        if isinstance(entry, AckBatch):
            found += [Ack(*row) for row in entry.acks.tolist()]
        else:
            found.append(json.dumps(entry.body))
    return found, scan


NEVER_S = 1e6


class FakeLog:
    """Confirms at a call; checks what a loop may do; asked: for its room."""

    def __init__(self, room: int = 10**6, *, lockstep: bool = False) -> None:
        self.limit, self.lockstep = room, lockstep
        self.acks: list[AckValues] = []
        self.asked = 0
        self.gaps: list[Gap] = []
        self.error: WitnessError | None = None
        limits = WindowLimits(room, NEVER_S, NEVER_S, lockstep)
        self._window = Window(limits)

    def append_many(self, acks: Sequence[AckValues]) -> None:
        if self.error:
            raise self.error
        self._window.put_many(acks)
        self.acks += acks
        assert self.unconfirmed() <= self.limit

    def room(self, wanted: int = 1) -> int:
        self.asked += 1
        return self._window.room(wanted)

    def take_news(self) -> None:
        self.room()

    def send_due(self, now_us: int) -> int:
        return 2**62

    def confirmed(self) -> int:
        return self._window.confirmed()

    def confirm(self) -> None:
        """Confirm what has come, some of which must be new."""
        count = len(self.acks)
        self._window.take()
        self._window.confirm(count, 0)

    def unconfirmed(self) -> int:
        return self._window.unconfirmed()

    def behind_s(self) -> float:
        return 0.0

    def new_gaps(self) -> Sequence[Gap]:
        found, self.gaps = self.gaps, []
        return found

    def fileno(self) -> int:
        return self._window.ready.fileno()

    def close(self) -> None:
        self._window.close()
