"""Labs that are cut by one campaign, some of which have drives that lie."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dbcheck.cli.lab import describe_as_host
from dbcheck.lab.lab import Lab
from dbcheck.lab.spec import DriveSpec, LabSpec
from tests.kit.lab_access import connect
from tests.kit.labs import lab_of

HONEST = LabSpec("postgresql")
LYING = LabSpec("postgresql", drive=DriveSpec(personality="lying", destage_age_s=0.3))
QUICK = """
plan = "insert"
payload_bytes = [128, 1024]
sessions = 2
rate = 300
cut_after_s = [0.6, 1.0]
"""
CRASHED = "database system was not properly shut down"
LOG_LINES = 1_000_000


@dataclass(frozen=True)
class Fleet:
    """Labs, the last *lying* of which have a drive that lies, and their inventory."""

    labs: Sequence[Lab]
    lying: int
    inventory: Path

    @property
    def liars(self) -> set[str]:
        """The names of the labs whose drives lie."""
        return {lab.name for lab in self.labs[len(self.labs) - self.lying :]}

    def crashes(self) -> dict[str, int]:
        """Return how often each server recovered from a crash so far."""
        return {lab.name: lab.server_log(LOG_LINES).count(CRASHED) for lab in self.labs}

    def empty(self) -> None:
        """Drop what earlier campaigns left."""
        for lab in self.labs:
            with contextlib.closing(connect(lab.target_url, lab.password)) as own:
                own.cursor().execute("drop schema if exists dbcheck cascade")
                own.commit()

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start dbcheck campaign."""
        command = [sys.executable, "-m", "dbcheck", "campaign", *words, "--json"]
        command += ["--inventory", str(self.inventory)]
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=-1, stderr=-1, text=True
        )

    def run(self, *words: str) -> tuple[int, dict[str, Any], str]:
        """Run it to its end; return its exit code, each target's result, and stderr."""
        with self.start(*words) as child:
            out, err = child.communicate(timeout=600)
        targets = json.loads(out)["targets"] if out else []
        return child.returncode, {one["name"]: one for one in targets}, err


@contextlib.contextmanager
def fleet(folder: Path, honest: int, lying: int) -> Iterator[Fleet]:
    """Give so many labs of each kind."""
    with contextlib.ExitStack() as stack:
        specs = [HONEST] * honest + [LYING] * lying
        labs = []
        for number, spec in enumerate(specs):
            place = folder / str(number)
            place.mkdir()
            labs.append(stack.enter_context(lab_of(spec, place)))
        workload = folder / "quick.toml"
        workload.write_text(QUICK)
        listed = {
            "all": {
                "hosts": {lab.name: describe_as_host(lab) for lab in labs},
                "vars": {"dbcheck_workload": str(workload)},
            }
        }
        inventory = folder / "inventory.json"
        inventory.write_text(json.dumps(listed))
        yield Fleet(labs, lying, inventory)
