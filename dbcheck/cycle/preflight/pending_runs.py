"""Finds an unfinished run of the same server before a new run, or before a clean.

The server was cut in such a run, but the run's rows were not read yet.  The new run's
rows in the tables, or another cut, would leave it without a verdict, and without its
tables it would be a FAIL.  Its folder and its client may be on another machine, so the
witness, too, is asked for unfinished runs.  A server may have several host names, so
the identity of its data, or the run's rows in its table, decide whether the run belongs
to it.
"""

from __future__ import annotations

import contextlib
import shlex
import tempfile
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import (
    EngineError,
    LogDamaged,
    RunFormatError,
    UsageError,
    WitnessError,
)
from dbcheck.cycle.fetching import limit_chunks, limit_log_bytes
from dbcheck.cycle.rig import Rig
from dbcheck.model.records import LoadRecord, Manifest
from dbcheck.model.server import ServerFacts, is_restarted, is_same_data
from dbcheck.ports.engine import Engine
from dbcheck.ports.feature import Feature
from dbcheck.ports.listener import Phase
from dbcheck.ports.witness import Witness
from dbcheck.rows.plans.registry import tables_of
from dbcheck.rows.table import LEDGER
from dbcheck.runs import stored
from dbcheck.runs.folder import RunFolder, reconcile_command, require_run_id
from dbcheck.runs.records import read_manifest


def require_none_pending(runs: Path, engine: Engine) -> None:
    """Raise UsageError if a run in *runs* was cut on this server and is not judged.

    A server that does not answer is recognised by its URL alone: an earlier client may
    have left it without power.
    """
    server = _Server(engine)
    for run, manifest in _list_pending_runs(runs):
        targets = {node.target for node in manifest.nodes.values()}
        is_same = engine.target in targets
        if not is_same:
            with contextlib.suppress(EngineError):
                is_same = server.is_server_of(manifest)
        if is_same:
            raise _unjudged_run_error(
                manifest,
                # Without flags: those of that run are not known, and its witness may
                # be another one than this run's.
                _advise_to_judge_first(reconcile_command(run.path))
                + " To give it up, move its folder elsewhere.",
            )


def require_none_on_witness(rig: Rig) -> None:
    """Raise UsageError if the witness knows a run of this server that is not judged.

    The run was cut, or may have been: its client was lost before it noted a cut, and
    the server has started anew since.  Raise EngineError, WitnessError.
    """
    server = _Server(rig.site.writer.engine)
    for manifest in _read_unjudged_manifests(rig.witness):
        if server.is_server_of(manifest) and _is_pending(rig, manifest, server.facts):
            raise _unjudged_run_error(manifest, _advise_on_run(rig, manifest.run_id))


def _advise_on_run(rig: Rig, run_id: str) -> str:
    """Return the advice about a run that the witness knows."""
    witness, run_of = ("--witness", rig.witness.url), ("--run", run_id)
    clean = shlex.join(("dbcheck", "clean", *witness, *run_of))
    if (run := _find_own_folder(rig, run_id)) is not None:
        return (
            _advise_to_judge_first(rig.reconcile_command(run.path))
            + f" To give it up, move its folder elsewhere, and then: {clean}"
        )
    has_name = "--name" in rig.reconcile_flags  # then the inventory gives the URLs
    urls = () if has_name else (*witness, "--target", rig.site.writer.engine.target)
    words = ("dbcheck", "reconcile", *urls, *run_of, *rig.reconcile_flags)
    judge = shlex.join(words)
    return (
        _advise_to_judge_first(judge)
        + " Or with its folder if you have it; or continue the campaign or the go-live"
        f" check that made it (--resume). To give it up: {clean}"
    )


def _advise_to_judge_first(command: str) -> str:
    return f"Judge it first: {command}."


def _find_own_folder(rig: Rig, run_id: str) -> RunFolder | None:
    """Return the run's folder, None if it is not among this client's run folders."""
    path = rig.runs / run_id
    return RunFolder(path) if (path / "manifest.json").is_file() else None


