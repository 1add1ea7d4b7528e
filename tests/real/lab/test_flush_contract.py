"""The lab's drive, loop device and filesystems keep what was flushed, and only that.

Everything that a lab says of a server rests on this: a sector that was flushed and is
lost, or another's bytes in its place, would be the lab's fault and look like the
server's.  Beside the honest drive stand planted violations that must be found.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from dbcheck.lab.drive.process import DriveServer
from dbcheck.lab.spec import FILESYSTEMS, KEPT_WRITES, DriveSpec
from tests.kit.drive_mounts import own_mounts as own_mounts
from tests.kit.drive_stack import Storage
from tests.kit.waiting import wait_until
from tests.real.lab.flush_contract import (
    AIO,
    SECTOR,
    AioWriter,
    Appender,
    Preallocator,
    Renamer,
    Sectors,
    SectorWriter,
    Writer,
    stamped,
)

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("own_mounts")]

# Nothing becomes stable by itself, so that all that survives was flushed or is lucky.
SPEC = DriveSpec(flush_ms=0.2, destage_age_s=0.0, size_bytes=320 << 20)
KINDS = tuple(kind for kind in KEPT_WRITES if kind != "all")
STACKS = ("raw", *FILESYSTEMS)
COUNT = 4096  # sectors of a file
FLUSHES = 12  # of each writer, before the power goes


class Bench:
    """A drive under all writers at once, each with a file or part of its own."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self.seed = 0
        self.files: dict[str, Sectors] = {}
        self.renamed: Renamer | None = None
        names = ["device"]
        if storage.filesystem:
            names = ["direct", "buffered", "aio", "appended", "allocated"]
        self.files = {name: Sectors(n, COUNT) for n, name in enumerate(names, 1)}
        for name in {"direct", "buffered", "aio"} & self.files.keys():
            with self.path(name).open("wb") as file:
                file.write(bytes(COUNT * SECTOR))
                os.fsync(file.fileno())
        if storage.filesystem:
            folder = os.open(storage.mountpoint, os.O_RDONLY)
            os.fsync(folder)
            os.close(folder)
            storage.drive.call(DriveServer.flush_all)

    def path(self, name: str) -> Path:
        """Return where the sectors of that name are."""
        if not self.storage.filesystem:
            assert self.storage.device is not None
            return Path(self.storage.device.path)
        return self.storage.mountpoint / name

    def writers(self) -> Iterator[Writer]:
        """Yield new writers for the next cycle."""
        whole = range(COUNT)
        third = COUNT // 3
        self.seed += 10
        if "device" in self.files:
            path, sectors = self.path("device"), self.files["device"]
            for n in range(2):
                part = whole[n * third : (n + 1) * third]
                yield SectorWriter(path, sectors, self.seed + n, os.O_DIRECT, part)
            if AIO:
                part = whole[2 * third :]
                yield AioWriter(path, sectors, self.seed + 2, os.O_DIRECT, part)
            return
        for n, (name, kind, flags) in enumerate(
            (
                ("direct", SectorWriter, os.O_DIRECT),
                ("buffered", SectorWriter, 0),
                ("aio", AioWriter if AIO else SectorWriter, os.O_DIRECT),
                ("appended", Appender, os.O_DIRECT),
                ("allocated", Preallocator, os.O_DIRECT),
            )
        ):
            path, sectors = self.path(name), self.files[name]
            yield kind(path, sectors, self.seed + n, flags, whole)
        before, self.renamed = self.renamed, Renamer(self.storage.mountpoint, 0)
        if before:
            self.renamed.sent, self.renamed.owed = before.sent, before.owed
        yield self.renamed

    def cut(self, kept_writes: str, seed: int) -> int:
        """Write, cut and restore; return how many sectors were lost."""
        writers = list(self.writers())
        counted = [(writer, writer.flushes + FLUSHES) for writer in writers]
        for writer in writers:
            writer.start()
        try:
            wait_until(
                lambda: all(
                    writer.flushes >= enough or not writer.alive()
                    for writer, enough in counted
                ),
                "every writer has flushed",
            )
            assert all(writer.alive() for writer in writers)
            for writer in writers:
                writer.failing.set()
            self.storage.fail()
        finally:
            for writer in writers:
                writer.stopped.set()
            for writer in writers:
                writer.join()
        return self.storage.restore(kept_writes, seed).lost_sectors

    def violations(self) -> list[str]:
        """Return all that is wrong, with the names of the files."""
        found = []
        for name, sectors in self.files.items():
            content = b""
            if self.path(name).exists():
                with self.path(name).open("rb") as file:
                    content = file.read(COUNT * SECTOR)
            found += [f"{name}: {what}" for what in sectors.violations(content)]
        if self.renamed:
            found += [f"renamed: {what}" for what in self.renamed.violations()]
        return found


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as found:
        yield found


