"""The statements of a session of the load: their texts, values, and answers."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from dbcheck.rows.operation import (
    DECISIONS,
    ROLLBACK,
    ROLLBACK_TO,
    SAVEPOINT,
    TwoPhase,
    Value,
    Verb,
)
from dbcheck.rows.table import Column, Kind

BINARY = 1
# The format of a value of each kind, and its size in bytes; "0s" takes any bytes.
_FORMATS = {
    Kind.BIGINT: ("q", 8),
    Kind.INTEGER: ("i", 4),
    Kind.SMALLINT: ("h", 2),
    Kind.BYTES: ("0s", 0),
}

# The command tag of a transaction that was rolled back is ROLLBACK, and that is no
# error; so the tags themselves are looked at.
TAGS = {
    Verb.INSERT: b"INSERT 0 %d",
    Verb.UPDATE: b"UPDATE %d",
    Verb.DELETE: b"DELETE %d",
    Verb.CREATE: b"CREATE TABLE",
    Verb.INDEX: b"CREATE INDEX",
    Verb.REWRITE: b"ALTER TABLE",
    Verb.TRUNCATE: b"TRUNCATE TABLE",
    Verb.DROP: b"DROP TABLE",
    Verb.VACUUM: b"VACUUM",
    Verb.CHECKPOINT: b"CHECKPOINT",
    Verb.ROTATE: b"SELECT 1",
}
# A table without its mark would not be known as dbcheck's; see engines.tables.
MARKED = b"COMMENT"
BEGIN, COMMIT = b"BEGIN", b"COMMIT"
# What is sent for each of rows.operation.CONTROLS and for each step of a TwoPhase
# commit, whose name takes the place of %s, and the tags of its answers.
CONTROLS: Mapping[str, Sequence[tuple[bytes, bytes]]] = {
    ROLLBACK.name: ((b"ROLLBACK", b"ROLLBACK"), (BEGIN, BEGIN)),
    SAVEPOINT.name: ((b"SAVEPOINT dbcheck", b"SAVEPOINT"),),
    ROLLBACK_TO.name: ((b"ROLLBACK TO SAVEPOINT dbcheck", b"ROLLBACK"),),
    TwoPhase.COMMIT.value: ((b"COMMIT PREPARED '%s'", b"COMMIT PREPARED"),),
    TwoPhase.ROLLBACK.value: ((b"ROLLBACK PREPARED '%s'", b"ROLLBACK PREPARED"),),
    TwoPhase.BEGIN.value: ((COMMIT, COMMIT), (BEGIN, BEGIN)),
    TwoPhase.PREPARE.value: ((b"PREPARE TRANSACTION '%s'", b"PREPARE TRANSACTION"),),
}
DECISION_STEPS = frozenset(step.value for step in DECISIONS)
PREPARE = TwoPhase.PREPARE.value


class Packer:
    """Packs the values of a statement for libpq, in binary.

    All integers are packed by one call and split by another: a call for each value
    takes twice as long.  formats: of each value, for libpq.
    """

    def __init__(self, parameters: Sequence[Column]) -> None:
        codes = [_FORMATS[column.kind] for column in parameters]
        self._join = struct.Struct("!" + "".join(code for code, _ in codes)).pack
        self._split = struct.Struct("".join(f"{size}s" for _, size in codes)).unpack
        kinds = enumerate(column.kind for column in parameters)
        self._bytes_places = [at for at, kind in kinds if kind is Kind.BYTES]
        self.formats = [BINARY] * len(parameters)

    def pack(self, values: Sequence[Value]) -> list[bytes]:
        """Return each of *values*; raise struct.error if one does not fit."""
        packed: list[Any] = [*self._split(self._join(*values))]
        for at in self._bytes_places:
            packed[at] = values[at]
        return packed


class Prepared(NamedTuple):
    """A prepared statement: how its values are packed, the tag of its success.

    alone: what an operation that has no other statement is answered with.
    """

    name: bytes
    pack: Callable[[Sequence[Value]], list[bytes]]
    formats: list[int]
    tag: bytes
    returns_id: bool
    alone: tuple[list[bytes], int]


class Late(NamedTuple):
    """A statement that is not prepared: its texts, in their order, and their tags."""

    texts: tuple[tuple[bytes, bytes], ...]
    packer: Packer
