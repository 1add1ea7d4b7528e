"""Bundles of stored runs, and forged ones that are sound in themselves."""

from __future__ import annotations

import gzip
import shutil
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from dbcheck.campaign.campaign import add_outcome
from dbcheck.campaign.chosen import find_oldest
from dbcheck.campaign.folder import CampaignFolder
from dbcheck.cycle.judging import judge_run
from dbcheck.evidence import archive
from dbcheck.evidence.archive import Index
from dbcheck.evidence.bundle import make_bundle
from dbcheck.evidence.staging import ATTESTATION_FILE, REPORT_FILE, make_attestation
from dbcheck.model.moments import Activity, PlannedCut
from dbcheck.runs import stored
from dbcheck.runs.folder import RunFolder
from dbcheck.witness.log import FrameLogReader
from tests.kit.samples import PLAN
from tests.runs import make

STORED = Path(make.__file__).parent
SECRET = "hunter2-of-the-account"


def stored_copy(name: str, parent: Path) -> Path:
    """Return the folder of a copy of a stored run, named as the run is."""
    source = STORED / name
    return Path(shutil.copytree(source, parent / source.name))


def bundle_of(folder: Path, file: Path, *others: Path, redact: bool = False) -> Index:
    """Write the bundle of a run, of several runs or a campaign; return its index."""
    folders = [folder, *others]
    with make_bundle(folders, [SECRET], FrameLogReader(), redact=redact) as made:
        file.write_bytes(b"".join(made.chunks()))
        return made.index


TARGET = "postgresql://u@h/d"  # as a user writes it
ENGINES_TARGET = "postgresql+psycopg2://u@h/d"


def campaign_of(parent: Path, names: Sequence[str]) -> CampaignFolder:
    """Return the campaign whose cycles are these stored runs, as cut one by one."""
    plan = replace(PLAN, target=TARGET)
    folder = CampaignFolder.create(parent / "campaign", plan)
    identity: Mapping[str, str] = {}
    number = 0
    for name in names:
        source = RunFolder.open(stored_copy(name, parent))
        manifest, after = source.manifest(), source.after()
        identity = identity or manifest.writer.facts.identity
        path = folder.runs / manifest.run_id
        source.path.rename(path)
        run = RunFolder.open(path)
        (writer,) = manifest.nodes
        before = replace(manifest.writer.facts, identity=identity)
        node = replace(manifest.writer, target=ENGINES_TARGET, facts=before)
        number += not manifest.control
        moment = PlannedCut(number, Activity.STEADY, 1.0, 0.0)
        changed = replace(
            manifest,
            nodes={writer: node},
            moment=None if manifest.control else moment,
        )
        (path / "manifest.json").write_bytes(stored.to_bytes(changed))
        found = after.nodes[writer]
        if found.facts is not None:
            facts = replace(found.facts, identity=identity)
            nodes = {writer: replace(found, facts=facts)}
            run.write_after(replace(after, nodes=nodes))
        add_outcome(folder, judge_run(run, FrameLogReader()))
    return folder


def resealed(folder: Path, index: Index) -> Index:
    """Attest the changed files below *folder*; the report stays as it is.

    A forger does so, since anyone can.
    """
    page = folder / REPORT_FILE
    report = page.read_bytes() if page.is_file() else None
    page.unlink(missing_ok=True)
    (folder / ATTESTATION_FILE).unlink(missing_ok=True)
    test = index.name
    if index.kind == "runs":
        runs = (folder / "runs").iterdir()
        test = find_oldest(map(RunFolder.open, runs)).writer.target
    elif index.kind == "run":
        test = RunFolder.open(folder / "runs" / test).manifest().writer.target
    content = make_attestation(folder, test, index.verdict)
    if content is not None:
        (folder / ATTESTATION_FILE).write_bytes(content)
    if report is not None:
        page.write_bytes(report)
    return index


def forged(source: Path, target: Path, changed: Callable[[Path, Index], Index]) -> None:
    """Write a bundle whose every digest is right, with what *changed* made of it.

    changed: gets the folder of the files, and may change them; returns the index to
    write, of which the members are computed anew.
    """
    folder = target.with_suffix(".files")
    folder.mkdir()
    index = changed(folder, extracted(source, folder))
    index = replace(index, members=archive.pack_files(folder))
    target.write_bytes(b"".join(archive.make_chunks(folder, index)))
    shutil.rmtree(folder)


def extracted(file: Path, folder: Path) -> Index:
    """Write what a bundle holds below the empty *folder*; return its index."""
    with archive.open_archive(file) as bundle:
        return bundle.extract(folder)[0]


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
