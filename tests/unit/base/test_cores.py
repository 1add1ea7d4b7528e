"""The cores that a client may use, as the kernel shows its affinity and its groups."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dbcheck.base.cores import count_free_cores

MACHINE = 64
V2 = "30 23 0:26 {} /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate"
V1 = (
    "31 23 0:27 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n"
    "32 31 0:28 {} /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
    "33 31 0:29 {} /sys/fs/cgroup/cpuset rw shared:9 - cgroup cgroup rw,cpuset"
)


@pytest.fixture(autouse=True)
def cores_of_a_large_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    assigned = set(range(MACHINE))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: assigned, raising=False)


class Machine:
    """A folder with the files of the kernel that are read."""

    def __init__(self, root: Path, mounts: str, groups: str) -> None:
        self.root = root
        self.write("proc/self/mountinfo", mounts)
        self.write("proc/self/cgroup", groups)

    def write(self, path: str, text: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n")

    def limit(self, group: str, quota: str) -> None:
        self.write(f"sys/fs/cgroup/{group}/cpu.max", quota)

    def limit_v1(self, group: str, quota_us: int, period_us: int = 100_000) -> None:
        folder = f"sys/fs/cgroup/cpu,cpuacct/{group}"
        self.write(f"{folder}/cpu.cfs_quota_us", str(quota_us))
        self.write(f"{folder}/cpu.cfs_period_us", str(period_us))


def test_without_quotas_the_affinity_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert count_free_cores(tmp_path) == MACHINE
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 5, 7})
    assert count_free_cores(tmp_path) == 3
    monkeypatch.delattr(os, "sched_getaffinity")  # macOS
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    assert count_free_cores(tmp_path) == 8
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert count_free_cores(tmp_path) == 1


def test_the_cores_of_this_machine_are_counted() -> None:
    assert 1 <= count_free_cores() <= MACHINE


@pytest.mark.parametrize(
    ("quota", "cores"),
    [
        ("max 100000", MACHINE),
        ("200000 100000", 2),
        ("250000 100000", 2),
        ("25000 50000", 1),
        ("9900000 100000", MACHINE),
        ("200000", MACHINE),
        ("200000 0", MACHINE),
        ("-1 100000", MACHINE),
        ("", MACHINE),
        ("what 100000", MACHINE),
    ],
)
def test_a_quota_limits_what_the_affinity_gives(
    tmp_path: Path, quota: str, cores: int
) -> None:
    machine = Machine(tmp_path, V2.format("/"), "0::/user.slice/session.scope")
    machine.limit("user.slice/session.scope", quota)
    assert count_free_cores(tmp_path) == cores


@pytest.mark.parametrize(
    ("inner", "outer", "cores"),
    [("max 100000", "300000 100000", 3), ("200000 100000", "300000 100000", 2)],
)
def test_the_groups_around_limit_as_well(
    tmp_path: Path, inner: str, outer: str, cores: int
) -> None:
    machine = Machine(tmp_path, V2.format("/"), "0::/a/b/c")
    machine.limit("a/b/c", inner)
    machine.limit("a", outer)
    machine.limit("a/other", "100000 100000")  # not its own
    assert count_free_cores(tmp_path) == cores


@pytest.mark.parametrize(
    ("mounted", "group"),
    [
        pytest.param("/", "/", id="a namespace of groups"),
        pytest.param("/docker/f0", "/docker/f0", id="its group alone is mounted"),
        pytest.param("/docker/f0", "/elsewhere", id="another path"),
        pytest.param("/", "/../host", id="a group outside of the namespace"),
    ],
)
@pytest.mark.parametrize("version", [1, 2])
def test_a_container_is_held_to_its_own_quota(
    tmp_path: Path, mounted: str, group: str, version: int
) -> None:
    if version == 2:
        machine = Machine(tmp_path, V2.format(mounted), f"0::{group}")
        machine.limit("", "200000 100000")
    else:
        groups = f"4:cpuset:{group}\n3:cpu,cpuacct:{group}\n0::/"
        machine = Machine(tmp_path, V1.format(mounted, mounted), groups)
        machine.limit_v1("", 200_000)
    assert count_free_cores(tmp_path) == 2


def test_quotas_of_version_1(tmp_path: Path) -> None:
    groups = "12:cpuset:/other\n3:cpu,cpuacct:/a/b\n1:name=systemd:/a\n0::/a"
    machine = Machine(tmp_path, V1.format("/", "/"), groups)
    machine.limit_v1("a/b", -1)
    machine.limit_v1("other", 100_000)
    assert count_free_cores(tmp_path) == MACHINE
    machine.limit_v1("a", 150_000, 50_000)
    assert count_free_cores(tmp_path) == 3


@pytest.mark.parametrize("text", ["", "::", "x", " - cgroup2", "1 2 - cgroup2 a b"])
def test_what_cannot_be_understood_limits_nothing(tmp_path: Path, text: str) -> None:
    machine = Machine(tmp_path, text, text)
    machine.limit("", "100000 100000")
    assert count_free_cores(tmp_path) == MACHINE
