from __future__ import annotations

import json
import os
import pickle
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from dbcheck.base import processes
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.config import files
from dbcheck.inventory import listed
from dbcheck.inventory.entry import KNOWN, Entry
from dbcheck.inventory.load import load_inventory, make_cluster, make_inventory
from dbcheck.inventory.yaml_file import Listing, NotPlain
from dbcheck.model.cut import SwitchKind
from dbcheck.power.kinds.exec import ExecConfig
from dbcheck.power.kinds.fence import FenceConfig
from dbcheck.runner.assemble import make_host
from dbcheck.runner.guard import require_control_possible, require_stays_off
from tests.kit.files import STRANGER
from tests.kit.inventories import hosts, loaded
from tests.kit.refusals import refused

TARGET = "postgresql+psycopg2://dbcheck@{{ inventory_hostname }}/dbcheck"
WITNESS = "ssh://w@witness/acks/{{ inventory_hostname }}"
HEAD = f"""\
all:
  vars:
    dbcheck_target: {TARGET}
    dbcheck_witness: {WITNESS}
  hosts:
    db1:
"""


def db1(folder: Path, *lines: str) -> Entry:
    text = HEAD + "".join(f"      {line}\n" for line in lines)
    return loaded(folder, text).entry("db1")


def test_the_example_loads_and_names_all_that_is_known(tmp_path: Path) -> None:
    text = files.read_inventory_example()
    inventory = loaded(tmp_path, text)
    assert set(inventory.entries) == {*(f"db{n}" for n in range(1, 6)), "orders"}
    assert inventory.machine("worker-1").power.kind is SwitchKind.FENCE
    pair = make_cluster("pair", [inventory.entry("db4"), inventory.entry("db5")])
    assert pair.standbys == (inventory.entry("db5"),)
    assert inventory.entry("db1").witness.endswith("/db1")
    assert inventory.entry("db3").power.outlet() == (
        SwitchKind.EXEC,
        ("pdu", "off", "9"),
    )
    kinds = {name.rpartition("_")[0] for name in KNOWN if name.endswith("_env")}
    for name in KNOWN:
        if not any(name.startswith(f"{kind}_") for kind in kinds):
            assert name in text, name


def test_what_stands_behind_a_hash_in_the_example_is_right_too(tmp_path: Path) -> None:
    lines = files.read_inventory_example().splitlines()
    for number, line in enumerate(lines):
        name = line.strip().removeprefix("# ").partition(":")[0]
        if line.strip().startswith("# ") and name.startswith(("dbcheck_", "ansible_")):
            changed = line.replace("# ", "", 1)
            text = "\n".join([*lines[:number], changed, *lines[number + 1 :]])
            assert loaded(tmp_path, text).entries, line


EXEC = "dbcheck_power: exec"
STATE = (EXEC, "dbcheck_power_cut: [pdu, 'off']", "dbcheck_power_state: [pdu]")


