"""Every rule of the audit, with a value that keeps acks and one that does not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dbcheck.audit.mysql import ROCKSDB, TABLES
from dbcheck.audit.rule import Fix, Harm, Rule, SubjectKind
from dbcheck.audit.rules import (
    BELOW,
    RULES,
    Finding,
    Located,
    find_flagged_settings,
    find_located_findings,
    find_rule,
    judge_rule,
    list_all_rules,
)
from dbcheck.audit.servers import make_other_subjects
from dbcheck.audit.subject import Fact, Subject
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.model.audited import RuleStatus, ScopedSettings, Severity
from dbcheck.model.verdict import Verdict
from dbcheck.runner.matrix_rows import read_matrix
from dbcheck.runner.receipts import PRESET, find_receipt
from dbcheck.server_log import Product
from tests.kit.refusals import refused
from tools.docs import rules as document

# rule -> (a safe value, an unsafe one), as servers, kernel and tools spell them
VALUES = {
    "pg-fsync": ("on", "off"),
    "pg-synchronous-commit": ("remote_write", "off"),
    "pg-full-page-writes": ("on", "off"),
    "pg-data-sync-retry": ("off", "on"),
    "pg-zero-damaged-pages": ("off", "on"),
    "pg-ignore-checksum-failure": ("off", "on"),
    "pg-ignore-invalid-pages": ("off", "on"),
    "pg-sync-method-macos": ("fsync_writethrough", "open_datasync"),
    "pg-sync-method-windows": ("fsync", "open_datasync"),
    "pg-standby-not-awaited": ("on", "remote_write"),
    "pg-wal-level-minimal": ("replica", "minimal"),
    "pg-data-checksums": ("on", "off"),
    "pg-wal-recycle": ("off", "on"),
    "pg-archive-command": ("other", "copies without a flush"),
    "pg-sync-of-recovery": ("fsync", "syncfs"),
    "pg-unlogged-tables": ("0", "3"),
    "my-autocommit": ("ON", "OFF"),
    "my-flush-log-at-trx-commit": ("1", "2"),
    "my-flush-log-at-timeout": ("1", "30"),
    "my-global-flush-log": ("ON", "OFF"),
    "my-flush-method": ("O_DIRECT", "O_DIRECT_NO_FSYNC"),
    "my-redo-on-another-drive": ("O_DIRECT", "O_DIRECT_NO_FSYNC"),
    "my-doublewrite": ("ON", "DETECT_ONLY"),
    "my-doublewrite-not-flushed": ("fsync", "O_DIRECT"),
    "my-redo-log": ("ON", "OFF"),
    "my-sync-binlog": ("1", "0"),
    "my-binlog-error-action": ("ABORT_SERVER", "IGNORE_ERROR"),
    "my-force-recovery": ("0", "1"),
    "my-checksum-algorithm": ("full_crc32", "none"),
    "my-log-checksums": ("ON", "OFF"),
    "my-galera": ("OFF", "ON"),
    "my-group-replication": ("", "3e11fa47-71ca-11e1-9e33-c80aa9429562"),
    "my-default-engine": ("InnoDB", "MyISAM"),
    "my-tables-not-durable": ("none", "2 MyISAM, 1 MEMORY"),
    "my-semi-sync-source-wait": ("AFTER_SYNC", "AFTER_COMMIT"),
    "my-semi-sync-master-wait": ("AFTER_SYNC", "AFTER_COMMIT"),
    "my-semi-sync-source-timeout": ("OFF", "ON"),
    "my-semi-sync-master-timeout": ("OFF", "ON"),
    "my-rocksdb-flush-log": ("1", "2"),
    "my-rocksdb-disable-wal": ("OFF", "ON"),
    "my-rocksdb-bulk-load": ("OFF", "ON"),
    "my-rocksdb-commit-in-the-middle": ("OFF", "ON"),
    "my-rocksdb-wal-recovery-mode": ("2", "3"),
    "my-rocksdb-wal-torn": ("2", "1"),
    "my-aurora-data-loss": ("0", "1"),
    "my-aria-recover": ("BACKUP,QUICK", "OFF"),
    "my-aria-log-folder": ("NEWFILE", "NEVER"),
    "my-sync-method-macos": ("other", "macos"),
    "fs-barrier": ("on", "nobarrier"),
    "fs-sync": ("on", "volatile"),
    "fs-in-memory": ("local", "memory"),
    "fs-network": ("local", "network"),
    "fs-nfs-soft": ("hard", "soft"),
    "fs-overlay": ("local", "overlay"),
    "fs-empty-dir": ("a claim", "emptydir"),
    "fs-fuse": ("local", "fuse"),
    "fs-no-journal": ("local", "no journal"),
    "fs-data-writeback": ("ordered", "writeback"),
    "fs-nodatacow": ("on", "off"),
    "fs-zfs-sync": ("standard", "disabled"),
    "fs-zfs-nocacheflush": ("0", "1"),
    "layer-drops-flushes": ("yes", "no"),
    "layer-cache-write-back": ("writethrough", "writeback"),
    "layer-made-for-tests": ("linear", "flakey"),
    "layer-array-degraded": ("0", "1"),
    "layer-write-hole": ("closed", "open"),
    "layer-journal-write-back": ("write-through", "write-back"),
    "layer-write-behind": ("off", "256"),
    "layer-in-memory": ("no", "yes"),
    "layer-integrity-direct": ("J", "D"),
    "layer-loop": ("no", "yes"),
    "drive-not-flushed": ("sent", "not sent"),
    "drive-volatile-cache": ("disabled", "enabled"),
    "drive-foreign": ("this host", "virtio"),
    "drive-failing": ("passed", "failed"),
    "drive-cache-backup-failed": ("passed", "failed"),
    "drive-capacitor-failed": ("passed", "failed"),
    "drive-atomic-write": ("a page or more", "smaller than a page"),
    "raid-cache-unprotected": ("protected", "unprotected"),
    "raid-cache-forced": ("protected", "forced"),
    "raid-drive-cache": ("disabled", "enabled"),
    "raid-battery-learning": ("ready", "learning"),
    "host-virtual-machine": ("none", "kvm"),
    "host-container": ("none", "docker"),
    "host-cloud": ("none", "Amazon EC2"),
    "host-desktop": ("none", "WSL"),
    "host-flush-replaced": ("the C library's", "/usr/lib/libeatmydata.so"),
    "host-no-sync-option": ("none", "--debug-no-sync"),
    "host-preloaded": ("none", "libjemalloc.so"),
    "pod-container-layer": ("persistentVolumeClaim", "the container's own"),
    "pod-empty-dir": ("persistentVolumeClaim", "emptyDir"),
    "pod-memory-volume": ("emptyDir", "emptyDir in memory"),
    "pod-ephemeral-volume": ("persistentVolumeClaim", "ephemeral"),
    "pod-host-path": ("persistentVolumeClaim", "hostPath"),
    "pod-shared-node": ("one each", "orders-1 (primary), orders-2 (replica) on n1"),
    "pod-not-apart": ("required", "preferred"),
    "claim-many-writers": ("ReadWriteOnce", "ReadWriteMany"),
    "claim-many-pods": ("ReadWriteOncePod", "ReadWriteOnce"),
    "claim-file-server": ("its node", "a file server"),
    "claim-node-path": ("its node", "a folder of the node (hostpath)"),
    "claim-one-node": ("a storage cluster", "its node"),
    "claim-other-machines": ("its node", "a storage service"),
    "claim-one-copy": ("3", "1"),
    "claim-flushes-ignored": ("sent", "ignored"),
    "claim-flushes-delayed": ("sent", "delayed"),
    "claim-flushes-off": ("sent", "switched off"),
    "claim-asynchronous": ("synchronous", "asynchronous"),
    "claim-barrier": ("on", "nobarrier"),
    "claim-sync": ("on", "nostrictsync"),
    "claim-nfs-soft": ("hard", "soft"),
    "claim-reclaim-delete": ("Retain", "Delete"),
}
EVERY = [pytest.param(rule, id=rule.id) for rule in list_all_rules()]
OF_RUNS = [
    pytest.param(family, rule, id=rule.id)
    for family, rules in RULES.items()
    for rule in rules
    if rule.harm is not None
]


_NOTHING = Rule(
    *("x", "fact", "why", "fix", "source", Severity.NOTE), safe=frozenset("a")
)


def facts_with(rule: Rule, value: str | None) -> dict[str, str]:
    """Return facts under which *rule* applies, with *value* of its own."""
    facts = {name: min(values) for name, values in rule.only}
    facts |= {name: "something else" for name, _ in rule.unless}
    return facts if value is None else {**facts, rule.fact: value}


def settings_with(family: str, rule: Rule, value: str) -> dict[str, str]:
    """Return settings that are all safe but for the one of *rule*."""
    safe = {r.fact: VALUES[r.id][0] for r in RULES[family] if r.harm is not None}
    tables = {TABLES: rule.tables} if rule.tables else {}
    return {**safe, **tables, "log_bin": "ON", rule.fact: value}


@pytest.mark.parametrize("rule", EVERY)
def test_a_rule_applies_to_a_product_that_is_judged(rule: Rule) -> None:
    assert rule.product in {None, *Product}


@pytest.mark.parametrize("rule", EVERY)
def test_a_safe_value_is_safe_and_an_unsafe_one_is_not(rule: Rule) -> None:
    safe, unsafe = VALUES[rule.id]
    assert judge_rule(rule, facts_with(rule, safe)) is RuleStatus.SAFE
    assert judge_rule(rule, facts_with(rule, unsafe)) is RuleStatus.UNSAFE


@pytest.mark.parametrize("rule", EVERY)
def test_what_could_not_be_read_is_never_safe(rule: Rule) -> None:
    facts = facts_with(rule, None)
    assert judge_rule(rule, facts, frozenset({rule.fact})) is RuleStatus.UNKNOWN
    absent = RuleStatus.SAFE if rule.absent_is_safe else RuleStatus.UNKNOWN
    assert judge_rule(rule, facts) is absent


@pytest.mark.parametrize("rule", EVERY)
def test_a_condition_that_is_not_met_makes_any_value_safe(rule: Rule) -> None:
    for name, values in rule.only:
        facts = {**facts_with(rule, VALUES[rule.id][1]), name: "something else"}
        assert "something else" not in values
        assert judge_rule(rule, facts) is RuleStatus.SAFE
        del facts[name]
        assert judge_rule(rule, facts) is RuleStatus.UNKNOWN
        assert judge_rule(rule, {**facts, rule.fact: VALUES[rule.id][0]}) is (
            RuleStatus.SAFE
        )
    for name, values in rule.unless:
        facts = {**facts_with(rule, VALUES[rule.id][1]), name: min(values).upper()}
        assert judge_rule(rule, facts) is RuleStatus.SAFE


@pytest.mark.parametrize("rule", EVERY)
def test_a_rule_is_whole(rule: Rule) -> None:
    prefixes = {
        SubjectKind.SERVER: ("pg-", "my-"),
        SubjectKind.HOST: ("host-",),
        SubjectKind.FILESYSTEM: ("fs-",),
        SubjectKind.LAYER: ("layer-",),
        SubjectKind.DRIVE: ("drive-",),
        SubjectKind.CONTROLLER: ("raid-",),
        SubjectKind.POD: ("pod-",),
        SubjectKind.CLAIM: ("claim-",),
    }
    assert rule.id.startswith(prefixes[rule.subject])
    assert rule.why.endswith(".") and rule.fix and rule.source
    conditions = [values for _, values in (*rule.only, *rule.unless)]
    for values in (rule.safe | rule.unsafe, *conditions):
        assert all(value == value.lower() for value in values)
    losing = rule.harm is not None and rule.harm.depth is not None
    if losing and rule.id != "my-autocommit":  # which drivers set by themselves
        assert rule.severity is Severity.ERROR


def test_ids_are_unique_and_each_has_values() -> None:
    ids = [rule.id for rule in list_all_rules()]
    assert len(set(ids)) == len(ids)
    assert set(ids) == VALUES.keys()
    assert find_rule("pg-fsync") is RULES["postgresql"][0]
    assert find_rule("pg-nosuch") is None


def test_a_rule_without_a_safe_value_is_refused() -> None:
    with pytest.raises(ValueError, match="x: either safe or unsafe"):
        replace(_NOTHING, safe=frozenset())
    with pytest.raises(ValueError, match="x: either safe or unsafe"):
        replace(_NOTHING, unsafe=frozenset("b"))


def test_a_fix_that_differs_by_subject_is_known_as_one() -> None:
    """A word that stands for nothing, or that nothing replaces, is refused."""
    with pytest.raises(ValueError, match="x: a fix that differs"):
        replace(_NOTHING, fix="mount $MOUNT")
    with pytest.raises(KeyError, match="NOWHERE"):
        Fix("mount $NOWHERE")
    where = Fix("mount $MOUNT, or $MOUNT")
    assert where.on({"MOUNT": "/a$DEVICE"}) == "mount /a$DEVICE, or /a$DEVICE"


@pytest.mark.parametrize("rule", list_all_rules(), ids=lambda rule: rule.id)
def test_a_fix_is_text_for_people_where_no_subject_is_known(rule: Rule) -> None:
    """As in the report of a run, in SARIF and in the document of the rules."""
    found = Finding(rule, RuleStatus.UNSAFE, VALUES[rule.id][1])
    unnamed = Located(found, Subject(rule.subject, "it", {}), Fact(None, ""))
    for text in (found.sentence, f"{rule.fix}", unnamed.fix):
        assert "$" not in text
        assert str(rule.fix) in text


def test_the_document_is_made_of_the_rules() -> None:
    """Write it anew with: python -m tools.docs.rules."""
    assert document.FILE.read_text() == document.text()
    shown = [rule for rules in document.SECTIONS.values() for rule in rules]
    assert shown == list_all_rules()


# ------------------------------------------------------------- what bears on a run


@pytest.mark.parametrize(("family", "rule"), OF_RUNS)
def test_a_safe_setting_is_not_flagged(family: str, rule: Rule) -> None:
    assert (
        find_flagged_settings(family, settings_with(family, rule, VALUES[rule.id][0]))
        == []
    )


@pytest.mark.parametrize(("family", "rule"), OF_RUNS)
def test_an_unsafe_setting_is_flagged_alone(family: str, rule: Rule) -> None:
    (finding,) = find_flagged_settings(
        family, settings_with(family, rule, VALUES[rule.id][1])
    )
    assert finding.rule is rule
    assert finding.status is RuleStatus.UNSAFE
    assert finding.value == VALUES[rule.id][1]


def test_the_binary_log_is_judged_only_if_it_is_on() -> None:
    rule = find_rule("my-sync-binlog")
    assert rule is not None
    off = {"log_bin": "OFF", "sync_binlog": "0"}
    assert judge_rule(rule, off) is RuleStatus.SAFE
    assert judge_rule(rule, {**off, "log_bin": "ON"}) is RuleStatus.UNSAFE
    assert judge_rule(rule, {"sync_binlog": "0"}) is RuleStatus.UNSAFE


@pytest.mark.parametrize(
    ("engine", "status"),
    [("InnoDB", RuleStatus.SAFE), ("", RuleStatus.UNSAFE)],
)
def test_a_binary_log_in_innodb_needs_no_flush_of_its_own(
    engine: str, status: RuleStatus
) -> None:
    rule = find_rule("my-sync-binlog")
    assert rule is not None
    settings = {"log_bin": "ON", "sync_binlog": "0", "binlog_storage_engine": engine}
    assert judge_rule(rule, settings) is status


def test_a_rule_of_one_storage_engine_bears_on_runs_in_its_tables_alone() -> None:
    innodb, rocksdb = (
        find_rule("my-flush-log-at-trx-commit"),
        find_rule("my-rocksdb-flush-log"),
    )
    assert innodb is not None
    assert rocksdb is not None
    unsafe = settings_with("mysql", innodb, "2") | {rocksdb.fact: "2"}
    assert [found.rule for found in find_flagged_settings("mysql", unsafe)] == [innodb]
    in_rocksdb = {**unsafe, TABLES: ROCKSDB}
    assert [found.rule for found in find_flagged_settings("mysql", in_rocksdb)] == [
        rocksdb
    ]


def test_unsafe_comes_before_unknown_and_advice_is_left_out() -> None:
    found = find_flagged_settings(
        "postgresql", {"ignore_invalid_pages": "on", "wal_level": "minimal"}
    )
    assert found[0].status is RuleStatus.UNSAFE
    assert {f.status for f in found[1:]} == {RuleStatus.UNKNOWN}
    assert all(each.rule.harm is not None for each in found)
    assert [rule.id for rule in BELOW if rule.harm is not None] == [
        "fs-barrier",
        "fs-sync",
        "host-flush-replaced",
        "host-no-sync-option",
    ]
    advice = next(rule for rule in list_all_rules() if rule.harm is None)
    assert advice.harm_of("anything") == Harm()


# ------------------------------------------------------------- what an audit shows


NAMED, UNNAMED = Fact("standby1", "pg_settings"), Fact("", "pg_settings")


def server(product: str, version: tuple[int, ...], **facts: str | None) -> Subject:
    given = {
        name: Fact(value, "SHOW VARIABLES", "" if value else "denied", "a GRANT")
        for name, value in facts.items()
    }
    return Subject(SubjectKind.SERVER, product, given, product, version)


def ids(family: str, *subjects: Subject) -> list[tuple[str, str]]:
    found = find_located_findings(family, subjects)
    return [(each.finding.rule.id, each.finding.status.value) for each in found]


def test_a_rule_of_one_product_says_nothing_about_another() -> None:
    facts = {"innodb_flush_method": "O_DIRECT"}
    facts["volatile cache below the doublewrite file"] = "yes"
    wanted = ("my-doublewrite-not-flushed", "unsafe")
    assert wanted in ids("mysql", server("MySQL", (9, 7, 4), **facts))
    assert wanted in ids("mysql", server("MySQL", (8, 4, 0), **facts))
    assert wanted not in ids("mysql", server("MySQL", (8, 0, 40), **facts))
    assert wanted not in ids("mysql", server("MariaDB", (10, 11), **facts))
    facts["volatile cache below the doublewrite file"] = "no"
    assert wanted not in ids("mysql", server("MySQL", (9, 7, 4), **facts))


def test_a_condition_that_is_not_known_leaves_a_finding_unknown() -> None:
    subject = server("MySQL", (9, 7, 4), innodb_flush_method="O_DIRECT_NO_FSYNC")
    found = {
        each.finding.rule.id: each for each in find_located_findings("mysql", [subject])
    }
    apart = found["my-redo-on-another-drive"]
    assert apart.finding.status is RuleStatus.UNKNOWN
    assert apart.decisive.why == "it is not shown"
    assert found["my-flush-method"].finding.status is RuleStatus.UNSAFE


def test_settings_of_one_role_are_judged_by_the_rules_on_them_alone() -> None:
    whole = server(
        "PostgreSQL", (15,), fsync="off", synchronous_commit="on", wal_level="minimal"
    )
    of_role = ScopedSettings("role app", "a catalog", {"synchronous_commit": "off"})
    (role,) = make_other_subjects(whole, [of_role])
    waits = replace(whole, facts={**whole.facts, "synchronous_standby_names": NAMED})
    (also,) = make_other_subjects(waits, [of_role])
    assert ids("postgresql", role)[:1] == [("pg-synchronous-commit", "unsafe")]
    assert [each for each, _ in ids("postgresql", role)] == [
        "pg-synchronous-commit",
        "pg-standby-not-awaited",  # nothing shows that no standby is named
    ]
    waits = replace(whole, facts={**whole.facts, "synchronous_standby_names": UNNAMED})
    (alone,) = make_other_subjects(waits, [of_role])
    assert ids("postgresql", alone) == [("pg-synchronous-commit", "unsafe")]
    assert ids("postgresql", also) == ids("postgresql", role)


def test_the_worst_comes_first_and_what_is_unknown_last() -> None:
    subject = server(
        "PostgreSQL",
        (15, 18),
        fsync="off",
        wal_level="minimal",
        ignore_checksum_failure="on",
        full_page_writes=None,
    )
    found = find_located_findings("postgresql", [subject])
    order = [each.severity.value for each in found if each.finding.value is not None]
    assert order == ["error", "warning", "note"]
    statuses = [each.finding.status for each in found]
    assert statuses == sorted(statuses, key=lambda each: each.value == "unknown")
    torn = next(e for e in found if e.finding.rule.id == "pg-full-page-writes")
    assert torn.decisive.remedy == "a GRANT"


# ------------------------------------------------------------- what a lab shows


SHOWN = {row.rule for row in read_matrix(PRESET, (), target=False, seed=1).rows}


@pytest.mark.parametrize("rule", EVERY)
def test_what_a_rule_claims_is_shown_in_a_lab_or_says_why_not(rule: Rule) -> None:
    claims = rule.severity is Severity.ERROR
    if rule.id in SHOWN:
        assert not rule.no_receipt
        found = find_receipt(rule.id, 7)
        assert found.rule is rule
        for row in found.rows:
            assert (row.expect, row.until_loss) == (Verdict.FAIL, True)
            assert row.lab is not None and row.lab.drive.personality == "honest"
    else:
        assert bool(rule.no_receipt) == claims
        with refused(ErrorId.RULE_NOT_SHOWN_IN_LAB, UsageError) as caught:
            find_receipt(rule.id, 7)
        assert (rule.no_receipt or "it claims no loss") in str(caught.value)


def test_each_receipt_is_of_a_rule_and_no_other_name_has_one() -> None:
    assert all(find_rule(rule) for rule in SHOWN)
    with refused(ErrorId.RULE_UNKNOWN, UsageError, naming="fs-barier"):
        find_receipt("fs-barier", 7)
