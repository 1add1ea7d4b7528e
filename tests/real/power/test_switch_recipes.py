"""Each recipe of a switch: ansible-inventory reads it, and it cuts and restores.

Here the switches are stand-ins and recorded answers; test_switch_programs.py has the
programs themselves.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import PowerError
from dbcheck.config import files
from dbcheck.inventory.load import load_inventory
from dbcheck.model.cut import CutClass, PowerState, SwitchKind
from dbcheck.ports.power import PowerSwitch
from dbcheck.power.kinds.config import SwitchConfig
from dbcheck.power.kinds.exec import ExecConfig
from dbcheck.power.kinds.fence import FenceConfig
from tests.kit import plugs
from tests.kit.certificates import Authority
from tests.kit.plugs import Answer, Plug, install, served
from tests.kit.recorded import PROGRAMS, UNCLEAR
from tests.kit.refusals import refused

NAMES = files.list_switch_names()
ON, OFF = PowerState.ON, PowerState.OFF
RESETS = {"gcloud"}  # nothing is without power, and nothing reports a state
_USER, _PASSWORD = plugs.LOGIN
# In place of quarchpy: what its documentation says of these two functions.
_QUARCHPY = """
from pathlib import Path
PLUG = Path({plug!r})
class _Module:
    def send_command(self, command):
        if command == "run:power?":
            return "PLUGGED" if PLUG.read_text().strip() == "on" else "PULLED"
        if command not in ("run:power down", "run:power up"):
            return "FAIL: 0x22"
        PLUG.write_text("off" if command == "run:power down" else "on")
        return "OK"
    def close_connection(self):
        pass
def getQuarchDevice(target):
    assert target == "TCP:quarch1.example.net"
    return _Module()
"""


@pytest.fixture(scope="module")
def plans(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, SwitchConfig]:
    """The plan of each recipe, as ansible-inventory and dbcheck read it."""
    folder = tmp_path_factory.mktemp("recipes")
    for name in NAMES:
        text = files.make_switch_inventory(name)
        for old in ("    db1:\n", "ansible_host: db1."):
            assert text.count(old) == 1
            text = text.replace(old, old.replace("db1", name))
        (folder / f"{name}.yml").write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("here"))
        for variable in [each for each in os.environ if each.startswith("ANSIBLE_")]:
            patch.delenv(variable)
        found = load_inventory(folder)
    assert not found.faults
    return {name: found.entry(name).power for name in NAMES}


@pytest.fixture
def plug(tmp_path: Path) -> Plug:
    path = tmp_path / "plug"
    path.write_text("on")
    return Plug(path)


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose programs come before all others."""
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return folder


def test_each_recipe_makes_a_switch_of_its_class(
    plans: Mapping[str, SwitchConfig],
) -> None:
    of_class = {
        CutClass.AC: {"labgrid", "pdudaemon", "shelly", "tasmota"},
        CutClass.DC_RAIL: {"quarch", "uhubctl", "ykush"},
        CutClass.BMC_OFF: {"ipmi", "redfish"},
        CutClass.HYPERVISOR_KILL: {"aws", "azure", "libvirt", "proxmox"},
        CutClass.RESET: RESETS,
    }
    found = {name: plan.cut_class for name, plan in plans.items()}
    assert found == {name: one for one, names in of_class.items() for name in names}
    by_agent = {name for name, plan in plans.items() if plan.kind is SwitchKind.FENCE}
    assert by_agent == {"ipmi", "redfish"}


def readdressed(
    plan: SwitchConfig, address: str, port: int, scheme: str
) -> SwitchConfig:
    """Return an exec plan that asks a server here in place of the one of the recipe."""
    assert isinstance(plan, ExecConfig)

    def moved(words: tuple[str, ...]) -> tuple[str, ...]:
        new = f"{scheme}://localhost:{port}"
        return tuple(word.replace(f"http://{address}", new) for word in words)

    return replace(
        plan, state=moved(plan.state), cut=moved(plan.cut), restore=moved(plan.restore)
    )


