"""An inventory of a database in pods, and of the hosts that are their nodes."""

from __future__ import annotations

from pathlib import Path

from dbcheck.inventory.entry import Entry
from dbcheck.inventory.load import load_inventory
from dbcheck.runner.placement import place_entry
from tests.kit.kubernetes.api import StandInApi
from tests.kit.kubernetes.database import put_database

INVENTORY = """\
all:
  hosts:
    orders:
      dbcheck_kubernetes:
        kubeconfig: {kubeconfig}
        namespace: prod
        selector: app={{{{ inventory_hostname }}}}
      dbcheck_target: postgresql+psycopg2://dbcheck@orders.prod.svc/app
      dbcheck_witness: ssh://witness@witness.example.net/~/acks
{more}
  children:
    workers:
      vars:
        ansible_user: root
        dbcheck_power: exec
        dbcheck_power_state: [cat, "{folder}/{{{{ outlet }}}}"]
        dbcheck_power_cut: [cut, "{{{{ outlet }}}}"]
        dbcheck_power_restore: [sh, -c, 'echo on > "$0"', "{folder}/{{{{ outlet }}}}"]
        dbcheck_power_off_s: 1
      hosts:
        worker-1:
          outlet: a
        second:
          dbcheck_kubernetes_node: worker-2
          ansible_host: 192.0.2.7
          dbcheck_expect_serial: ABC
          outlet: b
        worker-3:
          outlet: {third}
"""
ROLES = [
    {"cnpg.io/cluster": "orders", "cnpg.io/instanceRole": role}
    for role in ("replica", "primary", "replica")
]


def write(api: StandInApi, folder: Path, *more: str, third: str = "c") -> Path:
    values = {"kubeconfig": api.kubeconfig(folder), "folder": folder, "third": third}
    lines = "".join(f"      {line}\n" for line in more)
    path = folder / "inventory.yml"
    path.write_text(INVENTORY.format(more=lines, **values))
    return path


def place(path: Path, *, clusters: bool = False) -> Entry:
    inventory = load_inventory(path)
    return place_entry(inventory, inventory.entry("orders"), clusters=clusters)


def cluster(api: StandInApi, folder: Path, *more: str) -> Path:
    put_database(api.store, ["worker-1", "worker-2", "worker-3"], ROLES)
    return write(api, folder, "dbcheck_topology: streaming", *more)
