"""Cuts the power of the node that takes over while it does so.

It gets its power back, or stays off.  If it comes back, it has lost what it had not
flushed, and its promotion has to be safe against that: it is again the standby that it
was, and is promoted again, or the new writer.  If it stays off, another standby has to
take over.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from random import Random

from dbcheck.base import interrupt
from dbcheck.base.errors import EngineError, PowerError
from dbcheck.base.system import now_us
from dbcheck.model.cut import PowerState
from dbcheck.model.replication import CutWhilePromoted, WriterOff
from dbcheck.ports.site import Node

POLL_S = 0.05
LOOK_S = 0.005  # between two looks at whether it takes writes
RETURN_S = 60.0  # in which the node must answer again before another order is given

Promote = Callable[[str, Node], None]  # promotes the named node; raises EngineError


class PromotionCutter:
    """Promotes a node as *promote* does, and cuts its power on the way.

    within_s: the cut comes so many seconds after the order at most.
    stays_off: the node gets no power back.
    seen:     the record of the cut, None as long as there was none.
    failed:   the node did not come back: its switch says why.
    """

    def __init__(self, within_s: float, promote: Promote, *, stays_off: bool) -> None:
        self._within_s, self._promote = within_s, promote
        self.stays_off = stays_off
        self._after_s = 0.0
        self.seen: CutWhilePromoted | None = None
        self.failed = False

    def prepare(self, seed: int) -> None:
        """Draw the moment of the cut."""
        self._after_s = Random(seed).uniform(0, self._within_s)

    def promote(self, name: str, node: Node) -> None:
        """Order the promotion, cut the node, restore it, and have it take over.

        Return once it was asked again, if it came back as a standby; at once if it
        stays off.  Raise EngineError if it then refuses, PowerError if its switch
        fails.
        """
        order = _Order(self._promote, name, node)
        order.begin()
        time.sleep(max(0.0, self._after_s - (now_us() - order.asked_us) / 1e6))
        try:
            cut = node.power.cut()
            gone_us = now_us() if cut.exact_us is None else cut.exact_us
            order.end()
        finally:
            if not self.stays_off:
                node.power.restore()
        again = not self.stays_off and self._is_standby_again(node)
        self.seen = CutWhilePromoted(
            *(name, order.asked_us, gone_us, order.find_last_look(gone_us)),
            *(order.taken_us, order.answered_us, again),
            off=observe_power(node) if self.stays_off else None,
        )
        if again:
            self._promote(name, node)

    def _is_standby_again(self, node: Node) -> bool:
        """Wait until the node answers; return whether it takes no writes then."""
        until_s = time.monotonic() + RETURN_S
        while time.monotonic() < until_s:
            if node.power.failure():
                self.failed = True
                return False
            try:
                node.engine.facts()
            except EngineError:
                interrupt.raise_if_interrupted()
                time.sleep(POLL_S)
                continue
            return not node.engine.takes_writes()
        return False


def observe_power(node: Node) -> WriterOff:
    """Return the signs that a node is off now; UNKNOWN power if its switch fails."""
    answers = node.engine.accepts()
    try:
        return WriterOff(node.power.state(), answers)
    except PowerError:
        return WriterOff(PowerState.UNKNOWN, answers)


class _Order:
    """One order to take over, and looks at whether it was carried out.

    asked_us:  when it was given.
    answered_us: when it had been answered, None if it broke off.
    taken_us:  when a look had found that the node takes writes, None if none did.
    """

    def __init__(self, promote: Promote, name: str, node: Node) -> None:
        self._promote, self._name, self._node = promote, name, node
        self._ending = threading.Event()
        self._threads = [
            threading.Thread(target=work, name="promotion", daemon=True)
            for work in (self._ask, self._look)
        ]
        self.asked_us = now_us()
        self.answered_us: int | None = None
        self.taken_us: int | None = None
        self._looks: list[tuple[int, int]] = []  # those before: began, ended

    def begin(self) -> None:
        self.asked_us = now_us()
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        """Wait for the order, which breaks off with the node's power."""
        self._ending.set()
        for thread in self._threads:
            thread.join()

    def find_last_look(self, before_us: int) -> int | None:
        """Return when the newest look began that was over by then, None without one.

        It found the node not to take writes.
        """
        began = [began_us for began_us, ended_us in self._looks if ended_us < before_us]
        return max(began, default=None)

    def _ask(self) -> None:
        try:
            self._promote(self._name, self._node)
        except EngineError:
            return  # what became of it is seen once the node is back
        self.answered_us = now_us()

    def _look(self) -> None:
        while not self._ending.is_set():
            began_us = now_us()
            if self._node.engine.takes_writes():
                self.taken_us = now_us()
                return
            self._looks.append((began_us, now_us()))
            self._ending.wait(LOOK_S)
