"""A server in a container, and the host's own paths of what it has."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from dbcheck.agent.host import drives
from dbcheck.agent.host.container import find_contained_servers, read_hostname
from dbcheck.agent.host.data import find_data
from dbcheck.agent.host.facts import collect_facts
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import HostError
from dbcheck.cycle.own_data import find_own_data, read_facts_again
from dbcheck.hosts.host import open_host
from dbcheck.lab import syscalls
from dbcheck.lab.server_account import Account
from dbcheck.lab.servers.base import DatabaseServer
from dbcheck.model.depth import Depth
from dbcheck.model.host import TargetFacts
from dbcheck.model.places import DATA, Place
from tests.kit.canaries import QUICK, judge, wrote
from tests.kit.containers import in_memory as in_memory
from tests.kit.containers import inspected, started_apart
from tests.kit.drive_mounts import MS_SLAVE
from tests.kit.logins import host_as
from tests.kit.refusals import refused
from tests.kit.servers import NewServer, answers, engine_of
from tests.kit.user_namespaces import SHIFT, running_inside, showing_other_owners
from tests.kit.waiting import wait_until

pytestmark = pytest.mark.root

ENGINES = ("mariadb", "mysql", "postgresql")
# A log, or the folder of logs, that may lie on another volume.
LOGS = {"mariadb": "ib_logfile0", "mysql": "#innodb_redo", "postgresql": "pg_wal"}


def kept_on(volume: Path, server: DatabaseServer) -> dict[Path, Path]:
    """Move the data to a volume; return the mounts of a container that has it."""
    server.data.rename(volume)
    return {server.data: volume, server.run: server.run}


def volume_of(server: DatabaseServer) -> Path:
    return server.data.with_name("volume")


@pytest.mark.parametrize("here", ["nothing", "an empty folder", "another server's"])
@pytest.mark.parametrize("engine", ENGINES)
def test_the_data_are_found_on_their_volume(
    engine: str, here: str, new_server: NewServer
) -> None:
    """here: what this host has at the server's path."""
    server = new_server(engine)
    mounts = kept_on(volume_of(server), server)
    if here == "an empty folder":
        server.data.mkdir()
    elif here == "another server's":
        shutil.copytree(new_server(engine).data, server.data)
    with started_apart(server, mounts, server.data.parent):
        facts = inspected(server).facts
    assert facts.container
    assert facts.data_directory == str(volume_of(server))
    assert (facts.unseen, facts.seen_otherwise, facts.view_unread) == ({}, {}, "")
    assert facts.process and not facts.process.unread
    paths = [path for volume in facts.volumes for path in volume.places.values()]
    assert len(paths) > 2
    assert all(Path(path).is_relative_to(volume_of(server)) for path in paths)


def places_on(facts: TargetFacts, filesystem: str) -> dict[str, str]:
    """Return the places on a filesystem of this kind."""
    of_kind = [each for each in facts.volumes if each.filesystem == filesystem]
    return {name: path for each in of_kind for name, path in each.places.items()}


@pytest.mark.parametrize("engine", ENGINES)
def test_a_link_is_followed_as_the_container_follows_it(
    engine: str, new_server: NewServer, in_memory: Path
) -> None:
    """This host has an old copy of the log where the link would lead it."""
    server, log = new_server(engine), LOGS[engine]
    mounts = kept_on(volume_of(server), server)
    inside = server.data.with_name("log")
    subprocess.run(["cp", "-a", volume_of(server) / log, inside], check=True)
    subprocess.run(["cp", "-a", inside, in_memory / log], check=True)
    moved = volume_of(server) / log
    shutil.rmtree(moved) if moved.is_dir() else moved.unlink()
    (volume_of(server) / log).symlink_to(inside / log)
    with started_apart(server, {**mounts, inside: in_memory}, server.data.parent):
        facts = inspected(server).facts
    found = places_on(facts, "tmpfs")
    assert set(found.values()) <= {str(in_memory), str(in_memory / log)}
    assert found
    assert (facts.unseen, facts.seen_otherwise, facts.view_unread) == ({}, {}, "")


