"""A process of the load: python -m dbcheck.load.worker DESCRIPTOR, of its channel.

It ends with that: when the client dies, by whatever, the kernel closes the other end.
"""

from __future__ import annotations

import os
import sys
import threading
from queue import Empty, SimpleQueue

from dbcheck.errors import DbcheckError, WitnessError
from dbcheck.load.crew import Told
from dbcheck.load.job import Ended, Job, receive, send
from dbcheck.load.loop import LOOK_S, Loop
from dbcheck.local import Channel
from dbcheck.ports.witness import WitnessLog

Orders = SimpleQueue[int | bool | None]


def main() -> None:
    """Run one job."""
    client = Channel.inherited(int(sys.argv[1]))
    job: Job = receive(client)
    orders: Orders = SimpleQueue()
    threading.Thread(target=_listen, args=(client, orders), daemon=True).start()
    try:
        log = job.open_log()
    except DbcheckError as error:
        send(client, error)
        return
    loop = Loop(job.team, job.schedule, log)
    try:
        loop.connect()
    except DbcheckError as error:
        _close(log, loop.end())
        send(client, error)
        return
    send(client, loop.look())
    _work(loop, orders, client)
    told = loop.end()
    send(client, loop.look())
    _close(log, told)
    send(client, Ended(told))


def _listen(client: Channel, orders: Orders) -> None:
    """Pass orders on; end the process, whatever it does, when the client is gone."""
    try:
        while True:
            orders.put(receive(client))
    except EOFError:
        os._exit(1)


def _work(loop: Loop, orders: Orders, client: Channel) -> None:
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
                send(client, look)


def _close(log: WitnessLog, told: Told) -> None:
    try:
        log.close()
    except WitnessError as error:
        told.close_error = error
    told.watermark, told.window = log.watermark(), log.window()


if __name__ == "__main__":
    main()
