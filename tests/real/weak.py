"""Sessions as a control has them."""

from __future__ import annotations

from dbcheck.core.plans.insert import INSERT
from dbcheck.ports.abilities import weakens_sessions
from dbcheck.ports.engine import Engine, Session


def weak_session(engine: Engine) -> Session:
    """Open one; raise EngineError if the server's commits are durable."""
    assert weakens_sessions(engine)
    return engine.open_weak_session((INSERT,))
