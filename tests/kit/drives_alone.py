"""What a host shows of drives that are cut alone, and what a client keeps of it."""

from __future__ import annotations

from dataclasses import dataclass

from dbcheck.errors import RunWriteError
from dbcheck.hosts.drives import DriveMount, Survey
from dbcheck.power.scope import of_unit

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
    mounts=(MOUNT,),
    busy=(),
    directory="/srv/data",
    places=("/srv/data", "/srv/data/pg_wal"),
    account=100,
    on_them=True,
)
SCOPE = of_unit(["S1"], "postgresql")


@dataclass
class Kept:
    """What another process would find (power.driveonly.Memo); full: no room for it."""

    seen: Survey | None = None
    full: bool = False

    def save(self, seen: Survey) -> None:
        if self.full:
            raise RunWriteError("no space left")
        self.seen = seen

    def read(self) -> Survey | None:
        return self.seen

    def forget(self) -> None:
        self.seen = None
