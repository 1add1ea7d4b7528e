"""The hosts that run the pods of Kubernetes: SSH and a switch, without a server."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dbcheck.base.error_ids import ErrorId
from dbcheck.inventory.entry import EXPECT, NODE, TYPES_OF_OTHERS, Entry
from dbcheck.inventory.fields import Fields
from dbcheck.inventory.reaching import read_host
from dbcheck.model.cut import PowerScope
from dbcheck.model.host import Expected
from dbcheck.model.pods import Pod
from dbcheck.power import registry, scope
from dbcheck.power.kinds.config import SwitchConfig
from dbcheck.remote.address import SshOptions


@dataclass(frozen=True, slots=True)
class Machine:
    """A host of the inventory that has no dbcheck_target.

    name: in the inventory.  node: the name that Kubernetes has for it.
    host, host_options, power, expected: see inventory.entry.Entry.
    """

    name: str
    node: str
    host: str
    host_options: SshOptions
    power: SwitchConfig
    expected: Expected


def read_node_name(fields: Fields) -> str:
    """Return the name that Kubernetes has for the host of *fields*."""
    name: str = fields.value(NODE, TYPES_OF_OTHERS[NODE], fields.host)
    return name


def parse_machine(fields: Fields) -> Machine:
    """Return the host that *fields* describe; raise UsageError naming the key."""
    if fields.value(scope.SCOPE, str, "") == PowerScope.DRIVE.value:
        raise fields.error(
            scope.SCOPE,
            "cannot be 'drive': the server runs in a container",
            id=ErrorId.CONTAINER_ON_CUT_DRIVE,
            hint="Cut the host: remove it.",
        )
    host, host_options = read_host(fields)
    return Machine(
        fields.host,
        read_node_name(fields),
        host,
        host_options,
        registry.read_switch_config(fields),
        fields.read(Expected, EXPECT),
    )


def place_on_machine(entry: Entry, machine: Machine, pod: Pod | None) -> Entry:
    """Return *entry* with the machine's SSH and switch.

    pod: the one that has the server.  The machine must be the one whose id the kubelet
    of the pod's node reports, unless the inventory has another id for it.
    """
    expected = machine.expected
    if pod is not None and not expected.machine_id:
        expected = replace(expected, machine_id=pod.machine_id)
    return replace(
        entry,
        host=machine.host,
        host_options=machine.host_options,
        power=machine.power,
        expected=expected,
        machine=machine.name,
    )
