"""The help of each verb: every flag is explained, in terms of its user."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest

from dbcheck.cli.flags.groups import Option, Verb, VerbGroup
from dbcheck.cli.root import VERBS, root


def verbs() -> Iterator[tuple[str, click.Command]]:
    """Yield each verb, and the verbs of verbs."""
    context = click.Context(root)
    for name in VERBS:
        command = root.get_command(context, name)
        assert command is not None
        yield name, command
        if isinstance(command, click.Group):
            yield from ((f"{name} {of}", each) for of, each in command.commands.items())


ALL = dict(verbs())


@pytest.mark.parametrize("name", ALL)
def test_each_flag_is_explained(name: str) -> None:
    command = ALL[name]
    assert isinstance(command, Verb | VerbGroup)
    for option in command.params:
        if isinstance(option, click.Option):
            assert isinstance(option, Option), option.name
            assert option.help and option.help.endswith("."), option.name


@pytest.mark.parametrize("name", ALL)
def test_help_shows_no_words_of_the_library(name: str) -> None:
    command = ALL[name]
    text = command.get_help(click.Context(command, info_name=name))
    for word in ("RANGE", "TEXT", "INTEGER", "FLOAT", "<=", ">=", "(1)"):
        assert word not in text, word


def test_a_verb_is_summed_up_in_one_line() -> None:
    for name, command in ALL.items():
        summary = VERBS.get(name) or command.get_short_help_str(limit=200)
        assert summary.endswith("."), name
        assert len(summary) <= 68, name  # with the names, on a terminal of 80
