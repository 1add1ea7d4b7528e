"""What the lab says of a machine that lacks something, and of specs that cannot be."""

from __future__ import annotations

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import LabError, UsageError
from dbcheck.lab import held_port, namespace, network, programs
from dbcheck.lab import programs as drive_needs
from dbcheck.lab.lab import list_missing
from dbcheck.lab.spec import DriveSpec, LabSpec
from tests.kit.refusals import refused


def test_a_program_that_is_missing_names_its_package(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(programs, "find", lambda *_: None)
    with refused(ErrorId.PROGRAM_MISSING, LabError, naming="mkfs.xfs") as caught:
        programs.run("mkfs.xfs")
    assert caught.value.hint == "Install the Debian package xfsprogs."
    reasons = list_missing(LabSpec("mariadb", filesystem="ext4"))
    for name, package in (
        ("mkfs.ext4", "e2fsprogs"),
        ("unshare", "util-linux"),
        ("setpriv", "util-linux"),
        ("mariadb-install-db", "mariadb-server"),
    ):
        words = f"{name} is not installed (install the Debian package {package})"
        assert words in reasons


def test_system_folders_are_searched_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert programs.require("mount").name == "mount"
    assert programs.find("no-such-program") is None


def test_a_filesystem_that_the_kernel_lacks_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(programs.PACKAGES, "mkfs.none", "none")
    reasons = drive_needs.list_missing_for_drive("none")
    assert "the kernel has no none filesystem" in reasons
    assert programs.lacking("mkfs.none") in reasons


def test_who_is_not_root_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert "this process is not root" in drive_needs.list_missing_for_drive("xfs")


def test_a_container_needs_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(namespace, "are_available", lambda: False)
    spec = LabSpec("postgresql", cut="process", container="volume")
    assert any("namespaces of its own" in reason for reason in list_missing(spec))


def test_a_network_needs_root_its_program_and_the_right_to_make_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spec = LabSpec("postgresql", cut="process", network=True)
    monkeypatch.setattr(namespace, "are_available", lambda: False)
    monkeypatch.setattr(programs, "find", lambda *_: None)
    reasons = list_missing(spec)
    assert any(reason.startswith("a network needs") for reason in reasons)
    assert "ip is not installed (install the Debian package iproute2)" in reasons
    monkeypatch.setattr(namespace, "are_available", lambda: True)
    monkeypatch.setattr(network, "has_capability", lambda _: False)
    assert any("CAP_NET_ADMIN" in reason for reason in list_missing(spec))
    assert not any("network" in reason for reason in list_missing(LabSpec("mariadb")))


def test_a_writable_layer_needs_overlayfs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "has_kernel_filesystem", lambda _: False)
    reason = "the kernel has no overlay filesystem, which --container layer needs"
    assert reason in list_missing(LabSpec("postgresql", container="layer"))
    assert reason not in list_missing(LabSpec("postgresql", container="volume"))


def test_ports_that_connections_may_get_are_left_out() -> None:
    assert held_port.list_candidates("32768\t60999\n")[0] == 10_000
    assert not {32_768, 50_000, 60_999} & set(held_port.list_candidates("32768 60999"))
    assert {32_767, 61_000, 65_535} <= set(held_port.list_candidates("32768 60999"))


def test_where_connections_may_get_any_port_any_will_do() -> None:
    assert 5_000 < min(held_port.list_candidates("1024 65535")) < 65_535


def test_a_drive_too_small_for_xfs_is_refused() -> None:
    small = DriveSpec(size_bytes=299 << 20)
    with refused(ErrorId.DRIVE_TOO_SMALL, UsageError, naming="299 MiB") as caught:
        LabSpec("postgresql", drive=small)
    assert "300 MiB" in caught.value.hint
    LabSpec("postgresql", drive=small, filesystem="ext4")
    LabSpec("postgresql", drive=small, cut="process")
    LabSpec("postgresql", drive=DriveSpec(size_bytes=300 << 20))


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("FATAL:  could not map anonymous shared memory: Cannot allocate memory", True),
        (
            "LOG:  could not fork startup process: Resource temporarily unavailable",
            True,
        ),
        ('could not bind IPv4 address "127.0.0.1": Address already in use', True),
        ("LOG:  startup process (PID 7) was terminated by signal 9: Killed", True),
        ("[ERROR] InnoDB: Cannot allocate memory for the buffer pool", True),
        ("PANIC:  could not locate a valid checkpoint record", False),
        ("LOG:  startup process (PID 7) was terminated by signal 6: Aborted", False),
        ("[ERROR] InnoDB: Database page corruption on disk", False),
        ("mount(2) system call failed: Structure needs cleaning.", False),
    ],
)
def test_what_this_machine_lacks_is_told_from_damage(said: str, told: bool) -> None:
    assert programs.is_resource_shortage(f"exit status 1\n{said}\n") is told
