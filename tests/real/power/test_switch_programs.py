"""The recipes of switches with the real programs, where these are installed."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import PowerError
from dbcheck.model.cut import PowerState
from dbcheck.ports.power import PowerSwitch
from dbcheck.power.kinds.exec import ExecConfig
from dbcheck.power.kinds.fence import FenceConfig
from tests.kit import switch_programs as real
from tests.kit.plugs import Plug
from tests.kit.refusals import refused
from tools.docs.switches import recipe

pytestmark = pytest.mark.wide

ON, OFF = PowerState.ON, PowerState.OFF
PASSWORD = "geheim"


@pytest.fixture
def plug(tmp_path: Path) -> Plug:
    path = tmp_path / "plug"
    path.write_text("on")
    return Plug(path)


def plan_of(name: str, places: Mapping[str, str]) -> ExecConfig:
    """Return the plan of a recipe, with what stands here for each of its places."""
    plan = recipe(name).plan
    assert isinstance(plan, ExecConfig)

    def here(words: tuple[str, ...]) -> tuple[str, ...]:
        for old, new in places.items():
            words = tuple(word.replace(old, new) for word in words)
        return words

    return replace(
        plan,
        state=here(plan.state),
        cut=here(plan.cut),
        restore=here(plan.restore),
        off_s=0.0,
        timeout_s=30.0,
    )


def cuts_and_restores(switch: PowerSwitch) -> None:
    assert switch.state() is ON
    assert switch.cut().report["off_seen"] is True
    assert switch.state() is OFF
    assert switch.restore() is not None
    assert switch.state() is ON


def test_labgrid(plug: Plug, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client = real.program("labgrid-client", "labgrid")
    with real.labgrid(plug, tmp_path) as found:
        for name, value in found.items():
            monkeypatch.setenv(name, value)
        plan = plan_of("labgrid", {"labgrid-client": client})
        cuts_and_restores(plan.open(None, print))
        subprocess.run((client, "-p", "db1", "release"), check=True)
        with pytest.raises(PowerError, match="place db1 is not acquired"):
            plan.open(None, print).state()
    assert plug.asked.count("/relay/0") >= 5  # it asks the outlet each time


def test_libvirt() -> None:
    virsh = real.program("virsh", "libvirt-clients")
    with real.libvirt() as uri:
        places = {"qemu+ssh://root@hypervisor1.example.net/system": uri, "db1": "test"}
        plan = plan_of("libvirt", places)
        switch = plan.open(None, print)
        cuts_and_restores(switch)
        subprocess.run((virsh, "-c", uri, "suspend", "test"), check=True)
        with refused(
            ErrorId.POWER_STATE_NOT_UNDERSTOOD, PowerError, naming=("paused", "neither")
        ):
            switch.state()
        subprocess.run((virsh, "-c", uri, "destroy", "test"), check=True)
        assert switch.state() is OFF
        with refused(ErrorId.POWER_STATE_OF_OTHER_HOST, PowerError):
            switch.cut()


def test_ipmi(plug: Plug, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real.program("fence_ipmilan", "fence-agents")
    monkeypatch.setenv("BMC_PASSWORD", PASSWORD)
    plan = recipe("ipmi").plan
    assert isinstance(plan, FenceConfig)
    with real.bmc(plug, tmp_path, PASSWORD) as port:
        options = {**plan.options, "ip": "127.0.0.1", "ipport": str(port)}
        switch = replace(plan, options=options, off_s=0.0).open(None, print)
        cuts_and_restores(switch)
        plug.switch(OFF)
        assert switch.state() is OFF


def pdudaemon_plan(plug: Plug, folder: Path, port: int) -> ExecConfig:
    """Return the recipe's plan; the outlet's own state is read in a file."""
    address = f"127.0.0.1:{port}"
    plan = plan_of("pdudaemon", {"pdudaemon.example.net:16421": address})
    return replace(plan, state=("cat", str(plug.path)))


def test_pdudaemon(plug: Plug, tmp_path: Path) -> None:
    plug.path.write_text("1\n")
    with real.pdudaemon(plug, tmp_path, f"echo 2 >{plug.path}; true %s") as port:
        cuts_and_restores(pdudaemon_plan(plug, tmp_path, port).open(None, print))


def test_pdudaemon_says_that_it_switched_though_it_did_not(
    plug: Plug, tmp_path: Path
) -> None:
    """Why its recipe needs a state of another source."""
    plug.path.write_text("1\n")
    with real.pdudaemon(plug, tmp_path, "exit 3; true %s") as port:
        plan = pdudaemon_plan(plug, tmp_path, port)
        done = subprocess.run(plan.cut, capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (0, "OK - accepted request\n")
        with pytest.raises(PowerError, match="the power is still on"):
            replace(plan, timeout_s=0.5).open(None, print).cut()


def test_quarch(plug: Plug) -> None:
    python = real.VENV / "python"
    has = real.succeeds(str(python), "-c", "import quarchpy")
    if not python.exists() or not has():
        pytest.skip("needs quarchpy: .ci/setup pages")
    places = {
        "/opt/quarch/bin/python": str(python),
        "quarch1.example.net": "127.0.0.1",
    }
    plan = plan_of("quarch", places)
    with real.quarch(plug):
        cuts_and_restores(plan.open(None, print))
        wrong = replace(plan, cut=(*plan.cut[:-1], "run:powr down"))
        with pytest.raises(PowerError, match="exited with 1, output: FAIL: 0x22"):
            wrong.open(None, print).cut()


def test_uhubctl_without_a_hub_is_no_state() -> None:
    program = real.program("uhubctl", "uhubctl")
    plan = plan_of("uhubctl", {})
    with refused(
        ErrorId.POWER_COMMAND_FAILED,
        PowerError,
        naming="No compatible devices detected",
    ):
        replace(plan, state=(program, *plan.state[1:])).open(None, print).state()


def test_snmpget_without_an_outlet_is_no_state() -> None:
    program = real.program("snmpget", "snmp")
    plan = plan_of("pdudaemon", {"pdu1.example.net": "127.0.0.1:9"})
    state = (program, "-v1", "-cpublic", "-r0", "-t1", *plan.state[1:])
    with refused(
        ErrorId.POWER_COMMAND_FAILED, PowerError, naming="Timeout: No Response"
    ):
        replace(plan, state=state).open(None, print).state()


def test_a_hub_or_a_curl_that_is_missing_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", os.path.dirname(shutil.which("timeout") or ""))
    with refused(ErrorId.POWER_COMMAND_NOT_RUN, PowerError, naming="state command"):
        plan_of("ykush", {}).open(None, print).state()
