from __future__ import annotations

import os
import pickle
import shutil
import subprocess
from pathlib import Path

import pytest

from dbcheck import files
from dbcheck.cli.assemble import entry_host
from dbcheck.core.cut import SwitchKind
from dbcheck.errors import UsageError
from dbcheck.inventory import listed
from dbcheck.inventory.entry import KNOWN, Entry
from dbcheck.inventory.load import Inventory, load
from dbcheck.inventory.ranges import expand
from dbcheck.power.kinds.exec import ExecPlan
from dbcheck.power.kinds.fence import FencePlan

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


def loaded(folder: Path, text: str) -> Inventory:
    path = folder / "hosts.yml"
    path.write_text(text)
    return load(path)


def db1(folder: Path, *lines: str) -> Entry:
    text = HEAD + "".join(f"      {line}\n" for line in lines)
    return loaded(folder, text).entry("db1")


def test_the_example_loads_and_names_all_that_is_known(tmp_path: Path) -> None:
    text = files.inventory_example()
    inventory = loaded(tmp_path, text)
    assert set(inventory.entries) == {"db1", "db2", "db3"}
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
    lines = files.inventory_example().splitlines()
    for number, line in enumerate(lines):
        name = line.strip().removeprefix("# ").partition(":")[0]
        if line.strip().startswith("# ") and name.startswith(("dbcheck_", "ansible_")):
            changed = line.replace("# ", "", 1)
            text = "\n".join([*lines[:number], changed, *lines[number + 1 :]])
            assert loaded(tmp_path, text).entries, line


EXEC = "dbcheck_power: exec"


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
        "dbcheck_power: fence",
        "dbcheck_power_agent: fence_dummy",
        "dbcheck_power_options: {ip: pdu1, ssl: yes, password_env: PDU}",
        "dbcheck_power_plug: 7",
        "dbcheck_power_off_s: 30",
    )
    assert found.target == "postgresql+psycopg2://dbcheck@db1/dbcheck"
    assert found.host == "ssh://root@10.0.0.7:2222"
    assert found.host_identity == Path("/keys/db1")
    assert found.password is not None
    assert found.password.source == ("pass", "show", "db1")
    assert (found.expected.serial, found.price, found.sessions) == ("4711", 1299.5, 16)
    assert isinstance(found.power, FencePlan)
    assert found.power.options == {"ip": "pdu1", "ssl": "1", "plug": "7"}
    assert found.power.secrets["password"].source == ("PDU",)
    assert found.power.off_s == 30
    assert pickle.loads(pickle.dumps(found)) == found


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["dbcheck_sesions: 3"], "hosts.yml:7: host db1: dbcheck_sesions is not known"),
        (["dbcheck_sessions: many"], "hosts.yml:7: host db1: dbcheck_sessions"),
        (["dbcheck_sessions: 1.5"], "dbcheck_sessions is 1.5"),
        (["dbcheck_ask_host: perhaps"], "dbcheck_ask_host"),
        (["dbcheck_power: magic"], "dbcheck_power is 'magic'"),
        (["dbcheck_power: fence"], "dbcheck_power_agent is missing"),
        (["dbcheck_power: exec"], "dbcheck_power_cut is missing"),
        (["dbcheck_power: lab"], "dbcheck_power_lab is missing"),
        ([EXEC, "dbcheck_power_cut: pdu off 7"], "dbcheck_power_cut is 'pdu off 7'"),
        ([EXEC, "dbcheck_power_cut: [pdu, off]"], "dbcheck_power_cut is"),
        (["dbcheck_power_off_s: -1"], "dbcheck_power_off_s"),
        (["dbcheck_witness: elsewhere"], "dbcheck_witness is no witness"),
        (["dbcheck_target: db1"], "dbcheck_target is not a database URL"),
        (["dbcheck_server_log: '{{ log | d(1) }}'"], "is a template"),
        (["dbcheck_server_log: '{{ nothing }}'"], "needs nothing"),
        (["dbcheck_server_log: '{{ a }}'", "a: '{{ a }}'"], "refers to itself"),
        (["dbcheck_server_log: !vault abc"], "bears a tag"),
        (["dbcheck_price: 1", "dbcheck_price: 2"], "hosts.yml:8: found duplicate key"),
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
    with pytest.raises(UsageError) as caught:
        db1(tmp_path, *lines)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    "line",
    [
        "dbcheck_password: hunter2",
        "dbcheck_power_password: hunter2",
        "dbcheck_power_options: {passwd: hunter2}",
        "dbcheck_power_options: {snmp_priv_passwd: hunter2}",
        "dbcheck_power_options: {community: hunter2}",
        "dbcheck_target: postgresql://dbcheck:hunter2@db1/dbcheck",
        "dbcheck_password: hunter2\n      dbcheck_password: hunter2",
    ],
)
def test_a_secret_in_clear_is_refused_and_not_repeated(
    tmp_path: Path, line: str
) -> None:
    with pytest.raises(UsageError) as caught:
        db1(tmp_path, line)
    assert "hunter2" not in str(caught.value) + caught.value.hint


