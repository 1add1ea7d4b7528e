"""Reaches a Dask cluster: its address, its TLS, its workers' versions.

distributed, of the extra dbcheck[fleet], takes a second to import: so it is imported
only when a scheduler is to be reached.
"""

from __future__ import annotations

import contextlib
import logging
import pkgutil
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import dbcheck
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError

if TYPE_CHECKING:
    from distributed import Client

SCHEMES = ("tcp", "tls")
CONNECT_S = 10.0
_EXAMPLE = "Give the scheduler's address as it prints it, e.g. tcp://10.0.0.1:8786."
_VERSION = "dbcheck:__version__"  # for pkgutil.resolve_name


def require_address(option: str, address: str) -> str:
    """Return *address*; raise UsageError, which names *option*, if it cannot be one."""
    try:
        parts = urlsplit(address)
        sound = bool(parts.scheme in SCHEMES and parts.hostname and parts.port)
    except ValueError:  # the port is not a number, or out of range
        sound = False
    if not sound or parts.path or parts.query or parts.fragment or "@" in parts.netloc:
        raise UsageError(
            f"{option} {address!r} is not the address of a Dask scheduler",
            id=ErrorId.SCHEDULER_ADDRESS_INVALID,
            hint=_EXAMPLE,
        )
    return address


def require_installed() -> None:
    """Raise UsageError if the packages of dbcheck[fleet] are missing."""
    try:
        import distributed  # noqa: F401
    except ImportError as error:
        raise UsageError(
            f"Dask is not installed here: {error}",
            id=ErrorId.DASK_NOT_INSTALLED,
            hint="In dbcheck's checkout, with its virtual environment active: pip"
            " install -r constraints/fleet.txt",
        ) from None
    _silence()


@contextlib.contextmanager
def connect_client(address: str) -> Iterator[Client]:
    """Give a client of the scheduler at *address*, and close it.

    Raise UsageError if distributed is missing, if TLS is asked for and not configured,
    or if no scheduler answers there.
    """
    require_installed()
    from distributed import Client, Security

    security: Any = Security()
    _require_tls(address, security)
    kind: Any = Client  # its methods have no types
    try:
        # The process's default client: an actor asks for no other (distributed.actor).
        client = kind(address, timeout=CONNECT_S, security=security)
    except (OSError, ValueError, TypeError) as error:
        raise UsageError(
            f"no Dask scheduler answers at {address}: {error}",
            id=ErrorId.SCHEDULER_UNREACHABLE,
            hint="Check the address and the network, and start it: dask scheduler",
        ) from None
    try:
        yield client
    finally:
        with contextlib.suppress(Exception):  # Dask raises: the scheduler is gone
            client.close(CONNECT_S)


def read_worker_info(client: Client) -> Mapping[str, Mapping[str, Any]]:
    """Return the scheduler's information on each worker now, by its address.

    Client.scheduler_info() is not used: before it returns the information, the client's
    own heartbeat, which asks for no workers, may replace it (distributed 2026.8,
    Client._update_scheduler_info).  Raise OSError if the scheduler is gone.
    """
    scheduler: Any = client.scheduler
    about = client.sync(scheduler.identity, n_workers=-1)
    workers: Mapping[str, Mapping[str, Any]] = about["workers"]
    return workers


def list_workers(client: Client) -> list[str]:
    """Return the workers' addresses, sorted; raise UsageError if there are none."""
    found = sorted(read_worker_info(client))
    if not found:
        raise UsageError(
            "the Dask scheduler has no workers",
            id=ErrorId.SCHEDULER_WITHOUT_WORKERS,
            hint="Start one on each machine: dask worker ADDRESS-OF-THE-SCHEDULER",
        )
    return found


def call_on_workers(
    client: Client,
    workers: Sequence[str],
    function: Callable[..., Any],
    *arguments: Any,
) -> dict[str, Any]:
    """Call *function* on each of *workers*, beside its tasks; return results or errors.

    The arguments must hold no secret: a worker logs them if the function raises.
    Raise UsageError if the scheduler, or a worker, is gone.
    """
    try:
        found = client.run(
            function, *arguments, workers=list(workers), on_error="return"
        )
    except (OSError, KeyError) as error:
        raise UsageError(
            f"the Dask scheduler, or a worker of it, is gone: {error!r}",
            id=ErrorId.SCHEDULER_LOST,
            hint="Look into its log, and start it again.",
        ) from None
    return {worker: found.get(worker) for worker in workers}


def require_same_version(client: Client, workers: Sequence[str]) -> None:
    """Raise UsageError unless each worker runs this dbcheck on this Python.

    The functions that are sent are the standard library's: a worker that has no dbcheck
    can run them, too.  Objects that are pickled here need the same Python there.
    """
    ours = (dbcheck.__version__, _minor_version(platform.python_version()))
    versions = call_on_workers(client, workers, pkgutil.resolve_name, _VERSION)
    pythons = call_on_workers(client, workers, platform.python_version)
    for worker in workers:
        version, python = versions[worker], str(pythons[worker])
        if not isinstance(version, str):
            if version is None:
                version = "it did not answer"
            raise UsageError(
                f"the Dask worker {worker} has no dbcheck: {version}",
                id=ErrorId.WORKER_VERSION_DIFFERS,
                hint=f"Install dbcheck {ours[0]} in its Python, or restart the worker.",
            )
        if (version, _minor_version(python)) != ours:
            raise UsageError(
                f"the Dask worker {worker} runs dbcheck {version} on Python {python},"
                f" and this is dbcheck {ours[0]} on Python {ours[1]}",
                id=ErrorId.WORKER_VERSION_DIFFERS,
                hint="Install the same versions on every machine.",
            )


def _silence() -> None:
    """Keep Dask's own messages off the terminal; what matters is raised as well.

    distributed gave each of its loggers a level and a handler when it was imported.
    """
    for name in logging.root.manager.loggerDict:
        if name.partition(".")[0] == "distributed":
            logging.getLogger(name).setLevel(logging.CRITICAL)


def _require_tls(address: str, security: Any) -> None:
    """Raise UsageError if *address* asks for TLS and Dask has no certificates."""
    needed = (security.tls_ca_file, security.tls_client_cert)
    if address.startswith("tls:") and not all(needed):
        raise UsageError(
            f"{address} needs TLS, and Dask has no certificates for it here",
            id=ErrorId.SCHEDULER_CERTIFICATES_MISSING,
            hint="Name them in Dask's configuration: distributed.comm.tls.ca-file,"
            " .client.cert and .client.key.",
        )


def _minor_version(version: str) -> str:
    return ".".join(version.split(".")[:2])
