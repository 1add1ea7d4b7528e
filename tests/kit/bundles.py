"""Bundles of stored runs, and forged ones that are sound in themselves."""

from __future__ import annotations

import gzip
import shutil
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from dbcheck.evidence import archive
from dbcheck.evidence.archive import Index
from dbcheck.evidence.bundle import bundle
from dbcheck.witness.log import FrameLogReader
from tests.runs import make

STORED = Path(make.__file__).parent
SECRET = "hunter2-of-the-account"


def stored_copy(name: str, parent: Path) -> Path:
    """Return the folder of a copy of a stored run, named as the run is."""
    source = STORED / name
    return Path(shutil.copytree(source, parent / source.name))


def bundle_of(folder: Path, file: Path, *, redact: bool = False) -> Index:
    """Write the bundle of a run or a campaign; return its index."""
    with bundle(folder, [SECRET], FrameLogReader(), redact=redact) as made:
        file.write_bytes(b"".join(made.chunks()))
        return made.index


def forged(source: Path, target: Path, changed: Callable[[Path, Index], Index]) -> None:
    """Write a bundle whose every digest is right, with what *changed* made of it.

    changed: gets the folder of the files, and may change them; returns the index to
    write, of which the members are computed anew.
    """
    folder = target.with_suffix(".files")
    folder.mkdir()
    index = changed(folder, archive.extract(source, folder))
    index = replace(index, members=archive.packed(folder))
    target.write_bytes(b"".join(archive.chunks(folder, index)))
    shutil.rmtree(folder)


def contents(file: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the name and the content of each file of a bundle, as tar and gzip do."""
    with tarfile.open(file) as tar:
        for member in tar:
            opened = tar.extractfile(member)
            assert opened is not None
            content = opened.read()
            if member.name.endswith(".gz"):
                content = gzip.decompress(content)
            yield member.name, content
