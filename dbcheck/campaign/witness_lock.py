"""Lets one campaign at a time work on a target, wherever its clients run.

The lock on a campaign's folder keeps clients of one machine apart.  The witness keeps
apart all clients that log there: one that was taken for dead and still runs elsewhere,
or one of somebody else who began a campaign on the same target.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

from dbcheck.error_ids import ErrorId
from dbcheck.errors import WitnessError
from dbcheck.ports.listener import Listener, Phase
from dbcheck.ports.witness import Witness, WitnessLock

WAIT_S = 30.0  # an agent ends within moments of its client, over SSH too
_POLL_S = 0.25


@contextlib.contextmanager
def locked(
    witness: Witness, listener: Listener, wait_s: float = WAIT_S
) -> Iterator[WitnessLock]:
    """Lock *witness* for this client; raise WitnessError if that fails for *wait_s*."""
    lock = _wait(witness, listener, wait_s)
    try:
        yield lock
    finally:
        lock.release()


def _wait(witness: Witness, listener: Listener, wait_s: float) -> WitnessLock:
    ends_s, said = time.monotonic() + wait_s, False
    while (lock := witness.lock()) is None:
        if time.monotonic() >= ends_s:
            raise WitnessError(
                f"another client works with the witness {witness.url}",
                id=ErrorId.WITNESS_IN_USE,
                hint="Wait until its campaign has ended. If its machine is lost, end"
                " the agent that it left on the witness's host (a python3 process of"
                " the user who logs in there).",
            )
        if not said:
            said = True
            text = f"another client works with the witness {witness.url}"
            listener.phase(Phase.WAITING, text)
        time.sleep(_POLL_S)
    return lock
