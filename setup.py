"""What setup.cfg cannot say: URLs made from one setting, an extension in C that may be
missing, and reproducible files."""

from __future__ import annotations

import configparser
import gzip
import os
import tarfile
import zlib
from pathlib import Path
from typing import Any

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
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


class ReproducibleExtension(build_ext):
    """Makes a file that all may read, whatever the umask; it lies so in the wheel.

    It knows its source by a checksum, of 31 bits as any int holds it; load_rounds() of
    dbcheck/load/compiled.py compares the two.
    """

    def build_extension(self, ext: Extension) -> None:
        (source,) = ext.sources
        checksum = zlib.crc32(Path(source).read_bytes()) >> 1
        ext.define_macros = [("SOURCE", str(checksum))]
        super().build_extension(ext)
        Path(self.get_ext_fullpath(ext.name)).chmod(0o755)


# The loop's inner round (see dbcheck/load/compiled.py).  Where there is no compiler it
# is left out, and the loop is Python alone.  No debugging symbols: they hold the folder
# in which it was built.
ROUNDS = Extension(
    "dbcheck.load._rounds",
    ["dbcheck/load/_rounds.c"],
    py_limited_api=True,
    extra_compile_args=["-g0"],
    extra_link_args=["-s"],
    optional=True,
)
# For a wheel for all systems: DBCHECK_WITHOUT_C=1 leaves it out.
EXTENSIONS = [] if os.environ.get("DBCHECK_WITHOUT_C") else [ROUNDS]

setup(
    project_urls=make_urls(),
    cmdclass={"sdist": ReproducibleSdist, "build_ext": ReproducibleExtension},
    ext_modules=EXTENSIONS,
    options={"bdist_wheel": {"py_limited_api": "cp311"}} if EXTENSIONS else {},
)
