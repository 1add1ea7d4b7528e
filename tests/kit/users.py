"""A person at a shell, who runs dbcheck as a program."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pytest

from dbcheck.lab.lab import Lab, list_missing
from dbcheck.lab.spec import LabSpec
from tests.kit.rigs import FAMILIES

PLANTED = "planted"
DBCHECK = (sys.executable, "-m", "dbcheck")
QUICK = 'plan = "insert"\npayload_bytes = [200]\nsessions = 4\ncut_after_s = [{}, {}]\n'


def run_dbcheck(folder: Path, *words: str | Path) -> tuple[int, str]:
    """Run a command in *folder* to its end; return its exit code and what it said.

    The password that it is given is PLANTED.
    """
    done = subprocess.run(
        (*DBCHECK, *map(str, words)),
        cwd=folder,
        env=os.environ | {"DBCHECK_PASSWORD": PLANTED},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "Traceback" not in done.stderr
    return done.returncode, done.stderr


class User:
    """Somebody at a shell, with a lab that is up and an empty folder."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self.lab, self.folder = lab, folder
        self.environment = os.environ | {"DBCHECK_PASSWORD": lab.password}
        self.workload(1.2)

    @property
    def witness(self) -> list[str]:
        lab = self.lab
        return [
            *("--witness", lab.witness_url),
            *("--identity", str(lab.identity_file)),
            *("--known-hosts", str(lab.known_hosts)),
        ]

    @property
    def rig(self) -> list[str]:
        power = ["--power", f"lab:{self.lab.name}", "--workload", "quick.toml"]
        return ["--target", self.lab.target_url, *self.witness, *power]

    def workload(self, cut_after_s: float) -> None:
        text = QUICK.format(cut_after_s, cut_after_s)
        (self.folder / "quick.toml").write_text(text)

    def start(
        self, *words: str, stdout: int | IO[bytes] = subprocess.PIPE
    ) -> subprocess.Popen[str]:
        return self._started((*DBCHECK, *words), stdout)

    def start_by_hand(
        self, *flags: str, off_s: float, first: str = "pass"
    ) -> subprocess.Popen[str]:
        """Start a run that asks a person to cut; the lab plays another host.

        off_s: seconds without power that the person is asked for.
        first: a statement that its process executes before all else.
        """
        script = (
            "from dbcheck.cycle.preflight import before_load;"
            "from dbcheck.cli import main; from dbcheck.cli.flags import power;"
            "before_load.require_independent = lambda *_: 'the test says so';"
            "plan = power.ManualConfig;"
            f"power.ManualConfig = lambda declared: plan({off_s}, declared);"
            f"{first};"
            "main()"
        )
        words = ["run", *self.rig, "--json", *flags]
        words[words.index("--power") + 1] = "manual"
        return self._started((sys.executable, "-c", script, *words), subprocess.PIPE)

    def cut_by_hand(self, client: subprocess.Popen[str]) -> str:
        """Cut and restore as the client asks; return what it says meanwhile."""
        self.lab.freeze_server()  # to its clients, what a power cut is: silence
        said = said_until(client, "restore")
        switch = self.lab.switch()
        switch.cut()
        switch.restore()
        return said

    def _started(
        self, command: tuple[str, ...], stdout: int | IO[bytes]
    ) -> subprocess.Popen[str]:
        return subprocess.Popen(
            command,
            cwd=self.folder,
            env=self.environment,
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *words: str, code: int) -> str:
        done = self.start(*words)
        out, err = done.communicate(timeout=120)
        assert done.returncode == code, out + err
        assert "Traceback" not in err
        assert self.lab.password not in out + err
        return out

    def json(self, *words: str, code: int) -> Any:
        return json.loads(self.run(*words, "--json", code=code))


def said_until(client: subprocess.Popen[str], word: str) -> str:
    """Return what the client says, up to the line that holds *word*."""
    assert client.stderr is not None
    said = ""
    for line in client.stderr:
        said += line
        if word in line:
            return said
    raise AssertionError(said)


@pytest.fixture(params=FAMILIES)
def user(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[User]:
    """A user whose lab has no drive."""
    spec = LabSpec(request.param, cut="process")
    if lacking := list_missing(spec):
        pytest.skip("; ".join(lacking))
    with Lab.start(spec, tmp_path / "lab") as lab:
        yield User(lab, tmp_path)


def user_of(engine: str) -> pytest.MarkDecorator:
    """Run a test on this server alone: what it shows does not depend on the server."""
    return pytest.mark.parametrize("user", [engine], indirect=True)
