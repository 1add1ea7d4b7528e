"""Writes docs/reference.md: `python -m tools.docs.reference`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any, get_type_hints

import click
from msgspec import Meta

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.text import Explained
from dbcheck.cli import MEANS, MEANS_ALSO
from dbcheck.cli.flags.groups import Group
from dbcheck.cli.root import VERBS
from dbcheck.config.validated import allowed
from dbcheck.inventory.entry import (
    EXPECT,
    KNOWN,
    SECRETS,
    TYPES_OF_OTHERS,
    VARIABLE_OF_SETTING,
    Entry,
)
from dbcheck.inventory.fields import PREFIX, TYPE_OF_SOURCE
from dbcheck.model.host import Expected
from dbcheck.power import registry
from dbcheck.power.kinds import shared
from dbcheck.rows.loss import LossKind
from dbcheck.rows.mix import Action
from dbcheck.rows.tasks import TaskKind
from dbcheck.rows.workload import PlanKind, Workload
from tests.kit.commandtree import contexts, options_of
from tools.docs.schema import RESULTS

DOCS = Path(__file__).parents[2] / "docs"
_INTRO = """# Reference

What can be written on the command line, in an inventory and in a workload, and what
dbcheck names in its answers. `dbcheck COMMAND --help` and the manual pages
(`man dbcheck-run`) have the help of each command. This page
is made from the program itself (`make reference`).
"""
_VARIABLES = """`dbcheck init --example` writes all of them with comments. Ansible's own
variables say how the target's host is reached: `ansible_host`, `ansible_user`,
`ansible_port`, `ansible_ssh_private_key_file`, and `ansible_connection`, which may be
`ssh` or `local`. As in Ansible, an older name such as `ansible_ssh_host` counts before
the newer one.

Of `ansible_ssh_args`, `ansible_ssh_common_args` and `ansible_ssh_extra_args` dbcheck
reads what leads to the host: a jump host (`-J`, `ProxyJump`), a `ProxyCommand`, and
another ssh_config (`-F`). It refuses arguments that set host, port, user or key, which
have variables of their own. It leaves out all others, such as
`StrictHostKeyChecking=no`: the key of a host must be known.

dbcheck logs in with a key, and not with `ansible_password`. It does not become another
user, whatever `ansible_become` says. What ansible.cfg and the environment say of
connections does not count; write it into the inventory.
"""
_KEYS = """A workload is a TOML file. `dbcheck workloads` lists those that come with
dbcheck, from the folder `workloads/`.
"""
_OPERATIONS = """Each operation inserts one row into the table `ledger` as well.
"""
_LOSSES = """`losses.csv` and `verdict.json` name them; each is a reason for FAIL.
[losses.md](losses.md) says what each means, what usually causes it and what to do next.
`losses.csv` also names the table of each row: ids of two tables have nothing in common.
Rows that readers saw and that are gone without an acknowledgement are not a loss:
`seen` in `verdict.json` counts them beside the verdict ([method.md](method.md)).
"""
_JSON = """Programs can rely on these: a JSON Schema for each result.
"""
_ERRORS = """The message of an expected failure on stderr ends with its id in brackets:
`dbcheck: cannot connect to ... [connection-failed]`. In what `--json` prints,
`error_id` stands beside `error`. An id stands for one cause with one remedy, which
`dbcheck explain ID` prints. Scripts can compare it: a message may be reworded. Exit
code 2 says that nothing was touched, 4 that an operation failed.
"""
_RULES = """## Audit rules

