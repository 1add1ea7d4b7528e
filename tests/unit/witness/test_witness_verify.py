"""What dbcheck witness verify says of the copies of logs in a run folder."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import RunFormatError
from dbcheck.cli.root import root
from tests.kit.refusals import refused
from tests.runs import make

STORED = Path(make.__file__).parent
FRAMES = 111  # of classic-pass, the last one with what the client saw of its load
ASK_THE_WITNESS = "Check the log on the witness"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return Path(shutil.copytree(STORED / "classic-pass", tmp_path / "run"))


def called(verb: str, run: Path, *more: str) -> tuple[int, str]:
    """Return the exit code and what is printed; raise what dbcheck raises."""
    words = ["witness", verb, str(run), *more]
    done = CliRunner().invoke(root, words, standalone_mode=False)
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.output


def cut_short(log: bytes) -> bytes:
    return log[:-1]


def torn(log: bytes) -> bytes:
    return log + log[:50]


def damaged(log: bytes) -> bytes:
    middle = len(log) // 2
    return log[:middle] + bytes([log[middle] ^ 1]) + log[middle + 1 :]


@pytest.mark.parametrize(
    ("change", "code", "says"),
    [
        (bytes, 0, "is intact: 110 acks in 111 frames, 0 bytes of a torn tail\n"),
        (torn, 0, "is intact: 110 acks in 111 frames, 50 bytes of a torn tail\n"),
        (cut_short, 1, "damaged at byte 7991: 111 frames were confirmed, 110 are"),
        (damaged, 1, "a damaged frame is followed by intact ones"),
    ],
)
def test_a_damaged_copy_leads_to_the_log_on_the_witness(
    change: Callable[[bytes], bytes], code: int, says: str, run: Path
) -> None:
    log = run / "acks.log"
    log.write_bytes(change(log.read_bytes()))
    found, shown = called("verify", run)
    assert (found, says in shown) == (code, True)
    assert (ASK_THE_WITNESS in shown) is bool(code)
    run_id = json.loads((run / "manifest.json").read_bytes())["run_id"]
    assert (f"witness verify {run_id} --witness" in shown) is bool(code)
    (result,) = json.loads(called("verify", run, "--json")[1])["logs"]
    assert result.get("confirmed_frames") == (None if code else FRAMES)


def test_without_the_record_of_the_load_nothing_shows_that_an_end_is_missing(
    run: Path,
) -> None:
    (run / "load.json").unlink()
    log = run / "acks.log"
    log.write_bytes(cut_short(log.read_bytes()))
    code, shown = called("verify", run)
    assert code == 0
    assert "load.json nothing shows whether its end is missing" in shown
    (result,) = json.loads(called("verify", run, "--json")[1])["logs"]
    assert result["confirmed_frames"] is None


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"{", "load.json is not JSON"),
        ((STORED / "two-processes/load.json").read_bytes(), "lists 3 witness logs"),
    ],
)
def test_a_damaged_record_of_the_load_is_no_damaged_log(
    content: bytes, says: str, run: Path
) -> None:
    (run / "load.json").write_bytes(content)
    with refused(ErrorId.RECORD_DAMAGED, RunFormatError, naming=says):
        called("verify", run)
    code, shown = called("show", run)
    assert (code, len(shown.splitlines())) == (0, 112)
