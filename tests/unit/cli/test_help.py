"""The help of each verb: every flag is explained, in terms of its user."""

from __future__ import annotations

import click
import pytest

from dbcheck.cli.flags.groups import Option, Verb, VerbGroup
from dbcheck.cli.root import VERBS, root
from dbcheck.cli.say import say_misuse
from tests.kit.commandtree import contexts

ALL = {
    context.command_path.removeprefix("dbcheck "): context
    for context in contexts()
    if context.parent
}


@pytest.mark.parametrize("name", ALL)
def test_each_flag_is_explained(name: str) -> None:
    command = ALL[name].command
    assert isinstance(command, Verb | VerbGroup)
    for option in command.params:
        if isinstance(option, click.Option):
            assert isinstance(option, Option), option.name
            assert option.help and option.help.endswith("."), option.name


@pytest.mark.parametrize("name", ALL)
def test_help_shows_no_words_of_the_library(name: str) -> None:
    text = ALL[name].get_help()
    for word in ("RANGE", "TEXT", "INTEGER", "FLOAT", "<=", ">=", "(1)"):
        assert word not in text, word


def test_a_verb_is_summed_up_in_one_line() -> None:
    for name, context in ALL.items():
        summary = VERBS.get(name) or context.command.get_short_help_str(limit=200)
        assert summary.endswith("."), name
        assert len(summary) <= 68, name  # with the names, on a terminal of 80


@pytest.mark.parametrize("words", [[], ["witness"]])
def test_a_command_without_arguments_prints_its_help_as_it_is(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(click.UsageError, match="Usage: ") as caught:
        root.main(words, standalone_mode=False)
    say_misuse(caught.value)
    said = capsys.readouterr().err
    assert said.startswith("Usage: ")
    assert "Error" not in said
    assert "\n  |" not in said


@pytest.mark.parametrize(
    ("words", "suggested"), [(["rnu"], "run"), (["run", "--tragetx"], "--target")]
)
def test_a_mistyped_command_or_option_gets_a_suggestion(
    words: list[str], suggested: str
) -> None:
    with pytest.raises(click.UsageError, match="No such") as caught:
        root.main(words, standalone_mode=False)
    assert f"'{suggested}'" in caught.value.format_message()
