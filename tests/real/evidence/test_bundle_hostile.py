"""Bundles of strangers: swapped while they are read, or far larger than they look."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import BundleRefused
from dbcheck.cli import FAIL
from dbcheck.evidence import archive, signature
from dbcheck.evidence.archive import Index
from dbcheck.evidence.verify import VerifyResult, verify
from dbcheck.witness.log import FrameLogReader
from tests.kit.bundles import bundle_of, campaign_of, extracted, forged, stored_copy
from tests.kit.refusals import refused
from tests.kit.signed_bundles import BUNDLE, dbcheck, key_of

LYING, PASSED, CONTROL = "postgresql-lying", "postgresql-pass", "postgresql-control"
MIB = 1 << 20


@pytest.fixture
def signed(tmp_path: Path) -> Path:
    """A bundle of a run that lost rows, signed by one of the allowed signers."""
    stored_copy(LYING, tmp_path).rename(tmp_path / "run")
    key = key_of(tmp_path, "ops")
    dbcheck(tmp_path, "bundle", "run", "-o", BUNDLE, "--sign", key)
    return tmp_path / BUNDLE


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """A bundle of a campaign that lost nothing, which nobody signed."""
    campaign = campaign_of(tmp_path, (CONTROL, PASSED))
    bundle_of(campaign.path, tmp_path / "other.tar")
    return tmp_path / "other.tar"


def once_checked(
    monkeypatch: pytest.MonkeyPatch, swap: Callable[[], object]
) -> Callable[[Path], VerifyResult]:
    """Return verify, in which *swap* comes just after the signature was found good."""
    real = signature.check

    def check(*given: Any) -> signature.Signature | None:
        found = real(*given)
        assert found is not None
        swap()
        return found

    monkeypatch.setattr(signature, "check", check)
    return lambda path: verify(path, FrameLogReader(), path.with_name("signers"))


def test_what_was_signed_is_judged_whatever_has_its_name_then(
    signed: Path, other: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = verify(signed, FrameLogReader()).name
    found = once_checked(monkeypatch, lambda: other.replace(signed))(signed)
    assert (found.name, found.kind, found.signer) == (name, "run", "ops@example.org")


def test_a_bundle_that_is_written_to_while_it_is_read_is_refused(
    signed: Path, other: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    swap = once_checked(monkeypatch, lambda: shutil.copyfile(other, signed))
    with refused(
        ErrorId.BUNDLE_DAMAGED, BundleRefused, naming="was changed while it was read"
    ):
        swap(signed)


def test_the_list_of_signers_is_read_once(
    signed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name in one list, and a key in the other, do not make a signer."""
    signers = signed.with_name("signers")
    real = signature._find_principal

    def principal(*given: Any) -> str:
        found = real(*given)
        signers.write_text(signers.read_text().replace(found, "eve@example.org"))
        return found

    monkeypatch.setattr(signature, "_find_principal", principal)
    found = verify(signed, FrameLogReader(), signers)
    assert found.signer == "ops@example.org"


@pytest.mark.parametrize("end", ["", ".sig"])
@pytest.mark.parametrize("kind", ["fifo", "folder", "zeros", "huge"])
def test_what_is_no_bundle_and_no_signature_is_refused_at_once(
    kind: str, end: str, signed: Path
) -> None:
    place = signed.with_name(f"{BUNDLE}{end}")
    place.unlink()
    if kind == "fifo":
        os.mkfifo(place)
    elif kind == "folder":
        place.mkdir()
    elif kind == "zeros":
        place.symlink_to("/dev/zero")
    else:
        with place.open("wb") as file:
            file.truncate(1 << 40)
    code = FAIL if end or kind == "huge" else 2
    _, said = dbcheck(signed.parent, "verify", BUNDLE, code=code)
    wanted = "is not good" if end else "not a bundle|a directory|regular file"
    assert any(one in said for one in wanted.split("|")), said


