"""A setting is one declaration: its flag, help, key and comparison are made of that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import click
import pytest
from click.testing import CliRunner
from msgspec import Meta

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.base.setting import Setting, list_flags, list_settings
from dbcheck.campaign.compare import list_configuration
from dbcheck.cli.flags.groups import FlagsOf, Group, Verb, grouped
from dbcheck.cli.flags.lab import RecordOptions, StorageOptions
from dbcheck.cli.run import command as run
from dbcheck.config.target import TargetSettings
from dbcheck.config.validated import Command
from dbcheck.lab.clusters.spec import ClusterSpec
from dbcheck.lab.spec import DriveSpec, LabSpec
from dbcheck.power.kinds.exec import ExecConfig
from dbcheck.rows.workload import Workload
from dbcheck.runner.matrix_rows import read_matrix
from dbcheck.witness.window import WindowLimits
from tests.kit.refusals import refused
from tests.kit.stored_run import manifest


@dataclass(frozen=True)
class Pace:
    """Two settings, and a field that is none."""

    rate: Annotated[
        float,
        Meta(ge=0, le=9),
        Meta(description="Commits per second. All sessions share them."),
        Setting("--rate", unit="/s", nothing="no limit"),
    ] = 0.0
    ramp_s: Annotated[int, Meta(ge=1), Setting("--ramp", "S")] = 1
    sizes: Annotated[tuple[int, ...], Setting(nothing="none")] = ()
    name: str = ""


@dataclass(frozen=True)
class Options(Group):
    """The flags of the settings, and no other."""

    settings: Annotated[Mapping[str, Any], FlagsOf(Pace, default="the file's")] = field(
        default_factory=dict
    )


@click.command(cls=Verb)
@grouped
def verb(options: Options) -> None:
    """Show what is given."""
    click.echo(f"{dict(options.settings)} {sorted(options.flags_given())}")


@click.command(cls=Verb)
@grouped
def recording(options: RecordOptions) -> LabSpec:
    """Return the lab whose drives are recorded."""
    return options.spec(1)


def said(*words: str) -> str:
    return CliRunner().invoke(verb, words).output


def test_a_setting_has_a_flag_with_its_range_and_the_first_sentence_as_help() -> None:
    text = " ".join(said("--help").split())
    assert "--rate N Commits per second. Default: the file's. [0 to 9]" in text
    assert "--ramp S" in text
    assert "share" not in text
    assert "sizes" not in text


def test_what_is_given_is_held_by_its_name_and_nothing_else_is() -> None:
    assert said() == "{} []\n"
    assert said("--rate", "2.5") == "{'rate': 2.5} ['--rate']\n"
    assert said("--ramp", "3") == "{'ramp_s': 3} ['--ramp']\n"


@pytest.mark.parametrize(
    "words", [("--rate", "10"), ("--rate", "nan"), ("--ramp", "0")]
)
def test_a_value_beyond_the_range_is_refused(words: tuple[str, str]) -> None:
    assert f"Invalid value for '{words[0]}'" in said(*words)


def test_the_flags_of_a_value_are_those_that_differ() -> None:
    assert list_flags(Pace(), Pace()) == []
    mine = Pace(rate=1234567.5, ramp_s=2, sizes=(1,), name="x")
    assert list_flags(mine, Pace()) == ["--rate", "1234567.5", "--ramp", "2"]
    assert list_flags(mine, replace(mine, rate=0.0)) == ["--rate", "1234567.5"]


@dataclass(frozen=True)
class Share:
    """A setting that may be left to the program."""

    parts: Annotated[
        Annotated[int, Meta(ge=1, le=4)] | None, Setting("--parts", nothing="chosen")
    ] = None


def test_a_setting_without_a_value_has_a_range_and_no_flag() -> None:
    declared = list_settings(Share)["parts"]
    found = (declared.kind, declared.low, declared.high, declared.default)
    assert found == (int, 1, 4, None)
    assert (declared.shown(None), declared.shown(3)) == ("chosen", "3")
    assert FlagsOf(Share).given({"parts": 2}) == {"parts": 2}
    assert list_flags(Share(2), Share()) == ["--parts", "2"]
    assert list_flags(Share(), Share(2)) == []


def test_a_comparison_shows_a_value_with_its_unit() -> None:
    found = {each.title: each for each in list_settings(Pace).values()}
    assert list(found) == ["rate", "ramp", "sizes"]
    assert found["rate"].shown(2.5) == "2.5/s"
    assert found["rate"].shown(0.0) == "no limit"
    assert found["sizes"].shown((1, 2)) == "1, 2"
    assert found["sizes"].shown(()) == "none"


def test_every_setting_of_a_workload_is_compared_and_can_be_varied() -> None:
    settings = list_settings(Workload)
    assert {"sessions", "rate", "readers", "rows_before"} < settings.keys()
    shown = {key.name for key in list_configuration(manifest())}
    assert {each.title for each in settings.values()} <= shown
    for name, each in settings.items():
        vary = [f"{name}={max(1, round(each.low or 0))}"]
        assert len(read_matrix(None, vary, target=True, seed=1).rows) == 1


@pytest.mark.parametrize("kind", [LabSpec, DriveSpec, ClusterSpec])
def test_every_setting_of_a_lab_can_be_varied(kind: type[Any]) -> None:
    for name, each in list_settings(kind).items():
        given = each.default or {"topology": "semi-sync"}.get(name, each.default)
        vary = ["engine=mariadb", f"{each.key}={str(given).lower()}"]
        (row,) = read_matrix(None, vary, target=False, seed=1).rows
        assert row.lab is not None
        specs = {LabSpec: row.lab, DriveSpec: row.lab.drive, ClusterSpec: row.cluster}
        assert getattr(specs[kind], name) == each.scaled(given)


def test_a_group_with_some_flags_of_a_lab_has_its_defaults() -> None:
    words = ["--engine", "mysql"]
    found = recording.main(words, standalone_mode=False)
    assert found == LabSpec("mysql", drive=DriveSpec(seed=1))
    words += ["--mount-options", "barrier=0", "--flush-ms", "2"]
    found = recording.main(words, standalone_mode=False)
    drive = DriveSpec(seed=1, flush_ms=2.0)
    assert found == LabSpec("mysql", mount_options="barrier=0", drive=drive)


@pytest.mark.parametrize("words", [("--cache-mib", "0"), ("--cache-mib", "1025")])
def test_a_flag_may_have_a_range_of_its_own(words: tuple[str, str]) -> None:
    command = click.command(cls=Verb)(grouped(stored))
    result = CliRunner().invoke(command, words)
    assert "is not in the range 1<=x<=1024" in result.output
    assert CliRunner().invoke(command, ("--cache-mib", "1024")).exit_code == 0


@pytest.mark.parametrize("kind", [TargetSettings, ExecConfig, WindowLimits])
def test_run_has_the_flag_of_each_setting(kind: type[Any]) -> None:
    flags = {flag for each in run.params for flag in each.opts}
    declared = {each.setting.flag for each in list_settings(kind).values()}
    assert declared
    assert declared <= flags


@dataclass(frozen=True)
class Program:
    """A setting that is a program with its arguments."""

    undo: Annotated[Command, Setting("--undo-command", "CMD")] = ()


def test_a_command_is_split_as_a_shell_does_and_joined_when_it_is_repeated() -> None:
    of_program = FlagsOf(Program)
    assert of_program.given({"undo": "a 'b c'"}) == {"undo": ("a", "b c")}
    again = list_flags(Program(("a", "b c")), Program())
    assert again == ["--undo-command", "a 'b c'"]
    with refused(ErrorId.COMMAND_NOT_SPLITTABLE, UsageError, naming="--undo-command"):
        of_program.given({"undo": "a 'b"})


def stored(options: StorageOptions) -> None:
    """Take the flags of a lab's storage."""
