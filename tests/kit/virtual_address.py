"""An address that moves from one host to another, also by keepalived, in namespaces.

Two hosts without anything but a network are on one bridge with this machine.  On the
address, which one of them has, a program passes connections on to a server of the lab.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import socket
import struct
import subprocess
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TypeVar

from tests.kit.frontends import find_program, need
from tests.kit.namespaces import call_within
from tests.kit.waiting import await_end, wait_until

T = TypeVar("T")
# From the block for benchmarks, RFC 2544, apart from that of tests.kit.far_host.
_BLOCK = ipaddress.ip_network("198.19.128.0/17")
PORT = 5432
# A hardware address that nobody confirms is asked for again after a second or two, and
# not after up to 45 s (arp(7)).
_NEIGHBOURS = {
    "base_reachable_time_ms": "1000",
    "delay_first_probe_time": "1",
    "ucast_solicit": "1",
}
# Host 0 has the higher priority.  Without three messages of the other one in a row a
# host takes the address, and announces that (RFC 5798, 6.1 and 6.4.2).
_KEEPALIVED = """
global_defs {{
    vrrp_version 3
    router_id host{number}
}}
vrrp_instance clients {{
    state BACKUP
    interface far
    virtual_router_id 51
    priority {priority}
    advert_int 0.3
    virtual_ipaddress {{
        {address}/29 dev far
    }}
}}
"""
_SYN_SENT = "02"  # Linux, include/net/tcp_states.h


class VirtualAddress:
    """The address, at first on host 0; hosts: the ports of the servers behind them."""

    def __init__(self, ports: tuple[int, int]) -> None:
        self._ports = ports
        near = _BLOCK[os.getpid() * 8 % _BLOCK.num_addresses + 1]
        self._near, self.address = str(near), str(near + 3)
        self._own = [str(near + 1), str(near + 2)]
        self._names = [f"dbcheck-{os.getpid()}-{number}" for number in (0, 1)]
        self._bridge = f"dbb{os.getpid()}"
        self._cables = [f"dbv{os.getpid()}{number}" for number in "ab"]
        self._open: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._programs: list[subprocess.Popen[bytes]] = []

    def make(self, folder: Path | None = None) -> None:
        """Make bridge and hosts; host 0 has the address.

        folder: for the files of keepalived, which runs on each; None: nothing does.
        """
        _ip(f"link add {self._bridge} type bridge")
        _ip(f"address add {self._near}/29 dev {self._bridge}")
        _ip(f"link set {self._bridge} up")
        for name, value in _NEIGHBOURS.items():
            Path(f"/proc/sys/net/ipv4/neigh/{self._bridge}/{name}").write_text(value)
        for name, cable, own in zip(self._names, self._cables, self._own, strict=True):
            _ip(f"netns add {name}")
            _ip(f"link add {cable} type veth peer name far netns {name}")
            _ip(f"link set {cable} master {self._bridge} up")
            _ip(f"-n {name} address add {own}/29 dev far")
            _ip(f"-n {name} link set far up")
            _ip(f"-n {name} link set lo up")
        if folder is None:
            self._take(0)
        else:
            self._keep(folder)

    def pull(self) -> None:
        """Pull the cable of host 0: nothing arrives any more, and nobody is told."""
        _ip(f"-n {self._names[0]} link set far down")

    def move(self, *, announced: bool) -> None:
        """Give the address to host 1; announced: tell all, by a gratuitous ARP."""
        self._take(1)
        if announced:
            self._within(1, self._announce)

    def is_waited_for(self) -> bool:
        """Return whether a connection to the address waits for its first answer."""
        packed = struct.unpack("=I", socket.inet_aton(self.address))[0]
        wanted = f"{packed:08X}:{PORT:04X}"
        lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
        return any(line.split()[2:4] == [wanted, _SYN_SENT] for line in lines)

    def has_address(self, number: int) -> bool:
        """Return whether that host has the address."""
        words = ["ip", "-n", self._names[number], "-o", "address"]
        shown = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True)
        return f" {self.address}/29 " in shown.stdout

    def close(self) -> None:
        """Remove the hosts and the bridge."""
        for program in self._programs:
            program.terminate()
            await_end(program)
        for each in self._open:
            _end(each)
        for thread in self._threads:
            thread.join(10)
        for words in (
            *(["link", "delete", cable] for cable in self._cables),
            *(["netns", "delete", name] for name in self._names),
            ["link", "delete", self._bridge],
        ):
            subprocess.run(["ip", *words], check=False, stderr=subprocess.DEVNULL)

    def _take(self, number: int) -> None:
        _ip(f"-n {self._names[number]} address add {self.address}/29 dev far")
        listener = self._within(
            number, lambda: socket.create_server((self.address, PORT))
        )
        self._start(partial(self._serve, listener, self._ports[number]))

    def _keep(self, folder: Path) -> None:
        """Run keepalived on each host, until host 0 has the address."""
        for number, (name, port) in enumerate(
            zip(self._names, self._ports, strict=True)
        ):
            listener = self._within(number, lambda: socket.create_server(("", PORT)))
            self._start(partial(self._serve, listener, port))
            config = folder / f"keepalived{number}.conf"
            priority = 100 - 50 * number
            config.write_text(
                _KEEPALIVED.format(
                    number=number, priority=priority, address=self.address
                )
            )
            pids = [folder / f"{what}{number}.pid" for what in ("parent", "vrrp")]
            words = ["ip", "netns", "exec", name, find_program("keepalived"), "--vrrp"]
            words += ["--dont-fork", "--log-console", f"--use-file={config}"]
            words += [f"--pid={pids[0]}", f"--vrrp_pid={pids[1]}"]
            with (folder / f"keepalived{number}.log").open("wb") as log:
                program = subprocess.Popen(
                    words, stdin=subprocess.DEVNULL, stdout=log, stderr=log
                )
            self._programs.append(program)
            if number == 0:
                wait_until(lambda: self.has_address(0), "keepalived takes the address")

    def _start(self, call: Callable[[], None]) -> None:
        thread = threading.Thread(target=call, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _serve(self, listener: socket.socket, port: int) -> None:
        """Pass connections on to a port of this machine, until close()."""
        self._open.append(listener)
        with contextlib.suppress(OSError), listener:
            while True:
                near, _ = listener.accept()
                self._start(partial(self._carry, near, port))

    def _carry(self, near: socket.socket, port: int) -> None:
        """Carry one connection until one of its sides, or close(), ends it."""
        with (
            near,
            contextlib.suppress(OSError),
            socket.create_connection(("127.0.0.1", port)) as far,
        ):
            self._open += (near, far)
            back = threading.Thread(target=_pump, args=(far, near))
            back.start()
            _pump(near, far)
            back.join()

    def _announce(self) -> None:
        """Send a gratuitous ARP (RFC 5227, 3: an announcement) for the address."""
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as raw:
            raw.bind(("far", 0x0806))
            own, address = raw.getsockname()[4], socket.inet_aton(self.address)
            frame = b"\xff" * 6 + own + b"\x08\x06"
            frame += struct.pack("!HHBBH", 1, 0x0800, 6, 4, 1)
            raw.send(frame + own + address + b"\0" * 6 + address)

    def _within(self, number: int, call: Callable[[], T]) -> T:
        """Return what *call* returns in the namespace of that host."""
        return call_within(self._names[number], call)


def _end(link: socket.socket) -> None:
    """End a connection, or the wait of a listener, whichever thread waits on it."""
    with contextlib.suppress(OSError):
        link.shutdown(socket.SHUT_RDWR)


def _pump(one: socket.socket, other: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while part := one.recv(1 << 16):
            other.sendall(part)
    _end(one)
    _end(other)


@contextlib.contextmanager
def virtual_address(
    ports: tuple[int, int], folder: Path | None = None
) -> Iterator[VirtualAddress]:
    """Make an address that may move between two hosts; skip where there is no ip.

    folder: see make(); skip where there is no keepalived, too.
    """
    need("ip", *(["keepalived"] if folder else []))
    made = VirtualAddress(ports)
    try:
        made.make(folder)
        yield made
    finally:
        made.close()


def _ip(words: str) -> None:
    subprocess.run(["ip", *words.split()], check=True)
