"""Flags in groups: what a verb gets, and what its help shows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

import click
import pytest
from click.testing import CliRunner, Result

from dbcheck.cli.flags.groups import Argument, Flag, Group, Verb, grouped, option


@dataclass(frozen=True)
class Pace(Group):
    section = "How fast"

    rate: Annotated[
        float, Flag("--rate", type=float, envvar="RATE", show_default=True)
    ] = 2.5
    drive: Annotated[str | None, Flag("--disk", help="Which disk.")] = None
    eager: Annotated[bool, Flag("--eager", is_flag=True)] = False


@dataclass(frozen=True)
class Where(Group):
    engine: Annotated[str, Flag("--engine")]
    name: Annotated[str | None, Argument("NAME")] = None


@click.command("verb", cls=Verb)
@grouped
@option("--count", default=1, help="How many.")
@option("--off", type=click.FloatRange(1, 86_400), default=60.0, show_default=True)
@option("--seed", type=click.IntRange(0, 2**62), default=7, show_default=True)
def verb(pace: Pace, where: Where, count: int, off: float, seed: int) -> None:
    click.echo(shown(pace, where, count), nl=False)


def run(*words: str, **environment: str) -> Result:
    return CliRunner().invoke(verb, words, env=environment)


def shown(pace: Pace, where: Where, count: int) -> str:
    """Return all that a verb was given; a set shows itself in no order."""
    groups = [(each, sorted(each.given)) for each in (pace, where)]
    return repr([(replace(each, given=frozenset()), of) for each, of in groups]) + (
        f" {count}\n"
    )


def test_a_verb_gets_each_group_as_one_object() -> None:
    where = Where("mysql", "db1", given=frozenset({"engine", "name"}))
    result = run("--engine", "mysql", "db1")
    assert result.output == shown(Pace(), where, 1)
    pace = Pace(1.0, "sda", True, given=frozenset({"rate", "drive", "eager"}))
    where = Where("mysql", given=frozenset({"engine"}))
    words = ("--rate", "1", "--disk", "sda", "--eager", "--count", "3")
    assert run("--engine", "mysql", *words).output == shown(pace, where, 3)


def test_what_the_environment_sets_is_not_given() -> None:
    result = run("--engine", "mysql", RATE="7")
    assert "rate=7.0" in result.output
    assert "given=frozenset()" in result.output


def test_a_flag_without_a_default_must_be_given() -> None:
    result = run("db1")
    assert (result.exit_code, "Missing option '--engine'" in result.output) == (2, True)


@pytest.mark.parametrize(
    ("words", "again"),
    [
        ((), []),
        (("--disk", "a b"), ["--disk", "a b"]),
        (("--disk", "sda", "--rate", "1"), ["--rate", "1.0", "--disk", "sda"]),
    ],
)
def test_what_was_given_can_be_given_again(
    words: tuple[str, ...], again: list[str]
) -> None:
    with verb.make_context("verb", ["--engine", "x", *words]) as context:
        pace = Pace.taken(context, dict(context.params))
    assert pace.arguments("rate", "drive") == again
    assert pace.flags_given() == again[::2]


def test_help_shows_each_group_under_its_heading_after_the_rest() -> None:
    text = run("--help").output
    places = [text.index(each) for each in ("Options:", "How fast:", "--disk")]
    assert places == sorted(places)
    options = text[: text.index("How fast:")]
    assert all(f in options for f in ("--engine", "--count", "--help"))
    assert text.count("NAME") == 1  # in the usage alone


def test_help_shows_numbers_as_people_write_them() -> None:
    text = run("--help").output
    assert "[default: 2.5]" in text
    assert "[default: 60; 1 to 86,400]" in text
    assert "[default: 7]" in text, "nobody meets the bounds of this one"
