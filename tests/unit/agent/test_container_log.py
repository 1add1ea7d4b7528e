"""Which file a container engine keeps of what a server writes."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from dbcheck.agent.host import container, log, servers
from dbcheck.agent.host.container import find_container_log, find_log_folder
from dbcheck.agent.host.log import STDERR, mark_files, read_since
from dbcheck.agent.wire import Refusal

ID = "2833c40a60fcbb8303cdfccd99d72b2ce717d173ed08e9d5d828b43ae87c616d"
POD = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
OF_POD = f"/var/log/pods/db_pg-0_{POD}"
DOCKER = f"0::/system.slice/docker-{ID}.scope\n"
KUBELET = (
    f"0::/kubepods.slice/kubepods-pod{POD.replace('-', '_')}.slice/"
    f"cri-containerd-{ID}.scope\n"
)
OF_DOCKER = f"/var/lib/docker/containers/{ID}/{ID}-json.log"
APPEND, READ = "flags:\t02102001\n", "flags:\t0100000\n"


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for module in (servers, container):
        monkeypatch.setattr(module, "PROCESSES", str(tmp_path))
    monkeypatch.setattr(container, "POD_LOG_LINKS", str(tmp_path / "links"))
    return tmp_path


def server_in(proc: Path, cgroup: str) -> str:
    (proc / "9").mkdir()
    (proc / "9/cgroup").write_text(cgroup)
    (proc / "9/status").write_text("Uid:\t0\t999\t999\t999\n")
    return str(proc / "9")


def writer(
    proc: Path, pid: int, path: str, flags: str = APPEND, account: int = 0
) -> None:
    (proc / str(pid)).mkdir()
    uids = f"Uid:\t{account}\t{account}\t{account}\t{account}\n"
    (proc / str(pid) / "status").write_text(uids)
    for folder in ("fd", "fdinfo"):
        (proc / str(pid) / folder).mkdir(parents=True)
    (proc / str(pid) / "fd/5").symlink_to(path)
    (proc / str(pid) / "fdinfo/5").write_text(f"pos:\t0\n{flags}")


@pytest.mark.parametrize(
    ("cgroup", "written", "found"),
    [
        (DOCKER, OF_DOCKER, OF_DOCKER),
        (DOCKER, OF_DOCKER.replace(ID, "0" * 64), ""),
        (KUBELET, f"{OF_POD}/postgres/0.log", f"{OF_POD}/postgres"),
        ("0::/system.slice/postgresql.service\n", "/var/log/pg.log", ""),
    ],
)
def test_it_is_known_by_the_id_of_the_container_or_the_pod(
    cgroup: str, written: str, found: str, proc: Path
) -> None:
    server = server_in(proc, cgroup)
    writer(proc, 7, written)
    writer(proc, 8, f"/tmp/{ID}/{POD}/reader.log", READ)
    assert find_container_log(server) == found


def test_who_has_nothing_to_do_with_the_container_writes_no_log_of_it(
    proc: Path,
) -> None:
    """Each account sees the id, and could say that the server recovered."""
    server = server_in(proc, DOCKER)
    writer(proc, 6, f"/tmp/{ID}.log", account=1000)
    assert find_container_log(server) == ""
    writer(proc, 7, OF_DOCKER)
    assert find_container_log(server) == OF_DOCKER


def test_an_engine_without_root_writes_the_log(proc: Path) -> None:
    server = server_in(proc, f"0::/user.slice/libpod-{ID}.scope\n")
    (proc / "9/stat").write_text("9 (postgres) S 5 9 9 0\n")
    log_of_podman = f"/home/me/{ID}/userdata/ctr.log"
    writer(proc, 5, log_of_podman, account=1000)
    (proc / "5/stat").write_text("5 (conmon) S 1 5 5 0\n")
    writer(proc, 6, f"/tmp/{ID}.log", account=1001)
    assert find_container_log(server) == log_of_podman


def test_of_a_pod_with_several_containers_none_is_taken(proc: Path) -> None:
    server = server_in(proc, KUBELET)
    writer(proc, 7, f"{OF_POD}/postgres/1.log")
    writer(proc, 8, f"{OF_POD}/backup/0.log")
    with pytest.raises(Refusal, match=f"{OF_POD}/backup, {OF_POD}/postgres"):
        find_container_log(server)


def test_of_many_sessions_one_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each would have all of /proc read, for a container that has no such file."""
    asked: list[str] = []
    processes = [f"/proc/{number}" for number in range(500)]
    monkeypatch.setattr(log, "find_error_file", lambda _: "")
    monkeypatch.setattr(log, "find_server_processes", lambda _: iter(processes))
    monkeypatch.setattr(log, "find_container_log", lambda each: asked.append(each))
    monkeypatch.setattr(log, "mark_journal", lambda _: {"db.service": [1, 0]})
    assert log.mark_log(f"{log.STDERR}{tmp_path}") == {"db.service": [1, 0]}
    assert asked == processes[:1]


