"""Runs cycles in a lab whose server is copied, and reads the copy, restored beside it.

A copy is taken under load, or a point of the log is read, and no power is cut; or the
power is cut, and what the lost server had shipped by then is restored.
"""

from __future__ import annotations

import contextlib
import secrets
import tempfile
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.cycle.copying import require_copyable, run_copied_cycle
from dbcheck.cycle.cycle import run_cycle
from dbcheck.cycle.outcome import Outcome
from dbcheck.cycle.rig import Limits, Rig
from dbcheck.engines.registry import open_engine
from dbcheck.hosts.host import open_host
from dbcheck.hosts.volumes import CopiedFolder, VolumesOfHost
from dbcheck.lab.copies import LabCopies
from dbcheck.lab.lab import Lab
from dbcheck.lab.machine import SERVERS
from dbcheck.lab.restoring.registry import choose_method, require_programs
from dbcheck.lab.spec import LabSpec
from dbcheck.model.cut import LabCut
from dbcheck.ports.listener import Phase
from dbcheck.ports.site import Copying, Node
from dbcheck.power.kinds.manual import ManualConfig
from dbcheck.report.progress import PlainProgress
from dbcheck.rows.workload import Workload
from dbcheck.runner.lab_cycles import LIMITS, describe_lab
from dbcheck.runner.lab_rig import make_lab_rig
from dbcheck.site.single import SingleServer


def require_restorable(spec: LabSpec, method: str, workload: Workload) -> None:
    """Raise an error if no such lab can have its server copied by *method*.

    Raise LabError if a program is not installed here, else as require_copied_lab().
    """
    require_copied_lab(spec, method, workload)
    require_programs(choose_method(method, spec.engine), SERVERS[spec.engine])


def require_copied_lab(spec: LabSpec, method: str, workload: Workload) -> None:
    """Raise UsageError if the copies of such a lab's server cannot be judged.

    No server of that kind has the method, a container or a log drive keeps files of the
    server elsewhere, the method copies drives that the lab has not, or the workload is
    not judged on copies.
    """
    chosen = choose_method(method, spec.engine)
    _require_drives(spec, method, chosen.drives_min)
    if spec.contained or (spec.log_drive and not chosen.drives_min):
        flag = "--container" if spec.contained else "--log-drive"
        raise UsageError(
            f"--restore cannot be used with {flag}",
            id=ErrorId.OPTIONS_CONFLICT,
            hint="Leave one of them out: the copy must find all files of the server in"
            " one folder of this machine.",
        )
    require_copyable(workload)


def _require_drives(spec: LabSpec, method: str, wanted: int) -> None:
    """Raise UsageError unless the lab has so many drives for *method*."""
    if wanted and spec.cut != LabCut.DRIVE.value:
        raise UsageError(
            f"--restore {method} copies virtual drives, and --cut {spec.cut} has none",
            id=ErrorId.DRIVE_CUT_NEEDED,
            hint="Leave --cut out, or give --cut drive.",
        )
    if wanted > 1 and not spec.log_drive:
        raise UsageError(
            f"--restore {method} needs two drives, and this lab has one",
            id=ErrorId.OPTIONS_CONFLICT,
            hint="Give --log-drive, too.",
        )


def run_restore_cycles(
    spec: LabSpec,
    method: str,
    workload: Workload,
    seed: int,
    cycles: int,
    progress: PlainProgress,
    runs: Path,
    limits: Limits = LIMITS,
) -> Generator[Outcome, None, None]:
    """Yield the outcome of each of *cycles* cycles in one lab; cycle n has seed + n.

    Raise as require_restorable() does before anything is started, and EngineError if a
    copy cannot be taken or restored.
    """
    require_restorable(spec, method, workload)
    chosen = choose_method(method, spec.engine)
    spec = replace(spec, settings={**chosen.settings, **spec.settings})
    run = run_copied_cycle if chosen.rpo_s is None else run_cycle
    progress.phase(Phase.LAB, f"{describe_lab(spec)}, copied by {method}")
    # The lab makes and removes this folder itself, see run_lab_cycles().
    folder = Path(tempfile.gettempdir(), f"dbcheck-lab-{secrets.token_hex(4)}")
    with Lab.start(spec, folder) as lab:
        rig = make_restoring_rig(lab, method, progress, runs, limits)
        with contextlib.closing(rig.witness):
            for number in range(cycles):
                if number:
                    lab.resume_shipping()
                yield run(rig, workload, seed + number)


def make_restoring_rig(
    lab: Lab, method: str, progress: PlainProgress, runs: Path, limits: Limits
) -> Rig:
    """Return the rig of *lab* that has its server copied, and reads the copy.

    Its host is not asked what it shows of a cut, which is of no use here.  Where drives
    are copied, it shows whether that was at one moment.
    """
    rig = make_lab_rig(lab, progress, runs, limits)
    copies = LabCopies(lab, method)
    chosen = choose_method(method, lab.spec.engine)
    engine = open_engine(copies.restored_url, lab.password)
    node = Node(engine, ManualConfig().open(None, lambda _text: None))
    copying = Copying(
        *(copies, SingleServer(node), chosen.rpo_s), lasts=False, until=chosen.until
    )
    folders = [CopiedFolder(*each) for each in lab.copied_folders()]
    if folders:
        host = open_host(lab.host_url, lab.ssh)
        volumes = VolumesOfHost(host, folders, host)
        copying = replace(copying, volumes=volumes)
    return replace(
        rig,
        site=rig.site.with_writer(replace(rig.site.writer, host=None)),
        copying=copying,
        used_epochs=set(),  # no other command uses this lab's server
    )