def test_an_entry_holds_all_and_can_be_sent_to_another_process(tmp_path: Path) -> None:
    found = db1(
        tmp_path,
        "ansible_host: 10.0.0.7",
        "ansible_user: root",
        "ansible_port: 2222",
        "ansible_ssh_private_key_file: /keys/db1",
        "dbcheck_password_command: [pass, show, db1]",
        "dbcheck_expect_serial: 4711",
        "dbcheck_price: 1299.5",
        "dbcheck_sessions: 16",
        "dbcheck_processes: 3",
        "dbcheck_power: fence",
        "dbcheck_power_agent: fence_dummy",
        "dbcheck_power_options: {ip: pdu1, ssl: yes, password_env: PDU}",
        "dbcheck_power_plug: 7",
        "dbcheck_power_off_s: 30",
    )
    assert found.target == "postgresql+psycopg2://dbcheck@db1/dbcheck"
    assert found.host == "ssh://root@10.0.0.7:2222"
    assert found.host_options.identity_file == Path("/keys/db1")
    assert found.password is not None
    assert found.password.source == ("pass", "show", "db1")
    assert (found.expected.serial, found.price, found.sessions) == ("4711", 1299.5, 16)
    assert found.processes == 3
    assert isinstance(found.power, FenceConfig)
    assert found.power.options == {"ip": "pdu1", "ssl": "1", "plug": "7"}
    assert found.power.secrets["password"].source == ("PDU",)
    assert found.power.off_s == 30
    assert pickle.loads(pickle.dumps(found)) == found


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["dbcheck_sesions: 3"], "hosts.yml: host db1: dbcheck_sesions is not known"),
        (["dbcheck_sessions: many"], "hosts.yml: host db1: dbcheck_sessions"),
        (["dbcheck_sessions: 1.5"], "dbcheck_sessions is 1.5"),
        (["dbcheck_ask_host: perhaps"], "dbcheck_ask_host"),
        (["dbcheck_power: magic"], "dbcheck_power is 'magic'"),
        (["dbcheck_power: fence"], "dbcheck_power_agent is missing"),
        (["dbcheck_power: exec"], "dbcheck_power_cut is missing"),
        (["dbcheck_power: lab"], "dbcheck_power_lab is missing"),
        ([EXEC, "dbcheck_power_cut: pdu off 7"], "dbcheck_power_cut is 'pdu off 7'"),
        ([EXEC, "dbcheck_power_cut: [pdu, off]"], "dbcheck_power_cut is"),
        ([EXEC, "dbcheck_power_cut: []"], "dbcheck_power_cut is []"),
        ([EXEC, "dbcheck_power_cut: [pdu, '']"], "dbcheck_power_cut is"),
        (
            [*STATE, "dbcheck_power_state_on: a"],
            "host db1: dbcheck_power_state_off is missing",
        ),
        (
            [*STATE, "dbcheck_power_state_off: a"],
            "dbcheck_power_state_on is missing",
        ),
        (
            [*STATE[:2], "dbcheck_power_state_on: a", "dbcheck_power_state_off: b"],
            "dbcheck_power_state_on is given without a state program",
        ),
        (
            [*STATE, "dbcheck_power_state_on: a", "dbcheck_power_state_off: '(b'"],
            "dbcheck_power_state_off is not a regular expression: missing )",
        ),
        (["dbcheck_server_log: yes"], "dbcheck_server_log is True"),
        (["dbcheck_server_log: [a]"], "dbcheck_server_log is ['a']"),
        (["dbcheck_price: nan"], "dbcheck_price is 'nan'"),
        (["dbcheck_sessions: 4097"], "dbcheck_sessions is 4097"),
        (["dbcheck_sessions: true"], "dbcheck_sessions is True"),
        (["dbcheck_processes: 0"], "dbcheck_processes is 0"),
        (["dbcheck_processes: 65"], "dbcheck_processes is 65"),
        (["dbcheck_silence_s: 0"], "dbcheck_silence_s is 0"),
        (["dbcheck_expect_serial: {a: b}"], "dbcheck_expect_serial is {"),
        (["dbcheck_return_s: 5"], "dbcheck_return_s is not known"),
        (["dbcheck_name: db2"], "dbcheck_name is not known"),
        (["dbcheck_power_secrets: {a: b}"], "dbcheck_power_secrets is not known"),
        (["dbcheck_power_options: [a]"], "dbcheck_power_options is ['a']"),
        (["dbcheck_power_options: {ip: [a]}"], "dbcheck_power_options: ip is ['a']"),
        (
            ["dbcheck_power_options: {password_command: pass x}"],
            "dbcheck_power_options: password_command is 'pass x'",
        ),
        (["dbcheck_password_env: null"], "dbcheck_password_env is None"),
        (["dbcheck_power_off_s: -1"], "dbcheck_power_off_s is -1"),
        (["dbcheck_witness: elsewhere"], "dbcheck_witness is not the URL"),
        (["dbcheck_target: db1"], "dbcheck_target is not a database URL"),
        (["dbcheck_server_log: '{{ log | d(1) }}'"], "is a template"),
        (["dbcheck_server_log: '{{ nothing }}'"], "needs nothing"),
        (["dbcheck_server_log: '{{ a }}'", "a: '{{ a }}'"], "refers to itself"),
        (["dbcheck_server_log: {__ansible_vault: x}"], "is encrypted or tagged"),
        (["dbcheck_server_log: {__ansible_unsafe: x}"], "is encrypted or tagged"),
        (["ansible_port: 70000"], "ansible_port"),
        (["ansible_connection: docker"], "ansible_connection is 'docker'"),
        (
            ["dbcheck_password_env: A", "dbcheck_password_file: b"],
            "dbcheck_password_env and dbcheck_password_file are given",
        ),
    ],
)
def test_what_is_wrong_is_named_with_its_place(
    tmp_path: Path, lines: list[str], said: str
) -> None:
    with pytest.raises(UsageError, match=re.escape(said)):
        db1(tmp_path, *lines)


