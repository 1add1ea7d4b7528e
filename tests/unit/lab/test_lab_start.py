"""What a lab refuses before anything of it is made, and how its server is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LabError, UsageError
from dbcheck.lab import lab as lab_module
from dbcheck.lab import server_account
from dbcheck.lab.clusters.cluster import ClusterLab
from dbcheck.lab.clusters.spec import ClusterSpec
from dbcheck.lab.lab import Lab
from dbcheck.lab.server_account import Account
from dbcheck.lab.servers import base
from dbcheck.lab.servers.base import DatabaseServer
from dbcheck.lab.servers.mariadb import GaleraServer
from dbcheck.lab.servers.postgresql import PostgresqlServer
from dbcheck.lab.spec import LabSpec
from tests.kit.refusals import refused

ACCOUNT = Account.of_number(2_000_300_001)


class Held:
    """A port that notes what becomes of it."""

    number = 1

    def __init__(self) -> None:
        self.seen: list[str] = []

    def lend(self) -> None:
        self.seen.append("lent")

    def keep(self) -> None:
        self.seen.append("kept")


def not_started(*_: object) -> None:
    raise LabError("no such program", id=ErrorId.PROGRAM_FAILED)


@pytest.mark.parametrize("address", ["h", "127.0.0.1:33061"])
def test_a_lab_alone_takes_no_settings_of_a_group(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lab_module, "list_missing", lambda _: [])
    for modifier in ("", "loose_"):
        settings = {f"{modifier}group_replication_local_address": address}
        spec = LabSpec("mysql", cut="process", settings=settings)
        with refused(
            ErrorId.SETTING_INVALID,
            UsageError,
            naming="a member of a replication group",
        ):
            Lab.start(spec, tmp_path / "lab")
        with refused(
            ErrorId.SETTING_INVALID,
            UsageError,
            naming="a member of a replication group",
        ):
            ClusterLab(spec, ClusterSpec(topology="semi-sync"), tmp_path / "lab")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "name", ["ssl", "skip-ssl", "disable_ssl", "loose-skip-ssl", "ssl_key_file"]
)
def test_the_tls_settings_of_a_cluster_are_its_own(name: str, tmp_path: Path) -> None:
    lab = LabSpec("mariadb", cut="process", settings={name: ""})
    with refused(ErrorId.LAB_DECIDES_SETTING, UsageError, naming=(name, "a cluster")):
        ClusterLab(lab, ClusterSpec(), tmp_path / "lab")


@pytest.mark.parametrize("lacking", ["the log", "the program"])
def test_a_server_that_could_not_be_started_keeps_its_port(
    lacking: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else any other program could have it while nothing listens there."""
    held = Held()
    monkeypatch.setattr(base, "HeldPort", lambda **_: held)
    server = PostgresqlServer(tmp_path / "data", tmp_path / "run", account=ACCOUNT)
    monkeypatch.setattr(server, "_command", lambda: ([], None))
    monkeypatch.setattr(server, "_spawn", not_started)
    monkeypatch.setattr(server_account, "make_readable", lambda *_: None)
    if lacking == "the program":
        (tmp_path / "run").mkdir()
    why = "no such program" if lacking == "the program" else "No such file"
    with pytest.raises((FileNotFoundError, LabError), match=why):
        server.begin(1.0)
    assert held.seen == ["lent", "kept"]


@pytest.mark.parametrize(
    ("kind", "looks"),
    [(PostgresqlServer, "_pid_file_lines"), (GaleraServer, "_recover_position")],
)
def test_recorded_data_are_the_accounts_before_its_server_looks_at_them(
    kind: type[DatabaseServer],
    looks: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = kind(tmp_path / "data", tmp_path / "run", 1, account=ACCOUNT)
    server.adopted = True
    server._begun = True  # type: ignore[attr-defined]
    seen: list[str] = []

    def look() -> None:
        seen.append("look")
        raise LookupError("looked")

    monkeypatch.setattr(
        server_account, "hand_over", lambda *_: seen.append("hand over")
    )
    monkeypatch.setattr(server, looks, look)
    with pytest.raises(LookupError, match="looked"):
        server.begin(1.0)
    assert seen == ["hand over", "look"]


def test_a_folder_above_that_others_made_meanwhile_ends_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter(["", f"{tmp_path} belongs to user 7"])
    monkeypatch.setattr(lab_module, "exchangeable", lambda _: next(answers))
    with refused(ErrorId.FOLDER_OPEN_TO_OTHERS, LabError, naming="belongs to user 7"):
        Lab.start(LabSpec("postgresql", cut="process"), tmp_path / "lab")
    assert not list(tmp_path.iterdir())
