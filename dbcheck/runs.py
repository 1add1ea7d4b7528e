"""The run folder: what one cycle knew, written once and read back by anyone.

    manifest.json    before the load: seed, epoch, workload, target, facts
    client.key       recognises what this client left on the witness, see clientkey.py
    recalled.json    which of these files came back from a witness and nothing proves
    load.json        after the load: what the client sent and received, the cut
    restore.json     after the restore: how long the power was off, null if unknown
    after.json       after recovery: the server's facts, the power switch's failure
    server.log       what the server logged since the preflight, if its log was read
    acks.log         a copy of the witness's log; acks-1.log ... if there are more
    survivors-TABLE.bin    every row that was read back, as core.survivors.RECORD
    different-TABLE.jsonl  the rows whose content is not what it must be, whole
    losses.csv       every loss
    verdict.json     the judgement
    drive.img        a lab's drive as the cut left it, if that was asked for

The manifest is stored on the witness too, so a run can be judged without the
client that made it.  Each file bears a digest of its content, so that a bit that
rots here is never held against a server.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from dbcheck import formats, stored
from dbcheck.audit.rules import RULES
from dbcheck.clientkey import ClientKey
from dbcheck.core.apart import Apart
from dbcheck.core.control import ControlFacts
from dbcheck.core.cut import Cut
from dbcheck.core.cutclass import CutClass
from dbcheck.core.depth import Completed
from dbcheck.core.moments import Moment
from dbcheck.core.places import Place
from dbcheck.core.plans.plan import Plan
from dbcheck.core.plans.registry import plan_of, tables_of
from dbcheck.core.reached import Reached
from dbcheck.core.records import AfterRecord, RestoreRecord, StoredRows
from dbcheck.core.schedule import EPOCH_MAX, Schedule
from dbcheck.core.server import LogPosition, ServerFacts
from dbcheck.core.survivors import RECORD, Records
from dbcheck.core.table import TableFacts
from dbcheck.core.target import HostBefore
from dbcheck.errors import RunFormatError, UsageError, WitnessError
from dbcheck.limits import PROCESSES_MAX
from dbcheck.ports.witness import Watermark, WindowFacts
from dbcheck.workload import Workload

_RUN_ID = re.compile(r"[0-9]{8}-[0-9]{6}-[0-9a-f]{6}")
_RECORDS_PER_READ = 1 << 16
LOGS_MAX = 1 + PROCESSES_MAX


def new_run_id(utc: str) -> str:
    """Return a fresh run id for the moment *utc*, "YYYYmmdd-HHMMSS"."""
    return f"{utc}-{secrets.token_hex(3)}"


def require_run_id(text: str) -> str:
    """Return *text* if it is a run id; raise UsageError if not."""
    if not _RUN_ID.fullmatch(text):
        raise UsageError(
            f"{text!r} is not a run id",
            hint="A run id looks like 20260102-030405-a1b2c3.",
        )
    return text


@dataclass(frozen=True, slots=True)
class Manifest:
    """What was known before the first commit of the load.

    created:       UTC, ISO 8601.
    seed, epoch:   see core.schedule; they decide every row.
    family:        "postgresql" or "mysql".  target: URL without a password.
    witness, witness_kind: the witness's URL, and "ssh" or "file".
    window_acks:   most acks that may be unconfirmed at once.
    logs:          how many logs the witness holds of the run, numbered from 0.
    clock_us, wall_us: the client's monotonic and wall clocks at one moment.
    cut_class:     what the switch cuts, as far as that is known or declared.
    class_assumed: it was not declared: a person cuts, and AC is assumed.
    reached:       how deep the switch was seen to go on the idle host, if it was.
    lab:           the lab's spec, if the rig is a lab; {} else.
    host:          what the target's host reported, None without --target-host.
    control:       this run is a control: its sessions were relaxed.
    tables:        what each table held, by its name.
    controls:      what the controls before this run showed, if there were any.
    moment:        when the cut is to come, if a campaign drew it.
    sizes_by_epoch: see core.schedule.Schedule; true of runs of format 2.
    places:        the directories that an ack depends on.
    no_canary:     why there is no crash canary, "" if there is one.
    apart:         what showed that the witness is not on the target's host, None in a
                   lab.
    restore_command: what a user types to give back the power that this run cuts; "" if
                   nothing can be typed, as where a human cuts.
    """

    run_id: str
    created: str
    dbcheck: str
    seed: int
    epoch: int
    family: str
    target: str
    workload: Workload
    witness: str
    witness_kind: str
    window_acks: int
    power: str
    clock_us: int
    wall_us: int
    before: ServerFacts
    tables: Mapping[str, TableFacts]
    cut_class: CutClass = CutClass.UNKNOWN
    class_assumed: bool = False
    reached: Reached | None = None
    lab: Mapping[str, Any] = field(default_factory=dict)
    host: HostBefore | None = None
    control: bool = False
    controls: tuple[ControlFacts, ...] = ()
    moment: Moment | None = None
    logs: int = 1
    places: tuple[Place, ...] = ()
    no_canary: str = ""
    apart: Apart | None = None
    restore_command: str = ""
    sizes_by_epoch: bool = False

    def __post_init__(self) -> None:
        """Refuse a run that no dbcheck can have made."""
        if self.family not in RULES:
            raise ValueError(f"no servers are of the family {self.family!r}")
        if not 1 <= self.logs <= LOGS_MAX:
            raise ValueError(f"a run cannot have {self.logs} logs")
        if not 0 <= self.seed < 1 << 63 or not 1 <= self.epoch <= EPOCH_MAX:
            raise ValueError(f"no run has the seed {self.seed}, epoch {self.epoch}")
        if {table.name for table in tables_of(self.workload.plan)} != set(self.tables):
            raise ValueError(f"the tables {sorted(self.tables)} are not of that plan")

    def plan(self) -> Plan:
        """Return the operations of the run and what judges them."""
        sizes = self.workload.payload_bytes
        schedule = Schedule(self.seed, self.epoch, sizes, self.sizes_by_epoch)
        return plan_of(self.workload.plan, schedule)

    def to_bytes(self) -> bytes:
        """Return the manifest as it is stored here and on the witness."""
        return stored.to_bytes(self)

    @classmethod
    def from_bytes(cls, content: bytes, where: str) -> Manifest:
        """Read a stored manifest; raise RunFormatError, naming *where*, if not one."""
        return stored.from_bytes(content, cls, where, formats.MANIFEST)


@dataclass(frozen=True, slots=True)
class LoadRecord:
    """What the client saw of one load; times on its monotonic clock, microseconds.

    sent, acked: session -> operations sent, acks received.
    gone:        "broken", "silent", or "" if the server never went.
    gone_us:     when the sessions broke, or the silence began.
    in_flight:   sessions that waited for a reply when the server went; in lockstep or
                 under a rate also for their turn, within a second of an ack.
    watermarks:  what the witness had confirmed at the end, by the log's number;
                 None if that is not known of a log.
    windows:     the largest windows seen, by the log's number.
    refusals:    errors that the server answered instead of an ack.
    farewells:   what it said to the sessions that it ended itself.
    canaries:    how far the canaries came, None if there were none.
    canaries_elsewhere: the same of HostBefore.elsewhere, each.
    heard_us:    when their last report came: the host had its power until then.
    host_lived:  the host still answered when the load was over; not asked of a lab's.
                 None: it was not asked.
    switched_us: when the switch said that it had cut, None if it did not.
    due_us:      when the cut was to come; None if it never was.
    no_checkpoint: why there was none although the cut was to come in its midst.
    cut_failed:  why the switch failed once it was asked to cut, "" if it did not: the
                 power may have gone all the same.
    settings:    the server's just before the cut, None if they were not read.
    log:         where the server's log stood when the load began and just before the
                 cut; None if either is not known.
    canary_held: the session that holds the crash canary, if it needs one, still lived
                 just before the cut; before one by hand, as far as is known.
    """

    sent: Mapping[int, int]
    acked: Mapping[int, int]
    began_us: int
    last_ack_us: int | None
    gone: str
    gone_us: int | None
    in_flight: int
    rate: float
    latency_ms: Mapping[str, float]
    watermarks: tuple[Watermark | None, ...]
    windows: tuple[WindowFacts, ...]
    refusals: tuple[str, ...]
    farewells: tuple[str, ...]
    cut: Cut | None
    canaries: Completed | None = None
    settings: Mapping[str, str] | None = None
    log: tuple[LogPosition, LogPosition] | None = None
    canaries_elsewhere: tuple[Completed | None, ...] = ()
    canary_held: bool = True
    heard_us: int | None = None
    host_lived: bool | None = False
    switched_us: int | None = None
    due_us: int | None = None
    no_checkpoint: str = ""
    cut_failed: str = ""

    def to_bytes(self) -> bytes:
        """Return the record as it is stored here and left with the witness."""
        return stored.to_bytes(self)


@dataclass(frozen=True, slots=True)
class Recalled:
    """Which records came back from a witness, with nothing here to compare them with.

    Such a manifest names no target, no file and no command that may be used, and such
    a record of the load is the witness's word alone.
    """

    manifest: bool = False
    load: bool = False


class _Id(msgspec.Struct):
    row_id: int


class RunFolder:
    """One folder on the client's disk; each file is written whole or not at all."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._key: ClientKey | None = None

    @classmethod
    def create(cls, parent: Path, manifest: Manifest) -> RunFolder:
        """Make the folder of a new run; store its manifest, and a key drawn for it."""
        content = manifest.to_bytes()
        key = ClientKey.draw(manifest.run_id, content)
        return cls._made(parent / manifest.run_id, content, key)

    @classmethod
    def recall(
        cls,
        parent: Path,
        run_id: str,
        manifest: bytes,
        key: ClientKey | None,
        where: str,
    ) -> RunFolder:
        """Make the folder of a run of which a witness gave the *manifest*.

        key: the client's to that run, None if it is not here.
        Raise WitnessError if that shows that the manifest is not the client's own,
        and RunFormatError, naming *where* it came from, if it is none of that run.
        """
        if key is not None and not key.is_of(manifest):
            raise _changed("manifest", run_id)
        named = Manifest.from_bytes(manifest, where).run_id
        if named != run_id:
            raise RunFormatError(f"{where} is that of run {named}")
        return cls._made(parent / run_id, manifest, key)

    @classmethod
    def _made(cls, path: Path, manifest: bytes, key: ClientKey | None) -> RunFolder:
        run = cls(path)
        run._key = key
        stored.make_folder(path.parent)
        stored.new_folder(path)
        if key is not None:
            key.write(path / "client.key")
        else:  # before the manifest, without which this is no run folder
            run._note_recalled(Recalled(manifest=True))
        run._write("manifest.json", [manifest])
        return run

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """Open a stored run; raise UsageError if there is none."""
        if not (path / "manifest.json").is_file():
            raise UsageError(
                f"{path} is not a run folder: it has no manifest.json",
                hint="Give the folder that dbcheck run named, e.g. runs/RUN_ID.",
            )
        return cls(path)

    def locked(self) -> AbstractContextManager[None]:
        """Keep every other dbcheck out of the folder; raise RunWriteError if in use."""
        return stored.locked(self.path)

    def acks_path(self, number: int = 0) -> Path:
        """Return where the copy of the witness's log *number* belongs."""
        return self.path / (f"acks-{number}.log" if number else "acks.log")

    def manifest(self) -> Manifest:
        """Read the manifest."""
        path = self.path / "manifest.json"
        return Manifest.from_bytes(path.read_bytes(), str(path))

    def key(self) -> ClientKey | None:
        """Return the client's key to this run.

        None if the manifest came from a witness and no key proved it, or if a dbcheck
        made the run that drew none.
        """
        if self._key is None:
            self._key = ClientKey.read(self.path / "client.key")
        return self._key

    def recalled(self) -> Recalled:
        """Say which records are a witness's word alone."""
        path = self.path / "recalled.json"
        if not path.is_file():
            return Recalled()
        return stored.from_bytes(path.read_bytes(), Recalled, str(path))

    def _note_recalled(self, recalled: Recalled) -> None:
        self._write("recalled.json", [stored.to_bytes(recalled)])

    def write_load(self, load: LoadRecord) -> None:
        """Store what the client saw of the load."""
        self._write("load.json", [stored.to_bytes(load)])

    def recall_load(self, content: bytes, seal: object, where: str) -> None:
        """Store a load record that the client had left elsewhere, with its *seal*.

        Raise WitnessError if the client's key is here and did not seal that record.
        """
        key = self.key()
        if key is not None and not key.fits(content, seal):
            raise _changed("record of the load", key.run_id)
        load = stored.from_bytes(content, LoadRecord, where, formats.LOAD)
        if key is None:
            self._note_recalled(replace(self.recalled(), load=True))
        self.write_load(load)

    def load(self) -> LoadRecord | None:
        """Read what the client saw of the load; None if it did not live to write it."""
        path = self.path / "load.json"
        if not path.is_file():
            return None
        content = path.read_bytes()
        return stored.from_bytes(content, LoadRecord, str(path), formats.LOAD)

    def write_restore(self, restore: RestoreRecord) -> None:
        """Store that the power was given back, unless that is stored.

        The first time counts: a drive's cache that had power again is no longer at
        risk, however long it is without power later.
        """
        if not (self.path / "restore.json").is_file():
            self._write("restore.json", [stored.to_bytes(restore)])

    def restore(self) -> RestoreRecord | None:
        """Read how long the power was off; None if it is not known to be back."""
        path = self.path / "restore.json"
        if not path.is_file():
            return None
        content = path.read_bytes()
        return stored.from_bytes(content, RestoreRecord, str(path), formats.RESTORE)

    def write_after(self, after: AfterRecord) -> None:
        """Store what was found after recovery."""
        self._write("after.json", [stored.to_bytes(after)])

    def forget_survivors(self) -> None:
        """Undo write_after(): what was read proves nothing."""
        with stored.writing(self.path):
            (self.path / "after.json").unlink()

    def was_read(self) -> bool:
        """Say whether the survivors, or why there are none, were stored for good."""
        return (self.path / "after.json").is_file() and not self.after().unanswered

    def unread_failure(self) -> AfterRecord | None:
        """Return the record of a server that certainly did not come back, unread.

        None if there is no such record.  The run can still be reconciled once the
        server is back.
        """
        if not self.was_read() or (after := self.after()).facts is not None:
            return None
        return after

    def canary(self) -> bool | None:
        """Return what AfterRecord.canary says already, None if it says nothing."""
        known = (self.path / "after.json").is_file()
        return self.after().canary if known else None

    def after(self) -> AfterRecord:
        """Read what was found after recovery; raise UsageError if nothing was read."""
        path = self.path / "after.json"
        if not path.is_file():
            raise UsageError(
                f"the survivors of run {self.path.name} were never read",
                hint="Run dbcheck reconcile without --offline first.",
            )
        content = path.read_bytes()
        after = stored.from_bytes(content, AfterRecord, str(path), formats.AFTER)
        if formats.ONLY_TABLE not in after.survivors:
            return after
        (table,) = tables_of(self.manifest().workload.plan)
        return after.of_only_table(formats.ONLY_TABLE, table.name)

    def _of_table(self, name: str, table: str, suffix: str) -> Path:
        """Return where a file of *table* is; before format 4 there was only one."""
        path = self.path / f"{name}-{table}{suffix}"
        only = self.path / f"{name}{suffix}"
        return only if only.is_file() and not path.exists() else path

    def write_survivors(self, table: str, batches: Iterable[Records]) -> StoredRows:
        """Store the records of all survivors of *table*; return what was stored."""
        rows, digest = 0, hashlib.sha256()

        def contents() -> Iterator[bytes]:
            nonlocal rows
            for records in batches:
                rows += len(records)
                content = records.tobytes()
                digest.update(content)
                yield content

        self._write(f"survivors-{table}.bin", contents())
        return StoredRows(rows, digest.hexdigest())

    def survivors(self, table: str) -> Iterator[Records]:
        """Stream the stored survivors of *table*.

        Raise RunFormatError if their file is damaged.
        """
        stored_rows = self.after().survivors.get(table, StoredRows(0, ""))
        path, digest, rows = (
            self._of_table("survivors", table, ".bin"),
            hashlib.sha256(),
            0,
        )
        try:
            with path.open("rb") as file:
                while content := file.read(_RECORDS_PER_READ * RECORD.itemsize):
                    digest.update(content)
                    whole = len(content) // RECORD.itemsize
                    rows += whole
                    yield np.frombuffer(content, RECORD, whole)
        except OSError as error:
            raise RunFormatError(
                f"{path} cannot be read: {error.strerror}",
                hint="A campaign keeps the rows of cycles that passed no longer than"
                " it takes to judge them.",
            ) from None
        if StoredRows(rows, digest.hexdigest()) != stored_rows:
            raise RunFormatError(
                f"{path} is damaged: its checksum differs from what was stored",
                hint="Read the survivors again with the witness's copy of the run: "
                "dbcheck reconcile --witness URL --run ID --target URL.",
            )

    @property
    def image_path(self) -> Path:
        """Where the image of a lab's drive lies, if there is one."""
        return self.path / "drive.img"

    def drop_image(self) -> None:
        """Delete the image of the drive: a run that passed needs none."""
        with stored.writing(self.path):
            self.image_path.unlink(missing_ok=True)

    def drop_survivors(self) -> None:
        """Delete the stored rows, which grow with every cycle on one table."""
        with stored.writing(self.path):
            for path in self.path.glob("survivors*.bin"):
                path.unlink(missing_ok=True)

    def write_lines(self, name: str, lines: Iterable[str]) -> None:
        """Store lines of text as the file *name*."""
        self._write(name, (line.encode() for line in lines))

    def write_different(self, table: str, lines: Iterable[str]) -> None:
        """Store the rows of *table* whose content is not what it must be, as JSON."""
        self.write_lines(f"different-{table}.jsonl", lines)

    def different_ids(self, table: str) -> list[int] | None:
        """Read the ids that write_different() stored; None if it never did."""
        path = self._of_table("different", table, ".jsonl")
        try:
            with path.open("rb") as file:
                return [msgspec.json.decode(line, type=_Id).row_id for line in file]
        except FileNotFoundError:
            return None
        except (msgspec.DecodeError, UnicodeError) as error:
            raise RunFormatError(f"{path} is damaged: {error}") from None

    def write_acks(self, number: int, chunks: Iterable[bytes]) -> None:
        """Store a copy of the witness's log *number*."""
        self._write(self.acks_path(number).name, chunks)

    def write_verdict(self, values: Mapping[str, Any]) -> None:
        """Store the judgement."""
        self._write("verdict.json", [stored.to_bytes(values)])

    def _write(self, name: str, chunks: Iterable[bytes]) -> None:
        stored.write(self.path / name, chunks)


def _changed(what: str, run_id: str) -> WitnessError:
    return WitnessError(
        f"the witness's copy of the {what} of run {run_id} is not what this client left"
        " there",
        hint="Somebody changed it on the witness, or another client made that run; "
        "nothing the witness holds of it can be judged.",
    )
