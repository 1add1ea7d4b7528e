"""A campaign names all rights that its account lacks at once, and begins nothing."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.cli import FAILED, PASS
from dbcheck.cli.lab import describe_as_host
from dbcheck.lab.lab import Lab
from tests.kit.accounts import connect_to, granted
from tests.kit.labs import process_lab
from tests.kit.rigs import bench

PASSWORD = "only-of-this-test"
ADMINISTRATOR = "boss"


def execute(lab: Lab, statements: list[str], user: str, password: str) -> None:
    url = lab.target_url.replace("//dbcheck@", f"//{user}@")
    with contextlib.closing(connect_to(url, password, "")) as connection:
        for statement in statements:
            connection.cursor().execute(statement)


def campaign(folder: Path, name: str, *words: str) -> tuple[int, str]:
    done = subprocess.run(
        (sys.executable, "-m", "dbcheck", "campaign", name, "--cuts", "1", *words),
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=280,
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    "name", ["mariadb", pytest.param("mysql", marks=pytest.mark.wide)]
)
def test_a_campaign_tells_at_once_what_to_grant(tmp_path: Path, name: str) -> None:
    """Its workload updates and deletes rows, which the account of `run` may not."""
    with bench(process_lab(name), tmp_path) as here:
        lab = here.lab
        hosts = {lab.name: describe_as_host(lab)}
        (tmp_path / "inventory.yml").write_text(json.dumps({"all": {"hosts": hosts}}))
        account = "dbcheck@'127.0.0.1'"
        execute(
            lab,
            [
                f"create user {ADMINISTRATOR}@'%' identified by '{PASSWORD}'",
                f"grant all on *.* to {ADMINISTRATOR}@'%' with grant option",
            ],
            *("dbcheck", lab.password),
        )
        of_run = [
            right.statement.replace("dbcheck@'%'", account)
            for right in granted(name, "insert").rights
            if right.is_required
        ]
        revoked = [f"revoke all privileges, grant option from {account}", *of_run]
        execute(lab, revoked, ADMINISTRATOR, PASSWORD)
        code, said = campaign(tmp_path, lab.name)
        assert code == FAILED
        assert f"[{ErrorId.PRIVILEGE_MISSING}]" in said
        assert "lacks UPDATE, DELETE on dbcheck.* [" in said
        assert said.count("cycle  ") == 1
        assert not [*tmp_path.glob("campaigns/*/runs/*")]
        *_, hint = said.strip().splitlines()
        grant = hint.strip().removeprefix("Run: ")
        execute(lab, [grant], ADMINISTRATOR, PASSWORD)
        code, said = campaign(tmp_path, lab.name)
        assert code == PASS, said
