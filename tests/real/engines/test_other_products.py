"""CockroachDB and YugabyteDB, which cannot run here: a stand-in says what they say.

What it says at a login is theirs: version and parameters as their documents have them,
and as clients of both print them.  It answers no statement, and must be asked none.
"""

from __future__ import annotations

import json
import shutil
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import OtherProduct
from dbcheck.cli import FAILED
from dbcheck.cli.root import run
from dbcheck.config.workload_file import load
from dbcheck.engines.postgresql.engine import PostgresqlEngine
from dbcheck.rows.plans.plan import INSERT
from dbcheck.rows.plans.registry import usage_of
from tests.kit.hostile import PgPeer, hostile
from tests.kit.refusals import refused
from tests.kit.waiting import wait_until
from tests.runs import make

Command = Callable[..., tuple[int, str]]
RUN = Path(make.__file__).parent / "postgresql-pass"
SAID = {
    "CockroachDB 26.2.0": {
        "server_version": "13.0.0",
        "crdb_version": "CockroachDB CCL v26.2.0 (x86_64-unknown-linux-gnu, built"
        " 2026/05/04 16:18:24, go1.25.5)",
    },
    "YugabyteDB 2025.1.0.0": {"server_version": "15.12-YB-2025.1.0.0-b0"},
}
SENTENCE = "is {}, not PostgreSQL: dbcheck judges PostgreSQL, MySQL and MariaDB only"
HINT = "Name a server of PostgreSQL, MySQL or MariaDB in the URL."
TERMINATE = (b"X", b"")
CLIENTS = 8  # more than any command connects here
INVENTORY = """
all:
  hosts:
    db1:
      dbcheck_target: {target}
      dbcheck_witness: file:{folder}/witness
      dbcheck_ask_host: false
      dbcheck_power: exec
      dbcheck_power_state: [echo, "on"]
      dbcheck_power_cut: [touch, {folder}/cut]
      dbcheck_power_restore: ["true"]
"""


class StandIn:
    """A server of that *product*, and what it was sent after each login."""

    def __init__(self, product: str) -> None:
        self.product = product
        self.sentence = SENTENCE.format(product)
        self.heard: list[tuple[bytes, bytes]] = []
        self.url = ""
        self.clients = self.left = 0

    def answer(self, client: socket.socket) -> None:
        """Let a client in, and note what else it sends."""
        client.settimeout(10)
        peer = PgPeer(client)
        self.clients += 1
        try:
            peer.greet(**SAID[self.product])
            while True:
                peer.receive()
        except ConnectionError:
            self.heard += peer.heard
        finally:
            self.left += 1

    def require_untouched(self) -> None:
        """Fail unless clients logged in and left at once."""
        wait_until(lambda: 0 < self.clients == self.left, "each client to leave")
        assert self.heard == [TERMINATE] * self.clients


@pytest.fixture(params=sorted(SAID))
def stand_in(request: pytest.FixtureRequest) -> Iterator[StandIn]:
    found = StandIn(request.param)
    with hostile(found.answer, CLIENTS) as port:
        found.url = f"postgresql://eve@127.0.0.1:{port}/orders?sslmode=disable"
        yield found


@pytest.fixture
def dbcheck(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> Command:
    """Run a command in the test's folder; return its exit code and all it printed."""
    monkeypatch.chdir(tmp_path)

    def command(*words: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["dbcheck", *words])
        code = run()
        printed = capfd.readouterr()
        return code, printed.out + printed.err

    return command


@pytest.mark.parametrize(
    "words",
    [
        "audit --target {url}",
        "probe flushes --target {url} --target-host local:",
        "probe latency --target {url} --target-host local:",
        "run --target {url} --witness file:witness",
        "campaign db1 --cuts 1 --i-know",
        "power cut db1 --i-know",
        "reconcile run --target {url} --witness file:witness",
        "matrix --target {url} --witness file:witness",
        "clean --target {url}",
    ],
)
def test_each_command_refuses_it_with_one_sentence(
    words: str, stand_in: StandIn, tmp_path: Path, dbcheck: Command
) -> None:
    text = INVENTORY.format(target=stand_in.url, folder=tmp_path)
    (tmp_path / "inventory.yml").write_text(text)
    store_unread_run(tmp_path)
    code, said = dbcheck(*words.format(url=stand_in.url).split())
    said = " ".join(said.split())
    assert code == FAILED, said
    assert stand_in.sentence in said and HINT in said
    assert said.count("not PostgreSQL") == 1
    stand_in.require_untouched()
    assert not (tmp_path / "cut").exists()


def test_the_result_of_an_audit_has_the_id(stand_in: StandIn, dbcheck: Command) -> None:
    code, said = dbcheck("audit", "--target", stand_in.url, "--json")
    assert code == FAILED
    (found,) = json.loads(said)["targets"]
    assert stand_in.sentence in found["error"]
    assert found["error_id"] == ErrorId.SERVER_NOT_SUPPORTED
    assert found["findings"] == []


def test_each_way_to_ask_a_server_refuses_it(stand_in: StandIn) -> None:
    engine = PostgresqlEngine(stand_in.url)
    for ask in (
        engine.facts,
        engine.other_users,
        engine.drop,
        engine.ready,  # as waiting for it would not help
        lambda: engine.require_rights(usage_of(load("insert"))),
        lambda: engine.check((INSERT,)),
    ):
        with refused(
            ErrorId.SERVER_NOT_SUPPORTED, OtherProduct, naming=stand_in.sentence
        ) as caught:
            ask()
        assert caught.value.hint == HINT
    assert not engine.takes_writes()
    stand_in.require_untouched()


def store_unread_run(folder: Path) -> None:
    """Store a run whose server was cut and not read since, and its witness's copy."""
    run = folder / "run"
    shutil.copytree(RUN, run)
    (run / "after.json").unlink()
    for rows in (*run.glob("survivors-*"), *run.glob("different-*")):
        rows.unlink()
    run_id = json.loads((run / "manifest.json").read_text())["run_id"]
    copy = folder / "witness" / run_id
    copy.mkdir(parents=True)
    for name in ("manifest.json", "acks.log"):
        shutil.copy(run / name, copy / name)
