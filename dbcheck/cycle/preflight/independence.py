"""Requires that the witness does not lose power together with the target."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping, Sequence

from dbcheck.agent.wire import read_boot_time_us
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.kubernetes.apart import require_other_storage
from dbcheck.model.host import HostBefore
from dbcheck.model.pods import Pod
from dbcheck.model.witness import Apart, is_same_host, is_same_start
from dbcheck.ports.site import PodSource
from dbcheck.ports.witness import WitnessHostFacts
from dbcheck.remote.same_host import (
    TargetLocation,
    is_own_address,
    locate_target,
    read_boot_id,
    read_machine_id,
    resolve,
)

_ON_TARGET = (
    "the witness is on the target's own host: its log would lose power "
    "together with the server"
)
_SAME_START = (
    "the witness and the target's host report different ids, but their kernels started"
    " at the same moment: they are containers of one host, or share their power"
)
_FILES_ON_TARGET = (
    "the witness's folder is on the file server {}, which is the target's own host: its"
    " log would lose power together with the server"
)
_FIX = (
    "Use a witness on another machine: --witness ssh://user@host/~/folder, "
    "or run dbcheck itself on another machine than the target."
)


def require_independent(
    endpoints: Iterable[tuple[str, int]], kind: str, witness: WitnessHostFacts
) -> str:
    """Return the evidence that the witness is not on the target's host.

    endpoints: the hosts and ports to which the target's driver may connect.  kind: of
    the witness, "file" for one on this client's own disk.  Raise UsageError if the
    witness is on one of these hosts.  This client's own host is compared by its machine
    and boot ids, each other host by the addresses of its name.  Two virtual machines on
    one hypervisor, or two hosts on one power strip, are not recognised.
    """
    where = locate_target(endpoints)
    if where.here and (kind == "file" or _is_on_this_host(witness)):
        raise UsageError(_ON_TARGET, id=ErrorId.WITNESS_ON_TARGET, hint=_FIX)
    _require_other_files(where, witness.file_server)
    here = "the target's address is this host's, the witness is another host"
    if where.here and not where.others:
        return here
    compared = _describe_comparison(where.others, witness)
    return f"{here}; the target's other hosts: {compared}" if where.here else compared


def _describe_comparison(
    hosts: Mapping[str, frozenset[str]], witness: WitnessHostFacts
) -> str:
    """Return in words how the target's addresses compare with the witness's.

    hosts: the target's hosts -> their addresses.  Raise UsageError if the witness has
    one of these addresses.
    """
    shared = frozenset[str]().union(*hosts.values()) & witness.addresses
    if shared:
        raise UsageError(
            f"the witness {witness.hostname} has the target's address {min(shared)}",
            id=ErrorId.WITNESS_ON_TARGET,
            hint=_FIX,
        )
    if not witness.addresses:
        return "the witness lists none of its addresses; nothing was compared"
    unknown = ", ".join(host for host, addresses in hosts.items() if not addresses)
    if unknown:
        return f"{unknown} does not resolve here, so it was not compared"
    return "the target's addresses are not the witness's"


def _require_other_files(where: TargetLocation, server: str) -> None:
    """Raise UsageError if the witness's folder is on the target's disk.

    server: the file server that has the witness's files, "" if the witness itself has
    them.
    """
    stored = resolve(server) if server else frozenset[str]()
    if any(ipaddress.ip_address(address).is_loopback for address in stored):
        return  # the file server is the witness itself
    hosts = frozenset[str]().union(*where.others.values())
    if stored & hosts or (where.here and any(map(is_own_address, stored))):
        raise UsageError(
            _FILES_ON_TARGET.format(server), id=ErrorId.WITNESS_ON_TARGET, hint=_FIX
        )


def _is_on_this_host(witness: WitnessHostFacts) -> bool:
    """Return True if the witness is on this client's own host.

    Raise UsageError if neither ids nor addresses show that, as on some systems other
    than Linux.
    """
    ids = (witness.machine_id, witness.boot_id)
    same = is_same_host((read_machine_id(), read_boot_id()), ids)
    if not same:
        _require_another_start(read_boot_time_us(), witness)
    if same is None and not witness.addresses:
        raise UsageError(
            f"the witness {witness.hostname} shows neither ids nor addresses, so it may"
            " be on the target's own host",
            id=ErrorId.WITNESS_NOT_IDENTIFIED,
            hint=_FIX,
        )
    if same is None:
        return any(is_own_address(address) for address in witness.addresses)
    return same


def _require_another_start(target_us: int | None, witness: WitnessHostFacts) -> None:
    """Raise UsageError if the witness's kernel may have started at *target_us*, too."""
    if is_same_start(target_us, witness.booted_us):
        raise UsageError(_SAME_START, id=ErrorId.WITNESS_ON_TARGET, hint=_FIX)


def require_other_host(host: HostBefore | None, witness: WitnessHostFacts) -> Apart:
    """Compare the machine and boot ids of the target's host and the witness.

    host: None without --target-host.  Raise UsageError if both are one host, even if
    their addresses differ, as they do behind a tunnel or a forwarder.
    """
    if host is None:
        return Apart.ADDRESSES
    target = (host.facts.machine_id, host.facts.boot_id)
    same = is_same_host(target, (witness.machine_id, witness.boot_id))
    if same:
        raise UsageError(_ON_TARGET, id=ErrorId.WITNESS_ON_TARGET, hint=_FIX)
    _require_another_start(host.facts.booted_us, witness)
    _require_other_files(
        TargetLocation(False, {host.facts.hostname: host.facts.addresses}),
        witness.file_server,
    )
    return Apart.ADDRESSES if same is None else Apart.IDS


def require_other_pod(
    database: Sequence[Pod], witness_pods: PodSource, witness: WitnessHostFacts
) -> str:
    """Return the evidence that the witness's pod shares nothing with the database's.

    database: all pods of the database.  witness_pods: among which the witness's is.
    Raise UsageError if it is not, or shares a node or storage; HostError.
    """
    pods = witness_pods.read()
    found = [
        pod
        for pod in pods
        if pod.name == witness.hostname or witness.addresses & {*pod.addresses}
    ]
    if len(found) != 1:
        raise UsageError(
            f"which pod has the witness {witness.hostname} is not known: it is"
            f" {'none' if not found else 'more than one'} of"
            f" {', '.join(pod.named for pod in pods)}",
            id=ErrorId.WITNESS_POD_UNKNOWN,
            hint="Give dbcheck_kubernetes_witness a selector that matches its pod, or"
            " leave it out if the witness is in no pod.",
        )
    return require_other_storage(database, found[0], witness.folder)
