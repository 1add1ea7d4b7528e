"""The JSON that --json prints is what docs/schema says."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import jsonschema
import pytest

from dbcheck.cycle.judging import judge_run
from dbcheck.judge.result import to_values
from dbcheck.runs.folder import RunFolder
from dbcheck.witness.log import FrameLogReader
from tests.kit.stored_run import manifest, stored_run
from tests.runs import make
from tools.docs.schema import FOLDER, RESULTS, schema_of

RUNS = Path(make.__file__).parent


@pytest.mark.parametrize("name", RESULTS)
def test_the_published_schema_is_that_of_the_result(name: str) -> None:
    """Write it anew with: python -m tools.docs.schema."""
    assert (FOLDER / f"{name}.json").read_text() == schema_of(name)


@cache
def checker() -> jsonschema.Draft202012Validator:
    schema = json.loads((FOLDER / "run.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.mark.parametrize(
    "run", sorted(RUNS.glob("*/manifest.json")), ids=lambda path: path.parent.name
)
def test_what_is_printed_of_a_run_is_valid(run: Path, tmp_path: Path) -> None:
    copy = make.copied(run.parent, tmp_path / "run")
    outcome = judge_run(RunFolder.open(copy), FrameLogReader())
    values = json.loads(json.dumps(to_values(outcome.result)))
    checker().validate(values)


def test_what_is_no_result_is_refused(tmp_path: Path) -> None:
    stored = stored_run(RunFolder.create(tmp_path, manifest()))
    values = json.loads(
        json.dumps(to_values(judge_run(stored, FrameLogReader()).result))
    )
    checker().validate(values)
    for name, other in (("verdict", "MAYBE"), ("confirmed", "12"), ("evidence", {})):
        with pytest.raises(jsonschema.ValidationError, match=r"is not"):
            checker().validate({**values, name: other})
    del values["reasons"]
    with pytest.raises(jsonschema.ValidationError, match="'reasons' is a required"):
        checker().validate(values)
