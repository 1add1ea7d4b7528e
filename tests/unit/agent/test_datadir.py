"""Whose data a directory holds, by its files, and a rig that names another."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import cast

import pytest

from dbcheck.agent.host.data import read_data_names
from dbcheck.agent.host.facts import read_births, read_change_times
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import HostError
from dbcheck.cycle.host import inspect_host
from dbcheck.cycle.own_data import find_own_data, read_facts_again
from dbcheck.model.host import Container, TargetFacts
from dbcheck.model.places import (
    DataNames,
    FoundData,
    Place,
    find_missing_mark,
    find_sign_of_other_data,
)
from dbcheck.model.server import ServerFacts
from dbcheck.ports.host import TargetHost
from tests.kit.host_samples import FACTS
from tests.kit.partial_rig import RecordingListener, node_of
from tests.kit.refusals import refused

STARTED_S = 1_700_000_000
NAMES = DataNames(
    empty=False,
    system_identifier="7",
    started_s=STARTED_S,
    server_uuid="ab-1",
    marks=frozenset(["dbcheck-mark-1"]),
    unreadable={},
)
POSTGRESQL = {"system_identifier": "7", "data_directory": "/d"}
MYSQL = {"server_uuid": "AB-1", "datadir": "/d"}
MARIADB = {"server_id": "1", "datadir": "/d"}


def other(identity: dict[str, str], later_s: int = 0, **found: object) -> str:
    """Compare a server that started so long after the one on the directory."""
    names = replace(NAMES, **found)  # type: ignore[arg-type]
    return find_sign_of_other_data(
        identity, (STARTED_S + later_s) * 1_000_000 + 999_999, names
    )


@pytest.mark.parametrize("identity", [POSTGRESQL, MYSQL, MARIADB])
@pytest.mark.parametrize("later_s", [-5, 0, 300])
def test_its_own_directory_is_recognised(
    identity: dict[str, str], later_s: int
) -> None:
    assert not other(identity, later_s)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (other(MARIADB, empty=True), "empty"),
        (other(POSTGRESQL, system_identifier="8"), "is 8, and the server's is 7"),
        (other(POSTGRESQL, system_identifier=""), "no system_identifier"),
        (
            other(
                POSTGRESQL,
                system_identifier="",
                unreadable={"system_identifier": "global/pg_control: No such file"},
            ),
            "global/pg_control: No such file",
        ),
        (other(POSTGRESQL, started_s=None), "no server runs on it"),
        (other({"data_directory": "/d"}, 301), "301 s before"),
        (other(POSTGRESQL, -6), "6 s after"),
        (other(POSTGRESQL, is_standby=True), "a standby"),
        (other(MYSQL, server_uuid="ab-2"), "is ab-2, and the server's is AB-1"),
        (other(MYSQL, server_uuid=""), "no server_uuid"),
        (find_missing_mark("dbcheck-mark-2", NAMES), "just wrote"),
        (
            find_missing_mark(
                "dbcheck-mark-2", replace(NAMES, unreadable={"marks": "denied"})
            ),
            "denied",
        ),
    ],
)
def test_what_is_not_the_servers_is_named(said: str, words: str) -> None:
    assert words in said


def test_the_mark_that_was_just_written_is_enough() -> None:
    assert not find_missing_mark("dbcheck-mark-1", NAMES)


def test_the_agent_reads_the_names_in_the_files(tmp_path: Path) -> None:
    assert read_data_names(str(tmp_path))["empty"]
    (tmp_path / "global").mkdir()
    (tmp_path / "global/pg_control").write_bytes(struct.pack("=QI", 2**63 - 1, 1300))
    (tmp_path / "postmaster.pid").write_text(f"12\n/data\n{STARTED_S}\n5432\n")
    uuid = "0a1b2c3d-0000-1111-2222-333344445555"
    (tmp_path / "auto.cnf").write_text(f"[auto]\nserver-uuid={uuid}\n")
    for number in range(2):
        folder = tmp_path / f"database{number}"
        folder.mkdir()
        mark = f"dbcheck-mark-{number:032x}".encode()
        (folder / "marker.frm").write_bytes(b"\xfe\x01\x00" + mark + b"\x00")
    assert read_data_names(str(tmp_path)) == {
        "empty": False,
        "system_identifier": str(2**63 - 1),
        "started_s": STARTED_S,
        "server_uuid": uuid,
        "marks": [f"dbcheck-mark-{number:032x}" for number in range(2)],
        "is_standby": False,
        "unreadable": {},
    }


def test_the_agent_says_why_there_is_no_name(tmp_path: Path) -> None:
    (tmp_path / "global").mkdir()
    (tmp_path / "global/pg_control").write_bytes(b"short")
    (tmp_path / "postmaster.pid").write_text("12\n")
    found = read_data_names(str(tmp_path))
    assert (found["system_identifier"], found["started_s"]) == ("", None)
    assert "too short" in found["unreadable"]["system_identifier"]
    assert "No such file" in found["unreadable"]["server_uuid"]


class Elsewhere:
    """A host with data at the server's path: its own, and those of its containers."""

    def __init__(self, *names: DataNames) -> None:
        self._names = names

    def find_data(self, data_directory: str) -> list[FoundData]:
        return [FoundData(number, names) for number, names in enumerate(self._names)]

    def facts(self, *asked: object) -> TargetFacts:
        return FACTS


