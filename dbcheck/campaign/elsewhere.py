"""Brings back the nodes that stayed off, once the rows were read, and reads them too.

It decides nothing: a commit that the node which took over lacks is lost to its clients,
wherever else it lies.  But it shows whether it can be had back, and which rows the old
writer would serve that no other node has.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import replace

from dbcheck import interrupt
from dbcheck.campaign.host import ask_host
from dbcheck.campaign.rig import Rig
from dbcheck.campaign.rowstore import RowStore
from dbcheck.campaign.survivors import bounded
from dbcheck.error_ids import ErrorId
from dbcheck.errors import EngineError, PowerError
from dbcheck.model.cluster import SiteKind
from dbcheck.model.records import AfterRecord, Elsewhere, Manifest, NodeAfter
from dbcheck.ports.listener import Phase
from dbcheck.ports.site import Node
from dbcheck.rows.survivors import Records
from dbcheck.rows.table import LEDGER
from dbcheck.runs import RunFolder

POLL_S = 0.2
_STAYS_OFF = (
    "{} stays off: it must rejoin {}, and may hold commits that no other node has. Keep"
    " its clients away when you restore its power"
)


def stays_off(names: Iterable[str], kind: SiteKind) -> str:
    """Return what a user must know of the nodes that get no power back.

    A writer that is started as it is splits a cluster whose nodes follow one another.
    """
    way = "the cluster" if kind.is_group else "as a standby"
    return _STAYS_OFF.format(", ".join(sorted(names)), way)


def read_elsewhere(
    rig: Rig, run: RunFolder, manifest: Manifest, after: AfterRecord
) -> AfterRecord:
    """Return *after*, which is stored, with what the nodes hold that were away.

    The site must be one that brings them back.
    """
    site = rig.site
    if after.facts is None:
        return after
    names = ", ".join(sorted(site.away))
    rig.listener.phase(Phase.RESTORE, f"{names}, by itself: to see what is left there")
    found, nodes = {}, dict(after.nodes)
    try:
        site.bring_back()
    except PowerError as error:
        failed = {name: Elsewhere(failure=str(error)) for name in site.away}
        return replace(after, elsewhere=failed)
    for name in sorted(site.away):
        node = site.nodes[name]
        try:
            found[name] = _read(rig, run, manifest, name, node)
        except EngineError as error:
            found[name] = Elsewhere(failure=str(error))
        host = ask_host(node, rig.listener, manifest.nodes[name])
        nodes[name] = NodeAfter(None, host)
    return replace(after, elsewhere=found, nodes=nodes)


def _read(
    rig: Rig, run: RunFolder, manifest: Manifest, name: str, node: Node
) -> Elsewhere:
    """Store the markers on a node; raise EngineError."""
    if LEDGER not in manifest.plan().tables:
        return Elsewhere(failure="the rows of this workload have no keys")
    _wait(rig, node)
    rows = run.write_elsewhere(name, LEDGER.name, _markers(run, manifest, node))
    return Elsewhere(rows)


def _markers(run: RowStore, manifest: Manifest, node: Node) -> Iterator[Records]:
    load, before = run.load(), manifest.tables[LEDGER.name]
    most = sum(before.rows_by_epoch.values())
    most += sum(load.sent.values()) if load else 0
    inspector, facts = manifest.plan().inspector(LEDGER), node.engine.facts()
    for _, batch in bounded(node.engine, (LEDGER,), facts, most):
        records, _ = inspector.inspect(batch)
        yield records[records["epoch"] == manifest.epoch]


def _wait(rig: Rig, node: Node) -> None:
    """Return once the node takes queries; raise EngineError if it does not in time."""
    ends_s = time.monotonic() + rig.limits.return_s
    while (reason := node.engine.ready()) is not None:
        interrupt.require_none()
        if time.monotonic() >= ends_s:
            raise EngineError(reason, id=ErrorId.SERVER_NOT_BACK)
        time.sleep(POLL_S)
