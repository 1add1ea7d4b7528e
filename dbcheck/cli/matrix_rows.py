"""The configurations of a matrix, as a TOML file and --vary describe them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dbcheck import files
from dbcheck.core.verdict import Verdict
from dbcheck.errors import UsageError
from dbcheck.lab.lab import best_rung
from dbcheck.lab.spec import DriveSpec, LabSpec

Values = Mapping[str, Any]

CUTS = 3
_FILE = {
    "description": str,
    "reference": str,
    "workload": str,
    "sessions": int,
    "cuts": int,
    "defaults": dict,
    "rows": list,
}
_TOLD = {"name": str, "reference": str, "expect": str, "price": float}
_LAB = {
    "engine": str,
    "rung": str,
    "fs": str,
    "mount_options": str,
    "write_cache": str,
    "drive": str,
    "flush_ms": float,
    "write_ms": float,
    "destage_s": float,
    "cache_mib": int,
    "survivors": str,
    "lie_fraction": float,
}
_TARGET = {"relaxed": bool}
# Where a LabSpec or a DriveSpec has another name for it.
_NAMES = {"fs": "filesystem", "drive": "personality", "destage_s": "destage_age_s"}
_OF_THE_LAB = {"engine", "rung", "fs", "mount_options", "write_cache"}
_SETTING = "setting."


@dataclass(frozen=True, slots=True)
class Row:
    """One configuration of a matrix.

    lab:       the lab to build, None on a target.
    settings:  on a target: of the load's sessions, name -> value.
    relaxed:   on a target: run it as a control, acked too early.
    reference: what was seen elsewhere, for comparison; "" if nothing.
    expect:    the verdict that it must get, None if any will do.
    price:     of what it runs on, in any currency; None if not given.
    """

    name: str
    lab: LabSpec | None
    settings: Mapping[str, str]
    relaxed: bool
    reference: str
    expect: Verdict | None
    price: float | None


@dataclass(frozen=True, slots=True)
class Matrix:
    """Configurations, and what each of them goes through.

    reference: where the references of the rows come from.
    """

    description: str
    reference: str
    workload: str
    sessions: int | None
    cuts: int
    rows: tuple[Row, ...]


def read_matrix(
    preset: str | None,
    vary: Sequence[str],
    *,
    target: bool,
    seed: int,
    engine: str | None = None,
) -> Matrix:
    """Return the matrix in the file *preset*, each row in all ways that *vary* names.

    preset: a file that ends in .toml, or a name in matrices/; None: one row, which
    vary alone describes.  vary: KEY=VALUE,VALUE,... each.  engine: of rows that name
    none.  Raise UsageError, naming the row and the key, if something is wrong.
    """
    where, text = files.described("matrix", preset) if preset else ("--vary", "")
    values = files.parse_toml(text, where)
    told = {key: _typed(_FILE, key, value, where) for key, value in values.items()}
    given = told.get("rows", []) if preset else [{}]
    if not given or not all(isinstance(row, dict) for row in given):
        raise UsageError(f"{where} has no rows", hint="Give at least one [[rows]].")
    common = {"engine": engine} if engine else {}
    rows = [
        _row(
            _merged(common, told.get("defaults", {}), row, varied),
            name=_name(row, varied, number),
            where=where,
            target=target,
            seed=seed,
        )
        for number, row in enumerate(given, 1)
        for varied in _variations(vary)
    ]
    cuts = told.get("cuts", CUTS)
    if cuts < 1:
        raise UsageError(f"{where}: cuts is {cuts}", hint="Give 1 or more.")
    return Matrix(
        description=told.get("description", ""),
        reference=told.get("reference", ""),
        workload=told.get("workload", "insert"),
        sessions=told.get("sessions"),
        cuts=cuts,
        rows=tuple(rows),
    )


def _variations(vary: Sequence[str]) -> Iterator[dict[str, str]]:
    """Yield every combination of the values that the options name."""
    keys, choices = [], []
    for option in vary:
        key, equals, listed = option.partition("=")
        if not (key and equals):
            raise UsageError(
                f"--vary {option} names no values", hint="Give KEY=VALUE,VALUE,..."
            )
        keys.append(key)
        choices.append(listed.split(","))
    if len(set(keys)) < len(keys):
        raise UsageError("--vary names a key twice", hint="List its values in one.")
    for combination in itertools.product(*choices):
        yield dict(zip(keys, combination, strict=True))


def _merged(*parts: Values) -> dict[str, Any]:
    """Return all of *parts*, the last one first; settings are merged one by one."""
    merged: dict[str, Any] = {}
    settings: dict[str, Any] = {}
    for part in parts:
        table = part.get("settings", {})
        if not isinstance(table, dict):
            raise UsageError(f"settings is {table!r}", hint="Give a table.")
        settings |= table
        for key, value in part.items():
            if key.startswith(_SETTING):
                settings[key.removeprefix(_SETTING)] = value
            else:
                merged[key] = value
    return {**merged, "settings": settings}


def _name(row: Values, varied: Values, number: int) -> str:
    parts = [str(row["name"])] if "name" in row else []
    parts += [f"{key.removeprefix(_SETTING)}={value}" for key, value in varied.items()]
    return ", ".join(parts) or f"row {number}"


def _row(values: Values, *, name: str, where: str, target: bool, seed: int) -> Row:
    where = f"{where}, {name}"
    allowed = _TOLD | (_TARGET if target else _LAB)
    typed = {
        key: _typed(allowed, key, value, where)
        for key, value in values.items()
        if key != "settings"
    }
    settings = {key: _setting(value) for key, value in values["settings"].items()}
    expect = typed.get("expect")
    if expect not in (None, "PASS", "FAIL"):
        raise UsageError(f"{where}: expect is {expect!r}", hint="Give PASS or FAIL.")
    return Row(
        name=name,
        lab=None if target else _lab(typed, settings, where, seed),
        settings=settings,
        relaxed=typed.get("relaxed", False),
        reference=typed.get("reference", ""),
        expect=Verdict(expect) if expect else None,
        price=typed.get("price"),
    )


def _lab(typed: Values, settings: Mapping[str, str], where: str, seed: int) -> LabSpec:
    told = {key: value for key, value in typed.items() if key in _LAB}
    if "engine" not in told:
        raise UsageError(
            f"{where}: no engine is named", hint="Give --engine, or a --preset."
        )
    cache = {"cache_bytes": told.pop("cache_mib") << 20} if "cache_mib" in told else {}
    lab = {_NAMES.get(k, k): v for k, v in told.items() if k in _OF_THE_LAB}
    drive = {_NAMES.get(k, k): v for k, v in told.items() if k not in _OF_THE_LAB}
    if lab.get("rung", "auto") == "auto":
        lab["rung"] = "drive"
        LabSpec(**lab)  # refuses an engine that there is not
        lab["rung"] = best_rung(lab["engine"])
    return LabSpec(
        **lab, settings=settings, drive=DriveSpec(seed=seed, **drive, **cache)
    )


def _typed(known: Mapping[str, type], key: str, value: Any, where: str) -> Any:
    """Return *value* as what *key* is to be; words of --vary may be numbers."""
    kind = known.get(key)
    if kind is None:
        raise UsageError(
            f"{where}: unknown key {key!r}",
            hint=f"Known keys are {', '.join(sorted(known))}, and settings.",
        )
    if kind in (int, float) and type(value) in (int, float, str):
        try:
            number = kind(value)
        except (ValueError, OverflowError):
            number = math.nan
        if math.isfinite(number) and number >= 0 and number == float(value):
            return number
    elif kind is bool and value in ("true", "false"):
        return value == "true"
    elif isinstance(value, kind):
        return value
    raise UsageError(f"{where}: {key} is {value!r}", hint=f"It must be {_KINDS[kind]}.")


_KINDS = {
    str: "a word",
    int: "a whole number, 0 or more",
    float: "a number, 0 or more",
    bool: "true or false",
    dict: "a table",
    list: "a list of tables, [[rows]]",
}


def _setting(value: object) -> str:
    """Return a setting as a server takes it."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)
