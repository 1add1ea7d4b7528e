"""The host that a switch is to cut: who it is, asked over SSH."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from dbcheck.errors import HostError
from dbcheck.power import target_agent
from dbcheck.remote.channel import Channel, Dialect
from dbcheck.remote.program import program
from dbcheck.remote.way import Way

_HINTS: Mapping[str, str] = {
    "trigger": "It is read-only in a container; only the host's own root may write it.",
    "sudo": "Log in as root, or allow it in sudoers(5): NOPASSWD: "
    "/usr/bin/tee /proc/sysrq-trigger",
}
_RESET_REPLY_S = 1.0


@dataclass(frozen=True, slots=True)
class Identity:
    """What tells a host from another; "" where it does not say.

    serial: of the machine (DMI), which only root may read.
    boot_id: another one after each boot (random(4)).
    """

    hostname: str
    machine_id: str
    boot_id: str
    serial: str
    addresses: frozenset[str]


class Target:
    """A host, over a new connection for each question: it may go at any moment."""

    def __init__(self, way: Way) -> None:
        """Reach nothing yet."""
        self.place = way.url
        self._way = way
        self._dialect = Dialect(
            program=program("dbcheck.power.target_agent"),
            who="target",
            failure=HostError,
            hints=_HINTS,
            ended_hint="Check that host.",
        )

    def identity(self) -> Identity:
        """Ask the host who it is; raise HostError."""
        with self._channel() as channel:
            return channel.answer(Identity, target_agent.IDENTITY)

    def require_reset(self, trigger: str) -> None:
        """Raise HostError unless the user there may write to *trigger*."""
        with self._channel() as channel:
            channel.request(target_agent.MAY_RESET, trigger=trigger)

    def reset(self, trigger: str) -> None:
        """Write to *trigger*; the host that obeys can say no more."""
        with self._channel() as channel:
            channel.ask(target_agent.RESET, trigger=trigger)
            with contextlib.suppress(HostError):
                channel.receive(_RESET_REPLY_S)

    @contextlib.contextmanager
    def _channel(self) -> Iterator[Channel]:
        try:
            channel = Channel(
                self._way.run(self._dialect.program), self.place, self._dialect
            )
            with contextlib.closing(channel):
                yield channel
        finally:
            self._way.close()
