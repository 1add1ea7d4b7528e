"""Option files, beside the programs of MariaDB and MySQL that read them."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import EngineError, UsageError
from dbcheck.engines.mysql.engine import MysqlEngine
from dbcheck.engines.mysql.optionfile import (
    Client,
    is_on,
    pick_known_options,
    read_options,
)
from dbcheck.lab import programs
from tests.kit.option_files import (
    GROUPS,
    as_arguments,
    printed_by_mariadb,
    printed_by_mysql,
)
from tests.kit.refusals import refused

# What is in the group [client].
READ = {
    "a blank before a name": "user=app\n\tpw=secret\n  x=y\n",
    "a comment behind a value": "user = app      # the account\npw = 'sec#ret'   # x\n",
    "a hash in a value": "pw=secret#tail\n",
    "a hash in a quote": "pw=it's#here\nx=\"#\ny=z#'\n",
    "a hash behind a name": "quick # x = y\n",
    "escapes": r'pw="a\\b\sc\t\n\r\b\"\'\q"' + "\nx=a\\\ny=\\\\\n",
    "an escaped quote": 'x="a\\"#b"\ny="a\\\\"#b"\nz=\\"#b\n',
    "quotes": "a='b'\nc=\"d'\ne=\"\nf=''\ng='h'i'\nj=\"k\" l\"\nm='n' o\n",
    "no value": "quick\nx=\ny =  \nz=# c\n",
    "other comments": "; x\n;x=y\n  # x\nx=a;b\n",
    "a colon": "x=a:b\n",
    "a percent sign": "x=%(y)s\n",
    "an equals sign": "x==a=b\n",
    "case and dashes": "User=a\nX_y-z=b\n",
    "ends of lines": "x=a\r\ny=b\r\n\r\nz=c",
    "what Python ends a line with": "y=a\x0cb\nz=a\u2028b\x85c\x1cd\n",
    "blanks of latin1": "x=voilà\ny='voilà'\n\udca0z\x0b=\x0ca\n",
    "what is not UTF-8": "x=a\udcff\udc80\n",
    "another group": "[mysql]\nx=a\n[client]\ny=b\n[client-x]\nz\n",
    "a group in another case": "[CLIENT]\nx=a\n[Client ] z\ny=b\n",
    "no group of these": "[ client]\nx=a\n[client]x]\ny=b\n[]\nz\n[client x]\nw\n",
    "[DEFAULT]": "[DEFAULT]\nx=a\n[client]\ny=b\n",
    "a bracket in a comment": "[client] # see [x]\ny=b\n",
    "the last counts": "x=a\nx=b\n",
    "other directives": "!x y\n!include-x y\n! \nx=a\n",
    "an include": "x=a\n!include more/one.cnf\ny=b\n",
    "an include with blanks": " !  include\tmore/one.cnf \r\ny=b\n",
    "an include of nothing": "!include none\n!include more\nx=a\n",
    "an include in quotes": '!include "more/one.cnf"\nx=a\n',
    "a folder": "!includedir more\nx=a\n",
    "a folder with a slash": "!includedir ./more/\nx=a\n",
    "a home": "!include ~/none.cnf\nx=a\n",
}
REFUSED = {
    "no group": ("x=a\n[client]\n", "line 1 of .* before the first group"),
    "half a group": ("[client]\n[client\n", r"line 2 of .* has no \] after"),
    "a byte order mark": ("\ufeff[client]\nx=a\n", "line 1 of .* byte order mark"),
    "an include without a name": ("[client]\n!include\n", "line 2 of .* no file"),
    "a folder without a name": ("[client]\n!includedir \n", "line 2 of .* no file"),
    "no folder": ("!includedir none\n", "line 1 of .* a folder, which cannot be"),
    "a folder at home": ("!includedir ~/none\n", "line 1 of .* cannot be read"),
}


def written(folder: Path, text: str) -> Path:
    """Write a file, and what it may include."""
    more = folder / "more"
    more.mkdir()
    for name in ("one", "a.b", ".dot", "B", "~x"):
        (more / f"{name}.cnf").write_text(f"[client]\nfrom={name}\n[client-server]\ny")
    (more / "other").write_text("[client]\nfrom=other\n")
    (more / "folder.cnf").mkdir()
    file = folder / "client.cnf"
    file.write_bytes(text.encode("utf-8", "surrogateescape"))
    return file


def real(printed: object, file: Path) -> object:
    try:
        return printed(file)  # type: ignore[operator]
    except LookupError as missing:
        pytest.skip(str(missing))


@pytest.mark.parametrize("text", READ.values(), ids=list(READ))
def test_a_file_is_read_as_mariadb_reads_it(text: str, tmp_path: Path) -> None:
    file = written(tmp_path, f"[client]\n{text}")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        assert as_arguments(read_options(file, GROUPS)) == real(
            printed_by_mariadb, file
        )


@pytest.mark.parametrize("text", READ.values(), ids=list(READ))
def test_and_as_mysql_does(text: str, tmp_path: Path) -> None:
    """Its server shows only the group [mysqld]."""
    file = written(tmp_path, f"[client]\n{text}")
    for each in (file, *tmp_path.glob("more/*.cnf")):
        if each.is_file():
            text = each.read_bytes().decode("utf-8", "surrogateescape")
            text = text.replace("[mysql]", "[x]").replace("client", "mysqld")
            each.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        found = as_arguments(read_options(file, ("mysqld",)))
        # It ends what it prints with a blank and a line's end.
        assert (found or "\n").replace("\n--", " --").rstrip("\n") == str(
            real(printed_by_mysql, file)
        ).removesuffix(" \n").rstrip("\n")


@pytest.mark.parametrize(("text", "why"), REFUSED.values(), ids=list(REFUSED))
def test_what_they_refuse_is_refused(text: str, why: str, tmp_path: Path) -> None:
    file = written(tmp_path, text)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        with pytest.raises(UsageError, match=why) as caught:
            read_options(file, GROUPS)
        assert caught.value.hint
        assert real(printed_by_mariadb, file) is None
        assert real(printed_by_mysql, file) is None


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        ({}, "y"),
        ({"MYSQL_GROUP_SUFFIX": "_b"}, "xyz"),
        ({"MYSQL_GROUP_SUFFIX": "_c"}, "y"),
        ({"MYSQL_GROUP_SUFFIX": ""}, "y"),
        ({"MYSQL_GROUP_SUFFIX": "_c", "MARIADB_GROUP_SUFFIX": "_b"}, "xyz"),
        ({"MYSQL_GROUP_SUFFIX": "_b", "MARIADB_GROUP_SUFFIX": ""}, "y"),
    ],
)
def test_a_suffix_of_groups_counts(
    named: dict[str, str],
    expected: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = tmp_path / "client.cnf"
    file.write_text("[client_b]\nx\n[client]\ny\n[client-server_B]\nz\n[b]\nw\n")
    for name, value in named.items():
        monkeypatch.setenv(name, value)
    found = read_options(file, Client.MARIADB.groups())
    assert as_arguments(found) == real(printed_by_mariadb, file)
    assert "".join(one.name for one in found) == expected
    mysql = read_options(file, Client.MYSQL.groups())
    has_suffix = named.get("MYSQL_GROUP_SUFFIX") == "_b"
    assert [one.name for one in mysql] == (["x", "y"] if has_suffix else ["y"])


def test_a_folder_that_need_not_be_read_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As MariaDB 11.8.9 reads ?includedir; older ones, and MySQL, know none."""
    file = written(tmp_path, "?includedir more\n? x\n[client]\nx=a\n")
    monkeypatch.chdir(tmp_path)
    assert [one.name for one in read_options(file, ("client",))] == [
        *["from"] * 5,
        "x",
    ]

    def refuse(_: object) -> list[bytes]:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("os.listdir", refuse)
    assert [one.name for one in read_options(file, ("client",))] == ["x"]
    file.write_text("!includedir more\n[client]\nx=a\n")
    with refused(
        ErrorId.OPTION_FILE_INVALID,
        UsageError,
        naming=("line 1", "more, which cannot be read"),
    ):
        read_options(file, ("client",))
    file.write_text("?includedir none\n[client]\nx=a\n")
    with refused(
        ErrorId.OPTION_FILE_INVALID,
        UsageError,
        naming=("line 1", "a folder, which cannot be read"),
    ):
        read_options(file, ("client",))