class Marking:
    """A server; marked: it was made to write."""

    def __init__(self, mark: str) -> None:
        self._mark, self.marked = mark, False

    def mark_data(self) -> str:
        self.marked = True
        return self._mark


@pytest.mark.parametrize(
    ("identity", "mark", "names", "marked"),
    [
        (POSTGRESQL, "", replace(NAMES, system_identifier="8"), False),
        (MYSQL, "", replace(NAMES, server_uuid="ab-2"), False),
        (MARIADB, "dbcheck-mark-2", replace(NAMES, empty=True), False),
        (MARIADB, "dbcheck-mark-2", NAMES, True),
    ],
)
def test_a_host_with_other_data_is_refused_before_anything_runs_there(
    identity: dict[str, str], mark: str, names: DataNames, marked: bool
) -> None:
    server = ServerFacts("p", "1", identity, STARTED_S * 1_000_000, 0, 0, {})
    engine = Marking(mark)
    host = cast(object, Elsewhere(names))
    node = node_of(engine, host)
    with refused(ErrorId.DATA_DIRECTORY_NOT_ON_HOST, HostError, naming="/d on"):
        inspect_host(node, RecordingListener(), server)
    assert engine.marked is marked


OTHER = replace(NAMES, system_identifier="8", server_uuid="ab-2", marks=frozenset())


@pytest.mark.parametrize("identity", [POSTGRESQL, MYSQL, MARIADB])
@pytest.mark.parametrize("own", [0, 1, 2])
def test_of_several_servers_at_one_path_the_own_one_is_found(
    identity: dict[str, str], own: int
) -> None:
    server = ServerFacts("p", "1", identity, STARTED_S * 1_000_000, 0, 0, {})
    names = [NAMES if number == own else OTHER for number in range(3)]
    host = cast(TargetHost, Elsewhere(*names))
    mark = "dbcheck-mark-1" if identity is MARIADB else ""
    assert find_own_data(host, server, lambda: mark) == own


@pytest.mark.parametrize(
    ("found", "named"),
    [
        ((NAMES, OTHER, NAMES), "one in no container, process 2 in a container"),
        ((OTHER, NAMES, NAMES), "process 1 in a container, process 2 in a container"),
    ],
)
def test_a_server_whose_data_another_one_has_too_is_refused(
    found: tuple[DataNames, ...], named: str
) -> None:
    server = ServerFacts("p", "1", MYSQL, STARTED_S * 1_000_000, 0, 0, {})
    host = cast(TargetHost, Elsewhere(*found))
    with refused(ErrorId.DATA_DIRECTORY_AMBIGUOUS, HostError, naming=named):
        find_own_data(host, server)


@pytest.mark.parametrize(
    ("names", "said"),
    [((OTHER,), "no containers"), ((OTHER, NAMES, NAMES), "2 containers")],
)
def test_a_container_that_came_back_without_its_volume_is_named(
    names: tuple[DataNames, ...], said: str
) -> None:
    server = ServerFacts("p", "1", MYSQL, STARTED_S * 1_000_000, 0, 0, {})
    before = replace(FACTS, data_directory="/volume", container=Container(1, ""))
    host = cast(TargetHost, Elsewhere(*names))
    with refused(
        ErrorId.DATA_DIRECTORY_MOVED, HostError, naming=("/volume", f"{said} there")
    ):
        read_facts_again(host, before, server, ())


