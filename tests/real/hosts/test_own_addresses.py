"""This host's own addresses, in a network namespace."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SHOWS = """
ip link set lo up &&
ip address add 10.9.9.1/24 dev lo && ip address add 10.9.9.2/24 dev lo &&
exec {python} -c '
from dbcheck.remote.same_host import is_own_address
print(*[n for n in range(1, 5) if is_own_address(f"10.9.9.{{n}}")])
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


NEW = """
echo 60 >/proc/sys/net/ipv6/conf/default/dad_transmits &&
ip link set lo up && ip link add near type veth peer name far &&
ip link set near up && ip link set far up &&
until grep -q "^fe80.* 20 c0 .*near" /proc/net/if_inet6; do :; done &&
exec {python} -c '
from dbcheck.remote.same_host import is_own_address
from dbcheck.agent.wire import list_addresses
own = list(list_addresses())
print(len(own), *[each for each in own if not is_own_address(each)])
'
"""


@pytest.mark.root
def test_an_address_that_the_kernel_still_looks_for_elsewhere_is_its_own() -> None:
    """A new one of IPv6 is tentative, so nothing is sent from it (RFC 4862)."""
    script = NEW.format(python=sys.executable)
    command = ["unshare", "-n", "timeout", "20", "sh", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "RTNETLINK" in done.stderr or "not found" in done.stderr:
        pytest.skip(f"no network can be made: {done.stderr}")
    assert done.stdout.split() == ["2"], done.stderr


RESOLVES = """
mount --bind {hosts} /etc/hosts && exec {python} -c '
import sys, psycopg2
from dbcheck.engines.registry import open_engine
from dbcheck.remote.same_host import locate_target
for name in sys.argv[1:]:
    try:
        psycopg2.connect(host=name, port=1)
    except psycopg2.OperationalError as error:
        assert "(127.0.0.9), port 1 failed" in str(error), error
    url = f"postgresql://u@/d?host={{name}}&port=1"
    assert locate_target(open_engine(url).endpoints()).here, name
' {names}
"""


@pytest.mark.root
def test_a_name_that_libpq_finds_is_found(tmp_path: Path) -> None:
    """Also one that is no name of a domain: who compares it looks it up as libpq."""
    names = " ".join(["x" * 64, "b\N{LATIN SMALL LETTER U WITH DIAERESIS}cher", "x..y"])
    hosts = tmp_path / "hosts"
    hosts.write_text(f"127.0.0.9 {names}\n")
    script = RESOLVES.format(hosts=hosts, python=sys.executable, names=names)
    command = ["unshare", "-m", "sh", "-c", script]
    environment = os.environ | {"PYTHONPATH": os.getcwd(), "PYTHONUTF8": "1"}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False
    )
    assert not done.returncode, done.stderr
