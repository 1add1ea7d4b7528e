"""dbcheck power, and the interlocks that also guard dbcheck run."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from dbcheck.cli import FAILED, USAGE
from dbcheck.lab.servers.base import DatabaseServer
from dbcheck.lab.spec import DriveSpec, LabSpec
from tests.kit.lab_access import connect
from tests.kit.rigs import bench
from tests.kit.servers import engine_of
from tests.kit.waiting import wait_until

INVENTORY = """\
all:
  vars:
    dbcheck_password_env: THE_PASSWORD
    dbcheck_witness: file:{folder}/acks
    dbcheck_power_off_s: 1
    dbcheck_power_timeout_s: 5
  hosts:
    {name}:
      ansible_connection: local
      dbcheck_target: {target}
"""
FENCE = """\
      dbcheck_power: fence
      dbcheck_power_agent: {agent}
      dbcheck_power_options: {options}
"""
MAIN = "from dbcheck.cli import main; main()"
ELSEWHERE = (
    "from dbcheck.power import interlock; interlock.read_boot_id = lambda: 'another';"
    + MAIN
)
HOSTNAME = socket.gethostname().partition(".")[0]


class Operator:
    """Somebody with an inventory of one host, and a switch that cuts nothing."""

    def __init__(self, folder: Path, target: str, password: str) -> None:
        self.folder, self.target = folder, target
        self.outlet = folder / "outlet"
        self.outlet.write_text("on")
        self.environment = os.environ | {
            "THE_PASSWORD": password,
            "XDG_STATE_HOME": str(folder / "state"),
        }
        self.write()

    def write(self, *lines: str, name: str = HOSTNAME, power: str = "") -> None:
        text = INVENTORY.format(folder=self.folder, name=name, target=self.target)
        text += power or FENCE.format(
            agent="fence_dummy", options=f"{{status_file: {self.outlet}}}"
        )
        text += "".join(f"      {line}\n" for line in lines)
        (self.folder / "inventory.yml").write_text(text)

    def run(self, *words: str, code: int, elsewhere: bool = True) -> str:
        """Run dbcheck, which believes that it runs on another machine if *elsewhere*.

        Its own it would never cut, and here client and target are one.
        """
        done = subprocess.run(
            (sys.executable, "-c", ELSEWHERE if elsewhere else MAIN, *words),
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=120,
        )
        said = done.stdout + done.stderr
        assert done.returncode == code, said
        assert "Traceback" not in said
        assert self.environment["THE_PASSWORD"] not in said
        return said

    def json(self, *words: str) -> Any:
        said = self.run(*words, "--json", code=0)
        return json.JSONDecoder().raw_decode(said)[0]  # what follows is the progress


@pytest.fixture
def operator(postgresql_server: DatabaseServer, tmp_path: Path) -> Operator:
    server = postgresql_server
    engine = engine_of(server)
    engine.drop()
    if shutil.which("fence_dummy", path="/usr/sbin:/usr/local/sbin") is None:
        pytest.skip("needs the package fence-agents")
    wait_until(lambda: engine.other_users().connections == 0, "all others are gone")
    return Operator(tmp_path, server.url, server.password)


def test_the_first_cut_is_told_and_the_second_is_done(operator: Operator) -> None:
    assert operator.run("power", "state", HOSTNAME, code=0) == "on\n"
    for words in (("power", "cut"), ("run",)):
        said = operator.run(*words, HOSTNAME, code=USAGE)
        assert "nothing was cut" in said
        told = f"run fence_dummy (status_file={operator.outlet}) with action=off"
        assert told in said
    assert operator.outlet.read_text() == "on"
    assert not (operator.folder / "acks").exists()

    operator.run("power", "cut", HOSTNAME, "--yes", code=0)
    assert operator.json("power", "state", HOSTNAME)["state"] == "off"
    operator.run("power", "restore", HOSTNAME, code=0)
    assert operator.outlet.read_text() == "on"
    operator.run("power", "cut", HOSTNAME, code=0)  # it is known by now
    assert operator.outlet.read_text() == "off"


@pytest.mark.wide
def test_a_cut_waits_for_another_host_to_be_put_right(operator: Operator) -> None:
    """What cannot be read of that host may be that it has the same outlet."""
    path = operator.folder / "inventory.yml"
    path.write_text(
        path.read_text() + "    db9:\n      dbcheck_power: magic\n"
        "      dbcheck_target: postgresql://u@db9/d\n"
    )
    for words in (("power", "cut"), ("run",)):
        said = operator.run(*words, HOSTNAME, "--yes", "--i-know", code=USAGE)
        assert "the power settings of db9 are invalid" in said
    assert operator.outlet.read_text() == "on"
    assert operator.run("power", "state", HOSTNAME, code=0) == "on\n"
    operator.run("power", "restore", HOSTNAME, code=0)


def test_what_is_no_switch_is_not_said_to_have_switched(operator: Operator) -> None:
    operator.write(power="      dbcheck_power: manual\n")
    for verb in ("cut", "restore", "test"):
        said = operator.run("power", verb, HOSTNAME, code=USAGE)
        assert "Cut and restore it by hand" in said
    operator.write(
        power='      dbcheck_power: exec\n      dbcheck_power_cut: ["true"]\n'
    )
    said = operator.run("power", "restore", HOSTNAME, code=0)
    assert "nothing to do" in said


def test_an_outlet_that_is_not_the_hosts_is_found(operator: Operator) -> None:
    said = operator.run("power", "test", HOSTNAME, "--yes", code=FAILED)
    assert "stayed up while its switch was off" in said
    assert operator.outlet.read_text() == "on"
    assert "nothing was cut" in operator.run("power", "cut", HOSTNAME, code=USAGE)


def test_a_yes_to_a_run_that_cuts_nothing_is_forgotten(operator: Operator) -> None:
    said = operator.run("run", HOSTNAME, "--yes", code=USAGE)
    assert "the witness is on the target's own host" in said
    assert "nothing was cut" in operator.run("power", "cut", HOSTNAME, code=USAGE)
    assert operator.outlet.read_text() == "on"


def test_the_clients_own_machine_is_never_cut(operator: Operator) -> None:
    words = ("power", "cut", HOSTNAME, "--yes", "--i-know")
    said = operator.run(*words, code=USAGE, elsewhere=False)
    assert "the machine that dbcheck runs on" in said
    assert operator.outlet.read_text() == "on"


def test_another_host_is_never_cut(operator: Operator) -> None:
    for verb, lines, name in (
        ("cut", [], "db1"),
        ("test", ["dbcheck_expect_machine_id: other"], HOSTNAME),
        ("run", ["dbcheck_expect_hostname: other"], HOSTNAME),
    ):
        operator.write(*lines, name=name)
        words = (verb,) if verb == "run" else ("power", verb)
        said = operator.run(*words, name, "--yes", "--i-know", code=USAGE)
        assert f"host {name}: its " in said
    assert operator.outlet.read_text() == "on"


def test_a_server_in_use_is_not_cut(operator: Operator) -> None:
    password = operator.environment["THE_PASSWORD"]
    with closing(connect(operator.target, password)):
        said = operator.run("power", "cut", HOSTNAME, "--yes", code=USAGE)
        assert "has 1 connection of other clients" in said
        assert operator.outlet.read_text() == "on"
        operator.run("power", "cut", HOSTNAME, "--yes", "--i-know", code=0)
    assert operator.outlet.read_text() == "off"


def test_a_name_and_its_flags_are_not_both_given(operator: Operator) -> None:
    said = operator.run("run", HOSTNAME, "--witness", "file:/tmp/x", code=USAGE)
    assert "--witness cannot be combined with the name" in said
    assert "no host nobody" in operator.run("run", "nobody", code=USAGE)
    assert "no host nobody" in operator.run("power", "restore", "nobody", code=USAGE)


def test_flags_are_guarded_as_names_are(operator: Operator) -> None:
    flags = (
        *("run", "--target", operator.target, "--witness", f"file:{operator.folder}/x"),
        *("--power", "exec", "--cut-command", f"rm {operator.outlet}"),
        *("--password-command", "echo $THE_PASSWORD"),
    )
    said = operator.run(*flags, code=USAGE)
    assert f"run `rm {operator.outlet}`, with no restore command" in said
    assert operator.outlet.exists()


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Operator]:
    """An operator whose inventory names a running lab, with a real switch."""
    drive = DriveSpec(destage_age_s=0.5)
    with bench(LabSpec("postgresql", drive=drive), tmp_path) as here:
        found = Operator(tmp_path, here.lab.target_url, here.lab.password)
        (tmp_path / "quick.toml").write_text(
            'plan = "insert"\npayload_bytes = [200]\ncut_after_s = [0.6, 0.8]\n'
        )
        lines = (
            f"dbcheck_witness: {here.lab.witness_url}",
            f"dbcheck_witness_identity: {here.lab.identity_file}",
            f"dbcheck_witness_known_hosts: {here.lab.known_hosts}",
            "dbcheck_workload: quick.toml",
            "dbcheck_sessions: 3",
            "dbcheck_ask_host: false",
        )
        power = f"      dbcheck_power: lab\n      dbcheck_power_lab: {here.lab.name}\n"
        found.write(*lines, power=power)
        yield found


@pytest.mark.wide
@pytest.mark.root
def test_a_run_by_name_is_a_run_by_flags(lab: Operator) -> None:
    said = lab.run("witness", "check", HOSTNAME, code=0)
    assert "the lab's own: this machine keeps its power" in said
    result = lab.json("run", HOSTNAME)
    assert result["verdict"] == "PASS"
    assert (result["workload"], result["sessions"]) == ("quick", 3)
    trial = lab.json("power", "test", HOSTNAME)
    assert trial["states"] == ["on", "off", "on"]
    assert trial["rebooted"] is None
    (depth,) = trial["depths"]  # which a busy machine may not hear of in time
    assert " on data, WAL" in depth
    assert "(loop" in depth
    (known,) = (lab.folder / "state" / "dbcheck" / "depth").iterdir()
    assert "volumes" in known.read_text()
    assert json.loads(known.read_text())["reached"]["lag_s"] > 0
