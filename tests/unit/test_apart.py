"""Which ids are of one host."""

from __future__ import annotations

import pytest

from dbcheck.campaign import independence
from dbcheck.core.apart import Apart, same_host
from dbcheck.errors import UsageError
from dbcheck.judge.item import Standing
from dbcheck.judge.witness import witness_apart
from dbcheck.ports.witness import HostFacts
from tests.kit.cases import case


@pytest.mark.parametrize(
    ("ours", "theirs", "same"),
    [
        pytest.param(("m", "b"), ("m", "b"), True, id="one host"),
        pytest.param(("m", "b"), ("n", "b"), True, id="containers of one kernel"),
        pytest.param(("m", "b"), ("m", "c"), False, id="clones of one image"),
        pytest.param(("m", ""), ("m", "b"), True, id="a boot id unknown"),
        pytest.param(("m", ""), ("n", "b"), False, id="other machine ids"),
        pytest.param(("", ""), ("m", "b"), None, id="nothing known"),
        pytest.param(("m", ""), ("", "b"), None, id="nothing in common"),
    ],
)
def test_same_host(
    ours: tuple[str, str], theirs: tuple[str, str], same: bool | None
) -> None:
    assert same_host(ours, theirs) is same
    assert same_host(theirs, ours) is same


def test_it_is_said_where_only_addresses_were_compared() -> None:
    item = witness_apart(case(apart=Apart.ADDRESSES))
    assert item is not None
    assert item.standing is Standing.NOT_OBSERVABLE
    assert "only addresses" in item.reason
    item = witness_apart(case(apart=Apart.IDS))
    assert item is not None
    assert item.standing is Standing.PRESENT


@pytest.mark.parametrize(
    ("kind", "machine", "boot", "refused"),
    [
        pytest.param("ssh", "m", "b", True, id="this host"),
        pytest.param("ssh", "n", "b", True, id="a container of this kernel"),
        pytest.param("ssh", "m", "c", False, id="a clone of this host's image"),
        pytest.param("ssh", "m", "", True, id="the boot id is unknown"),
        pytest.param("file", "n", "c", True, id="a folder here"),
    ],
)
def test_a_witness_beside_a_local_target_is_refused(
    kind: str, machine: str, boot: str, refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(independence, "machine_id", lambda: "m")
    monkeypatch.setattr(independence, "boot_id", lambda: "b")
    witness = HostFacts("w", machine, boot, frozenset(), "/w", "xfs", 1, 1)
    target = "postgresql+psycopg2://u@127.0.0.1/x"
    if refused:
        with pytest.raises(UsageError, match="on the target's own host"):
            independence.require_independent(target, kind, witness)
    else:
        assert independence.require_independent(target, kind, witness)


@pytest.mark.parametrize(
    ("addresses", "refused"),
    [
        pytest.param({"192.0.2.9", "127.0.0.1"}, "on the target's own host", id="here"),
        pytest.param({"192.0.2.9", "what"}, "", id="elsewhere"),
        pytest.param(set(), "neither ids nor addresses", id="unknown"),
    ],
)
def test_without_ids_addresses_show_whether_a_witness_is_here(
    addresses: set[str], refused: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(independence, "machine_id", lambda: "")
    monkeypatch.setattr(independence, "boot_id", lambda: "")
    witness = HostFacts("w", "", "", frozenset(addresses), "/w", "apfs", 1, 1)
    target = "postgresql+psycopg2://u@127.0.0.1/x"
    if refused:
        with pytest.raises(UsageError, match=refused):
            independence.require_independent(target, "ssh", witness)
    else:
        assert independence.require_independent(target, "ssh", witness)


def test_a_witness_without_addresses_is_compared_with_nothing() -> None:
    witness = HostFacts("w", "", "", frozenset(), "/w", "apfs", 1, 1)
    said = independence.require_independent(
        "postgresql+psycopg2://u@192.0.2.7/x", "ssh", witness
    )
    assert "nothing was compared" in said
