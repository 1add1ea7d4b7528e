"""The programs of switches that are not dbcheck's, each with a device of its own."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from dbcheck.model.cut import PowerState
from tests.kit.plugs import Plug, Request, served
from tests.kit.waiting import wait_until

# Where .ci/setup puts what comes from PyPI.
VENV = Path(sys.prefix) / "switches" / "bin"
_BMC = """
name "bmc"
set_working_mc 0x20
startlan 1
  addr 127.0.0.1 {port}
  priv_limit admin
  allowed_auths_operator none md2 md5 straight
  allowed_auths_admin none md2 md5 straight
  guid a123456789abcdefa123456789abcdef
endlan
chassis_control "{control}"
user 2 true "dbcheck" "{password}" admin 10 none md2 md5 straight
"""
_CONTROLLER = """
mc_setbmc 0x20
mc_add 0x20 0 no-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02 persist_sdr
mc_enable 0x20
"""
_CHASSIS = """#!/bin/sh
case "$1 $2" in
"get power") if [ "$(cat {plug})" = on ]; then echo power:1; else echo power:0; fi;;
"set power") if [ "$3" = 1 ]; then echo on >{plug}; else echo off >{plug}; fi;;
esac
"""
_OUTLET = """
outlet:
  NetworkPowerPort:
    model: simplerest
    host: 'http://localhost:{port}/relay/{{index}}/{{value}}'
    index: 0
"""


def program(name: str, package: str) -> str:
    """Return the path of a program; skip if it is not here."""
    path = os.pathsep.join((str(VENV), os.environ["PATH"], "/usr/sbin"))
    found = shutil.which(name, path=path)
    if found is None:
        pytest.skip(f"needs {name} of {package}: .ci/setup pages")
    return found


def free_port(kind: socket.SocketKind = socket.SOCK_STREAM) -> int:
    """Return a port that nothing listens on now."""
    with socket.socket(socket.AF_INET, kind) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def running(*command: str, cwd: Path, **variables: str) -> Iterator[None]:
    """Run a server until the end; what it prints is in a file there."""
    with (cwd / f"{Path(command[0]).name}.log").open("wb") as log:
        process = subprocess.Popen(
            command,
            cwd=cwd,
            env=os.environ | variables,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def succeeds(*command: str, **variables: str) -> Callable[[], bool]:
    """Return whether a command ends with 0, asked anew each time."""
    environment = os.environ | variables

    def asked() -> bool:
        done = subprocess.run(command, env=environment, capture_output=True)
        return done.returncode == 0

    return asked


def relay(plug: Plug, request: Request) -> tuple[int, str]:
    """Answer as the outlet that labgrid's model simplerest asks."""
    value = request.url.removeprefix("/relay/0").removeprefix("/")
    if value:
        plug.switch(PowerState.ON if value == "1" else PowerState.OFF)
    return 200, "1" if plug.is_on else "0"


@contextmanager
def labgrid(plug: Plug, folder: Path) -> Iterator[Mapping[str, str]]:
    """Give a place `db1` that is acquired; the variables by which it is found."""
    coordinator = program("labgrid-coordinator", "labgrid")
    exporter = program("labgrid-exporter", "labgrid")
    client = program("labgrid-client", "labgrid")
    place = f"127.0.0.1:{free_port()}"
    found = {"LG_COORDINATOR": place}
    asked = (client, "-p", "db1")
    with (
        served(plug, relay) as port,
        running(coordinator, "-l", place, cwd=folder),
    ):
        wait_until(succeeds(client, "places", **found), "the coordinator answers")
        outlet = folder / "outlet.yml"
        outlet.write_text(_OUTLET.format(port=port))
        with running(exporter, "-c", place, "-n", "here", str(outlet), cwd=folder):
            assert succeeds(*asked, "create", **found)()
            assert succeeds(*asked, "add-match", "here/outlet/*", **found)()
            wait_until(
                succeeds(client, "resources", "here/outlet/*", **found), "the outlet"
            )
            wait_until(succeeds(*asked, "acquire", **found), "the place is acquired")
            yield found


@contextmanager
def libvirt() -> Iterator[str]:
    """Give the URI of a libvirtd with the test driver, whose domain is `test`."""
    with tempfile.TemporaryDirectory() as folder:  # others may enter its parents
        yield from _libvirt(Path(folder))


