"""The network of a lab's cluster, without servers: who reaches whom, what is left."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LabError
from dbcheck.lab.clusters import network as networks
from dbcheck.lab.clusters.network import BOTH_WAYS, Network, Way
from dbcheck.lab.network import inside
from tests.kit.clusters import client_of
from tests.kit.namespaces import are_networks_used
from tests.kit.refusals import refused
from tests.kit.waiting import wait_until

pytestmark = pytest.mark.root

PORT = 5000
SHORT_S = 0.3  # a packet that is not dropped comes within a millisecond

_CLIENT = """
import os, sys
from dbcheck.lab.clusters.network import Network

network = Network(["one", "two"])
opened = [network._router, *(place.namespace for place in network.hosts.values())]
print(*(os.fstat(each).st_ino for each in opened), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def network() -> Iterator[Network]:
    """A network of three hosts."""
    made = Network(["one", "two", "three"])
    yield made
    made.close()


def arrives(network: Network, sender: str, receiver: str) -> bool:
    """Send one datagram; return whether it came.  No answer goes back."""
    there = network.hosts[receiver]
    with contextlib.ExitStack() as sockets:
        with inside(there.namespace):
            inbox = sockets.enter_context(socket.socket(type=socket.SOCK_DGRAM))
            inbox.bind((there.address, PORT))
            inbox.settimeout(SHORT_S)
        with inside(network.hosts[sender].namespace):
            outbox = sockets.enter_context(socket.socket(type=socket.SOCK_DGRAM))
            outbox.sendto(b"one", (there.address, PORT))
        with contextlib.suppress(TimeoutError):
            return inbox.recv(10) == b"one"
    return False


def reached(network: Network) -> set[tuple[str, str]]:
    """Return each pair of hosts, the first of which reaches the second."""
    names = list(network.hosts)
    pairs = [(one, two) for one in names for two in names if one != two]
    return {pair for pair in pairs if arrives(network, *pair)}


def devices() -> list[str]:
    return sorted(os.listdir("/sys/class/net"))


@pytest.mark.parametrize(
    ("ways", "unreached"),
    [
        (
            BOTH_WAYS,
            {("one", "two"), ("one", "three"), ("two", "one"), ("three", "one")},
        ),
        ({Way.FROM}, {("one", "two"), ("one", "three")}),
        ({Way.TO}, {("two", "one"), ("three", "one")}),
    ],
)
def test_a_partition_drops_what_one_host_sends_or_gets_until_it_heals(
    network: Network, ways: set[Way], unreached: set[tuple[str, str]]
) -> None:
    everybody = reached(network)
    assert len(everybody) == 6
    network.drop("one", ways)
    assert everybody - reached(network) == unreached
    network.drop("one", ways)  # as it is already
    network.heal()
    assert reached(network) == everybody


def test_a_connection_outlives_a_partition_that_heals(network: Network) -> None:
    """Neither end learns of it: packets are dropped, and not refused."""
    one, two = network.hosts["one"], network.hosts["two"]
    with contextlib.ExitStack() as sockets:
        with inside(two.namespace):
            listener = sockets.enter_context(socket.create_server((two.address, PORT)))
        with inside(one.namespace):
            near = sockets.enter_context(
                socket.create_connection((two.address, PORT), 5)
            )
        far = sockets.enter_context(listener.accept()[0])
        far.settimeout(SHORT_S)
        network.drop("one", BOTH_WAYS)
        near.sendall(b"late")
        with pytest.raises(TimeoutError):
            far.recv(10)
        network.heal()
        far.settimeout(10)
        assert far.recv(10) == b"late"


def test_nothing_of_it_is_seen_in_the_host_s_network(network: Network) -> None:
    before = devices()
    other = Network(["one", "two"])  # the same names and addresses
    try:
        assert devices() == before
        assert arrives(other, "one", "two")
        other.drop("one", BOTH_WAYS)
        assert arrives(network, "one", "two")
    finally:
        other.close()
    rules = subprocess.run(["ip", "rule"], capture_output=True, text=True, check=True)
    assert "blackhole" not in rules.stdout


def test_it_ends_with_the_client(tmp_path: Path) -> None:
    before = devices()
    with client_of(_CLIENT, tmp_path) as (client, namespaces):
        assert len(namespaces) == 3
        client.kill()
        client.wait()
        wait_until(lambda: not are_networks_used(namespaces), "its namespaces unused")
    assert devices() == before


def test_one_that_cannot_be_made_is_an_error_with_nothing_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened = set(os.listdir("/proc/self/fd"))
    monkeypatch.setattr(networks, "_FORWARD", Path("/proc/sys/net/ipv4/none"))
    with refused(ErrorId.LAB_NOT_BUILDABLE, LabError, naming="cluster's network"):
        Network(["one"])
    assert set(os.listdir("/proc/self/fd")) == opened
