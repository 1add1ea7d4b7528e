"""URLs of targets: which engine they mean, and no secret in what is said of them."""

from __future__ import annotations

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError, UsageError
from dbcheck.engines.mysql.places import ENGINES as STORAGE
from dbcheck.engines.mysql.places import choose_storage_engine
from dbcheck.engines.registry import ENGINES, NAME_ANOTHER, open_engine
from dbcheck.engines.url import name_driver, read_url
from tests.kit.refusals import refused

SECRET = "hunter2-and-more"


@pytest.mark.parametrize("driver", sorted(ENGINES))
def test_every_driver_opens_an_engine(driver: str) -> None:
    engine = open_engine(f"{driver}://dbcheck@db1:1234/orders", SECRET)
    scheme = driver.partition("+")[0]
    same = {"mariadb": "mysql", "postgres": "postgresql"}
    assert engine.family == same.get(scheme, scheme)
    # Whoever opens what a run has stored reaches an engine of the same kind.
    assert open_engine(engine.target).family == engine.family
    assert engine.target.endswith("://dbcheck@db1:1234/orders")
    assert SECRET not in engine.target + repr(engine)


@pytest.mark.parametrize(
    ("written", "named"),
    [
        ("postgres://u@h/d", "postgresql+psycopg2://u@h/d"),
        ("postgresql://?service=x", "postgresql+psycopg2://?service=x"),
        ("mysql://u@h", "mysql+mysqlconnector://u@h/dbcheck"),
        ("mariadb://u@h/d", "mysql+mysqlconnector://u@h/d"),
    ],
)
def test_a_target_has_one_name_on_each_machine(
    written: str, named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever verifies a bundle has another environment than who made it."""
    monkeypatch.setenv("PGHOST", "another")
    monkeypatch.setenv("PGSERVICE", "another")
    monkeypatch.setenv("MYSQL_HOST", "another")
    assert name_driver(read_url(written)).render_as_string() == named
    assert open_engine(named).target == named


@pytest.mark.parametrize("driver", ["", "+psycopg2", "+asyncpg"])
@pytest.mark.parametrize("product", ["CockroachDB", "YugabyteDB"])
def test_another_product_is_refused_by_its_scheme(product: str, driver: str) -> None:
    refusal = f"{product} by its URL, not PostgreSQL: dbcheck judges PostgreSQL, MySQL"
    with refused(ErrorId.SERVER_NOT_SUPPORTED, UsageError, naming=refusal) as caught:
        open_engine(f"{product.lower()}{driver}://dbcheck@db1/orders")
    assert caught.value.id is ErrorId.SERVER_NOT_SUPPORTED
    assert caught.value.hint == NAME_ANOTHER


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
        pytest.param(f"postgresql://db1/x?pass={SECRET}", id="short"),
        pytest.param(f"mysql://db1/x?pw={SECRET}", id="shorter"),
        pytest.param(f"postgresql://db1/x;password={SECRET}", id="after ;"),
        pytest.param(f"mysql://db1/x password={SECRET}", id="after a blank"),
        pytest.param(f"mysql://db1/x?ssl_ca=a;Pwd={SECRET}", id="in an option"),
        pytest.param(f"postgresql://db1/x?port=1%26password%3D{SECRET}", id="escaped"),
    ],
)
def test_a_password_in_the_url_is_refused(url: str) -> None:
    with refused(
        ErrorId.URL_HOLDS_PASSWORD, UsageError, naming="contains a password"
    ) as caught:
        open_engine(url)
    assert SECRET not in str(caught.value) + caught.value.hint
    assert "PGPASSWORD" in caught.value.hint


@pytest.mark.parametrize(
    "url", [f"no url with {SECRET}", "", f"postgresql://u:{SECRET}@h:port/x"]
)
def test_no_url_is_refused_without_repeating_it(url: str) -> None:
    with refused(
        ErrorId.TARGET_URL_INVALID,
        UsageError,
        naming="the target is not a database URL",
    ) as caught:
        open_engine(url)
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("scheme", ["postgresql", "mysql"])
@pytest.mark.parametrize("place", ["db1:0", "[::1]:0", "db1:65536"])
def test_nor_is_one_in_the_url_taken_for_the_usual_port(
    scheme: str, place: str
) -> None:
    with refused(ErrorId.TARGET_URL_INVALID, UsageError, naming="names port") as caught:
        open_engine(f"{scheme}://u@{place}/x")
    assert "65535" in caught.value.hint


def test_names_of_files_and_settings_are_no_passwords() -> None:
    for option in ("passfile=/p", "options=-c password_encryption%3Dmd5", "service=a"):
        assert open_engine(f"postgresql://db1/x?{option}").target


@pytest.mark.parametrize("scheme", ["postgresql", "mysql"])
def test_a_byte_that_is_not_utf_8_is_refused(scheme: str) -> None:
    with refused(ErrorId.TARGET_URL_INVALID, UsageError):
        open_engine(f"{scheme}://u@h/d\udcff")


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://u@/d?pass%00word={SECRET}",
        "postgresql://u@/d?host=target_session_attrs%00",
        "postgresql://u@h/d?application_name=a%00",
        "mysql://u@/d?unix_socket=a%00b",
        "mysql://u%00@h/d",
    ],
)
def test_a_zero_byte_is_refused(url: str) -> None:
    """libpq takes nothing of what comes after it."""
    with refused(ErrorId.TARGET_URL_INVALID, UsageError, naming="zero byte") as caught:
        open_engine(url)
    assert SECRET not in str(caught.value) + caught.value.hint


@pytest.mark.parametrize("option", ["login_s=5", "self=1", "failover=x", "username=u"])
def test_an_option_that_the_driver_does_not_have_is_refused(option: str) -> None:
    with refused(ErrorId.TARGET_URL_OPTION_INVALID, UsageError, naming="is unknown"):
        open_engine(f"mysql://u@db1/d?{option}")


@pytest.mark.parametrize("name", ["rocksdb", "ROCKSDB", "MyRocks"])
def test_a_url_may_name_myrocks(name: str) -> None:
    assert choose_storage_engine({"storage_engine": name}) is STORAGE["rocksdb"]
    engine = open_engine(f"mysql://db1/x?storage_engine={name}")
    assert engine.target.endswith(f"db1/x?storage_engine={name}")


def test_a_storage_engine_without_durable_commits_is_refused() -> None:
    assert choose_storage_engine({}) is STORAGE["innodb"]
    with refused(ErrorId.STORAGE_ENGINE_NOT_SUPPORTED, UsageError, naming="aria"):
        open_engine("mariadb://db1/x?storage_engine=aria")


def test_an_unknown_driver_names_the_known_ones() -> None:
    with refused(ErrorId.ENGINE_UNKNOWN, UsageError, naming="oracle") as caught:
        open_engine("oracle://dbcheck@db1/x")
    assert "postgresql+psycopg2" in caught.value.hint


def test_hosts_and_ports_must_match() -> None:
    with refused(
        ErrorId.TARGET_URL_OPTION_INVALID,
        UsageError,
        naming="hosts and ports don't match",
    ):
        open_engine("postgresql://u@/d?host=db1,db2&port=1,2,3")


@pytest.mark.parametrize(
    ("url", "hint"),
    [
        ("postgresql://u@h1:1,h2:2/db", "?host=db1:5432&host=db2:5432"),
        ("postgresql://u@h1:1,h2/db?sslmode=require", "?host=db1:5432&host=db2:5432"),
        (f"postgresql://u:{SECRET},x@h1:1:2/db", "postgresql+psycopg2://user@host"),
        ("mysql://u@h1:1,h2:2/db", "Name one host"),
        ("postgresql://u@/db?host=h1:1,h2:2", "?host=db1:5432&host=db2:5432"),
        ("postgresql://u@/db?host=h1:1&port=2", "?host=db1:5432&host=db2:5432"),
        ("postgresql://u@/db?host=[::1]:5432", "?host=::1,db2&port=5432,5432"),
        ("postgresql://u@/db?host=::1&host=::2", "?host=::1,db2&port=5432,5432"),
        ("postgresql://u@/db?host=db1&host=::1", "?host=::1,db2&port=5432,5432"),
        ("postgresql://u@/db?host=fe80::1&host=fe80::2&host=x", "?host=::1,db2"),
        (f"postgresql://u@/db?host=u:{SECRET}@h1", "?host=db1:5432&host=db2:5432"),
        ("mysql://u@h1,h2/db", "Name one host"),
        ("mysql://u@/db?host=h1:3307", "its port apart"),
        ("mysql://u@/db?host=[::1]", "its port apart"),
        ("mysql://u@/db?host=h1&host=h2", "Keep one of them"),
        ("mysql://u@/db?unix_socket=/a&unix_socket=/b", "Keep one of them"),
        ("postgresql://u@/db?hostaddr=192.0.2.1&hostaddr=192.0.2.2", "Keep one"),
        ("mysql://u@/db?port=99999", "port=3306"),
        ("mysql://u@/db?host=127.0.0.1%20", "its port apart"),
        ("mysql://u@/db?host=%0A127.0.0.1", "its port apart"),
        ("mysql://u@/db?host=%C2%A0127.0.0.1", "its port apart"),
        (f"mysql://u@/db?host=u%40{SECRET}", "its port apart"),
        ("mysql://u@h1/db?unix_socket=%20", "the driver does"),
        ("postgresql://u@/db?host=a,%20b", "?host=db1:5432&host=db2:5432"),
        (f"postgresql://u@/db?host=h&host=u:{SECRET}@h1", "?host=db1:5432"),
        (f"postgresql://u@h/db?hostaddr=u:{SECRET}@h1", "?host=db1:5432"),
    ],
)
def test_hosts_that_a_driver_reads_otherwise_are_refused_with_the_form_that_works(
    url: str, hint: str
) -> None:
    with pytest.raises(UsageError, match="the target") as caught:
        open_engine(url)
    assert hint in caught.value.hint
    assert SECRET not in str(caught.value) + caught.value.hint


def test_the_form_that_the_hint_shows_works() -> None:
    two = open_engine("postgresql://u@/db?host=db1:5432&host=db2:5433").endpoints()
    assert two == [("db1", 5432), ("db2", 5433)]
    mixed = open_engine("postgresql://u@/db?host=::1,db2&port=5432,5433").endpoints()
    assert mixed == [("::1", 5432), ("db2", 5433)]


@pytest.mark.parametrize("port", ["0", "65536", "5_4", "-1", "x"])
def test_a_port_that_no_server_can_have_is_refused(
    port: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPORT", port)
    with refused(
        ErrorId.TARGET_URL_OPTION_INVALID, EngineError, naming="port"
    ) as caught:
        open_engine("postgresql://u@db1/x").endpoints()
    assert caught.value.hint


@pytest.mark.parametrize(
    ("url", "option"),
    [
        ("postgresql://db1/x?sslrootcert=", "sslrootcert"),
        ("postgresql://db1/x?passfile=", "passfile"),
        ("mysql://db1/x?ssl_ca=", "ssl_ca"),
        ("mysql:///x?unix_socket=", "unix_socket"),
    ],
)
def test_a_file_in_the_users_home_is_not_looked_for_in_a_folder_of_that_name(
    url: str, option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    engine = open_engine(f"{url}~/file")
    assert vars(engine)["_arguments"][option] == "/home/me/file"
    with refused(ErrorId.TARGET_URL_OPTION_INVALID, UsageError, naming=option):
        open_engine(f"{url}~no-such-user/file")