@pytest.mark.parametrize(
    "line",
    [
        "dbcheck_password: hunter2",
        "dbcheck_power_password: hunter2",
        "dbcheck_power_options: {passwd: hunter2}",
        "dbcheck_power_options: {snmp_priv_passwd: hunter2}",
        "dbcheck_power_options: {community: hunter2}",
        "dbcheck_target: postgresql://dbcheck:hunter2@db1/dbcheck",
    ],
)
def test_a_secret_in_clear_is_refused_and_not_repeated(
    tmp_path: Path, line: str
) -> None:
    in_url = line.startswith("dbcheck_target")
    id = ErrorId.URL_HOLDS_PASSWORD if in_url else ErrorId.SECRET_IN_CLEAR_TEXT
    with refused(id, UsageError) as caught:
        db1(tmp_path, line)
    assert "hunter2" not in str(caught.value) + caught.value.hint


KINDS = ", ".join(kind.value for kind in SwitchKind)


def test_what_is_wrong_is_answered_with_what_it_may_be(tmp_path: Path) -> None:
    for line, hint in (
        ("dbcheck_sesions: 3", "Is it dbcheck_sessions?"),
        ("dbcheck_sessions: 0", "It must be a whole number from 1 to 4096."),
        ("dbcheck_power: fense", f"{KINDS}. Is it fence?"),
        ("dbcheck_power_class: DC rial", "Is it DC rail?"),
        ("dbcheck_power_off_s: 0.5", "a number from 1 to 86400."),
        ("dbcheck_server_log: no", "put them in quotes"),
    ):
        name = line.split(":")[0]
        unknown = name == "dbcheck_sesions"
        id = ErrorId.INVENTORY_VARIABLE_UNKNOWN if unknown else ErrorId.VALUE_INVALID
        with refused(id, UsageError, naming=name) as caught:
            db1(tmp_path, line)
        assert hint in caught.value.hint
    with refused(
        ErrorId.VALUE_INVALID, UsageError, naming="dbcheck_power_cut"
    ) as caught:
        db1(tmp_path, EXEC, "dbcheck_power_cut: [pdu, off]")
    assert "put them in quotes" in caught.value.hint


def test_numbers_and_truth_in_strings_count_as_an_ini_file_gives_them(
    tmp_path: Path,
) -> None:
    found = db1(tmp_path, "dbcheck_sessions: '8'", "dbcheck_ask_host: 'false'", "n: 30")
    assert (found.sessions, found.host) == (8, "")
    found = db1(tmp_path, "n: 30", "dbcheck_wait_s: '{{ n }}'", "dbcheck_workload: 7")
    assert (found.return_s, found.workload) == (30.0, "7")


@pytest.mark.parametrize("what", ["target", "witness"])
def test_two_hosts_share_no_server_and_no_folder(tmp_path: Path, what: str) -> None:
    text = HEAD.replace("{{ inventory_hostname }}", "same", 1)
    if what == "witness":
        text = HEAD.replace("acks/{{ inventory_hostname }}", "acks")
    with refused(
        ErrorId.HOSTS_SHARE_VALUE, UsageError, naming=("db1", "db2", f"dbcheck_{what}")
    ) as caught:
        loaded(tmp_path, text + "    db2:\n").entry("db1")
    assert "One witness may serve them all" in caught.value.hint


