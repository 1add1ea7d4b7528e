"""Which service's messages in the journal are a server's, by its cgroup."""

from __future__ import annotations

import ctypes
import ctypes.util
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dbcheck.agent.host import container, journal, servers
from dbcheck.agent.host.journal import parse_units
from dbcheck.agent.wire import Refusal
from dbcheck.lab import syscalls
from tests.kit.drive_mounts import own_mounts as own_mounts

USER = "/user.slice/user-1000.slice/user@1000.service"
MS_BIND = 1 << 12  # mount(2)
Units = tuple[str | None, str | None]

# What a process's cgroup is, as system and container engines make it.
PATHS = {
    "/system.slice/postgresql.service": ("postgresql.service", None),
    "/system.slice/system-postgresql.slice/postgresql@15-main.service": (
        "postgresql@15-main.service",
        None,
    ),
    f"{USER}/app.slice/pg.service": ("user@1000.service", "pg.service"),
    f"{USER}/app.slice/app-pg.slice/pg@1.service": (
        "user@1000.service",
        "pg@1.service",
    ),
    f"{USER}/pg.service": ("user@1000.service", "pg.service"),
    f"{USER}/init.scope": ("user@1000.service", "init.scope"),
    f"{USER}/user.slice/libpod-ab12.scope/container": (
        "user@1000.service",
        "libpod-ab12.scope",
    ),
    f"{USER}/app.slice/pg.service/libpod-payload-ab12": (
        "user@1000.service",
        "pg.service",
    ),
    "/user.slice/user-1000.slice/session-3.scope": ("session-3.scope", None),
    "/system.slice/docker-ab12.scope": ("docker-ab12.scope", None),
    "/system.slice/pg.service/libpod-payload-ab12": ("pg.service", None),
    "/system.slice/containerd.service/kubepods-burstable": ("containerd.service", None),
    "/machine.slice/libpod-ab12.scope/container": ("libpod-ab12.scope", None),
    "/machine.slice/systemd-nspawn@a.service/payload/system.slice/pg.service": (
        "systemd-nspawn@a.service",
        None,
    ),
    "/lxc.payload.a/system.slice/pg.service": (None, None),
    "/docker/ab12/system.slice/pg.service": (None, None),
    "/kubepods.slice/kubepods-pod1.slice/cri-containerd-ab.scope": (
        "cri-containerd-ab.scope",
        None,
    ),
    "/system.slice/_pg.service": ("pg.service", None),
    "/../../system.slice/pg.service": (None, None),
    "/": (None, None),
}


def units(path: str) -> Units:
    first, second, *_ = [*parse_units(path)[0], None, None]
    return first, second


@pytest.mark.parametrize("path", PATHS)
def test_the_units_of_a_cgroup(path: str) -> None:
    assert units(path) == PATHS[path]


@pytest.fixture
def systemds(own_mounts: None, tmp_path: Path) -> Iterator[Callable[[str], Units]]:
    """What systemd's own library says of a process in a cgroup."""
    if ctypes.util.find_library("systemd") is None:
        pytest.skip("libsystemd0 is not installed")
    library, file = ctypes.CDLL("libsystemd.so.0"), tmp_path / "cgroup"
    file.touch()

    def asked(function: str, pid: int) -> str | None:
        found = ctypes.c_char_p()
        code = getattr(library, function)(pid, ctypes.byref(found))
        return found.value.decode() if code >= 0 and found.value else None

    with subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE
    ) as process:
        over = f"/proc/{process.pid}/cgroup"
        syscalls.mount(str(file), over, None, MS_BIND)

        def said(path: str) -> Units:
            file.write_text(f"0::{path}\n")
            pid = process.pid
            return asked("sd_pid_get_unit", pid), asked("sd_pid_get_user_unit", pid)

        yield said
        process.kill()


@pytest.mark.root
def test_systemd_names_the_same_units(systemds: Callable[[str], Units]) -> None:
    assert {path: systemds(path) for path in PATHS} == PATHS
    draw = random.Random(7)
    parts = [
        *("system.slice", "user.slice", "user-1000.slice", "app-x.slice", ".slice"),
        *("user@1000.service", "user@0.service", "user@.service", "pg.service"),
        *("pg@1.service", "@.service", "_pg.service", ".service", "a b.service"),
        *("x.scope", "docker", "init.scope", "payload", "p\\x2dg.service", "a.mount"),
        *("a@b.slice", "_a.slice", "__a.slice", "a--b.slice", "-.slice", "a@b@c.path"),
        *("..", "x" * 247 + ".service", "é.service"),
    ]
    for _ in range(2000):
        path = "/" + "/".join(draw.choices(parts, k=draw.randrange(1, 6)))
        assert units(path) == systemds(path), path


@pytest.fixture
def server_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """A made-up /proc with a server in a cgroup; returns its data directory."""

    def make(cgroup: str) -> str:
        process, data = tmp_path / "proc/8", tmp_path / "data"
        data.mkdir()
        process.mkdir(parents=True)
        (process / "cwd").symlink_to(data)
        (process / "cgroup").write_text(cgroup)
        (process / "comm").write_text("postgres\n")
        monkeypatch.setattr(servers, "PROCESSES", str(tmp_path / "proc"))
        return str(data)

    return make


