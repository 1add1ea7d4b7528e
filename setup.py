"""What setup.cfg cannot say: URLs made from one setting, and a reproducible sdist."""

from __future__ import annotations

import configparser
import gzip
import os
import tarfile
from pathlib import Path
from typing import Any

from setuptools import setup
from setuptools.command.sdist import sdist

# Below the address of the repository, as forges lay it out.
PAGES = {
    "Source": "",
    "Documentation": "/blob/main/docs/index.md",
    "Changelog": "/blob/main/CHANGELOG.md",
    "Issues": "/issues",
}


def make_urls() -> dict[str, str]:
    """Return the project's URLs; none while setup.cfg has no repository."""
    config = configparser.ConfigParser()
    config.read(Path(__file__).with_name("setup.cfg"), encoding="utf-8")
    repository = config["project"]["repository"].rstrip("/")
    return {name: repository + at for name, at in PAGES.items()} if repository else {}


class ReproducibleSdist(sdist):
    """Packs the same files into the same bytes, if SOURCE_DATE_EPOCH gives the time."""

    def make_archive(self, base_name: str, format: str, *args: Any, **more: Any) -> str:
        epoch = os.environ.get("SOURCE_DATE_EPOCH")
        if epoch is None or format != "gztar":
            return str(super().make_archive(base_name, format, *args, **more))
        folder = Path(more["base_dir"])
        path = Path(f"{base_name}.tar.gz")
        path.parent.mkdir(parents=True, exist_ok=True)

        def normalize(member: tarfile.TarInfo) -> tarfile.TarInfo:
            member.uid = member.gid = 0
            member.uname = member.gname = ""
            member.mtime = int(epoch)
            is_program = member.isdir() or member.mode & 0o100
            member.mode = 0o755 if is_program else 0o644
            return member

        with (
            path.open("wb") as file,
            gzip.GzipFile("", "wb", fileobj=file, mtime=int(epoch)) as packed,
            tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar,
        ):
            for each in (folder, *sorted(folder.rglob("*"))):
                tar.add(each, recursive=False, filter=normalize)
        return str(path)


setup(project_urls=make_urls(), cmdclass={"sdist": ReproducibleSdist})
