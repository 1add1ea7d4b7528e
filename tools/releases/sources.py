"""Fetches servers of other releases from Debian, Maven Central and npm.

Each comes through the registry's own client, and is laid out to lie over /usr.
"""

from __future__ import annotations

import json
import os
import shutil
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from dbcheck.lab import fetch

_JAR_BASE = Path("local/mysql")  # for which both vendors' own builds are compiled
_INSTALLER = "mariadb-install-db"


class Source(Protocol):
    """A place from which a server comes."""

    def lay(self, folder: Path) -> Path:
        """Return the tree, in *folder*, that is to lie over /usr.

        The server runs also where it is, as long as *folder* is not moved.  Raise
        LabError if it cannot be had.
        """
        ...


@dataclass(frozen=True)
class Apt:
    """Packages of a release of Debian, with the C library that they were built for.

    programs: those of them that run, below usr, as patterns.
    folders:  what these need, below usr.
    """

    suite: str
    packages: tuple[str, ...]
    programs: tuple[str, ...]
    folders: tuple[str, ...]

    def lay(self, folder: Path) -> Path:
        tree, layer = self._fetched(folder), folder / "usr"
        programs = [
            program.relative_to(tree)
            for pattern in self.programs
            for program in sorted((tree / "usr").glob(pattern))
        ]
        for program in programs:
            server = tree / program
            if not server.is_symlink() and server.read_bytes()[:4] == b"\x7fELF":
                fetch.patch(tree, tree, program)
        folders = [
            Path("usr", name) for name in self.folders if (tree / "usr" / name).exists()
        ]
        for moved in (*folders, *programs):
            if os.path.lexists(tree / moved):  # and did not go with its folder
                (folder / moved).parent.mkdir(parents=True, exist_ok=True)
                (tree / moved).rename(folder / moved)
        _hide_below(folder, folders)
        return layer

    def _fetched(self, folder: Path) -> Path:
        """Return a tree of the packages and all that they depend on."""
        mirror = fetch.find_mirror(
            fetch.run(["apt-get", "indextargets", "--format", fetch.TARGETS_AS])
        )
        tree = folder / "tree"
        packages = fetch.download(folder / "apt", mirror, self.suite, *self.packages)
        for one in packages:
            fetch.run(["dpkg-deb", "--extract", str(one), str(tree)])
        shutil.rmtree(folder / "apt")
        tree.chmod(0o755)
        # The packages of Debian 11 have these beside /usr.
        for apart in ("lib", "lib64"):
            if (tree / apart).is_dir() and not (tree / apart).is_symlink():
                shutil.copytree(
                    tree / apart,
                    tree / "usr" / apart,
                    symlinks=True,
                    dirs_exist_ok=True,
                )
        for loader in (tree / "usr/lib64").iterdir():
            if os.path.isabs(target := os.readlink(loader)):
                loader.unlink()
                loader.symlink_to(tree / "usr" / target.removeprefix("/usr")[1:])
        return tree


@dataclass(frozen=True)
class Jar:
    """An artifact of Maven Central that has the installation of a server in it.

    artifact: GROUP:NAME:VERSION.
    inside:   the installation's folder in the jar, or its archive.
    links:    place below usr -> program of the installation.
    """

    artifact: str
    inside: str
    links: Mapping[str, str]

    def lay(self, folder: Path) -> Path:
        layer, unpacked = folder / "usr", folder / "unpacked"
        base, packed = layer / _JAR_BASE, self._fetched(folder)
        with zipfile.ZipFile(packed) as jar:
            wanted = [name for name in jar.namelist() if name.startswith(self.inside)]
            jar.extractall(unpacked, wanted)
        packed.unlink()
        source = unpacked / self.inside
        base.parent.mkdir(parents=True)
        if source.is_dir():
            source.rename(base)
        else:
            with tarfile.open(source) as archive:
                archive.extractall(base, filter=_of_the_installation)
        shutil.rmtree(unpacked)
        _make_readable(base)
        for place, program in self.links.items():
            link = layer / place
            link.parent.mkdir(exist_ok=True)
            link.symlink_to(Path("/usr", _JAR_BASE, program))
        for file in (*base.glob("bin/*"), *base.glob("scripts/*")):
            file.chmod(0o755)  # a jar has no modes
        if (installer := base / "scripts" / _INSTALLER).exists():
            text = installer.read_text()  # called by a link, it finds nothing
            place = f'basedir="/usr/{_JAR_BASE}"'
            installer.write_text(text.replace('basedir=""', place, 1))
        return layer

    def _fetched(self, folder: Path) -> Path:
        group, name, version = self.artifact.split(":")
        repository = folder / "maven"
        options = ["-Dtransitive=false", f"-Dmaven.repo.local={repository}"]
        get = ["mvn", "-q", "-B", "dependency:get", f"-Dartifact={self.artifact}"]
        fetch.run([*get, *options])
        found = repository.joinpath(*group.split("."), name, version)
        jar = (found / f"{name}-{version}.jar").rename(folder / "server.jar")
        shutil.rmtree(repository)
        return jar


@dataclass(frozen=True)
class Npm:
    """A package of npm with the programs and libraries of a server in its native/.

    package: NAME@VERSION.
    above:   the folder below usr that holds one of each release; here only this one.
    name:    its own in that.
    """

    package: str
    above: str
    name: str

    def lay(self, folder: Path) -> Path:
        layer = folder / "usr"
        base = layer / self.above / self.name
        fetch.run(["npm", "pack", "--silent", self.package], cwd=folder)
        (packed,) = folder.glob("*.tgz")
        with tarfile.open(packed) as archive:
            archive.extractall(folder, filter="data")
        packed.unlink()
        package = folder / "package"
        # No package of npm has links; a script of its own makes them once installed.
        for link in json.loads((package / "native/pg-symlinks.json").read_text()):
            target = package / link["target"]
            target.symlink_to(Path(link["source"]).name)
        base.parent.mkdir(parents=True)
        (package / "native").rename(base)
        shutil.rmtree(package)
        _make_readable(base)
        _hide_below(folder, [Path("usr", self.above)])
        return layer


def _of_the_installation(member: tarfile.TarInfo, place: str) -> tarfile.TarInfo | None:
    """Leave out a link to where whoever packed an installation had it."""
    if member.issym() and os.path.isabs(member.linkname):
        return None
    return tarfile.data_filter(member, place)


def _make_readable(tree: Path) -> None:
    """Let the server's account read all of a tree, and run what anybody may run."""
    for path in (tree, *tree.rglob("*")):
        if not path.is_symlink():
            mode = path.stat().st_mode
            path.chmod(0o755 if path.is_dir() or mode & 0o100 else 0o644)


def _hide_below(folder: Path, folders: Sequence[Path]) -> None:
    """Let nothing of the machine's own show through these folders of a layer."""
    for whole in folders:
        os.setxattr(folder / whole, "trusted.overlay.opaque", b"y")
