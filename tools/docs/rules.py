"""Writes docs/rules.md: `python -m tools.docs.rules`, after a change of a rule."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from dbcheck.audit import devices, mysql, platform, pods, postgresql, storage
from dbcheck.audit.rule import Rule
from dbcheck.runner.receipts import list_rules_with_receipt

FILE = Path(__file__).parents[2] / "docs" / "rules.md"
SECTIONS = {
    "PostgreSQL": postgresql.RULES,
    "MySQL and MariaDB": mysql.RULES,
    "Filesystems": storage.RULES,
    "Block devices": devices.LAYER_RULES,
    "Drives": devices.DRIVE_RULES,
    "RAID controllers": devices.CONTROLLER_RULES,
    "The host": platform.RULES,
    "Pods of Kubernetes": pods.POD_RULES,
    "Volume claims of Kubernetes": pods.CLAIM_RULES,
}
_SHOWN = list_rules_with_receipt()
_INTRO = """# Rules of the audit

`dbcheck audit` judges facts by these rules, and so does each run before its cut. This
file is made from the rules themselves (`python -m tools.docs.rules`).

| severity | means |
|---|---|
| error | A cut or a crash loses acknowledged commits, or damages data. |
| warning | It does so under conditions that dbcheck cannot exclude, or hides it. |
| note | It loses nothing by itself; it limits what a PASS means. |

A fact that could not be read is *not known*, which is never safe.

`dbcheck audit --receipt RULE` builds in a lab what a rule calls unsafe, cuts the power
and prints what was lost; `dbcheck matrix --preset receipts` runs all of them.
"""


def text() -> str:
    """Return the whole file."""
    parts = [_INTRO]
    for title, rules in SECTIONS.items():
        parts += [f"## {title}\n", *map(_section, rules)]
    return "\n".join(parts)


def _section(rule: Rule) -> str:
    return f"### {rule.id}\n\n" + "\n".join(_lines(rule)) + "\n"


def _lines(rule: Rule) -> Iterator[str]:
    values = rule.safe or rule.unsafe
    names = ", ".join(f"`{each}`" if each else "(empty)" for each in sorted(values))
    word = "safe" if rule.safe else "unsafe"
    yield f"**{rule.severity.value}**: `{rule.fact}`; {word}: {names}."
    yield f"{rule.why}\n"
    yield f"- Fix: {rule.fix}"
    conditions = [f"only if {_condition(*each)}" for each in rule.only]
    conditions += [f"unless {_condition(*each)}" for each in rule.unless]
    if rule.applies_to:
        conditions.insert(0, rule.applies_to)
    if conditions:
        yield f"- Applies: {'; '.join(conditions)}"
    if rule.id in _SHOWN:
        yield f"- Shown by: `dbcheck audit --receipt {rule.id}`"
    elif rule.no_receipt:
        yield f"- Not shown in a lab: {rule.no_receipt}"
    yield f"- Source: {rule.source}"


def _condition(fact: str, values: frozenset[str]) -> str:
    return f"{fact} is {' or '.join(each or '(empty)' for each in sorted(values))}"


if __name__ == "__main__":
    FILE.write_text(text())
