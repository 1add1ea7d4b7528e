"""A podman of the tests: with storage and settings apart from any other's."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import dbcheck
from dbcheck.cli import PASS

ROOT = Path(dbcheck.__file__).resolve().parent.parent
CONTAINER = ROOT / "container"
BASE = "debian:12-slim"  # with which the files of container/ begin
_PROGRAMS = ("podman", "runc", "debootstrap", "netavark", "aardvark-dns", "iptables")
# How the machine reaches the packages; the images of a registry need none of it.
_OF_MACHINE = ("/usr/local/share/ca-certificates", "/etc/pip.conf")

# A server that is made when it first starts, as the image of its project does.
START = """\
set -eu
PATH=$(echo /usr/lib/postgresql/*/bin):$PATH
install -d -o postgres -m 700 "$1"
as() { setpriv --reuid=postgres --regid=postgres --clear-groups "$@"; }
if ! [ -e "$1/PG_VERSION" ]; then
    [ -z "$3" ] || install -d -o postgres -m 700 "$3"
    as initdb -D "$1" ${3:+-X "$3"} -U dbcheck -A trust >/dev/null
fi
exec setpriv --reuid=postgres --regid=postgres --clear-groups \\
    postgres -D "$1" -p "$2" -c unix_socket_directories=
"""


def shown(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == PASS, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


def configure(folder: Path) -> None:
    """Keep apart from any other podman of this machine.

    runc also takes the cgroups of older systems, as crun does not.
    """
    (folder / "containers.conf").write_text(
        f"""\
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "none"
lock_type = "file"
tmp_dir = "{folder}/tmp"
[network]
network_config_dir = "{folder}/networks"
"""
    )
    (folder / "storage.conf").write_text(
        f"""\
[storage]
driver = "overlay"
graphroot = "{folder}/store"
runroot = "{folder}/run"
"""
    )


def environment_of(folder: Path) -> dict[str, str]:
    """Return the variables that have podman use what configure() wrote."""
    return {
        "CONTAINERS_CONF": str(folder / "containers.conf"),
        "CONTAINERS_STORAGE_CONF": str(folder / "storage.conf"),
    }


def remove(folder: Path) -> None:
    """Remove the storage, once no container is left."""
    for store in (folder / "store" / "overlay", folder / "store"):
        with contextlib.suppress(subprocess.CalledProcessError):
            subprocess.run(("umount", "-q", store), check=True)
    shutil.rmtree(folder)


@dataclass(frozen=True)
class Containers:
    """Containers that have this machine's files and network, and folders of their own.

    No image is needed: what a container writes goes to a layer above the files.
    """

    folder: Path

    def call(self, *words: str | Path) -> str:
        done = subprocess.run(
            ("podman", *words),
            env=os.environ | environment_of(self.folder),
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
        )
        return shown(done)

    def run(
        self, name: str, data: str, port: int, *options: str | Path, log: str = ""
    ) -> None:
        """Start a container with a PostgreSQL; *log*: its WAL, "" with the data."""
        start = self.folder / "start"
        start.write_text(START)
        how = ("run", "--detach", "--name", name, "--network", "host")
        mounted = ("--volume", f"{start}:/start:ro", *options, "--rootfs", "/:O")
        self.call(*how, *mounted, "sh", "/start", data, str(port), log)


@contextlib.contextmanager
def containers_in(folder: Path) -> Iterator[Containers]:
    """Give containers that end with the block; skip if there is no podman."""
    if not (shutil.which("podman") and shutil.which("runc")):
        pytest.skip("make pages: podman or runc is missing")
    folder.mkdir()
    configure(folder)
    made = Containers(folder)
    try:
        yield made
    finally:
        made.call("rm", "--all", "--force", "--time", "0")
        made.call("volume", "rm", "--all", "--force")
        remove(folder)


@dataclass(frozen=True)
class Podman:
    """A podman with a storage, a configuration and a network of its own."""

    folder: Path
    namespace: str

    def call(
        self, *words: str | Path, cwd: Path = CONTAINER
    ) -> subprocess.CompletedProcess[str]:
        inside = ("nsenter", f"--net=/run/netns/{self.namespace}")
        return self._run(*inside, *words, cwd=cwd)

    def run(self, *words: str | Path) -> str:
        return shown(self.call("podman", *words))

    def compose(self, *words: str) -> subprocess.CompletedProcess[str]:
        name = Path(sys.executable).with_name("podman-compose")
        return self.call(name, *words)

    def build(self, tag: str, *words: str | Path, cwd: Path = ROOT) -> None:
        """Build an image; its steps have this machine's network."""
        how = ("--isolation", "chroot", "--pull-never", "--layers=false")
        shown(self._run("podman", "build", *how, "-t", tag, *words, cwd=cwd))

    def _run(self, *words: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
        own = {"COMPOSE_PROJECT_NAME": "container"}
        return subprocess.run(
            words,
            cwd=cwd,
            env=os.environ | environment_of(self.folder) | own,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
        )


@contextlib.contextmanager
def podman_in(folder: Path) -> Iterator[Podman]:
    """Give a podman that has BASE, and that is removed; skip if a program is missing.

    No registry of images is asked: BASE is made of Debian's packages.
    """
    path = os.environ["PATH"] + ":/usr/sbin:/usr/lib/podman"
    if missing := [name for name in _PROGRAMS if not shutil.which(name, path=path)]:
        pytest.skip(f"make pages: {', '.join(missing)} is missing")
    made = Podman(folder, f"dbcheck-test-{os.getpid()}")
    configure(made.folder)
    subprocess.run(("ip", "netns", "add", made.namespace), check=True)
    try:
        _make_base(made)
        yield made
    finally:
        made.call("podman", "rm", "--all", "--force", "--time", "0")
        subprocess.run(("ip", "netns", "delete", made.namespace), check=True)
        remove(made.folder)


def _make_base(podman: Podman) -> None:
    """Make BASE by debootstrap."""
    root = podman.folder / "root"
    words = ("debootstrap", "--variant=minbase", "bookworm", root)
    shown(subprocess.run(words, capture_output=True, text=True))
    for name in _OF_MACHINE:
        to = root / name.removeprefix("/")
        if Path(name).is_dir():
            shutil.copytree(name, to, dirs_exist_ok=True)
        elif Path(name).is_file():
            shutil.copy(name, to)
    packed = podman.folder / "root.tar"
    shown(
        subprocess.run(
            ("tar", "-C", root, "-cf", packed, "."), capture_output=True, text=True
        )
    )
    podman.run("import", "--quiet", packed, BASE)
    shutil.rmtree(root)
    packed.unlink()
