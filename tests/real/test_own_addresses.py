"""Which addresses are this host's own, in a network of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest

SHOWS = """
ip link set lo up &&
ip address add 10.9.9.1/24 dev lo && ip address add 10.9.9.2/24 dev lo &&
exec {python} -c '
from dbcheck.remote.addresses import is_own
print(*[n for n in range(1, 5) if is_own(f"10.9.9.{{n}}")])
'
"""


@pytest.mark.root
def test_a_further_address_in_a_network_is_its_own_as_well() -> None:
    """The kernel sends from the first one there; keepalived adds such an address."""
    script = SHOWS.format(python=sys.executable)
    command = ["unshare", "-n", "sh", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "RTNETLINK" in done.stderr or "not found" in done.stderr:
        pytest.skip(f"no addresses can be added: {done.stderr}")
    assert done.stdout.split() == ["1", "2"], done.stderr