def _libvirt(home: Path) -> Iterator[str]:
    daemon = program("libvirtd", "libvirt-daemon")
    virsh = program("virsh", "libvirt-clients")
    variables = {"HOME": str(home), "XDG_RUNTIME_DIR": str(home), "LC_ALL": "C"}
    uri = f"test+unix:///default?socket={home}/libvirt/libvirt-sock"
    command = [daemon]
    if os.geteuid() == 0:  # root's own would begin with QEMU's account
        shutil.chown(home, "nobody")
        command = ["setpriv", "--reuid", "nobody", "--clear-groups", daemon]
    with running(*command, cwd=home, **variables):
        wait_until(succeeds(virsh, "-c", uri, "list"), "libvirtd answers")
        # The driver forgets its domains when the last client goes.
        with subprocess.Popen(
            (virsh, "-c", uri), stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as held:
            assert held.stdout is not None
            held.stdout.readline()
            yield uri


@contextmanager
def bmc(plug: Plug, folder: Path, password: str) -> Iterator[int]:
    """Give the port of a simulated BMC, OpenIPMI's, that switches the plug."""
    simulator = program("ipmi_sim", "openipmi")
    ipmitool = program("ipmitool", "ipmitool")
    port = free_port(socket.SOCK_DGRAM)
    control = folder / "chassis"
    control.write_text(_CHASSIS.format(plug=plug.path))
    control.chmod(0o755)
    text = _BMC.format(port=port, control=control, password=password)
    (folder / "bmc.conf").write_text(text)
    (folder / "bmc.emu").write_text(_CONTROLLER)
    command = (simulator, "-n", "-c", "bmc.conf", "-f", "bmc.emu", "-s", ".")
    with running(*command, cwd=folder):
        asked = ("-I", "lanplus", "-H", "127.0.0.1", "-p", str(port), "-U", "dbcheck")
        ready = succeeds(
            *(ipmitool, *asked, "-E", "-C", "3", "-N", "1", "-R", "1", "mc", "info"),
            IPMI_PASSWORD=password,
        )
        wait_until(ready, "the BMC answers")
        yield port


@contextmanager
def pdudaemon(plug: Plug, folder: Path, off: str) -> Iterator[int]:
    """Give the port of a pdudaemon whose outlet runs commands; off: that one."""
    daemon = program("pdudaemon", "pdudaemon")
    port = free_port()
    on = f"echo 1 >{plug.path}; true %s"
    pdus = {"pdu1": {"driver": "localcmdline", "cmd_on": on, "cmd_off": off}}
    daemon_settings = {"hostname": "127.0.0.1", "port": port, "listener": "http"}
    conf = folder / "pdudaemon.conf"
    conf.write_text(json.dumps({"daemon": daemon_settings, "pdus": pdus}))
    words = (f"--conf={conf}", f"--logfile={folder}/log")
    with running(daemon, *words, cwd=folder):
        wait_until(lambda: answers(port), "pdudaemon listens")
        yield port


def answers(port: int) -> bool:
    """Say whether something listens there."""
    try:
        with socket.create_connection(("127.0.0.1", port), 1):
            return True
    except OSError:
        return False


@contextmanager
def quarch(plug: Plug) -> Iterator[None]:
    """Play a Quarch module: its protocol, as quarchpy speaks it over TCP."""
    replies = {"run:power down": PowerState.OFF, "run:power up": PowerState.ON}

    def said(command: str) -> str:
        if command == "run:power?":
            return "PLUGGED" if plug.is_on else "PULLED"
        if command in replies:
            plug.switch(replies[command])
            return "OK"
        return "OK" if command == "*tst?" else "FAIL: 0x22 -Unrecognised command"

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                while request := connection.recv(4096):
                    reply = said(request[2:].decode().strip().lower()) + "\r\n>"
                    size = len(reply).to_bytes(2, "little")
                    connection.sendall(size + reply.encode())

    try:  # a module has no other port
        listener = socket.create_server(("127.0.0.1", 9760))
    except OSError:
        pytest.skip("something listens on port 9760, which Quarch's modules have")
    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()
