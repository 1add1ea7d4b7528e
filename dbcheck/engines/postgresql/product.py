"""Recognises PostgreSQL by what a server says of itself, and refuses other products."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError, OtherProduct
from dbcheck.engines.registry import JUDGED, NAME_ANOTHER

_VERSION_MIN = 13_00_00
_OWN_VERSION_START = "PostgreSQL "  # how its version() begins

# Products that use the protocol, and most of them the name PostgreSQL.  None keeps its
# rows in PostgreSQL's own files, so what dbcheck knows of those files does not hold.
_OTHER_PRODUCTS = (
    "Redshift",
    "Greenplum",
    "Materialize",
    "CrateDB",
    "RisingWave",
    "QuestDB",
    "Spanner",
)
# Two more such products, whose version can be read as well: "CockroachDB CCL v26.2.0
# (x86_64-...)" and "PostgreSQL 15.12-YB-2025.1.0.0-b0 on ..." (YugabyteDB
# documentation, Versioning).
_VERSION_PATTERNS = {
    "CockroachDB": re.compile(r"CockroachDB(?:[^(\d]*v([\d.]+))?"),
    "YugabyteDB": re.compile(r"-YB-([\d.]+)?"),
}
# Parameters that a server sends at each login, before any statement.  CockroachDB has
# its own parameter, by which psycopg and pgx know it; YugabyteDB's version names it.
_LOGIN_PARAMETERS = ("crdb_version", "server_version")

_OTHER_SETTINGS = {"neon.": "Neon", "polar_": "PolarDB", "gp_": "Greenplum"}


def require_at_login(target: str, said: Callable[[str], str | None]) -> None:
    """Raise OtherProduct if the server names itself another product at the login.

    This comes before any statement: CockroachDB may lack what dbcheck's statements use,
    and its error would say less.
    said: returns a parameter of the login, None if the server sent none of that name.
    """
    for name in _LOGIN_PARAMETERS:
        if product := _find_other_product(said(name) or ""):
            raise _other_product_error(target, product)


def require_postgresql(target: str, version: str) -> None:
    """Raise OtherProduct if *version*, from version(), is another product's."""
    product = _find_other_product(version)
    if not product and not version.startswith(_OWN_VERSION_START):
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

    version() of the products in _OTHER_SETTINGS is PostgreSQL's own, but they have
    settings that PostgreSQL lacks (Neon, pgxn/neon; PolarDB for PostgreSQL, Greenplum,
    their documentation).
    """
    for name in settings:
        for beginning, other in _OTHER_SETTINGS.items():
            if name.startswith(beginning):
                raise _other_product_error(target, f"{other}, by its setting {name}")


def _find_other_product(text: str) -> str:
    """Return the other product that *text* names, "" if none."""
    for name, pattern in _VERSION_PATTERNS.items():
        if match := pattern.search(text):
            return f"{name} {match[1] or ''}".rstrip()
    return next((name for name in _OTHER_PRODUCTS if name in text), "")


def _other_product_error(target: str, product: str) -> OtherProduct:
    return OtherProduct(
        f"{target} is {product}, not PostgreSQL: {JUDGED}",
        id=ErrorId.SERVER_NOT_SUPPORTED,
        hint=NAME_ANOTHER,
    )
