"""Fence agents: the package's own test double, and one of ours that cuts a lab."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import PowerError, UsageError
from dbcheck.config.secret import Secret
from dbcheck.cycle.cycle import run_cycle
from dbcheck.lab.process import Process
from dbcheck.lab.spec import DriveSpec, LabSpec
from dbcheck.model.cluster import ONLY_NODE
from dbcheck.model.cut import PowerState, SwitchKind
from dbcheck.model.verdict import Verdict
from dbcheck.power.kinds.fence import FenceConfig, FenceSwitch
from tests.kit import fence_lab
from tests.kit.nodes import cut_of, with_node
from tests.kit.refusals import refused
from tests.kit.rigs import SEED, bench, quick
from tests.kit.waiting import wait_until

PASSWORD = "hunter2-in-no-argv"


@pytest.fixture
def dummy(tmp_path: Path) -> FenceConfig:
    """fence_dummy of the package fence-agents, with its outlet on."""
    if shutil.which("fence_dummy", path="/usr/sbin:/usr/local/sbin") is None:
        pytest.skip("needs the package fence-agents")
    status = tmp_path / "status"
    status.write_text("on")
    return FenceConfig("fence_dummy", {"status_file": str(status)}, off_s=0)


def ours(tmp_path: Path, fault: str = "", timeout_s: float = 20) -> FenceSwitch:
    """The lab's agent, told to fail."""
    secret = tmp_path / "secret"
    secret.write_text(PASSWORD)
    secret.chmod(0o600)
    return FenceSwitch(
        FenceConfig(
            str(fence_lab.install(tmp_path)),
            {"plug": "nolab", "fault": fault},
            {"password": Secret("password", "file", (str(secret),))},
            off_s=0,
            timeout_s=timeout_s,
        )
    )


def test_the_packages_own_agent_cuts_and_restores(dummy: FenceConfig) -> None:
    switch = FenceSwitch(dummy)
    assert switch.state() is PowerState.ON
    cut = switch.cut()
    assert cut.asked_us is not None
    assert cut.report["agent"] == "fence_dummy"
    assert switch.state() is PowerState.OFF
    with refused(ErrorId.POWER_STATE_OF_OTHER_HOST, PowerError):
        switch.cut()  # for which the agent itself would report success
    assert switch.restore() is not None  # the seconds that it was off
    assert switch.state() is PowerState.ON


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"agent": "fence_nosuchthing"}, "not installed"),
        ({"agent": "fence_scsi"}, "does not cut power"),
        ({"agent": "fence_apc_snmp"}, "has no option status_file"),
        ({"agent": "fence_apc_snmp", "options": {}}, "needs the option ip"),
        ({"agent": "fence_redfish", "options": {"username": "u"}}, "systems_uri"),
        ({"options": {"status_fil": "x"}}, "no option status_fil"),
        ({"options": {"type": "a\naction=reboot"}}, "not printable"),
        ({"options": {"method": "cycle"}}, "is reserved"),
    ],
)
def test_a_wrong_agent_or_option_is_refused_at_once(
    dummy: FenceConfig, changed: dict[str, object], said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        FenceSwitch(replace(dummy, **changed))  # type: ignore[arg-type]


def test_a_password_travels_on_standard_input_alone(tmp_path: Path) -> None:
    note = tmp_path / "note"
    switch = ours(tmp_path, f"notes:{note}")
    assert switch.state() is PowerState.ON
    password, _, around = note.read_text().partition("\n")
    assert password == PASSWORD
    assert PASSWORD not in around
    assert PASSWORD not in repr(switch) + repr(vars(switch))


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("bad arguments", "exited with 2, output: Failed"),
        ("tells", r"cannot log in with \*\*\*"),
    ],
)
def test_a_failure_is_no_state(tmp_path: Path, fault: str, said: str) -> None:
    with pytest.raises(PowerError, match=said):
        ours(tmp_path, fault).state()


def test_an_agent_that_hangs_is_a_failure_and_is_ended(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    with refused(ErrorId.POWER_COMMAND_TOO_SLOW, PowerError, naming="than 8"):
        ours(tmp_path, f"hangs:{note}", timeout_s=8).state()
    pid = int(note.read_text())
    wait_until(lambda: Process.of(pid) is None, "the agent is gone")


@pytest.mark.wide_with("lying")
@pytest.mark.root
@pytest.mark.parametrize(
    ("personality", "verdict"),
    [("honest", Verdict.PASS), ("lying", Verdict.FAIL)],
)
def test_cuts_by_an_agent_are_cuts(
    tmp_path: Path, personality: str, verdict: Verdict
) -> None:
    drive = DriveSpec(personality=personality, destage_age_s=0.5)
    with bench(LabSpec("postgresql", drive=drive), tmp_path) as here:
        agent = str(fence_lab.install(tmp_path))
        device = FenceConfig(agent, {"plug": here.lab.name}, off_s=0.5)
        rig = with_node(here.rig, power=FenceSwitch(device))
        outcome = run_cycle(rig, quick(), SEED)
        assert outcome.verdict is verdict, outcome.judgement
        load = outcome.run.load()
        assert load is not None
        assert cut_of(load).report["off_s"] == 0.5
        measured = outcome.run.restore()
        assert measured is not None
        assert (measured.off_s[ONLY_NODE] or 0) >= 0.5
        assert outcome.manifest.writer.power is SwitchKind.FENCE