[rules.md](rules.md) has each rule, with what it judges, why, the fix and the source.
"""
# What prints a result, where the schema is not named after the command.
_PRINTED_BY = {
    "lab-explore-state": "dbcheck lab explore FOLDER --state NAME --json",
    "compare": "dbcheck report --compare A B --format json",
    "history": "dbcheck report RUNS --format json",
    "receipt": "dbcheck audit --receipt RULE --json",
}
_MORE_OF = {
    "campaign": "dbcheck report CAMPAIGN --format json",
    "matrix": "dbcheck report MATRIX --format json",
    "run": "dbcheck reconcile --json`, `dbcheck report RUN --format json",
}


def reference() -> str:
    """Return docs/reference.md."""
    return "\n".join(
        (
            _INTRO,
            _table("Commands", ("command", "what it does"), _commands()),
            "## Options\n\nEvery command has `-h, --help`.\n",
            *_options(),
            _table(
                "Variables of an inventory",
                ("variable", "value", "what it means"),
                _variables(),
                _VARIABLES,
            ),
            _table(
                "Keys of a workload",
                ("key", "value", "default", "what it means"),
                _workload_keys(),
                _KEYS,
            ),
            _explained("Plans of a workload", "plan", PlanKind),
            _explained(
                "Operations of a mixed workload", "operation", Action, _OPERATIONS
            ),
            _explained("Tasks of the housekeeping session", "task", TaskKind),
            _table("Kinds of loss", ("kind", "what is wrong"), _losses(), _LOSSES),
            _RULES,
            _table("JSON", ("schema", "printed by"), _schemas(), _JSON),
            _table("Ids of errors", ("about", "ids"), _errors(), _ERRORS),
            _table("Exit codes", ("code", "when"), _exit_codes()),
        )
    )


def _table(
    title: str,
    columns: tuple[str, ...],
    rows: Iterable[tuple[str, ...]],
    above: str = "",
    depth: int = 2,
) -> str:
    """Return a section with a table; a `|` in a cell is escaped."""
    lines = [f"{'#' * depth} {title}", ""]
    lines += [above] if above else []
    lines += ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    for row in rows:
        cells = (cell.replace("|", r"\|") for cell in row)
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _commands() -> Iterator[tuple[str, str]]:
    for context in contexts():
        if isinstance(context.command, click.Group):
            continue
        path = context.command_path
        summary = VERBS.get(path.removeprefix("dbcheck "))
        summary = summary or context.command.get_short_help_str(limit=200)
        yield f"`{path}`", marked(summary)


def _options() -> Iterator[str]:
    """Yield a table for each heading of the help.

    An option whose help differs from command to command has a row for each text.
    """
    sections: dict[str, dict[tuple[str, str], list[str]]] = {Group.section: {}}
    for context in contexts():
        name = context.command_path.removeprefix("dbcheck").strip() or "(no command)"
        for option, written, means in options_of(context):
            if "--help" not in option.opts:
                section = getattr(option, "section", Group.section)
                rows = sections.setdefault(section, {})
                rows.setdefault((written, means), []).append(name)
    for section, rows in sections.items():
        found = sorted((*row, ", ".join(names)) for row, names in rows.items())
        yield _table(
            "General" if section == Group.section else section,
            ("option", "of", "what it means"),
            ((f"`{written}`", names, marked(means)) for written, means, names in found),
            depth=3,
        )


def marked(text: str) -> str:
    """Return the text of a help in Markdown: options and their like as code."""
    text = re.sub(r"(?<![\w-])(--[a-z][\w-]*)", r"`\1`", " ".join(text.split()))
    return text.replace("*", r"\*").replace("<", r"\<")


def description(hint: Any, what: str) -> str:
    """Return what the annotation of a field says that it means."""
    for each in getattr(hint, "__metadata__", ()):
        if isinstance(each, Meta) and each.description:
            return each.description
    raise ValueError(f"{what} has no description: annotate it with msgspec.Meta")


def hints_of(kind: type[Any]) -> Mapping[str, Any]:
    """Return the annotation of each field."""
    return get_type_hints(kind, include_extras=True)


def _variables() -> Iterator[tuple[str, str, str]]:
    """Yield each variable of an inventory; raise ValueError if one has no text."""
    hints = dict(TYPES_OF_OTHERS)
    for name, hint in hints_of(Entry).items():
        hints[f"{PREFIX}{VARIABLE_OF_SETTING.get(name, name)}"] = hint
    for name, hint in hints_of(Expected).items():
        hints[f"{EXPECT}{name}"] = hint
    for config in registry.CONFIGS:
        of_config = hints_of(config)
        for name, own in shared.list_variables(config).items():
            hints[name] = of_config[own]
    hints |= TYPES_OF_OTHERS
    texts = {}
    for secret, named in SECRETS.items():
        for source, hint in TYPE_OF_SOURCE.items():
            name = f"{secret}_{source}"
            hints[name] = hint
            texts[name] = description(hint, name).format(named)
    for name in sorted(KNOWN):
        hint = hints[name]
        yield f"`{name}`", allowed(hint), texts.get(name) or description(hint, name)


def _workload_keys() -> Iterator[tuple[str, str, str, str]]:
    """Yield each key of a workload; raise ValueError if one has no text."""
    hints = hints_of(Workload)
    for field in fields(Workload):
        if field.name not in ("name", "cores"):  # the file's, and the client's
            hint = hints[field.name]
            yield (
                f"`{field.name}`",
                allowed(hint),
                _default(field),
                description(hint, field.name),
            )


def _default(field: Field[Any]) -> str:
    if field.default is MISSING:
        return ""
    if isinstance(field.default, tuple):
        return f"`{list(field.default)}`" if field.default else ""
    is_number = isinstance(field.default, int | float)
    return f"`{field.default:g}`" if is_number else ""


def _explained(title: str, column: str, kind: type[Explained], above: str = "") -> str:
    rows = ((f"`{each.value}`", means_of(each)) for each in kind)
    return _table(title, (column, "what it does"), rows, above, depth=3)


def means_of(member: Explained) -> str:
    """Return what a member means; raise ValueError if it has no text."""
    if not member.means:
        raise ValueError(f"{member} has no text: write what it means behind its name")
    return member.means


def _losses() -> Iterator[tuple[str, str]]:
    for kind in LossKind:
        yield f"[`{kind.value}`](losses.md#{kind.value})", means_of(kind)


def _schemas() -> Iterator[tuple[str, str]]:
    for name in RESULTS:
        command = f"dbcheck {name.replace('-', ' ')} --json"
        printed = _PRINTED_BY.get(name, command)
        if more := _MORE_OF.get(name):
            printed += f"`, `{more}"
        yield f"[{name}.json](schema/{name}.json)", f"`{printed}`"


def _errors() -> Iterator[tuple[str, str]]:
    """Yield each subject, a comment in the enumeration, with its ids."""
    for part in inspect.getsource(ErrorId).split("\n    # ")[1:]:
        subject, _, members = part.partition(".\n")
        ids = re.findall(r'"(.+)"', members)
        yield subject, ", ".join(f"`{id}`" for id in ids)


def _exit_codes() -> Iterator[tuple[str, str]]:
    for code, means in MEANS.items():
        also = (f"`{name}`: {when}" for name, when in MEANS_ALSO.get(code, {}).items())
        yield f"`{code}`", "; ".join((means, *also)) + "."


if __name__ == "__main__":
    (DOCS / "reference.md").write_text(reference(), "utf-8")