@pytest.mark.parametrize("engine", ENGINES)
def test_a_log_that_is_mounted_in_the_container_is_on_its_own_filesystem(
    engine: str, new_server: NewServer, in_memory: Path
) -> None:
    server, log = new_server(engine), LOGS[engine]
    mounts = kept_on(volume_of(server), server)
    place = volume_of(server) / log
    subprocess.run(["cp", "-a", place, in_memory / log], check=True)
    within = {server.data / log: in_memory / log}
    with started_apart(server, {**mounts, **within}, server.data.parent):
        facts = inspected(server).facts
    found = places_on(facts, "tmpfs")
    assert set(found.values()) <= {str(in_memory), str(in_memory / log)}
    assert found


def test_data_that_only_the_container_has_are_refused(new_server: NewServer) -> None:
    """As in a filesystem in memory that the container engine mounts for it."""
    server = new_server("postgresql")
    mounts = kept_on(volume_of(server), server)
    private = server.data.with_name("private")
    private.mkdir()
    syscalls.mount("none", str(private), "tmpfs", 0)
    try:
        subprocess.run(["cp", "-a", f"{volume_of(server)}/.", private], check=True)
        mounts[server.data] = private
        with started_apart(server, mounts, server.data.parent):
            syscalls.umount(str(private), syscalls.MNT_DETACH)
            with refused(ErrorId.DATA_IN_CONTAINER_ALONE, HostError, naming="tmpfs"):
                inspected(server)
    finally:
        with contextlib.suppress(OSError):
            syscalls.umount(str(private), syscalls.MNT_DETACH)


@pytest.mark.parametrize("engine", ["mariadb", "mysql"])
def test_of_two_containers_with_one_path_each_server_has_its_own(
    engine: str, new_server: NewServer
) -> None:
    first, second = new_server(engine), new_server(engine)
    volumes = [volume_of(first), volume_of(second)]
    mounts = [kept_on(volume_of(first), first), kept_on(volume_of(second), second)]
    second.data = first.data
    mounts[1] = {first.data: volumes[1], second.run: second.run}
    mounts[1][first.run] = first.run
    apart = first.data.parent.parent
    with (
        started_apart(first, mounts[0], first.data.parent),
        started_apart(second, mounts[1], apart),
    ):
        found = [inspected(server).facts for server in (first, second)]
    assert [each.data_directory for each in found] == list(map(str, volumes))


def test_who_may_not_look_into_containers_is_told(new_server: NewServer) -> None:
    server = new_server("postgresql")
    mounts = kept_on(volume_of(server), server)
    with (
        started_apart(server, mounts, server.data.parent),
        contextlib.closing(host_as(4242, 4242)) as host,
        refused(ErrorId.HOST_PERMISSION_MISSING, HostError, naming="only root sees"),
    ):
        find_own_data(host, engine_of(server).facts())


@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize("engine", ENGINES)
def test_after_the_cut_the_new_container_is_asked(
    engine: str, fresh: bool, new_server: NewServer
) -> None:
    """fresh: its volume was replaced, as by one of a snapshot."""
    server = new_server(engine)
    mounts = kept_on(volume_of(server), server)
    with started_apart(server, mounts, server.data.parent):
        known, before = engine_of(server).facts(), inspected(server).facts
    other = server.data.with_name("other")
    if fresh:
        subprocess.run(["cp", "-a", volume_of(server), other], check=True)
        mounts[server.data] = other
    places = [Place(DATA, str(server.data))]
    with (
        started_apart(server, mounts, server.data.parent),
        contextlib.closing(open_host("local:")) as host,
    ):
        after = read_facts_again(host, before, known, places)
    assert after.container
    assert after.container != before.container
    assert after.data_directory == str(other if fresh else volume_of(server))
    assert (after.made == before.made) is not fresh


def test_no_drive_is_cut_alone_below_a_container(new_server: NewServer) -> None:
    server = new_server("postgresql")
    mounts = kept_on(volume_of(server), server)
    server.data.mkdir()
    with started_apart(server, mounts, server.data.parent):
        busy = drives.survey([], str(server.data), [], "/")["busy"]
    assert len(busy) == 1
    assert "in a container" in busy[0]


