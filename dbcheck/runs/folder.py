"""The run folder: the records of one cycle, written once and read back by anyone.

    manifest.json    before the load: seed, epoch, workload, target, facts
    client.key       recognises what this client left on the witness, see client_key.py
    recalled.json    which of these files came back from a witness and nothing proves
    load.json        after the load: what the client sent and received, the cut
    cut.json         just before the cut was asked for: that it was
    copy.json        before a copy is taken beside the load, after that, and once it was
                     restored
    fault.json       before a user's fault begins, and after it has ended
    outage.json      after the rows were read: the commits of the probes after the cut
    restore.json     after the restore: how long the power was off, null if unknown
    prepared.json    before a prepared transaction that was left over is decided: those
                     that the server listed, and the rows that were read
    after.json       after recovery: the server's facts, the power switch's failure
    server.log       what the server logged since the preflight, if its log was read
    acks.log         a copy of the witness's log; acks-1.log ... if there are more, of
                     which the last may hold what readers saw
    survivors-TABLE.bin    every row that was read back, as rows.survivors.RECORD
    different-TABLE.jsonl  the rows whose content is not what it must be, whole
    drives.csv       what the drives of the target's host did during the load
    losses.csv       every loss
    verdict.json     the judgement
    drive.img        a lab's drive as the cut left it, if that was asked for

The manifest is stored on the witness too, so a run can be judged without the
client that made it.  Each file has a digest of its content, so that a bit that
rots here is never held against a server.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import cached_property
from itertools import zip_longest
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import RunFormatError, UsageError
from dbcheck.judge.result import RunResult
from dbcheck.model.cut import FaultRecord
from dbcheck.model.outage import OutageRecord
from dbcheck.model.records import (
    AfterRecord,
    CutAsked,
    LoadRecord,
    Manifest,
    PreparedRecord,
    RestoreRecord,
    StoredRows,
)
from dbcheck.rows.copied import CopyRecord
from dbcheck.rows.survivors import Records
from dbcheck.rows.table import LEDGER
from dbcheck.runs import client_key, stored
from dbcheck.runs.client_key import ClientKey
from dbcheck.runs.records import Recalled, StoredRun, read_manifest
from dbcheck.runs.stored import read_ids, read_rows

T = TypeVar("T")
RUNS = Path("runs")  # unless a user names another folder
_RUN_ID = re.compile(r"[0-9]{8}-[0-9]{6}-[0-9a-f]{6}")


def new_run_id(utc: str) -> str:
    """Return a fresh run id for the moment *utc*, "YYYYmmdd-HHMMSS"."""
    return f"{utc}-{secrets.token_hex(3)}"


def require_run_id(text: str) -> str:
    """Return *text* if it is a run id; raise UsageError if not."""
    if not _RUN_ID.fullmatch(text):
        raise UsageError(
            f"{text!r} is not a run id",
            id=ErrorId.RUN_ID_INVALID,
            hint="A run id has the form 20260102-030405-a1b2c3.",
        )
    return text


def reconcile_command(run: Path, flags: Sequence[str] = ()) -> str:
    """Return the command, as a shell takes it, that judges the run in folder *run*."""
    return shlex.join(("dbcheck", "reconcile", str(run), *flags))


class RunFolder:
    """One folder on the client's disk; each file is written whole or not at all."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._key: ClientKey | None = None
        self._made_here = False  # True after create(), before remember() is called

    @classmethod
    def create(cls, parent: Path, manifest: Manifest) -> RunFolder:
        """Make the folder of a new run; store its manifest, and a key drawn for it."""
        content = stored.to_bytes(manifest)
        read_manifest(content, f"the manifest of run {manifest.run_id}")
        key = ClientKey.draw(manifest.run_id, content)
        run = cls._make_folder(parent / manifest.run_id, content, key)
        run._made_here = True
        return run

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

        The record of a fault is with the client that began it.  If there was to be one,
        it counts as begun: reconcile then runs the program that ends it.
        key: the client's to that run, None if it is not here.
        Raise WitnessError if that shows that the manifest is not the client's own,
        and RunFormatError, naming *where* it came from, if it is not that run's.
        """
        if key is not None and not key.is_of(manifest):
            raise client_key.changed_record_error("manifest", run_id)
        known = read_manifest(manifest, where)
        if known.run_id != run_id:
            raise RunFormatError(
                f"{where} is that of run {known.run_id}",
                id=ErrorId.WITNESS_COPY_CHANGED,
            )
        run = cls._make_folder(parent / run_id, manifest, key)
        if known.fault:
            run.write_fault(FaultRecord(known.writer_name, known.clock_us))
        return run

    @classmethod
    def create_copy(cls, parent: Path, records: StoredRun) -> RunFolder:
        """Make the folder of a copy of a run, which never has the client's key."""
        run = cls(parent / records.manifest.run_id)
        stored.make_folder(parent)
        stored.make_new_folder(run.path)
        if records.recalled != Recalled():
            run._note_recalled(records.recalled)
        run._write("manifest.json", [stored.to_bytes(records.manifest)])
        stored_records: Mapping[str, object] = {
            "load": records.load,
            "cut": records.cut_asked,
            "fault": records.fault,
            "copy": records.copy,
            "restore": records.restore,
            "outage": records.outage,
        }
        for name, record in stored_records.items():
            if record is not None:
                run._write(f"{name}.json", [stored.to_bytes(record)])
        run.write_after(records.after)
        return run

    @classmethod
    def _make_folder(
        cls, path: Path, manifest: bytes, key: ClientKey | None
    ) -> RunFolder:
        run = cls(path)
        run._key = key
        stored.make_folder(path.parent)
        stored.make_new_folder(path)
        if key is not None:
            key.write(path / client_key.FILE)
        else:  # before the manifest, which makes it a run folder
            run._note_recalled(Recalled(manifest=True))
        run._write("manifest.json", [manifest])
        return run

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """Open a stored run; raise UsageError if there is none."""
        if not (path / "manifest.json").is_file():
            raise UsageError(
                f"{path} is not a run folder: it has no manifest.json",
                id=ErrorId.NOT_A_RUN_FOLDER,
                hint="Give the folder that dbcheck run named, e.g. runs/RUN_ID.",
            )
        return cls(path)

    def read(self) -> StoredRun:
        """Read the records that a judgement needs, each once.

        Raise UsageError if they never were, and RunFormatError if a record is damaged.
        """
        return StoredRun(
            self.manifest(),
            self.load(),
            self.cut_asked(),
            self.restore(),
            self.after(),
            self.recalled(),
            self.outage(),
            self.fault(),
            self.copy(),
        )

    def locked(self) -> AbstractContextManager[None]:
        """Keep every other dbcheck out of the folder; raise RunWriteError if in use."""
        return stored.lock_folder(self.path)

    def acks_path(self, number: int = 0) -> Path:
        """Return the path for the copy of the witness's log *number*."""
        return self.path / (f"acks-{number}.log" if number else "acks.log")

    def manifest(self) -> Manifest:
        """Read the manifest."""
        return read_manifest(self._manifest, str(self.path / "manifest.json"))

    @cached_property
    def _manifest(self) -> bytes:
        """The bytes of the manifest's file; read once, so the checked ones are used."""
        return stored.read_content(self.path / "manifest.json")

    def key(self) -> ClientKey | None:
        """Return the client's key to this run.

        None if the manifest came from a witness and no key proved it, or in a copy.
        """
        if self._key is None:
            self._key = ClientKey.read(self.path / client_key.FILE)
        return self._key

    def is_own(self) -> bool:
        """Return True if this user's client made the run, by this very manifest.

        The user's state folder shows it: a folder from elsewhere may have any key in
        it.  Of another run no server, file or command may be used that it names.
        """
        if self._made_here:
            return True
        return client_key.is_own(self.manifest().run_id, self._manifest)

    def remember(self) -> None:
        """Keep the key where the loss of the folder does not reach it.

        From then on the run is this user's own.  Nothing happens without a key of this
        run.  Raise RunWriteError if that fails, and RunFormatError if a key is damaged.
        """
        key, run_id = self.key(), self.manifest().run_id
        if key is None or key.run_id != run_id:
            return
        if client_key.recall(run_id) is None:
            client_key.remember(key)

    def recalled(self) -> Recalled:
        """Return the records that rest on a witness alone."""
        return self._read("recalled.json", Recalled) or Recalled()

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
            raise client_key.changed_record_error("record of the load", key.run_id)
        load = stored.from_bytes(content, LoadRecord, where)
        self._require_nodes(load.nodes, where, each=True)
        if key is None:
            self._note_recalled(replace(self.recalled(), load=True))
        self.write_load(load)

    def load(self) -> LoadRecord | None:
        """Read what the client saw of the load; None if it was lost before that."""
        load = self._read("load.json", LoadRecord)
        if load is not None:
            where = str(self.path / "load.json")
            self._require_nodes(load.nodes, where, each=True)
        return load

    def _require_nodes(
        self, names: Iterable[str], where: str, *, each: bool = False
    ) -> None:
        """Raise RunFormatError, naming *where*, if *names* has one the run lacks.

        each: and if a node of the run is not among them.
        """
        found, known = set(names), set(self.manifest().nodes)
        if strangers := sorted(found - known):
            raise stored.damaged_record_error(
                where, f"the manifest names no node {strangers[0]!r}"
            )
        if each and (lacking := sorted(known - found)):
            raise stored.damaged_record_error(
                where, f"it lacks the node {lacking[0]!r}"
            )

    def write_cut_asked(self, asked: CutAsked) -> None:
        """Store that the cut is asked for next; raise RunWriteError."""
        self._write("cut.json", [stored.to_bytes(asked)])

    def cut_asked(self) -> CutAsked | None:
        """Read that the cut was asked for; None if that is not known."""
        return self._read("cut.json", CutAsked)

    def write_restore(self, restore: RestoreRecord) -> None:
        """Store that the power was restored, unless that is stored.

        The first time counts: a drive's cache that had power again is no longer at
        risk, however long it is without power later.
        """
        if not (self.path / "restore.json").is_file():
            self._write("restore.json", [stored.to_bytes(restore)])

    def restore(self) -> RestoreRecord | None:
        """Read how long the power was off; None if it is not known to be back."""
        restore = self._read("restore.json", RestoreRecord)
        if restore is not None:
            self._require_nodes(restore.off_s, str(self.path / "restore.json"))
        return restore

    def write_outage(self, outage: OutageRecord) -> None:
        """Store what the probes after the cut were answered."""
        self._write("outage.json", [stored.to_bytes(outage)])

    def outage(self) -> OutageRecord | None:
        """Read what the probes were answered; None if the client stored nothing."""
        return self._read("outage.json", OutageRecord)

    def write_fault(self, fault: FaultRecord) -> None:
        """Store what is known of the user's fault; raise RunWriteError."""
        self._write("fault.json", [stored.to_bytes(fault)])

    def fault(self) -> FaultRecord | None:
        """Read what is known of the user's fault, None if none was to begin."""
        return self._read("fault.json", FaultRecord)

    def write_copy(self, copy: CopyRecord) -> None:
        """Store what is known of the copy beside the load; raise RunWriteError."""
        self._write("copy.json", [stored.to_bytes(copy)])

    def copy(self) -> CopyRecord | None:
        """Read what is known of the copy beside the load, None if none was begun."""
        return self._read("copy.json", CopyRecord)

    def write_prepared(self, prepared: PreparedRecord) -> None:
        """Store what was read, before dbcheck decides what is prepared."""
        self._write("prepared.json", [stored.to_bytes(prepared)])

    def prepared(self) -> PreparedRecord | None:
        """Read what was read before dbcheck decided any; None if it decided none.

        Also None if a log of the witness has grown since: the load went on, and those
        rows are older than its acks.
        """
        prepared = self._read("prepared.json", PreparedRecord)
        if prepared is None:
            return None
        where = str(self.path / "prepared.json")
        self._require_nodes([prepared.reader_name], where)
        lengths = zip_longest(self.log_bytes(), prepared.log_bytes, fillvalue=0)
        return None if any(now > then for now, then in lengths) else prepared

    def log_bytes(self) -> tuple[int, ...]:
        """Return the length of the copy of each of the witness's logs, in bytes."""
        paths = map(self.acks_path, range(self.manifest().logs))
        return tuple(path.stat().st_size if path.is_file() else 0 for path in paths)

    def write_after(self, after: AfterRecord) -> None:
        """Store what was found after recovery."""
        self._write("after.json", [stored.to_bytes(after)])

    def forget_survivors(self, earlier: AfterRecord | None = None) -> None:
        """Undo write_after() and write_prepared(): what was read proves nothing.

        earlier: the record of an earlier reading, which stands again.  Rows that it
        stored before it decided a prepared transaction are kept with it.
        """
        prepared = self.prepared()
        keep_prepared = earlier and prepared and prepared.survivors == earlier.survivors
        with stored.translate_write_errors(self.path):
            # First: without after.json, the next reading takes its rows.
            if not keep_prepared:
                (self.path / "prepared.json").unlink(missing_ok=True)
            if earlier is None:
                (self.path / "after.json").unlink()
        if earlier is not None:
            self.write_after(earlier)

    def was_read(self) -> bool:
        """Return True if the survivors, or why there are none, were stored for good."""
        return (self.path / "after.json").is_file() and not self.after().unanswered

    def awaits_judgement(self) -> bool:
        """Return True if a cut was made, or asked for, and no survivors were read."""
        if self.was_read():
            return False
        load = self.load()
        if load is None:  # of a client that was lost
            return self.cut_asked() is not None
        return load.may_be_cut

    def read_certain_failure(self) -> AfterRecord | None:
        """Return the record of a server that certainly did not come back, unread.

        None if there is no such record.  The run can still be reconciled once the
        server is back.
        """
        if not self.was_read() or (after := self.after()).facts is not None:
            return None
        return after

    def read_earlier_records(self) -> list[AfterRecord | PreparedRecord]:
        """Return the records of earlier readings; their facts may be gone by now."""
        after = self.after() if (self.path / "after.json").is_file() else None
        return [record for record in (after, self.prepared()) if record is not None]

    def after(self) -> AfterRecord:
        """Read what was found after recovery; raise UsageError if nothing was read."""
        path = self.path / "after.json"
        if not path.is_file():
            raise UsageError(
                f"the survivors of run {self.path.name} were never read",
                id=ErrorId.SURVIVORS_NOT_READ,
                hint="Read the server first: dbcheck reconcile "
                f"{shlex.quote(str(self.path))}, without --offline.",
            )
        after = stored.read_record(path, AfterRecord)
        self._require_nodes(after.nodes, str(path), each=True)
        return after

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

        self._write(self._survivors_of(table).name, contents())
        return StoredRows(rows, digest.hexdigest())

    def survivors(self, table: str, rows: StoredRows) -> Iterator[Records]:
        """Stream the survivors of *table* that write_survivors() stored as *rows*.

        Raise RunFormatError if their file is damaged.
        """
        return read_rows(self._survivors_of(table), rows)

    def _survivors_of(self, table: str) -> Path:
        return self.path / f"survivors-{table}.bin"

    def write_elsewhere(
        self, node: str, table: str, batches: Iterable[Records]
    ) -> StoredRows:
        """Store what *table* holds on another node than the one that was read."""
        return self.write_survivors(_name_elsewhere_file(node, table), batches)

    def elsewhere_names(self, after: AfterRecord) -> list[str]:
        """Return the names of the files that write_elsewhere() stored."""
        return [
            self._survivors_of(_name_elsewhere_file(node, LEDGER.name)).name
            for node, found in after.elsewhere.items()
            if found.rows is not None
        ]

    def read_survivors_elsewhere(
        self, node: str, table: str, rows: StoredRows
    ) -> Iterator[Records]:
        """Stream what write_elsewhere() stored as *rows*."""
        return read_rows(self._survivors_of(_name_elsewhere_file(node, table)), rows)

    @property
    def image_path(self) -> Path:
        """The path of the image of a lab's drive, if there is one."""
        return self.path / "drive.img"

    def drop_image(self) -> None:
        """Delete the image of the drive: a run that passed needs none."""
        with stored.translate_write_errors(self.path):
            self.image_path.unlink(missing_ok=True)

    def drop_survivors(self) -> None:
        """Delete the stored rows, which grow with every cycle on one table."""
        with stored.translate_write_errors(self.path):
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
        return read_ids(self.path / f"different-{table}.jsonl")

    def write_acks(self, number: int, chunks: Iterable[bytes]) -> None:
        """Store a copy of the witness's log *number*."""
        self._write(self.acks_path(number).name, chunks)

    def lacks_survivors(self, after: AfterRecord) -> bool:
        """Return True if rows were read that are no longer here: drop_survivors()."""
        return any(not self._survivors_of(table).is_file() for table in after.survivors)

    def result(self) -> RunResult:
        """Read the judgement; raise RunFormatError if it is damaged or not here."""
        return stored.read_record(self.path / "verdict.json", RunResult)

    def write_verdict(self, values: Mapping[str, Any]) -> None:
        """Store the judgement."""
        self._write("verdict.json", [stored.to_bytes(values)])

    def _read(self, name: str, kind: type[T]) -> T | None:
        """Read a record, None if it is not there; raise RunFormatError."""
        path = self.path / name
        return stored.read_record(path, kind) if os.path.lexists(path) else None

    def _write(self, name: str, chunks: Iterable[bytes]) -> None:
        stored.write_file(self.path / name, chunks)


def _name_elsewhere_file(node: str, table: str) -> str:
    """Return the file name of a table on a node; the node's name may hold anything."""
    return f"{table}-on-{quote(node, safe='')}"
