"""Measures the time to recover in a cycle; it never fails the cycle.

Nothing is committed before the server is gone: a commit flushes the log, which has the
commits of the load as well.  See docs/decisions/time-to-recover.md.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection
from dataclasses import replace
from types import TracebackType
from typing import Self

from dbcheck.base import processes
from dbcheck.base.errors import DbcheckError, EngineError
from dbcheck.base.system import now_us
from dbcheck.cycle.host import read_client_clocks
from dbcheck.cycle.rig import Rig
from dbcheck.model.cluster import Promise, judge_settings_for_promise
from dbcheck.model.outage import INTERRUPTED, OutageRecord, Probed
from dbcheck.model.records import Manifest
from dbcheck.model.server import ServerFacts
from dbcheck.outage.process import Answer, Job, ProbeProcess
from dbcheck.ports.engine import Engine
from dbcheck.ports.feature import Feature
from dbcheck.ports.listener import Phase
from dbcheck.rows.table import OUTAGE
from dbcheck.runs.folder import RunFolder

ROWS_MAX = 10_000  # a table with more is dropped before the load, and made anew
# After the rows were read, a commit that lasts is waited for: what leads clients to the
# new writer, such as a proxy, may take longer than the reading.
LASTING_S = 30.0
SHOWN_S = 2.0  # a longer wait is shown
POLL_S = 0.5
APPLIED_S = 5.0  # a member of a group applies what another one answered
# How long one commit before the load may take, by a program that may have to start; how
# long one is tried again that was refused, as by a proxy whose check was late; and how
# often all that is looked at.
REHEARSED_S, REFUSED_S, REHEARSED_POLL_S = 30.0, 3.0, 0.05
NOT_MEASURED = "the time to recover is not measured: {why}"


def prepare_outage_table(rig: Rig, manifest: Manifest) -> str:
    """Make the table of the probes; return why there are to be none, "" if there are.

    Rows of earlier cycles stay, up to ROWS_MAX.  Never raises an EngineError.
    """
    engine, server = rig.site.writer.engine, manifest.writer.facts
    if manifest.control:
        return "a control is not measured"
    if manifest.copy is not None:
        return "another server is read"
    if not engine.has(Feature.CLIENT):
        return "no client's commit can be tried on this kind of server"
    why = ""
    try:
        facts = engine.prepare([OUTAGE], server=server)[OUTAGE.name]
        if sum(facts.rows_by_epoch.values()) > ROWS_MAX:
            engine.discard([OUTAGE], server=server)
            engine.prepare([OUTAGE], server=server)
    except EngineError as error:
        why = f"its table cannot be made: {error}"
    if why:
        rig.listener.phase(Phase.PREFLIGHT, NOT_MEASURED.format(why=why))
    return why


def make_job(rig: Rig, epoch: int) -> Job:
    """Return where, or by which program, the probes commit."""
    if rig.client_command:
        schema, hidden = rig.site.writer.engine.schema, processes.list_secret_values()
        return Job({}, epoch, tuple(rig.client_command), schema, tuple(hidden))
    if rig.client is not None:
        return Job({"": rig.client}, epoch)
    return Job({name: node.engine for name, node in rig.site.nodes.items()}, epoch)


class OutageWatch:
    """Has a process commit from when the server is gone until the rows were read.

    A context manager: what is known is stored at its end, whatever ended the cycle.
    """

    def __init__(
        self, rig: Rig, run: RunFolder, manifest: Manifest, not_begun: str = ""
    ) -> None:
        """not_begun: see OutageRecord."""
        self._rig, self._run, self._manifest = rig, run, manifest
        self._not_begun = not_begun
        self._restored_us: int | None = None
        self._process: ProbeProcess | None = None
        self._is_done = self._is_wanted = False

    def __enter__(self) -> Self:
        """Start the process; what clients use is tried once, before the load."""
        if not self._not_begun:
            job = make_job(self._rig, self._manifest.epoch)
            self._process = ProbeProcess(job)
            try:
                self._process.await_start()
                if self._is_by_clients:
                    self._not_begun = self._rehearse(self._process)
            except BaseException:
                self._process.kill()
                raise
        if self._not_begun and self._process is not None:
            self._process.kill()
            self._process = None
            text = NOT_MEASURED.format(why=self._not_begun)
            self._rig.listener.phase(Phase.PREFLIGHT, text)
        return self

    @property
    def _is_by_clients(self) -> bool:
        """True if the address of the clients, or their program, is tried."""
        return self._rig.client is not None or bool(self._rig.client_command)

    def _rehearse(self, process: ProbeProcess) -> str:
        """Commit a row as clients do; explain why it is not on the writer, "" if it is.

        What leads to a standby or to another server, and a program that does not
        commit, are found before the load.
        """
        began_s, asked = time.monotonic(), 1
        process.rehearse()
        while (answer := process.show()) is not None:
            (tried,) = answer.probed
            waited_s = time.monotonic() - began_s
            if tried.acks:
                return self._explain_not_on_writer(tried)
            is_over = tried.failed >= asked
            if tried.given_up or (is_over and waited_s > REFUSED_S):
                return (
                    "before the load, no commit was possible through"
                    f" {self._name(tried)}: {tried.given_up or tried.error}"
                )
            if waited_s > REHEARSED_S:
                return (
                    f"before the load, a commit through {self._name(tried)} was not"
                    f" answered within {REHEARSED_S:g} s"
                )
            if is_over:
                asked += 1
                process.rehearse()
            time.sleep(REHEARSED_POLL_S)
        return process.failure

    def _name(self, tried: Probed) -> str:
        if self._rig.client is None:
            return tried.target
        return f"the address of the clients ({tried.target})"

    def _explain_not_on_writer(self, tried: Probed) -> str:
        """Explain that an acked row is not on the writer, "" if it is."""
        writer, epoch = self._manifest.writer, self._manifest.epoch
        engine = self._rig.site.writer.engine
        # Another member of a group may have answered.  Else the row is there, at once.
        wait_s = APPLIED_S if self._manifest.site.is_group else 0.0
        until_s = time.monotonic() + wait_s
        while True:
            try:
                keys = _list_keys(engine, writer.facts, epoch)
            except DbcheckError as error:
                return f"the row of a commit before the load cannot be read: {error}"
            if any((0, ack.seq) in keys for ack in tried.acks):
                return ""
            if time.monotonic() > until_s:
                return (
                    f"before the load, a commit through {self._name(tried)} was"
                    f" answered, and its row was not on {engine.target}: it leads to"
                    " another server, or answers without a commit"
                )
            time.sleep(POLL_S)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End the process; store that the time is not known, unless it is stored."""
        try:
            if self._is_wanted and not self._is_done:
                self._store(OutageRecord(not_begun=INTERRUPTED))
        finally:
            if self._process is not None:
                self._process.kill()

    def note_gone(self) -> None:
        """Have the tries begin: the server is gone.

        Not in a group all of whose nodes were cut: a commit before all are back may let
        a member in that has other rows under the same GTIDs.
        """
        self._is_wanted = True
        promise = self._manifest.promise
        if self._manifest.site.is_group and promise is not None and promise.cuts_all:
            return
        self.begin()

    def begin(self) -> None:
        """Have the tries begin, if they have not."""
        if self._process is not None and self._is_wanted:
            self._process.begin()

    def note_restored(self) -> None:
        """Note that the switch has just reported that the power is back."""
        self._restored_us = now_us()

    def finish(self, facts: ServerFacts | None) -> None:
        """End the tries, see which acks lasted, and store it; idempotent.

        facts: of the server whose rows were read; None if none was.
        """
        if self._is_done or not self._is_wanted:
            return
        if self._process is None:
            self._store(OutageRecord(not_begun=self._not_begun))
            return
        if facts is not None:
            self._await_lasting(facts)
        answer = self._process.end()
        if answer is None:
            self._store(OutageRecord(not_begun=self._process.failure))
            return
        record = self._make_record(answer)
        if facts is None:
            record = replace(record, unread="no row was read after the cut")
        else:
            record = self._await_applied(self._with_rows(record, facts), facts)
        self._store(record)

    def _await_lasting(self, facts: ServerFacts) -> None:
        """Wait until an ack has lasted, at most LASTING_S."""
        assert self._process is not None
        began_s, is_shown = time.monotonic(), False
        while (waited_s := time.monotonic() - began_s) < LASTING_S:
            answer = self._process.show()
            if answer is None or answer.began_us is None:
                return
            if any(each.acks for each in answer.probed):
                record = self._with_rows(self._make_record(answer), facts)
                if record.lasting or record.unread:
                    return
            if all(each.given_up for each in answer.probed):
                return
            if not is_shown and (why := self._explain_wait(facts, waited_s)):
                text = f"up to {LASTING_S:.0f} s for a commit {why}"
                self._rig.listener.phase(Phase.WAITING, text)
                is_shown = True
            time.sleep(POLL_S)

    def _explain_wait(self, facts: ServerFacts, waited_s: float) -> str:
        """Return where no commit is answered, and why if that is known; "" for a while.

        facts: of the server that was read.  If that waits for a standby that it does
        not have, it is known at once, and may be so until somebody changes it.
        """
        site = self._rig.site
        if site.reader_name != site.writer_name and not site.kind.is_group:
            promise, settings = Promise.WRITER_GONE, facts.settings
            kept = judge_settings_for_promise(site.kind, promise, settings, {})
            if not kept.contradiction and not _has_standby(site.reader.engine):
                name = site.reader_name
                return f"on {name}: each waits for a standby, and {name} has none"
        if waited_s <= SHOWN_S:
            return ""
        return "at the clients' address" if self._is_by_clients else "of the probes"

    def _await_applied(self, record: OutageRecord, facts: ServerFacts) -> OutageRecord:
        """Return *record* once a group's reader has what other members answered.

        A member applies what another one committed a little later; an answer that
        comes just before the end would else pass for one that did not last.
        """
        until_s = time.monotonic() + APPLIED_S
        while (
            self._manifest.site.is_group
            and record.not_lasting
            and time.monotonic() < until_s
        ):
            time.sleep(POLL_S)
            record = self._with_rows(record, facts)
        return record

    def _make_record(self, answer: Answer) -> OutageRecord:
        return OutageRecord(
            began_us=answer.began_us,
            ended=read_client_clocks(),
            probed=answer.probed,
            by_clients=self._is_by_clients,
            gaps=answer.gaps,
            restored_us=self._restored_us,
        )

    def _with_rows(self, record: OutageRecord, facts: ServerFacts) -> OutageRecord:
        """Return *record* with which acks lasted on the server of *facts*."""
        engine, epoch = self._rig.site.reader.engine, self._manifest.epoch
        try:
            keys = _list_keys(engine, facts, epoch)
        except DbcheckError as error:
            why = f"the rows of the probes could not be read: {error}"
            return replace(record, unread=why)
        return record.with_rows(keys)

    def _store(self, record: OutageRecord) -> None:
        self._is_done = True
        with contextlib.suppress(DbcheckError):
            self._run.write_outage(record)


def _has_standby(engine: Engine) -> bool:
    """Return True if commits of the server wait for a standby that is connected.

    True, too, if the server does not say that.
    """
    try:
        with contextlib.closing(engine.open_followers()) as followers:
            return any(one.is_awaited for one in followers.read())
    except DbcheckError:
        return True


def _list_keys(
    engine: Engine, facts: ServerFacts, epoch: int
) -> Collection[tuple[int, int]]:
    """Return session and seq of each row of the probes; raise DbcheckError.

    facts: of the server that must answer.
    """
    keys: set[tuple[int, int]] = set()
    for _, batch in engine.survivors([OUTAGE], server=facts):
        records = batch.records[batch.records["epoch"] == epoch]
        columns = (records[name].tolist() for name in ("session", "seq"))
        keys.update(zip(*columns, strict=True))
    return keys
