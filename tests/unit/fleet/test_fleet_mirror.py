"""The client's copy of a campaign's folder, and what a worker sends of its own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import RunWriteError
from dbcheck.campaign.folder import CampaignFolder, Cycle
from dbcheck.fleet.messages import Listing, Piece
from dbcheck.fleet.mirror import (
    PIECE_BYTES,
    Incoming,
    Outgoing,
    read_needed_files,
    unpack_files,
)
from dbcheck.model.verdict import CycleVerdict
from tests.kit.refusals import refused
from tests.kit.samples import PLAN

NEW = "20261125-000000-00000a"
OLD = "20261124-000000-00000b"
ODD = {"empty": b"", "whole": b"x" * PIECE_BYTES, "long": b"y" * (2 * PIECE_BYTES + 1)}


def cycle(number: int, run: str) -> Cycle:
    return Cycle(number, run, "steady", 1.0, CycleVerdict.PASS, "", "")


def tree(folder: Path) -> dict[str, bytes]:
    """Return what a folder holds, but for the lock."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name != "lock"
    }


class Ends:
    """The client's folder, a worker's, and what goes between them."""

    def __init__(self, path: Path) -> None:
        self.client = CampaignFolder.create(path / "client", PLAN)
        self.write(self.client.path, OLD, "acks.log", b"old")
        self.client.add(cycle(1, OLD))
        given = read_needed_files(self.client)
        self.worker = path / "worker"
        unpack_files(self.worker, given)
        self.out = Outgoing(self.worker, given)
        self.into = Incoming(self.client.path, given)

    def write(self, folder: Path, run: str, name: str, content: bytes) -> Path:
        """Write a file of a run, which has a manifest."""
        path = folder / "runs" / run / name
        path.parent.mkdir(exist_ok=True)
        (path.parent / "manifest.json").touch()
        path.write_bytes(content)
        return path

    def send(self) -> tuple[str, ...]:
        """Send what is new; return what the client lacks."""
        for piece in self.out.pieces():
            self.into.take(piece)
        return self.into.missing(self.out.listing())


@pytest.fixture
def ends(tmp_path: Path) -> Iterator[Ends]:
    made = Ends(tmp_path)
    yield made
    made.into.close()


def test_a_worker_gets_all_but_the_runs_that_are_settled(ends: Ends) -> None:
    assert tree(ends.worker).keys() == {
        "campaign.json",
        "cycles.jsonl",
        "cycles/0001.json",
    }
    ends.write(ends.client.path, NEW, "manifest.json", b"{}")
    assert f"runs/{NEW}/manifest.json" in read_needed_files(ends.client)


def test_the_client_has_what_the_worker_stored(ends: Ends) -> None:
    for name, content in ODD.items():
        ends.write(ends.worker, NEW, name, content)
    CampaignFolder(ends.worker).add(cycle(2, NEW))
    assert ends.send() == ()
    kept = tree(ends.client.path)
    assert kept.pop(f"runs/{OLD}/acks.log") == b"old"
    assert kept.pop(f"runs/{OLD}/manifest.json") == b""
    assert kept == tree(ends.worker)
    assert not list(ends.out.pieces())


def test_what_names_a_run_as_settled_comes_last(ends: Ends) -> None:
    ends.write(ends.worker, NEW, "verdict.json", b"{}")
    CampaignFolder(ends.worker).add(cycle(2, NEW))
    sent = [piece.path for piece in ends.out.pieces()]
    assert sent[-1] == "cycles/0002.json"
    assert f"runs/{NEW}/verdict.json" in sent


def test_a_run_that_came_in_part_has_its_manifest(ends: Ends) -> None:
    """So --resume settles it, also if its worker died before the rest."""
    for name in ("client.key", "manifest.json", "a"):
        ends.write(ends.worker, NEW, name, b"{}")
    sent = [piece.path for piece in ends.out.pieces()]
    assert sent[0] == f"runs/{NEW}/manifest.json"
    assert len(sent) == 3


def test_a_run_that_has_no_manifest_yet_is_not_sent(ends: Ends) -> None:
    ends.write(ends.worker, NEW, "client.key", b"{}")
    manifest = ends.worker / "runs" / NEW / "manifest.json"
    manifest.unlink()
    assert not list(ends.out.pieces())
    manifest.touch()
    assert ends.send() == ()
    assert tree(ends.client.path / "runs" / NEW).keys() == {
        "client.key",
        "manifest.json",
    }


def test_a_file_that_the_worker_removed_is_removed(ends: Ends) -> None:
    gone = ends.write(ends.worker, NEW, "survivors-ledger.bin", b"rows")
    ends.write(ends.worker, NEW, "manifest.json", b"{}")
    ends.send()
    gone.unlink()
    assert ends.send() == ()
    assert list(tree(ends.client.path / "runs" / NEW)) == ["manifest.json"]


def test_a_settled_run_is_dropped_by_the_worker_alone(ends: Ends) -> None:
    ends.write(ends.worker, NEW, "manifest.json", b"{}")
    CampaignFolder(ends.worker).add(cycle(2, NEW))
    ends.send()
    ends.out.drop_settled()
    assert not (ends.worker / "runs" / NEW).exists()
    assert ends.send() == ()
    assert tree(ends.client.path / "runs" / NEW) == {"manifest.json": b"{}"}


@pytest.mark.parametrize("fault", ["flipped", "lost", "swapped", "twice"])
def test_a_file_that_did_not_come_whole_is_sent_again(ends: Ends, fault: str) -> None:
    content = os.urandom(3 * PIECE_BYTES)
    ends.write(ends.worker, NEW, "manifest.json", b"{}")
    assert ends.send() == ()
    ends.write(ends.worker, NEW, "acks.log", content)
    name = f"runs/{NEW}/acks.log"
    pieces = [piece for piece in ends.out.pieces() if piece.path == name]
    first, second, third = pieces
    bad = Piece(name, second.offset, bytes(PIECE_BYTES), "")
    for piece in {
        "flipped": (first, bad, third),
        "lost": (first, third),
        "swapped": (second, first, third),
        "twice": (first, second, second, third),
    }[fault]:
        ends.into.take(piece)
    missing = ends.into.missing(ends.out.listing())
    if fault == "twice":  # what does not follow is left, and the rest is whole
        assert missing == ()
    else:
        assert missing == (name,)
        assert not (ends.client.path / name).exists()
        ends.out.lacks(missing)
        assert ends.send() == ()
    assert (ends.client.path / name).read_bytes() == content


def test_nothing_is_removed_while_something_is_missing(ends: Ends) -> None:
    ends.write(ends.worker, NEW, "a", b"a")
    ends.send()
    listing = Listing({f"runs/{NEW}/b": "0"})
    assert ends.into.missing(listing) == (f"runs/{NEW}/b",)
    assert (ends.client.path / "runs" / NEW / "a").exists()


@pytest.mark.parametrize(
    "name", ["/etc/passwd", "../campaign.json", "runs/../../x", ""]
)
def test_a_name_outside_of_the_folder_is_refused(ends: Ends, name: str) -> None:
    with refused(ErrorId.WORKER_SENDS_STRANGE_FILE, RunWriteError):
        ends.into.take(Piece(name, 0, b"", "0"))


def test_links_and_parts_are_not_sent(ends: Ends, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"secret")
    ends.write(ends.worker, NEW, "manifest.json", b"{}")
    assert ends.send() == ()
    ends.write(ends.worker, NEW, "a.part", b"half")
    (ends.worker / "runs" / NEW / "link").symlink_to(secret)
    assert not list(ends.out.pieces())
