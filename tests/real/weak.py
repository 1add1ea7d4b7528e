"""Sessions as a control has them."""

from __future__ import annotations

from dbcheck.ports.abilities import weakens_sessions
from dbcheck.ports.engine import Engine, Session
from dbcheck.rows.plans.plan import INSERT


def weak_session(engine: Engine) -> Session:
    """Open one; raise EngineError if the server's commits are durable."""
    assert weakens_sessions(engine)
    return engine.open_weak_session((INSERT,))