Made = Callable[[SwitchConfig, Plug, Path], AbstractContextManager[SwitchConfig]]


def over_http(protocol: plugs.Protocol, address: str) -> Made:
    @contextmanager
    def made(plan: SwitchConfig, plug: Plug, programs: Path) -> Iterator[SwitchConfig]:
        if shutil.which("curl") is None:
            pytest.skip("needs curl")
        with served(plug, protocol) as port:
            yield readdressed(plan, address, port, "http")

    return made


@contextmanager
def by_redfish(
    plan: SwitchConfig, plug: Plug, programs: Path
) -> Iterator[SwitchConfig]:
    """Give fence_redfish a BMC with a certificate of its own."""
    if shutil.which("fence_redfish", path="/usr/sbin:/usr/local/sbin") is None:
        pytest.skip("needs the package fence-agents")
    assert isinstance(plan, FenceConfig)
    authority = Authority.new(programs / "authority.crt")
    authority.vouch(programs)
    with (
        served(plug, plugs.redfish, programs) as port,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("REQUESTS_CA_BUNDLE", str(authority.path))
        options = {**plan.options, "ip": "localhost", "ipport": str(port)}
        yield replace(plan, options=options)


@contextmanager
def by_ipmi(plan: SwitchConfig, plug: Plug, programs: Path) -> Iterator[SwitchConfig]:
    if shutil.which("fence_ipmilan", path="/usr/sbin:/usr/local/sbin") is None:
        pytest.skip("needs the package fence-agents")
    assert isinstance(plan, FenceConfig)
    path = install(programs, *PROGRAMS["ipmi"], plug)
    yield replace(plan, options={**plan.options, "ipmitool_path": str(path)})


@contextmanager
def by_pdudaemon(
    plan: SwitchConfig, plug: Plug, programs: Path
) -> Iterator[SwitchConfig]:
    install(programs, *PROGRAMS["pdudaemon"], plug)
    address = "pdudaemon.example.net:16421"
    with over_http(plugs.pdudaemon, address)(plan, plug, programs) as moved:
        yield moved


@contextmanager
def by_quarch(plan: SwitchConfig, plug: Plug, programs: Path) -> Iterator[SwitchConfig]:
    """Have the program of the recipe import a module of that name."""
    assert isinstance(plan, ExecConfig)
    package = programs / "quarchpy"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "device.py").write_text(_QUARCHPY.format(plug=str(plug.path)))

    def here(words: tuple[str, ...]) -> tuple[str, ...]:
        assert words[0] == "/opt/quarch/bin/python"
        return "env", f"PYTHONPATH={programs}", sys.executable, *words[1:]

    yield replace(
        plan, state=here(plan.state), cut=here(plan.cut), restore=here(plan.restore)
    )


def recorded(name: str) -> Made:
    @contextmanager
    def made(plan: SwitchConfig, plug: Plug, programs: Path) -> Iterator[SwitchConfig]:
        install(programs, *PROGRAMS[name], plug)
        yield plan

    return made


DEVICES: Mapping[str, Made] = {
    "shelly": over_http(plugs.shelly, "shelly1.example.net"),
    "tasmota": over_http(plugs.tasmota, "tasmota1.example.net"),
    "redfish": by_redfish,
    "ipmi": by_ipmi,
    "pdudaemon": by_pdudaemon,
    "quarch": by_quarch,
    **{
        name: recorded(name)
        for name in ("aws", "azure", "gcloud", "labgrid", "libvirt", "proxmox")
    },
    **{name: recorded(name) for name in ("uhubctl", "ykush")},
}


def opened(plan: SwitchConfig, timeout_s: float = 20.0) -> PowerSwitch:
    """Return the switch, in a hurry."""
    assert isinstance(plan, ExecConfig | FenceConfig)
    return replace(plan, off_s=0.0, timeout_s=timeout_s).open(None, print)


def test_every_recipe_is_tried() -> None:
    assert set(DEVICES) == set(NAMES)