def test_two_hosts_share_no_outlet(tmp_path: Path) -> None:
    fence = (
        "{dbcheck_power: fence, dbcheck_power_agent: fence_x, dbcheck_power_plug: 7}"
    )
    text = HEAD.replace("    db1:\n", f"    db1: {fence}\n    db2: {fence}\n")
    inventory = loaded(tmp_path, text + "    db3:\n")
    for name in ("db1", "db2"):
        with refused(
            ErrorId.HOSTS_SHARE_VALUE,
            UsageError,
            naming=("db1", "db2", "dbcheck_power"),
        ):
            inventory.entry(name)
    assert inventory.entry("db3").doubt == ""


FENCE = "{dbcheck_power: fence, dbcheck_power_agent: fence_x, dbcheck_power_plug: 7"


@pytest.mark.parametrize(
    ("second", "doubt"),
    [
        pytest.param("{dbcheck_sessions: x}", "", id="what has no say in a cut"),
        pytest.param(
            "{dbcheck_power: magic}", "the power settings of db2", id="its switch"
        ),
        pytest.param("{dbcheck_powr: lab}", "the power settings of db2", id="a name"),
    ],
)
def test_a_mistake_of_one_host_stops_no_other(
    tmp_path: Path, second: str, doubt: str
) -> None:
    """But an unattended cut, if the switch may be that one's, too."""
    text = HEAD.replace("    db1:\n", f"    db1: {FENCE}}}\n    db2: {second}\n")
    inventory = loaded(tmp_path, text)
    assert inventory.entry("db1").doubt.startswith(doubt)
    assert bool(inventory.entry("db1").doubt) == bool(doubt)
    with pytest.raises(UsageError, match="host db2: dbcheck_"):
        inventory.entry("db2")
    with refused(ErrorId.HOST_UNKNOWN, UsageError, naming="db22") as caught:
        inventory.entry("db22")
    assert caught.value.hint == "Is it db2?"


def test_the_outlet_of_a_host_with_another_mistake_is_compared(tmp_path: Path) -> None:
    second = f"{FENCE}, dbcheck_sessions: x}}"
    text = HEAD.replace("    db1:\n", f"    db1: {FENCE}}}\n    db2: {second}\n")
    with refused(
        ErrorId.HOSTS_SHARE_VALUE, UsageError, naming=("db1", "db2", "dbcheck_power")
    ):
        loaded(tmp_path, text).entry("db1")


def test_a_host_that_is_not_there_is_told_from_one_that_is_no_target(
    tmp_path: Path,
) -> None:
    inventory = loaded(tmp_path, "all: {hosts: {web1: {}}}\n")
    with refused(
        ErrorId.INVENTORY_TARGET_MISSING, UsageError, naming=("web1", "dbcheck_target")
    ):
        inventory.entry("web1")
    with refused(ErrorId.HOST_UNKNOWN, UsageError, naming="db1"):
        inventory.entry("db1")


@pytest.mark.parametrize(
    ("lines", "command"),
    [
        pytest.param(["dbcheck_power: manual"], "", id="a human"),
        pytest.param(
            ["dbcheck_power: exec", "dbcheck_power_cut: [pdu, cycle]"], "", id="a reset"
        ),
        pytest.param(
            [
                "dbcheck_power: exec",
                "dbcheck_power_cut: [pdu, cut]",
                "dbcheck_power_restore: [pdu, back]",
            ],
            "dbcheck power restore db1 --inventory {}",
            id="programs",
        ),
        pytest.param(
            ["dbcheck_power: fence", "dbcheck_power_agent: fence_dummy"],
            "dbcheck power restore db1 --inventory {}",
            id="an agent",
        ),
    ],
)
def test_an_entry_says_how_its_power_is_given_back(
    tmp_path: Path, lines: list[str], command: str
) -> None:
    found = db1(tmp_path, *lines)
    assert found.restore_command == command.format(tmp_path / "hosts.yml")


def test_flags_say_how_the_power_is_given_back() -> None:
    plan = ExecConfig(("pdu", "cut"), restore=("pdu", "on", "outlet 7"))
    assert Entry("", "postgresql://db1/d", power=plan).restore_command == (
        "pdu on 'outlet 7'"
    )


