"""dbcheck golive: its options, its exit codes, and where it finds the host."""

from __future__ import annotations

import json
import termios
from pathlib import Path
from typing import ClassVar

import click
import pytest
from click.testing import CliRunner, Result

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import DbcheckError, HostError
from dbcheck.cli import golive
from dbcheck.cli.root import root
from dbcheck.inventory.load import make_inventory
from dbcheck.model.golive import GoLiveResult
from dbcheck.model.verdict import Verdict
from dbcheck.runner.golive import Guide
from dbcheck.runner.golive_folder import GoLiveFolder
from dbcheck.runner.golive_steps import Check
from tests.kit.golives import golive_result
from tests.kit.inventories import hosts

TARGET = "postgresql+psycopg2://dbcheck@db7.example.net/dbcheck"
WITNESS = "ssh://me@w.example.net/~/acks"
GIVEN = ["--target", TARGET, "--witness", WITNESS, "--target-host", "ssh://root@db7"]
INVENTORY = f"""
all:
  hosts:
    db1:
      dbcheck_target: {TARGET}
      dbcheck_witness: {WITNESS}
"""


class Played:
    """Stands for the steps: what it was given, and how it ends."""

    verdict = Verdict.PASS
    error: BaseException | None = None
    checks: ClassVar[list[Check]] = []
    guides: ClassVar[list[Guide]] = []

    def __init__(self, check: Check, guide: Guide) -> None:
        self.checks.append(check)
        self.guides.append(guide)

    def run(self) -> GoLiveResult:
        if self.error:
            raise self.error
        return golive_result("", self.verdict)


@pytest.fixture
def played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> type[Played]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    Path("inventory.yml").write_text(INVENTORY)
    monkeypatch.setattr(Played, "checks", [])
    monkeypatch.setattr(Played, "guides", [])
    monkeypatch.setattr(Played, "error", None)
    monkeypatch.setattr(Played, "verdict", Verdict.PASS)
    monkeypatch.setattr(golive, "GoLive", Played)
    # Without ansible-inventory, which is a process.
    monkeypatch.setattr(
        golive,
        "load_inventory",
        lambda path: make_inventory(path, hosts(path.read_text("utf-8"))),
    )
    return Played


def run(*words: str) -> Result:
    return CliRunner().invoke(root, ["golive", *words])


def id_of(done: Result) -> str:
    assert isinstance(done.exception, DbcheckError), done.output
    return done.exception.id


def test_a_host_of_an_inventory_has_11_cuts_and_a_control(played: type[Played]) -> None:
    done = run("db1")
    assert done.exit_code == 0, done.output
    (check,) = played.checks
    assert (check.entry.name, check.entry.target) == ("db1", TARGET)
    assert (check.plan.cuts, check.plan.bound_ppm, check.plan.control) == (
        11,
        None,
        True,
    )
    assert check.folder.path.parent == Path("golive")


@pytest.mark.parametrize(
    ("words", "plan"),
    [
        (["--until", "0.25"], (11, 250_000, True)),
        (["--until", "0.05"], (59, 50_000, True)),
        (["--cuts", "3", "--no-control"], (3, None, False)),
    ],
)
def test_the_bound_is_what_is_asked_for(
    played: type[Played], words: list[str], plan: tuple[int, int | None, bool]
) -> None:
    assert run("db1", *words).exit_code == 0
    made = played.checks[0].plan
    assert (made.cuts, made.bound_ppm, made.control) == plan


@pytest.mark.parametrize("words", [[], ["--json"]])
def test_nobody_agrees_where_nobody_can_be_asked(
    played: type[Played], words: list[str]
) -> None:
    run("db1", *words)
    assert played.guides[0].agree(played.checks[0]) is None


def test_flags_write_the_inventory_that_it_goes_on_by(played: type[Played]) -> None:
    assert run(*GIVEN, "--folder", "check").exit_code == 0
    (check,) = played.checks
    file = Path("check", "inventory.yml").resolve()
    assert check.plan.inventory == check.entry.inventory == str(file)
    assert (check.entry.name, check.entry.host) == ("db7", "ssh://root@db7")
    assert run("--resume", "check").exit_code == 0
    assert played.checks[1].entry == check.entry


@pytest.mark.parametrize(
    ("verdict", "code"),
    [(Verdict.PASS, 0), (Verdict.FAIL, 1), (Verdict.INCONCLUSIVE, 3)],
)
def test_the_verdict_is_the_exit_code(
    played: type[Played], verdict: Verdict, code: int
) -> None:
    played.verdict = verdict
    done = run("db1", "--json")
    assert done.exit_code == code
    assert json.loads(done.stdout)["verdict"] == verdict.value


