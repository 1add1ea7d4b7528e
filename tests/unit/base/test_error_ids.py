"""Each expected failure has a stable id: it is shown, and other processes keep it."""

from __future__ import annotations

import ast
import copy
import inspect
import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest

from dbcheck.base import errors
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import DbcheckError, LabError
from dbcheck.base.processes import Channel
from dbcheck.campaign.folder import CampaignFolder
from dbcheck.campaign.totals import ERROR_FILE, format_ending, make_result
from dbcheck.cli.root import run
from dbcheck.fleet import messages
from dbcheck.lab.calls import decode_result_as, encode_failure
from dbcheck.lab.programs import Failed
from dbcheck.load import job
from dbcheck.report.rows import Line
from tests.kit.refusals import refused
from tests.kit.samples import PLAN
from tests.kit.syntax import SOURCES, nodes_of

SILENT = ErrorId.HOST_NOT_ANSWERING
# One of each class that has more than a message, an id and a hint.
SPECIAL: list[DbcheckError] = [
    errors.CommitUnknown("gone", id=SILENT, hint="Look.", farewell="bye"),
    errors.ConnectionLost("gone", 7, id=SILENT),
    errors.TableLost("gone", id=SILENT, hint="Look.", missing=True),
    errors.IndexDamaged("gone", "ledger", 3, (1, 2), id=SILENT),
    errors.PartlyCut("gone", {"db1": 1}, id=SILENT, hint="Look."),
    Failed("gone", 3),
]


def kinds(of: type[DbcheckError] = DbcheckError) -> Iterator[type[DbcheckError]]:
    yield of
    for kind in of.__subclasses__():
        yield from kinds(kind)


PLAIN = [
    kind("gone", id=SILENT, hint="Look.")
    for kind in kinds()
    if "__init__" not in vars(kind) or kind is DbcheckError
]


def groups() -> list[list[str]]:
    """Return the names in each group of the enumeration, as they are written."""
    parts = inspect.getsource(ErrorId).split("\n    # ")[1:]
    return [
        [line.split()[0] for line in part.splitlines() if " = " in line]
        for part in parts
    ]


def test_a_value_is_the_name_and_stands_for_itself_alone() -> None:
    wrong = [
        name
        for name, id in ErrorId.__members__.items()
        if id.value != name.lower().replace("_", "-") or id.name != name
    ]
    assert not wrong


def test_each_stands_in_a_group_in_the_order_of_the_alphabet() -> None:
    assert all(names == sorted(names) for names in groups())
    assert sorted(sum(groups(), [])) == sorted(ErrorId.__members__)


def test_each_is_used() -> None:
    used = {
        node.attr
        for source in SOURCES
        for node in nodes_of(source)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "ErrorId"
    }
    assert not set(ErrorId.__members__) - used


def test_no_error_can_be_made_without_one() -> None:
    """A class that has one of its own takes none."""
    for kind in kinds():
        given = inspect.signature(kind).parameters.get("id")
        assert kind is Failed or (given and given.default is given.empty), kind


@pytest.mark.parametrize("error", [*SPECIAL, *PLAIN])
def test_another_process_gets_all_of_an_error(error: DbcheckError) -> None:
    for found in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(found) is type(error)
        assert (str(found), vars(found)) == (str(error), vars(error))


@pytest.mark.parametrize(
    "other",
    [
        LabError("db1 is gone", id=ErrorId.NO_FREE_PORT),
        errors.PowerError("db1 is gone", id=SILENT),
        LabError("it is gone", id=SILENT),
    ],
    ids=["id", "class", "words"],
)
def test_a_test_that_expects_one_takes_no_other(other: DbcheckError) -> None:
    with refused(SILENT, LabError, naming=("db1", "gone")):
        raise LabError("db1 is gone", id=SILENT)
    passed_on = pytest.raises((AssertionError, errors.PowerError), match="gone")
    with passed_on, refused(SILENT, LabError, naming=("db1", "gone")):
        raise other


def test_a_process_of_the_load_sends_it() -> None:
    ours, theirs = Channel.pair()
    with ours, Channel(theirs) as other:
        job.send(other, errors.WitnessError("gone", id=SILENT))
        with refused(SILENT, errors.WitnessError):
            raise job.receive(ours)


def test_a_task_of_a_fleet_sends_it() -> None:
    sent = messages.Ended("gone", SILENT)
    assert messages.unpack_message(messages.pack_message(sent)) == sent


def test_a_lab_sends_it() -> None:
    error = LabError("gone", id=ErrorId.NO_FREE_PORT, hint="Look.")
    with refused(ErrorId.NO_FREE_PORT, LabError) as caught:
        decode_result_as(encode_failure(error), int)
    assert caught.value.hint == "Look."


def test_a_campaign_keeps_why_it_ended(tmp_path: Path) -> None:
    folder = CampaignFolder.create(tmp_path / "campaign", PLAN)
    stored = folder.path / ERROR_FILE
    for error, id in (("two\nlines", SILENT), ("interrupted", "")):
        stored.write_text(format_ending(error, id))
        shown = make_result(folder)
        assert (shown.error, shown.error_id) == (error, id)
    stored.unlink()
    assert (make_result(folder).error, make_result(folder).error_id) == ("", "")


def test_a_row_of_a_matrix_shows_it() -> None:
    line = Line("a", "", None, None, [], "gone", SILENT)
    assert line.result().error_id == SILENT


@pytest.mark.parametrize(
    ("words", "code", "id"),
    [
        (["run"], 2, ErrorId.TARGET_MISSING),
        (["report", "nowhere"], 2, ErrorId.NOT_A_RESULT_FOLDER),
        (["lab", "down", "no-such-lab"], 4, ErrorId.LAB_NOT_RUNNING),
        (["verify", "no.bundle"], 1, ErrorId.NOT_A_BUNDLE),
    ],
)
def test_the_command_line_shows_it_at_the_end_of_the_message(
    words: list[str],
    code: int,
    id: ErrorId,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("no.bundle").write_text("something else")
    monkeypatch.setattr("sys.argv", ["dbcheck", *words])
    assert run() == code
    message, *hint = capsys.readouterr().err.splitlines()
    assert message.endswith(f" [{id}]")
    assert all(line.startswith("  ") for line in hint)