def test_of_a_pod_with_several_containers_the_link_of_kubelet_names_one(
    proc: Path,
) -> None:
    server = server_in(proc, KUBELET)
    writer(proc, 7, f"{OF_POD}/postgres/1.log")
    writer(proc, 8, f"{OF_POD}/backup/0.log")
    own = proc / f"pods/db_pg-0_{POD}/postgres"
    own.mkdir(parents=True)
    (own / "1.log").touch()
    (proc / "links").mkdir()
    for name, target in ((ID, own / "1.log"), ("0" * 64, proc / "backup/0.log")):
        (proc / f"links/pg-0_db_any-{name}.log").symlink_to(target)
    assert find_container_log(server) == str(own)


IN_POD = f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{POD}.slice"
IN_POD = IN_POD.replace(POD, POD.replace("-", "_"))
BY_CGROUPFS = f"/kubepods/burstable/pod{POD}"
ROOTLESS = "/user.slice/user-1000.slice/user@1000.service"


@pytest.mark.parametrize(
    ("path", "ids"),
    [
        pytest.param(f"{IN_POD}/crio-{ID}.scope", [POD, ID], id="CRI-O"),
        pytest.param(f"{IN_POD}/crio-{ID}.scope/container", [POD, ID], id="with crun"),
        pytest.param(f"{BY_CGROUPFS}/crio-{ID}", [POD, ID], id="CRI-O, cgroupfs"),
        pytest.param(f"/system.slice/crio-{ID}.scope", [ID], id="CRI-O, no pods"),
        pytest.param(f"/crio/crio-{ID}", [ID], id="CRI-O, cgroupfs, no pods"),
        pytest.param(f"{IN_POD}/docker-{ID}.scope", [POD, ID], id="cri-dockerd"),
        pytest.param(f"{IN_POD}/cri-containerd-{ID}.scope", [POD, ID], id="containerd"),
        pytest.param(f"{BY_CGROUPFS}/{ID}", [POD, ID], id="any other, cgroupfs, k3s"),
        pytest.param(f"/kubepods/pod{'0a' * 16}/{ID}", [ID], id="a static pod"),
        pytest.param(f"/machine.slice/libpod-{ID}.scope", [ID], id="podman"),
        pytest.param(
            f"{ROOTLESS}/user.slice/libpod-{ID}.scope/container", [ID], id="rootless"
        ),
        pytest.param(
            "/machine.slice/systemd-nspawn@a.service/payload", [], id="nspawn"
        ),
        pytest.param("/machine.slice/machine-pg.scope", [], id="of machined"),
        pytest.param("/lxc.payload.pg/system.slice/pg.service", [], id="LXC"),
    ],
)
@pytest.mark.parametrize(
    "lines", ["0::{}\n", "9:memory:{0}\n1:name=systemd:{0}\n0::/\n"]
)
def test_a_cgroup_names_the_container_and_its_pod(
    lines: str, path: str, ids: list[str], proc: Path
) -> None:
    """On cgroup v2 alone, and beside v1.

    cri-o/cri-o, internal/config/cgmgr: ContainerCgroupAbsolutePath in systemd_linux.go
    and cgroupfs_linux.go.  Mirantis/cri-dockerd, core/docker_service.go:
    GenerateExpectedCgroupParent.  kubernetes/kubernetes, pkg/kubelet/cm:
    GetPodContainerName in pod_container_manager_linux.go.
    """
    server = server_in(proc, lines.format(path))
    assert set(container.list_container_ids(server)) == set(ids)
    assert container.list_container_ids(server)[-1:] == ids[-1:]
    assert container.read_cgroup(9) == path


def start_of_docker(proc: Path, number: int, container_id: str, text: str) -> Path:
    """Make what Docker, cri-dockerd and kubelet make for a container; give its log.

    Mirantis/cri-dockerd, core/logs.go: createContainerLogSymlink.
    kubernetes/kubernetes, pkg/kubelet/kuberuntime/legacy.go: legacyLogSymlink.
    """
    kept = proc / f"docker/containers/{container_id}/{container_id}-json.log"
    of_pod = proc / f"pods/db_pg-0_{POD}/postgres/{number}.log"
    link = proc / f"links/pg-0_db_postgres-{container_id}.log"
    for file in (kept, of_pod, link):
        file.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text(text)
    of_pod.symlink_to(kept)
    link.symlink_to(of_pod)
    return kept


def test_a_log_that_docker_keeps_is_read_on_in_the_pods_next_container(
    proc: Path,
) -> None:
    server = server_in(proc, f"0::{IN_POD}/docker-{ID}.scope\n")
    first = start_of_docker(proc, 0, ID, "first\n")
    path = find_container_log(server)
    assert path == str(proc / f"pods/db_pg-0_{POD}/postgres")
    marks = mark_files(path)
    first.write_text("first\nkilled\n")
    os.utime(first, (1, 1))  # they may be written at one tick of the clock
    start_of_docker(proc, 1, "0" * 64, "recovered\n")
    found = read_since(f"{STDERR}/data", marks, 1000)
    text = "killed\nrecovered\n"
    assert found == {"text": text, "truncated": False, "rewound": False}
    shutil.rmtree(first.parent)
    found = read_since(f"{STDERR}/data", marks, 1000)
    assert (found["text"], found["truncated"]) == ("recovered\n", True)


