"""What all agents share: messages, and looking round on a host."""

from __future__ import annotations

import ast
import importlib
import inspect
import os
import sys
from pathlib import Path

import pytest

from dbcheck.agent import wire
from dbcheck.remote.channel import build_program, make_bootstrap
from tests.kit.channels import AGENTS

SENT = {
    "dbcheck.base.system",
    "dbcheck.agent.wire",
    *AGENTS,
    *(part for p in AGENTS.values() for part in p),
}


@pytest.mark.parametrize("module", sorted(SENT))
def test_what_is_sent_is_python_3_8_and_needs_nothing_installed(module: str) -> None:
    source = inspect.getsource(importlib.import_module(module))
    named: set[str] = set()
    for node in ast.walk(ast.parse(source, feature_version=(3, 8))):
        if isinstance(node, ast.Import):
            named.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            named.add(node.module or "")
    tops = {name.split(".")[0] for name in named - SENT}
    assert tops <= set(sys.stdlib_module_names)


@pytest.mark.parametrize("module", AGENTS)
def test_a_bootstrap_passes_a_login_shell_in_single_quotes(module: str) -> None:
    line = make_bootstrap(len(build_program(module, *AGENTS[module])))
    assert "'" not in line
    assert "\n" not in line


def test_the_innermost_mount_tells_the_filesystem(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mounts = [
        "20 1 8:1 / / rw,noatime shared:1 - ext4 /dev/a rw,errors=remount-ro\n",
        "21 20 8:2 / /a rw - xfs /dev/b rw\n",
        "22 20 0:9 / /a\\040b rw - tmpfs tmpfs rw\n",
        "23 20 8:3 / /a rw - btrfs /dev/c rw,space_cache=v2\n",
    ]
    monkeypatch.setattr(wire, "read_lines", lambda _: iter(mounts))
    monkeypatch.setattr(os.path, "realpath", lambda path: path)
    found = [wire.find_mount(p)["type"] for p in ("/a/x", "/a", "/a b/c", "/ab")]
    assert found == ["btrfs", "btrfs", "tmpfs", "ext4"]
    mounts = mounts[:1]
    assert wire.find_mount("/x") == {
        "point": "/",
        "source": "/dev/a",
        "type": "ext4",
        "options": "rw,noatime,errors=remount-ro",
    }


def test_own_addresses_are_without_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    files = {
        "/proc/net/fib_trie": "Main:\n  +-- 0.0.0.0/0 3 0 5\n"
        "     |-- 127.0.0.1\n        /32 host LOCAL\n"
        "     |-- 192.0.2.2\n        /32 host LOCAL\n"
        "     |-- 192.0.2.255\n        /32 link BROADCAST\n",
        "/proc/net/if_inet6": f"{1:032x} 01 80 10 80 lo\n"
        "20010db8000000000000000000000007 02 40 00 80 eth0\n",
    }
    monkeypatch.setattr(wire, "read_lines", lambda path: iter(files[path].splitlines()))
    assert set(wire.list_addresses()) == {"192.0.2.2", "2001:db8::7"}


MACOS = """\
/dev/disk3s1s1 on / (apfs, sealed, local, read-only, journaled)
devfs on /dev (devfs, local, nobrowse)
/dev/disk3s5 on /System/Volumes/Data (apfs, local, journaled, nobrowse)
/dev/disk4s1 on /Volumes/Old disk (2) (hfs, local, nodev, nosuid)
"""
FREEBSD = """\
zroot/ROOT/default on / (zfs, local, noatime, nfsv4acls)
tmpfs on /tmp (tmpfs, local)
"""
OPENBSD = """\
/dev/sd0a on / type ffs (local)
mfs:71 on /tmp type mfs (asynchronous, local, nodev, nosuid, size=1048576 512-blocks)
"""
LINUX = """\
/dev/vda on / type ext4 (rw,noatime)
tmpfs on /run type tmpfs (rw,nosuid)
"""


@pytest.mark.parametrize(
    ("printed", "path", "source", "kind", "first"),
    [
        pytest.param(MACOS, "/a", "/dev/disk3s1s1", "apfs", "sealed", id="macOS"),
        pytest.param(
            MACOS, "/Volumes/Old disk (2)/a", "/dev/disk4s1", "hfs", "local", id="space"
        ),
        pytest.param(FREEBSD, "/tmp/a", "tmpfs", "tmpfs", "local", id="FreeBSD"),
        pytest.param(OPENBSD, "/tmp", "mfs:71", "mfs", "asynchronous", id="OpenBSD"),
        pytest.param(LINUX, "/run/a", "tmpfs", "tmpfs", "rw", id="Linux"),
    ],
)
def test_without_proc_mounts_are_as_mount_lists_them(
    monkeypatch: pytest.MonkeyPatch,
    printed: str,
    path: str,
    source: str,
    kind: str,
    first: str,
) -> None:
    monkeypatch.setattr(wire, "MOUNTINFO", "/nowhere/mountinfo")
    monkeypatch.setattr(wire, "read_program_lines", lambda *_: printed.splitlines())
    monkeypatch.setattr(os.path, "realpath", lambda path: path)
    found = wire.find_mount(path)
    assert (found["source"], found["type"]) == (source, kind)
    assert found["options"].split(",")[0] == first


NFS = "nfs4 db1:/export rw,vers=4.2,clientaddr=192.0.2.8,local_lock=none,addr={}"
CIFS = "cifs //db1/share rw,vers=3.1.1,cache=strict,uid=0,addr=192.0.2.7,soft"


@pytest.mark.parametrize(
    ("mounted", "server"),
    [
        (NFS.format("192.0.2.7"), "192.0.2.7"),
        (NFS.format("2001:db8::7"), "2001:db8::7"),
        (CIFS, "192.0.2.7"),
        ("fuse.sshfs me@db1:/srv rw,user_id=0", "db1"),
        ("fuse.sshfs [2001:db8::7]:/srv rw", "2001:db8::7"),
        ("fuse.glusterfs db1:/volume rw", "db1"),
        ("nfs db1:/export nodev,nosuid", "db1"),
        ("zfs tank/a:b rw", ""),
        ("bcachefs /dev/sda:/dev/sdb rw", ""),
        ("fuse.mergerfs a rw", ""),
        ("xfs /dev/sda1 rw,addr_check", ""),
    ],
)
def test_the_server_of_a_folder_s_files_is_named(
    mounted: str, server: str, tmp_path: Path
) -> None:
    table = tmp_path / "mountinfo"
    table.write_text(
        f"25 1 8:1 / / rw - xfs /dev/x rw\n92 25 0:45 / /w rw - {mounted}\n"
    )
    assert (
        wire.find_file_server(wire.find_covering_mount("/w/log", str(table))) == server
    )


def test_without_proc_addresses_are_as_ifconfig_lists_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    printed = """\
lo0: flags=8049<UP,LOOPBACK,RUNNING,MULTICAST> mtu 16384
\tinet 127.0.0.1 netmask 0xff000000
\tinet6 ::1 prefixlen 128
\tinet6 fe80::1%lo0 prefixlen 64 scopeid 0x1
en0: flags=8863<UP,BROADCAST,SMART,RUNNING,SIMPLEX,MULTICAST> mtu 1500
\tether 00:00:5e:00:53:01
\tinet6 2001:DB8:0::7 prefixlen 64 autoconf secured
\tinet 192.0.2.2 netmask 0xffffff00 broadcast 192.0.2.255
\tinet
"""
    monkeypatch.setattr(wire, "IPV4_ROUTES", "/nowhere/fib_trie")
    monkeypatch.setattr(wire, "IPV6_ADDRESSES", "/nowhere/if_inet6")
    monkeypatch.setattr(wire, "read_program_lines", lambda *_: printed.splitlines())
    assert set(wire.list_addresses()) == {"fe80::1", "2001:db8::7", "192.0.2.2"}


def test_an_agent_of_a_targets_host_needs_linux(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wire.require_linux()
    monkeypatch.setattr(sys, "platform", "freebsd14")
    with pytest.raises(SystemExit, match="must run Linux, and this is freebsd14"):
        wire.require_linux()


def test_what_cannot_be_read_is_empty(tmp_path: Path) -> None:
    assert wire.read_first_line(str(tmp_path / "none")) == ""
    assert list(wire.read_lines(str(tmp_path / "none"))) == []


def test_messages_are_taken_whole() -> None:
    message = wire.MESSAGE.pack(7, 7, 1, 3) + b"abc"
    buffer = bytearray()
    taken = []
    for byte in message * 2:
        buffer.append(byte)
        taken += wire.take_messages(buffer)
    assert taken == [(7, 7, 1, b"abc")] * 2
    assert not buffer


def test_a_message_without_end_is_refused() -> None:
    length = wire.MESSAGE_BYTES_MAX + 1
    head = wire.MESSAGE.pack(7, 0, 0, length)
    with pytest.raises(wire.Refusal, match=f"{length} bytes"):
        wire.take_messages(bytearray(head))
