"""Copies that were honestly taken under load and restored: none may be accused."""

from __future__ import annotations

import pytest

from dbcheck.cycle.copying import run_copied_cycle
from dbcheck.lab.held_port import HeldPort
from tests.kit import copy_methods
from tests.kit.copies import (
    copies_of,
    require_kept,
    skip_without_program,
    snapshot_storage,
)
from tests.kit.copy_methods import Method
from tests.kit.rigs import ENGINES, SEED, quick

METHODS = {
    "stream": copy_methods.base_backup("-X", "stream"),
    "fetch": copy_methods.base_backup("-X", "fetch"),
    "pg_dump": copy_methods.dump_postgresql(),
    "mariadb-backup": copy_methods.back_up_mariadb(),
    "mariadb-dump": copy_methods.dump_mariadb(),
    "clone": copy_methods.clone_mysql(),
    "mysqldump": copy_methods.dump_mysql(),
}


@pytest.mark.wide_with(*(name for name in METHODS if name != "stream"))
@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_a_copy_has_every_commit(method: Method) -> None:
    for program in ("mariadb-backup", "mariadb-dump"):
        if program in method.copy:
            skip_without_program(program)
    with copies_of(method.engine) as copies:
        if method is METHODS["clone"]:
            copies.here.execute("install plugin clone soname 'mysql_clone.so'")
        require_kept(
            run_copied_cycle(copies.rig(copies.settings(method)), quick(), SEED)
        )


@pytest.mark.wide
@pytest.mark.root
@pytest.mark.parametrize("engine", ENGINES)
def test_a_snapshot_of_the_storage_has_every_commit(engine: str) -> None:
    method = copy_methods.snapshot_files(engine)
    with snapshot_storage() as storage, copies_of(engine, on=storage) as copies:
        require_kept(
            run_copied_cycle(copies.rig(copies.settings(method)), quick(), SEED)
        )


@pytest.mark.wide
def test_rows_that_are_known_by_their_id_alone_are_judged_too() -> None:
    with copies_of("postgresql") as copies:
        rig = copies.rig(copies.settings(METHODS["stream"]))
        require_kept(run_copied_cycle(rig, quick("classic"), SEED))


@pytest.mark.wide
def test_a_backup_of_a_standby_has_every_commit_that_waited_for_it() -> None:
    held = HeldPort()
    with copies_of("postgresql") as copies:
        copies.run(copy_methods.begin_standby(held.number), "standby")
        method = copy_methods.base_backup_of_standby(held.number)
        require_kept(
            run_copied_cycle(copies.rig(copies.settings(method)), quick(), SEED)
        )
        copies.remove_all()


@pytest.mark.wide
def test_an_incremental_backup_has_every_commit_with_its_full_one() -> None:
    skip_without_program("mariadb-backup")
    with copies_of("mariadb") as copies:
        copies.run(copy_methods.BEGIN_INCREMENTAL, "full")
        method = copy_methods.incremental_backup("full")
        require_kept(
            run_copied_cycle(copies.rig(copies.settings(method)), quick(), SEED)
        )
        copies.remove_all()
