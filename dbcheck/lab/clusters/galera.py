"""Ports and settings that make servers of a lab one Galera cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dbcheck.lab.held_port import HeldPort
from dbcheck.lab.servers.settings import require_undecided, standard_name

_HOST = "127.0.0.1"
_OPTIONS = "wsrep_provider_options"


@dataclass(frozen=True, slots=True)
class Ports:
    """Where one node of a Galera cluster listens, beside its port for clients.

    group: for the others' messages.  missed: for the transactions that it missed.
    copy:  for a copy of another's data.
    """

    group: HeldPort
    missed: HeldPort
    copy: HeldPort

    @classmethod
    def held(cls) -> Ports:
        """Take three; raise LabError if there are none."""
        return cls(HeldPort(), HeldPort(), HeldPort())


def galera_settings(
    names: Sequence[str], number: int, ports: Sequence[Ports], given: Mapping[str, str]
) -> dict[str, str]:
    """Return the settings of one node of a Galera cluster, and over them *given*.

    names, ports: of all nodes.  number: which of them it is, from 1; the first one
    begins the cluster (see servers.galera).  Raise UsageError for a given setting that
    the nodes need to find each other.
    """
    own = ports[number - 1]
    address = f"{_HOST}:{own.group.number}"
    options = {
        "gmcast.listen_addr": f"tcp://{address}",
        "ist.recv_addr": f"{_HOST}:{own.missed.number}",
        "gcache.size": "32M",  # a node is gone for a short time, and drives are small
    }
    begins = {"wsrep_new_cluster": ""} if number == 1 else {}
    asked = {standard_name(name): value for name, value in given.items()}
    ours = {
        "wsrep_cluster_name": "dbcheck",
        "wsrep_cluster_address": "gcomm://"
        + ",".join(f"{_HOST}:{each.group.number}" for each in ports),
        "wsrep_node_name": names[number - 1],
        "wsrep_node_address": address,
        "wsrep_sst_receive_address": f"{_HOST}:{own.copy.number}",
        "server_id": str(number),
        **begins,
    }
    require_undecided(asked, {*ours, "wsrep_new_cluster"}, "a Galera cluster")
    # Of two values of an option Galera takes the later one.
    more = asked.pop(_OPTIONS, "")
    parts = [*(f"{name}={value}" for name, value in options.items()), more]
    return {**ours, _OPTIONS: ";".join(filter(None, parts)), **asked}