class Changing:
    """A host whose containers start and end between two looks; facts: of each."""

    def __init__(
        self,
        *looks: dict[int, DataNames],
        facts: Mapping[int, TargetFacts | HostError] = MappingProxyType({}),
    ) -> None:
        self._looks, self._facts = iter(looks), facts

    def find_data(self, data_directory: str) -> list[FoundData]:
        return [FoundData(*each) for each in next(self._looks).items()]

    def facts(
        self, data_directory: str, places: Sequence[Place], process: int = 0
    ) -> TargetFacts:
        if not process:
            assert (data_directory, places[0]) == ("/v", Place("data", "/v"))
        found = self._facts[process]
        if isinstance(found, HostError):
            raise found
        return found


UNMARKED = replace(NAMES, marks=frozenset())


@pytest.mark.parametrize("then", [{7: NAMES}, {7: NAMES, 8: UNMARKED}])
def test_what_is_gone_at_the_second_look_is_not_taken(
    then: dict[int, DataNames],
) -> None:
    """0: this host's own, an old copy that is left out once a container is seen."""
    server = ServerFacts("p", "1", MARIADB, STARTED_S * 1_000_000, 0, 0, {})
    host = cast(TargetHost, Changing({0: UNMARKED}, then))
    assert find_own_data(host, server, lambda: "dbcheck-mark-1") == 7
    host = cast(TargetHost, Changing({0: UNMARKED}, {8: UNMARKED}))
    with refused(ErrorId.DATA_DIRECTORY_NOT_ON_HOST, HostError):
        find_own_data(host, server, lambda: "dbcheck-mark-1")


IN_MEMORY = HostError("in memory", id=ErrorId.DATA_IN_CONTAINER_ALONE)


def test_after_the_cut_a_neighbour_that_cannot_be_read_hides_nothing() -> None:
    """Of MariaDB no name tells which container is the one of before."""
    server = ServerFacts("p", "1", MARIADB, STARTED_S * 1_000_000, 0, 0, {})
    volumes = (replace(FACTS.volumes[0], places={"data": "/v"}),)
    before = replace(
        FACTS, data_directory="/v", volumes=volumes, container=Container(7, "")
    )
    after, other = replace(before, boot_id="b"), replace(before, data_directory="/w")
    of_host = replace(before, container=None)

    def again(*facts: TargetFacts | HostError, absent: bool = False) -> TargetFacts:
        by_process = dict(enumerate(facts, 8))
        look = dict.fromkeys(by_process, NAMES)
        host = cast(TargetHost, Changing(look, facts={**by_process, 0: of_host}))
        return read_facts_again(host, before, server, (), absent=absent)

    assert again(IN_MEMORY, after) is after
    assert again(other) is other
    with refused(ErrorId.DATA_IN_CONTAINER_ALONE, HostError):
        again(IN_MEMORY, other)
    assert again(other, absent=True) is of_host
    assert again(IN_MEMORY, absent=True) is of_host
    assert again(other, after, absent=True) is after


def test_the_ctime_of_what_no_server_writes_is_a_fact(tmp_path: Path) -> None:
    file = tmp_path / "auto.cnf"
    file.touch()
    assert read_change_times(str(tmp_path), {}) == {file.name: file.stat().st_ctime_ns}


def test_a_file_whose_facts_cannot_be_read_is_named_beside_the_others(
    tmp_path: Path,
) -> None:
    (tmp_path / "PG_VERSION").touch()
    for name in ("ibdata1", "auto.cnf"):
        (tmp_path / name).symlink_to(name)  # leads to itself
    unreadable: dict[str, str] = {}
    assert read_births(str(tmp_path), unreadable).keys() == {"."}
    assert read_change_times(str(tmp_path), unreadable).keys() == {"PG_VERSION"}
    assert unreadable.keys() == {"made ibdata1", "changed auto.cnf"}


@pytest.mark.parametrize(
    ("hostnames", "own"),
    [
        (("db1", "3fa1"), 0),
        (("3fa1", "db1"), 1),
        (("db1", "db1"), None),
        (("db1", ""), None),  # it may have that name as well
        (("db2", "3fa1"), None),
    ],
)
def test_the_hostname_decides_if_nothing_else_does(
    hostnames: tuple[str, ...], own: int | None
) -> None:
    """Of MariaDB an audit, which writes no mark, has no other sign."""
    facts = ServerFacts("p", "1", MARIADB, STARTED_S * 1_000_000, 0, 0, {})
    server = replace(facts, hostname="db1")
    look = [FoundData(each, NAMES, name) for each, name in enumerate(hostnames)]
    host = cast(TargetHost, SimpleNamespace(find_data=lambda _: look))
    if own is None:
        with refused(ErrorId.DATA_DIRECTORY_AMBIGUOUS, HostError):
            find_own_data(host, server)
    else:
        assert find_own_data(host, server) == own
