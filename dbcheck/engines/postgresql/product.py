"""Recognises PostgreSQL by what a server says of itself, and refuses other products."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError, OtherProduct
from dbcheck.engines.registry import JUDGED, NAME_ANOTHER

_VERSION_MIN = 13_00_00
_OWN = "PostgreSQL "  # how its version() begins

# Products that use the protocol, and most of them the name PostgreSQL; none keeps its
# rows in PostgreSQL's own files, so nothing that is known of those would hold.
_OTHERS = (
    "Redshift",
    "Greenplum",
    "Materialize",
    "CrateDB",
    "RisingWave",
    "QuestDB",
    "Spanner",
)
# The same of two whose version is found: "CockroachDB CCL v26.2.0 (x86_64-...)" and
# "PostgreSQL 15.12-YB-2025.1.0.0-b0 on ..." (YugabyteDB documentation, Versioning).
_VERSIONED = {
    "CockroachDB": re.compile(r"CockroachDB(?:[^(\d]*v([\d.]+))?"),
    "YugabyteDB": re.compile(r"-YB-([\d.]+)?"),
}
# What a server says at each login, before any statement: CockroachDB has a parameter of
# its own (psycopg and pgx know it by that); of YugabyteDB, the version has the mark.
_SAID_AT_LOGIN = ("crdb_version", "server_version")

_OTHER_SETTINGS = {"neon.": "Neon", "polar_": "PolarDB", "gp_": "Greenplum"}


def require_at_login(target: str, said: Callable[[str], str | None]) -> None:
    """Raise OtherProduct if the server names itself another product at its login.

    This comes before any statement: CockroachDB may lack what ours use, and its error
    would say less.
    said: returns a parameter of the login, None if the server sent none of that name.
    """
    for name in _SAID_AT_LOGIN:
        if product := _find_other_product(said(name) or ""):
            raise _other_product_error(target, product)


def require_postgresql(target: str, version: str) -> None:
    """Raise OtherProduct if *version*, which is version(), is another product's."""
    product = _find_other_product(version)
    if not product and not version.startswith(_OWN):
        product = version.split(" on ")[0]
    if product:
        raise _other_product_error(target, product)


def require_version(version_num: int) -> None:
    """Raise EngineError if this release is too old; version_num: e.g. 150018."""
    if version_num < _VERSION_MIN:
        raise EngineError(
            f"PostgreSQL {version_num // 10000} is not supported",
            id=ErrorId.SERVER_VERSION_NOT_SUPPORTED,
            hint=f"Use PostgreSQL {_VERSION_MIN // 10000} or newer.",
        )


def require_own_storage(target: str, settings: Mapping[str, str]) -> None:
    """Raise OtherProduct if a server that calls itself PostgreSQL has another storage.

    version() of these is PostgreSQL's own; what they add is in their settings (Neon,
    pgxn/neon; PolarDB for PostgreSQL, Greenplum, their documentation).
    """
    for name in settings:
        for beginning, other in _OTHER_SETTINGS.items():
            if name.startswith(beginning):
                raise _other_product_error(target, f"{other}, by its setting {name}")


def _find_other_product(text: str) -> str:
    """Return the other product that *text* names, "" if none."""
    for name, pattern in _VERSIONED.items():
        if found := pattern.search(text):
            return f"{name} {found[1] or ''}".rstrip()
    return next((name for name in _OTHERS if name in text), "")


def _other_product_error(target: str, product: str) -> OtherProduct:
    return OtherProduct(
        f"{target} is {product}, not PostgreSQL: {JUDGED}",
        id=ErrorId.SERVER_NOT_SUPPORTED,
        hint=NAME_ANOTHER,
    )
