"""A witness on another host, reached over SSH."""

from __future__ import annotations

from dbcheck.remote.address import AS_SSH, Address, SshOptions
from dbcheck.remote.channel import Pipe
from dbcheck.remote.ssh import SshHost
from dbcheck.witness.base import AgentWitness
from dbcheck.witness.channel import PROGRAM
from dbcheck.witness.window import WindowLimits


class SshWitness(AgentWitness):
    """Runs an agent on a remote host for each request, over one connection."""

    kind = "ssh"

    def __init__(
        self,
        url: str,
        address: Address,
        folder: str,
        *,
        options: SshOptions = AS_SSH,
        limits: WindowLimits | None = None,
        volatile: bool = False,
    ) -> None:
        """Keep logs in the absolute path *folder* there; connect when first asked."""
        super().__init__(url, folder, limits or WindowLimits(), volatile=volatile)
        self._host = SshHost(url, address, options)

    def _open_pipe(self) -> Pipe:
        return self._host.run(PROGRAM)

    def close(self) -> None:
        super().close()
        self._host.close()
