"""The settings for a host: as ssh(1) sees them, which is asked, or read without it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NoReturn

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import HostError, UsageError
from dbcheck.remote import hostkeys, sshconfig, sshread
from dbcheck.remote.address import Address, SshOptions
from dbcheck.remote.hostkeys import UnreadableList
from dbcheck.remote.ssh import connect
from dbcheck.remote.sshconfig import Settings, read_settings
from dbcheck.remote.sshlogin import Keys
from tests.kit.refusals import refused
from tests.kit.waiting import wait_until

needs_ssh = pytest.mark.skipif(not shutil.which("ssh"), reason="needs the ssh client")
BOTH = (pytest.param("ssh", marks=needs_ssh), "without")


@pytest.fixture(params=BOTH)
def reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Say who reads: ssh(1), or dbcheck where there is none."""
    if request.param == "without":
        monkeypatch.setattr(sshconfig, "find_ssh", lambda: None)
    return str(request.param)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give another home, where ssh(1) would not look."""
    (tmp_path / ".ssh" / "config.d").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def write(home: Path, **files: str) -> None:
    for name, text in files.items():
        (home / ".ssh" / name.replace("_", "/", 1)).write_text(text)


def said(tmp_path: Path, text: str, host: str = "db") -> Settings:
    """Return the settings that a file with *text* has for *host*: [user@]host[:port].

    In the text, {} is its folder.
    """
    path = tmp_path / "config"
    path.write_text(text.replace("{}", str(tmp_path)))
    return read_settings(Address.parse(host), path)


def is_gone(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return True
    return status.rpartition(")")[2].split()[0] == "Z"


def shown(found: Settings, *names: str) -> list[Any]:
    """Return settings by their names, those of the keys among them."""
    return [getattr(found if hasattr(found, n) else found.keys, n) for n in names]


HOME = Path("~").expanduser()
ME = sshconfig._find_local_user()
DB = "Host db\n  HostName 127.0.0.1\n"
# What the file says, whom it is asked about, and what is to come of it.
READ: dict[str, tuple[str, str, dict[str, Any]]] = {
    "nothing": ("", "db", {"host": "db", "port": 22, "user": ME}),
    "names": (DB + "Host d?\n Port 2222", "db", {"host": "127.0.0.1", "port": 2222}),
    "no such host": (DB, "other", {"host": "other"}),
    "short address": ("HostName 127.1", "db", {"host": "127.0.0.1"}),
    "octal address": ("User me", "027.0.0.1", {"host": "23.0.0.1"}),
    "name": ("HostName %h.Example", "db", {"host": "db.example"}),
    "comments": (
        "Host db # Bob's\n HostName a # b\n Port 2222 # odd\n User right\n",
        "db",
        {"host": "a", "port": 2222, "user": "right"},
    ),
    "equals": ('Host=db\n Port = 23\n User="right"\n', "db", {"port": 23}),
    "quotes": (
        'Host "db" \'x\'\n IdentityFile "~/my key"\n UserKnownHostsFile "~/a b" /c',
        "db",
        {"files": (HOME / "my key",)},
    ),
    "the first counts": (
        "User a\nHost db\n User b\nHost *\n User c",
        "db",
        {"user": "a"},
    ),
    "user given": (
        "User a\nMatch user you\n Port 1",
        "you@db",
        {"port": 1, "user": "you"},
    ),
    "port given": ("Port 1\n", "db:5", {"port": 5}),
    "negated": ("Host * !db\n User no\nHost !other *\n Port 7", "db", {"port": 7}),
    "alias": (DB + "HostKeyAlias Db-7", "db", {"alias": "db-7"}),
    "alias none": ("HostKeyAlias none", "db", {"alias": "none"}),
    "agent": ('IdentityAgent "~/a b/sock"', "db", {"agent": HOME / "a b/sock"}),
    "no agent": ("IdentityAgent none", "db", {"agent": None}),
    "agent of a variable": ("IdentityAgent $DB_AGENT", "db", {"agent": Path("/agent")}),
    "only these": ("IdentitiesOnly yes", "db", {"files_only": True}),
    "command first": (
        "ProxyCommand nc %h %p\nHost *\n ProxyJump hop",
        "db",
        {"proxy_command": "nc db 22", "jumps": ()},
    ),
    "jump first": (
        "ProxyJump a,me@b:23\nHost *\n ProxyCommand nc %h",
        "db",
        {"proxy_command": None, "jumps": (Address("a"), Address("b", "me", 23))},
    ),
    "signs before a command": (
        "ProxyCommand == \t nc %h\r",
        "db",
        {"proxy_command": "nc db"},
    ),
    "no command, no jump": (
        "ProxyCommand none\nHost *\n ProxyJump hop",
        "db",
        {"proxy_command": None, "jumps": ()},
    ),
    "tokens": (
        "IdentityFile %d/%u-%n-%r%%\nUser x\nProxyCommand c %% %h %n %p %r",
        "db",
        {
            "files": (HOME / f"{ME}-db-x%",),
            "proxy_command": "c % db db 22 x",
        },
    ),
    "quotes of a shell": (
        "ProxyCommand sh -c \"aws start --target %h --parameters 'port=%p'\"",
        "i-1",
        {"proxy_command": "sh -c \"aws start --target i-1 --parameters 'port=22'\""},
    ),
    "the user given, in a command": (
        "Host * !jump\n User no\n ProxyCommand ssh -W %h:%p %r@jump",
        "you@db",
        {"proxy_command": "ssh -W db:22 you@jump"},
    ),
    "criteria in capitals": (
        "Match Host 10.0.*.* User ec2\n User ec2\n Port 9\nMatch HOST db\n Port 8",
        "db",
        {"user": ME, "port": 8},
    ),
    "certificates": (
        "CertificateFile ~/a-cert.pub\nCertificateFile %d/b",
        "db",
        {"certificates": (HOME / "a-cert.pub", HOME / "b")},
    ),
    "jump with tokens": (
        "ProxyJump %r@hop",
        "me@db",
        {"jumps": (Address("hop", "me"),)},
    ),
    "jump with a comma in a token": (
        "ProxyJump %r@hop",
        "me,you@other@db",
        {"jumps": (Address("hop", "me,you@other"),)},
    ),
    "jump as a URL": (
        "ProxyJump me@a:23,ssh://b",
        "db",
        {"jumps": (Address("a", "me", 23), Address("b"))},
    ),
    "variables": (
        "IdentityFile ${DB_AGENT}/k",
        "db",
        {"files": (Path("/agent/k"),)},
    ),
    "files of hosts": (
        'UserKnownHostsFile "/a b" /%h/%p\nGlobalKnownHostsFile none',
        "db",
        {"known_hosts": (Path("/a b"), Path("/db/22"))},
    ),
    "no files of hosts": (
        "UserKnownHostsFile none\nGlobalKnownHostsFile none",
        "db",
        {"known_hosts": ()},
    ),
    "match host=": ("Match host=db\n HostName 127.0.0.1", "db", {"host": "127.0.0.1"}),
    "match of a name before": (
        "Match host x\n User late\nHost db\n HostName x",
        "db",
        {"host": "x", "user": ME},
    ),
    "match of a name": ("HostName %h.x\nMatch host db.x\n User a", "db", {"user": "a"}),
    "match all": (DB + "Match all\n User a", "db", {"user": "a"}),
    "match not": ("Match !host other\n User a", "db", {"user": "a"}),
    "capitals": (
        "Host db\n User no\nMatch host db\n Port 3",
        "DB",
        {"user": ME, "port": 3},
    ),
    "a link to nowhere": (
        "Include {}/dangling {}/none\nHost db\n User a",
        "db",
        {"user": "a"},
    ),
    "a folder": ("Include {}\nUser a", "db", {"user": "a"}),
    "a home of nobody": ("Include ~nobody-here/x\nUser a", "db", {"user": "a"}),
    "include": (
        "Host other\n Include {}/part\nHost db\n Include {}/part\n Port 9",
        "db",
        {"user": "part", "port": 9},
    ),
    "the home of nobody": (
        "Include ~nobody-of-that-name/x\nUser a",
        "db",
        {"user": "a"},
    ),
    "an included block ends": (
        "Include {}/block\nPort 9",
        "db",
        {"user": ME, "port": 9},
    ),
}


@pytest.mark.parametrize("case", READ)
def test_a_configuration_says_what_ssh_would_do(
    case: str, reader: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DB_AGENT", "/agent")
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "part").write_text("User part\n")
    (tmp_path / "block").write_text("Host nobody\n User block\n")
    text, host, expected = READ[case]
    found = said(tmp_path, text, host)
    assert shown(found, *expected) == [*expected.values()]


# What ssh(1) alone can tell: what it says where it can, and otherwise the line.
ASKED: dict[str, tuple[str, dict[str, Any], int]] = {
    "names made canonical": (
        "CanonicalizeHostname yes\n" + DB,
        {"host": "127.0.0.1"},
        1,
    ),
    "final": (DB + "Match final all\n User right", {"user": "right"}, 3),
    "not final": ("Match !final\n Port 9\nUser a", {"port": 9}, 1),
    "a command behind no jump": (
        "ProxyJump none\nUser a\nProxyCommand nc %h",
        {"user": "a"},
        3,
    ),
    "a set in Include": ("User a\nInclude {}/[^x]*/x", {"user": "a"}, 2),
    "a class in Include": ("User a\nInclude {}/[[:alpha:]]/x", {"user": "a"}, 2),
    "a backslash in Include": ("User a\nInclude {}/\\\\x", {"user": "a"}, 2),
    "exec": (
        'Match !host other exec "true"\n User right\nMatch exec "false"\n Port 7',
        {"user": "right", "port": 22},
        1,
    ),
}
# What came later than some releases of OpenSSH, which refuse it then.
LATER: dict[str, tuple[str, dict[str, Any], int]] = {
    "tagged": (DB + 'Match tagged "prod"\n Port 7', {"port": 22}, 3),
    "network": ("Match localnetwork 203.0.113.0/24\n User wrong", {"user": ME}, 1),
    "version": ("Match version OpenSSH_99*\n User wrong", {"user": ME}, 1),
    "a token in Include": ("User a\nInclude {}/%n/x", {"user": "a"}, 2),
    "session": ("Match sessiontype sftp\n User wrong", {"user": ME}, 1),
}


@pytest.mark.parametrize("case", ASKED | LATER)
def test_what_ssh_alone_can_tell_is_refused_without_it(
    case: str, reader: str, tmp_path: Path
) -> None:
    text, expected, line = (ASKED | LATER)[case]
    try:
        found = said(tmp_path, text)
    except UsageError as error:
        assert error.id is ErrorId.SSH_CONFIG_INVALID
        assert f"{tmp_path}/config" in str(error)
        assert f"line {line}" in str(error)
        assert reader == "without" or case in LATER
    else:
        assert reader == "ssh"
        assert shown(found, *expected) == [*expected.values()]


def test_a_criterion_that_is_not_reached_is_not_refused(
    reader: str, tmp_path: Path
) -> None:
    found = said(
        tmp_path, f'Match originalhost other exec "touch {tmp_path}/side"\n User x'
    )
    assert found.user == ME
    assert not (tmp_path / "side").exists()


@pytest.mark.parametrize(
    "text",
    [
        "Include {}/config\n",
        "Host db\n  Port many\n",
        "Port 70000\n",
        "Host db\n  NoValue\n",
        "User it's\n",
        "User a b\n",
        "Match host\n",
        "HostName %p\n",
        "UserKnownHostsFile ${NOT_SET_HERE}/x\n",
        "ProxyCommand nc --secret hunter2 %Z\n",
        "ProxyCommand nc %",
        "UserKnownHostsFile /a\0b",
        "ProxyUseFdpass yes\nProxyCommand nc %h\n",
        "IdentityFile ~nobody-of-that-name/key\n",
        "UserKnownHostsFile ~nobody-of-that-name/known\n",
        "HostName a\0b\n",
    ],
)
def test_what_cannot_be_used_is_told(reader: str, text: str, tmp_path: Path) -> None:
    with refused(
        ErrorId.SSH_CONFIG_INVALID, UsageError, naming=f"{tmp_path}/config"
    ) as caught:
        said(tmp_path, text)
    assert caught.value.id is ErrorId.SSH_CONFIG_INVALID
    assert caught.value.hint
    assert "hunter2" not in str(caught.value)


def test_a_line_of_another_kind_of_file_is_not_repeated(
    reader: str, tmp_path: Path
) -> None:
    """The file may be a list of passwords, and the line a megabyte."""
    with refused(
        ErrorId.SSH_CONFIG_INVALID, UsageError, naming=f"{tmp_path}/config, line 1:"
    ) as caught:
        said(tmp_path, "hunter2" + "x" * 1_000_000)
    assert "hunter2" not in str(caught.value)


def test_a_file_that_is_included_and_too_large_is_named(
    reader: str, tmp_path: Path
) -> None:
    huge = tmp_path / "huge"
    huge.touch()
    os.truncate(huge, 1 << 30)
    with refused(
        ErrorId.SSH_CONFIG_INVALID, UsageError, naming=f"{huge}: it is larger"
    ):
        said(tmp_path, f"Include {huge}\n")


def test_a_missing_file_says_nothing(reader: str, tmp_path: Path) -> None:
    found = read_settings(Address("db", "me"), tmp_path / "none")
    assert shown(found, "host", "port", "user") == ["db", 22, "me"]
    assert HOME / ".ssh/known_hosts" in found.known_hosts
    assert HOME / ".ssh/id_ed25519" in found.keys.files


@pytest.mark.parametrize("name", ["config", "part"])
def test_a_file_that_others_may_write_runs_nothing(
    name: str, reader: str, tmp_path: Path
) -> None:
    """Not even where ssh(1), given a file by name, would read it."""
    (tmp_path / "part").write_text(f'Match exec "touch {tmp_path}/ran"\n User me\n')
    (tmp_path / "config").write_text(f"Host other\n Include {tmp_path}/part\n")
    (tmp_path / name).chmod(0o666)
    with refused(
        ErrorId.SSH_CONFIG_INVALID, UsageError, naming=f"may write {tmp_path}/{name}"
    ):
        read_settings(Address("other"), tmp_path / "config")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "name", ["[^a]art", "[!a]art", "[[:alpha:]]art", "\\part", "[]p]art", "%n", "p?rt"]
)
@needs_ssh
def test_nor_one_that_a_pattern_includes(name: str, tmp_path: Path) -> None:
    """However ssh(1) reads it, where it does so otherwise than Python."""
    (tmp_path / "part").write_text(f'Match exec "touch {tmp_path}/ran"\n User me\n')
    (tmp_path / "config").write_text(f"Include {tmp_path}/{name}\n")
    (tmp_path / "part").chmod(0o666)
    with refused(
        ErrorId.SSH_CONFIG_INVALID, UsageError, naming=f"may write {tmp_path}/part"
    ):
        read_settings(Address("part"), tmp_path / "config")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("name", ["x..y", "x" * 64 + ".invalid", "\udcff"])
def test_what_is_no_name_of_a_host_is_told(
    name: str, reader: str, tmp_path: Path
) -> None:
    text = os.fsencode(f"Host db\n HostName {name}\n")
    (tmp_path / "config").write_bytes(text)
    options = SshOptions(config_file=tmp_path / "config")
    with refused(ErrorId.HOST_UNREACHABLE, HostError, naming="not a valid host name"):
        connect(Address("db"), options)


@needs_ssh
def test_a_command_that_decides_gets_no_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", "hunter2")
    text = (
        'Match exec "printenv PGPASSWORD"\n  User leaked\n'
        'Match exec "test %h = db"\n  User me\n'
    )
    assert said(tmp_path, text).user == "me"
    assert said(tmp_path, text, "other").user == ME
    with refused(ErrorId.SSH_CONFIG_INVALID) as caught:
        said(tmp_path, "ProxyCommand nc\nIdentityFile ${PGPASSWORD}/x\n")
    assert "hunter2" not in str(caught.value)


@needs_ssh
def test_an_answer_that_does_not_come_is_not_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(f'Match exec "echo $$ > {tmp_path}/pid; exec sleep 300"\n')
    with refused(ErrorId.SSH_CONFIG_INVALID, UsageError, naming="did not end in 0.5 s"):
        read_settings(Address("db"), path, limit_s=0.5)
    pid = int((tmp_path / "pid").read_text())
    wait_until(lambda: is_gone(pid), "what it started is gone")


@needs_ssh
def test_what_a_command_leaves_running_is_left(tmp_path: Path) -> None:
    """Many start a tunnel."""
    path = tmp_path / "config"
    command = f"sleep 300 & echo $! > {tmp_path}/pid"
    path.write_text(f'Match exec "{command}"\n User me\n')
    assert read_settings(Address("db"), path, limit_s=10).user == "me"
    os.kill(int((tmp_path / "pid").read_text()), 9)


def fake_ssh(folder: Path, script: str) -> Path:
    """Make a program called ssh in *folder*; return the folder."""
    folder.mkdir(exist_ok=True)
    program = folder / "ssh"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return folder


@pytest.mark.parametrize(
    "said", ["echo Dropbear v2024.86 >&2", "exit 255", "sleep 300"]
)
def test_another_program_of_that_name_is_not_asked(
    said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dropbear's takes no notice of -G, and connects."""
    folder = fake_ssh(
        tmp_path / "bin", f'[ "$1" = -V ] || touch {tmp_path}/asked\n{said}'
    )
    monkeypatch.setattr(sshread, "_VERSION_LIMIT_S", 0.5)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    path = tmp_path / "config"
    path.write_text("User me\n")
    assert read_settings(Address("db"), path).user == "me"
    assert not (tmp_path / "asked").exists()


