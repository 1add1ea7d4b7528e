"""The local witness, under the Pythons that a witness may have."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import WitnessError
from dbcheck.witness.witness import FileWitness
from tests.kit.refusals import refused
from tests.kit.witnesses import append_from_threads, read_back


def pythons(version: str) -> list[str]:
    """Return the interpreters of *version* that are installed here."""
    built = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    found = shutil.which(f"python{version}")
    return [str(path) for path in built] or [found or ""]


@pytest.mark.parametrize("python", pythons("3.8") + pythons("3.13"))
def test_the_agent_runs_under_the_oldest_and_a_new_python(
    tmp_path: Path, python: str
) -> None:
    if not python:
        pytest.skip("that Python is not installed")
    witness = FileWitness("file:w", tmp_path / "w", volatile=True, python=python)
    assert witness.facts().boot_id
    assert len(witness.probe(3)) == 3
    log = witness.create("run", b"{}")
    append_from_threads(log, sessions=2, each=5000)
    log.note({"end": True})
    mark = log.close()
    acks, events = read_back(witness, "run", mark)
    assert (len(acks), events) == (10_000, [{"end": True}])
    assert (witness.runs(), witness.manifest("run")) == (["run"], b"{}")
    with refused(ErrorId.WITNESS_LOG_EXISTS, WitnessError, naming="already"):
        witness.create("run", b"{}")
    witness.remove("run")
    with refused(ErrorId.RUN_NOT_ON_WITNESS, WitnessError, naming="not there"):
        witness.manifest("run")
    witness.close()


@pytest.mark.parametrize("python", pythons("3.6") + pythons("3.7"))
def test_an_older_python_is_told(tmp_path: Path, python: str) -> None:
    if not python:
        pytest.skip("that Python is not installed")
    witness = FileWitness("file:w", tmp_path, python=python)
    with refused(
        ErrorId.PYTHON_MISSING, WitnessError, naming="this is Python 3."
    ) as caught:
        witness.facts()
    assert "3.8 or newer" in caught.value.hint


def test_a_python_that_is_missing_is_told(tmp_path: Path) -> None:
    witness = FileWitness("file:w", tmp_path, python=str(tmp_path / "python"))
    with refused(ErrorId.AGENT_NOT_STARTED, WitnessError):
        witness.facts()


def test_memory_is_refused(tmp_path: Path) -> None:
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        pytest.skip("needs /dev/shm")
    folder = memory / f"dbcheck-{tmp_path.name}-{os.getpid()}"
    witness = FileWitness("file:w", folder)
    try:
        assert witness.facts().filesystem == "tmpfs"
        with refused(
            ErrorId.WITNESS_FOLDER_IN_MEMORY,
            WitnessError,
            naming="is on tmpfs, which is memory",
        ):
            witness.create("run", b"{}")
        with refused(ErrorId.WITNESS_FOLDER_IN_MEMORY, WitnessError):
            witness.probe(1)
        assert not folder.exists()
    finally:
        witness.close()
        shutil.rmtree(folder, ignore_errors=True)


def test_no_folder_is_made_before_the_witness_is_accepted(tmp_path: Path) -> None:
    witness = FileWitness("file:w", tmp_path / "above" / "w", volatile=True)
    try:
        facts = witness.facts()
        assert facts.folder == str(tmp_path / "above" / "w")
        assert facts.free_bytes and facts.filesystem
        assert list(tmp_path.iterdir()) == []
        witness.probe(1)
        assert Path(facts.folder).is_dir()
    finally:
        witness.close()


def test_a_folder_that_cannot_be_made_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    witness = FileWitness("file:w", tmp_path / "file" / "w", volatile=True)
    try:
        with refused(ErrorId.WITNESS_FOLDER_IS_FILE, WitnessError, naming="file"):
            witness.facts()
    finally:
        witness.close()
