"""URLs of targets: which engine they mean, and no secret in what is said of them."""

from __future__ import annotations

import pytest

from dbcheck.engines.mysql.storage import ENGINES as STORAGE
from dbcheck.engines.mysql.storage import storage_of
from dbcheck.engines.registry import ENGINES, open_engine
from dbcheck.errors import UsageError

SECRET = "hunter2-and-more"


@pytest.mark.parametrize("driver", sorted(ENGINES))
def test_every_driver_opens_an_engine(driver: str) -> None:
    engine = open_engine(f"{driver}://dbcheck@db1:1234/orders", SECRET)
    scheme = driver.partition("+")[0]
    assert engine.family == ("mysql" if scheme == "mariadb" else scheme)
    # Whoever opens what a run has stored reaches an engine of the same kind.
    assert open_engine(engine.target).family == engine.family
    assert engine.target.endswith("://dbcheck@db1:1234/orders")
    assert SECRET not in engine.target + repr(engine)


@pytest.mark.parametrize("driver", ["postgres", "postgres+psycopg2"])
def test_the_old_name_of_postgresql_is_told_the_new_one(driver: str) -> None:
    with pytest.raises(UsageError, match="unknown engine 'postgres") as caught:
        open_engine(f"{driver}://dbcheck@db1/orders")
    assert caught.value.hint == "Write postgresql:// in place of postgres://."


def test_mysql_has_a_default_database() -> None:
    assert open_engine("mysql://dbcheck@db1").target.endswith("@db1/dbcheck")


@pytest.mark.parametrize(
    "url",
    [
        pytest.param(f"postgresql://dbcheck:{SECRET}@db1/x", id="userinfo"),
        pytest.param(f"postgresql://db1/x?password={SECRET}", id="query"),
        pytest.param(f"mysql://dbcheck:{SECRET}@db1/x", id="mysql"),
        pytest.param("mysql://dbcheck:@db1/x", id="empty"),
        pytest.param(f"mysql://db1/x?passwd={SECRET}", id="mysql query"),
        pytest.param(f"mysql://db1/x?password3={SECRET}", id="third factor"),
        pytest.param(f"mysql://db1/x?Password={SECRET}", id="upper case"),
        pytest.param(f"postgresql://db1/x?scram_client_key={SECRET}", id="scram"),
        pytest.param(f"postgresql://db1/x?oauth_client_secret={SECRET}", id="oauth"),
    ],
)
def test_a_password_in_the_url_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="contains a password") as caught:
        open_engine(url)
    assert SECRET not in str(caught.value) + caught.value.hint
    assert "PGPASSWORD" in caught.value.hint


@pytest.mark.parametrize(
    "url", [f"no url with {SECRET}", "", f"postgresql://u:{SECRET}@h:port/x"]
)
def test_no_url_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(UsageError, match="the target is not a database URL") as caught:
        open_engine(url)
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("name", ["rocksdb", "ROCKSDB", "MyRocks"])
def test_a_url_may_name_myrocks(name: str) -> None:
    assert storage_of({"storage_engine": name}) is STORAGE["rocksdb"]
    engine = open_engine(f"mysql://db1/x?storage_engine={name}")
    assert engine.target.endswith(f"db1/x?storage_engine={name}")


def test_a_storage_engine_without_durable_commits_is_refused() -> None:
    assert storage_of({}) is STORAGE["innodb"]
    with pytest.raises(UsageError, match="no tables in the storage engine 'aria'"):
        open_engine("mariadb://db1/x?storage_engine=aria")


def test_an_unknown_driver_names_the_known_ones() -> None:
    with pytest.raises(UsageError, match="oracle") as caught:
        open_engine("oracle://dbcheck@db1/x")
    assert "postgresql+psycopg2" in caught.value.hint


def test_hosts_and_ports_must_match() -> None:
    with pytest.raises(UsageError, match="hosts and ports don't match"):
        open_engine("postgresql://u@/d?host=db1,db2&port=1,2,3")