@pytest.mark.parametrize(
    ("cgroup", "unit"),
    [
        ("0::/system.slice/pg.service\n", "pg.service"),
        (
            "5:memory:/system.slice/x.service\n1:name=systemd:/system.slice/pg.service\n",
            "pg.service",
        ),
        (
            "1:name=systemd:/system.slice/pg.service\n0::/system.slice/pg.service\n",
            "pg.service",
        ),
        (f"0::{USER}/app.slice/pg.service\n", "user@1000.service/pg.service"),
    ],
)
def test_the_service_of_a_server(
    cgroup: str, unit: str, server_in: Callable[[str], str]
) -> None:
    assert journal.find_unit(server_in(cgroup)) == unit


@pytest.mark.parametrize(
    ("cgroup", "why"),
    [
        (f"0::{USER}/init.scope\n", "runs in init.scope"),
        (f"0::{USER}\n", "runs in user@1000.service"),
        ("0::/system.slice/docker-ab12.scope\n", "runs in docker-ab12.scope"),
        ("0::/lxc.payload.a/system.slice/pg.service\n", "not run as a systemd service"),
        (
            "12:pids:/docker/ab\n1:name=systemd:/docker/ab\n0::/\n",
            "not run as a systemd",
        ),
        (
            "0::/machine.slice/systemd-nspawn@a.service/payload/system.slice/pg.service",
            "another systemd, in systemd-nspawn@a.service",
        ),
    ],
)
def test_a_server_without_a_service_of_its_own_has_no_journal(
    cgroup: str, why: str, server_in: Callable[[str], str]
) -> None:
    """Least of all that of all that its user runs, or of a service of its name."""
    with pytest.raises(Refusal, match=why):
        journal.mark_journal(server_in(cgroup))


def test_a_container_whose_engine_logs_to_the_journal_is_known_by_its_id(
    server_in: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(container, "PROCESSES", str(tmp_path / "proc"))
    data = server_in(f"0::/machine.slice/libpod-{ID}.scope/container\n")
    uids = "PPid:\t1\nUid:\t0\t999\t999\t999\n"
    (tmp_path / "proc/8/status").write_text(uids)
    assert journal.find_container(data) == f"container {ID} 0 999"


def test_a_service_with_a_container_is_known_by_its_unit(
    server_in: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = server_in(f"0::/system.slice/pg.service/libpod-payload-{ID}\n")
    monkeypatch.setattr(journal, "run_journalctl", lambda *_: (b"x", False))
    assert list(journal.mark_journal(data)) == ["pg.service"]


ID = "2833c40a60fcbb8303cdfccd99d72b2ce717d173ed08e9d5d828b43ae87c616d"
ENTRIES: tuple[tuple[str, dict[str, str]], ...] = (
    (
        "own",
        {
            "_SYSTEMD_UNIT": "user@1000.service",
            "_SYSTEMD_USER_UNIT": "pg.service",
            "_SYSTEMD_OWNER_UID": "1000",
        },
    ),
    (
        "another's of the same user",
        {
            "_SYSTEMD_UNIT": "user@1000.service",
            "_SYSTEMD_USER_UNIT": "mail.service",
            "_SYSTEMD_OWNER_UID": "1000",
        },
    ),
    (
        "another user's",
        {
            "_SYSTEMD_UNIT": "user@1001.service",
            "_SYSTEMD_USER_UNIT": "pg.service",
            "_SYSTEMD_OWNER_UID": "1001",
        },
    ),
    ("the system's", {"_SYSTEMD_UNIT": "pg.service"}),
    ("the container's", {"CONTAINER_ID_FULL": ID, "_UID": "0"}),
    ("without root", {"CONTAINER_ID_FULL": ID, "_UID": "1000"}),
    ("a stranger's", {"CONTAINER_ID_FULL": ID, "_UID": "1001"}),
    ("another container's", {"CONTAINER_ID_FULL": "0" * 64, "_UID": "0"}),
)


@pytest.mark.wide
@pytest.mark.parametrize(
    ("unit", "messages"),
    [
        ("user@1000.service/pg.service", "own\n"),
        ("pg.service", "the system's\n"),
        ("user@1002.service/pg.service", ""),
        (f"container {ID} 0 1000", "the container's\nwithout root\n"),
        (f"container {ID} 0", "the container's\n"),
    ],
)
def test_journalctl_shows_the_messages_of_that_service_alone(
    unit: str, messages: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = shutil.which(
        "systemd-journal-remote", path=f"/lib/systemd:{os.environ['PATH']}"
    )
    reader = shutil.which("journalctl")
    if writer is None or reader is None:
        pytest.skip("systemd-journal-remote is not installed")
    lines = []
    for number, (text, fields) in enumerate(ENTRIES, 1):
        lines += [f"__REALTIME_TIMESTAMP={number}000000000", f"MESSAGE={text}"]
        lines += [f"{name}={value}" for name, value in fields.items()]
        lines += ["_BOOT_ID=" + "1" * 32, ""]
    subprocess.run(
        [writer, "-o", str(tmp_path / "a.journal"), "-"],
        input="\n".join([*lines, ""]),
        text=True,
        check=True,
        capture_output=True,
    )
    program = tmp_path / "bin/journalctl"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {reader} --directory={tmp_path} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    found, _ = journal.run_journalctl(unit, "--since=@1", 1000)
    assert found.decode() == messages
