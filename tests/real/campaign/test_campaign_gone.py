"""Campaigns whose server, or whose host, does not come back from a cut."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from dbcheck.base.errors import Unrecoverable
from dbcheck.cli import FAIL, FAILED, PASS
from dbcheck.lab.spec import LabSpec
from dbcheck.lab.ssh.sshd import Sshd
from dbcheck.lab.switch import LabSwitch
from tests.kit.proxy import PASS_ON, Proxy
from tests.kit.rigs import bench
from tests.kit.server_logs import LOGS, SAYS
from tests.kit.servers import NewServer

SWITCH = (
    "echo {to} > {folder}/wanted; until grep -q {to} {folder}/state; do sleep .05; done"
)
QUICK = 'plan = "insert"\npayload_bytes = [200]\ncut_after_s = [0.6, 0.8]\n'


class Outlet:
    """A power outlet that programs switch; what it does is the test's."""

    def __init__(
        self, folder: Path, cut: Callable[[], object], restore: Callable[[], object]
    ) -> None:
        self.folder = folder
        self._does = {"off": cut, "on": restore}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        for name in ("wanted", "state"):
            (folder / name).write_text("on")
        (folder / "boots").write_text("0")

    def booted(self) -> None:
        """Let the host have booted once more."""
        boots = self.folder / "boots"
        boots.write_text(str(int(boots.read_text()) + 1))

    def fields(self) -> dict[str, Any]:
        """Return what an inventory says of it."""
        programs = {
            name: ["sh", "-c", SWITCH.format(to=to, folder=self.folder)]
            for name, to in (("cut", "off"), ("restore", "on"))
        }
        return {
            "dbcheck_power": "exec",
            "dbcheck_power_state": ["cat", str(self.folder / "state")],
            **{f"dbcheck_power_{name}": words for name, words in programs.items()},
            "dbcheck_power_off_s": 1,
        }

    def __enter__(self) -> Outlet:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        state = "on"
        while not self._ended.wait(0.02):
            wanted = (self.folder / "wanted").read_text().strip()
            if wanted in self._does and wanted != state:
                self._does[wanted]()
                state = wanted
                (self.folder / "state").write_text(state)


