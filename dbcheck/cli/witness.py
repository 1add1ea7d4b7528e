"""dbcheck witness: check a witness; show and verify the logs of a run."""

from __future__ import annotations

import contextlib
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
from rich.text import Text

from dbcheck.base import plain
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LogDamaged, RunFormatError, UsageError, WitnessError
from dbcheck.cli import FAIL, PASS, output
from dbcheck.cli.flags import shared
from dbcheck.cli.flags.entries import find_entry
from dbcheck.cli.flags.groups import ANY_PATH, VerbGroup, grouped
from dbcheck.cli.flags.target import (
    NamedByArgument,
    NamedByFlag,
    TargetUrl,
    WitnessOptions,
)
from dbcheck.cli.say import say
from dbcheck.cycle.fetching import limit_chunks, limit_log_bytes
from dbcheck.cycle.stored_run import StoredLogs
from dbcheck.inventory.entry import Entry
from dbcheck.model.records import Manifest
from dbcheck.model.witness import Watermark
from dbcheck.report.console import make_console
from dbcheck.runner import assemble
from dbcheck.runner.checks import check_witness
from dbcheck.runs.folder import RunFolder, require_run_id
from dbcheck.runs.records import read_manifest
from dbcheck.witness.log import AckBatch, FrameLogReader, LogScan
from dbcheck.witness.window import WindowLimits

_DISCARD = "Discard this run: which acks the witness held can no longer be determined."
_OF_A_COPY = (
    "Check the log on the witness, of which this is a copy: dbcheck witness verify {}"
    " --witness URL. If it is damaged or as short there, discard this run."
)
_END_UNKNOWN = (
    "; without the run folder's load.json nothing shows whether its end is missing"
)
_READ_BYTES = 1 << 20


@click.group("witness", cls=VerbGroup)
def command() -> None:
    """Check a witness; show or verify a run's log."""


@command.command()
@grouped
@shared.as_json()
def check(
    named: NamedByArgument, witness: WitnessOptions, target: TargetUrl, as_json: bool
) -> None:
    """Check whether a witness can be used: write and fsync there.

    The witness is --witness, or that of the host NAME in an inventory. With the target,
    by --target or NAME, it is also checked that the witness is another host.
    """
    entry = find_entry(named, witness, target, placed=False)
    found = check_witness(entry, witness.accept_new_host_key)
    if as_json:
        output.print_json(asdict(found))
        return
    terminal = make_console()
    line = Text(found.hostname, "bold").append(" can be used as a witness", "not bold")
    terminal.print(line, soft_wrap=True)
    for name, value in found.list_facts().items():
        terminal.print(f"{name:>16}  {value}", soft_wrap=True)


@command.command()
@click.argument("run", required=False, type=ANY_PATH)
@grouped
def show(run: Path | None, named: NamedByFlag, witness: WitnessOptions) -> None:
    """Print the logs of a run, or list the runs.

    RUN is a run folder; or with --witness or --name a run's id there. Each log is
    printed as JSON lines. Without RUN: the runs on the witness, oldest first, with
    when each began, whether it was judged, and its target.
    """
    entry = find_entry(named, witness, placed=False)
    accept_new_key = witness.accept_new_host_key
    if run is None:
        for line in _describe_runs(entry, accept_new_key):
            say(line)
        return
    with _open_logs(run, entry, accept_new_key) as logs:
        for log in logs:
            for line in _format_json_lines(log):
                say(line)


def _describe_runs(entry: Entry, accept_new_key: bool) -> Iterator[str]:
    """Yield a line about each run on the witness, which begins with its id."""
    if not entry.witness:
        raise UsageError(
            "neither RUN nor a witness is given",
            id=ErrorId.ONE_OF_OPTIONS_NEEDED,
            hint="Name a run folder; or by --witness or --name the witness whose runs "
            "are to be listed.",
        )
    with assemble.open_entry_witness(entry, WindowLimits(), accept_new_key) as opened:
        unjudged = set(opened.unjudged())
        for run_id in opened.runs():
            judged = "not judged" if run_id in unjudged else "judged"
            try:
                content = opened.manifest(run_id)
                manifest = read_manifest(content, f"{entry.witness}/{run_id}")
            except (RunFormatError, WitnessError) as error:
                yield f"{run_id}  {judged:10}  manifest not readable [{error.id}]"
                continue
            target = manifest.writer.target
            yield f"{run_id}  {manifest.created}  {judged:10}  {target}"


@dataclass(frozen=True)
class _Log:
    """A copy of log *number* of a run; seen: it holds what readers saw, and no acks."""

    path: Path
    run_id: str
    number: int
    seen: bool

    @classmethod
    def of(cls, manifest: Manifest, number: int, path: Path) -> _Log:
        """Return log *number* of a run, of which a copy is at *path*."""
        return cls(path, manifest.run_id, number, number >= manifest.ack_logs)


