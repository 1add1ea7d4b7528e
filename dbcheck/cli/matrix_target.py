"""Runs the configurations of a matrix on one target, which is left as it was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from dbcheck.campaign.control import run_control
from dbcheck.campaign.cycle import require_answered
from dbcheck.campaign.known import NOTHING_KNOWN
from dbcheck.campaign.rig import Rig
from dbcheck.cli import rig
from dbcheck.cli.matrix_cycles import Measured
from dbcheck.cli.run import resumable_cycle
from dbcheck.core.plans.registry import statements_of
from dbcheck.core.workload import Workload
from dbcheck.engines.url import read_url
from dbcheck.errors import DbcheckError, UsageError
from dbcheck.report.progress import PlainProgress
from dbcheck.secret import Secret


def on_target(
    measured: Sequence[Measured],
    base: Rig,
    workload: Workload,
    seed: int,
    cuts: int,
    view: PlainProgress,
    password: Secret | None,
) -> None:
    """Cut the power of *base*'s target *cuts* times under each row.

    A row that the server refuses is found before the first cut, and loses no other.
    An error after that ends it all: the run that it leaves is to be reconciled before
    anything else writes to the server.
    """
    fit: list[tuple[Measured, Rig]] = []
    for one in measured:
        url = session_url(base.engine.target, one.row.settings)
        engine = rig.engine(url, password) if one.row.settings else base.engine
        try:
            engine.check(statements_of(workload.plan), relaxed=one.row.relaxed)
        except DbcheckError as error:
            one.fail(error)
        else:
            fit.append((one, replace(base, engine=engine)))
    known = NOTHING_KNOWN
    for one, its_rig in fit:
        view.line("row", one.row.name)
        with one.running(view):
            for number in range(cuts):
                drawn = seed + number
                if one.row.relaxed:
                    outcome = run_control(its_rig, workload, drawn, known)
                else:
                    outcome = resumable_cycle(its_rig, workload, drawn, [], known, view)
                one.note(outcome, view)
                require_answered(outcome)  # it is to be reconciled before another one
                # What a cycle left whose rows were not read is not known.
                known = known.with_outcome(outcome) if outcome.found else NOTHING_KNOWN
        if one.error:
            return


def session_url(url: str, settings: Mapping[str, str]) -> str:
    """Return *url* with *settings* for each of its sessions; the server has its own.

    Raise UsageError for MySQL and MariaDB, where what decides whether a commit is
    durable is no setting of a session.
    """
    if not settings:
        return url
    parsed = read_url(url)
    if parsed.get_backend_name() != "postgresql":
        raise UsageError(
            f"{', '.join(settings)} cannot be set for a session of this server",
            hint="Change its configuration between two matrices, or take relaxed = "
            "true, which dbcheck puts back.",
        )
    given = parsed.query.get("options", "")
    words = [given] if isinstance(given, str) else list(given)
    for name, value in settings.items():
        escaped = value.replace("\\", "\\\\").replace(" ", "\\ ")
        words.append(f"-c {name}={escaped}")
    options = {"options": " ".join(word for word in words if word)}
    return parsed.update_query_dict(options).render_as_string()
