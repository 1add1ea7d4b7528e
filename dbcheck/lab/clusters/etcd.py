"""The etcd of a cluster that Patroni manages: on this machine, on no drive of a lab."""

from __future__ import annotations

import contextlib
import json
import ssl
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Generator
from http.client import HTTPException
from typing import IO

from dbcheck.base import processes
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LabError
from dbcheck.lab import namespace, programs
from dbcheck.lab.certificates import Identity, IdentityFiles
from dbcheck.lab.held_port import HeldPort
from dbcheck.lab.network import LOOPBACK, Place, inside

_READY_S, _POLL_S, _ASK_S = 30.0, 0.05, 1.0
_LAST_BYTES = 500  # of etcd's log, shown if etcd does not start
# Runs in a mount namespace of its own, so that no mount is left, however etcd ends.
_MOUNT_AND_RUN = 'mount -t tmpfs -o mode=700 dbcheck-etcd /run && exec "$0" "$@"'


@contextlib.contextmanager
def run_etcd(
    identity: Identity, place: Place | None = None
) -> Generator[int, None, None]:
    """Run one etcd server, whose data are in memory; yield its port.

    identity: the certificate that etcd shows; it answers only clients with a
              certificate of the same authority.
    place:    in the cluster's network; None: it listens on 127.0.0.1 alone.
    It ends with the thread that calls this.  Raise LabError if it does not start.
    """
    clients, peers = HeldPort(), HeldPort()
    with (
        identity.in_memory() as (files, descriptors),
        tempfile.TemporaryFile() as output,
    ):
        host = place.address if place else LOOPBACK
        command = _command(host, clients, peers, files)
        with inside(place.namespace) if place else contextlib.nullcontext():
            process = subprocess.Popen(
                processes.die_with_parent(
                    [
                        *namespace.command_prefix(),
                        *("sh", "-c", _MOUNT_AND_RUN, *command),
                    ]
                ),
                env=_environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=descriptors,
                start_new_session=True,
            )
        try:
            with inside(place.namespace) if place else contextlib.nullcontext():
                _await_healthy((host, clients.number), files, process, output)
            yield clients.number
        finally:
            process.kill()
            process.wait()


def _environment() -> dict[str, str]:
    """Return this process's variables without those that configure etcd."""
    variables = processes.make_environment()
    return {
        name: value for name, value in variables.items() if not name.startswith("ETCD_")
    }


def _command(
    host: str, clients: HeldPort, peers: HeldPort, tls: IdentityFiles
) -> list[str]:
    """Return etcd's command line (etcd 3.4 documentation, Transport security model)."""
    program = programs.find_patroni("etcd")
    if program is None:
        raise programs.missing_program_error("etcd")
    client_url, peer_url = (
        f"https://{host}:{port.number}" for port in (clients, peers)
    )
    flags = {
        "data-dir": "/run/etcd",
        "listen-client-urls": client_url,
        "advertise-client-urls": client_url,
        "listen-peer-urls": peer_url,
        "initial-advertise-peer-urls": peer_url,
        "initial-cluster": f"default={peer_url}",
    }
    for prefix in ("", "peer-"):
        flags[f"{prefix}cert-file"] = str(tls.certificate)
        flags[f"{prefix}key-file"] = str(tls.key)
        flags[f"{prefix}trusted-ca-file"] = str(tls.authority)
        flags[f"{prefix}client-cert-auth"] = "true"
    return [str(program), *(f"--{name}={value}" for name, value in flags.items())]


def _await_healthy(
    address: tuple[str, int],
    tls: IdentityFiles,
    process: subprocess.Popen[bytes],
    output: IO[bytes],
) -> None:
    ends_s, context = time.monotonic() + _READY_S, tls.for_client()
    while not _is_healthy(address, context):
        if process.poll() is not None or time.monotonic() >= ends_s:
            output.seek(max(0, output.seek(0, 2) - _LAST_BYTES))
            log_end = output.read().decode("utf-8", "replace").strip()
            raise LabError(
                f"etcd did not start: {log_end or 'it logged nothing'}",
                id=ErrorId.LAB_SERVER_NOT_STARTED,
            )
        time.sleep(_POLL_S)


def _is_healthy(address: tuple[str, int], context: ssl.SSLContext) -> bool:
    """Ask etcd if it is healthy (its documentation, Monitoring etcd, Health Check)."""
    direct = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
    )
    try:
        host, port = address
        with direct.open(f"https://{host}:{port}/health", timeout=_ASK_S) as answer:
            return bool(json.load(answer)["health"] == "true")
    except (OSError, HTTPException, ValueError, KeyError, TypeError):  # not up yet
        return False
