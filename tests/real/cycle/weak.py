"""Sessions as a control has them."""

from __future__ import annotations

from dbcheck.model.cluster import Weakens
from dbcheck.ports.connection import Session
from dbcheck.ports.engine import Engine
from dbcheck.rows.plans.plan import INSERT


def weak_session(engine: Engine) -> Session:
    """Open one; raise EngineError if the server's commits are durable."""
    return engine.open_weak_session((INSERT,), Weakens.FLUSH)
