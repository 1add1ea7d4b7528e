"""A campaign of one cut on a lab whose switch is three programs, to be ended in it.

python -m tests.real.cycle.hold_client LAB FOLDER OFF_S
"""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

from dbcheck.base import interrupt
from dbcheck.campaign.campaign import run_campaign
from dbcheck.campaign.folder import CampaignFolder
from dbcheck.cycle.rig import Limits
from dbcheck.lab.lab import Lab
from dbcheck.lab.switch import LabSwitch
from dbcheck.model.cut import CutClass, PowerState
from dbcheck.power.kinds.exec import ExecConfig, ExecSwitch
from dbcheck.runner.lab_rig import make_lab_rig
from tests.kit.nodes import with_node
from tests.kit.rigs import Said


def programs(
    lab: str,
    off_s: float,
    folder: Path,
    declared: CutClass | None = None,
    first: str = "",
) -> ExecSwitch:
    """Return a switch of the lab's power that is programs of a user's.

    They note in a file of *folder* what they did.  The state command only reads that
    file: a slow one would leave it uncertain when the power went.
    first: what the cut does first, in Python.
    """
    noted = folder / "power"
    noted.write_text("off" if LabSwitch(lab).state() is PowerState.OFF else "on")

    def python(done: str, state: str) -> tuple[str, ...]:
        use = f"from dbcheck.lab.switch import LabSwitch; LabSwitch({lab!r}).{done}(); "
        return (
            sys.executable,
            "-c",
            use + f"open({str(noted)!r}, 'w').write('{state}')",
        )

    cut = python("cut", "off")
    return ExecSwitch(
        ExecConfig(
            cut=(*cut[:-1], first + cut[-1]),
            restore=python("restore", "on"),
            state=("cat", str(noted)),
            off_s=off_s,
            declared=declared,
        )
    )


def main() -> None:
    """Run the campaign in FOLDER to its end."""
    name, folder, off_s = sys.argv[1:]
    interrupt.install_handlers()
    campaign = CampaignFolder.open(Path(folder))
    rig = make_lab_rig(Lab.find(name), Said(), campaign.runs, Limits(return_s=60))
    power = programs(name, float(off_s), campaign.path.parent)
    with contextlib.closing(rig.witness), contextlib.suppress(KeyboardInterrupt):
        run_campaign(with_node(rig, power=power), campaign)


if __name__ == "__main__":
    main()