def test_no_other_link_of_a_pods_log_is_followed(tmp_path: Path) -> None:
    folder = tmp_path / f"db_pg-0_{POD}/postgres"
    folder.mkdir(parents=True)
    (tmp_path / "secret").write_text("secret\n")
    (folder / "0.log").symlink_to(tmp_path / "secret")
    (folder / "1.log").write_text("first\n")
    assert list(mark_files(str(folder))) == [str(folder / "1.log")]


@pytest.mark.parametrize(
    ("path", "folder"),
    [
        (f"{OF_POD}/postgres/0.log", f"{OF_POD}/postgres"),
        (f"{OF_POD}/postgres/12.log.20261130-094855", f"{OF_POD}/postgres"),
        ("/var/log/pods/db_pg_" + "0a" * 16 + "/pg/1.log", None),  # a static pod
        (OF_DOCKER, OF_DOCKER),
        ("/var/log/pg/1.log", "/var/log/pg/1.log"),
    ],
)
def test_each_start_of_a_pods_container_has_a_file(
    path: str, folder: str | None
) -> None:
    assert find_log_folder(path) == (folder or path.rpartition("/")[0])


def test_a_log_is_read_on_in_the_file_of_the_next_start(tmp_path: Path) -> None:
    """kubelet keeps the files of the last two starts alone."""
    folder = tmp_path / f"db_pg-0_{POD}/postgres"
    folder.mkdir(parents=True)
    (folder / "8.log").write_text("first\n")
    (folder / "9.log").write_text("second\n")
    marks = mark_files(str(folder))
    (folder / "9.log").write_text("second\nkilled\n")
    (folder / "8.log").unlink()
    (folder / "10.log").write_text("recovered\n")
    os.utime(folder / "9.log", (1, 1))  # they may be written at one tick of the clock
    found = read_since(f"{STDERR}/data", marks, 1000)
    assert (found["text"], found["truncated"]) == ("killed\nrecovered\n", False)


@pytest.fixture
def new_pod(
    proc: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Path, dict[str, list[int]]]:
    """Return the log's folder of a pod's server, and the marks of the pod before it.

    What the pod before it has logged is still there.
    """
    old, new = (
        proc / f"db_pg-0_{uid}/postgres" for uid in (POD.replace("3e", "4f"), POD)
    )
    for folder in (old, new):
        folder.mkdir(parents=True)
    (old / "0.log").write_text("first\n")
    marks = mark_files(str(old))
    server = server_in(proc, KUBELET)
    writer(proc, 7, f"{new}/0.log")
    monkeypatch.setattr(log, "find_server_processes", lambda _: iter([server]))
    return new, marks


@pytest.mark.parametrize("path", [f"{STDERR}/data", "collector:/data//gone"])
def test_the_log_of_a_pod_that_was_made_anew_is_read_and_lacks_a_part(
    path: str, new_pod: tuple[Path, dict[str, list[int]]]
) -> None:
    folder, marks = new_pod
    shutil.rmtree(Path(min(marks)).parent)
    (folder / "0.log").write_text("shut down\n")
    found = read_since(path, marks, 1000)
    assert found["text"] + found.get("early", "") == "shut down\n"
    assert (found["truncated"], found["rewound"]) == (True, False)


def test_what_is_left_of_the_old_pods_log_is_read_before_the_new_ones(
    new_pod: tuple[Path, dict[str, list[int]]],
) -> None:
    folder, marks = new_pod
    Path(min(marks)).write_text("first\nasked\n")
    (folder / "0.log").write_text("shut down\n")
    found = read_since(f"{STDERR}/data", marks, 1000)
    text = "asked\nshut down\n"
    assert found == {"text": text, "truncated": False, "rewound": False}


def test_a_new_pod_whose_log_is_not_found_lacks_a_part(
    proc: Path, new_pod: tuple[Path, dict[str, list[int]]]
) -> None:
    shutil.rmtree(Path(min(new_pod[1])).parent)
    (proc / "7/fd/5").unlink()
    found = read_since(f"{STDERR}/data", new_pod[1], 1000)
    assert found == {"text": "", "truncated": True, "rewound": False}


def test_a_collectors_folder_with_a_log_has_to_stay(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    (tmp_path / "log/pg.log").write_text("first\n")
    marks = mark_files(str(tmp_path / "log"))
    (tmp_path / "log").rename(tmp_path / "moved")
    with pytest.raises(FileNotFoundError, match="log"):
        read_since(f"collector:/data/{tmp_path}/log", marks, 1000)
