"""What a host shows of drives that are cut alone."""

from __future__ import annotations

from dbcheck.hosts.drives import DriveMount, Survey
from dbcheck.power.scope import make_unit_scope

MOUNT = DriveMount(
    id=40,
    point="/srv",
    inner="/",
    type="xfs",
    options="rw",
    serial="S1",
    nsid="",
    number="1",
    name="sda1",
    device="8:1",
    shown=True,
)
SEEN = Survey(
    root=True,
    drives={"S1": ("sda",)},
    twins=(),
    mounts=(MOUNT,),
    busy=(),
    directory="/srv/data",
    places=("/srv/data", "/srv/data/pg_wal"),
    account=100,
    folder=(2049, 131),
    on_them=True,
    notes_on_them="",
)
SCOPE = make_unit_scope(["S1"], "postgresql")