@pytest.mark.parametrize(
    ("line", "refusal"),
    [
        ("dbcheck_ask_host: ssh://root:hunter2@db1", ErrorId.VALUE_INVALID),
        ("ansible_host: root:hunter2@db1", ErrorId.URL_HOLDS_PASSWORD),
        ("ansible_user: root:hunter2", ErrorId.URL_HOLDS_PASSWORD),
    ],
)
def test_a_password_for_ssh_is_refused_and_not_repeated(
    tmp_path: Path, line: str, refusal: ErrorId
) -> None:
    with refused(refusal, UsageError) as caught:
        make_host(db1(tmp_path, line))
    assert "hunter2" not in str(caught.value) + caught.value.hint


class Ansible:
    """Stands for ansible-inventory; runs: what it was run with."""

    def __init__(self) -> None:
        self.runs: list[dict[str, Any]] = []
        self.code, self.stderr = 0, b""

    def run(
        self, command: Sequence[str], **options: Any
    ) -> subprocess.CompletedProcess[bytes]:
        self.runs.append({"command": command, **options})
        path = Path(command[command.index("-i") + 1])
        variables = {} if path.is_dir() else hosts(path.read_text())
        out = json.dumps({"_meta": {"hostvars": variables}}).encode()
        return subprocess.CompletedProcess(command, self.code, out, self.stderr)


@pytest.fixture
def ansible(monkeypatch: pytest.MonkeyPatch) -> Ansible:
    def leave_to_ansible(path: Path) -> Listing:
        raise NotPlain("is read by the stand-in")

    one = Ansible()
    monkeypatch.setattr(subprocess, "run", one.run)
    monkeypatch.setattr(listed, "_read_plain", leave_to_ansible)
    monkeypatch.setattr(listed, "_require_ansible", lambda path, reason: None)
    return one


def written(folder: Path) -> Path:
    path = folder / "hosts.yml"
    path.write_text(HEAD)
    return path


@pytest.mark.usefixtures("ansible")
def test_what_anybody_may_write_is_no_inventory(tmp_path: Path) -> None:
    """It names programs: with its own file, its folder, or variables beside it."""
    inventory = written(tmp_path)
    beside, elsewhere = tmp_path / "group_vars", tmp_path / "elsewhere"
    for folder in (beside, elsewhere):
        folder.mkdir()
        (folder / "all.yml").write_text("dbcheck_sessions: 3\n")
    (beside / "linked").symlink_to(elsewhere)
    (elsewhere / "back").symlink_to(beside)
    linked = beside / "linked" / "all.yml"
    for path in (inventory, beside, beside / "all.yml", linked, tmp_path):
        mode = path.stat().st_mode
        path.chmod(mode | 0o002)
        with refused(
            ErrorId.INVENTORY_OPEN_TO_OTHERS, UsageError, naming="any user may"
        ) as caught:
            load_inventory(inventory)
        assert "chmod o-w" in caught.value.hint
        assert path.name in caught.value.hint
        path.chmod(mode)
        assert load_inventory(inventory).entry("db1")


@pytest.mark.usefixtures("ansible")
@pytest.mark.parametrize("linked", [True, False])
def test_what_anybody_may_lead_elsewhere_is_no_inventory(
    tmp_path: Path, linked: bool
) -> None:
    """By a link in an open folder, or by a folder in one."""
    (tmp_path / "safe").mkdir()
    written(tmp_path / "safe")
    place = tmp_path / "open"
    place.mkdir()
    if linked:
        path = place / "hosts.yml"
        path.symlink_to(tmp_path / "safe" / "hosts.yml")
    else:
        (tmp_path / "safe").rename(place / "safe")
        path = place / "safe" / "hosts.yml"
    assert load_inventory(path).entry("db1")
    place.chmod(0o777)
    with refused(
        ErrorId.INVENTORY_OPEN_TO_OTHERS, UsageError, naming="any user may replace"
    ) as caught:
        load_inventory(path)
    assert f"chmod o-w {place}" in caught.value.hint


@pytest.mark.parametrize("name", ["hosts.sh", "group_vars/all.yml"])
def test_each_file_that_ansible_would_read_is_looked_at_first(
    tmp_path: Path, name: str, ansible: Ansible
) -> None:
    folder = tmp_path / "inventory"
    (folder / "group_vars").mkdir(parents=True)
    (folder / name).touch()
    (folder / name).chmod(0o666)
    with refused(
        ErrorId.INVENTORY_OPEN_TO_OTHERS, UsageError, naming="any user may write"
    ):
        load_inventory(folder)
    assert not ansible.runs
    (folder / name).chmod(0o644)
    assert not load_inventory(folder).entries
    assert len(ansible.runs) == 1