def changed(
    tmp_path: Path, change: Callable[[Path, Path], object], **limits: int
) -> Path:
    """Return a bundle with every digest right that *change* made otherwise.

    change: gets the folder of the files, and that of the run.  limits: of the archive,
    as the forger's program has them.
    """
    source, target = tmp_path / "b.tar", tmp_path / "f.tar"
    bundle_of(stored_copy(LYING, tmp_path), source)

    def forgery(folder: Path, index: Index) -> Index:
        (run,) = (folder / "runs").iterdir()
        change(folder, run)
        return index

    with pytest.MonkeyPatch.context() as patch:
        for name, value in limits.items():
            patch.setattr(archive, name, value)
        forged(source, target, forgery)
    return target


def holding(name: str, size: int) -> Callable[[Path, Path], None]:
    """Return what makes *name* a file of zeros."""

    def change(folder: Path, run: Path) -> None:
        with (run / name).open("wb") as file:
            file.truncate(size)

    return change


@pytest.mark.parametrize(
    "name",
    ["losses.csv", "survivors-ledger.bin", "acks.log", "different-ledger.jsonl"],
)
def test_a_small_bundle_does_not_fill_a_disk(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = changed(tmp_path, holding(name, 256 * MIB), _COMPRESSION_RATIO_MAX=1032)
    assert target.stat().st_size < 2 * MIB
    monkeypatch.delattr(archive._Reader, "_unpack")
    with refused(ErrorId.RECORD_DAMAGED, BundleRefused, naming="a bundle cannot hold"):
        verify(target, FrameLogReader())


def test_a_file_that_repeats_itself_is_bundled_as_it_is(tmp_path: Path) -> None:
    target = changed(tmp_path, holding("losses.csv", MIB))
    (tmp_path / "files").mkdir()
    index = extracted(target, tmp_path / "files")
    (found,) = (one for one in index.members if one.name.endswith("losses.csv"))
    assert found.size == found.raw == MIB


@contextlib.contextmanager
def at_most(more: int) -> Any:
    """Let this process take so many bytes more of memory."""
    with open("/proc/self/statm") as file:
        now = int(file.read().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (now + more, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.mark.parametrize("name", ["losses.csv", "different-ledger.jsonl", "x.log"])
def test_a_large_file_is_not_held_in_memory(name: str, tmp_path: Path) -> None:
    target = changed(tmp_path, holding(name, 512 * MIB), _COMPRESSED_FROM_BYTES=1 << 40)
    with at_most(256 * MIB):
        if name == "losses.csv":
            assert not verify(target, FrameLogReader()).same
        else:
            with refused(ErrorId.BUNDLE_NOT_JUDGED, BundleRefused, naming="too large"):
                verify(target, FrameLogReader())


def test_names_of_many_folders_are_refused(tmp_path: Path) -> None:
    """Each of a hundred thousand files could make a hundred folders."""

    def change(folder: Path, run: Path) -> None:
        deep = folder.joinpath(*"abcdefgh")
        deep.mkdir(parents=True)
        (deep / "x").write_bytes(b"")

    target = changed(tmp_path, change, _NAME_PARTS_MAX=99)
    with refused(ErrorId.RECORD_DAMAGED, BundleRefused, naming="cannot hold 'a/b/c"):
        verify(target, FrameLogReader())


def test_a_list_of_cycles_is_not_held_in_memory(tmp_path: Path) -> None:
    source, target = tmp_path / "b.tar", tmp_path / "f.tar"
    bundle_of(campaign_of(tmp_path, (CONTROL, PASSED)).path, source)

    def forgery(folder: Path, index: Index) -> Index:
        with (folder / "cycles.jsonl").open("wb") as file:
            file.write(b"{}\n")
            file.truncate(64 * MIB)
        return index

    forged(source, target, forgery)
    with refused(
        ErrorId.BUNDLE_NOT_JUDGED, BundleRefused, naming="cycles.jsonl is too large"
    ):
        verify(target, FrameLogReader())
