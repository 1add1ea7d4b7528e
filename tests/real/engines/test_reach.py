"""Whether something listens where a server is reached."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError
from dbcheck.engines.peer import accepts


@pytest.fixture
def port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def test_a_server_that_listens_at_one_of_its_hosts_accepts(port: int) -> None:
    assert accepts(lambda: [("127.0.0.2", port), ("127.0.0.1", port)])
    assert not accepts(lambda: [("127.0.0.2", port)])


@pytest.mark.parametrize(
    ("host", "number"),
    [
        ("", 5432),
        ("no-such-host.invalid", 5432),
        ("x..y", 5432),
        ("x" * 64 + ".invalid", 5432),
    ],
)
def test_a_server_that_cannot_be_asked_may_be_on(host: str, number: int) -> None:
    assert accepts(lambda: [(host, number)])


def test_a_server_whose_place_is_not_known_may_be_on() -> None:
    def unknown() -> list[tuple[str, int]]:
        raise EngineError("no service file", id=ErrorId.TARGET_URL_OPTION_INVALID)

    assert accepts(unknown)


@pytest.mark.parametrize(
    ("errors", "accepted"),
    [
        ([OSError(errno.EMFILE, "Too many open files")], True),
        ([OSError(errno.EPERM, "Operation not permitted")], True),
        ([OSError(errno.EHOSTUNREACH, "No route to host")], False),
        ([TimeoutError("timed out")], False),
        ([TimeoutError("timed out"), OSError(errno.ECONNREFUSED, "refused")], False),
        ([OSError(errno.EACCES, "denied"), OSError(errno.ECONNREFUSED, "no")], True),
        ([OSError(errno.ECONNREFUSED, "no"), OSError(errno.EACCES, "denied")], True),
    ],
)
def test_only_what_a_host_that_is_off_answers_counts(
    errors: list[OSError], accepted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At each address of its name."""

    def connect(*_: object, **__: object) -> socket.socket:
        raise ExceptionGroup("at each address", errors)

    monkeypatch.setattr(socket, "create_connection", connect)
    assert accepts(lambda: [("db1", 5432)]) is accepted


def test_each_address_of_a_name_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of a family that this system does not have is not known to be off."""
    off = (socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.2", 1))
    unknown = (socket.AF_APPLETALK, socket.SOCK_STREAM, 0, "", ("x", 1))
    for found in ([off, unknown], [unknown, off]):
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, f=found: f)
        assert accepts(lambda: [("db1", 5432)])
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_: [off, off])
    assert not accepts(lambda: [("db1", 5432)])
