"""Waits until the server takes queries."""

from __future__ import annotations

import time

from dbcheck import interrupt
from dbcheck.campaign.rig import Rig
from dbcheck.core.server import ServerFacts
from dbcheck.errors import ConnectionLost, NotBack

POLL_S = 0.2
PATIENCE_S = 5.0
RECONCILE = "Once it is back, before anything writes to it: dbcheck reconcile"


def wait_for_server(rig: Rig) -> str:
    """Return "" once the server takes queries, or why it certainly never will.

    Raise NotBack if it does not within limits.return_s, PowerError if what failed was
    the rig and not the server.
    """
    rig.listener.phase("restore", f"waiting up to {rig.limits.return_s:.0f} s")
    began, shown = time.monotonic(), ""
    while True:
        interrupt.require_none()
        reason = rig.site.ready()
        if reason is None:
            return ""
        if failure := rig.site.failure():
            return failure
        waited_s = time.monotonic() - began
        if waited_s > rig.limits.return_s:
            raise NotBack(
                f"the server took no queries within {waited_s:.0f} s: {reason}",
                hint=RECONCILE,
            )
        if reason != shown and waited_s > PATIENCE_S:
            rig.listener.phase("restore", reason)
            shown = reason
        time.sleep(POLL_S)


def await_facts(rig: Rig) -> tuple[ServerFacts | None, str]:
    """Return the server's facts once it takes queries, or None and why it never will.

    A server that crashes still takes queries for a moment, so after a connection that
    breaks it is asked again.  Raise as wait_for_server() does.
    """
    ends_s = time.monotonic() + rig.limits.return_s
    while True:
        if failure := wait_for_server(rig):
            return None, failure
        try:
            return rig.site.reader.engine.facts(), ""
        except ConnectionLost as error:
            if time.monotonic() >= ends_s:
                raise NotBack(str(error), hint=RECONCILE) from error
        time.sleep(POLL_S)
