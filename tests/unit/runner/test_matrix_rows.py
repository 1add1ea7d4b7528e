"""Configurations from files and options: complete, or refused with the key named."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.config import files
from dbcheck.lab.spec import DriveSpec, LabSpec
from dbcheck.model.family import MYSQL, POSTGRESQL
from dbcheck.model.verdict import Verdict
from dbcheck.runner.matrix_cycles import add_session_settings
from dbcheck.runner.matrix_rows import Matrix, read_matrix
from tests.kit.refusals import refused

HEAD = '[defaults]\nengine = "postgresql"\ncut = "process"\n'


def read(
    folder: Path, text: str, vary: Sequence[str] = (), *, target: bool = False
) -> Matrix:
    path = folder / "own.toml"
    path.write_text(text)
    return read_matrix(str(path), vary, target=target, seed=5)


def test_every_matrix_that_comes_along_is_valid() -> None:
    assert "percona-2009" in files.list_matrix_names()
    for name in files.list_matrix_names():
        assert read_matrix(name, (), target=False, seed=1).rows


def test_the_four_rows_of_2009_are_two_safe_ones_and_two_that_lose() -> None:
    matrix = read_matrix("percona-2009", (), target=False, seed=1)
    loads = {(row.workload.name, row.workload.sessions) for row in matrix.rows}
    assert loads == {("classic", 1)}
    safe, bare, uncached, swallowed = matrix.rows
    assert [row.expect for row in matrix.rows] == [Verdict.PASS, Verdict.FAIL] * 2
    labs = [row.lab for row in (safe, bare, uncached, swallowed) if row.lab]
    assert [lab.drive.personality for lab in labs] == [
        *("honest", "honest", "write-through", "honest")
    ]
    assert [lab.mount_options for lab in labs] == ["", "barrier=0", "", ""]
    assert [lab.write_cache for lab in labs] == [
        "auto",
        "auto",
        "auto",
        "write through",
    ]
    assert {lab.settings["innodb_flush_log_at_trx_commit"] for lab in labs} == {"1"}


def test_each_key_reaches_the_lab(tmp_path: Path) -> None:
    text = """
    [[rows]]
    engine = "mariadb"
    cut = "drive"
    fs = "ext4"
    mount_options = "barrier=0"
    write_cache = "write through"
    drive = "fickle"
    flush_ms = 2
    write_ms = 0.5
    destage_s = 3
    cache_mib = 7
    kept_writes = "torn"
    lie_fraction = 0.5
    honest_flushes = 7
    newest_bytes = 9
    lost_above = 5000
    tear_at = 4096
    forget_at = 512
    forget = 1024
    settings = { sync_binlog = 0, log_bin = true }
    """
    (row,) = read(tmp_path, text).rows
    assert row.lab == LabSpec(
        "mariadb",
        cut="drive",
        filesystem="ext4",
        mount_options="barrier=0",
        write_cache="write through",
        settings={"sync_binlog": "0", "log_bin": "on"},
        drive=DriveSpec(
            personality="fickle",
            flush_ms=2.0,
            write_ms=0.5,
            destage_age_s=3.0,
            cache_bytes=7 << 20,
            kept_writes="torn",
            lie_fraction=0.5,
            honest_flushes=7,
            newest_bytes=9,
            lost_above_bytes=5000,
            tear_bytes=4096,
            forget_at_bytes=512,
            forget_bytes=1024,
            seed=5,
        ),
    )


def test_rows_are_varied_in_all_combinations_and_named_by_them(tmp_path: Path) -> None:
    text = HEAD + '[[rows]]\nname = "a"\n[[rows]]\nname = "b"\nsettings = { x = 1 }\n'
    vary = ["drive=honest,lying", "setting.y=1,2"]
    rows = read(tmp_path, text, vary).rows
    assert [row.name for row in rows[:3]] == [
        "a, drive=honest, y=1",
        "a, drive=honest, y=2",
        "a, drive=lying, y=1",
    ]
    assert len(rows) == 8
    assert rows[-1].lab is not None
    assert rows[-1].lab.settings == {"x": "1", "y": "2"}
    assert rows[-1].lab.drive.personality == "lying"


def test_options_alone_make_a_matrix() -> None:
    vary = ["cut=process", "setting.fsync=on,off", "flush_ms=2"]
    matrix = read_matrix(None, vary, target=False, seed=1, engine="postgresql")
    assert [row.name for row in matrix.rows] == [
        "cut=process, fsync=on, flush_ms=2",
        "cut=process, fsync=off, flush_ms=2",
    ]
    assert {row.lab.drive.flush_ms for row in matrix.rows if row.lab} == {2.0}


@pytest.mark.parametrize("target", [False, True])
def test_a_row_can_have_a_load_of_its_own(*, target: bool) -> None:
    vary = ["workload=insert,order-entry", "payload_bytes=128,16384", "rate=50"]
    engine = None if target else "postgresql"
    rows = read_matrix(
        *(None, vary), target=target, seed=1, engine=engine, sessions=3
    ).rows
    loads = [(r.workload.name, r.workload.payload_bytes) for r in rows]
    names, sizes = ("insert", "order-entry"), ((128,), (16384,))
    assert loads == [(name, size) for name in names for size in sizes]
    assert {(r.workload.sessions, r.workload.rate) for r in rows} == {(3, 50.0)}
    assert rows[1].name == "workload=insert, payload_bytes=16384, rate=50"


def test_what_the_row_of_a_file_names_wins(tmp_path: Path) -> None:
    text = 'workload = "mixed"\nsessions = 2\n' + HEAD + "[[rows]]\n[[rows]]\n"
    own = 'workload = "sizes"\nsessions = 5\npayload_bytes = [1, 2]\n'
    first, second = read(tmp_path, text + own).rows
    assert (first.workload.name, first.workload.sessions) == ("mixed", 2)
    assert (second.workload.name, second.workload.sessions) == ("sizes", 5)
    assert second.workload.payload_bytes == (1, 2)


@pytest.mark.parametrize(
    ("vary", "named", "id"),
    [
        ("workload=nothing", "nothing", ErrorId.FILE_NOT_READABLE),
        ("payload_bytes=0", "payload_bytes", ErrorId.VALUE_INVALID),
        ("payload_bytes=big", "payload_bytes", ErrorId.VALUE_INVALID),
        ("sessions=0", "sessions", ErrorId.VALUE_INVALID),
        ("rows_before=-1", "rows_before", ErrorId.VALUE_INVALID),
    ],
)
def test_a_value_of_the_load_out_of_range_is_refused(
    vary: str, named: str, id: ErrorId
) -> None:
    with refused(id, UsageError, naming=named):
        read_matrix(None, [vary], target=True, seed=1)


def test_a_size_for_rows_without_payload_is_refused() -> None:
    vary = ["workload=insert,classic", "payload_bytes=128"]
    said = "workload=classic, payload_bytes=128: payload_bytes is given for the classic"
    with refused(ErrorId.KEY_NOT_FOR_CLASSIC_PLAN, UsageError, naming=said):
        read_matrix(None, vary, target=True, seed=1)


def test_on_a_target_a_row_is_settings_or_relaxed() -> None:
    vary = ["setting.synchronous_commit=on,off", "relaxed=false,true"]
    rows = read_matrix(None, vary, target=True, seed=1).rows
    assert [row.relaxed for row in rows] == [False, True, False, True]
    assert rows[-1].settings == {"synchronous_commit": "off"}
    assert {row.lab for row in rows} == {None}


@pytest.mark.parametrize(
    ("text", "named"),
    [
        pytest.param("rows = [", "TOML", id="no TOML"),
        pytest.param(HEAD, "no rows", id="no rows"),
        pytest.param("colour = 1\n", "colour", id="unknown key"),
        pytest.param("cuts = 0\n" + HEAD + "[[rows]]\n", "cuts is 0", id="no cuts"),
        pytest.param("cuts = 1.5\n", "cuts is 1.5", id="half a cut"),
        pytest.param('[[rows]]\nname = "a"\n', "a: engine is missing", id="no engine"),
        pytest.param(HEAD + "[[rows]]\ndisk = 1\n", "row 1: unknown", id="row's key"),
        pytest.param(HEAD + "[[rows]]\nflush_ms = 60001\n", "flush_ms", id="too slow"),
        pytest.param("sessions = 4097\n" + HEAD, "sessions is 4097", id="sessions"),
        pytest.param(
            HEAD + "[[rows]]\nsettings = { x = [1] }\n", "row 1: settings", id="a list"
        ),
        pytest.param(HEAD + '[[rows]]\ndrive = "new"\n', "'new'", id="no such drive"),
        pytest.param(
            HEAD + "[[rows]]\nflush_ms = -1\n", "flush_ms is -1", id="negative"
        ),
        pytest.param(
            HEAD + "[[rows]]\nflush_ms = nan\n", "flush_ms is nan", id="no number"
        ),
        pytest.param(
            HEAD + "[[rows]]\nflush_ms = true\n", "flush_ms is True", id="a truth value"
        ),
        pytest.param(
            HEAD + '[[rows]]\ncache_mib = "a"\n', "cache_mib is 'a'", id="a word"
        ),
        pytest.param(
            HEAD + '[[rows]]\nexpect = "MAYBE"\n', "expect is 'MAYBE'", id="no verdict"
        ),
        pytest.param(HEAD + "[[rows]]\nsettings = 3\n", "settings is 3", id="no table"),
        pytest.param(HEAD + "[[rows]]\nrelaxed = true\n", "relaxed", id="a target's"),
        pytest.param(
            HEAD.replace("postgresql", "oracle").replace("process", "auto")
            + "[[rows]]\n",
            "oracle",
            id="no such engine",
        ),
    ],
)
def test_what_is_wrong_is_named(text: str, named: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=named):
        read(tmp_path, text)


def test_a_misspelled_key_and_value_are_named_with_the_nearest(tmp_path: Path) -> None:
    with refused(ErrorId.KEY_UNKNOWN, UsageError, naming="own.toml, row 1") as caught:
        read(tmp_path, HEAD + "[[rows]]\nflush_msec = 1\n")
    assert caught.value.hint == "Is it flush_ms?"
    with refused(
        ErrorId.VALUE_INVALID, UsageError, naming=("row 1", "drive", "lieing")
    ) as caught:
        read(tmp_path, HEAD + '[[rows]]\ndrive = "lieing"\n')
    assert (
        "lying, fickle, failing, reordering, write-through. Is it lying?"
        in caught.value.hint
    )


def test_settings_keep_the_characters_that_were_given() -> None:
    vary = ["setting.x=0.10,true,1,on"]
    rows = read_matrix(None, vary, target=True, seed=1).rows
    assert [row.settings["x"] for row in rows] == ["0.10", "true", "1", "on"]


@pytest.mark.parametrize(
    ("vary", "named", "id"),
    [
        (["drive"], "has no values", ErrorId.VARIATION_INVALID),
        (["=a"], "has no values", ErrorId.VARIATION_INVALID),
        (["fs=xfs", "fs=ext4"], "twice", ErrorId.VARIATION_INVALID),
        (["relaxed=perhaps"], "relaxed is 'perhaps'", ErrorId.VALUE_INVALID),
    ],
)
def test_a_wrong_option_is_named(vary: list[str], named: str, id: ErrorId) -> None:
    with refused(id, UsageError, naming=named):
        read_matrix(None, vary, target=True, seed=1)


def test_a_matrix_that_is_not_there_is_told_with_those_that_are() -> None:
    with refused(ErrorId.FILE_NOT_READABLE, UsageError, naming="nowhere") as caught:
        read_matrix("nowhere", (), target=False, seed=1)
    assert "percona-2009" in caught.value.hint


def test_settings_of_a_session_stand_in_the_url() -> None:
    url = "postgresql+psycopg2://me@db/x?options=-c%20a%3D1&sslmode=require"
    written = add_session_settings(url, {"b": "two words"}, POSTGRESQL)
    assert "sslmode=require" in written
    assert "options=-c+a%3D1+-c+b%3Dtwo%5C+words" in written


def test_mysql_has_no_such_settings() -> None:
    with refused(
        ErrorId.SETTING_NOT_FOR_SESSION, UsageError, naming="sync_binlog"
    ) as caught:
        add_session_settings(
            "mysql+mysqlconnector://me@db/x", {"sync_binlog": "0"}, MYSQL
        )
    assert "relaxed" in caught.value.hint


def test_no_two_rows_have_one_name(tmp_path: Path) -> None:
    """Prometheus identifies a row by its name alone."""
    named = '[[rows]]\nname = "a"\n'
    text = HEAD + named * 2 + '[[rows]]\nname = "a (2)"\n[[rows]]\nname = "row 5"\n'
    names = [row.name for row in read(tmp_path, text + "[[rows]]\n").rows]
    assert names == ["a", "a (2)", "a (2) (2)", "row 5", "row 5 (2)"]
    varied = read(tmp_path, HEAD + "[[rows]]\n", ["setting.x=1,1"]).rows
    assert [row.name for row in varied] == ["x=1", "x=1 (2)"]


RESTORED = '[defaults]\nengine = "postgresql"\nrestore = "archive"\n[[rows]]\n'


def test_a_row_names_the_way_to_copy(tmp_path: Path) -> None:
    named, bare = read(tmp_path, f'{RESTORED}[[rows]]\nrestore = ""\n').rows
    assert (named.restore, bare.restore) == ("archive", "")
    varied = read(tmp_path, RESTORED, ["restore=dump,files"]).rows
    assert [row.restore for row in varied] == ["dump", "files"]


@pytest.mark.parametrize(
    ("more", "id", "naming"),
    [
        ('restore = "tape"', ErrorId.VALUE_INVALID, ("row 1", "tape")),
        (
            'restore = "clone"',
            ErrorId.RESTORE_METHOD_NOT_FOR_ENGINE,
            ("row 1", "clone"),
        ),
        ("nodes = 2", ErrorId.OPTIONS_CONFLICT, ("row 1", "nodes")),
        ("log_drive = true", ErrorId.OPTIONS_CONFLICT, ("row 1", "--log-drive")),
        ('workload = "mixed"', ErrorId.WORKLOAD_NOT_FOR_COPY, ("row 1", "mixed")),
    ],
)
def test_a_row_that_cannot_be_copied_is_refused_before_any_lab(
    tmp_path: Path, more: str, id: ErrorId, naming: tuple[str, ...]
) -> None:
    with refused(id, UsageError, naming=naming):
        read(tmp_path, RESTORED + more)


def test_a_target_is_no_lab_whose_server_is_copied(tmp_path: Path) -> None:
    with refused(ErrorId.KEY_UNKNOWN, UsageError, naming=("restore",)):
        read(tmp_path, '[[rows]]\nrestore = "dump"\n', target=True)
