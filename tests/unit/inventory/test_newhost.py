"""An inventory that dbcheck init writes is one that dbcheck reads, with its values."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.config import files
from dbcheck.inventory.newhost import (
    INVENTED,
    MANUAL,
    NAME,
    NewHost,
    format_inventory,
    list_switches,
    parse_inventory,
    suggest_name,
)
from dbcheck.model.cut import SwitchKind
from tests.kit.inventories import loaded
from tests.kit.refusals import refused

FILE = Path("hosts.yml")
LINES_MAX = 14  # of a host without a switch, with the four of the comment


def test_a_host_by_hand_takes_a_few_lines_and_keeps_its_values() -> None:
    host = NewHost(
        "db7",
        target="mysql+mysqlconnector://me@db7.example.net:3307/x",
        witness="ssh://w@w.example.net:2200/~/acks",
        host="ssh://root@db7.example.net:2222",
        witness_identity=Path("/keys/w"),
        witness_known_hosts=Path("/keys/known"),
    )
    text = format_inventory(host)
    assert len(text.splitlines()) <= LINES_MAX + 2  # of its two files
    entry = parse_inventory(text, "db7", FILE)
    assert (entry.target, entry.witness) == (host.target, host.witness)
    assert entry.host == host.host
    assert (entry.witness_identity, entry.witness_known_hosts) == (
        host.witness_identity,
        host.witness_known_hosts,
    )
    assert entry.power.kind is SwitchKind.MANUAL


@pytest.mark.parametrize("switch", list_switches())
def test_each_switch_gives_an_inventory_that_is_read(
    switch: str, tmp_path: Path
) -> None:
    text = format_inventory(replace(INVENTED, switch=switch))
    entry = loaded(tmp_path, text).entry(NAME)
    assert entry.target == INVENTED.target
    assert (entry.power.kind is SwitchKind.MANUAL) is (switch == MANUAL)
    if switch != MANUAL:
        of_recipe = loaded(tmp_path, files.make_switch_inventory(switch)).entry(NAME)
        assert entry.power == of_recipe.power


@pytest.mark.parametrize(
    ("host", "read"),
    [
        ("", ""),
        ("local:", "local:"),
        ("ssh://db1.example.net", "ssh://db1.example.net"),
        ("ssh://root@[2001:db8::1]:22", "ssh://root@[2001:db8::1]:22"),
    ],
)
def test_the_way_to_the_host_is_kept(host: str, read: str) -> None:
    text = format_inventory(replace(INVENTED, host=host))
    assert parse_inventory(text, NAME, FILE).host == read


@pytest.mark.parametrize(
    ("target", "host", "name"),
    [
        ("postgresql://u@db7.example.net/x", "", "db7"),
        ("postgresql://u@vip.example.net/x", "ssh://root@db8.example.net", "db8"),
        ("postgresql://u@10.0.0.1/x", "ssh://root@10.0.0.1", NAME),
        ("postgresql://u@[2001:db8::1]/x", "local:", NAME),
        ("postgresql://u@localhost/x", "", NAME),
        ("postgresql:///x?host=/run", "", NAME),
        ("postgresql://u@all.example.net/x", "", NAME),
        ("postgresql://u@db-.example.net/x", "", NAME),
        ("postgresql://u@no.example.net/x", "", "no"),
    ],
)
def test_a_name_is_suggested(target: str, host: str, name: str) -> None:
    assert suggest_name(target, host) == name


@pytest.mark.parametrize(
    "name",
    ["", "db[1:3]", "-db", "db-", "db.", "a b", "db:1", "all", "ungrouped", "a" * 300],
)
def test_a_name_that_an_inventory_reads_otherwise_is_refused(name: str) -> None:
    with refused(ErrorId.VALUE_INVALID, UsageError):
        format_inventory(replace(INVENTED, name=name))


@pytest.mark.parametrize(
    ("host", "id"),
    [
        ("ssh://root:secret@db1", ErrorId.URL_HOLDS_PASSWORD),
        ("ssh://root@db1/folder", ErrorId.HOST_ADDRESS_INVALID),
        ("db1", ErrorId.HOST_ADDRESS_INVALID),
    ],
)
def test_the_url_of_a_host_is_checked(host: str, id: ErrorId) -> None:
    with refused(id, UsageError) as caught:
        format_inventory(replace(INVENTED, host=host))
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "name", ["on", "no", "null", "True", "12", "0x1f", "1_000", "1.5", "2026-01-01"]
)
def test_a_name_that_yaml_takes_for_no_text_is_quoted(name: str) -> None:
    entry = parse_inventory(format_inventory(replace(INVENTED, name=name)), name, FILE)
    assert (entry.name, entry.target) == (name, INVENTED.target)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "a'b",
            'a"b',
            "''",
            "a#b",
            " #x",
            "a: b",
            ": ",
            "*a",
            "&a",
            "!x",
            "%41",
            "\\",
        ),
        *("a ", "~", "|", ">", "- x", "[x]", "{x}", ", x", "`", "@", "?x", "$HOME"),
        *("x\ny", "\n", "\t", "\r", "é", "\U0001f600", "\u2028", "\x85", "\xa0"),
    ],
)
def test_any_text_comes_back_exactly(text: str) -> None:
    host = replace(
        INVENTED,
        target=f"postgresql://u@h/d{text}",
        witness=f"file:/w/{text}/x",
        witness_identity=Path(f"/k/{text}"),
    )
    entry = parse_inventory(format_inventory(host), NAME, FILE)
    assert (entry.target, entry.witness, entry.witness_identity) == (
        host.target,
        host.witness,
        host.witness_identity,
    )


@pytest.mark.parametrize("variable", ["target", "witness", "witness_identity"])
@pytest.mark.parametrize(
    ("text", "id"),
    [
        ("{{ inventory_hostname }}", ErrorId.INVENTORY_TEMPLATE_NOT_SUPPORTED),
        ("{{x}}", ErrorId.INVENTORY_TEMPLATE_NOT_SUPPORTED),
        ("{% raw %}", ErrorId.INVENTORY_TEMPLATE_NOT_SUPPORTED),
        ("\x1b", ErrorId.VALUE_INVALID),
        ("\ufeff", ErrorId.VALUE_INVALID),
        ("\udcff", ErrorId.VALUE_INVALID),
    ],
)
def test_a_text_that_would_be_read_as_another_is_refused(
    variable: str, text: str, id: ErrorId
) -> None:
    value = f"file:/secret{text}"
    given: Any = Path(value) if variable == "witness_identity" else value
    with refused(id, UsageError, naming=f"dbcheck_{variable}") as caught:
        format_inventory(replace(INVENTED, **{variable: given}))
    assert "secret" not in str(caught.value)
