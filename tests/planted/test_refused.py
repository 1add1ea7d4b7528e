"""What the preflight must refuse before anything is created."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError, UsageError
from dbcheck.cycle.preflight.before_load import run_preflight
from dbcheck.engines.mysql import check as mysql_check
from dbcheck.engines.postgresql import check as postgresql_check
from dbcheck.rows.table import LEDGER
from dbcheck.witness.url import open_witness
from tests.kit.refusals import refused
from tests.kit.rigs import SEED, quick
from tests.planted.fault import engines
from tests.planted.site import Site

pytestmark = pytest.mark.planted

_COLUMNS = (
    "id bigint not null auto_increment primary key, epoch bigint not null,"
    " session int not null, seq bigint not null, part smallint not null,"
    " payload {payload} not null, checksum bigint not null"
)


@dataclass(frozen=True)
class Refused:
    """A fault for which the preflight raises EngineError with these words."""

    name: str
    plant: Callable[[Site], object]
    says: str


def unlogged(site: Site) -> None:
    site.rig.site.writer.engine.prepare((LEDGER,))
    site.execute("alter table dbcheck.ledger set unlogged")


def read_only(site: Site) -> None:
    site.execute("alter role dbcheck set default_transaction_read_only = on")


def standby(site: Site) -> None:
    site.server.stop()
    (site.server.data / "standby.signal").touch()
    site.server.start()


def table_of(engine: str, payload: str = "longblob") -> Callable[[Site], object]:
    columns = _COLUMNS.format(payload=payload)
    create = f"create table ledger ({columns}) engine = {engine} comment = 'dbcheck 1'"
    return lambda site: site.execute(create)


def read_only_server(site: Site) -> None:
    site.execute("set global read_only = 1")


POSTGRESQL = (
    Refused("an unlogged table", unlogged, "unlogged"),
    Refused("a read-only account", read_only, "read-only"),
    Refused("a standby", standby, "standby, or still in recovery"),
)
MARIADB = (
    Refused("a MEMORY table", table_of("MEMORY", "varbinary(9)"), "MEMORY"),
    Refused("a MyISAM table", table_of("MyISAM"), "MyISAM"),
    Refused("an Aria table", table_of("Aria"), "Aria"),
    Refused("a read-only server", read_only_server, "read-only"),
)


def name(refused: Refused) -> str:
    return refused.name


@pytest.mark.parametrize("refused", POSTGRESQL, ids=name)
@engines("own_site", "postgresql")
def test_refused_on_postgresql(site: Site, refused: Refused) -> None:
    refuse(site, refused)


@pytest.mark.parametrize("refused", MARIADB, ids=name)
@engines("own_site", "mariadb")
def test_refused_on_mariadb(site: Site, refused: Refused) -> None:
    refuse(site, refused)


def refuse(site: Site, refused: Refused) -> None:
    """Plant it; nothing may be there that was not there before."""
    site.changed = True
    refused.plant(site)
    runs = set(site.rig.witness.runs())
    with pytest.raises(EngineError, match=refused.says) as caught:
        run_preflight(site.rig, quick(), SEED)
    assert caught.value.hint
    assert set(site.rig.witness.runs()) == runs


SPOILS = {
    "postgresql": "create function public.spoils() returns trigger language plpgsql as"
    " $$begin new.payload := 'x'; return new; end$$;"
    " create trigger spoils before insert on dbcheck.ledger for each row"
    " execute function public.spoils()",
    "mariadb": "create trigger spoils before insert on ledger for each row"
    " set new.payload = 'x'",
}


@engines("own_site")
def test_a_row_that_is_changed_on_its_way_is_seen_before_the_load(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a trigger that the account may not see, say."""
    site.rig.site.writer.engine.prepare((LEDGER,))
    site.execute(SPOILS[site.name])
    for module in (postgresql_check, mysql_check):
        monkeypatch.setattr(module, "require_plain", lambda *_: None)
    try:
        with refused(
            ErrorId.ROWS_ALTERED_WHEN_STORED, EngineError, naming="payload"
        ) as caught:
            run_preflight(site.rig, quick(), SEED)
        assert "trigger" in caught.value.hint
    finally:
        if site.name == "postgresql":
            site.execute("drop function public.spoils() cascade")


@engines("own_site")
def test_a_witness_on_the_target_s_host_is_refused(site: Site) -> None:
    """The lab that says so is excused, and nobody else."""
    rig = replace(site.rig, lab={})
    runs = set(rig.witness.runs())
    with refused(ErrorId.WITNESS_ON_TARGET, UsageError, naming="target's own host"):
        run_preflight(rig, quick(), SEED)
    assert set(rig.witness.runs()) == runs
    started = run_preflight(site.rig, quick(), SEED)
    started.log.close()


@engines("own_site")
def test_another_folder_of_the_same_host_is_refused_too(site: Site) -> None:
    witness = open_witness(f"file:{site.rig.runs.parent}/elsewhere", volatile=True)
    try:
        with refused(ErrorId.WITNESS_ON_TARGET, UsageError, naming="target's own host"):
            run_preflight(replace(site.rig, witness=witness, lab={}), quick(), 1)
    finally:
        witness.close()
