"""The images of container/ and their try-out, built and run by podman.

No registry of images is asked: the images that the files begin with are made here, of
Debian's packages.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]

import dbcheck
from tests.kit.podman import BASE, CONTAINER, ROOT, Podman, podman_in, shown

GUIDE = ROOT / "docs" / "guides" / "container.md"
TARGET = "postgres:16"
# What the image of PostgreSQL's project does with the variables of compose.yml.
START = """\
#!/bin/sh
set -eu
PATH=$(echo /usr/lib/postgresql/*/bin):$PATH
data=/var/lib/postgresql/data
install -d -o postgres -m 700 "$data"
as() { setpriv --reuid=postgres --regid=postgres --clear-groups "$@"; }
as initdb -D "$data" -U "$POSTGRES_USER" -A "$POSTGRES_HOST_AUTH_METHOD" >/dev/null
echo "host all all all $POSTGRES_HOST_AUTH_METHOD" >>"$data/pg_hba.conf"
echo "CREATE DATABASE $POSTGRES_DB" | as postgres --single -D "$data" postgres
exec setpriv --reuid=postgres --regid=postgres --clear-groups \\
    postgres -D "$data" -c 'listen_addresses=*'
"""
SERVER = f"""\
FROM {BASE}
RUN apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y \\
    --no-install-recommends postgresql
COPY start /start
CMD ["sh", "/start"]
"""
pytestmark = [pytest.mark.wide, pytest.mark.root, pytest.mark.timeout(2400)]


@pytest.fixture(scope="module")
def podman(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Podman]:
    if not Path(sys.executable).with_name("podman-compose").exists():
        pytest.skip("make pages: podman-compose is missing")
    with podman_in(tmp_path_factory.mktemp("podman")) as made:
        yield made


@pytest.fixture(scope="module")
def client(podman: Podman) -> str:
    """Return the image of the client; a service of compose.yml has its name."""
    podman.build("container_client", "-f", CONTAINER / "Dockerfile", ".")
    return "container_client"


def test_the_client_runs_as_a_user_and_has_all_that_the_wheel_has(
    podman: Podman, client: str
) -> None:
    assert dbcheck.__version__ in podman.run("run", "--rm", client, "--version")
    assert "Usage: dbcheck" in podman.run("run", "--rm", client)
    listed = podman.run("run", "--rm", client, "demo", "--list")
    assert "workloads: batch, classic, insert, mixed, order-entry, readers," in listed
    inside = ("run", "--rm", "--entrypoint", "sh", client, "-c")
    who = podman.run(*inside, "id -u; pwd; ssh -V 2>&1; test ! -e /src")
    assert re.match(r"1000\n/home/dbcheck\nOpenSSH_", who), who
    packages = podman.run(*inside, "/opt/dbcheck/bin/pip list")
    assert "ansible" not in packages
    load = "from dbcheck.load.compiled import load_rounds; print(load_rounds())"
    assert "Rounds" in podman.run(*inside, f"/opt/dbcheck/bin/python -c '{load}'")
    podman.run(*inside, "! command -v gcc && test ! -e /usr/include/stdio.h")
    podman.run(*inside, "/opt/dbcheck/bin/pip check")


def test_a_folder_that_is_mounted_holds_the_inventory(
    podman: Podman, client: str, tmp_path: Path
) -> None:
    os.chown(tmp_path, 1000, 1000)
    mounted = ("run", "--rm", "-v", f"{tmp_path}:/home/dbcheck", client)
    podman.run(*mounted, "init")
    written = tmp_path / "inventory.yml"
    assert written.stat().st_uid == 1000
    assert "dbcheck_target" in written.read_text()


def test_the_client_with_ansible_reads_what_only_ansible_does(
    podman: Podman, client: str, tmp_path: Path
) -> None:
    """A range of hosts: the image without Ansible says what it needs."""
    build = ("--build-arg", "PACKAGES=ansible", "-f", CONTAINER / "Dockerfile", ".")
    podman.build("with-ansible", *build)
    host = {
        "dbcheck_target": "postgresql+psycopg2://d@{{ inventory_hostname }}/d",
        "dbcheck_witness": "file:acks/{{ inventory_hostname }}",
    }
    inventory = tmp_path / "inventory.yml"
    inventory.write_text(yaml.safe_dump({"all": {"hosts": {"db[1:2]": host}}}))
    for path in (tmp_path, inventory):
        os.chown(path, 1000, 1000)
    mounted = ("run", "--rm", "-v", f"{tmp_path}:/home/dbcheck")
    words = ("grants", "db2")
    without = podman.call("podman", *mounted, client, *words)
    assert "ansible" in without.stderr, without.stderr
    assert podman.run(*mounted, "with-ansible", *words)
    podman.run("rmi", "with-ansible")


@pytest.fixture(scope="module")
def services(podman: Podman, client: str) -> Iterator[Podman]:
    """Give the try-out after `up`; an image of PostgreSQL is made of Debian's."""
    podman.build("container_witness", "-f", CONTAINER / "Dockerfile.witness", ".")
    server = podman.folder / "server"
    server.mkdir()
    (server / "start").write_text(START)
    (server / "Dockerfile").write_text(SERVER)
    podman.build(TARGET, ".", cwd=server)
    shown(podman.compose("up", "-d", "--no-build"))
    wait = "until pg_isready -q -U dbcheck; do sleep 0.2; done"
    podman.run("exec", "container_target_1", "timeout", "60", "sh", "-c", wait)
    yield podman
    shown(podman.compose("down", "-v"))
    assert podman.run("ps", "--all", "--quiet") == ""
    assert podman.run("volume", "ls", "--quiet") == ""


def commands_of_guide() -> dict[str, list[str]]:
    """Return what the guide executes in the client, by its first word."""
    text = GUIDE.read_text().replace("\\\n", " ")
    found = re.findall(r"docker compose exec client (.*)", text)
    return {shlex.split(each)[1]: shlex.split(each) for each in found}


def test_the_try_out_of_the_guide_works(services: Podman) -> None:
    commands = commands_of_guide()
    assert commands.keys() == {"witness", "audit"}
    said = shown(services.compose("exec", "-T", "client", *commands["witness"]))
    assert "can be used as a witness" in said
    again = [word for word in commands["witness"] if "accept" not in word]
    shown(services.compose("exec", "-T", "client", *again))  # its key is stored
    said = shown(services.compose("exec", "-T", "client", *commands["audit"]))
    assert "the server alone was audited" in said


def test_the_witness_takes_keys_alone(services: Podman) -> None:
    """Without the client's key nobody gets in, and no password is asked for."""
    words = ("ssh", "-F", "none", "-o", "StrictHostKeyChecking=accept-new")
    done = services.compose("exec", "-T", "client", *words, "witness@witness", "true")
    assert "Permission denied (publickey)" in done.stderr + done.stdout
