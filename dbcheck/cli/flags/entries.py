"""Finds the host of a command: a name in an inventory, or flags that describe it."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TypeVar

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.cli.flags.target import EntryOptions, InventoryOptions, Named
from dbcheck.inventory.entry import Entry
from dbcheck.inventory.load import Inventory, load_inventory
from dbcheck.runner.placement import place_entry

T = TypeVar("T")

HOSTS_AT_ONCE = 32


def find_entry(
    named: Named,
    *described: EntryOptions,
    clusters: bool = False,
    placed: bool = True,
) -> Entry:
    """Return the host that is named, or that flags describe; raise UsageError if wrong.

    A name is looked up in the inventory; flags that shape the load win over it.
    clusters: the name may be that of a group that is a cluster.  placed: find the node
    of a target that runs on Kubernetes; raise HostError if that fails.
    """
    entry = Entry(name="", target="")
    if named.name:
        for options in described:
            options.require_beside(named.name)
        inventory = load_inventory(named.inventory)
        entry = _find_named(inventory, named.name, clusters=clusters)
        if placed:
            entry = place_entry(inventory, entry, clusters=clusters)
    for options in described:
        entry = options.applied(entry)
    return entry


def _find_named(inventory: Inventory, name: str, *, clusters: bool) -> Entry:
    if not inventory.is_cluster(name):
        return inventory.entry(name)
    if clusters:
        return inventory.cluster(name)
    raise UsageError(
        f"{name} is a cluster, and this command is for one host",
        id=ErrorId.ONE_HOST_NEEDED,
        hint="Name one of its hosts.",
    )


def find_entries(
    names: Sequence[str],
    lookup: InventoryOptions,
    described: Sequence[EntryOptions],
    *,
    everything: bool,
) -> list[Entry]:
    """Return the hosts that are named, all of them, or the one that flags describe.

    The nodes of those that run on Kubernetes are not looked up.
    Raise UsageError if that is nothing, or wrong.
    """
    if names or everything:
        for group in described:
            group.require_beside(names[0] if names else "--all")
        found = load_inventory(lookup.inventory)
        wanted = found.targets() if everything else names
        return [found.entry(name) for name in dict.fromkeys(wanted)]
    entry = Entry(name="", target="")
    for group in described:
        entry = group.applied(entry)
    if not entry.target:
        raise UsageError(
            "neither a NAME nor --target is given",
            id=ErrorId.TARGET_MISSING,
            hint="Name hosts of an inventory (dbcheck init writes one), or a URL.",
        )
    return [entry]


def run_at_once(work: Callable[[Entry], T], entries: Sequence[Entry]) -> tuple[T, ...]:
    """Return the results of *work* on each of the hosts, many at once.

    The threads are not waited for after an interrupt: of hosts that do not answer, one
    would keep the command for a minute.  What they have open ends with the process.
    """
    waiting = deque((entry, Future[T]()) for entry in entries)
    found = [future for _, future in waiting]

    def work_on() -> None:
        while True:
            try:
                entry, future = waiting.popleft()
            except IndexError:
                return
            try:
                future.set_result(work(entry))
            except BaseException as error:
                future.set_exception(error)

    for _ in range(min(HOSTS_AT_ONCE, len(entries))):
        threading.Thread(target=work_on, name="host", daemon=True).start()
    return tuple(future.result() for future in found)
