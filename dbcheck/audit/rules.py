"""The rules of the audit: facts that decide whether an ack survives a power cut."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from dbcheck.audit import devices, mysql, platform, pods, postgresql, storage
from dbcheck.audit.rule import Harm, Rule, SubjectKind
from dbcheck.audit.subject import Fact, Subject
from dbcheck.model.audited import Flag, RuleStatus, Severity
from dbcheck.model.depth import Depth
from dbcheck.model.family import MYSQL, POSTGRESQL

RULES: Mapping[str, tuple[Rule, ...]] = {
    POSTGRESQL.name: postgresql.RULES,
    MYSQL.name: mysql.RULES,
}
BELOW: tuple[Rule, ...] = (  # rules on everything below a server
    *storage.RULES,
    *devices.LAYER_RULES,
    *devices.DRIVE_RULES,
    *devices.CONTROLLER_RULES,
    *platform.RULES,
    *pods.POD_RULES,
    *pods.CLAIM_RULES,
)
_UNREAD_FACT = Fact(None, "", "it is not shown")


@dataclass(frozen=True, slots=True)
class Finding:
    """A rule, and the status of its fact.

    value:   value of the fact, None if it could not be read.
    """

    rule: Rule
    status: RuleStatus
    value: str | None

    @property
    def harm(self) -> Harm:
        """The harm that the setting can do as it stands."""
        return self.rule.harm_of(self.value)

    def loses_at(self, depth: Depth) -> bool:
        """Return True if a cut of *depth* loses commits under this value."""
        least = self.harm.depth
        return least is not None and least.rank <= depth.rank

    @property
    def hides(self) -> bool:
        """True if rows that are read while the value is in effect prove nothing."""
        return self.status is RuleStatus.UNSAFE and self.harm.hides

    @property
    def sentence(self) -> str:
        """The finding and its remedy in one sentence, for a person."""
        return f"{self}: {self.rule.why} Fix: {self.rule.fix}"

    def __str__(self) -> str:
        value = "unknown" if self.value is None else self.value
        return f"{self.rule.fact} = {value}"


@dataclass(frozen=True, slots=True)
class Located:
    """A finding of the audit on one subject.

    decisive: the fact that could not be read if the status is unknown, else the fact
              that the rule judges.
    """

    finding: Finding
    subject: Subject
    decisive: Fact

    @property
    def severity(self) -> Severity:
        """The severity of the rule's unsafe values, also if the status is unknown."""
        return self.finding.rule.severity

    @property
    def flag(self) -> Flag:
        """The finding as a Flag, its short form."""
        found = self.finding
        return Flag(
            rule=found.rule.id,
            severity=self.severity,
            status=found.status,
            subject=self.subject.name,
            fact=found.rule.fact,
            value=found.value,
        )

    @property
    def fix(self) -> str:
        """The remedy on this subject."""
        return self.finding.rule.fix_on(self.subject.words)


def list_facts_of_family(family: str) -> tuple[str, ...]:
    """Return the facts of a server that the rules of *family* judge, each once."""
    names = (name for rule in RULES[family] for name in rule.facts)
    return tuple(dict.fromkeys(names))


def list_all_rules() -> list[Rule]:
    """Return every rule, of all families and below any server."""
    return [*(rule for rules in RULES.values() for rule in rules), *BELOW]


def find_rule(rule: str) -> Rule | None:
    """Return the rule with that id, None if this version has none."""
    return next(
        (candidate for candidate in list_all_rules() if candidate.id == rule), None
    )


def judge_rule(
    rule: Rule, settings: Mapping[str, str], unread: frozenset[str] = frozenset()
) -> RuleStatus:
    """Judge *settings* under *rule*.

    unread: facts that exist and could not be read; the rule's fact is then not SAFE.
    """
    for name, values in rule.unless:
        if settings.get(name, "\0").lower() in values:
            return RuleStatus.SAFE
    for name, values in rule.only:
        if name in settings and settings[name].lower() not in values:
            return RuleStatus.SAFE
    value = settings.get(rule.fact)
    if value is None:
        safe = rule.absent_is_safe and rule.fact not in unread
        return RuleStatus.SAFE if safe else RuleStatus.UNKNOWN
    if rule.is_safe(value):
        return RuleStatus.SAFE
    conditions_met = all(name in settings for name, _ in rule.only)
    return RuleStatus.UNSAFE if conditions_met else RuleStatus.UNKNOWN


