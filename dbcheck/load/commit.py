"""One commit, by itself."""

from __future__ import annotations

import select
import time

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import CommitUnknown
from dbcheck.ports.engine import Session
from dbcheck.rows.operation import Operation

ANSWER_S = 30.0


def commit(session: Session, operation: Operation, answer_s: float = ANSWER_S) -> int:
    """Commit *operation* over *session* and wait; return the id that it acked.

    Raise what the session raises, and CommitUnknown if there is no reply in time.
    """
    deadline_s = time.monotonic() + answer_s
    sent = session.send(operation)
    while (left_s := deadline_s - time.monotonic()) > 0:
        wanted = [] if sent else [session]
        readable, writable, _ = select.select([session], wanted, [], left_s)
        sent = sent or (bool(writable) and session.flush())
        if readable and (row_id := session.receive()) is not None:
            return row_id
    raise CommitUnknown(
        f"no reply to a commit within {answer_s:g} s", id=ErrorId.COMMIT_UNKNOWN
    )
