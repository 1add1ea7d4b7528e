"""Expects a failure by its id, which stays when its message is reworded."""

from __future__ import annotations

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import DbcheckError


def refused(
    id: ErrorId, kind: type[DbcheckError] = DbcheckError
) -> pytest.RaisesExc[DbcheckError]:
    """Expect, as pytest.raises() does, an error of the class *kind* with that id."""
    return pytest.raises(kind, check=lambda error: error.id is id)
