"""The first rows of a cycle, committed and read back before its load begins."""

from __future__ import annotations

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError
from dbcheck.base.system import now_us
from dbcheck.cycle.preflight.members import await_replication
from dbcheck.cycle.rig import Rig
from dbcheck.load.sessions import commit
from dbcheck.model.records import Manifest
from dbcheck.ports.engine import Engine
from dbcheck.ports.listener import Phase
from dbcheck.ports.site import Site
from dbcheck.ports.witness import WitnessLog
from dbcheck.rows.acks import PREFLIGHT_SESSION, Ack, Row
from dbcheck.rows.operation import Operation
from dbcheck.rows.plans.plan import Plan

WARM_ROWS = 4


def write_checkpoint(rig: Rig) -> str:
    """Have the server checkpoint; return why it did not, "" if it did."""
    refused = rig.site.writer.engine.checkpoint()
    made = f"no checkpoint: {refused}" if refused else "checkpoint done"
    text = f"{WARM_ROWS} test rows written and read back; {made}"
    rig.listener.phase(Phase.WARM, text)
    return refused


def commit_first_rows(site: Site, manifest: Manifest, log: WitnessLog) -> None:
    """Commit WARM_ROWS rows; read each as it was sent over another connection.

    A driver that left a transaction open would make every ack of the load false, and a
    trigger that changes rows would make each row a loss.  Both are detected here.
    """
    plan, engine = manifest.plan(), site.writer.engine
    session = engine.open_session(plan.statements, server=manifest.writer.facts)
    try:
        for seq in range(1, WARM_ROWS + 1):
            operation = plan.operation(PREFLIGHT_SESSION, seq)
            row_id = commit(session, operation)
            acked_us = now_us()
            _require_stored(engine, plan, row_id, operation)
            log.append(Ack(PREFLIGHT_SESSION, seq, row_id, acked_us))
    finally:
        session.close()
    acked, *_ = plan.statements
    await_replication(site, acked.table, row_id, manifest)


def _require_stored(
    engine: Engine, plan: Plan, row_id: int, operation: Operation
) -> None:
    """Raise EngineError unless another connection finds the row as it was sent."""
    acked, *_ = plan.statements
    found = engine.row(acked.table, row_id)
    if found is None:
        raise EngineError(
            f"row {row_id} was acked, but a second connection cannot see it",
            id=ErrorId.ROW_NOT_VISIBLE,
            hint="Something between dbcheck and the server, perhaps a "
            "pooler, keeps a transaction open; connect to the server itself.",
        )
    if not acked.table.has_key:  # the row has nothing but its id
        return
    (statement,) = (
        statement_sent
        for statement_sent in operation.statements
        if statement_sent.name == acked.name
    )
    values = (row_id, *statement.values)
    sent = dict(zip(Row._fields, values, strict=True))
    if changed := [n for n in Row._fields if getattr(found, n) != sent[n]]:
        raise EngineError(
            f"row {row_id} was stored with another {', '.join(changed)} than was sent",
            id=ErrorId.ROWS_ALTERED_WHEN_STORED,
            hint="Look for a trigger on the table, or a proxy that rewrites statements;"
            " remove it, since every row would look corrupt.",
        )
