"""A process of the load: python -m dbcheck.load.worker DESCRIPTOR, of its channel.

It ends with that: when the client dies, by whatever, the kernel closes the other end.
"""

from __future__ import annotations

import os
import sys
import threading
from queue import Empty, SimpleQueue

from dbcheck.errors import DbcheckError, WitnessError
from dbcheck.load.group import GroupResult
from dbcheck.load.job import Ended, Job, receive, send
from dbcheck.load.loop import SNAPSHOT_S, Loop
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
    loop = Loop(job.sessions, log)
    try:
        loop.connect()
    except DbcheckError as error:
        _close(log, loop.end())
        send(client, error)
        return
    send(client, loop.snapshot())
    _work(loop, orders, client)
    result = loop.end()
    send(client, loop.snapshot())
    _close(log, result)
    send(client, Ended(result))


def _listen(client: Channel, orders: Orders) -> None:
    """Pass orders on; end the process, whatever it does, when the client is gone."""
    try:
        while True:
            orders.put(receive(client))
    except EOFError:
        os._exit(1)


def _work(loop: Loop, orders: Orders, client: Channel) -> None:
    """Run the sessions, and send snapshots, until the end is ordered."""
    began_us = orders.get()
    if began_us is None:
        return
    loop.start(began_us)
    snapshot = loop.snapshot()
    while True:
        try:
            order = orders.get(timeout=SNAPSHOT_S)
            if not isinstance(order, bool):
                return
            loop.hold(held=order)
        except Empty:
            before, snapshot = snapshot, loop.snapshot()
            if snapshot is not before:
                send(client, snapshot)


def _close(log: WitnessLog, result: GroupResult) -> None:
    try:
        log.close()
    except WitnessError as error:
        result.close_error = error
    result.watermark, result.window = log.watermark(), log.window()


if __name__ == "__main__":
    main()