@pytest.mark.parametrize(
    "error",
    [
        HostError("no answer", id=ErrorId.HOST_UNREACHABLE),
        KeyboardInterrupt(),
        click.Abort(),
    ],
    ids=["error", "Ctrl-C", "Ctrl-C at the question"],
)
def test_what_stops_it_is_followed_by_how_to_continue(
    played: type[Played], error: BaseException
) -> None:
    played.error = error
    done = run("db1", "--folder", "check")
    assert done.exit_code != 0
    assert "dbcheck golive --resume check" in done.output


@pytest.mark.parametrize(
    ("words", "id"),
    [
        ([], ErrorId.TARGET_MISSING),
        (["db1", *GIVEN], ErrorId.OPTIONS_CONFLICT),
        (["--target", TARGET], ErrorId.OPTION_NEEDS_ANOTHER),
        ([*GIVEN, "--switch", "shelly"], ErrorId.OPTION_NEEDS_ANOTHER),
        (["db1", "--cuts", "3", "--until", "0.1"], ErrorId.ONE_OF_OPTIONS_NEEDED),
        (["db9"], ErrorId.HOST_UNKNOWN),
        (["--resume", "none"], ErrorId.NOT_A_GOLIVE_FOLDER),
        (["db1", "--resume", "none"], ErrorId.OPTIONS_CONFLICT),
        (["--cuts", "3", "--resume", "none"], ErrorId.OPTIONS_CONFLICT),
        ([*GIVEN, "--resume", "none"], ErrorId.OPTIONS_CONFLICT),
        (
            ["--target", "postgresql://u:secret@db1/x", "--witness", WITNESS],
            ErrorId.URL_HOLDS_PASSWORD,
        ),
    ],
)
def test_what_makes_no_sense_is_refused(
    played: type[Played], words: list[str], id: ErrorId
) -> None:
    done = run(*words)
    assert id_of(done) == id
    assert "secret" not in f"{done.output}{done.exception}"
    assert not played.checks
    assert not list(Path().glob("golive/*/golive.json"))


def test_the_folder_of_another_check_is_not_touched(played: type[Played]) -> None:
    assert run("db1", "--folder", "check").exit_code == 0
    for words in (["db1"], GIVEN):
        assert id_of(run(*words, "--folder", "check")) == ErrorId.GOLIVE_EXISTS
    assert not Path("check", "inventory.yml").exists()
    assert len(played.checks) == 1


def test_another_users_check_may_not_choose_the_inventory(
    played: type[Played], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("db1", "--folder", "check").exit_code == 0
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "other"))
    assert id_of(run("--resume", "check")) == ErrorId.OPTION_NEEDS_ANOTHER
    assert run("--resume", "check", "--inventory", "inventory.yml").exit_code == 0
    assert GoLiveFolder.open(Path("check")).plan().name == "db1"


def test_a_password_in_the_url_of_a_witness_reaches_no_folder(
    played: type[Played],
) -> None:
    words = ("db1", "--folder", "check")
    file = Path("inventory.yml")
    file.write_text(INVENTORY.replace("ssh://me@", "ssh://me:s3cret@"))
    done = run(*words)
    assert id_of(done) == ErrorId.URL_HOLDS_PASSWORD
    assert "s3cret" not in f"{done.output}{done.exception}"
    assert not Path("check").exists()
    file.write_text(INVENTORY)
    assert run(*words).exit_code == 0
    file.write_text(INVENTORY.replace("ssh://me@", "ssh://me:s3cret@"))
    assert id_of(run("--resume", "check")) == ErrorId.URL_HOLDS_PASSWORD
    assert len(played.checks) == 1


@pytest.mark.parametrize(
    ("switch", "asked"),
    [
        ("dbcheck_power: manual", "cut its power yourself each time dbcheck tells you"),
        (
            "dbcheck_power: exec\n      dbcheck_power_cut: [pdu, cut]\n"
            "      dbcheck_power_class: reset",
            "Cut the power of db1 now",
        ),
    ],
    ids=["by hand", "by a switch"],
)
def test_nobody_pulls_a_plug_at_the_question(
    switch: str,
    asked: str,
    played: type[Played],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    questions: list[str] = []

    def confirm(question: str, **_: object) -> bool:
        questions.append(question)
        return True

    Path("inventory.yml").write_text(f"{INVENTORY}      {switch}\n")
    run("db1")
    monkeypatch.setattr(golive, "is_interactive", lambda: True)
    monkeypatch.setattr(termios, "tcflush", lambda *_: None)
    monkeypatch.setattr(click, "confirm", confirm)
    assert played.guides[0].agree(played.checks[0])
    assert asked in questions[0]
