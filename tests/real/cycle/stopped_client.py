"""A client of one cycle on a lab whose switch is slow, to be stopped while it cuts.

python -m tests.real.cycle.stopped_client LAB FOLDER PORT

PORT, on this machine, leads to the lab's server.  The switch makes the file
FOLDER/asked, and cuts once there is FOLDER/go.
"""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

from sqlalchemy.engine import make_url

from dbcheck.base import interrupt
from dbcheck.cycle.cycle import run_cycle
from dbcheck.cycle.rig import Limits
from dbcheck.engines.registry import open_engine
from dbcheck.lab.lab import Lab
from dbcheck.runner.lab_rig import make_lab_rig
from tests.kit.nodes import with_node
from tests.kit.rigs import SEED, Said, quick
from tests.real.cycle.hold_client import programs

ASKED, GO, RUNS = "asked", "go", "runs"


def main() -> None:
    """Run the cycle to its end, or until an interrupt."""
    name, folder, port = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    interrupt.install_handlers()
    lab = Lab.find(name)
    limits = Limits(silence_s=1, return_s=60)
    rig = make_lab_rig(lab, Said(), folder / RUNS, limits)
    url = make_url(lab.target_url).set(port=port)
    engine = open_engine(url.render_as_string(hide_password=False), lab.password)
    slow = f"import pathlib, time; pathlib.Path({str(folder / ASKED)!r}).touch(); "
    slow += f"go = pathlib.Path({str(folder / GO)!r})\n"
    slow += "while not go.exists(): time.sleep(0.01)\n"
    power = programs(name, 0.5, folder, first=slow)
    with contextlib.closing(rig.witness), contextlib.suppress(KeyboardInterrupt):
        run_cycle(with_node(rig, engine=engine, power=power, host=None), quick(), SEED)


if __name__ == "__main__":
    main()
