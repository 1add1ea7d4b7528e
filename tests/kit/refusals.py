"""Expects a failure by its id, which stays when its message is reworded."""

from __future__ import annotations

from typing import TypeVar, overload

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import DbcheckError

Kind = TypeVar("Kind", bound=DbcheckError)
Words = str | tuple[str, ...]


@overload
def refused(id: ErrorId, *, naming: Words = ()) -> pytest.RaisesExc[DbcheckError]: ...


@overload
def refused(
    id: ErrorId, kind: type[Kind], *, naming: Words = ()
) -> pytest.RaisesExc[Kind]: ...


def refused(
    id: ErrorId, kind: type[DbcheckError] = DbcheckError, *, naming: Words = ()
) -> pytest.RaisesExc[DbcheckError]:
    """Expect, as pytest.raises() does, an error of the class *kind* with that id.

    naming: what its message must hold: a host, a path, a number, or the words of
            another program; if the id stands for several messages, which of them it is.
    """
    words = (naming,) if isinstance(naming, str) else naming

    def is_it(error: DbcheckError) -> bool:
        assert error.id is id, f"{error.id}: {error}"
        assert all(word in str(error) for word in words), str(error)
        return True

    return pytest.raises(kind, check=is_it)
