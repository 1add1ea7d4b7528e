"""A server as the audit sees it, with what depends on its storage."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dbcheck.audit.rules import find_located_findings
from dbcheck.audit.servers import make_server_subject, parse_platform, parse_version
from dbcheck.model.family import FAMILIES
from dbcheck.model.host import Drive, Layer, Reading, Readings, TargetFacts, Volume
from dbcheck.model.server import ServerFacts
from tests.kit.host_samples import FACTS, VOLUME

SAFE = {
    "innodb_flush_log_at_trx_commit": "1",
    "innodb_flush_method": "O_DIRECT",
    "innodb_doublewrite": "ON",
    "innodb_force_recovery": "0",
    "sync_binlog": "1",
    "log_bin": "ON",
    "autocommit": "ON",
}


def server(
    product: str = "MySQL", version: str = "9.7.4", **settings: str
) -> ServerFacts:
    return ServerFacts(product, version, {}, 0, 1, 0, {**SAFE, **settings})


def volume(
    drive: str, *places: str, cache: str = "write back", **changed: Any
) -> Volume:
    return replace(
        VOLUME,
        places={name: f"/{drive}/{name}" for name in places},
        layers=(Layer(drive, "disk", "", "", "", cache, "0", ()),),
        drives=(Drive(drive, "", "", "", cache, None, None),),
        **changed,
    )


def host(*volumes: Volume) -> TargetFacts:
    return replace(FACTS, volumes=volumes)


def found(
    facts: ServerFacts,
    on: TargetFacts | None,
    *shown: tuple[str, str, str],
    family: str = "mysql",
) -> dict[str, str]:
    readings = Readings(Reading(of, what, what, text, "") for of, what, text in shown)
    subject = make_server_subject(FAMILIES[family], facts, on, readings)
    rows = find_located_findings(family, [subject])
    return {each.finding.rule.id: each.finding.status.value for each in rows}


@pytest.mark.parametrize(
    ("redo", "status"), [("sda", None), ("sdb", "unsafe"), (None, "unknown")]
)
def test_o_direct_no_fsync_with_the_redo_log_apart(
    redo: str | None, status: str | None
) -> None:
    facts = server("MariaDB", "10.11.19", innodb_flush_method="O_DIRECT_NO_FSYNC")
    on = None if redo is None else host(volume("sda", "data"), volume(redo, "redo log"))
    assert found(facts, on).get("my-redo-on-another-drive") == status
    assert found(facts, on)["my-flush-method"] == "unsafe"


def test_files_of_the_redo_log_count_where_they_are() -> None:
    facts = server("MariaDB", "10.11.19", innodb_flush_method="O_DIRECT_NO_FSYNC")
    apart = host(volume("sda", "data", "redo log"), volume("sdb", "redo log files 2"))
    assert found(facts, apart)["my-redo-on-another-drive"] == "unsafe"


@pytest.mark.parametrize(
    ("cache", "shown", "status"),
    [
        ("write back", (), "unsafe"),
        ("write back", (("sdb", "hdparm", "write-caching = 0"),), None),
        ("write through", (("sdb", "hdparm", "write-caching = 1"),), "unsafe"),
        ("write through", (), "unknown"),
    ],
)
def test_the_drive_below_the_doublewrite_file_decides(
    cache: str, shown: tuple[tuple[str, str, str], ...], status: str | None
) -> None:
    volumes = volume("sda", "data"), volume("sdb", "doublewrite", cache=cache)
    rules = found(server(), host(*volumes), *shown)
    assert rules.get("my-doublewrite-not-flushed") == status
    assert "my-doublewrite-not-flushed" not in found(
        server("MariaDB", "10.11.19"), host(*volumes), *shown
    )


@pytest.mark.parametrize(
    ("shown", "is_safe"),
    [
        ("recordsize\t16384\n", True),
        ("recordsize\t131072\n", True),
        ("recordsize\t8192\n", False),
        ("recordsize\t-\n", False),
        ("", False),
    ],
)
def test_zfs_tears_no_page_if_a_record_holds_one(shown: str, is_safe: bool) -> None:
    facts = server(innodb_doublewrite="OFF")
    zfs = replace(VOLUME, filesystem="zfs", source="tank/db", layers=(), drives=())
    rules = found(facts, host(zfs), ("tank/db", "zfs", shown))
    assert ("my-doublewrite" not in rules) is is_safe
    mixed = host(zfs, volume("sdb", "WAL"))
    assert "my-doublewrite" in found(facts, mixed, ("tank/db", "zfs", shown))


@pytest.mark.parametrize(
    ("release", "status"),
    [("5.7.0", "unsafe"), ("5.8.0", None), ("6.1.0-44-amd64", None), ("", "unknown")],
)
def test_syncfs_is_as_good_as_its_kernel(release: str, status: str | None) -> None:
    facts = server("PostgreSQL", "15.18", recovery_init_sync_method="syncfs")
    kernel = ("", "/proc/sys/kernel/osrelease", release)
    on = host(volume("sda", "data"))
    rules = found(facts, on, kernel, family="postgresql")
    assert rules.get("pg-sync-of-recovery") == status


@pytest.mark.parametrize(
    ("text", "platform"),
    [
        ("PostgreSQL 15.18 on x86_64-pc-linux-gnu, compiled by gcc", "other"),
        ("PostgreSQL 17.2 on aarch64-apple-darwin23.6.0, compiled by", "macos"),
        ("PostgreSQL 17.2 on x86_64-windows, compiled by Visual C++", "windows"),
        ("PostgreSQL 18.0 on x86_64-windows, compiled by msvc-19.44", "windows"),
        ("macos14", "macos"),
        ("Win64", "windows"),
        ("Linux", "other"),
    ],
)
def test_the_system_that_a_server_was_built_for(text: str, platform: str) -> None:
    assert parse_platform(text) == platform


def test_a_server_on_macos_must_flush_the_drives_cache() -> None:
    facts = replace(
        server("PostgreSQL", "17.2", wal_sync_method="open_datasync"),
        platform="PostgreSQL 17.2 on aarch64-apple-darwin23.6.0",
    )
    assert found(facts, None, family="postgresql")["pg-sync-method-macos"] == "unsafe"
    linux = replace(facts, platform="PostgreSQL 17.2 on x86_64-pc-linux-gnu")
    assert "pg-sync-method-macos" not in found(linux, None, family="postgresql")


def test_versions() -> None:
    assert parse_version("10.11.19-MariaDB-0+deb12u1") == (10, 11, 19)
    assert parse_version("15.18") == (15, 18)
    assert parse_version("devel") == ()
