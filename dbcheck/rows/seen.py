"""Rows that another session saw, and that are gone after the cut without an ack.

No promise is broken: the server never answered "committed".  But a client that read
such a row may have acted on it.  InnoDB makes a transaction visible before its log is
flushed (MySQL bugs 74303 and 119759).  PostgreSQL flushes first: CommitTransaction
calls RecordTransactionCommit and then ProcArrayEndTransaction (xact.c, release 17).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dbcheck.rows.acks import ACK_DTYPE, SEQ_MAX, SESSION_MAX, AckArray, Ints
from dbcheck.rows.reconcile import Claim, SurvivorStream
from dbcheck.rows.summary import AckStream
from dbcheck.rows.survivors import Records, is_among


@dataclass(frozen=True, slots=True)
class SeenRows:
    """Fate of the rows that readers saw and the witness confirmed.

    rows: how many were seen.
    lost: the seen rows that no confirmed ack names and that did not survive; acked_us
          is when the reader read them.
    """

    rows: int
    lost: AckArray


def judge_seen_rows(
    seen: AckStream,
    acked: Ints,
    survivors: SurvivorStream,
    epoch: int,
    claim: Claim,
) -> SeenRows:
    """Judge the rows in the log of what readers have *seen*.

    acked: how many acks the witness holds, by session.
    survivors: of the ledger.

    A row that an ack names is left to Plan.judge(), which counts it as missing if it is
    gone.  A row that the client never sent is of no operation, and Plan.judge() lists
    it if it is still there.
    """
    sent = _count_sent_by_session(claim)
    rows = 0
    unacked_parts = [np.empty(0, ACK_DTYPE)]
    for batch in seen():
        sent_rows = batch[batch["seq"] <= sent[batch["session"]]]
        rows += len(sent_rows)
        unacked_parts.append(sent_rows[sent_rows["seq"] > acked[sent_rows["session"]]])
    lost = np.concatenate(unacked_parts)
    for records in survivors():
        if not lost.size:
            break
        lost = lost[
            ~is_among(
                _number_keys(lost), _number_keys(_select_own_records(records, epoch))
            )
        ]
    return SeenRows(rows, lost)


def _count_sent_by_session(claim: Claim) -> Ints:
    """Return the number of operations that each session sent, by its number."""
    sessions = range(SESSION_MAX + 1)
    return np.array([claim.sent.get(number, 0) for number in sessions], np.int64)


def _select_own_records(records: Records, epoch: int) -> Records:
    """Return the records of *epoch* whose key an operation can have."""
    session, seq = records["session"], records["seq"]
    own = (records["epoch"] == epoch) & (session >= 0) & (session <= SESSION_MAX)
    selected: Records = records[own & (seq >= 1) & (seq <= SEQ_MAX)]
    return selected


def _number_keys(operations: AckArray) -> Ints:
    """Return one number for the session and the seq of each operation."""
    keys: Ints = operations["session"].astype(np.int64) << 32 | operations["seq"]
    return keys
