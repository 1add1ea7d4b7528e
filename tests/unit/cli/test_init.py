"""dbcheck init: what it writes, what it refuses, and what it advises."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import DbcheckError
from dbcheck.cli.flags import newhost
from dbcheck.cli.root import root
from dbcheck.config import files
from dbcheck.inventory.newhost import NAME, list_switches
from dbcheck.model.cut import SwitchKind
from tests.kit.inventories import hosts, loaded

TARGET = "postgresql+psycopg2://dbcheck@db7.example.net/dbcheck"
WITNESS = "ssh://me@w.example.net/~/acks"
GIVEN = ["--target", TARGET, "--witness", WITNESS]


def init(*words: str, typed: str = "") -> Result:
    return CliRunner().invoke(root, ["init", *words], input=typed)


def id_of(done: Result) -> str:
    assert isinstance(done.exception, DbcheckError), done.output
    return done.exception.id


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_values_of_the_options_are_written(here: Path) -> None:
    done = init(*GIVEN, "--target-host", "ssh://root@db7.example.net")
    assert done.exit_code == 0, done.output
    entry = loaded(here, Path("inventory.yml").read_text("utf-8")).entry("db7")
    assert (entry.target, entry.witness) == (TARGET, WITNESS)
    assert entry.host == "ssh://root@db7.example.net"
    assert entry.power.kind is SwitchKind.MANUAL


def advised(done: Result) -> list[list[str]]:
    """Return the commands that a result advises to type."""
    lines = (line.strip() for line in done.output.splitlines())
    return [shlex.split(line)[1:] for line in lines if line.startswith("dbcheck ")]


@pytest.mark.parametrize("switch", list_switches())
@pytest.mark.parametrize("file", ["inventory.yml", "my hosts.yml"])
def test_each_command_that_is_advised_exists_and_names_the_host(
    switch: str, file: str, here: Path
) -> None:
    done = init(file, *GIVEN, "--switch", switch)
    assert done.exit_code == 0, done.output
    found = advised(done)
    assert len(found) == (3 if switch == "manual" else 4)
    for words in found:
        options = ["--inventory", file] if file != "inventory.yml" else []
        at = words.index("db7")
        assert words[at + 1 :] == [
            *(["--control"] if "grants" in words else []),
            *options,
        ]
        shown = CliRunner().invoke(root, [*words[:at], "--help"])
        assert shown.exit_code == 0, shown.output


def test_its_account_comes_before_what_logs_in_there(here: Path) -> None:
    first = advised(init(*GIVEN, "--switch", "manual"))[0]
    granted = CliRunner().invoke(root, first)
    assert granted.exit_code == 0, granted.output
    assert "create role" in granted.output


def test_a_name_of_the_users_own_is_taken(here: Path) -> None:
    assert init(*GIVEN, "--name", "primary").exit_code == 0
    assert list(hosts(Path("inventory.yml").read_text("utf-8"))) == ["primary"]


@pytest.mark.parametrize(
    ("words", "id"),
    [
        (
            ["--target", "postgresql://u:secret@db1/x", "--witness", WITNESS],
            ErrorId.URL_HOLDS_PASSWORD,
        ),
        (
            ["--target", "postgresql://u@db1/x?password=secret", "--witness", WITNESS],
            ErrorId.URL_HOLDS_PASSWORD,
        ),
        (
            ["--target", TARGET, "--witness", "ssh://me:secret@w/~/x"],
            ErrorId.URL_HOLDS_PASSWORD,
        ),
        (["--target", TARGET, "--witness", "w:x"], ErrorId.WITNESS_URL_INVALID),
        (
            ["--target", "oracle://u@db1/x", "--witness", WITNESS],
            ErrorId.ENGINE_UNKNOWN,
        ),
        (["--target", TARGET], ErrorId.OPTION_NEEDS_ANOTHER),
        (["--witness", WITNESS], ErrorId.OPTION_NEEDS_ANOTHER),
        ([*GIVEN, "--example"], ErrorId.OPTIONS_CONFLICT),
        ([*GIVEN, "--target-host", "db7"], ErrorId.HOST_ADDRESS_INVALID),
        ([*GIVEN, "--name", "a b"], ErrorId.VALUE_INVALID),
        ([*GIVEN, "--name", "all"], ErrorId.VALUE_INVALID),
        (["--target", f"{TARGET}\udcff", *GIVEN[2:]], ErrorId.TARGET_URL_INVALID),
    ],
)
def test_what_cannot_be_used_is_refused_and_nothing_is_written(
    words: list[str], id: ErrorId, here: Path
) -> None:
    done = init(*words)
    assert id_of(done) == id
    assert "secret" not in f"{done.output}{done.exception}"
    assert not list(here.iterdir())


def test_nothing_is_replaced(here: Path) -> None:
    Path("inventory.yml").write_text("mine")
    assert id_of(init(*GIVEN)) == ErrorId.FILE_EXISTS
    assert Path("inventory.yml").read_text() == "mine"


def test_without_a_terminal_the_example_is_written(here: Path) -> None:
    for file, words in (("a.yml", []), ("b.yml", ["--example"])):
        done = init(file, *words)
        assert done.exit_code == 0, done.output
        assert Path(file).read_text("utf-8") == files.read_inventory_example()
        assert NAME in advised(done)[0]


def test_an_example_can_be_one_for_a_human_at_the_plug(here: Path) -> None:
    assert init("--switch", "manual").exit_code == 0
    entry = loaded(here, Path("inventory.yml").read_text("utf-8")).entry(NAME)
    assert entry.power.kind is SwitchKind.MANUAL


def test_on_a_terminal_it_asks_again_until_an_answer_can_be_used(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dbcheck.cli.init.is_interactive", lambda: True)
    answers = [
        *("db7", "postgresql://u:secret@db7/x", TARGET),  # no URL; a password
        *("nowhere", WITNESS),
        "",  # the host that the URL names
        *("kasa", "shelly"),
        "",  # the first label of its name
    ]
    done = init(typed="\n".join((*answers, "")))
    assert done.exit_code == 0, done.output
    assert "a program of yours" in done.output  # which has no recipe
    assert max(map(len, done.output.splitlines())) < 80
    entry = loaded(here, Path("inventory.yml").read_text("utf-8")).entry("db7")
    assert (entry.target, entry.witness) == (TARGET, WITNESS)
    assert entry.host == "ssh://root@db7.example.net"
    assert entry.power.kind is SwitchKind.EXEC


def test_on_a_terminal_what_is_given_is_not_asked_for(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dbcheck.cli.init.is_interactive", lambda: True)
    given = [*GIVEN, "--switch", "manual", "--name", "db9"]
    done = init(*given, typed="none\n")
    assert done.exit_code == 0, done.output
    assert not loaded(here, Path("inventory.yml").read_text("utf-8")).entry("db9").host
    whole = init("two.yml", *given, "--target-host", "ssh://root@db7")
    assert ("Enter" in done.output, "Enter" in whole.output) == (True, False)


@pytest.mark.parametrize(
    ("words", "id"),
    [
        (["--target", "oracle://u@db7/x"], ErrorId.ENGINE_UNKNOWN),
        ([*GIVEN[:2], "--witness", "nowhere"], ErrorId.HOST_ADDRESS_INVALID),
        (["--target-host", "db7"], ErrorId.HOST_ADDRESS_INVALID),
        (["--name", "db[1:2]"], ErrorId.VALUE_INVALID),
    ],
)
def test_on_a_terminal_what_is_given_is_checked_before_a_question(
    words: list[str], id: ErrorId, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dbcheck.cli.init.is_interactive", lambda: True)
    assert id_of(init(*words)) == id


@pytest.mark.parametrize(
    ("target", "host"),
    [
        ("postgresql://u@db7.example.net/x", "ssh://root@db7.example.net"),
        ("postgresql://u@[2001:db8::1]/x", "ssh://root@[2001:db8::1]"),
        ("postgresql://u@localhost/x", "local:"),
        ("postgresql://u@/x?host=/run/postgresql", "local:"),
        ("mysql://u@/x?unix_socket=/run/mysqld.sock", "local:"),
        ("postgresql://u@[db7/x", "none"),
        # PGHOST, an option or a provider decides which host that is.
        ("postgresql:///x", "none"),
        ("postgresql:///x?host=db7", "none"),
        ("postgresql:///x?host=/run&host=db7", "none"),
        ("postgresql:///x?host=/run,db7", "none"),
        ("postgresql://u@localhost/x?host=db7", "none"),
        ("postgresql://u@db7/x?hostaddr=10.0.0.8", "none"),
        ("postgresql:///x?service=db7", "none"),
        ("postgresql://u@db7,db8/x", "none"),
        ("postgresql://u@a.b.eu-west-1.rds.amazonaws.com/x", "none"),
    ],
)
def test_only_a_host_that_a_target_surely_names_is_suggested(
    target: str, host: str
) -> None:
    """Enter takes it, and canaries and cuts on another host prove nothing."""
    assert newhost._suggest_host(target) == host
