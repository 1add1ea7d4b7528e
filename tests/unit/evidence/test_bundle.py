"""Bundles: what they hold, and that no change of them goes unseen."""

from __future__ import annotations

import gzip
import hashlib
import json
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import BundleRefused, UsageError
from dbcheck.evidence import archive
from dbcheck.evidence.archive import Index, Member
from dbcheck.evidence.staging import ATTESTATION_FILE
from dbcheck.evidence.verify import VerifyResult, verify
from dbcheck.judge.result import to_values
from dbcheck.model.verdict import Verdict
from dbcheck.runs import stored
from dbcheck.runs.folder import RunFolder
from dbcheck.witness.log import FrameLogReader
from tests.kit.bundles import (
    STORED,
    bundle_of,
    campaign_of,
    contents,
    extracted,
    forged,
    stored_copy,
)
from tests.kit.refusals import refused

RUNS = sorted(path.parent for path in STORED.glob("*/manifest.json"))
NAMES = [path.name for path in RUNS]
LYING, PASSED = "postgresql-lying", "mysql-pass"


def verified(file: Path) -> VerifyResult:
    return verify(file, FrameLogReader())


@pytest.mark.parametrize("redact", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_a_bundle_is_judged_as_its_run_was(
    name: str, redact: bool, tmp_path: Path
) -> None:
    folder = stored_copy(name, tmp_path)
    file = tmp_path / "b.tar"
    index = bundle_of(folder, file, redact=redact)
    was = RunFolder.open(folder).result()
    shutil.rmtree(folder)
    found = verified(file)
    assert found.differences == ()
    assert found.same
    assert (found.judged_again, found.not_judged_again) == (1, 0)
    assert found.verdict is index.verdict is was.verdict
    assert found.redacted is redact
    assert not found.signed
    assert [path.name for path in tmp_path.iterdir()] == ["b.tar"]


def test_equal_evidence_makes_equal_bytes(tmp_path: Path) -> None:
    folder = stored_copy(LYING, tmp_path)
    for name in "ab":
        bundle_of(folder, tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_it_holds_all_that_a_judge_needs_and_no_key(tmp_path: Path) -> None:
    folder = stored_copy(LYING, tmp_path)
    run = RunFolder.open(folder).manifest().run_id
    (folder / "client.key").write_text("a key")
    (folder / "drive.img").write_text("an image")
    bundle_of(folder, tmp_path / "b.tar")
    names = {name.removesuffix(".gz") for name, _ in contents(tmp_path / "b.tar")}
    inner = {name.removeprefix(f"runs/{run}/") for name in names if "/" in name}
    assert {"manifest.json", "load.json", "after.json", "verdict.json"} <= inner
    assert {"acks.log", "survivors-ledger.bin", "losses.csv"} <= inner
    assert {"client.key", "lock", "drive.img"} & inner == set()
    assert names - {f"runs/{run}/{name}" for name in inner} == {
        *("index.json", "report.html", ATTESTATION_FILE),
    }


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle of a run that lost rows, which no test changes."""
    folder = tmp_path_factory.mktemp("sealed")
    file = folder / "b.tar"
    bundle_of(stored_copy(LYING, folder), file)
    return file


def is_refused(content: bytes, tmp_path: Path) -> bool:
    """Say whether a bundle of these bytes is refused, without judging what it holds."""
    file, folder = tmp_path / "changed.tar", tmp_path / "files"
    file.write_bytes(content)
    folder.mkdir()
    try:
        extracted(file, folder)
    except BundleRefused:
        return True
    finally:
        shutil.rmtree(folder)
    return False


def places(content: bytes) -> list[int]:
    """Return places in a bundle: in headers, padding and the ends, and others."""
    drawn = random.Random(1)
    size = len(content)
    found = {0, 1, 511, 512, 513, size - 1, size - 512, size - 1024, size - 1025}
    found |= {drawn.randrange(size) for _ in range(400)}
    at = 0
    while at < size - 1024:  # every header, byte by byte where something stands
        length = int(content[at + 124 : at + 135], 8)
        found |= {at + drawn.randrange(512) for _ in range(12)}
        end = at + 512 + length
        found |= {end - 1, end, end + -length % 512 - 1}
        at = end + -length % 512
    return sorted(place for place in found if place < size)


def test_one_flipped_byte_anywhere_is_refused(sealed: Path, tmp_path: Path) -> None:
    content = sealed.read_bytes()
    assert not is_refused(content, tmp_path)
    seen = places(content)
    assert len(seen) > 500
    for place in seen:
        changed = bytearray(content)
        changed[place] ^= random.Random(place).randrange(1, 256)
        assert is_refused(bytes(changed), tmp_path), f"byte {place} of {len(content)}"


def test_a_bundle_that_lacks_or_has_more_is_refused(
    sealed: Path, tmp_path: Path
) -> None:
    content = sealed.read_bytes()
    for size in (0, 1, 511, 512, 5000, len(content) - 512, len(content) - 1):
        assert is_refused(content[:size], tmp_path), size
    for more in (b"\0", b"x", bytes(512), content):
        assert is_refused(content + more, tmp_path)


@pytest.mark.parametrize(
    "name",
    [
        *("../x", "/etc/x", "a/../x", "a//x", "./x", "", ".", "index.json"),
        *("a\0x", "a\nx", "a\x1b[2J", "a\u202ex"),
    ],
)
def test_a_file_that_would_leave_the_folder_is_refused(
    name: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match="a bundle cannot hold|have one name"):
        member = Member(name, 0, "", 0)
        Index("run", "r", "0", Verdict.PASS, False, 0, (member,))
    with pytest.raises(ValueError, match="have one name"):
        Index("run", "r", "0", Verdict.PASS, False, 0, (Member("a", 0, "", 0),) * 2)


@pytest.mark.parametrize("raw", [0, (1 << 17) - 1, (1 << 17) + 1])
def test_a_file_that_unpacks_to_another_size_is_refused(
    raw: int, sealed: Path, tmp_path: Path
) -> None:
    assert is_refused(with_a_large_file(sealed, tmp_path, raw), tmp_path)


@pytest.mark.parametrize("in_the_way", [False, True])
def test_what_helps_against_a_file_that_is_not_unpacked(
    in_the_way: bool, sealed: Path, tmp_path: Path
) -> None:
    file, folder = tmp_path / "changed.tar", tmp_path / "unpacked"
    file.write_bytes(with_a_large_file(sealed, tmp_path, 1))
    folder.mkdir()
    if in_the_way:
        (folder / "big").touch()
    with refused(ErrorId.BUNDLE_NOT_UNPACKED, BundleRefused) as caught:
        extracted(file, folder)
    assert ("TMPDIR" in caught.value.hint) is in_the_way
    assert ("ask who made it" in caught.value.hint) is not in_the_way


def test_a_file_whose_compressed_bytes_are_damaged_is_refused(
    sealed: Path, tmp_path: Path
) -> None:
    files = tmp_path / "files"
    files.mkdir()
    index = extracted(sealed, files)
    head = gzip.compress(b"")[:10]
    (files / "big.gz").write_bytes(head + b"\xff" * 64)  # 3: no kind of block
    content = (files / "big.gz").read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    members = *index.members, Member("big.gz", len(content), digest, 1)
    file = tmp_path / "changed.tar"
    file.write_bytes(
        b"".join(archive.make_chunks(files, replace(index, members=members)))
    )
    with refused(ErrorId.BUNDLE_NOT_UNPACKED, BundleRefused, naming="big.gz") as caught:
        extracted(file, tmp_path / "unpacked")
    assert caught.value.hint == archive.GET_ANOTHER


def with_a_large_file(sealed: Path, tmp_path: Path, raw: int) -> bytes:
    """Return a bundle with a file more, which is to unpack to *raw* bytes."""
    folder = tmp_path / "files"
    folder.mkdir()
    index = extracted(sealed, folder)
    (folder / "big").write_bytes(random.Random(1).randbytes(1 << 14) * 8)
    members = tuple(
        replace(member, raw=raw) if member.name == "big.gz" else member
        for member in archive.pack_files(folder)
    )
    assert any(member.name == "big.gz" for member in members)
    changed = b"".join(archive.make_chunks(folder, replace(index, members=members)))
    shutil.rmtree(folder)
    return changed


def test_a_bundle_that_does_not_fit_is_refused_before_anything_is_written(
    sealed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = shutil.disk_usage(tmp_path)._replace(free=1 << 16)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: full)
    monkeypatch.delattr(archive.Archive, "extract")
    with refused(ErrorId.BUNDLE_NEEDS_ROOM, BundleRefused, naming="65,536"):
        verified(sealed)


@pytest.mark.parametrize(
    ("name", "size", "raw"),
    [("a.gz", 100, 1 << 40), ("a", 100, 101), ("a", 100, 99), ("a.gz", -1, 0)],
)
def test_a_size_that_no_file_can_have_is_refused(
    name: str, size: int, raw: int
) -> None:
    with pytest.raises(ValueError, match="a bundle cannot hold"):
        Member(name, size, "", raw)


@pytest.mark.parametrize("damage", [(b'"kind"', b'"kinb"'), (b"{", b"[")])
def test_a_damaged_index_is_not_advised_on_as_a_run_folder(
    damage: tuple[bytes, bytes], sealed: Path, tmp_path: Path
) -> None:
    file = tmp_path / "changed.tar"
    file.write_bytes(sealed.read_bytes().replace(*damage, 1))
    with refused(ErrorId.RECORD_DAMAGED, BundleRefused, naming="the index") as caught:
        extracted(file, tmp_path / "unpacked")
    assert caught.value.hint == archive.GET_ANOTHER


@pytest.mark.parametrize("names", [("a", "a/b"), ("a.gz/b", "a.gz")])
def test_files_in_one_place_are_refused(
    names: tuple[str, str], sealed: Path, tmp_path: Path
) -> None:
    digest = hashlib.sha256(b"").hexdigest()
    (folder := tmp_path / "files").mkdir()
    index = extracted(sealed, folder)
    shutil.rmtree(folder)
    members = tuple(Member(name, 0, digest, 0) for name in names)
    content = [
        *(
            archive._make_header(
                "index.json",
                len(plain := stored.to_bytes(replace(index, members=members))),
            ),
            plain,
            bytes(-len(plain) % 512),
        ),
        *(archive._make_header(name, 0) for name in names),
        bytes(1024),
    ]
    assert is_refused(b"".join(content), tmp_path)


Forgery = Callable[[Path, Index], Index]


def only_run(folder: Path) -> Path:
    (found,) = (folder / "runs").iterdir()
    return found


def edited(file: str, old: str, new: str) -> Forgery:
    """Return a forgery that replaces text in a file of the run, with its digest."""

    def changed(folder: Path, index: Index) -> Index:
        path = only_run(folder) / file
        text = path.read_text()
        assert old in text
        values = json.loads(text.replace(old, new, 1))
        if "sha256" in values:
            del values["sha256"]
            rest = {name: one for name, one in values.items() if name != "format"}
            compact = json.dumps(rest, sort_keys=True, separators=(",", ":"))
            values["sha256"] = hashlib.sha256(compact.encode()).hexdigest()
            path.write_text(json.dumps(values))
        return index

    return changed


def says(verdict: Verdict) -> Forgery:
    return lambda folder, index: replace(index, verdict=verdict)


def without_a_loss(folder: Path, index: Index) -> Index:
    path = only_run(folder) / "losses.csv"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))
    return index


def attested_as_passed(folder: Path, index: Index) -> Index:
    path = folder / ATTESTATION_FILE
    path.write_text(path.read_text().replace("FAILED", "PASSED"))
    return index


def without_attestation(folder: Path, index: Index) -> Index:
    (folder / ATTESTATION_FILE).unlink()
    return index


def with_a_row_back(folder: Path, index: Index) -> Index:
    path = only_run(folder) / "survivors-ledger.bin"
    path.write_bytes(path.read_bytes() + path.read_bytes()[:41])
    return index


def with_a_log_cut_short(folder: Path, index: Index) -> Index:
    path = only_run(folder) / "acks.log"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    return index


def without_the_run(folder: Path, index: Index) -> Index:
    shutil.rmtree(folder / "runs")
    return index


def named_otherwise(folder: Path, index: Index) -> Index:
    other = "20260102-030405-a1b2c3"
    only_run(folder).rename(folder / "runs" / other)
    return replace(index, name=other)


FORGERIES: dict[str, Forgery] = {
    "its index says PASS": says(Verdict.PASS),
    "its verdict says PASS": edited("verdict.json", '"FAIL"', '"PASS"'),
    "a loss is left out": without_a_loss,
    "it is attested as passed": attested_as_passed,
    "nothing is attested": without_attestation,
    "a row is back": with_a_row_back,
    "the log is cut short": with_a_log_cut_short,
    "the run is left out": without_the_run,
    "it is another run": named_otherwise,
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_bundle_whose_digests_are_right_is_seen(
    name: str, sealed: Path, tmp_path: Path
) -> None:
    file = tmp_path / "forged.tar"
    forged(sealed, file, FORGERIES[name])
    try:
        found = verified(file)
    except BundleRefused:
        return
    assert not found.same
    assert found.differences


def test_what_is_not_forged_is_the_same_after_all(sealed: Path, tmp_path: Path) -> None:
    file = tmp_path / "again.tar"
    forged(sealed, file, lambda folder, index: index)
    assert file.read_bytes() == sealed.read_bytes()
    assert verified(file).same


def test_sentences_of_another_version_are_not_held_against_it(
    sealed: Path, tmp_path: Path
) -> None:
    def changed(folder: Path, index: Index) -> Index:
        edited("verdict.json", " that it had acknowledged", " that it had answered")(
            folder, index
        )
        (folder / "report.html").unlink()
        return replace(index, dbcheck="0.0.9", verdict=Verdict.INCONCLUSIVE)

    def without(folder: Path, index: Index) -> Index:
        index = changed(folder, index)
        (folder / ATTESTATION_FILE).unlink()
        return index

    file = tmp_path / "older.tar"
    forged(sealed, file, without)
    found = verified(file)
    # The verdict is: that the index names another one is seen.
    assert [each for each in found.differences if "reasons" in each] == []
    assert len(found.differences) == 1
    assert "the bundle says INCONCLUSIVE, and its run is FAIL" in found.differences[0]


def test_a_pass_and_a_fail_are_attested_and_nothing_else(tmp_path: Path) -> None:
    damaged = stored_copy(PASSED, tmp_path / "damaged")
    log = damaged / "acks.log"
    log.write_bytes(log.read_bytes()[:-40] + bytes(40))
    folders = {
        "PASSED": stored_copy(PASSED, tmp_path),
        "FAILED": stored_copy(LYING, tmp_path),
        "": damaged,
    }
    for result, folder in folders.items():
        file = tmp_path / "b.tar"
        bundle_of(folder, file)
        found = dict(contents(file))
        if not result:
            assert ATTESTATION_FILE not in found
            continue
        statement = json.loads(found[ATTESTATION_FILE])
        assert statement["_type"] == "https://in-toto.io/Statement/v1"
        kind = "https://in-toto.io/attestation/test-result/v0.1"
        assert statement["predicateType"] == kind
        predicate = statement["predicate"]
        assert predicate["result"] == result
        target = RunFolder.open(folder).manifest().writer.target
        assert predicate[f"{result.lower()}Tests"] == [target]
        assert len(predicate["passedTests"] + predicate["failedTests"]) == 1
        digests = {
            name.removesuffix(".gz"): hashlib.sha256(content).hexdigest()
            for name, content in found.items()
        }
        subjects = {
            one["name"]: one["digest"]["sha256"] for one in statement["subject"]
        }
        outside = {"index.json", "report.html", ATTESTATION_FILE}
        assert subjects == {k: v for k, v in digests.items() if k not in outside}
        (configuration,) = predicate["configuration"]
        assert configuration["digest"]["sha256"] == subjects[configuration["name"]]


CONTROL = "postgresql-control"
CUTS = (CONTROL, "postgresql-pass", LYING)


def test_a_campaign_is_judged_again_as_far_as_it_has_rows(tmp_path: Path) -> None:
    folder = campaign_of(tmp_path, CUTS)
    file = tmp_path / "b.tar"
    index = bundle_of(folder.path, file)
    assert (index.kind, index.verdict) == ("campaign", Verdict.FAIL)
    shutil.rmtree(folder.path)
    found = verified(file)
    assert found.differences == ()
    assert (found.judged_again, found.not_judged_again) == (1, 2)


def test_a_cycle_without_rows_must_have_its_whole_log(tmp_path: Path) -> None:
    folder = campaign_of(tmp_path, CUTS)
    bundle_of(folder.path, tmp_path / "b.tar")
    kept = next(
        path
        for path in folder.runs.iterdir()
        if "FAIL" not in (path / "verdict.json").read_text()
    )

    def changed(files: Path, index: Index) -> Index:
        log = files / "runs" / kept.name / "acks.log"
        log.write_bytes(log.read_bytes()[:-40] + bytes(40))
        return index

    forged(tmp_path / "b.tar", tmp_path / "f.tar", changed)
    with refused(ErrorId.BUNDLE_NOT_JUDGED, BundleRefused, naming="cannot be judged"):
        verified(tmp_path / "f.tar")


def test_what_is_no_run_and_no_campaign_makes_no_bundle(tmp_path: Path) -> None:
    with refused(
        ErrorId.NOT_A_RESULT_FOLDER, UsageError, naming="is not the folder of a run"
    ):
        bundle_of(tmp_path, tmp_path / "b.tar")


def test_the_result_is_what_its_schema_says(sealed: Path) -> None:
    schema = Path(__file__).parents[3] / "docs" / "schema" / "verify.json"
    values = json.loads(json.dumps(to_values(verified(sealed))))
    jsonschema.validate(values, json.loads(schema.read_text()))
