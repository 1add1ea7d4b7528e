"""A client and a witness on a system that has POSIX, and nothing of Linux."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dbcheck.base import processes
from dbcheck.lab.lab import Lab, list_missing
from dbcheck.lab.spec import LabSpec
from dbcheck.remote.channel import make_bootstrap
from dbcheck.remote.way import ChildPipe
from dbcheck.witness.window import WindowLimits
from dbcheck.witness.witness import PROGRAM, AgentWitness
from tests.kit.rigs import FAMILIES, LOADS_S, SEED
from tests.kit.witnesses import ack_of, read_back

REMOVAL = Path(__file__).with_name("without_linux.py")
# Sends what is taken away to the witness, too; the target's host keeps its Linux.
SITE = f"""
exec(open({str(REMOVAL)!r}).read())
from dbcheck.remote import channel as _sent
_plain = _sent.build_program
def _without_linux(agent, *parts):
    text = open({str(REMOVAL)!r}, "rb").read() if "witness" in agent else b""
    return text + b"\\n" + _plain(agent, *parts)
_sent.build_program = _without_linux
"""
CLIENT = f"""
import json, os, select, sys
from dataclasses import replace
from pathlib import Path
from dbcheck.cycle.cycle import (run_cycle,)
from dbcheck.cycle.rig import Limits
from dbcheck.runner.lab_rig import make_lab_rig
from dbcheck.lab.lab import Lab
from dbcheck.load.poller import open_poller
from dbcheck.witness.url import open_witness
from tests.kit.nodes import with_node
from tests.kit.rigs import Said, quick

name, witness, folder, processes, load_s = sys.argv[1:]
rig = make_lab_rig(Lab.find(name), Said(), Path(folder) / "runs", Limits(return_s=60))
if witness == "file":
    rig.witness.close()
    there = open_witness(f"file:{{folder}}/acks", volatile=True)
    rig = with_node(replace(rig, witness=there), host=None)
window_s = (float(load_s), float(load_s))
workload = replace(quick(), processes=int(processes), cut_after_s=window_s)
outcome = run_cycle(rig, workload, {SEED})
rig.witness.close()
print(json.dumps([
    outcome.verdict.value, outcome.load.gone.value, sum(outcome.load.acked.values()),
    type(open_poller()).__name__,
    hasattr(os, "eventfd"), os.path.exists("/proc/self/mountinfo"),
]))
"""


@pytest.fixture(scope="module", params=FAMILIES)
def lab(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Lab]:
    """A lab, which needs Linux."""
    spec = LabSpec(request.param, cut="process")
    if lacking := list_missing(spec):
        pytest.skip("; ".join(lacking))
    with Lab.start(spec, tmp_path_factory.mktemp("posix") / "lab") as started:
        yield started


@pytest.mark.wide_with("mariadb", "file-2")
@pytest.mark.parametrize(("witness", "processes"), [("file", 2), ("ssh", 1)])
def test_a_cycle_passes_with_posix_alone(
    lab: Lab, tmp_path: Path, witness: str, processes: int
) -> None:
    (tmp_path / "sitecustomize.py").write_text(SITE)
    for load_s in LOADS_S:
        words = [lab.name, witness, str(tmp_path), str(processes), str(load_s)]
        done = subprocess.run(
            [sys.executable, "-c", CLIENT, *words],
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path]),
            },
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        verdict, gone, acked, poller, eventfd, proc = json.loads(done.stdout)
        if acked > 100:
            break
        assert verdict != "FAIL"
    assert (verdict, gone) == ("PASS", "broken")
    assert acked > 100
    assert (poller, eventfd, proc) == ("SelectorPoller", False, False)


class PosixWitness(AgentWitness):
    """A witness on this host, from whose agent all but POSIX is taken."""

    kind = "file"

    def _open_pipe(self) -> ChildPipe:
        first = f"exec(open({str(REMOVAL)!r}).read());"
        return ChildPipe(
            processes.make_standalone_command(first + make_bootstrap(len(PROGRAM)))
        )


def test_an_agent_needs_posix_alone(tmp_path: Path) -> None:
    """On a disk: what the folder's filesystem is must be known there, too."""
    folder = str(tmp_path / "acks")
    witness = PosixWitness("file:", folder, WindowLimits(), volatile=False)
    with contextlib.closing(witness):
        facts = witness.facts()
        assert (facts.machine_id != "", facts.boot_id) == (True, "")
        assert facts.filesystem
        acks = [ack_of(1, seq) for seq in range(1, 1000)]
        log = witness.create("run", b"{}")
        for ack in acks:
            log.append(ack)
        mark = log.close()
        assert read_back(witness, "run", mark)[0] == acks
        assert witness.runs() == ["run"]
        witness.remove("run")
        assert witness.runs() == []
