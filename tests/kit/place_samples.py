"""A host with two volumes, and what canaries left on them at each depth."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dbcheck.model.depth import Completed, Counted, Depth, Remains, Ring
from dbcheck.model.host import HostAfter
from tests.kit.host_samples import FACTS as HOST
from tests.kit.host_samples import VOLUME

DATA = replace(VOLUME, places={"data": "/d", "undo": "/d/u"})

WAL = replace(
    VOLUME,
    places={"WAL": "/wal"},
    filesystem_uuid="u2",
    drives=(replace(VOLUME.drives[0], name="sdb", serial="s2"),),
)

TWO = replace(HOST, volumes=(DATA, WAL))
DONE = Completed(Counted(50, 10), (Counted(50, 10),))
KEPT = Remains("", ((1, 50),), 1, (Ring(((1, 50),)),), 100)
GONE = replace(KEPT, missing="nothing is there")

LEFT: dict[Depth | None, Remains] = {
    Depth.PROCESS: KEPT,
    Depth.OS: replace(KEPT, buffered=()),
    Depth.DRIVE: replace(KEPT, buffered=(), rings=(Ring(((1, 40),)),)),
    None: GONE,
}


def after(data: Remains, *others: Remains | None, facts: Any = TWO) -> HostAfter:
    return HostAfter(replace(facts, boot_id="b2"), data, None, "", others)
