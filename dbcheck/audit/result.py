"""The result of an audit, as reports show it; its JSON is what --json prints.

docs/schema/audit.json is the JSON Schema of AuditsResult.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dbcheck.audit.rule import SubjectKind
from dbcheck.audit.rules import Located
from dbcheck.audit.subject import Subject
from dbcheck.base.errors import DbcheckError
from dbcheck.model.audited import RuleStatus, Severity


@dataclass(frozen=True, slots=True)
class FindingResult:
    """Result of a rule for one subject.

    value:  of the fact that the rule judges, null if it could not be read.
    safe:   the safe values; unsafe: the unsafe values, where the rule names those.
    why, fix, source: of the rule; why says what an unsafe value does, and the fix is
            made for this subject.
    read_by: how the fact was read, or would have been.
    unread: what could not be read, and why; "" if all was.
    remedy: what makes it readable, "" if nothing is known.
    """

    rule: str
    severity: Severity
    status: RuleStatus
    subject_kind: SubjectKind
    subject: str
    fact: str
    value: str | None
    safe: tuple[str, ...]
    unsafe: tuple[str, ...]
    why: str
    fix: str
    source: str
    read_by: str
    unread: str
    remedy: str

    @classmethod
    def of(cls, found: Located) -> FindingResult:
        """Return *found* with all its texts."""
        rule, decisive = found.finding.rule, found.decisive
        return cls(
            rule=rule.id,
            severity=rule.severity,
            status=found.finding.status,
            subject_kind=rule.subject,
            subject=found.subject.name,
            fact=rule.fact,
            value=found.finding.value,
            safe=tuple(sorted(rule.safe)),
            unsafe=tuple(sorted(rule.unsafe)),
            why=rule.why,
            fix=found.fix,
            source=rule.source,
            read_by=decisive.how,
            unread=decisive.why,
            remedy=decisive.remedy,
        )


@dataclass(frozen=True, slots=True)
class FactResult:
    """One fact.

    value: null if it could not be read.
    why:   the reason why it could not be read, "" if it was; in a FindingResult, *why*
           is the rule's.
    """

    value: str | None
    read_by: str
    why: str


@dataclass(frozen=True, slots=True)
class SubjectResult:
    """One subject of the audit, and its facts by name."""

    kind: SubjectKind
    name: str
    facts: Mapping[str, FactResult]

    @classmethod
    def of(cls, subject: Subject) -> SubjectResult:
        """Return *subject* with its facts."""
        facts = {
            name: FactResult(fact.value, fact.how, fact.why)
            for name, fact in subject.facts.items()
            if subject.own is None or name in subject.own
        }
        return cls(subject.kind, subject.name, facts)


@dataclass(frozen=True, slots=True)
class AuditResult:
    """The audit of one server.

    name:     of the host in the inventory, "" if flags described it.
    host:     the name of its host, "" if that was not read.
    host_error: why its host could not be read, "" if it was, or was not to be.
    host_error_id: the error id of host_error.
    findings: what is not safe, the worst first, what is not known last.
    safe:     how many facts are safe.
    error:    why it could not be audited, "" if it could.
    error_id: the error id of error.
    """

    name: str
    target: str
    server: str
    host: str
    findings: tuple[FindingResult, ...]
    safe: int
    subjects: tuple[SubjectResult, ...]
    error: str = ""
    error_id: str = ""
    host_error: str = ""
    host_error_id: str = ""

    @classmethod
    def failed(cls, name: str, target: str, error: DbcheckError) -> AuditResult:
        """Return the result of an audit that could not be made."""
        return cls(name, target, "", "", (), 0, (), error.with_hint, error.id)

    def count(self, severity: Severity) -> int:
        """Count the unsafe findings of that severity."""
        return sum(
            finding.status is RuleStatus.UNSAFE and finding.severity is severity
            for finding in self.findings
        )

    @property
    def unknown(self) -> int:
        """The number of facts that could not be read."""
        return sum(finding.status is RuleStatus.UNKNOWN for finding in self.findings)


@dataclass(frozen=True, slots=True)
class AuditsResult:
    """Output of dbcheck audit --json."""

    dbcheck: str
    created: str
    targets: tuple[AuditResult, ...]
