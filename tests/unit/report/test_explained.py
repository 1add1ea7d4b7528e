"""`dbcheck explain` has a passage for each id that dbcheck prints."""

from __future__ import annotations

import re
from collections import Counter, defaultdict

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.cli.root import run
from dbcheck.judge.item import ItemId
from dbcheck.report.explained import id_of, passages
from dbcheck.rows.loss import LossKind
from tools.docs.rules import SECTIONS

ERRORS = {id.value for id in ErrorId}
ITEMS = [id_of(item.value) for item in ItemId]
LOSSES = [kind.value for kind in LossKind]
RULES = [rule.id for rules in SECTIONS.values() for rule in rules]


def subjects() -> dict[str, set[str]]:
    """Return under which subjects the passages about an id stand."""
    found: dict[str, set[str]] = defaultdict(set)
    for passage in passages():
        for id in passage.ids:
            found[id].add(passage.subject)
    return found


def test_each_id_of_an_error_stands_under_one_subject() -> None:
    found = subjects()
    assert not ERRORS - set(found), "add to docs/guides/troubleshooting.md"
    assert not [id for id in ERRORS if len(found[id]) > 1]


def test_each_item_loss_and_rule_has_one_passage() -> None:
    times = Counter(id for passage in passages() for id in passage.ids)
    others = [*ITEMS, *LOSSES, *RULES]
    assert [id for id in others if times[id] != 1] == []
    assert set(times) == ERRORS | set(others), "an id that dbcheck does not have"
    assert len(set(others)) == len(others)


def test_a_passage_says_something_and_leads_to_files_of_docs() -> None:
    for passage in passages():
        heading, _, rest = passage.text.partition("\n\n")
        named = {id_of(part) for part in re.split(r"\*\*|\[|\]", heading)}
        assert named >= set(passage.ids)
        assert len(rest.split()) >= 6, passage
        assert "](" not in passage.text.replace("](http", ""), passage


def said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str
) -> tuple[int, str, str]:
    monkeypatch.setattr("sys.argv", ["dbcheck", "explain", *words])
    monkeypatch.setenv("COLUMNS", "80")
    code = run()
    shown = capsys.readouterr()
    return code, " ".join(shown.out.split()), shown.err


@pytest.mark.parametrize(
    ("word", "text"),
    [
        ("[witness-quota-used]", "Make room or raise the quota"),
        ("server-is-replica", "so no cut would have a verdict"),  # the last of three
        ("managed-service-has-no-host", "a forced failover: docs/guides/cloud.md."),
        ("witness-log", "the chain is intact"),
        ("Server's log", "Name the log with --server-log"),
        ("missing-tail", "What is left of the session is a clean beginning"),
        ("pg-fsync", "Fix: alter system set fsync = on"),
    ],
)
def test_it_prints_what_the_documents_say(
    word: str,
    text: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, out, err = said(monkeypatch, capsys, word)
    assert (code, err) == (0, "")
    assert text in out
    assert "`" not in out


def test_it_lists_all_by_subject(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = said(monkeypatch, capsys)
    assert (code, err) == (0, "")
    assert set(subjects()) <= set(out.split())
    assert "Kinds of loss missing-tail" in out


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("witnes-log", "  Is it witness-log?\n"),
        ("xyz", "  dbcheck explain lists all of them.\n"),
    ],
)
def test_it_names_the_nearest_of_an_id_that_there_is_not(
    word: str,
    hint: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, out, err = said(monkeypatch, capsys, word)
    assert (code, out) == (2, "")
    unknown = "dbcheck has no error, item of evidence, loss or rule with the id"
    assert err == f"dbcheck: {unknown} '{word}' [id-unknown]\n{hint}"
