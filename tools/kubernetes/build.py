"""Builds Kubernetes from its Go modules, once for each version.

No registry of images and no archive of programs is needed: what is built is a program
of our own that calls theirs, see programs/main.go.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from dbcheck.lab import fetch
from tools.kubernetes.run import run

PROGRAMS = Path(__file__).with_name("programs")
# Kept for all clusters of this machine: the build takes minutes.
CACHE = Path("/var/cache/dbcheck-kube")
_VERSION = re.compile(r"k8s\.io/kubernetes v(1)\.(\d+)\.(\d+)$", re.MULTILINE)
_VARIABLES = "k8s.io/component-base/version"
_TIMEOUT_S = 3600.0


def build() -> Path:
    """Return the folder with the programs "kubernetes" and "pause" of that version.

    Raise ClusterError if they cannot be built.
    """
    major, minor, patch = read_version()
    folder = find_folder()
    CACHE.mkdir(parents=True, exist_ok=True)
    with fetch.lock_and_clear(folder):
        if folder.exists():
            return folder
        source, built = CACHE / "source", CACHE / "built"
        for old in (source, built):
            shutil.rmtree(old, ignore_errors=True)
        shutil.copytree(PROGRAMS, source)
        settings = {
            "gitVersion": f"v{major}.{minor}.{patch}",
            "gitMajor": major,
            "gitMinor": minor,
        }
        named = [f"-X {_VARIABLES}.{name}={text}" for name, text in settings.items()]
        _compile(source, "./", built / "kubernetes", " ".join(["-s -w", *named]))
        _compile(source, "./pause", built / "pause", "-s -w")
        built.rename(folder)
        shutil.rmtree(source)
    return folder


def find_folder() -> Path:
    """Return the folder in which the programs are, once they are built."""
    return CACHE / ".".join(read_version())


def read_version() -> tuple[str, str, str]:
    """Return major, minor and patch of the Kubernetes that is built."""
    found = _VERSION.search((PROGRAMS / "go.mod").read_text())
    assert found
    return found[1], found[2], found[3]


def _compile(source: Path, package: str, program: Path, link: str) -> None:
    """Compile one program, without a part in C, so that it runs in an empty image.

    -p 2: each package that is compiled at the same time takes up to 2 GiB.
    """
    command = ["nice", "go", "build", "-C", str(source), "-p", "2", "-mod=mod"]
    command += ["-trimpath", "-buildvcs=false", "-ldflags", link, "-o", str(program)]
    run([*command, package], {"CGO_ENABLED": "0"}, timeout_s=_TIMEOUT_S)
