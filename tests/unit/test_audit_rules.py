"""Every rule of the audit, with a value that keeps acks and one that loses them."""

from __future__ import annotations

import pytest

from dbcheck.audit import storage
from dbcheck.audit.rule import Rule
from dbcheck.audit.rules import RULES, Standing, findings, flagged, judge

# rule -> (a safe value, an unsafe one), as the servers spell them
VALUES = {
    "pg-fsync": ("on", "off"),
    "pg-synchronous-commit": ("remote_write", "off"),
    "pg-full-page-writes": ("on", "off"),
    "pg-data-sync-retry": ("off", "on"),
    "pg-zero-damaged-pages": ("off", "on"),
    "pg-ignore-checksum-failure": ("off", "on"),
    "pg-ignore-invalid-pages": ("off", "on"),
    "my-autocommit": ("ON", "OFF"),
    "my-flush-log-at-trx-commit": ("1", "2"),
    "my-flush-method": ("O_DIRECT", "O_DIRECT_NO_FSYNC"),
    "my-doublewrite": ("ON", "DETECT_ONLY"),
    "my-redo-log": ("ON", "OFF"),
    "my-sync-binlog": ("1", "0"),
    "my-binlog-error-action": ("ABORT_SERVER", "IGNORE_ERROR"),
    "my-force-recovery": ("0", "1"),
    "my-checksum-algorithm": ("full_crc32", "none"),
    "my-log-checksums": ("ON", "OFF"),
    "my-galera": ("OFF", "ON"),
    "my-group-replication": ("", "3e11fa47-71ca-11e1-9e33-c80aa9429562"),
}
ALL = [
    pytest.param(family, rule, id=rule.id)
    for family, rules in RULES.items()
    for rule in rules
]


def settings_with(family: str, rule: Rule, value: str) -> dict[str, str]:
    """Return settings that are all safe but for the one of *rule*."""
    safe = {r.fact: VALUES[r.id][0] for r in RULES[family]}
    return {**safe, "log_bin": "ON", rule.fact: value}


@pytest.mark.parametrize(("family", "rule"), ALL)
def test_a_safe_value_is_not_flagged(family: str, rule: Rule) -> None:
    assert flagged(family, settings_with(family, rule, VALUES[rule.id][0])) == []


@pytest.mark.parametrize(("family", "rule"), ALL)
def test_an_unsafe_value_is_flagged_alone(family: str, rule: Rule) -> None:
    (finding,) = flagged(family, settings_with(family, rule, VALUES[rule.id][1]))
    assert finding.rule is rule
    assert finding.standing is Standing.UNSAFE
    assert finding.value == VALUES[rule.id][1]


@pytest.mark.parametrize(("family", "rule"), ALL)
def test_an_unread_setting_is_never_safe(family: str, rule: Rule) -> None:
    expected = Standing.SAFE if rule.absent_is_safe else Standing.UNKNOWN
    assert judge(rule, {"log_bin": "ON"}) is expected


def test_the_binary_log_is_judged_only_if_it_is_on() -> None:
    (rule,) = (r for r in RULES["mysql"] if r.id == "my-sync-binlog")
    assert judge(rule, {"log_bin": "OFF", "sync_binlog": "0"}) is Standing.SAFE
    assert judge(rule, {"log_bin": "ON", "sync_binlog": "0"}) is Standing.UNSAFE
    assert judge(rule, {"sync_binlog": "0"}) is Standing.UNSAFE


def test_unsafe_comes_before_unknown() -> None:
    found = flagged("postgresql", {"ignore_invalid_pages": "on"})
    assert found[0].standing is Standing.UNSAFE
    assert {f.standing for f in found[1:]} == {Standing.UNKNOWN}
    rules = [*RULES["postgresql"], *storage.RULES]
    assert [f.rule for f in findings("postgresql", {})] == rules


@pytest.mark.parametrize(("family", "rule"), ALL)
def test_a_rule_is_whole(family: str, rule: Rule) -> None:
    assert rule.id.startswith(("pg-", "my-"))
    assert rule.why.endswith(".") and rule.source
    assert all(value == value.lower() for value in rule.safe)


def test_ids_are_unique() -> None:
    ids = [rule.id for rules in RULES.values() for rule in rules]
    assert len(set(ids)) == len(ids)
    assert set(ids) == VALUES.keys()