@pytest.mark.parametrize("idmapped", [False, True], ids=["plain", "idmapped"])
@pytest.mark.wide_with("mysql", "mariadb-idmapped")
@pytest.mark.parametrize("engine", ENGINES)
def test_a_server_in_a_user_namespace_is_found(
    engine: str, idmapped: bool, new_server: NewServer
) -> None:
    """As in a container without root: its account has another number on the host.

    idmapped: on the host, the data have an owner who has nothing to do with the server.
    """
    server, inside = new_server(engine), Path("/mnt/data")
    command, _ = server._command()
    server.data.rename(volume_of(server))
    owner = volume_of(server).stat()
    uid, gid = owner.st_uid % 60_000, owner.st_gid % 60_000
    outer = Account.of_number(SHIFT + uid)
    owned = [each for each in server.run.iterdir() if each.name != "password"]
    give([*owned, volume_of(server)], SHIFT + uid, SHIFT + gid)
    os.chown(server.run, SHIFT + uid, SHIFT + gid)
    if idmapped:
        give([volume_of(server)], uid, gid)
    server.run.chmod(0o755)
    server._account = outer  # the client expects it at the port
    command = [word.replace(str(server.data), str(inside)) for word in command]
    engine_there = engine_of(server)
    assert server._held
    server._held.lend()
    with running_inside(
        command, volume_of(server), inside, uid, gid, idmapped=idmapped
    ):
        wait_until(lambda: answers(engine_there), "the server takes queries")
        facts = inspected(server).facts
        depth = planted(facts)
        for account in (uid, SHIFT + uid):
            with (
                contextlib.closing(host_as(account, account)) as host,
                refused(ErrorId.HOST_PERMISSION_MISSING, naming="only root sees"),
            ):
                find_own_data(host, engine_there.facts())
    assert facts.container
    assert facts.data_directory == str(volume_of(server))
    assert (facts.unseen, facts.seen_otherwise, facts.view_unread) == ({}, {}, "")
    assert facts.process and not facts.process.unread
    assert depth is Depth.PROCESS


def test_of_data_that_show_other_owners_root_owns_no_canaries(
    in_memory: Path,
) -> None:
    """As on a drive that the host mounts so, for the one container that uses it."""
    (in_memory / "data").mkdir()
    with (
        showing_other_owners(in_memory),
        contextlib.closing(open_host("local:")) as host,
        refused(ErrorId.CANARY_FOLDER_NOT_WRITABLE, HostError, naming="idmapped"),
    ):
        host.start_canaries(str(in_memory / "data"))


def test_a_service_may_have_its_data_under_another_owner(in_memory: Path) -> None:
    """As systemd gives a folder to a service; who is to be ended has that account."""
    data, program = in_memory / "data", in_memory / "mysqld"
    data.mkdir()
    os.chown(data, 4242, 4242)
    program.symlink_to(shutil.which("dash") or "/bin/sh")
    words = ["setpriv", f"--reuid={SHIFT + 4242}", "--clear-groups"]

    def survey() -> tuple[int, list[str]]:
        found = drives.survey([], str(data), [], "/")
        return found["account"], found["busy"]

    def run() -> tuple[int, list[str]]:
        syscalls.unshare(syscalls.CLONE_NEWNS)
        syscalls.mount("none", "/", None, syscalls.MS_REC | MS_SLAVE)
        with (
            showing_other_owners(data),
            subprocess.Popen(
                [*words, str(program), "-c", "echo; read wait"],
                cwd=data,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            ) as running,
        ):
            assert running.stdout is not None
            assert running.stdout.readline() == b"\n"
            found = beside.submit(survey).result()
            running.communicate(b"\n")
        return found

    with ThreadPoolExecutor(1) as beside, ThreadPoolExecutor(1) as apart:
        beside.submit(survey).result()  # its thread starts with this machine's mounts
        assert apart.submit(run).result() == (SHIFT + 4242, [])


def give(paths: Sequence[Path], uid: int, gid: int) -> None:
    subprocess.run(["chown", "-R", f"{uid}:{gid}", *paths], check=True)


def planted(facts: TargetFacts) -> Depth | None:
    """Return what canaries beside the data show once they have stopped."""
    with contextlib.closing(open_host("local:")) as host:
        canaries = host.start_canaries(facts.data_directory, pace=QUICK)
        wait_until(lambda: wrote(canaries, 50), "the canaries write")
        canaries.stop()
        found = judge(host, canaries).depth
        host.remove_canaries(canaries.folder)
    return found


# It ends with its standard input.
UNPRIVILEGED = """
mount --bind "$1" "$2" && cd "$2" && exec "$3" -c 'echo; read wait'
"""


