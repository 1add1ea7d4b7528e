"""dbcheck bundle and verify as people use them, with keys that ssh-keygen made."""

from __future__ import annotations

import json
import os
import random
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from dbcheck.cli import FAIL, FAILED, PASS, USAGE
from dbcheck.evidence import staging
from dbcheck.evidence.signature import NAMESPACE
from dbcheck.runs.folder import RunFolder
from tests.kit.bundles import SECRET, contents, stored_copy
from tests.kit.signed_bundles import BUNDLE, dbcheck, key_of, keygen
from tests.kit.users import DBCHECK

LYING = "postgresql-lying"
# Makes a bundle, says where its scratch folder is, and stays.
STAYS = """
import sys, time
from pathlib import Path
from dbcheck.evidence.bundle import make_bundle
from dbcheck.witness.log import FrameLogReader
with make_bundle([Path(sys.argv[1])], [], FrameLogReader(), redact=False) as made:
    print(made.folder.parent, flush=True)
    while True:  # a signal just before one long sleep would not end that
        time.sleep(0.1)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    stored_copy(LYING, tmp_path).rename(tmp_path / "run")
    return tmp_path


def test_a_bundle_is_judged_again_where_nothing_else_is(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    out, _ = dbcheck(folder, "bundle", "run", "-o", BUNDLE)
    assert out.startswith(f"{BUNDLE}: FAIL, ")
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    shutil.move(folder / BUNDLE, elsewhere)
    shutil.rmtree(folder / "run")
    out, _ = dbcheck(elsewhere, "verify", BUNDLE)
    assert "every byte is as it was written" in out
    assert "not signed" in out
    assert "judged again: 1 run\nnothing that was checked differs\n" in out
    out, _ = dbcheck(elsewhere, "verify", BUNDLE, "--json")
    found = json.loads(out)
    assert (found["verdict"], found["same"], found["signed"]) == ("FAIL", True, False)
    assert [path.name for path in elsewhere.iterdir()] == [BUNDLE]


def test_without_a_name_it_is_called_after_its_run(folder: Path) -> None:
    before = {path.name for path in folder.iterdir()}
    os.umask(umask := os.umask(0))
    out, _ = dbcheck(folder, "bundle", "run")
    (made,) = {path.name for path in folder.iterdir()} - before
    assert made.endswith(".dbcheck.tar")
    assert out.startswith(f"{made}: ")
    assert stat.S_IMODE((folder / made).stat().st_mode) == 0o666 & ~umask
    listed = subprocess.run(
        ["tar", "tf", made], cwd=folder, capture_output=True, text=True, check=True
    )
    assert listed.stdout.splitlines()[0] == "index.json"
    assert listed.stderr == ""


@pytest.mark.parametrize("place", [0, 700, -1, -600, 20_000])
def test_a_changed_byte_is_refused(folder: Path, place: int) -> None:
    dbcheck(folder, "bundle", "run", "-o", BUNDLE)
    content = bytearray((folder / BUNDLE).read_bytes())
    content[place] ^= 4
    (folder / BUNDLE).write_bytes(content)
    out, err = dbcheck(folder, "verify", BUNDLE, code=FAIL)
    assert out == ""
    assert err.startswith("dbcheck: ")
    assert f"{BUNDLE} is " in err


def test_the_password_of_the_account_is_in_no_bundle(folder: Path) -> None:
    run = RunFolder.open(folder / "run")
    load = run.load()
    assert load is not None
    run.write_load(replace(load, refusals=(f"FATAL: {SECRET} is no user's name",)))
    for variable in ("DBCHECK_PASSWORD", "PGPASSWORD", "MYSQL_PWD"):
        words = ("bundle", "run", "-o", BUNDLE)
        out, _ = dbcheck(folder, *words, environment={variable: SECRET})
        assert "1 text that looks like a secret was removed" in out
        for _, content in contents(folder / BUNDLE):
            assert SECRET.encode() not in content
    out, _ = dbcheck(folder, "verify", BUNDLE)
    assert "1 text that looks like a secret was removed" in out


def test_a_signature_names_its_signer(folder: Path) -> None:
    key = key_of(folder, "ops")
    out, _ = dbcheck(folder, "bundle", "run", "-o", BUNDLE, "--sign", key)
    assert f"signed: {BUNDLE}.sig" in out
    out, _ = dbcheck(folder, "verify", BUNDLE)
    assert "signed with the key SHA256:" in out
    assert "was not asked" in out
    for more in ([], ["--signer", "ops@example.org"]):
        words = ("verify", BUNDLE, "--allowed-signers", "signers", *more)
        out, _ = dbcheck(folder, *words)
        assert "signed by ops@example.org with the key SHA256:" in out
    by_hand = keygen(
        [
            *("-Y", "verify", "-f", str(folder / "signers"), "-n", NAMESPACE),
            *("-I", "ops@example.org", "-s", str(folder / f"{BUNDLE}.sig")),
        ],
        (folder / BUNDLE).read_bytes(),
    )
    assert by_hand.returncode == 0, by_hand.stderr


def test_a_bundle_that_another_signed_is_refused(folder: Path) -> None:
    key_of(folder, "ops")
    other = folder / "other"
    keygen(["-q", "-t", "ed25519", "-N", "", "-f", str(other)])
    dbcheck(folder, "bundle", "run", "-o", BUNDLE, "--sign", other)
    allowed = ("--allowed-signers", "signers")
    _, err = dbcheck(folder, "verify", BUNDLE, *allowed, code=FAIL)
    assert f"{BUNDLE}.sig was made with a key that signers lacks" in err
    words = ("verify", BUNDLE, *allowed, "--signer", "ops@example.org")
    _, err = dbcheck(folder, *words, code=FAIL)
    assert "is not good" in err


def test_a_signature_of_something_else_is_refused(folder: Path) -> None:
    key = key_of(folder, "ops")
    dbcheck(folder, "bundle", "run", "-o", BUNDLE)
    signature = folder / f"{BUNDLE}.sig"
    words = ["-Y", "sign", "-f", str(key), "-n"]
    for namespace, content in ((NAMESPACE, b"x"), ("git", None)):
        given = (folder / BUNDLE).read_bytes() if content is None else content
        signature.write_bytes(keygen([*words, namespace], given).stdout)
        for allowed in ([], ["--allowed-signers", "signers"]):
            _, err = dbcheck(folder, "verify", BUNDLE, *allowed, code=FAIL)
            assert f"the signature of {BUNDLE} is not good" in err
    signature.write_text("")
    dbcheck(folder, "verify", BUNDLE, code=FAIL)


def test_a_bundle_that_must_be_signed_and_is_not_is_refused(folder: Path) -> None:
    key = key_of(folder, "ops")
    dbcheck(folder, "bundle", "run", "-o", BUNDLE, "--sign", key)
    # A new bundle of this name does not keep the signature of the old one.
    dbcheck(folder, "bundle", "run", "-o", BUNDLE)
    assert not (folder / f"{BUNDLE}.sig").exists()
    words = ("verify", BUNDLE, "--allowed-signers", "signers")
    _, err = dbcheck(folder, *words, code=FAIL)
    assert f"{BUNDLE} is not signed" in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["bundle", "."], ". is not the folder of a run"),
        (["bundle", "run", "--sign", "signers"], "cannot be signed with signers"),
        (["bundle", "run", "--sign", "nothing"], "--sign: file not found: nothing"),
        (["verify", "nothing"], "file not found: nothing"),
        (["verify", "signers", "--allowed-signers", "no"], "file not found: no"),
        (["verify", "signers", "--signer", "a"], "--signer needs --allowed-signers"),
    ],
)
def test_what_cannot_be_done_is_refused(
    folder: Path, words: list[str], said: str
) -> None:
    (folder / "signers").write_text("")
    out, err = dbcheck(folder, *words, code=USAGE)
    assert said in err


def test_a_bundle_that_cannot_be_written_leaves_nothing(folder: Path) -> None:
    _, err = dbcheck(folder, "bundle", "run", "-o", "no/b.tar", code=FAILED)
    assert "no/b.tar cannot be written" in err
    assert [path.name for path in folder.iterdir()] == ["run"]


def scratches() -> set[str]:
    found = Path(tempfile.gettempdir()).glob(f"{staging.PREFIX}*")
    return {path.name for path in found}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_scratch_folder_stays(folder: Path, number: signal.Signals) -> None:
    """That of a command that was killed is removed by the next one, no other is."""
    shutil.copytree(folder / "run", folder / "other")
    started = [
        subprocess.Popen(
            (sys.executable, "-c", STAYS, run),
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        for run in ("run", "other")
    ]
    try:
        places = []
        for one in started:
            assert one.stdout is not None
            line = one.stdout.readline()
            assert line
            places.append(Path(line.strip()))
        assert all(place.is_dir() for place in places)
        assert all(stat.S_IMODE(place.stat().st_mode) == 0o700 for place in places)
        started[0].send_signal(number)
        started[0].wait(60)
        dbcheck(folder, "bundle", "run", "-o", BUNDLE)
        assert not places[0].exists()
        assert places[1].is_dir()
    finally:
        for one in started:
            one.kill()
            one.communicate()
    dbcheck(folder, "verify", BUNDLE)
    assert not {place.name for place in places} & scratches()


def test_a_bundle_in_a_pipe_is_a_bundle_alone(folder: Path) -> None:
    done = subprocess.run(
        (*DBCHECK, "bundle", "run", "-o", "/dev/stdout"),
        cwd=folder,
        capture_output=True,
    )
    assert done.returncode == PASS, done.stderr
    assert b"/dev/stdout: FAIL, " in done.stderr
    (folder / BUNDLE).write_bytes(done.stdout)
    dbcheck(folder, "verify", BUNDLE)
    dbcheck(folder, "bundle", "run", "-o", "/dev/null", "--sign", "k", code=USAGE)


def test_a_bundle_that_cannot_be_replaced_keeps_its_signature(folder: Path) -> None:
    key = key_of(folder, "ops")
    dbcheck(folder, "bundle", "run", "-o", BUNDLE, "--sign", key)
    before = (folder / BUNDLE).read_bytes()
    # Each file of the bundle is smaller than that, and the bundle is not.
    noise = random.Random(1).randbytes(45 << 10).hex()
    (folder / "run" / "drives.csv").write_text(f"at_s\n{noise}\n")
    command = f"ulimit -f 130; exec {shlex.join(DBCHECK)} bundle run -o {BUNDLE}"
    done = subprocess.run(["bash", "-c", command], cwd=folder, capture_output=True)
    assert f"{BUNDLE} cannot be written".encode() in done.stderr
    assert (folder / BUNDLE).read_bytes() == before
    out, _ = dbcheck(folder, "verify", BUNDLE)
    assert "signed with the key" in out
