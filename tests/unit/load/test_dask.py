"""The address of a Dask scheduler, and a Python that has no Dask."""

from __future__ import annotations

import sys

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.load import dask_cluster
from tests.kit.refusals import refused


@pytest.mark.parametrize("address", ["tcp://10.0.0.1:8786", "tls://[::1]:1"])
def test_an_address_is_taken_as_it_is(address: str) -> None:
    assert dask_cluster.require_address("--load-workers", address) == address


@pytest.mark.parametrize(
    "address",
    [
        *("", "10.0.0.1:8786", "http://10.0.0.1:8786", "tcp://10.0.0.1"),
        *("tcp://:8786", "tcp://a:99999", "tcp://a:b", "tcp://a:1/x", "tcp://a:1?x=1"),
        "tcp://me:hunter2@a:1",
    ],
)
def test_another_text_is_refused(address: str) -> None:
    with refused(
        ErrorId.SCHEDULER_ADDRESS_INVALID, UsageError, naming="--load-workers"
    ):
        dask_cluster.require_address("--load-workers", address)


def test_without_distributed_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with (
        refused(ErrorId.DASK_NOT_INSTALLED, UsageError) as caught,
        dask_cluster.connect_client("tcp://127.0.0.1:1"),
    ):
        pass
    assert "pip install -r constraints/fleet.txt" in caught.value.hint