@pytest.mark.parametrize("what", ["target", "witness"])
def test_two_hosts_share_no_server_and_no_folder(tmp_path: Path, what: str) -> None:
    text = HEAD.replace("{{ inventory_hostname }}", "same", 1)
    if what == "witness":
        text = HEAD.replace("acks/{{ inventory_hostname }}", "acks")
    with pytest.raises(UsageError, match=f"db1 and db2 have the same dbcheck_{what}"):
        loaded(tmp_path, text + "    db2:\n").entry("db1")


def test_two_hosts_share_no_outlet(tmp_path: Path) -> None:
    fence = (
        "{dbcheck_power: fence, dbcheck_power_agent: fence_x, dbcheck_power_plug: 7}"
    )
    text = HEAD.replace("    db1:\n", f"    db1: {fence}\n    db2: {fence}\n")
    inventory = loaded(tmp_path, text + "    db3:\n")
    for name in ("db1", "db2"):
        with pytest.raises(UsageError, match="db1 and db2 have the same dbcheck_power"):
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
    with pytest.raises(UsageError) as caught:
        inventory.entry("db22")
    assert caught.value.hint == "Is it db2?"


def test_the_outlet_of_a_host_with_another_mistake_is_compared(tmp_path: Path) -> None:
    second = f"{FENCE}, dbcheck_sessions: x}}"
    text = HEAD.replace("    db1:\n", f"    db1: {FENCE}}}\n    db2: {second}\n")
    with pytest.raises(UsageError, match="db1 and db2 have the same dbcheck_power"):
        loaded(tmp_path, text).entry("db1")


def test_a_host_that_is_not_there_is_told_from_one_that_is_no_target(
    tmp_path: Path,
) -> None:
    inventory = loaded(tmp_path, "all: {hosts: {web1: {}}}\n")
    with pytest.raises(UsageError, match="web1: dbcheck_target is missing"):
        inventory.entry("web1")
    with pytest.raises(UsageError, match="has no host db1"):
        inventory.entry("db1")


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("db", ["db"]),
        ("db[01:03]", ["db01", "db02", "db03"]),
        ("db[8:11]", ["db8", "db9", "db10", "db11"]),
        ("db[1:7:3].x", ["db1.x", "db4.x", "db7.x"]),
        ("r[a:b]-[1:2]", ["ra-1", "ra-2", "rb-1", "rb-2"]),
        ("[:1]db", ["0db", "1db"]),
    ],
)
def test_ranges(pattern: str, names: list[str]) -> None:
    assert expand(pattern) == names


