"""What lies below this machine's filesystems, beside what lsblk and findmnt show."""

from __future__ import annotations

import contextlib
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from dbcheck.hosts.host import open_host
from dbcheck.model.host import Volume
from dbcheck.model.places import Place
from tests.kit.blockdevices import below, edges


def shown(*command: str) -> Any:
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@pytest.fixture(params=["/", "/dev/shm", "a test's"])
def volume(request: pytest.FixtureRequest, tmp_path: Path) -> Volume:
    path = str(tmp_path) if request.param == "a test's" else str(request.param)
    with contextlib.closing(open_host("local:")) as host:
        facts = host.facts(str(tmp_path), [Place("beside", path)])
    (found,) = (one for one in facts.volumes if path in one.places.values())
    return found


def test_a_filesystem_is_what_findmnt_shows(volume: Volume) -> None:
    path, *_ = volume.places.values()
    columns = "SOURCE,TARGET,FSTYPE,OPTIONS"
    mounts = shown("findmnt", "-J", "-v", "-o", columns, "--target", path)
    found = mounts["filesystems"][-1]  # the one on top, if several are mounted there
    assert volume.mount_point == found["target"]
    assert volume.filesystem == found["fstype"]
    assert volume.source == found["source"]
    assert volume.mount_options.split(",") == found["options"].split(",")


def test_the_stack_is_what_lsblk_shows(volume: Volume) -> None:
    tree = shown("lsblk", "-J", "-a", "-o", "NAME,KNAME")["blockdevices"]
    names = [layer.name for layer in volume.layers]
    if not names:
        assert volume.source not in {f"/dev/{name}" for name, _ in edges(tree)}
        return
    assert set(names) == below(names[0], list(edges(tree)))