def find_flagged_settings(family: str, settings: Mapping[str, str]) -> list[Finding]:
    """Return the findings that bear on a run and are not SAFE, the UNSAFE ones first.

    family: as in ports.engine.Engine; settings: as in model.server.ServerFacts.
    """
    tables = settings.get(mysql.TABLES, mysql.INNODB)
    rules = [
        rule
        for rule in (*RULES[family], *BELOW)
        if rule.harm is not None and rule.tables in ("", tables)
    ]
    found = [
        Finding(rule, judge_rule(rule, settings), settings.get(rule.fact))
        for rule in rules
    ]
    found = [finding for finding in found if finding.status is not RuleStatus.SAFE]
    return sorted(found, key=lambda finding: finding.status is RuleStatus.UNKNOWN)


def find_located_findings(family: str, subjects: Iterable[Subject]) -> list[Located]:
    """Return the findings of the rules on *subjects* that are not SAFE.

    The worst findings come first, unknown ones last.  A fact that could not be read is
    returned once, under the worst of its rules.
    """
    found = sorted(
        (
            located
            for subject in subjects
            for located in _find_findings_on_subject(family, subject)
        ),
        key=_rank_finding,
    )
    unread: set[tuple[str, str]] = set()
    kept = []
    for located in found:
        subject_and_fact = located.subject.name, located.finding.rule.fact
        if located.finding.status is RuleStatus.UNKNOWN:
            if subject_and_fact in unread:
                continue
            unread.add(subject_and_fact)
        kept.append(located)
    return kept


def count_safe(family: str, subjects: Iterable[Subject]) -> int:
    """Count the rules under which a fact of *subjects* is SAFE, for each subject."""
    return sum(
        judge_rule(rule, subject.values, _list_unread_facts(subject)) is RuleStatus.SAFE
        for subject in subjects
        for rule in list_applicable_rules(family, subject)
    )


def _list_unread_facts(subject: Subject) -> frozenset[str]:
    return frozenset(subject.facts.keys() - subject.values.keys())


def _rank_finding(found: Located) -> tuple[bool, int]:
    return found.finding.status is RuleStatus.UNKNOWN, found.severity.rank


def list_applicable_rules(family: str, subject: Subject) -> Sequence[Rule]:
    """Return the rules that say something about *subject*."""
    rules = RULES[family] if subject.kind is SubjectKind.SERVER else BELOW
    return [
        rule
        for rule in rules
        if rule.subject is subject.kind
        and rule.product in (None, subject.product)
        and (not subject.version or _covers_version(rule, subject.version))
        # A subject that is one account or database: only rules on its own settings.
        and (subject.own is None or rule.fact in subject.own)
    ]


def _covers_version(rule: Rule, version: tuple[int, ...]) -> bool:
    return version >= rule.since and (not rule.before or version < rule.before)


def _find_findings_on_subject(family: str, subject: Subject) -> Iterator[Located]:
    values = subject.values
    unread = _list_unread_facts(subject)
    for rule in list_applicable_rules(family, subject):
        status = judge_rule(rule, values, unread)
        if status is RuleStatus.SAFE:
            continue
        decisive = subject.facts.get(rule.fact, _UNREAD_FACT)
        if status is RuleStatus.UNKNOWN and decisive.value is not None:
            unread_conditions = (name for name, _ in rule.only if name not in values)
            decisive = subject.facts.get(next(unread_conditions, ""), _UNREAD_FACT)
        finding = Finding(rule, status, values.get(rule.fact))
        yield Located(finding, subject, decisive)
