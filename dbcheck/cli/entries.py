"""Finds the host of a command: a name in an inventory, or flags that describe it."""

from __future__ import annotations

from dbcheck.cli.entry_options import EntryOptions, Named
from dbcheck.inventory.entry import Entry
from dbcheck.inventory.load import load


def chosen(named: Named, *described: EntryOptions) -> Entry:
    """Return the host that is named, or that flags describe; raise UsageError if wrong.

    A name is looked up in the inventory; flags that shape the load win over it.
    """
    entry = Entry(name="", target="")
    if named.name:
        for options in described:
            options.require_beside(named.name)
        entry = load(named.inventory).entry(named.name)
    for options in described:
        entry = options.applied(entry)
    return entry
