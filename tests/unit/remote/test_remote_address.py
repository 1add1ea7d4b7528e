"""The URL of a host, and of a witness, read in one place."""

from __future__ import annotations

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.remote.address import Address, parse_ssh_url
from dbcheck.remote.way import find_way
from tests.kit.refusals import refused


@pytest.mark.parametrize(
    ("url", "address", "path"),
    [
        ("ssh://db1", Address("db1"), ""),
        # "Host DB1" in the user's configuration is another than "Host db1".
        ("ssh://me@DB1:22/", Address("DB1", "me", 22), "/"),
        ("ssh://me@[::1]:22", Address("::1", "me", 22), ""),
        ("ssh://me%40corp@db1", Address("db1", "me@corp"), ""),
        ("ssh://me@corp@db1:", Address("db1", "me@corp"), ""),
        ("ssh://db1/~/a%20b", Address("db1"), "/~/a b"),
    ],
)
def test_a_url_names_user_host_port_and_path(
    url: str, address: Address, path: str
) -> None:
    assert parse_ssh_url(url, "a host", "") == (address, path)


@pytest.mark.parametrize(
    ("url", "why", "id"),
    [
        ("ssh://me:geheim@db1", "must hold no password", ErrorId.URL_HOLDS_PASSWORD),
        ("ssh://me:gehe/im@db1", "cannot be read", ErrorId.HOST_ADDRESS_INVALID),
        ("ssh://db1:99999", "cannot be read", ErrorId.HOST_ADDRESS_INVALID),
        ("ssh://[db1", "cannot be read", ErrorId.HOST_ADDRESS_INVALID),
        ("ssh://me@", "no host in", ErrorId.HOST_ADDRESS_INVALID),
        (
            "ssh://db1?password=geheim",
            "more than host and path",
            ErrorId.HOST_ADDRESS_INVALID,
        ),
        (
            "http://db1?password=geheim",
            "not a host: 'http://db1'",
            ErrorId.HOST_ADDRESS_INVALID,
        ),
        (
            "ssh:///x?password=geheim",
            "no host in 'ssh:///x'",
            ErrorId.HOST_ADDRESS_INVALID,
        ),
        ("http://me:geheim@db1", "must hold no password", ErrorId.URL_HOLDS_PASSWORD),
        ("me:geheim@db1", "not a host: 'db1'", ErrorId.HOST_ADDRESS_INVALID),
        ("ssh://db1/folder", "a path after the host", ErrorId.HOST_ADDRESS_INVALID),
        ("ssh://db\t1", "cannot be read", ErrorId.HOST_ADDRESS_INVALID),
        ("ssh://db1\n", "cannot be read", ErrorId.HOST_ADDRESS_INVALID),
        ("ss\rh://db1", "cannot be read", ErrorId.HOST_ADDRESS_INVALID),
    ],
)
def test_any_other_url_of_a_host_is_refused(url: str, why: str, id: ErrorId) -> None:
    with refused(id, UsageError, naming=why) as caught:
        find_way(url)
    assert "gehe" not in str(caught.value) + caught.value.hint


@pytest.mark.parametrize(
    "url",
    [
        *(f"ssh://me@db{one}1" for one in "'`\"$\\;&<>|(){}, \x7f"),
        *(f"ssh://m{one}e@db1" for one in ("'", "`", ";", "&", "|", "(", "{", "%0a")),
        *("ssh://-oProxyCommand=x", "ssh://-oX=y@db1", "ssh://me%20-oX@db1"),
        "ssh://me%5C@db1",
    ],
)
def test_what_a_shell_would_obey_is_in_no_address(url: str) -> None:
    for parse in (find_way, lambda given: parse_ssh_url(given, "a witness", "")):
        with refused(ErrorId.HOST_ADDRESS_INVALID):
            parse(url)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("ssh://-oX=y", "the name of the host '-oX=y' begins with '-'"),
        ("ssh://db$1", "the name of the host 'db$1' holds '$'"),
        ("ssh://-gehe@db1", "the name of the user for the host 'db1' begins with '-'"),
        ("ssh://ge%20-he@db1", "the name of the user for the host 'db1' holds ' -'"),
    ],
)
def test_the_error_says_what_is_wrong_in_an_address(url: str, why: str) -> None:
    with refused(ErrorId.HOST_ADDRESS_INVALID, UsageError, naming=why) as caught:
        find_way(url)
    assert "gehe" not in str(caught.value)
    assert "in the command, the inventory or ssh_config" in caught.value.hint


def test_a_user_may_have_a_domain() -> None:
    assert Address.parse("CORP\\me@db1") == Address("db1", "CORP\\me")
    assert Address("fe80::1%eth0", "me$").host == "fe80::1%eth0"