@pytest.mark.parametrize("copy", ["of the server's data", "that its account hides"])
def test_who_is_not_root_sees_the_hosts_own_data_beside_a_container(
    copy: str,
) -> None:
    """Another account's server cannot be seen to work in the host's own directory."""
    top = Path(tempfile.mkdtemp(prefix="dbcheck-", dir="/dev/shm"))
    program, inside, outside = top / "mysqld", top / "data", top / "copy"
    top.chmod(0o755)
    inside.mkdir()
    outside.mkdir()
    program.symlink_to(shutil.which("dash") or "/bin/sh")
    os.chown(outside, 4242, 4242)
    if copy == "of the server's data":
        (inside / "auto.cnf").write_text(f"server-uuid={uuid.uuid4()}\n")
        shutil.copy(inside / "auto.cnf", outside)
    else:
        outside.chmod(0o300)
    words = ["setpriv", "--reuid=4242", "--regid=4242", "--clear-groups"]
    words += ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    words += [UNPRIVILEGED, "sh", str(outside), str(inside), str(program)]
    try:
        with (
            subprocess.Popen(
                words, stdin=subprocess.PIPE, stdout=subprocess.PIPE
            ) as running,
            contextlib.closing(host_as(4242, 4242)) as host,
        ):
            assert running.stdout is not None
            assert running.stdout.readline() == b"\n"
            found = host.find_data(str(inside))
            running.communicate(b"\n")
    finally:
        shutil.rmtree(top)
    processes = [each.process for each in found]
    assert processes == ([0] if "hides" in copy else [0, running.pid])


# It ends with its standard input.
CHROOTED = """
import ctypes, os, sys
prctl, PR_SET_NAME = ctypes.CDLL(None).prctl, 15
os.chroot(sys.argv[1])
os.chdir(sys.argv[2])
prctl(PR_SET_NAME, b"mysqld", 0, 0, 0)
print(flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("apart", [[], ["unshare", "--mount"]])
def test_a_root_that_is_a_mere_folder_is_looked_into(
    apart: list[str], tmp_path: Path
) -> None:
    """As of MariaDB's option chroot; what is mounted outside is not shown to it."""
    data = tmp_path / "srv" / "data"
    data.mkdir(parents=True)
    (data / "ib_logfile0").touch()
    words = [*apart, sys.executable, "-I", "-S", "-c", CHROOTED]
    words += [str(tmp_path), "/srv/data"]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"\n"
        found = find_data("/srv/data")["found"]
        facts = collect_facts([(DATA, "/srv/data", ["ib_logfile*"])], running.pid)
        running.communicate()
    assert [each["process"] for each in found] == [running.pid]
    assert facts["data_directory"] == str(data)
    assert (facts["unseen"], facts["seen_otherwise"]) == ({}, {})
    assert facts["view_unread"] == ""


def test_of_no_other_process_the_root_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be on a network filesystem that does not answer."""
    looked: list[str] = []
    look = os.stat

    def stat(path: Any, **options: Any) -> os.stat_result:
        looked.append(str(path))
        return look(path, **options)

    words = ["unshare", "--mount", "chroot", "/", "sh", "-c", "echo; read wait"]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"\n"
        monkeypatch.setattr(os, "stat", stat)
        assert find_contained_servers(str(tmp_path)) == ([], "")
        monkeypatch.undo()
        running.communicate()
    assert not [path for path in looked if path.startswith(f"/proc/{running.pid}/")]


def test_a_process_that_got_the_id_of_the_servers_is_not_believed(
    tmp_path: Path,
) -> None:
    """The server ended since it was found; this host has a copy at its path."""
    with pytest.raises(OSError, match=f"process {os.getpid()} is not a server's"):
        collect_facts([(DATA, str(tmp_path), [])], os.getpid())


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (("unshare", "--uts", "env", "HOSTNAME=3fa1"), "3fa1"),
        (("unshare", "--uts", "env", "-u", "HOSTNAME"), ""),
        (("env", "HOSTNAME=3fa1"), os.uname().nodename),
    ],
)
def test_a_hostname_is_known_by_its_namespace(
    words: tuple[str, ...], name: str
) -> None:
    with subprocess.Popen(
        (*words, "sh", "-c", "echo; read wait"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"\n"
        assert read_hostname(process.pid) == name
    assert read_hostname(0) == os.uname().nodename