@pytest.mark.wide_with("ipmi")
@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_cuts_and_restores(
    name: str,
    plans: Mapping[str, SwitchConfig],
    plug: Plug,
    programs: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("BMC_PASSWORD", _PASSWORD)
    with DEVICES[name](plans[name], plug, programs) as plan:
        switch = opened(plan)
        if name in RESETS:
            assert switch.state() is PowerState.UNKNOWN
            assert "off_s" not in switch.cut().report
            assert switch.restore() is None
            return
        assert switch.state() is ON
        assert switch.cut().report["off_seen"] is True
        assert plug.state is OFF
        assert switch.state() is OFF
        with refused(ErrorId.POWER_STATE_OF_OTHER_HOST, PowerError):
            switch.cut()
        assert switch.restore() is not None
        assert plug.state is ON
        assert switch.state() is ON


@pytest.mark.parametrize(
    ("name", "printed"),
    [
        pytest.param(name, printed, id=f"{name}: {what}")
        for name, rows in UNCLEAR.items()
        for what, printed in rows.items()
    ],
)
def test_what_says_nothing_of_the_power_is_no_state(
    name: str,
    printed: str,
    plans: Mapping[str, SwitchConfig],
    plug: Plug,
    programs: Path,
) -> None:
    program, answers = PROGRAMS[name]
    plan = plans[name]
    assert isinstance(plan, ExecConfig)
    install(programs, program, dict.fromkeys(answers, Answer(printed, printed)), plug)
    with refused(ErrorId.POWER_STATE_NOT_UNDERSTOOD, PowerError, naming="printed"):
        opened(plan).state()


@pytest.mark.parametrize("name", ["pdudaemon", "shelly", "ykush"])
def test_a_switch_that_answers_and_does_not_cut_is_found(
    name: str, plans: Mapping[str, SwitchConfig], plug: Plug, programs: Path
) -> None:
    plug.stuck = True
    with (
        DEVICES[name](plans[name], plug, programs) as plan,
        refused(
            ErrorId.POWER_STATE_NOT_REACHED, PowerError, naming=("still on", "0.5")
        ),
    ):
        opened(plan, timeout_s=0.5).cut()


@pytest.mark.wide
def test_a_bmc_that_refuses_to_switch_is_found(
    plans: Mapping[str, SwitchConfig],
    plug: Plug,
    programs: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The agent does not look at the answer to its request."""
    monkeypatch.setenv("BMC_PASSWORD", _PASSWORD)
    plug.stuck = True
    with by_redfish(plans["redfish"], plug, programs) as plan:
        assert isinstance(plan, FenceConfig)
        hasty = replace(plan, options={**plan.options, "power_timeout": "1"})
        with refused(
            ErrorId.POWER_COMMAND_FAILED,
            PowerError,
            naming=("fence_redfish", "off", "with 1"),
        ):
            opened(hasty).cut()


@pytest.mark.parametrize("name", ["shelly", "pdudaemon"])
def test_an_outlet_that_the_switch_does_not_know_is_an_error(
    name: str, plans: Mapping[str, SwitchConfig], plug: Plug, programs: Path
) -> None:
    with DEVICES[name](plans[name], plug, programs) as plan:
        assert isinstance(plan, ExecConfig)
        *first, url = plan.cut
        wrong = url.replace("id=0", "id=9").replace("port=7", "port=9")
        with refused(
            ErrorId.POWER_COMMAND_FAILED, PowerError, naming=("cut", "with 22")
        ):
            opened(replace(plan, cut=(*first, wrong))).cut()
    assert plug.state is ON


def test_a_plug_that_wants_a_password_is_no_state(
    plans: Mapping[str, SwitchConfig], plug: Plug, programs: Path
) -> None:
    """Tasmota before 8.2.3 answered so with the status 200."""
    text = '{"WARNING":"Need user=<username>&password=<password>"}'
    made = over_http(lambda plug, request: (200, text), "tasmota1.example.net")
    with (
        made(plans["tasmota"], plug, programs) as plan,
        refused(
            ErrorId.POWER_STATE_NOT_UNDERSTOOD, PowerError, naming="neither pattern is"
        ),
    ):
        opened(plan).state()
