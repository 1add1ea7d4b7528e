from __future__ import annotations

import os

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.remote.address import Address
from dbcheck.remote.way import find_way
from dbcheck.witness.url import open_witness
from dbcheck.witness.witness import FileWitness, SshWitness
from tests.kit.refusals import refused


@pytest.mark.parametrize(
    ("url", "address", "folder"),
    [
        ("ssh://host/a/b", Address("host"), "/a/b"),
        ("ssh://me@host:2222/a/", Address("host", "me", 2222), "/a"),
        ("ssh://me@host/~/a", Address("host", "me"), "/~/a"),
        ("ssh://[2001:db8::7]:22/a%20b", Address("2001:db8::7", None, 22), "/a b"),
    ],
)
def test_an_ssh_url_names_user_host_port_and_folder(
    url: str, address: Address, folder: str
) -> None:
    witness = open_witness(url)
    assert isinstance(witness, SshWitness)
    assert (witness.kind, witness.url) == ("ssh", url)
    assert (witness._host.address, witness._folder) == (address, folder)


@pytest.mark.parametrize(
    ("url", "folder"),
    [
        ("file:/a/b", "/a/b"),
        ("file:///a/b", "/a/b"),
        ("file:logs", os.path.abspath("logs")),
        ("file:~/logs", os.path.expanduser("~/logs")),
        ("file:./~/logs", os.path.abspath("~/logs")),
    ],
)
def test_a_file_url_names_a_folder(url: str, folder: str) -> None:
    witness = open_witness(url)
    assert isinstance(witness, FileWitness)
    assert (witness.kind, witness.url, witness._folder) == ("file", url, folder)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "host:/folder",
        "http://host/folder",
        "ssh://host",
        "ssh://host/",
        "ssh:///folder",
        "ssh://host:port/folder",
        "ssh://host:99999/folder",
        "ssh://[host/folder",
        "ssh://host/folder?x=1",
        "ssh://host/folder#x",
        "ssh://host/a%0ab",
        "file:",
        "file://host/folder",
        "file:a#b",
        "file:~no-such-user/folder",
    ],
)
def test_nonsense_is_refused_with_a_hint(url: str) -> None:
    with pytest.raises(
        UsageError, match="not a |no (folder|host)|cannot|more than host"
    ) as caught:
        open_witness(url)
    assert "ssh://[user@]host[:port]/folder" in caught.value.hint


def test_a_password_is_refused_and_not_shown() -> None:
    with refused(
        ErrorId.URL_HOLDS_PASSWORD, UsageError, naming="must hold no password"
    ) as caught:
        open_witness("ssh://me:geheim@host/folder")
    assert "geheim" not in str(caught.value) + caught.value.hint


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("host", Address("host")),
        ("me@host", Address("host", "me")),
        ("me@host:22", Address("host", "me", 22)),
        ("[::1]", Address("::1")),
        ("[::1]:22", Address("::1", None, 22)),
    ],
)
def test_an_address_is_read(text: str, address: Address) -> None:
    assert Address.parse(text) == address


@pytest.mark.parametrize("text", ["", "me@", "host:x", ":22"])
def test_an_address_that_is_none_is_refused(text: str) -> None:
    with refused(
        ErrorId.HOST_ADDRESS_INVALID, UsageError, naming="not a host to connect to"
    ):
        Address.parse(text)


@pytest.mark.parametrize(
    "url",
    [
        *("ssh://me:hunter2@host", "ssh://me:hun/ter2@host:22", "ssh://:hunter2@host"),
        *("me:hunter2@host", "ssh:me:hunter2@host", "http://me:hunter2@host"),
        "ssh://[me:hunter2@host]",
    ],
)
def test_a_password_in_the_url_of_a_host_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(UsageError, match="host") as caught:
        find_way(url)
    assert "ter2" not in str(caught.value) + caught.value.hint


@pytest.mark.parametrize(
    "url", ["ssh://me:hun/ter2@host/folder", "me:hunter2@host:/folder"]
)
def test_a_password_that_breaks_the_url_of_a_witness_is_not_repeated(url: str) -> None:
    with refused(ErrorId.HOST_ADDRESS_INVALID, UsageError, naming="witness") as caught:
        open_witness(url)
    said = str(caught.value) + caught.value.hint
    assert "hun" not in said and "ter2" not in said
