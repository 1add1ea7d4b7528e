"""dbcheck run --restore: a server is cut, and its archive restored by an inventory."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest
import yaml  # type: ignore[import-untyped]

from dbcheck.base.processes import make_environment
from dbcheck.model.cut import PowerState
from tests.kit import archive_methods
from tests.kit.archives import Archives, archives_of
from tests.kit.waiting import wait_until

LIMIT_S = 180
COMMAND = (sys.executable, "-m", "dbcheck")


class Drill:
    """A lab whose log is shipped, and an inventory that says how to restore it.

    broken: the restore fails as long as this file is there.  slow: and does not end as
    long as this one is there.
    """

    def __init__(self, archives: Archives) -> None:
        self.archives, folder = archives, archives.folder
        self.broken, self.slow = folder / "broken", folder / "slow"
        settings = archives.archive_settings()
        first = (
            f"test ! -e {self.broken}\nwhile test -e {self.slow}; do sleep 0.1; done\n"
        )
        self.restore = archives.program(f'{first}exec {settings.restore[0]} "$1"\n')
        host = {
            "dbcheck_target": archives.here.lab.target_url,
            "dbcheck_witness": f"file:{folder}/acks",
            "dbcheck_power": "lab",
            "dbcheck_power_lab": archives.here.lab.name,
            "dbcheck_sessions": 4,
            "dbcheck_restore": {
                "restore": list(self.restore),
                "remove": list(settings.remove),
                "target": archives.target,
                "timeout_s": 60,
                "rpo_s": 3,
            },
        }
        self.inventory = folder / "inventory.yml"
        hosts = {"db1": host}
        self.inventory.write_text(yaml.safe_dump({"all": {"hosts": hosts}}))

    def begin(self, *words: str) -> subprocess.Popen[str]:
        """Start dbcheck with this inventory, in the folder."""
        secret = {"DBCHECK_PASSWORD": self.archives.here.lab.password}
        return subprocess.Popen(
            [*COMMAND, *words, "--inventory", str(self.inventory)],
            env={**make_environment(), **secret, "COLUMNS": "200"},
            cwd=self.archives.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def dbcheck(self, *words: str) -> tuple[int, str, str]:
        """Run dbcheck; return its exit code and what it printed."""
        process = self.begin(*words)
        stdout, stderr = process.communicate(timeout=LIMIT_S)
        return process.returncode, stdout, stderr

    def is_restoring(self) -> bool:
        """Return whether the program of the restore runs."""
        return any(self.restore[0] in one for one in self.archives.list_processes())

    def is_on(self) -> bool:
        """Return whether the server has its power."""
        return self.archives.here.rig.site.state() is PowerState.ON


@pytest.fixture(scope="module")
def drill() -> Iterator[Drill]:
    with archives_of(archive_methods.postgresql_archive()) as archives:
        yield Drill(archives)


def test_an_archive_is_restored_and_the_server_gets_its_power_back(
    drill: Drill,
) -> None:
    code, stdout, stderr = drill.dbcheck("run", "db1", "--restore")
    assert code == 0, stderr
    assert "lose at most 3 s" in stdout
    assert "the server stays off until its rows were read elsewhere" in stderr
    assert drill.is_on()
    assert drill.archives.copies == []


@pytest.mark.wide
def test_a_restore_that_failed_can_no_longer_pass(drill: Drill) -> None:
    drill.broken.touch()
    code, _, stderr = drill.dbcheck("run", "db1", "--restore")
    drill.broken.unlink()
    assert code == 4
    assert "[copy-not-restored]" in stderr
    assert "It can only find a loss then, and cannot pass" in stderr
    assert drill.is_on()
    run = max((drill.archives.folder / "runs").iterdir())
    code, stdout, stderr = drill.dbcheck(
        "reconcile", "--name", "db1", f"runs/{run.name}"
    )
    assert code in (1, 3), stderr
    assert "before the copy was restored" in " ".join(stdout.split())


@pytest.mark.wide
def test_ctrl_c_while_it_is_restored_gives_the_server_its_power(drill: Drill) -> None:
    drill.slow.touch()
    process = drill.begin("run", "db1", "--restore")
    try:
        wait_until(drill.is_restoring, "the restore has begun", LIMIT_S)
        assert not drill.is_on()
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=LIMIT_S)
    finally:
        drill.slow.unlink()
        process.kill()
        process.wait()
    assert "dbcheck: interrupted" in stderr
    assert process.returncode == 4
    assert drill.is_on()
    assert not drill.is_restoring()