@contextlib.contextmanager
def _open_logs(run: Path, entry: Entry, accept_new_key: bool) -> Iterator[list[_Log]]:
    """Give the logs of a run folder, or temporary copies of those on the witness."""
    if not entry.witness:
        folder = RunFolder.open(run)
        manifest = folder.manifest()
        logs = [
            _Log.of(manifest, number, folder.acks_path(number))
            for number in range(manifest.logs)
        ]
        if not all(log.path.is_file() for log in logs):
            raise UsageError(
                f"{run} has no copy of the witness's log yet",
                id=ErrorId.WITNESS_COPY_MISSING,
                hint="Give the run's id instead, with --witness or --name.",
            )
        yield logs
        return
    run_id = require_run_id(str(run))
    with (
        assemble.open_entry_witness(entry, WindowLimits(), accept_new_key) as opened,
        tempfile.TemporaryDirectory(prefix="dbcheck-") as scratch,
    ):
        where = f"{entry.witness}/{run_id}"
        content = opened.manifest(run_id)
        manifest = read_manifest(content, f"{where}/manifest.json")
        logs = []
        for number in range(manifest.logs):
            logs.append(_Log.of(manifest, number, Path(scratch) / str(number)))
            with logs[-1].path.open("wb") as file:
                chunks = opened.read(run_id, number)
                limit = limit_log_bytes(Path(scratch))
                file.writelines(limit_chunks(limit, chunks, f"log {number} of {where}"))
        yield logs


def _format_json_lines(log: _Log) -> Iterator[str]:
    with plain.open_regular(log.path) as file:
        chunks = iter(lambda: file.read(_READ_BYTES), b"")
        for entry in LogScan(chunks, log.run_id, number=log.number):
            if isinstance(entry, AckBatch):
                names = list(entry.acks.dtype.names or ())
                if log.seen:
                    names[names.index("acked_us")] = "seen_us"
                for ack in entry.acks.tolist():
                    yield json.dumps(dict(zip(names, ack, strict=True)))
            else:
                yield json.dumps(dict(entry.body))


@command.command()
@click.argument("run", type=ANY_PATH)
@grouped
@shared.as_json()
def verify(
    run: Path, named: NamedByFlag, witness: WitnessOptions, as_json: bool
) -> None:
    """Check that all logs of a run are intact; exit with 1 if not.

    RUN is a run folder; or with --witness or --name a run's id there. The logs of a
    folder are also compared with what the witness had confirmed to the client.
    """
    entry = find_entry(named, witness, placed=False)
    accept_new_key = witness.accept_new_host_key
    with _open_logs(run, entry, accept_new_key) as logs:
        confirmed = _read_confirmed(run, entry)
        results = [_verify_log(log, confirmed.get(log.number)) for log in logs]
    intact = all(result["intact"] for result in results)
    if as_json:
        output.print_json({"run": logs[0].run_id, "intact": intact, "logs": results})
    else:
        for log, result in zip(logs, results, strict=True):
            say(f"{log.run_id}, log {log.number}{_describe_result(result)}")
        if not intact:
            say(_DISCARD if entry.witness else _OF_A_COPY.format(logs[0].run_id))
    sys.exit(PASS if intact else FAIL)


def _read_confirmed(run: Path, entry: Entry) -> dict[int, Watermark | None]:
    """Return the confirmed watermark of each log; {} for logs on a witness."""
    if entry.witness:
        return {}
    folder = RunFolder.open(run)
    manifest, load = folder.manifest(), folder.load()
    logs = StoredLogs(folder, FrameLogReader(), manifest, load)
    return dict(enumerate(logs.confirmed))


def _verify_log(log: _Log, confirmed: Watermark | None) -> dict[str, Any]:
    try:
        facts = FrameLogReader().facts(log.path, log.run_id, log.number, confirmed)
    except LogDamaged as error:
        return {"intact": False, "damage": str(error)}
    return {
        "intact": True,
        "frames": facts.frames,
        "seen" if log.seen else "acks": facts.acks,
        "torn_bytes": facts.torn_bytes,
        "confirmed_frames": confirmed.frames if confirmed else None,
        "events": list(facts.events),
    }


def _describe_result(result: Mapping[str, Any]) -> str:
    if not result["intact"]:
        return f": {result['damage']}"
    acks, seen = result.get("acks"), result.get("seen")
    what = f"{seen:,} rows that readers saw" if acks is None else f"{acks:,} acks"
    unknown = "" if result["confirmed_frames"] is not None else _END_UNKNOWN
    return (
        f", is intact: {what} in {result['frames']:,} frames, "
        f"{result['torn_bytes']} bytes of a torn tail{unknown}"
    )
