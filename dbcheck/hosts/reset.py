"""A host that is ready to reset itself; see agent/host/reset.py."""

from __future__ import annotations

import contextlib

from dbcheck.agent.host import serve as host_agent
from dbcheck.base.errors import HostError
from dbcheck.model.host import Identity
from dbcheck.remote.channel import Channel

_REPLY_S = 1.0


class ArmedReset:
    """A host that resets itself at the next message.

    identity: what it reported just before.
    """

    def __init__(self, channel: Channel, trigger: str) -> None:
        """Have the host hold *trigger* open; take over *channel*, to close it.

        Raise HostError, also if the user there may not write to the trigger.
        """
        self._channel = channel
        try:
            self.identity = channel.answer(Identity, host_agent.IDENTITY)
            channel.request(host_agent.ARM, trigger=trigger)
        except BaseException:
            channel.close()
            raise

    def is_alive(self) -> bool:
        """Return whether the host can still be reached, as far as is known here."""
        return self._channel.is_alive()

    def reset(self) -> None:
        """Send the one message; a host that resets cannot answer any more."""
        self._channel.ask(host_agent.RESET)
        with contextlib.suppress(HostError):
            self._channel.receive(_REPLY_S)

    def close(self) -> None:
        """End the channel; never raises."""
        self._channel.close()
