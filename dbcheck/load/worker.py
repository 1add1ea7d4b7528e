"""A process of the load: python -m dbcheck.load.worker DESCRIPTOR, of its channel.

The process ends with the channel: when the client dies, the kernel closes the other
end.  A client on another machine gives the process a lease as well (load/pace.py).
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from queue import Empty, SimpleQueue

from dbcheck.base import interrupt
from dbcheck.base.errors import DbcheckError, WitnessError
from dbcheck.base.processes import Channel
from dbcheck.load.compiled import make_loop
from dbcheck.load.group import GroupResult
from dbcheck.load.job import End, Ended, Heard, Hold, Job, Start, receive, send
from dbcheck.load.loop import SNAPSHOT_S, Loop
from dbcheck.load.pace import Lease
from dbcheck.ports.witness import LoadLog

Orders = SimpleQueue[Start | Hold | End]


def main() -> None:
    """Run one job."""
    client = Channel.inherited(int(sys.argv[1]))
    job: Job = receive(client)
    orders: Orders = SimpleQueue()
    lease = Lease(ends=job.leased)
    threading.Thread(target=_listen, args=(client, orders, lease), daemon=True).start()
    try:
        log = job.open_log()
    except DbcheckError as error:
        send(client, error)
        return
    loop = make_loop(job.sessions, log, lease)
    try:
        loop.connect()
    except DbcheckError as error:
        _close_log(log, loop.end())
        send(client, error)
        return
    send(client, loop.snapshot())
    _run_sessions(loop, orders, client, lease)
    result = loop.end()
    send(client, loop.snapshot())
    _close_log(log, result)
    send(client, Ended(result))


def _listen(client: Channel, orders: Orders, lease: Lease) -> None:
    """Pass orders on; end the process, whatever it does, when the client is gone."""
    try:
        while True:
            order = receive(client)
            if isinstance(order, Heard):
                lease.renew(order.clock_us)
            else:
                orders.put(order)
    except EOFError:
        os._exit(1)


def _run_sessions(loop: Loop, orders: Orders, client: Channel, lease: Lease) -> None:
    """Run the sessions, and send snapshots, until an order or the lease ends them."""
    first = _take_first_order(orders, lease)
    if not isinstance(first, Start):
        return
    loop.start(first.began_us)
    snapshot = loop.snapshot()
    while not lease.is_over():
        try:
            order = orders.get(timeout=SNAPSHOT_S)
            if not isinstance(order, Hold):
                return
            loop.hold(held=order.held)
        except Empty:
            before, snapshot = snapshot, loop.snapshot()
            if snapshot is not before:
                send(client, snapshot)


def _take_first_order(orders: Orders, lease: Lease) -> Start | Hold | End | None:
    """Return the first order; None if none comes while the lease lasts."""
    while not lease.is_over():
        with contextlib.suppress(Empty):
            return orders.get(timeout=SNAPSHOT_S)
    return None


def _close_log(log: LoadLog, result: GroupResult) -> None:
    try:
        log.close()
    except WitnessError as error:
        result.close_error = error
    result.watermark, result.window = log.watermark(), log.window()
    result.observed = result.observed.with_gaps(log.new_gaps())


if __name__ == "__main__":
    main()
    interrupt.exit_process(0)  # libpq may still be in a session's login that was left
