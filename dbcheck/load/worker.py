"""A process of the load: python -m dbcheck.load.worker, told what to do over its stdin.

It lives as long as that pipe: when the client dies, by whatever, the kernel closes it.
"""

from __future__ import annotations

import os
import sys
import threading
from queue import Empty, SimpleQueue
from typing import BinaryIO

from dbcheck.errors import DbcheckError, WitnessError
from dbcheck.load.crew import Told
from dbcheck.load.job import Ended, Job, hear, tell
from dbcheck.load.loop import LOOK_S, Loop
from dbcheck.ports.witness import WitnessLog

Orders = SimpleQueue[int | bool | None]


def main() -> None:
    """Run one job."""
    inbox, outbox = sys.stdin.buffer, sys.stdout.buffer
    job: Job = hear(inbox)
    orders: Orders = SimpleQueue()
    threading.Thread(target=_listen, args=(inbox, orders), daemon=True).start()
    try:
        log = job.open_log()
    except DbcheckError as error:
        tell(outbox, error)
        return
    loop = Loop(job.team, job.schedule, log)
    try:
        loop.connect()
    except DbcheckError as error:
        _close(log, loop.end())
        tell(outbox, error)
        return
    tell(outbox, loop.look())
    _work(loop, orders, outbox)
    told = loop.end()
    tell(outbox, loop.look())
    _close(log, told)
    tell(outbox, Ended(told))


def _listen(inbox: BinaryIO, orders: Orders) -> None:
    """Pass orders on; end the process, whatever it does, when the client is gone."""
    try:
        while True:
            orders.put(hear(inbox))
    except EOFError:
        os._exit(1)


def _work(loop: Loop, orders: Orders, outbox: BinaryIO) -> None:
    """Run the sessions, and tell how they are, until the end is ordered."""
    began_us = orders.get()
    if began_us is None:
        return
    loop.start(began_us)
    look = loop.look()
    while True:
        try:
            order = orders.get(timeout=LOOK_S)
            if not isinstance(order, bool):
                return
            loop.hold(held=order)
        except Empty:
            before, look = look, loop.look()
            if look is not before:
                tell(outbox, look)


def _close(log: WitnessLog, told: Told) -> None:
    try:
        log.close()
    except WitnessError as error:
        told.close_error = error
    told.watermark, told.window = log.watermark(), log.window()


if __name__ == "__main__":
    main()
