"""Waits until the server takes queries, and until its start can be told from others."""

from __future__ import annotations

import math
import time

from dbcheck.base import interrupt
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import ConnectionLost, EngineError, NotBack
from dbcheck.cycle.rig import Rig
from dbcheck.model.server import ServerFacts
from dbcheck.ports.connection import LoginRefused
from dbcheck.ports.engine import Engine
from dbcheck.ports.listener import Listener, Phase, Progress, Unit

POLL_S = 0.2
PATIENCE_S = 5.0  # why the server takes no queries is shown only after this time
# A server that recovers says so before it looks at an account (PostgreSQL: 57P03), or
# does not answer yet (MySQL, MariaDB), so one that refuses an account is up.  After a
# boot that may pass: name service, LDAP or PAM, which the server asks, start as well.
REFUSED_S = 10.0
YOUNG_MAX_S = 10.0  # far more than a server's clock needs to distinguish two starts
_SHOWN_WAIT_S = 1.0  # a longer wait is shown
RECONCILE = "Once it is back, before anything writes to it: dbcheck reconcile"


def wait_for_server(rig: Rig, refused_s: float = math.inf) -> str:
    """Return "" once the server takes queries, or the reason why it never will.

    refused_s: how long the server may refuse the account's login.
    Raise NotBack if it takes no queries within limits.return_s, EngineError if it
    refuses the login for longer, PowerError if the rig failed and not the server.
    """
    began, shown = time.monotonic(), set[str]()
    not_refused_s = began  # when a login last failed for another reason
    interrupt.raise_if_interrupted()
    reason = rig.site.ready()
    waits = f"waiting up to {rig.limits.return_s:.0f} s"
    text = "the server takes queries" if reason is None else waits
    rig.listener.phase(Phase.RESTORE, text)
    while reason is not None:
        if failure := rig.site.failure():
            return failure
        waited_s = time.monotonic() - began
        if waited_s > rig.limits.return_s:
            raise NotBack(
                f"the server took no queries within {waited_s:.0f} s: {reason}",
                id=ErrorId.SERVER_NOT_BACK,
                hint=RECONCILE,
            )
        if not isinstance(reason, LoginRefused):
            not_refused_s = time.monotonic()
        elif time.monotonic() - not_refused_s > refused_s:
            raise reason.error
        if reason not in shown and waited_s > PATIENCE_S:
            rig.listener.phase(Phase.RESTORE, reason)
            shown.add(reason)
        waited = Progress("the server", waited_s, rig.limits.return_s, Unit.SECONDS)
        rig.listener.progress(waited)
        time.sleep(POLL_S)
        interrupt.raise_if_interrupted()
        reason = rig.site.ready()
    return ""


def await_facts(
    rig: Rig, refused_s: float = math.inf
) -> tuple[ServerFacts | None, str]:
    """Return the server's facts once it takes queries; else None and the reason.

    A server that crashes still takes queries for a moment, so the server is asked again
    if the connection breaks.  Raise as wait_for_server() does.
    """
    ends_s = time.monotonic() + rig.limits.return_s
    while True:
        if failure := wait_for_server(rig, refused_s):
            return None, failure
        try:
            return rig.site.reader.engine.facts(), ""
        except ConnectionLost as error:
            if time.monotonic() >= ends_s:
                raise NotBack(
                    str(error), id=ErrorId.SERVER_NOT_BACK, hint=RECONCILE
                ) from error
        time.sleep(POLL_S)


def read_settled_facts(engine: Engine, listener: Listener) -> ServerFacts:
    """Read the server's facts once any later start can be distinguished from this one.

    A server that reports its start in seconds must first have run for longer than a
    second.  Raise EngineError if it would take long until then: the server's clock was
    set back since it started.
    """
    while True:
        interrupt.raise_if_interrupted()
        facts = engine.facts()
        wait_s = facts.start_ambiguous_us / 1e6
        if wait_s <= 0:
            return facts
        if wait_s > YOUNG_MAX_S:
            raise EngineError(
                f"the server reports a start time {wait_s:.0f} s in the future:"
                " its clock was set back",
                id=ErrorId.SERVER_CLOCK_SET_BACK,
                hint="Restart the server now that its clock is right; if each boot"
                " begins with a wrong one, set the hardware clock: hwclock --systohc.",
            )
        if wait_s > _SHOWN_WAIT_S:
            text = f"{wait_s:.0f} s: the server has only just started"
            listener.phase(Phase.WAITING, text)
        time.sleep(wait_s)