def test_the_groups_are_those_that_mariadbs_client_reads(tmp_path: Path) -> None:
    program = programs.find("mariadb")
    if program is None:
        pytest.skip("mariadb is not installed")
    done = subprocess.run([program, "--help"], capture_output=True, text=True)
    found = re.search(r"groups are read: (.*)", done.stdout)
    assert found is not None
    assert {*Client.MARIADB.groups()} == {*found[1].split()} - {
        *("mysql", "mariadb-client")  # of this client alone
    }


SHOWN = ("user", "host", "port", "socket", "ssl-ca", "ssl-cert", "ssl-key")
OURS = (*SHOWN, "ssl-verify-server-cert", "password")
NAMES = [
    *("user=a", "User=a", "us=a", "USE=a", "loose-user=a", "Loose_us=a", "user="),
    *("ho=a", "po=3307", "so=/s", "ssl_ca=a", "SSL-Ce=a", "ssl-k=a", "ssl-ca="),
    *("ssl-verify-server-cert", "ssl_verify_server_cert=1", "ssl-v=TRUE"),
    *("ssl-verify-server-cert=on", "ssl-verify=off", "ssl-verify=False"),
    *("skip-ssl-verify-server-cert", "disable_ssl_v", "skip-ssl-verify=0"),
    *("enable-ssl-verify=0", "enable-ssl-verify", "skip-ssl-verify=1"),
    *("loose-skip-ssl-verify", "ssl-capath=a", "ssl=0", "skip-ssl", "xml"),
    "user=a\nuser=b",
    *("pass=x", "pas=x", "password=x", "loose-pass=x", "skip-password", "password"),
]
NOT_NAMES = [
    *("u=a", "pa=a", "p=x", "h=a", "s=a", "ssl-c=a", "user", "ssl-ca", "host"),
    *("pass word=x", "password x", "password:x", "--user=a", "us", "=x", "-p=x"),
]


