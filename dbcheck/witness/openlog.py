"""The client's side of an open log of a run, with threads that write and read."""

from __future__ import annotations

import json
import logging
import struct
import threading
import time
from collections import deque
from collections.abc import Sequence

from dbcheck.agent import wire
from dbcheck.agent import witness as agent
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import WitnessError
from dbcheck.base.system import now_us
from dbcheck.model.unobserved import GAPS_MAX, Gap, OtherClock
from dbcheck.model.witness import Json, Watermark, WindowFacts
from dbcheck.remote.channel import Channel
from dbcheck.rows.acks import Ack, AckValues, count, pack
from dbcheck.witness.window import Batch, Window, WindowLimits

log = logging.getLogger(__name__)

END_TIMEOUT_S = 10.0
NEVER_US = 2**62
_SILENCE_CHECK_S = 0.5  # between two checks of the reader for a silent witness
# A batch takes 0.3 ms of CPU time here, however small it is, since paramiko is Python,
# and as much on the witness.  A rest between two batches limits that to a twentieth of
# a core; the first ack after a rest is sent at once.
_REST_S = 0.005


def find_rest_s(limits: WindowLimits) -> float:
    """Return the seconds between two batches; in lockstep sessions wait for each."""
    return 0.0 if limits.lockstep else _REST_S


class ConfirmedLog:
    """An open log of a run: a window of acks, and the witness's marks."""

    def __init__(
        self, channel: Channel, run_id: str, number: int, limits: WindowLimits
    ) -> None:
        """Take over *channel*, on which log *number* of the run was just asked for."""
        self._channel = channel
        self._token = agent.make_token(run_id, number)
        self._window = Window(limits)
        self._lockstep = limits.lockstep
        self._rest_s = find_rest_s(limits)
        self._mark = Watermark(0, 0, "")
        self._clock, self._gaps = OtherClock(), deque[Gap](maxlen=GAPS_MAX)
        try:
            self._take_mark(channel.expect(wire.MARK))
        except BaseException:
            self._window.close()
            raise

    @property
    def lockstep(self) -> bool:
        return self._lockstep

    def append_many(self, acks: Sequence[AckValues]) -> None:
        """Hand over *acks* in one go; never block, not even if there is no room."""
        self._window.put_many(acks)

    def room(self, wanted: int = 1) -> int:
        """Return the number of acks that fit; see ports.witness.LoadLog."""
        return self._window.room(wanted)

    def confirmed(self) -> int:
        """Return the number of durable acks; see ports.witness.LoadLog."""
        return self._window.confirmed()

    def watermark(self) -> Watermark:
        return self._mark

    def unconfirmed(self) -> int:
        return self._window.unconfirmed()

    def behind_s(self) -> float:
        """Return the age of the oldest unconfirmed ack, in seconds."""
        return self._window.age_s()

    def window(self) -> WindowFacts:
        return self._window.facts()

    def new_gaps(self) -> Sequence[Gap]:
        """Return the new gaps between the two clocks; see ports.witness.LoadLog."""
        return [self._gaps.popleft() for _ in range(len(self._gaps))]

    def _take_mark(self, payload: bytes) -> None:
        """Note a confirmation; raise WitnessError if it cannot be one."""
        try:
            frames, acks, events, digest, clock_us = agent.MARKED.unpack(payload)
        except struct.error:
            raise self._channel.invalid_reply() from None
        if (gap := self._clock.heard(clock_us, now_us())) is not None:
            self._gaps.append(gap)
        self._mark = Watermark(frames, acks, digest.hex())
        self._window.confirm(acks, events)


class OpenLog(ConfirmedLog):
    """See ports.witness.WitnessLog.

    A writer thread sends whatever is queued, a reader thread takes confirmations;
    neither waits for the other, and no lock is held while sending or receiving.
    """

    def __init__(
        self, channel: Channel, run_id: str, number: int, limits: WindowLimits
    ) -> None:
        """Take over *channel*, on which log *number* of the run was just asked for."""
        super().__init__(channel, run_id, number, limits)
        self._end_s = END_TIMEOUT_S  # for the agent to end, once all is confirmed
        self._threads = [
            threading.Thread(target=body, name=f"witness-{name}", daemon=True)
            for name, body in (
                ("writer", self._send_batches),
                ("reader", self._take_confirmations),
            )
        ]
        for thread in self._threads:
            thread.start()

    def append(self, ack: Ack) -> None:
        self._window.put(ack)

    def fileno(self) -> int:
        """Return a descriptor that shows when room() or confirmed() may change."""
        return self._window.ready.fileno()

    def take_news(self) -> None:
        """Let the descriptor wait for the next change; see ports.witness.LoadLog."""
        self._window.room()

    def send_due(self, now_us: int) -> int:
        """Do nothing: a thread sends; see ports.witness.LoadLog."""
        return NEVER_US

    def note(self, event: Json) -> None:
        body = json.dumps(event).encode()
        if len(body) > agent.BODY_BYTES_MAX:
            raise WitnessError(
                f"an event of {len(body)} bytes is too long for the witness log",
                id=ErrorId.WITNESS_EVENT_TOO_LONG,
                hint=f"An event may have {agent.BODY_BYTES_MAX} bytes.",
            )
        self._window.put_event(body)

    def abandon(self) -> None:
        """Accept no more acks, await no confirmation; see ports.witness.WitnessLog."""
        self._end_s = 0.0
        self._window.fail(
            WitnessError(
                "gave up waiting for the witness to confirm the last acks",
                id=ErrorId.WITNESS_NOT_CONFIRMING,
                hint="What it has confirmed is kept, and the run can be reconciled.",
            )
        )

    def close(self) -> Watermark:
        writer, reader = self._threads
        try:
            self._window.finish()
            writer.join(END_TIMEOUT_S)
            self._channel.end_input()
            reader.join(self._end_s)  # until the agent has ended and freed the log
        finally:
            self._channel.close()
            for thread in self._threads:
                thread.join(END_TIMEOUT_S)
            self._window.close()
        return self._mark

    def _send_batches(self) -> None:
        """Send batches until none will come."""
        try:
            while batches := self._window.take():
                for batch in batches:
                    self._send(batch)
                time.sleep(self._rest_s)
        except OSError as error:
            # The reader will report why: the agent's last message is still to come.
            log.debug("cannot write to %s: %s", self._channel.place, error)
        except ValueError as error:
            self._window.fail(
                WitnessError(f"cannot log an ack: {error}", id=ErrorId.WITNESS_LOST)
            )

    def _send(self, batch: Batch) -> None:
        if isinstance(batch, bytes):
            self._channel.send(agent.NOTE, batch, token=self._token)
            return
        for body in pack(batch):
            self._channel.send(agent.APPEND, body, token=self._token, count=count(body))

    def _take_confirmations(self) -> None:
        """Take confirmations until the agent ends."""
        try:
            while True:
                if self._channel.wait(_SILENCE_CHECK_S):
                    self._take_mark(self._channel.expect(wire.MARK, timeout_s=None))
                else:
                    self._window.fail_if_silent()
        except WitnessError as error:
            if not self._window.is_finished():
                self._window.fail(error)
