from __future__ import annotations

import os
from pathlib import Path

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.config.secret import Secret
from dbcheck.runner.assemble import make_engine
from tests.kit.files import STRANGER, let_write
from tests.kit.refusals import refused


def test_a_secret_is_read_from_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "secret"
    file.write_text("hunter2\nmore\n")
    file.chmod(0o600)
    monkeypatch.setenv("THE_SECRET", "hunter2")
    for secret in (
        Secret("password", "env", ("THE_SECRET",)),
        Secret("password", "file", (str(file),)),
        Secret("password", "command", ("cat", str(file))),
    ):
        assert secret.read() == "hunter2"
        assert "hunter2" not in repr(secret)


def test_what_cannot_be_read_is_said_without_it(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_bytes(b"hunter2\xff\n")
    file.chmod(0o644)
    empty = tmp_path / "empty"
    empty.touch(0o600)
    for secret, said in (
        (Secret("password", "env", ("NO_SUCH_VARIABLE",)), "not set"),
        (Secret("password", "file", (str(file),)), "mode 644"),
        (Secret("password", "file", (str(empty),)), "empty"),
        (Secret("password", "file", (str(tmp_path / "no"),)), "No such file"),
        (Secret("password", "command", ("cat", str(file))), "not UTF-8"),
        (Secret("password", "command", ("printf", r"hunter2\0")), "zero byte"),
        (Secret("password", "command", ("false",)), "exited with 1"),
        (Secret("password", "command", ("true",)), "printed nothing"),
        (Secret("password", "command", ("nosuchprogram",)), "cannot be run"),
    ):
        with pytest.raises(UsageError, match=said) as caught:
            secret.read()
        assert "hunter2" not in str(caught.value)


def test_a_variable_that_is_not_utf_8_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It would reach a driver or a fence agent as what no text can hold."""
    monkeypatch.setitem(os.environb, b"THE_SECRET", b"hunter2\xff")
    with refused(ErrorId.SECRET_NOT_UTF8, UsageError, naming="THE_SECRET") as caught:
        Secret("password", "env", ("THE_SECRET",)).read()
    assert "hunter2" not in str(caught.value)
    monkeypatch.setitem(os.environb, b"DBCHECK_PASSWORD", b"hunter2\xff")
    with refused(
        ErrorId.SECRET_NOT_UTF8, UsageError, naming="DBCHECK_PASSWORD"
    ) as caught:
        make_engine("postgresql://dbcheck@db1/dbcheck", None)
    assert "hunter2" not in str(caught.value)


@pytest.mark.timeout(10)
def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe, 0o600)
    for path in (pipe, Path("/dev/zero")):
        with refused(
            ErrorId.SECRET_FILE_UNREADABLE, UsageError, naming="not a regular file"
        ):
            Secret("password", "file", (str(path),)).read()


@pytest.mark.root
def test_a_file_of_another_user_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But not one of the user who called sudo."""
    monkeypatch.delenv("SUDO_UID", raising=False)
    file = tmp_path / "secret"
    file.write_text("hunter2\n")
    file.chmod(0o600)
    os.chown(file, STRANGER, -1)
    secret = Secret("password", "file", (str(file),))
    with refused(
        ErrorId.SECRET_FILE_NOT_PRIVATE, UsageError, naming=f"(uid {STRANGER})"
    ):
        secret.read()
    monkeypatch.setenv("SUDO_UID", str(STRANGER))
    assert secret.read() == "hunter2"


@pytest.mark.root
def test_root_may_show_a_file_to_this_user_alone(tmp_path: Path) -> None:
    """Through a group without others, as that of a Secret of Kubernetes."""
    file = tmp_path / "secret"
    file.write_text("hunter2\n")
    file.chmod(0o440)
    os.chown(file, 0, 0)  # of root's group, which has root alone
    secret = Secret("password", "file", (str(file),))
    assert secret.read() == "hunter2"
    for group, mode in ((STRANGER, 0o440), (0, 0o460), (0, 0o444)):
        os.chown(file, 0, group)
        file.chmod(mode)
        with refused(ErrorId.SECRET_FILE_NOT_PRIVATE, naming=f"mode {mode:o}"):
            secret.read()
    file.chmod(0o440)
    let_write(file, STRANGER)
    with refused(ErrorId.SECRET_FILE_NOT_PRIVATE):
        secret.read()
