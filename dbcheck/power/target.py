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

    def arm(self, trigger: str) -> Armed:
        """Connect, and have the host hold *trigger* open; raise HostError.

        The user there must be allowed to write to it.  The caller closes what is
        returned.
        """
        channel = self._open()
        try:
            identity = channel.answer(Identity, target_agent.IDENTITY)
            channel.request(target_agent.ARM, trigger=trigger)
        except BaseException:
            channel.close()
            self._way.close()
            raise
        return Armed(identity, channel, self._way)

    @contextlib.contextmanager
    def _channel(self) -> Iterator[Channel]:
        try:
            with contextlib.closing(self._open()) as channel:
                yield channel
        finally:
            self._way.close()

    def _open(self) -> Channel:
        return Channel(self._way.run(self._dialect.program), self.place, self._dialect)


class Armed:
    """A host that resets itself at the next word; identity: what it said it is."""

    def __init__(self, identity: Identity, channel: Channel, way: Way) -> None:
        """Take over *channel* and *way*, to close them."""
        self.identity = identity
        self._channel = channel
        self._way = way

    def is_alive(self) -> bool:
        """Say whether the host can still be told, as far as is known here."""
        return self._channel.is_alive()

    def reset(self) -> None:
        """Send the word, in one message; the host that obeys can say no more."""
        self._channel.ask(target_agent.RESET)
        with contextlib.suppress(HostError):
            self._channel.receive(_RESET_REPLY_S)

    def close(self) -> None:
        """End the connection; never raises."""
        self._channel.close()
        self._way.close()
