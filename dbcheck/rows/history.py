"""What a client knows of a cycle: operations sent, acks received."""

from __future__ import annotations

from typing import NamedTuple

SESSION_MAX = 2**16 - 1
HOUSEKEEPING_SESSION = SESSION_MAX  # see rows.chores
LOAD_SESSION_MAX = SESSION_MAX - 1  # sessions that replace broken ones included
PREFLIGHT_SESSION = 0  # its rows are committed before the load, and checkpointed
SEQ_MAX = 2**32 - 1
ROW_ID_MAX = 2**63 - 1


class Key(NamedTuple):
    """Name of one operation, written into the row itself.

    The auto-increment id is known only after the reply and may be handed out
    again after a crash, so it cannot name an operation; (epoch, session, seq) can.

    epoch:   another one for each cycle, 1..2^62; see campaign.preflight.
    session: client connection, 0..65535; 0 is the preflight's, and 65535 that of
             housekeeping.
    seq:     operations sent on that connection, 1-based, without gaps.
    """

    epoch: int
    session: int
    seq: int


class Ack(NamedTuple):
    """The server's success reply to one COMMIT, as the client saw it.

    session, seq: of the operation's key; the epoch is the log's.
    row_id:       auto-increment id that the reply reported.
    acked_us:     client's monotonic clock when the reply was read, in microseconds.
    """

    session: int
    seq: int
    row_id: int
    acked_us: int


AckValues = tuple[int, int, int, int]  # of an Ack; a plain tuple is quicker to make


class Row(NamedTuple):
    """One row as sent, or as read back from the table after recovery.

    A table of the classic plan holds ids alone: there the key is (0, 0, 0),
    the payload empty and the checksum 0.

    row_id: auto-increment id; 0 before the server has chosen it.
    part:   0-based place of the row within its operation.
    payload, checksum: see rows.schedule.
    """

    row_id: int
    epoch: int
    session: int
    seq: int
    part: int
    payload: bytes
    checksum: int
