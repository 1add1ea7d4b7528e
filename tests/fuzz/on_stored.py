"""What is kept on the client's disk: run folders, campaigns, the labs' own notes."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path

from dbcheck.base.errors import DbcheckError, RunFormatError
from dbcheck.campaign.folder import CampaignFolder, CampaignPlan, Cycle
from dbcheck.cycle.judging import judge_run
from dbcheck.lab.spec import LabSpec
from dbcheck.lab.state import LabRecord
from dbcheck.model.records import AfterRecord, LoadRecord, Manifest, RestoreRecord
from dbcheck.model.verdict import Verdict
from dbcheck.report.verdict import verdict_report
from dbcheck.runs import stored
from dbcheck.runs.folder import RunFolder
from dbcheck.witness.log import FrameLogReader
from tests import runs
from tests.fuzz.script import Script, edit_bytes, edit_value
from tests.fuzz.target import Target
from tests.kit.memory import scratch
from tests.kit.stored_run import RUN, campaign_files, run_files

_STAMP = ("format", "sha256")
KINDS = (Manifest, LoadRecord, RestoreRecord, AfterRecord, CampaignPlan, Cycle)
OF_LABS = sorted(Path(runs.__file__).parent.glob("mariadb-pass/*.json"))


def restamped(content: bytes, edit: Callable[[object], object]) -> bytes:
    """Return a stored record with its values edited, and a digest that fits."""
    try:
        values = json.loads(content)
        changed = edit({k: v for k, v in values.items() if k not in _STAMP})
        if isinstance(changed, dict):
            stamped = json.loads(stored.to_bytes(changed))
            return json.dumps({**stamped, "format": values.get("format")}).encode()
        return json.dumps(changed).encode()
    except (ValueError, AttributeError):  # what no writer could write, nor edit
        return content


def records(data: bytes) -> None:
    """A record is refused, or says the same once it is stored again."""
    for kind in KINDS:
        with contextlib.suppress(RunFormatError):
            found: object = stored.from_bytes(data, kind, "here")
            again = stored.from_bytes(stored.to_bytes(found), kind, "here")
            assert stored.to_bytes(again) == stored.to_bytes(found)


def record_values(data: bytes) -> None:
    """A record with things in it that do not belong there, and a digest that fits."""
    script = Script(data)
    of_labs = [path.read_bytes() for path in OF_LABS]
    whole = [*run_files().values(), *campaign_files().values(), *of_labs]
    content = script.choice(whole)
    if content.startswith(b"{"):
        records(edited_record(script, content))


def edited_record(script: Script, content: bytes) -> bytes:
    for _ in range(1 + script.below(3)):
        content = restamped(content, lambda values: edit_value(script, values))
    return content


def judged(data: bytes) -> None:
    """A run that was changed is judged as before, refused, or proves nothing.

    Where the digests were made to fit, it may be another run, of which no more is
    known than that it is judged or refused.
    """
    script = Script(data)
    files, forged = dict(run_files()), False
    for _ in range(1 + script.below(3)):
        name = script.choice(sorted(files))
        if name.endswith(".json") and script.below(2):
            files[name], forged = edited_record(script, files[name]), True
        elif script.below(12):
            files[name] = edit_bytes(script, files[name])
        else:
            files[name] = files[script.choice(sorted(files))]
    with scratch() as folder:
        for name, content in files.items():
            (folder / name).write_bytes(content)
        try:
            outcome = judge_run(RunFolder.open(folder), FrameLogReader())
        except DbcheckError:
            assert forged or files != run_files()
            return
        verdict_report(outcome.result)
        if not forged:
            assert outcome.verdict is not Verdict.FAIL


def campaigns(data: bytes) -> None:
    """A campaign is read or refused."""
    script = Script(data)
    files = dict(campaign_files())
    for _ in range(1 + script.below(2)):
        name = script.choice(sorted(files))
        if script.below(2):
            files[name] = edited_record(script, files[name])
        else:
            files[name] = edit_bytes(script, files[name])
    with scratch() as folder:
        for name, content in files.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_bytes(content)
        run = folder / "runs" / RUN
        run.mkdir(parents=True)
        (run / "manifest.json").write_bytes(run_files()["manifest.json"])
        with contextlib.suppress(DbcheckError):
            campaign = CampaignFolder.open(folder)
            campaign.plan()
            list(campaign.list_runs_without_cycle())
            campaign.write_lines()


def lab_notes(data: bytes) -> None:
    """What a lab noted of itself is read, or counts as nothing."""
    with scratch() as folder:
        (folder / "lab.json").write_bytes(data)
        entry = LabRecord(folder)
        entry.folder(), entry.daemon(), entry.processes(), entry.stays()
        entry.note(stays=True)
        assert entry.stays()


def notes() -> Iterator[bytes]:
    facts = {"folder": "/x", "daemon": [7, 8], "processes": [[1, 2]], "stays": True}
    yield json.dumps(facts).encode()
    yield LabSpec("postgresql").to_json().encode()


def whole_records() -> Iterator[bytes]:
    files = {**run_files(), **campaign_files()}
    yield from (content for name, content in files.items() if name.endswith(".json"))
    yield from (path.read_bytes() for path in OF_LABS)


def choices() -> Iterator[bytes]:
    yield b""
    for step in range(32):
        yield bytes((step * 13 + place * (step + 7)) % 256 for place in range(24))


TARGETS = (
    Target("records", records, whole_records),
    Target("record-values", record_values, choices),
    Target("judged", judged, choices),
    Target("campaign", campaigns, choices),
    Target("lab-notes", lab_notes, notes),
)
