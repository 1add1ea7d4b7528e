"""What ansible-inventory makes of an inventory, and what it must not read or run."""

from __future__ import annotations

import grp
import json
import os
import pwd
import socket
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest

from dbcheck.base.access import find_change_by_others
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.cli import USAGE
from dbcheck.config import files
from dbcheck.inventory import listed
from dbcheck.inventory.load import load_inventory
from tests.kit.files import AS_ROOT, STRANGER
from tests.kit.refusals import refused
from tests.kit.waiting import wait_until

HOSTS = """\
all:
  vars:
    dbcheck_target: postgresql://u@{{ inventory_hostname }}:{{ number }}/d
    dbcheck_ask_host: yes
  children:
    west:
      vars: {number: 010, dbcheck_sessions: 3, dbcheck_price: 1}
      hosts:
        db[01:02]: {dbcheck_sessions: 4}
    a-dash:
      hosts: {db02: {}}
  hosts:
    web: {dbcheck_target: null}
    apart:
"""
FILES = {
    "group_vars/west.yml": "dbcheck_price: 2\ndbcheck_silence_s: 7\n",
    "group_vars/all/1.yml": "dbcheck_silence_s: 6\ndbcheck_wait_s: 60\n",
    "host_vars/db02": "dbcheck_sessions: 5\n",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder beside the working directory; no settings for Ansible."""
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    for name in os.environ:
        if name.startswith("ANSIBLE_"):
            monkeypatch.delenv(name)
    return tmp_path


def write(folder: Path, text: str, name: str = "hosts.yml") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_groups_ranges_and_folders_count_as_ansible_says(folder: Path) -> None:
    for name, text in FILES.items():
        write(folder, text, name)
    found = load_inventory(write(folder, HOSTS))
    first, second = found.entry("db01"), found.entry("db02")
    assert first.target == "postgresql://u@db01:8/d"
    assert (first.sessions, second.sessions) == (4, 5)
    assert (first.price, first.silence_s, first.return_s) == (2, 7, 60)
    assert found.others == {} and set(found.faults) == {"web", "apart"}


def test_a_group_stands_for_the_targets_in_it_and_below_it(folder: Path) -> None:
    text = HOSTS.replace(
        "      hosts: {db02: {}}", "      hosts: {db02: {}}\n      children: {west: }"
    )
    found = load_inventory(write(folder, text))
    assert found.members(["west"]) == ["db01", "db02"]
    assert sorted(found.members(["a-dash", "db01"])) == ["db01", "db02"]
    assert found.members(["nowhere"]) == ["nowhere"]  # entry() refuses it
    assert set(found.targets()) == {"db01", "db02", "web", "apart"}
    bare = write(folder, "g: {hosts: {h: {}}}", "bare.yml")
    with refused(
        ErrorId.INVENTORY_TARGET_MISSING,
        UsageError,
        naming=("group g", "dbcheck_target"),
    ):
        load_inventory(bare).members(["g"])


def test_the_example_loads(folder: Path) -> None:
    found = load_inventory(write(folder, files.read_inventory_example()))
    assert set(found.entries) == {*(f"db{n}" for n in range(1, 6)), "orders"}
    assert [one.name for one in found.cluster("pair").standbys] == ["db5"]
    assert found.entry("db3").target == (
        "mysql+mysqlconnector://dbcheck@db3.example.net/dbcheck"
    )


def test_an_inventory_of_ini_and_one_of_a_folder(folder: Path) -> None:
    text = (
        "[db]\ndb[1:2] ansible_user=root\n[db:vars]\n"
        "dbcheck_target=postgresql://u@{{ inventory_hostname }}/d\ndbcheck_sessions=8\n"
    )
    path = write(folder, text, "inventory/hosts.ini")
    for inventory in (path, path.parent):
        found = load_inventory(inventory)
        assert set(found.entries) == {"db1", "db2"}
        assert found.entry("db2").target == "postgresql://u@db2/d"
        assert found.entry("db2").host == "ssh://root@db2"
        assert found.entry("db2").sessions == 8


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: {children: {b: {children: {a: }}}}", "recursive dependency loop"),
        ("all: {host: {db1: }}", r"unexpected key \(host\) in group \(all\)"),
        ("all: [db1]", "not a valid group definition"),
        ("all: {hosts: [db1]}", 'Invalid "hosts" entry'),
        ("all: {hosts: {1: }}", "must be a string"),
        ("all: {vars: {a: 1}, vars: {b: hunter2}}", r"hosts\.yml:1\)"),
        ("all:\n\tvars: hunter2", r"hosts\.yml:2\)"),
        ("a: *b", "undefined alias"),
        ("", "empty YAML file"),
        ("plugin: none", "unknown plugin 'none'"),
        ("$ANSIBLE_VAULT;1.1;AES256\n6162", "no vault secrets found"),
    ],
)
def test_what_ansible_cannot_read_or_would_skip_is_refused(
    folder: Path, text: str, message: str
) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        load_inventory(write(folder, text + "\n"))
    assert "hunter2" not in str(caught.value) + caught.value.hint
    assert str(folder / "hosts.yml") in str(caught.value)
    assert "Traceback" not in str(caught.value)


def test_one_file_of_a_folder_that_cannot_be_read_is_an_error(folder: Path) -> None:
    path = write(folder, HOSTS, "inventory/hosts.yml")
    assert load_inventory(path.parent).entry("db01")
    write(path.parent, "all: [", "other.yml")
    with refused(
        ErrorId.ANSIBLE_INVENTORY_FAILED,
        UsageError,
        naming="ansible-inventory cannot read",
    ):
        load_inventory(path.parent)


@pytest.mark.timeout(60)  # Ansible would take 120 s, or all memory
@pytest.mark.parametrize(
    ("place", "kind"),
    [
        *product(
            ("hosts.ini", "group_vars/all.yml", "group_vars/west/x", "host_vars/db01"),
            ("fifo", "socket", "zeros", "huge"),
        ),
        *product(["more"], ("fifo", "socket", "zeros")),
    ],
)
def test_what_ansible_would_wait_for_is_refused_at_once(
    folder: Path, place: str, kind: str
) -> None:
    inventory = write(folder, HOSTS, "inventory/hosts.yml").parent
    path = inventory / place
    path.parent.mkdir(parents=True, exist_ok=True)
    make(kind, path)
    with pytest.raises(UsageError, match=str(path)) as caught:
        load_inventory(
            {"hosts.ini": path, "more": inventory}.get(place, inventory / "hosts.yml")
        )
    assert caught.value.hint


@pytest.mark.parametrize("bad", [b"Z\xfcrich", b"\xff\xfea\0", b"\0", b"\x1b[2J"])
@pytest.mark.parametrize("name", ["hosts.yml", "group_vars/west.yml", "host_vars/db01"])
def test_a_file_that_is_no_text_is_named(folder: Path, name: str, bad: bytes) -> None:
    path = write(folder, HOSTS)
    file = write(folder, HOSTS if name == "hosts.yml" else "a: 1\n", name)
    file.write_bytes(file.read_bytes() + b"# " + bad + b"\n")
    line = file.read_bytes().count(b"\n")
    with refused(
        ErrorId.ANSIBLE_INVENTORY_FAILED,
        UsageError,
        naming=f"line {line} of {file} is not UTF-8 text",
    ):
        load_inventory(path)


@pytest.mark.parametrize(
    ("bad", "line"),
    [
        ("a: 1\nb: [\nc: 2", 4),
        ("a: 1\nb: hunter2: x", 2),
        ("a: hunter2\n\tb: 1", 2),
        ("a: 'hunter2", 2),
        ("[" * 5000, 2),
    ],
)
@pytest.mark.parametrize("name", ["group_vars/west.yml", "host_vars/db01/own"])
def test_a_file_of_variables_that_is_no_yaml_is_named(
    folder: Path, name: str, bad: str, line: int
) -> None:
    file = write(folder, f"{bad}\n", name)
    with refused(
        ErrorId.ANSIBLE_INVENTORY_FAILED,
        UsageError,
        naming=f"line {line} of {file} is not YAML",
    ) as caught:
        load_inventory(write(folder, HOSTS))
    assert "hunter2" not in str(caught.value)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("kind", ["fifo", "zeros", "huge"])
@pytest.mark.parametrize(
    "name", ["ANSIBLE_CONFIG", "ANSIBLE_VAULT_PASSWORD_FILE", "HOME"]
)
def test_a_setting_of_ansible_that_is_no_file_is_not_waited_for(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, kind: str
) -> None:
    path = folder / ".ansible.cfg"
    make(kind, path)
    monkeypatch.setenv("HOME", str(folder))
    if name != "HOME":
        monkeypatch.setenv(name, str(path.rename(folder / "x")))
        path = folder / "x"
    with pytest.raises(UsageError, match=str(path)):
        load_inventory(write(folder, HOSTS))


def make(kind: str, path: Path) -> None:
    """Make something at *path* that is not to be read."""
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "zeros":
        path.symlink_to("/dev/zero")
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))
    else:
        path.touch()
        os.truncate(path, 1 << 30)


def test_an_encrypted_value_is_refused_where_it_is_used(folder: Path) -> None:
    text = "all: {vars: {x: !vault abc, dbcheck_target: 'postgresql://u@db1/d'}, hosts:"
    found = load_inventory(
        write(folder, f"{text} {{db1: , db2: {{dbcheck_workload: !vault a}}}}}}")
    )
    with refused(
        ErrorId.INVENTORY_TAG_NOT_SUPPORTED,
        UsageError,
        naming="dbcheck_workload is encrypted or tagged",
    ):
        found.entry("db2")


VAULT = """\
from ansible.parsing.vault import VaultLib, VaultSecret
import sys
text = b"dbcheck_target: postgresql://u@db1/d"
sys.stdout.buffer.write(VaultLib([("v", VaultSecret(b"open"))]).encrypt(text))
"""


def test_an_encrypted_file_is_read_with_the_password_that_the_user_names(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encrypted = subprocess.run(
        [sys.executable, "-c", VAULT], stdout=subprocess.PIPE, text=True, check=True
    )
    write(folder, encrypted.stdout, "group_vars/all.yml")
    path = write(folder, "all: {hosts: {db1: }}")
    with refused(
        ErrorId.VAULT_PASSWORD_MISSING, UsageError, naming="decrypt"
    ) as caught:
        load_inventory(path)
    assert "ANSIBLE_VAULT_PASSWORD_FILE" in caught.value.hint
    Path("password").write_text("open\n")
    monkeypatch.setenv("ANSIBLE_VAULT_PASSWORD_FILE", "password")
    assert load_inventory(path).entry("db1").target == "postgresql://u@db1/d"


def test_templates_are_left_to_dbcheck(folder: Path) -> None:
    lookup = "{{ lookup('pipe', 'touch ran') }}"
    text = f'all: {{hosts: {{db1: {{dbcheck_target: "postgresql://{lookup}"}}}}}}'
    with refused(
        ErrorId.INVENTORY_TEMPLATE_NOT_SUPPORTED,
        UsageError,
        naming="dbcheck_target is a template",
    ):
        load_inventory(write(folder, text)).entry("db1")
    assert not list(folder.rglob("ran"))


SETTINGS = """\
[defaults]
inventory_plugins = ./inventory_plugins
vars_plugins = ./vars_plugins
vars_plugins_enabled = host_group_vars,evil
[inventory]
enable_plugins = evil,yaml
"""
EVIL = """\
open({marker!r}, "w").close()
from ansible.plugins.inventory.yaml import InventoryModule
from ansible.plugins.vars.host_group_vars import VarsModule
"""


@pytest.fixture
def hostile(folder: Path) -> Path:
    """A working directory with all that Ansible reads or runs where it is started."""
    evil = EVIL.format(marker=str(folder / "ran"))
    for name in ("inventory_plugins/evil.py", "vars_plugins/evil.py", "yaml.py"):
        write(Path(), evil, name)
    write(Path(), evil, "ansible/__init__.py")
    write(Path(), SETTINGS, "ansible.cfg")
    for name in ("group_vars/all.yml", "host_vars/db1.yml"):
        write(Path(), "dbcheck_password_command: [touch, ran]\n", name)
    return write(folder, "all: {hosts: {db1: {dbcheck_target: 'postgresql://db1/d'}}}")


def test_nothing_in_the_working_directory_has_an_effect(hostile: Path) -> None:
    assert load_inventory(hostile).entry("db1").password is None
    assert not hostile.with_name("ran").exists()


def test_the_settings_that_the_user_names_have_their_effect(
    hostile: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which also shows that the plugins above are ones that Ansible would run."""
    monkeypatch.setenv("ANSIBLE_CONFIG", "ansible.cfg")
    assert load_inventory(hostile).entry("db1").password is None
    assert hostile.with_name("ran").exists()


@pytest.mark.parametrize("locale", ["C", "xx_YY.UTF-8", "de_DE.ISO-8859-1"])
def test_any_locale_will_do(
    folder: Path, locale: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LC_ALL", locale)
    path = write(folder, HOSTS, "inventory/hosts.yml")
    assert load_inventory(path.parent).entry("db01")


def test_an_inventory_that_is_a_program_is_run_if_nobody_else_may_write_it(
    folder: Path,
) -> None:
    """As Ansible does, and README says."""
    groups = {
        "_meta": {"hostvars": {"db1": {"dbcheck_target": "postgresql://u@db1/d"}}},
        "all": {"hosts": ["db1"]},
    }
    script = f"#!/bin/sh\ntouch {folder}/ran\necho '{json.dumps(groups)}'\n"
    path = write(folder, script, "program")
    path.chmod(0o757)
    with refused(
        ErrorId.INVENTORY_OPEN_TO_OTHERS, UsageError, naming="any user may write"
    ):
        load_inventory(path)
    path.chmod(0o755)
    assert set(load_inventory(path).entries) == {"db1"}
    assert (folder / "ran").exists()


@pytest.mark.parametrize("inside", [False, True])
def test_a_program_with_the_name_of_a_yaml_file_is_not_run(
    folder: Path, inside: bool
) -> None:
    """Neither in a folder of inventories, nor because its YAML asks for that."""
    script = f"#!/bin/sh\nplugin: ansible.builtin.script\na: $(touch {folder}/ran)\n"
    path = write(folder, script, "all/hosts.yml")
    path.chmod(0o755)
    with refused(
        ErrorId.ANSIBLE_INVENTORY_FAILED, UsageError, naming=str(path)
    ) as caught:
        load_inventory(path.parent if inside else path)
    assert not (folder / "ran").exists()
    assert f"chmod a-x {path}" in caught.value.hint


def give(path: Path, *, group: bool) -> None:
    """Make *path* another user's, or writable by a group that has other users."""
    os.chown(path, -1 if group else STRANGER, STRANGER)
    path.chmod(0o775 if group else 0o755)


@AS_ROOT
@pytest.mark.parametrize("group", [True, False], ids=["of a group", "of another user"])
@pytest.mark.parametrize("whose", ["hosts", ".", "link", "group_vars"])
def test_an_inventory_that_another_user_may_change_is_not_run(
    folder: Path, whose: str, group: bool
) -> None:
    """By its own file, a folder, one that a link leads through, or variables."""
    place, given = folder / "place", folder / "hosts"
    script = f"#!/bin/sh\ntouch {folder}/ran\necho '{{}}'\n"
    write(place, script, "hosts").chmod(0o755)
    (place / "group_vars").mkdir()
    given.symlink_to(place / "hosts")
    if whose != "link":
        give(place / whose, group=group)
    elif group:
        give(folder, group=True)
    else:
        os.chown(given, STRANGER, STRANGER, follow_symlinks=False)
    with refused(ErrorId.INVENTORY_OPEN_TO_OTHERS) as caught:
        load_inventory(given)
    assert not (folder / "ran").exists()
    assert ("chmod g-w" if group else "chown -h 0") in caught.value.hint


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ANSIBLE_VAULT_IDENTITY_LIST", "dev@{0}/me@work/secret"),
        ("ANSIBLE_VAULT_IDENTITY_LIST", "prompt, dev@$OPEN/me@work/secret"),
        ("ANSIBLE_VAULT_IDENTITY_LIST", "dev@{0}/prompter.py"),
        ("ANSIBLE_VAULT_PASSWORD_FILE", "$OPEN/me@work/secret"),
        ("ANSIBLE_CONFIG", "{0}/me@work"),
    ],
)
def test_what_the_environment_names_for_ansible_is_looked_at(
    name: str, value: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the paths that Ansible makes of it; a program there would be run."""
    open_to_all = folder / "open"
    for each in ("me@work/secret", "me@work/ansible.cfg", "prompter.py"):
        write(open_to_all, "#!/bin/sh\n", each).chmod(0o777)
    monkeypatch.setenv("OPEN", str(open_to_all))
    monkeypatch.setenv(name, value.format(open_to_all))
    path = write(folder, HOSTS)
    with refused(ErrorId.INVENTORY_OPEN_TO_OTHERS) as caught:
        load_inventory(path)
    assert "any user may write" in str(caught.value)


def test_nobody_else_adds_variables_to_an_inventory(folder: Path) -> None:
    """In /tmp anybody may make group_vars, once they were looked for."""
    path = write(folder / "sticky", HOSTS)
    path.parent.chmod(0o1777)
    with refused(ErrorId.INVENTORY_OPEN_TO_OTHERS) as caught:
        load_inventory(path)
    assert "may add variables" in str(caught.value)


def test_what_is_missing_may_be_put_there_by_who_may_write_the_folder(
    folder: Path,
) -> None:
    folder.chmod(0o777)
    assert find_change_by_others(folder / "missing") is not None
    folder.chmod(0o755)
    assert find_change_by_others(folder / "missing") is None


def test_a_group_of_the_user_alone_may_write_an_inventory(folder: Path) -> None:
    """As where the umask is 002, and each user has a group of the same name."""
    own = pwd.getpwuid(os.geteuid())
    if grp.getgrgid(own.pw_gid).gr_name != own.pw_name:
        pytest.skip("this user has no group of its own")
    path = write(folder, HOSTS)
    for each in (path, folder):
        os.chown(each, -1, own.pw_gid)
        each.chmod(each.stat().st_mode | 0o020)
    assert load_inventory(path).entry("db01")


@AS_ROOT
def test_who_called_sudo_may_write_an_inventory(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(folder, HOSTS)
    for each in (path, folder):
        os.chown(each, STRANGER, STRANGER)
    monkeypatch.setenv("SUDO_UID", str(STRANGER))
    assert load_inventory(path).entry("db01")


def test_init_writes_what_loads_and_replaces_nothing(tmp_path: Path) -> None:
    path = tmp_path / "mine.yml"
    assert dbcheck("init", str(path)).returncode == 0
    assert load_inventory(path).entries
    path.write_text("mine")
    again = dbcheck("init", str(path))
    assert again.returncode == USAGE
    assert path.read_text() == "mine"
    assert dbcheck("init", str(path / "no")).returncode == USAGE


def dbcheck(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        (sys.executable, "-m", "dbcheck", *words),
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize("how", ["environment", "configuration"])
def test_hosts_have_the_variables_of_their_groups_however_ansible_is_set_up(
    folder: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """With --export as the default a host's switch would silently be missing."""
    if how == "environment":
        monkeypatch.setenv("ANSIBLE_INVENTORY_EXPORT", "1")
    else:
        write(folder, "[inventory]\nexport = true\n", "ansible.cfg")
        monkeypatch.setenv("ANSIBLE_CONFIG", str(folder / "ansible.cfg"))
    text = """\
all:
  vars: {dbcheck_target: postgresql://u@h/d, dbcheck_sessions: 61}
  hosts: {db1: }
"""
    assert load_inventory(write(folder, text)).entry("db1").sessions == 61


def test_a_line_that_ansible_shows_is_not_repeated(folder: Path) -> None:
    text = "db1 dbcheck_password_command='hunter2\n"
    with refused(
        ErrorId.ANSIBLE_INVENTORY_FAILED, UsageError, naming="cannot read"
    ) as caught:
        load_inventory(write(folder, text, "hosts.ini"))
    assert "hunter2" not in str(caught.value) + caught.value.hint


def children_of(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


@pytest.mark.parametrize("killed", [False, True])
def test_nothing_temporary_is_left_also_if_the_client_is_killed(
    folder: Path, monkeypatch: pytest.MonkeyPatch, killed: bool
) -> None:
    monkeypatch.setenv("TMPDIR", str(folder / "tmp"))
    (folder / "tmp").mkdir()
    path = write(folder, HOSTS)
    code = "import sys; from pathlib import Path; from dbcheck.inventory.load import"
    command = (
        sys.executable,
        "-c",
        f"{code} load_inventory; load_inventory(Path(sys.argv[1]))",
        str(path),
    )
    with subprocess.Popen(command) as client:
        wait_until(lambda: bool(children_of(client.pid)), "ansible-inventory runs")
        (child,) = children_of(client.pid)
        if killed:
            client.kill()
    assert client.returncode == (-9 if killed else 0)
    wait_until(lambda: not Path(f"/proc/{child}").exists(), "it ended as well")
    assert not list((folder / "tmp").iterdir())


def test_one_that_takes_too_long_is_refused_with_what_shows_why(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listed, "_TIMEOUT_S", 0.01)
    path = write(folder, HOSTS, "a host.yml")
    with refused(ErrorId.ANSIBLE_INVENTORY_FAILED, UsageError, naming="0.01") as caught:
        load_inventory(path)
    assert caught.value.hint.endswith(f"ansible-inventory -i '{path}' --list.")