@pytest.mark.root
@pytest.mark.usefixtures("ansible")
def test_in_a_folder_like_tmp_no_inventory_counts(tmp_path: Path) -> None:
    """Below it a folder of one's own does: nobody else can rename that."""
    path = written(tmp_path)
    tmp_path.chmod(0o1777)
    with refused(
        ErrorId.INVENTORY_OPEN_TO_OTHERS, UsageError, naming="may add variables"
    ):
        load_inventory(path)
    (tmp_path / "own").mkdir(mode=0o755)
    assert load_inventory(written(tmp_path / "own")).entry("db1")
    os.chown(path, STRANGER, -1)
    with refused(
        ErrorId.INVENTORY_OPEN_TO_OTHERS, UsageError, naming="belongs to another user"
    ):
        load_inventory(path)
    os.chown(path, 0, -1)
    (tmp_path / "group_vars").mkdir()
    os.chown(tmp_path / "group_vars", STRANGER, -1)
    with refused(
        ErrorId.INVENTORY_OPEN_TO_OTHERS, UsageError, naming="belongs to another user"
    ):
        load_inventory(path)


def test_ansible_gets_a_folder_of_its_own_and_no_secret(
    tmp_path: Path, ansible: Ansible, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PGPASSWORD", "ANOTHER"):
        monkeypatch.setenv(name, "hunter2")
    monkeypatch.setenv("ANSIBLE_CONFIG", "mine.cfg")
    monkeypatch.setenv("ANSIBLE_INVENTORY_ENABLED", "script")
    monkeypatch.chdir(tmp_path)
    path = written(tmp_path)
    assert load_inventory(path).entry("db1")
    (run,) = ansible.runs
    assert run["command"] == processes.make_module_command(
        "ansible.cli.inventory", "-i", str(path), "--list"
    )
    assert not run["env"].keys() & {"PGPASSWORD", "ANOTHER"}
    assert run["env"]["ANSIBLE_CONFIG"] == str(tmp_path / "mine.cfg")
    assert run["env"]["ANSIBLE_INVENTORY_ENABLED"] == "yaml,auto"
    assert run["cwd"] == "/"
    assert load_inventory(tmp_path).file == str(tmp_path)
    assert ansible.runs[1]["env"].keys() & {"PGPASSWORD", "ANOTHER"} == {"ANOTHER"}
    Path("mine.cfg").touch(mode=0o666)
    Path("mine.cfg").chmod(0o666)
    with refused(
        ErrorId.INVENTORY_OPEN_TO_OTHERS,
        UsageError,
        naming=("any user may write", "mine.cfg"),
    ):
        load_inventory(path)


@pytest.mark.parametrize("code", [0, 1])
def test_what_ansible_warns_of_is_an_error_without_the_lines_that_it_shows(
    tmp_path: Path, ansible: Ansible, code: int
) -> None:
    ansible.code, ansible.stderr = code, SHOWN.encode()
    with refused(
        ErrorId.ANSIBLE_INVENTORY_FAILED,
        UsageError,
        naming="ansible-inventory cannot read",
    ) as caught:
        load_inventory(written(tmp_path))
    assert str(caught.value) == (
        f"ansible-inventory cannot read {tmp_path}/hosts.yml: YAML parsing failed: "
        "Found duplicate mapping key 'dbcheck_password' (/x/hosts.yml:4); Expected "
        "key=value host variable assignment"
    )


SHOWN = """\
[WARNING]: Failed to parse inventory with 'yaml' plugin: YAML parsing failed: Found \
duplicate mapping key 'dbcheck_password'.

Failed to parse inventory with 'yaml' plugin.

<<< caused by >>>

YAML parsing failed: Found duplicate mapping key 'dbcheck_password'.
Origin: /x/hosts.yml:4:5

2   vars:
3     dbcheck_password: hunter2
      ^ column 5

[WARNING]: Failed to parse inventory with 'auto' plugin: no root 'plugin' key found, \
'/x/hosts.yml' is not a valid YAML inventory plugin config file
[WARNING]: Found both group and host with same name: db1
[WARNING]: Failed to parse inventory with 'ini' plugin: Expected key=value host \
variable assignment, got: hunter2
[ERROR]: Completely failed to parse inventory source /x/hosts.yml
"""


def test_a_group_whose_name_is_no_variable_is_no_error(
    tmp_path: Path, ansible: Ansible
) -> None:
    ansible.stderr = (
        b"[WARNING]: Invalid characters were found in group names but not replaced, "
        b"use -vvvv to see details\n"
    )
    assert load_inventory(written(tmp_path)).entry("db1")


def test_a_failure_of_ansible_without_a_message_is_an_error(
    tmp_path: Path, ansible: Ansible
) -> None:
    ansible.code = 9
    with refused(ErrorId.ANSIBLE_INVENTORY_FAILED, UsageError, naming="exit status 9"):
        load_inventory(written(tmp_path))


CLUSTER = """\
all:
  vars:
    dbcheck_target: postgresql://dbcheck@{{ inventory_hostname }}/d
    dbcheck_topology: streaming
    dbcheck_writer: db1
  hosts: {db1: , db2: , db3: }
"""
NOT_REPLACED, NO_CONTROL = ErrorId.REBUILD_NOT_POSSIBLE, ErrorId.CONTROL_NOT_SUPPORTED
GROUPS = {
    "pair": ("db1", "db2", "db3"),
    "rack": ("db1", "db2"),
    "more": ("db1", "db2", "db3", "db9"),
    "empty": (),
}


def test_a_group_is_a_cluster_if_it_has_all_of_its_nodes_and_no_other(
    tmp_path: Path,
) -> None:
    own = hosts(CLUSTER)
    own["db9"] = {"dbcheck_target": "postgresql://dbcheck@db9/d"}
    found = make_inventory(tmp_path / "hosts.yml", own, GROUPS)
    names = ("pair", "rack", "more", "empty", "db1", "db9", "nothing")
    assert [found.is_cluster(name) for name in names] == [True, True] + [False] * 5
    pair = found.cluster("pair")
    assert pair.name == "db1"
    assert [one.name for one in pair.standbys] == ["db2", "db3"]
    # Commits may wait for the node that is left out.
    with refused(ErrorId.CLUSTER_INCOMPLETE, UsageError, naming=("rack", "db3")):
        found.cluster("rack")
    assert found.members(["pair", "db9"]) == ["pair", "db9"]
    assert found.all_targets() == ["db9", "pair"]
    assert found.members(["more"]) == ["db1", "db2", "db3", "db9"]
    with refused(ErrorId.ONE_HOST_NEEDED, UsageError, naming="pair"):
        found.entry("pair")


@pytest.mark.parametrize(
    ("survives", "cut"),
    [
        ("writer-gone", ["db1"]),
        ("all", ["db1", "db2", "db3"]),
        ("[writer, all]", ["db1", "db2", "db3"]),
    ],
)
def test_the_promise_decides_which_hosts_a_cut_takes(
    tmp_path: Path, survives: str, cut: list[str]
) -> None:
    text = CLUSTER.replace("streaming", f"streaming\n    dbcheck_survives: {survives}")
    found = make_inventory(tmp_path / "hosts.yml", hosts(text), GROUPS)
    assert [one.name for one in found.cluster("pair").cut_with] == cut
    assert [one.name for one in found.entry("db1").cut_with] == ["db1"]


@pytest.mark.parametrize(
    ("survives", "naming"),
    [
        ("everything", "is 'everything'"),
        ("[all, everyone]", "is 'everyone'"),
        ("[]", "is an empty list"),
        ("[all, writer, all]", "twice"),
    ],
)
def test_what_is_no_list_of_promises_is_refused(
    tmp_path: Path, survives: str, naming: str
) -> None:
    text = CLUSTER.replace("streaming", f"streaming\n    dbcheck_survives: {survives}")
    found = make_inventory(tmp_path / "hosts.yml", hosts(text), GROUPS)
    id = ErrorId.NAME_GIVEN_TWICE if naming == "twice" else ErrorId.VALUE_INVALID
    with refused(id, UsageError, naming=("dbcheck_survives", naming)):
        found.cluster("pair")


@pytest.mark.parametrize(
    ("survives", "is_refused"),
    [
        ("writer-gone", True),
        ("all", False),
        ("writer", False),
        ("[writer, writer-gone]", True),
        ("[writer, all]", False),
    ],
)
def test_an_old_writer_that_is_to_stay_off_needs_a_switch_that_leaves_it_off(
    tmp_path: Path, survives: str, is_refused: bool
) -> None:
    more = f"\n    dbcheck_survives: {survives}\n    dbcheck_power: sysrq"
    text = CLUSTER.replace("streaming", f"streaming{more}")
    pair = make_inventory(tmp_path / "hosts.yml", hosts(text), GROUPS).cluster("pair")
    if not is_refused:
        return require_stays_off(pair, pair)
    with refused(ErrorId.SWITCH_RESTORES_BY_ITSELF, UsageError):
        require_stays_off(pair, pair)


@pytest.mark.parametrize(
    ("kind", "survives", "rebuilt_by", "refusal", "naming"),
    [
        ("streaming", "writer-gone", "auto", None, ""),
        ("streaming", "all-writer-gone", "auto", None, ""),
        ("semi-sync", "writer-gone", "clone", None, ""),
        ("streaming", "writer-gone", "sql", None, ""),  # by the program
        (*("semi-sync", "writer-gone", "sql"), NOT_REPLACED, "sql it would keep"),
        (*("streaming", "writer-gone", "nobody"), NOT_REPLACED, "it would keep them"),
        ("streaming", "writer", "nobody", None, ""),
        ("streaming", "all", "nobody", None, ""),
        ("streaming", "[writer-gone, writer]", "auto", None, ""),
        (*("streaming", "[all, writer-gone]", "nobody"), NOT_REPLACED, "it would keep"),
        (*("semi-sync", "writer", "nobody"), NO_CONTROL, "the promise writer:"),
        (*("semi-sync", "all", "nobody"), NO_CONTROL, "the promise all:"),
        (*("galera", "writer-gone", "auto"), NO_CONTROL, "rows that no other node"),
        (*("group-replication", "writer-gone", "sql"), NO_CONTROL, "would join again"),
    ],
)
def test_a_control_needs_an_old_writer_whose_data_are_replaced(
    tmp_path: Path,
    kind: str,
    survives: str,
    rebuilt_by: str,
    refusal: ErrorId | None,
    naming: str,
) -> None:
    more = f"\n    dbcheck_survives: {survives}\n    dbcheck_rebuilt_by: {rebuilt_by}"
    if (kind, rebuilt_by) == ("streaming", "sql"):
        more += "\n    dbcheck_rebuild: [make-standby]"
    text = CLUSTER.replace("streaming", kind + more)
    if kind != "streaming":
        text = text.replace("postgresql://", "mysql://")
    found = make_inventory(tmp_path / "hosts.yml", hosts(text), GROUPS)
    require_control_possible(found.entry("db1"))
    pair = found.cluster("pair")
    if refusal is None:
        return require_control_possible(pair)
    with refused(refusal, UsageError, naming=("pair", naming)):
        require_control_possible(pair)


def test_a_fault_has_a_program_that_ends_it(tmp_path: Path) -> None:
    both = "\n    dbcheck_fault: [part, begin]\n    dbcheck_fault_end: [part, end]"
    for kept in (both, ""):
        text = CLUSTER.replace("streaming", "streaming" + kept)
        entry = make_inventory(tmp_path / "hosts.yml", hosts(text), GROUPS)
        assert entry.cluster("pair").fault == (("part", "begin") if kept else ())
    for line in both.split("\n")[1:]:
        text = CLUSTER.replace("streaming", "streaming\n" + line)
        found = make_inventory(tmp_path / "hosts.yml", hosts(text), GROUPS)
        with refused(ErrorId.FAULT_INCOMPLETE, UsageError, naming="beside it"):
            found.cluster("pair")