class Operator:
    """Somebody with an inventory of one host."""

    def __init__(self, folder: Path, host: Mapping[str, Any], password: str) -> None:
        self.folder = folder
        (folder / "quick.toml").write_text(QUICK)
        known = {
            "dbcheck_password_env": "THE_PASSWORD",
            "dbcheck_witness": f"file:{folder}/witness",
            "dbcheck_workload": "quick.toml",
            "dbcheck_sessions": 3,
            "dbcheck_wait_s": 2,
            "ansible_host": "127.0.0.1",
        }
        hosts = {"all": {"hosts": {"db1": {**known, **host}}}}
        (folder / "inventory.yml").write_text(json.dumps(hosts))
        self._environment = os.environ | {
            "THE_PASSWORD": password,
            "XDG_STATE_HOME": str(folder / "state_home"),
        }

    def run(self, *words: str, code: int) -> Any:
        """Run dbcheck; return what it prints as JSON."""
        done = subprocess.run(
            (
                *(
                    sys.executable,
                    "-m",
                    "tests.real.campaign.far_client",
                    str(self.folder),
                ),
                *(*words, "--json"),
            ),
            env=self._environment | {"PYTHONPATH": str(Path.cwd())},
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return json.loads(done.stdout) if done.stdout else done.stderr

    def campaign(self, *words: str, code: int) -> Any:
        """Run dbcheck campaign; return what it shows of the one target."""
        shown = self.run("campaign", *words, "--yes", code=code)
        return shown["targets"][0] if isinstance(shown, dict) else shown


@pytest.fixture
def sshd(tmp_path: Path) -> Iterator[Sshd]:
    """The host's way in."""
    server = Sshd(tmp_path / "sshd")
    server.start()
    (tmp_path / "known_hosts").write_text(server.known_hosts.read_text())
    yield server
    server.close()


def reached_by(sshd_port: int, user: str, key: Path) -> dict[str, Any]:
    return {
        "ansible_port": sshd_port,
        "ansible_user": user,
        "ansible_ssh_private_key_file": str(key),
    }


def test_a_server_that_the_cut_destroyed_ends_the_campaign(
    tmp_path: Path, new_server: NewServer, sshd: Sshd
) -> None:
    server = new_server("postgresql")
    server.start()

    def cut() -> None:
        server.kill()
        sshd.close()
        for path in server.data.glob(LOGS["postgresql"]):
            path.write_bytes(os.urandom(path.stat().st_size))

    def restore() -> None:
        outlet.booted()
        with contextlib.suppress(Unrecoverable):
            server.start(20)
        sshd._launch(sshd._command())
        assert sshd._wait_until_ready()

    with Outlet(tmp_path, cut, restore) as outlet:
        operator = Operator(
            tmp_path,
            {
                "dbcheck_target": server.url,
                "dbcheck_server_log": str(server.log_file),
                **reached_by(sshd.port, sshd.user, sshd.identity_file),
                **outlet.fields(),
            },
            server.password,
        )
        folder = str(tmp_path / "campaign")
        shown = operator.campaign("db1", "--cuts", "3", "--folder", folder, code=FAIL)
        assert (shown["verdict"], shown["statistics"]["losses"]) == ("FAIL", 1)
        assert shown["finished"]
        (cycle,) = shown["cycles"]
        assert cycle["reason"].startswith("the server did not come back")
        assert SAYS["postgresql"] in cycle["reason"]
        # It is over: nothing more is cut.
        again = operator.campaign("--resume", folder, code=FAIL)
        assert again["cycles"] == shown["cycles"]
        run = f"{folder}/runs/{cycle['run']}"
        offline = operator.run("reconcile", run, "--offline", code=FAIL)
        assert offline["reasons"][0] == cycle["reason"]
        assert offline["final"]
        server.kill()


@pytest.mark.wide
@pytest.mark.root
def test_a_host_that_does_not_come_back_is_waited_for(tmp_path: Path) -> None:
    """Its power is back, but it does not boot until somebody looks after it."""
    with bench(LabSpec("postgresql", filesystem="ext4"), tmp_path) as here:
        lab = here.lab
        far = lab.host_url.rpartition(":")[2]
        with Proxy(int(far), lambda _: PASS_ON) as proxy:
            known = lab.known_hosts.read_text().replace(f":{far}", f":{proxy.port}")
            (tmp_path / "known_hosts").write_text(known)

            def cut() -> None:
                LabSwitch(lab.name).cut()
                proxy.kill()

            with Outlet(tmp_path, cut, lambda: None) as outlet:
                user = lab.host_url.partition("://")[2].partition("@")[0]
                operator = Operator(
                    tmp_path,
                    {
                        "dbcheck_target": lab.target_url,
                        "dbcheck_server_log": lab.log_path,
                        **reached_by(proxy.port, user, lab.identity_file),
                        **outlet.fields(),
                    },
                    lab.password,
                )
                folder = tmp_path / "campaign"
                words = ("db1", "--cuts", "1", "--folder", str(folder))
                said = operator.campaign(*words, code=FAILED)
                assert "its host does not answer either" in said
                assert f"dbcheck campaign --resume {folder}" in said
                (run,) = (folder / "runs").iterdir()
                verdict = json.loads((run / "verdict.json").read_text())
                assert (verdict["verdict"], verdict["final"]) == ("INCONCLUSIVE", False)
                assert "its host does not answer either" in verdict["reasons"][0]

                LabSwitch(lab.name).restore()
                outlet.booted()
                proxy.start()
                shown = operator.campaign("--resume", str(folder), code=PASS)
                assert (shown["verdict"], shown["statistics"]["cuts"]) == ("PASS", 1)
                (cycle,) = shown["cycles"]
                assert cycle["run"] == run.name
                assert cycle["settled"]
