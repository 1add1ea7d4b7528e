from __future__ import annotations

from pathlib import Path

import pytest

from dbcheck.errors import UsageError
from dbcheck.secret import Secret


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
        (Secret("password", "command", ("cat", str(file))), "no UTF-8"),
        (Secret("password", "command", ("false",)), "exited with 1"),
        (Secret("password", "command", ("true",)), "printed nothing"),
        (Secret("password", "command", ("nosuchprogram",)), "cannot be run"),
    ):
        with pytest.raises(UsageError, match=said) as caught:
            secret.read()
        assert "hunter2" not in str(caught.value)
