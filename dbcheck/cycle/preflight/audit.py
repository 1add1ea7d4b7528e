"""The audit of a server and of what lies below it: nothing is changed anywhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dbcheck.audit.pod_volumes import (
    drop_repeated_facts,
    make_pod_subjects,
    make_unread_pods,
)
from dbcheck.audit.result import AuditResult, FindingResult, SubjectResult
from dbcheck.audit.rules import Located, count_safe, find_located_findings
from dbcheck.audit.servers import make_other_subjects, make_server_subject
from dbcheck.audit.stack import make_subjects, make_unseen_subjects
from dbcheck.audit.subject import Subject
from dbcheck.base.errors import EngineError, HostError
from dbcheck.cycle.own_data import read_own_facts
from dbcheck.model.audited import Flag, RuleStatus, format_alarm_counts, list_alarms
from dbcheck.model.family import FAMILIES
from dbcheck.model.host import HostBefore, Readings, TargetFacts
from dbcheck.model.places import Place
from dbcheck.model.server import ServerFacts
from dbcheck.model.verdict import format_count
from dbcheck.ports.engine import Engine
from dbcheck.ports.host import TargetHost
from dbcheck.ports.listener import Listener, Phase
from dbcheck.ports.site import Node, PodSource
from dbcheck.rows.table import TableSpec


@dataclass(frozen=True, slots=True)
class AuditedServer:
    """The facts that an audit looked at, and its findings."""

    subjects: Sequence[Subject]
    found: Sequence[Located]

    @property
    def flags(self) -> tuple[Flag, ...]:
        """The findings in short."""
        return tuple(each.flag for each in self.found)


def audit_server(
    engine: Engine,
    host: TargetHost | None,
    tables: Sequence[TableSpec],
    name: str,
    pods: PodSource | None = None,
) -> AuditResult:
    """Audit a server, its host and its pods.

    tables: of a load, whose places are audited, too.  pods: None unless the server runs
    on Kubernetes.  Raise EngineError.  If the host or Kubernetes cannot be asked, the
    findings about what they show are unknown.  Nothing is written, on MariaDB not even
    the mark by which a run recognises the data directory.
    """
    server = engine.facts()
    places = engine.places(tables) if host is not None or pods is not None else ()
    facts: TargetFacts | None = None
    host_error = host_error_id = ""
    if host is not None:
        try:
            facts = read_own_facts(host, server, places)
        except HostError as error:
            host_error, host_error_id = error.with_hint, error.id
    audited = audit_facts(
        engine, server, host, facts, host_error, pods=pods, places=places
    )
    return AuditResult(
        name=name,
        target=engine.target,
        server=f"{server.product} {server.version}",
        host=facts.hostname if facts else "",
        findings=tuple(map(FindingResult.of, audited.found)),
        safe=count_safe(engine.family, audited.subjects),
        subjects=tuple(map(SubjectResult.of, audited.subjects)),
        host_error=host_error,
        host_error_id=host_error_id,
    )


def audit_facts(
    engine: Engine,
    server: ServerFacts,
    host: TargetHost | None,
    facts: TargetFacts | None,
    host_error: str = "",
    *,
    pods: PodSource | None = None,
    places: Sequence[Place] = (),
) -> AuditedServer:
    """Audit a server of which *server* and, of its host, *facts* were read before.

    host, facts: None if the host is not to be asked.  host_error: why the host could
    not be asked, "" if it was asked.  pods, places: where the server runs on
    Kubernetes, and its directories; None unless it does.  Raise EngineError, HostError.
    """
    family = FAMILIES[engine.family]
    readings, below = Readings(), make_unseen_subjects(host_error)
    if host is not None and facts is not None:
        readings = host.readings(facts.volumes)
        guarded = family.restores_torn_pages(server.settings)
        below = make_subjects(facts, readings, family.page_bytes, guarded=guarded)
    audited = make_server_subject(family, server, facts, readings, host_error)
    others = make_other_subjects(audited, engine.other_settings())
    if pods is not None:
        of_pods = _read_pod_subjects(pods, server, places, facts)
        below = [*of_pods, *drop_repeated_facts(below, of_pods)]
    subjects = [audited, *others, *below]
    return AuditedServer(subjects, find_located_findings(family.name, subjects))


def _read_pod_subjects(
    pods: PodSource,
    server: ServerFacts,
    places: Sequence[Place],
    facts: TargetFacts | None,
) -> list[Subject]:
    unseen = server.unreadable.get("data_directory", "")
    try:
        return make_pod_subjects(pods.read(), places, facts, unseen)
    except HostError as error:
        return make_unread_pods(str(error), error.hint)


def summarize_flags(flags: Sequence[Flag]) -> str:
    """Return the numbers of errors, warnings, notes and unread facts as a text."""
    unknown = sum(flag.status is RuleStatus.UNKNOWN for flag in flags)
    notes = len(flags) - len(list_alarms(flags)) - unknown
    counts = [format_alarm_counts(flags) or "no unsafe setting found"]
    counts += [format_count(notes, "note")] if notes else []
    counts += [f"{unknown} could not be read"] if unknown else []
    explained = " (dbcheck audit explains them)" if flags else ""
    return f"{'; '.join(counts)}{explained}"


def audit_node_before_load(
    node: Node,
    server: ServerFacts,
    host: HostBefore | None,
    places: Sequence[Place],
    listener: Listener,
    shown: set[str],
) -> tuple[Flag, ...] | None:
    """Audit a node before its load, and show the findings that are more than a note.

    places: the server's directories.  shown: the lines that were shown before.  They
    are not shown again, and new lines are added.  Return None if the audit failed: a
    cycle does not need it, as no verdict rests on an audit.
    """
    facts = host.facts if host else None
    try:
        flags = audit_facts(
            node.engine, server, node.host, facts, pods=node.pods, places=places
        ).flags
    except (EngineError, HostError) as error:
        listener.phase(Phase.AUDIT, f"the settings could not be audited: {error}")
        return None
    lines = [summarize_flags(flags), *map(str, list_alarms(flags))]
    for line in lines:
        if line not in shown:
            listener.phase(Phase.AUDIT, line)
    shown.update(lines)
    return flags