@pytest.mark.parametrize(
    "pattern", ["db[1:]", "db[3:1]", "db[01:100]", "db[a:3]", "db[1:99999]", "a b", ""]
)
def test_what_is_no_range(pattern: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        expand(pattern)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: {children: {b: {children: {a: }}}}", "contain one another"),
        ("all: {host: {db1: }}", "unknown key 'host'"),
        ("all: [db1]", "not a mapping"),
        ("all: {hosts: {1: }}", "is no text"),
        ("all: {hosts: {db[1: }}", "hosts.yml:1"),
        ("all: {children: {a: {vars: {ansible_group_priority: x}}}}", "not a number"),
        ("a: *b", "undefined alias"),
    ],
)
def test_a_broken_file_is_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        loaded(tmp_path, text + "\n")
    assert said in str(caught.value)


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
    plan = ExecPlan(("pdu", "cut"), restore=("pdu", "on", "outlet 7"))
    assert Entry("", "postgresql://db1/d", power=plan).restore_command == (
        "pdu on 'outlet 7'"
    )


@pytest.mark.parametrize(
    "line",
    [
        "dbcheck_ask_host: ssh://root:hunter2@db1",
        "ansible_host: root:hunter2@db1",
        "ansible_user: root:hunter2",
    ],
)
def test_a_password_for_ssh_is_refused_and_not_repeated(
    tmp_path: Path, line: str
) -> None:
    with pytest.raises(UsageError) as caught:
        entry_host(db1(tmp_path, line))
    assert "hunter2" not in str(caught.value) + caught.value.hint


def test_what_anybody_may_write_is_no_inventory(tmp_path: Path) -> None:
    """It names programs: with its own file, its folder, or variables beside it."""
    db1(tmp_path)
    beside = tmp_path / "group_vars"
    beside.mkdir()
    (beside / "all.yml").write_text("dbcheck_sessions: 3\n")
    for path in (tmp_path / "hosts.yml", beside, beside / "all.yml", tmp_path):
        mode = path.stat().st_mode
        path.chmod(mode | 0o002)
        with pytest.raises(UsageError, match="anybody may") as caught:
            load(tmp_path / "hosts.yml")
        assert f"chmod o-w {path}" in caught.value.hint
        path.chmod(mode)
        assert load(tmp_path / "hosts.yml").entry("db1").sessions == 3


@pytest.mark.parametrize("linked", [True, False])
def test_what_anybody_may_lead_elsewhere_is_no_inventory(
    tmp_path: Path, linked: bool
) -> None:
    """By a link in an open folder, or by a folder in one."""
    (tmp_path / "safe").mkdir()
    db1(tmp_path / "safe")
    place = tmp_path / "open"
    place.mkdir()
    if linked:
        path = place / "hosts.yml"
        path.symlink_to(tmp_path / "safe" / "hosts.yml")
    else:
        (tmp_path / "safe").rename(place / "safe")
        path = place / "safe" / "hosts.yml"
    assert load(path).entry("db1")
    place.chmod(0o777)
    with pytest.raises(UsageError, match="anybody may replace") as caught:
        load(path)
    assert f"chmod o-w {place}" in caught.value.hint


@pytest.mark.parametrize("name", ["hosts.sh", "group_vars/all.yml"])
def test_each_file_that_ansible_would_read_is_looked_at(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(*_: object, **__: object) -> None:
        raise OSError("ansible-inventory was run")

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(shutil, "which", lambda *_, **__: "/it")
    folder = tmp_path / "inventory"
    (folder / "group_vars").mkdir(parents=True)
    (folder / name).touch()
    with pytest.raises(UsageError, match="was run"):
        listed.variables(folder, "it is a folder")
    (folder / name).chmod(0o666)
    with pytest.raises(UsageError, match="anybody may write"):
        listed.variables(folder, "it is a folder")


@pytest.mark.root
def test_in_a_folder_like_tmp_only_ones_own_inventory_counts(tmp_path: Path) -> None:
    db1(tmp_path)
    tmp_path.chmod(0o1777)
    path = tmp_path / "hosts.yml"
    assert load(path).entry("db1")
    os.chown(path, 54321, -1)
    with pytest.raises(UsageError, match="belongs to another user"):
        load(path)
    os.chown(path, 0, -1)
    (tmp_path / "group_vars").mkdir()
    os.chown(tmp_path / "group_vars", 54321, -1)
    with pytest.raises(UsageError, match="belongs to another user"):
        load(path)