def shown_by_mariadb(file: Path) -> tuple[dict[str, str], str]:
    """Return what MariaDB's client shows of its variables, and what it complains of."""
    program = programs.find("mariadb")
    if program is None:
        pytest.skip("mariadb is not installed")
    done = subprocess.run(
        [str(program), f"--defaults-file={file}", "--help"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    found = re.findall(r"^([a-z-]+) +(.*)$", done.stdout, re.MULTILINE)
    return {name: value for name, value in found if name in OURS}, done.stderr


@pytest.mark.parametrize("line", NAMES)
def test_a_name_means_what_it_means_to_mariadb(line: str, tmp_path: Path) -> None:
    file = tmp_path / "client.cnf"
    file.write_text("[client]\n")
    usual, _ = shown_by_mariadb(file)
    file.write_text(f"[client]\n{line}\n")
    shown, complaint = shown_by_mariadb(file)
    assert "ambiguous" not in complaint and "unknown" not in complaint
    found = pick_known_options(read_options(file, GROUPS), Client.MARIADB)
    assert ("password" in found) == ("pas" in line)
    for name in SHOWN:
        own = found.get(name)
        assert (own.value if own else usual[name]) == shown[name]
    verify = found.get("ssl-verify-server-cert")
    shown_on = {"TRUE": True, "FALSE": False}
    expected = shown_on[usual["ssl-verify-server-cert"]]  # TRUE from 11.4 on
    if verify is not None:
        expected = is_on(verify)
    assert shown_on[shown["ssl-verify-server-cert"]] == expected


@pytest.mark.parametrize("line", NOT_NAMES)
def test_a_name_that_mariadb_refuses_is_refused(line: str, tmp_path: Path) -> None:
    file = tmp_path / "client.cnf"
    file.write_text(f"[client]\nxml\n{line}\n")
    _, complaint = shown_by_mariadb(file)
    assert re.search("ambiguous|unknown|requires an argument", complaint)
    for client in Client:
        with refused(
            ErrorId.OPTION_FILE_INVALID, UsageError, naming=("line 3", str(file))
        ) as caught:
            pick_known_options(read_options(file, GROUPS), client)
        assert caught.value.hint


def test_a_limit_of_time_in_the_url_or_a_file_fails_nothing(tmp_path: Path) -> None:
    """dbcheck has limits of its own, and the driver takes one alone."""
    file = tmp_path / "client.cnf"
    file.write_text("[client]\nconnect-timeout=5\nconnection_timeout=6\n")
    file.chmod(0o600)
    for option in ("connection_timeout=5", "connect_timeout=5", f"option_files={file}"):
        with refused(
            ErrorId.CONNECTION_FAILED,
            EngineError,
            naming="Can't connect to MySQL server",
        ):
            MysqlEngine(f"mysql://u@127.0.0.1:1/x?{option}").facts()