def note_judged(rig: Rig, run_id: str) -> None:
    """Note on the witness that the rows of the run were read; show why if that fails.

    Without the note the verdict stands, but another client may be told to judge the run
    once more.
    """
    try:
        rig.witness.note_judged(run_id)
    except WitnessError as error:
        text = f"the witness could not note that the run is judged: {error}"
        rig.listener.phase(Phase.JUDGE, text)


def _list_pending_runs(runs: Path) -> Iterator[tuple[RunFolder, Manifest]]:
    for path in sorted(runs.glob("*/manifest.json")):
        run = RunFolder.open(path.parent)
        with contextlib.suppress(RunFormatError):  # a damaged run can have no verdict
            if run.awaits_judgement():
                yield run, run.manifest()


def _read_unjudged_manifests(witness: Witness) -> Iterator[Manifest]:
    """Yield the manifests of the runs on the witness that await reconcile."""
    for run_id in witness.unjudged():
        # A damaged run can have no verdict.
        with contextlib.suppress(RunFormatError, UsageError):
            where = f"{witness.url}/{require_run_id(run_id)}/manifest.json"
            manifest = read_manifest(witness.manifest(run_id), where)
            if manifest.run_id == run_id:
                yield manifest


class _Server:
    """The server that is to be written to; it is asked once for each of its facts."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @cached_property
    def facts(self) -> ServerFacts:
        return self._engine.facts()

    @cached_property
    def _has_ledger(self) -> bool:
        engine = self._engine
        # An engine with Feature.HOUSEKEEPING has the method present().
        return engine.has(Feature.HOUSEKEEPING) and bool(engine.present([LEDGER]))

    def is_server_of(self, manifest: Manifest) -> bool:
        """Return True if the run was made on this server.  Raise EngineError."""
        identity, nodes = self.facts.identity, manifest.nodes.values()
        if any(is_same_data(node.facts.identity, identity) for node in nodes):
            return True
        of_family = manifest.family == self._engine.family
        if not of_family or LEDGER not in tables_of(manifest.workload):
            return False
        if not self._has_ledger:
            return False
        newest = self._engine.open_newest(LEDGER, manifest.epoch)
        with contextlib.closing(newest):
            return bool(newest.read(0))


def _is_pending(rig: Rig, manifest: Manifest, now: ServerFacts) -> bool:
    """Return True if the run was cut, as far as its folder or the witness shows.

    The records in the folder decide.  If one is damaged, or there is no folder, the
    witness decides.  A run whose log is damaged counts as cut: reconcile will report
    the damage.
    """
    if (run := _find_own_folder(rig, manifest.run_id)) is not None:
        with contextlib.suppress(RunFormatError):
            if run.was_read() or run.load() is not None:
                return run.awaits_judgement()  # its client knows how the load ended
            if run.cut_asked() is not None:
                return True
    with tempfile.TemporaryDirectory(prefix="dbcheck-") as scratch:
        path = Path(scratch, "acks.log")
        where = f"log 0 of run {manifest.run_id} on {rig.witness.url}"
        chunks = rig.witness.read(manifest.run_id)
        with path.open("wb") as file:
            file.writelines(limit_chunks(limit_log_bytes(path.parent), chunks, where))
        try:
            log = rig.reader.facts(path, manifest.run_id, 0, None)
            if log.sealed_load is not None:
                content, _ = log.sealed_load
                load = stored.from_bytes(content, LoadRecord, where)
                return load.may_be_cut
        except (LogDamaged, RunFormatError):
            return True
    began = log.newest_us is not None or manifest.ack_logs > 1
    was_restarted = is_restarted(manifest.writer.facts, now)
    return log.cut_announced or (began and was_restarted)


def _unjudged_run_error(manifest: Manifest, hint: str) -> UsageError:
    return UsageError(
        f"run {manifest.run_id} on {manifest.writer.target}, which is this server or a"
        " copy of it, may have been cut and is not judged yet; until it is, dbcheck's"
        " tables there must stay as they are",
        id=ErrorId.RUN_NOT_JUDGED,
        hint=hint,
    )
