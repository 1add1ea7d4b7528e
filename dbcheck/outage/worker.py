"""The process of the probes: python -m dbcheck.outage.worker DESCRIPTOR.

DESCRIPTOR is that of its channel.  The process measures by itself, so that nothing the
client does meanwhile, such as reading rows, delays a try.  It ends with the channel:
when the client dies, the kernel closes the other end.
"""

from __future__ import annotations

import os
import pickle
import select
import signal
import sys
from typing import Any, NoReturn

from dbcheck.base.processes import Channel, NotAMessage
from dbcheck.base.system import now_us
from dbcheck.outage.probing import Probing
from dbcheck.outage.process import Answer, Job, Order

# So often the process looks whether it is scheduled; it was not if that comes so late.
TICK_S, LATE_S = 0.05, 0.25
GAPS_MAX = 100  # the longest ones are kept
ENDING_S = 3.0  # the longest wait for tries under way


class Ticker:
    """Notes from when until when this process was not scheduled.

    gaps: at most GAPS_MAX of them, the longest; microseconds of the monotonic clock.
    """

    def __init__(self) -> None:
        self.gaps: list[tuple[int, int]] = []
        self._ticked_us = now_us()

    def tick(self) -> None:
        """Note that the process runs now."""
        moment_us = now_us()
        if moment_us - self._ticked_us > LATE_S * 1e6:
            self.gaps.append((self._ticked_us, moment_us))
            if len(self.gaps) > GAPS_MAX:
                self.gaps.remove(min(self.gaps, key=lambda gap: gap[1] - gap[0]))
        self._ticked_us = moment_us


def main() -> None:
    """Probe as the client orders it."""
    client = Channel.inherited(int(sys.argv[1]))
    job: Job = _receive(client)
    probing, ticker = Probing(job.open_addresses(), job.epoch), Ticker()
    while True:
        order = _await_order(client, ticker)
        if order is Order.REHEARSE:
            probing.rehearse()
            continue
        if order is Order.BEGIN:
            probing.begin()
            continue
        if order is Order.END:
            probing.end(ENDING_S)
        answer = Answer(probing.began_us, probing.probed(), tuple(ticker.gaps))
        client.send(pickle.dumps(answer))
        if order is Order.END:
            return


def _await_order(client: Channel, ticker: Ticker) -> Order:
    """Return the next order; note meanwhile when this process is not scheduled."""
    while True:
        ticker.tick()
        readable, _, _ = select.select([client], [], [], TICK_S)
        if readable:
            order: Order = _receive(client)
            return order


def _receive(client: Channel) -> Any:
    """Return the next message; end the process, whatever it does, without a client."""
    try:
        return pickle.loads(client.receive())
    except (EOFError, OSError, NotAMessage):
        end_with_group()


def end_with_group() -> NoReturn:
    """End this process, at once: libpq may still be in a login that was left.

    A program of the user's ends with it, as do the processes that it has started.
    """
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


if __name__ == "__main__":
    main()
    end_with_group()
