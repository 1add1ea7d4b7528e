"""The cores that a process really gets, from the scheduler and from a control group."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dbcheck.base.cores import count_free_cores

COUNT = "from dbcheck.base.cores import count_free_cores; print(count_free_cores())"
GROUPS = (  # where cores are limited, of version 2 and 1
    ("/sys/fs/cgroup", "cpu.max", "100000 100000"),
    ("/sys/fs/cgroup/cpu", "cpu.cfs_quota_us", "100000"),
)


def count_in_child(before: str) -> int:
    """Return what a child counts that executes *before* first."""
    words = (sys.executable, "-c", f"import os; {before}; {COUNT}")
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    return int(done.stdout)


@pytest.fixture
def group() -> Iterator[Path]:
    """Return a group inside one that may use the time of one core."""
    for root, name, quota in GROUPS:
        outer = Path(root, f"dbcheck-test-{os.getpid()}")
        inner = outer / "inner"
        with contextlib.ExitStack() as stack:
            try:
                outer.mkdir()
                stack.callback(outer.rmdir)
                with (outer / name).open("r+") as limit:  # the kernel's file
                    limit.write(quota)
                inner.mkdir()
                stack.callback(inner.rmdir)
            except OSError:
                continue
            yield inner
            return
    pytest.skip("this machine lets nobody limit the cores of a group")


def test_a_process_of_one_core_counts_one() -> None:
    assert (
        count_in_child("os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})") == 1
    )


@pytest.mark.root
def test_a_quota_of_the_group_around_counts(group: Path) -> None:
    if count_free_cores() == 1:
        pytest.skip("this machine has one core")
    join = f"open('{group}/cgroup.procs', 'w').write(str(os.getpid()))"
    assert count_in_child(join) == 1
    assert count_in_child("pass") == count_free_cores() > 1