def build(
    stack: ExitStack, folder: Path, name: str, personality: str = "honest"
) -> Bench:
    """Return the bench of one of STACKS."""
    spec = DriveSpec(
        personality=personality,
        flush_ms=SPEC.flush_ms,
        destage_age_s=SPEC.destage_age_s,
        size_bytes=SPEC.size_bytes,
    )
    storage = Storage(folder, spec, "" if name == "raw" else name)
    stack.callback(storage.close)
    return Bench(storage)


def keeps_the_contract(bench: Bench, cuts: int) -> None:
    """Cut so often, with each kind of kept writes in turn."""
    lost = 0
    for seed in range(cuts):
        kind = KINDS[seed % len(KINDS)]
        lost += bench.cut(kind, seed)
        assert bench.violations() == [], f"cut {seed}, kept writes {kind}"
    assert lost > 0, "nothing was at risk"


@pytest.mark.parametrize("name", STACKS)
def test_what_was_flushed_is_there_after_a_cut(
    stack: ExitStack, tmp_path: Path, name: str
) -> None:
    keeps_the_contract(build(stack, tmp_path, name), len(KINDS))


@pytest.mark.soak
@pytest.mark.parametrize("name", STACKS)
def test_what_was_flushed_is_there_after_a_thousand_cuts(
    stack: ExitStack, tmp_path: Path, name: str
) -> None:
    keeps_the_contract(build(stack, tmp_path, name), 1000)


@pytest.mark.parametrize("name", STACKS)
def test_a_lying_drive_is_found_out(
    stack: ExitStack, tmp_path: Path, name: str
) -> None:
    bench = build(stack, tmp_path, name, "lying")
    bench.cut("none", 0)
    found = " ".join(bench.violations())
    writers = ("device",) if name == "raw" else (*bench.files, "renamed")
    assert [writer for writer in writers if f"{writer}: " not in found] == []


@pytest.mark.parametrize("name", STACKS)
def test_one_sector_that_is_older_or_foreign_is_found(
    stack: ExitStack, tmp_path: Path, name: str
) -> None:
    bench = build(stack, tmp_path, name)
    bench.cut("random", 1)
    assert bench.violations() == []
    target = "device" if name == "raw" else "aio"
    sectors = bench.files[target]
    number = int((sectors.owed >= 1).argmax())
    older = stamped(sectors.owner, number, int(sectors.owed[number]) - 1, 1)
    newer = stamped(sectors.owner, number, int(sectors.submitted[number]) + 1, 1)
    other = stamped(sectors.owner + 1, number, int(sectors.owed[number]), 1)
    same = stamped(sectors.owner, number, int(sectors.owed[number]), 1)
    torn = same[:256] + older[256:]
    for content, what in (
        (older if sectors.owed[number] > 1 else bytes(SECTOR), "older than flushed"),
        (newer, "never sent"),
        (other, "foreign"),
        (torn, "foreign"),
    ):
        owed = sectors.owed.copy()
        with bench.path(target).open("r+b", buffering=0) as file:
            file.seek(number * SECTOR)
            file.write(content)
        assert [f"{target}: sector {number} is {what}"] == [
            found.rpartition(": ")[0] for found in bench.violations()
        ]
        sectors.owed[:] = owed
        with bench.path(target).open("r+b", buffering=0) as file:
            file.seek(number * SECTOR)
            file.write(same)
        assert bench.violations() == []
