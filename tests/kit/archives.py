"""Archives of a lab's server: a base backup, and the log that is shipped until the cut.

The archive stands for another host: it lies outside of the lab's drive, and a cut of
the lab's power leaves it, and who receives into it, as they are.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from dbcheck.base.points import PointKind
from dbcheck.base.processes import make_environment
from dbcheck.config.target import RestoreSettings
from dbcheck.cycle.outcome import Outcome
from dbcheck.cycle.rig import Limits, Rig
from dbcheck.judge.item import ItemId, Status
from dbcheck.lab.lab import choose_lab_cut
from dbcheck.lab.spec import LabSpec
from dbcheck.model.verdict import Verdict
from tests.kit.copies import PROGRAMS_S, Copies, show_log
from tests.kit.copy_methods import Method
from tests.kit.lab_access import server_pid
from tests.kit.rigs import Bench, bench
from tests.kit.servers import skip_without_server

_RECEIVER_S = "600"  # it ends then, also if the tests were killed
# What each program of an archive begins with, after what a copy's begins with.
_BEGINNING = 'archive={archive}\nlog="$archive/log" base="$archive/base"\n'
ARCHIVE = "{archive}"  # in a setting: the archive's folder


@dataclass(frozen=True)
class Shipping:
    """How the log of one kind of server is shipped: the text of each program.

    begin:    takes the base backup; it runs once, before any load.
    method:   how the archive is restored; it takes no copy.
    settings: of the server; ARCHIVE stands for the archive's folder.
    receive:  receives the log until it is ended, and is started before *begin*; "" if
              the server ships its log by itself.
    """

    begin: str
    method: Method
    settings: dict[str, str] = field(default_factory=dict)
    receive: str = ""

    def restoring(self, restore: str) -> Shipping:
        """Return the same, restored by another program."""
        return replace(self, method=replace(self.method, restore=restore))


class Archives(Copies):
    """The place where the archive of a lab's server is restored."""

    def __init__(
        self, here: Bench, folder: Path, source: Path, shipping: Shipping
    ) -> None:
        self.shipping = shipping
        self.archive = folder.with_name("archive")
        super().__init__(here, folder, source)

    def archive_settings(self) -> RestoreSettings:
        """Return the settings of an inventory that restores the archive."""
        return self.settings(self.shipping.method)

    def archive_rig(self, rpo_s: float, limits: Limits | None = None) -> Rig:
        """Return the lab's rig, which cuts the server and restores its archive."""
        made = self.rig(self.archive_settings(), limits)
        assert made.copying is not None
        copying = replace(made.copying, rpo_s=rpo_s)
        return replace(made, copying=copying, site=self.here.rig.site)

    def point_rig(self, kind: PointKind, limits: Limits | None = None) -> Rig:
        """Return the rig that restores the archive to a point, without a cut."""
        made = self.rig(self.archive_settings(), limits)
        assert made.copying is not None
        return replace(made, copying=replace(made.copying, until=kind))

    @contextlib.contextmanager
    def shipped(self) -> Iterator[None]:
        """Have the log shipped meanwhile, from a base backup on."""
        with contextlib.ExitStack() as stack:
            if self.shipping.receive:
                stack.enter_context(self._received())
            self.run(self.shipping.begin)
            yield

    @contextlib.contextmanager
    def _received(self) -> Iterator[None]:
        command = self.program(self.shipping.receive)
        with (self.folder / "receiver.log").open("wb") as log:
            process = subprocess.Popen(
                ("timeout", "-s", "KILL", _RECEIVER_S, *command, "receiver"),
                env=make_environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            yield
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(PROGRAMS_S)

    def _beginning(self) -> str:
        return super()._beginning() + _BEGINNING.format(archive=self.archive)


@contextlib.contextmanager
def archives_of(
    shipping: Shipping, limits: Limits | None = None, cut: str = ""
) -> Iterator[Archives]:
    """Give a lab whose log is shipped; require that nothing is left of what it ran."""
    engine = shipping.method.engine
    skip_without_server(engine)
    folder = Path(tempfile.mkdtemp(prefix="dbcheck-"))
    folder.chmod(0o755)
    archive, place = folder / "archive", folder / "place"
    for each in (archive, archive / "log", place):
        each.mkdir()
        each.chmod(0o777)  # the server's account is not known yet
    settings = {
        name: value.replace(ARCHIVE, str(archive))
        for name, value in shipping.settings.items()
    }
    try:
        spec = LabSpec(engine, cut=cut or choose_lab_cut(engine), settings=settings)
        with bench(spec, folder / "lab", limits) as here:
            source = Path(f"/proc/{server_pid(here.lab)}/cwd")
            with _ended(Archives(here, place, source, shipping)) as made:
                with made.shipped():
                    yield made
                made.require_nothing_left()
    finally:
        shutil.rmtree(folder)


@contextlib.contextmanager
def _ended(made: Archives) -> Iterator[Archives]:
    """Show the logs of a failed test's programs and end what it left running."""
    try:
        yield made
    finally:
        if (log := made.folder / "receiver.log").exists():
            show_log(log)
        made.end_strays()


def status_of(outcome: Outcome, id: ItemId) -> Status:
    """Return what the evidence of this name shows."""
    items = {item.id: item.status for item in outcome.judgement.items}
    return items[id]


def require_passed(outcome: Outcome) -> None:
    """Require that an honest archive is not accused, and that much was at stake."""
    assert outcome.verdict is Verdict.PASS, outcome.judgement
    for wanted in (ItemId.STAYED_OFF, ItemId.OBJECTIVE, ItemId.COPY_OF_SERVER):
        assert status_of(outcome, wanted) is Status.PRESENT
    copy = outcome.result.copy
    assert copy is not None
    assert copy.due
    assert copy.due == copy.due_kept


def require_found(outcome: Outcome) -> None:
    """Require that an archive fails for the commits that it lacks."""
    assert outcome.verdict is Verdict.FAIL, outcome.judgement
    assert status_of(outcome, ItemId.STAYED_OFF) is Status.PRESENT
    copy = outcome.result.copy
    assert copy is not None
    if copy.due is None:
        assert (
            "nothing of this run may have been shipped" in outcome.judgement.reasons[0]
        )
    else:
        assert copy.due_kept is not None
        assert copy.due_kept < copy.due
