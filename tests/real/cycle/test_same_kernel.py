"""A witness in a container beside the target, which has a boot id of its own."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import uuid
from dataclasses import replace
from pathlib import Path

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.cycle.preflight.independence import require_independent, require_other_host
from dbcheck.hosts.host import open_host
from dbcheck.ports.witness import WitnessHostFacts
from dbcheck.runs.stored import from_bytes
from tests.kit.host_samples import BEFORE
from tests.kit.refusals import refused

BOOT_ID, MACHINE_ID = "/proc/sys/kernel/random/boot_id", "/etc/machine-id"
# As systemd-nspawn and LXC do it: random(4) is mounted over, and so is machine-id(5).
IN_CONTAINER = f"""
mount --bind {{own}} {BOOT_ID} &&
mount --bind {{own}} {MACHINE_ID} && exec {{python}} -c '
import sys
from dbcheck.runs.stored import to_bytes
from dbcheck.witness.url import open_witness
witness = open_witness("file:{{folder}}", volatile=True)
sys.stdout.buffer.write(to_bytes(witness.facts()))
'
"""


@pytest.mark.root
def test_containers_of_one_kernel_are_one_host(tmp_path: Path) -> None:
    own = tmp_path / "id"
    own.write_text(f"{uuid.uuid4()}\n")
    script = IN_CONTAINER.format(own=own, python=sys.executable, folder=tmp_path / "w")
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script],
        env=os.environ | {"PYTHONPATH": os.getcwd()},
        stdout=subprocess.PIPE,
        check=True,
    )
    witness = from_bytes(done.stdout, WitnessHostFacts, "the witness")
    with contextlib.closing(open_host("local:")) as host:
        facts = host.facts(str(tmp_path))
    assert witness.boot_id == own.read_text().strip() != facts.boot_id
    target = replace(BEFORE, facts=facts)
    with refused(ErrorId.WITNESS_ON_TARGET) as caught:
        require_other_host(target, witness)
    assert "their kernels started at the same moment" in str(caught.value)
    with refused(ErrorId.WITNESS_ON_TARGET):
        require_independent([("127.0.0.1", 5432)], "ssh", witness)
