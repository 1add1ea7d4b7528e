"""Reads the newest rows of other sessions during the load, and logs them as acks are.

A row that a reader sees may not be durable yet; see rows.seen.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

from dbcheck.base.errors import EngineError, WitnessError
from dbcheck.base.system import now_us
from dbcheck.model.witness import Watermark
from dbcheck.ports.connection import KeyRead, NewestRows
from dbcheck.ports.witness import WitnessLog
from dbcheck.rows.acks import ROW_ID_MAX, SEQ_MAX, SESSION_MAX, AckValues

log = logging.getLogger(__name__)

# Between two reads of a reader: the interval in which a row is visible and not durable
# is as long as a flush, a few milliseconds of a drive.
PAUSE_S = 0.002
# Rows become visible out of the order of their ids, as far apart as there are sessions.
_TAIL_IDS = 200
_UNCONFIRMED_MAX = 4096  # unconfirmed rows at which readers wait


class Readers:
    """Threads that read, each over a connection of its own.

    A row is handed over once, with the moment at which it had been read.  Of a session
    each further row that is handed over has a higher seq: a session's operations become
    visible one after the other, so only the last of them can be without an ack.

    A reader whose connection breaks ends, and is not replaced: of a server that has
    restarted nothing must be read, since what survived would count as seen.

    After end(): seen, how many rows were handed over; watermark, what the witness
    confirmed of these rows, None if nothing was read.
    """

    def __init__(
        self,
        count: int,
        connect: Callable[[], NewestRows] | None = None,
        open_log: Callable[[], WitnessLog] | None = None,
        *,
        after_id: int = 0,
        sessions: int = 0,
    ) -> None:
        """Have *count* readers; with none, there is nothing to connect and no log.

        after_id: the highest id before the load.  sessions: how many the load has.
        """
        self._count, self._connect, self._open_log = count, connect, open_log
        self._after_id, self._tail = after_id, _TAIL_IDS + sessions
        self._highest_id = after_id
        self._last_seq: dict[int, int] = {}
        self._handing_over = threading.Lock()
        self._connections: list[NewestRows] = []
        # Used in place of Thread.join(), see ProcessGroup.
        self._ended: list[threading.Event] = []
        self._stopping = threading.Event()
        self._log: WitnessLog | None = None
        self.seen = 0
        self.watermark: Watermark | None = None

    def begin(self) -> None:
        """Open the log, connect every reader, and let them read.

        Raise WitnessError or EngineError; end() is to be called then, too.
        """
        if not self._count:
            return
        assert self._connect is not None
        assert self._open_log is not None
        self._log = self._open_log()
        self.watermark = self._log.watermark()
        for _ in range(self._count):
            self._connections.append(self._connect())
        for connection in self._connections:
            ended = threading.Event()
            threading.Thread(
                target=self._run, args=(connection, self._log, ended), name="reader"
            ).start()
            self._ended.append(ended)

    def end(self) -> str:
        """End every reader, close the log; idempotent.

        Return why the witness did not confirm all rows that were seen, "" if it did.
        """
        self._stopping.set()
        for connection in self._connections:
            connection.sever()
        for ended in self._ended:
            ended.wait()
        for connection in self._connections:
            connection.close()
        self._connections.clear()
        if self._log is None:
            return ""
        why = ""
        try:
            self._log.close()
        except WitnessError as error:
            why = f"the witness did not confirm all rows that were seen: {error}"
        self.watermark, self._log = self._log.watermark(), None
        return why

    def abandon(self) -> None:
        """End the readers as end() does, and wait for no confirmation."""
        if self._log is not None:
            self._log.abandon()
        self.end()

    def _run(
        self, connection: NewestRows, seen_log: WitnessLog, ended: threading.Event
    ) -> None:
        try:
            while not self._stopping.wait(PAUSE_S):
                if seen_log.unconfirmed() >= _UNCONFIRMED_MAX:
                    continue
                after_id = max(self._after_id, self._highest_id - self._tail)
                rows = connection.read(after_id)
                # Read after the answer: a row never looks as if it was seen earlier.
                self._hand_over(rows, now_us(), seen_log)
        except (EngineError, WitnessError) as error:
            log.debug("a reader ended: %s", error)
        finally:
            ended.set()

    def _hand_over(
        self, rows: Sequence[KeyRead], seen_us: int, seen_log: WitnessLog
    ) -> None:
        """Hand over the new rows among *rows*; one reader at a time."""
        new: list[AckValues] = []
        with self._handing_over:
            for row_id, session, seq in rows:
                if not _may_be_ours(row_id, session, seq):
                    continue  # the survivors show it, if it is still there
                if seq > self._last_seq.get(session, 0):
                    self._last_seq[session] = seq
                    new.append((session, seq, row_id, seen_us))
            if new:
                self._highest_id = max(self._highest_id, *(row[2] for row in new))
                seen_log.append_many(new)
                self.seen += len(new)


def _may_be_ours(row_id: int, session: int, seq: int) -> bool:
    """Return True if an operation can have written such a row."""
    return (
        0 <= row_id <= ROW_ID_MAX
        and 0 <= session <= SESSION_MAX
        and 1 <= seq <= SEQ_MAX
    )
