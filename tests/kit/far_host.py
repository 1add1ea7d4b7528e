"""An SSH server on a host of its own, as far as the network can tell."""

from __future__ import annotations

import ipaddress
import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dbcheck.lab.ssh.sshd import Sshd
from tests.kit.frontends import need
from tests.kit.namespaces import call_within

# From the block for benchmarks, RFC 2544: nobody else's.
_BLOCK = ipaddress.ip_network("198.18.0.0/15")


class FarNetwork:
    """A network namespace with an address, behind a cable that can be pulled."""

    def __init__(self) -> None:
        # Two addresses that no other process of the tests uses: of a /30 of our own.
        self._near = _BLOCK[os.getpid() * 4 % _BLOCK.num_addresses + 1]
        self.host = str(self._near + 1)
        self.network = f"dbcheck-{os.getpid()}"
        self._cable = f"dbc{os.getpid()}"

    def connect(self) -> None:
        """Make the namespace and the cable."""
        near, far = self._cable, "far"
        for words in (
            f"netns add {self.network}",
            f"link add {near} type veth peer name {far} netns {self.network}",
            f"address add {self._near}/30 dev {near}",
            f"link set {near} up",
            f"-n {self.network} address add {self.host}/30 dev {far}",
            f"-n {self.network} link set {far} up",
        ):
            _ip(words)

    def pull(self) -> None:
        """Pull the cable: nothing arrives any more, and nobody is told."""
        _ip(f"-n {self.network} link set far down")

    def plug(self) -> None:
        """Put the cable in again."""
        _ip(f"-n {self.network} link set far up")

    def disconnect(self) -> None:
        """Remove the cable and the namespace, which may live on for a while.

        What its sockets have not delivered keeps it, and would keep the cable.
        """
        for words in (
            ["link", "delete", self._cable],
            ["netns", "delete", self.network],
        ):
            subprocess.run(["ip", *words], check=False)


class FarSshd(FarNetwork, Sshd):
    """Runs in such a namespace.

    Its server does not look for its client, as is OpenSSH's default.
    """

    def __init__(self, folder: Path) -> None:
        FarNetwork.__init__(self)
        Sshd.__init__(self, folder)

    def _command(self) -> list[str]:
        command = super()._command()
        config = Path(command[-1])
        text = config.read_text().replace("127.0.0.1", self.host)
        text = text.replace("ClientAliveInterval 5", "ClientAliveInterval 0")
        config.write_text(text)
        return ["nsenter", f"--net=/run/netns/{self.network}", *command]


@contextmanager
def far_sshd(folder: Path) -> Iterator[FarSshd]:
    """Run an SSH server on a host of its own; skip where that cannot be made."""
    need("ip", "nsenter", "sshd")
    sshd = FarSshd(folder)
    try:
        sshd.connect()
        sshd.start()
        yield sshd
    finally:
        sshd.close()
        sshd.disconnect()


@contextmanager
def far_network() -> Iterator[FarNetwork]:
    """Make a host's network, without a host; skip where that cannot be made."""
    need("ip")
    network = FarNetwork()
    try:
        network.connect()
        yield network
    finally:
        network.disconnect()


def far_listener(network: FarNetwork) -> socket.socket:
    """Return a socket that listens there, on a free port."""
    return call_within(network.network, lambda: socket.create_server((network.host, 0)))


def _ip(words: str) -> None:
    subprocess.run(["ip", *words.split()], check=True)