@pytest.mark.parametrize("name", ["bin", "bin/ssh"])
def test_nor_one_that_another_user_may_change(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another of that name in PATH is asked, or none."""
    folder = fake_ssh(tmp_path / "bin", f"touch {tmp_path}/ran\necho OpenSSH_9.2 >&2")
    (folder / "ssh-keygen").symlink_to("ssh")
    (tmp_path / name).chmod(0o777)
    path = tmp_path / "config"
    path.write_text("Match final\n User me\nUser other\n")
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    if shutil.which("ssh", path=os.defpath):
        assert read_settings(Address("db"), path).user
    monkeypatch.setenv("PATH", str(folder))
    with refused(
        ErrorId.SSH_CONFIG_INVALID, UsageError, naming="only ssh itself understands"
    ):
        read_settings(Address("db"), path)
    (tmp_path / "krl").write_bytes(b"SSHKRL\n\0")
    with pytest.raises(UnreadableList, match="ssh-keygen"):
        hostkeys._is_revoked(tmp_path / "krl", b"ssh-ed25519 AAAA")
    assert not (tmp_path / "ran").exists()


def old_ssh(folder: Path, output: str) -> None:
    """Make an ssh of release 7.4 that prints *output*."""
    fake_ssh(
        folder,
        "[ $1 = -V ] && { echo OpenSSH_7.4p1, OpenSSL 1.0.2k-fips >&2; exit; }\n"
        f"echo \"$@\" > {folder}/asked\ncat <<'END'\n{output}END",
    )


def test_an_old_release_is_understood(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It shows the names of files with their tokens."""
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    old_ssh(
        tmp_path,
        "user me\nhostname 127.0.0.1\nport 23\nidentityfile ~/.ssh/my key\n"
        "identityagent ~/%h.sock\nuserknownhostsfile ~/.ssh/known hosts ~/x\n"
        "proxyjump [::1]:24\nidentitiesonly no\n",
    )
    found = read_settings(Address("db", "me", 23), tmp_path / "none")
    assert (tmp_path / "asked").read_text().split() == [
        *("-G", "-F", "/dev/null", "-l", "me", "-p", "23", "--", "db")
    ]
    assert found == Settings(
        "127.0.0.1",
        23,
        "me",
        jumps=(Address("::1", None, 24),),
        known_hosts=(HOME / ".ssh/known hosts", HOME / "x"),
        keys=Keys((HOME / ".ssh/my key",), (), HOME / "127.0.0.1.sock"),
    )


@pytest.mark.parametrize("output", ["", "hostname a\nuser b\n", "\0\xff\nport\n"])
def test_an_answer_without_sense_is_refused(
    output: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    old_ssh(tmp_path, output)
    with refused(ErrorId.SSH_CONFIG_INVALID):
        read_settings(Address("db"), tmp_path / "none")


def test_a_user_without_a_home_is_told_what_to_set(
    reader: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a container that is run under an arbitrary id."""

    def unknown(number: int) -> NoReturn:
        raise KeyError(number)

    monkeypatch.delenv("HOME")
    monkeypatch.setattr("pwd.getpwuid", unknown)
    with refused(ErrorId.SSH_CONFIG_INVALID) as caught:
        read_settings(Address("db", "me"))
    assert "HOME" in caught.value.hint


def test_includes_are_read_and_end_with_their_file(home: Path) -> None:
    """In another home than the password file's, which ssh(1) would not look at."""
    write(
        home,
        config="Include config.d/* ~/.ssh/none\nUser me\n"
        "Host other\n  Include=config.d/one\n  Port 4\n",
        **{
            "config.d_one": "Host lab\n  Port 1\n",
            "config.d_two": "Host two\n  Port 2\n",
        },
    )
    found = {
        name: read_settings(Address(name)) for name in ("lab", "two", "other", "any")
    }
    assert [found[name].port for name in found] == [1, 2, 4, 22]
    assert {one.user for one in found.values()} == {"me"}
    assert found["any"].known_hosts[0] == home / ".ssh/known_hosts"


PRIVATE = """
mount --bind {users} /etc/passwd && mount --bind {system} /etc/ssh && exec {python} -c '
from dbcheck.remote.address import Address
from dbcheck.remote.sshconfig import read_settings
found = read_settings(Address("db"))
print(found.user, found.port, found.host, *found.known_hosts[-1:])
'
"""


@pytest.mark.root
@needs_ssh
def test_the_systems_configuration_counts_after_the_users(tmp_path: Path) -> None:
    """With a home and an /etc/ssh in a namespace of their own."""
    home, system = tmp_path / "home", tmp_path / "system"
    (home / ".ssh" / "config.d").mkdir(parents=True)
    (system / "ssh_config.d").mkdir(parents=True)
    (home / ".ssh/config").write_text("Include config.d/*\nUser own\n")
    (home / ".ssh/config.d/x").write_text("HostName own.example\n")
    (system / "ssh_config").write_text("Include ssh_config.d/*.conf\nUser system\n")
    (system / "ssh_config.d/x.conf").write_text(
        "Match final all\n Port 7\n GlobalKnownHostsFile /etc/ssh/known\n"
    )
    users = tmp_path / "passwd"
    users.write_text(f"root:x:0:0::{home}:/bin/sh\n")
    script = PRIVATE.format(users=users, system=system, python=sys.executable)

    def run() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["unshare", "-m", "sh", "-c", script],
            env=os.environ | {"PYTHONPATH": os.getcwd(), "HOME": str(home)},
            capture_output=True,
            text=True,
            check=False,
        )

    done = run()
    assert done.stdout.split() == ["own", "7", "own.example", "/etc/ssh/known"], done
    (system / "ssh_config.d/x.conf").chmod(0o666)
    assert "any user may write /etc/ssh/ssh_config.d/x.conf" in run().stderr


@pytest.mark.parametrize(
    "config",
    [
        pytest.param("ProxyCommand true %h", id="ProxyCommand"),
        pytest.param('Match exec "true %h"\n  User me', id="Match exec"),
        pytest.param(
            'ProxyJump $(touch${IFS}ran)\nMatch exec "true %h"\n  Port 1',
            id="ProxyJump",
        ),
    ],
)
def test_a_host_does_not_reach_a_shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: str
) -> None:
    """Witnesses and hosts are named in files, and ssh_config hands them to a shell."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config").write_text(f"{config}\n")
    host = "127.0.0.1" if "ProxyJump" in config else "$(touch${IFS}ran)"
    options = SshOptions(connect_timeout_s=5, config_file=tmp_path / "config")
    with refused(ErrorId.HOST_ADDRESS_INVALID):
        connect(Address.parse(f"u@{host}"), options)
    assert not (tmp_path / "ran").exists()
