"""A campaign of a fleet on a lab of its own, which starts with it and ends with it.

As a preload of a Dask worker it makes that worker run campaigns so; as a program it is
the process of one campaign: python -m tools.bench.fleet_rig FD.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

from distributed import Worker as DaskWorker

from dbcheck.base.processes import Channel
from dbcheck.cli.lab import describe_as_host
from dbcheck.fleet import task
from dbcheck.inventory.load import make_inventory
from dbcheck.lab.lab import Lab
from dbcheck.lab.spec import LabSpec
from dbcheck.runner import campaign_child

SPEC = LabSpec("postgresql", cut="process")


def dask_setup(_: DaskWorker) -> None:
    """Make a worker run campaigns by this module."""
    task.CHILD = "tools.bench.fleet_rig"


def main() -> None:
    """Run one campaign on a new lab."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Lab.start(SPEC, Path(folder, "lab")) as lab,
    ):

        class OnLab(campaign_child.Worker):
            """Gives the job the lab for its target."""

            def __init__(self, channel: Channel) -> None:
                super().__init__(channel)
                listed = make_inventory(Path("lab"), {lab.name: describe_as_host(lab)})
                self.job = replace(self.job, entry=listed.entry(lab.name))

        vars(campaign_child).update(Worker=OnLab)
        campaign_child.main()


if __name__ == "__main__":
    main()
