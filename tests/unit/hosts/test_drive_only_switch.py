"""The switch of drives alone: the order of its steps, and what stops them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import HostError, PowerError
from dbcheck.hosts.drives import (
    DriveMount,
    EndedServer,
    Noted,
    PutBack,
    Survey,
    TakenOff,
)
from dbcheck.model.cut import Cut, CutClass, PowerState, SwitchKind
from dbcheck.power.driveonly import DriveOnlySwitch, Server
from tests.kit.drives_alone import SCOPE, SEEN
from tests.kit.refusals import refused

BACK = PutBack("sdb1", "clean", "", damaged=False)


@dataclass
class Relay:
    """A switch that notes what it does in *steps*."""

    steps: list[str]
    kind = SwitchKind.EXEC
    attended = False
    cut_class = CutClass.DC_RAIL
    on: bool = True
    broken: bool = False

    def state(self) -> PowerState:
        return PowerState.ON if self.on else PowerState.OFF

    def cut(self) -> Cut:
        self.steps.append("cut")
        self.on = False
        return Cut(1, None, {"off_s": 15.0})

    def restore(self) -> float:
        if self.broken:
            raise PowerError(
                "the relay does not answer",
                id=ErrorId.POWER_COMMAND_FAILED,
                hint="Check it.",
            )
        self.steps.append("power")
        self.on = True
        return 15.0

    def failure(self) -> None:
        return None


@dataclass
class Host:
    """A host whose agent answers what the test gives it."""

    relay: Relay
    seen: Survey = SEEN
    left: tuple[int, ...] = ()
    off: bool = True
    refused: dict[str, str] = field(default_factory=dict)
    stays: bool = False
    returns: tuple[str, ...] = ("sdb",)
    back: PutBack = BACK
    fails: str = ""
    exit_code: int = 0
    noted: Survey | None = None
    server: tuple[int, ...] = (7, 8)
    newer: bool = False
    old_is_held: bool = False
    commands: list[Any] = field(default_factory=list)

    def drives(self) -> Host:
        return self

    def _note(self, step: str) -> None:
        self.relay.steps.append(step)
        if step == self.fails:
            raise HostError("the host agent ended", id=ErrorId.HOST_UNREACHABLE)

    def survey(self, *_: object) -> Survey:
        self._note("survey")
        return self.seen

    def await_drives(
        self, serials: Sequence[str], *, present: bool, time_s: float = 0.0
    ) -> dict[str, tuple[str, ...]]:
        there = self.returns if self.relay.on else ()
        return {"S1": ("sda",) if self.stays else there}

    def end_server(self, _: Survey, commands: Any, *__: object) -> EndedServer:
        self._note("kill")
        self.commands = list(commands)
        self.server = self.left
        return EndedServer((7, 8), self.left)

    def take_off(self, *_: object) -> TakenOff:
        self._note("off")
        users = ("process 9 (bash, a file)",)
        return TakenOff((self.off,), (False,), users, self.refused)

    def check_still_held(self, mounts: Sequence[DriveMount]) -> tuple[bool, ...]:
        return tuple(self.old_is_held for _ in mounts)

    def put_back(self, *_: object) -> tuple[PutBack, ...]:
        self._note("mount")
        return (self.back,)

    def start(self, *_: object) -> tuple[int, str]:
        self._note("start")
        if not self.exit_code:
            self.server, self.newer = (9,), True
        return self.exit_code, "no such unit"

    def write_note(self, _: str, seen: Survey) -> None:
        if self.fails == "note":
            raise HostError(
                "/var/lib/dbcheck: no space left", id=ErrorId.HOST_UNREACHABLE
            )
        self.noted, self.newer = seen, False

    def read_note(self, *_: object) -> Noted | None:
        if self.fails == "read":
            raise HostError("the host agent ended", id=ErrorId.HOST_UNREACHABLE)
        seen = self.noted
        return Noted(seen, self.server, self.newer, "/notes/1") if seen else None

    def remove_note(self, *_: object) -> None:
        self.noted = None

    def is_alive(self) -> bool:
        return True

    def close(self) -> None:
        pass


def switch(host: Host, **more: Any) -> DriveOnlySwitch:
    server = Server(lambda: "/srv/data", lambda: ["/srv/data"])
    options = {"gone_s": 0.2, "timeout_s": 0.2, **more}
    return DriveOnlySwitch(host.relay, cast(Any, host), SCOPE, server, **options)


@pytest.fixture
def host() -> Host:
    return Host(Relay([]))


def test_the_power_comes_back_to_a_host_that_holds_nothing_of_the_drives(
    host: Host,
) -> None:
    power = switch(host)
    cut = power.cut()
    assert cut.report == {"off_s": 15.0}
    assert host.noted == SEEN
    assert power.restore() == 15.0
    assert host.relay.steps == [
        *("survey", "cut", "kill", "off", "power", "mount", "start")
    ]
    found = power.seen()
    assert found is not None
    assert found.drives["S1"].gone
    assert found.drives["S1"].names_after == ("sdb",)
    assert found.gone_us is not None
    assert (found.killed, found.left) == ((7, 8), ())
    (mount,) = found.mounts
    assert (mount.taken_off, mount.mounted_on, mount.checked) == (True, "sdb1", "clean")
    assert power.failure() is None
    assert host.noted is None


def test_a_drive_that_stays_is_on_record(host: Host) -> None:
    host.stays = True
    power = switch(host)
    power.cut()
    power.restore()
    found = power.seen()
    assert found is not None
    assert not found.drives["S1"].gone
    assert found.gone_us is None


@pytest.mark.parametrize(
    ("planted", "said", "id"),
    [
        pytest.param(
            {"off": False},
            "process 9",
            ErrorId.FILESYSTEM_STILL_IN_MEMORY,
            id="a filesystem is held",
        ),
        pytest.param(
            {
                "off": False,
                "refused": {"/srv": "/ belongs to user 5", "/b": "/b is busy"},
            },
            "/ belongs to user 5; /b is busy, so these were not unmounted: /srv, /b",
            ErrorId.HOST_FOLDER_OF_OTHERS,
            id="a folder of another account",
        ),
        pytest.param(
            {"left": (8,)},
            "processes 8 did not end",
            ErrorId.PROCESSES_DO_NOT_END,
            id="the server runs",
        ),
        pytest.param(
            {"fails": "kill"},
            "agent on the target's host failed",
            ErrorId.HOST_UNREACHABLE,
            id="no agent",
        ),
        pytest.param(
            {"fails": "off"},
            "agent on the target's host failed",
            ErrorId.HOST_UNREACHABLE,
            id="an agent that dies",
        ),
    ],
)
def test_drives_stay_without_power_while_something_holds_them(
    host: Host, planted: dict[str, Any], said: str, id: ErrorId
) -> None:
    for name, value in planted.items():
        setattr(host, name, value)
    power = switch(host)
    power.cut()
    with refused(id, PowerError, naming=said) as caught:
        power.restore()
    assert "power" not in host.relay.steps
    assert "dbcheck power restore" in caught.value.hint
    assert power.seen() is None
    host.off, host.refused, host.left, host.fails = True, {}, (), ""
    switch(host).restore()
    assert host.relay.steps[-3:] == ["power", "mount", "start"]
    assert host.noted is None


def test_another_drive_in_the_slot_is_not_mounted(host: Host) -> None:
    host.returns = ()
    power = switch(host)
    power.cut()
    with refused(ErrorId.DRIVE_NOT_BACK, PowerError, naming="serial S1"):
        power.restore()
    assert "mount" not in host.relay.steps


def test_a_damaged_filesystem_is_a_finding(host: Host) -> None:
    host.back = PutBack("sdb1", "torn", "e2fsck -p ended with 4", damaged=True)
    power = switch(host)
    power.cut()
    power.restore()
    assert power.failure() == "e2fsck -p ended with 4"
    assert "start" not in host.relay.steps
    found = power.seen()
    assert found is not None
    assert found.mounts[0].mounted_on == ""


def test_a_server_that_its_command_does_not_start_is_an_error(host: Host) -> None:
    host.exit_code = 5
    power = switch(host)
    power.cut()
    power.restore()
    assert power.seen() is not None, "the run can be judged once the server runs"
    with refused(
        ErrorId.START_COMMAND_FAILED, PowerError, naming="exit code 5: no such unit"
    ):
        power.failure()


def test_a_host_that_was_put_back_by_hand_is_left_alone(host: Host) -> None:
    mounted = replace(SEEN, mounts=(replace(SEEN.mounts[0], id=41),))
    for on, newer, steps in (
        (False, False, ["kill", "off", "power", "mount", "start"]),
        (True, False, ["survey", "kill", "off", "power", "mount", "start"]),
        (True, True, ["survey", "power"]),
    ):
        host.seen, host.newer = SEEN, False
        switch(host).cut()
        host.seen, host.relay.on, host.newer = mounted, on, newer
        host.relay.steps.clear()
        switch(host).restore()
        assert host.relay.steps == steps
        assert host.noted is None


def test_a_server_that_does_not_run_is_started_on_what_was_mounted(host: Host) -> None:
    switch(host).cut()
    host.seen = replace(SEEN, mounts=(replace(SEEN.mounts[0], id=41),))
    host.relay.on, host.server, host.exit_code = True, (), 5
    host.relay.steps.clear()
    with refused(
        ErrorId.START_COMMAND_FAILED, PowerError, naming="exit code 5: no such unit"
    ):
        switch(host).restore()
    host.exit_code = 0
    switch(host).restore()
    assert host.relay.steps == ["survey", "start"] * 2 + ["power"]
    assert host.noted is None


def test_a_newer_server_on_these_drives_is_left_alone(host: Host) -> None:
    """The kernel gives the smallest free id to the next mount: the old one's."""
    switch(host).cut()
    host.relay.on, host.newer = True, True
    host.relay.steps.clear()
    switch(host).restore()
    assert host.relay.steps == ["survey", "power"]
    assert host.noted is None


@pytest.mark.parametrize("what", ["another drive", "not mounted", "no power"])
def test_a_newer_server_elsewhere_is_left_alone_and_named(
    host: Host, what: str
) -> None:
    said = "/srv is not mounted" if what == "not mounted" else "not on these drives"
    switch(host).cut()
    host.relay.on, host.newer = what != "no power", True
    if what == "another drive":
        host.seen = replace(SEEN, on_them=False)
    if what == "not mounted":
        host.seen = replace(SEEN, mounts=())
    host.relay.steps.clear()
    power = switch(host)
    for _ in range(2):
        with refused(
            ErrorId.SERVER_STARTED_TOO_EARLY, PowerError, naming=("/srv/data", said)
        ) as caught:
            power.restore()
        assert "delete /notes/1 on the host" in caught.value.hint
    assert not {"kill", "off", "power", "mount"} & set(host.relay.steps)
    assert host.noted is not None


def test_what_another_client_put_back_is_left_alone(host: Host) -> None:
    power = switch(host)
    power.cut()
    switch(host).restore()
    host.relay.steps.clear()
    assert power.restore() == 15.0
    assert host.relay.steps == ["power"]
    assert power.seen() is None


def test_a_host_that_cannot_be_asked_keeps_the_drives_off(host: Host) -> None:
    power = switch(host)
    power.cut()
    host.fails = "read"
    host.relay.steps.clear()
    with refused(
        ErrorId.HOST_UNREACHABLE, PowerError, naming="when asked what to put back"
    ) as caught:
        power.restore()
    assert "dbcheck power restore" in caught.value.hint
    host.fails = ""
    power.restore()
    assert host.relay.steps == ["kill", "off", "power", "mount", "start"]


def test_a_switch_that_fails_says_what_was_done_before(host: Host) -> None:
    power = switch(host)
    power.cut()
    host.relay.broken = True
    with refused(
        ErrorId.POWER_COMMAND_FAILED, PowerError, naming="ended and /srv unmounted"
    ) as caught:
        power.restore()
    assert "dbcheck power restore" in caught.value.hint
    host.relay.broken = False
    power.restore()
    assert host.noted is None


def test_an_old_filesystem_in_memory_is_taken_off_first(host: Host) -> None:
    """Unmounted lazily by hand, below a server that still runs from it."""
    switch(host).cut()
    anew = replace(SEEN.mounts[0], id=41, name="sdb1", device="8:17")
    host.seen = replace(SEEN, mounts=(anew,))
    host.relay.on, host.server, host.old_is_held, host.off = True, (), True, False
    host.relay.steps.clear()
    with refused(ErrorId.FILESYSTEM_STILL_IN_MEMORY, PowerError, naming="process 9"):
        switch(host).restore()
    assert not {"start", "power"} & set(host.relay.steps)
    host.old_is_held = False
    switch(host).restore()
    assert host.relay.steps[-3:] == ["survey", "start", "power"]


def test_a_unit_whose_server_works_elsewhere_is_not_ended(host: Host) -> None:
    switch(host).cut()
    host.server = ()
    switch(host).restore()
    assert host.commands == []
    switch(host).cut()
    host.server = (7,)
    switch(host).restore()
    assert host.commands == list(SCOPE.kill)


def test_once_nothing_was_held_any_mount_is_a_new_one(host: Host) -> None:
    host.back = replace(BACK, failure="no such option")
    power = switch(host)
    power.cut()
    with refused(ErrorId.FILESYSTEM_NOT_MOUNTED, PowerError, naming="no such option"):
        power.restore()
    assert host.noted is not None
    assert all(mount.id < -1 for mount in host.noted.mounts)
    host.relay.steps.clear()
    assert switch(host).restore() == 15.0
    assert not {"kill", "off", "mount"} & set(host.relay.steps)
    assert host.noted is None


def test_damage_on_a_drive_that_was_never_gone_may_be_of_the_host(host: Host) -> None:
    host.back = PutBack("sda1", "torn", "e2fsck -p ended with 4", damaged=True)
    host.stays = True
    power = switch(host)
    power.cut()
    with refused(ErrorId.FILESYSTEM_NOT_MOUNTED, PowerError, naming="ended with 4"):
        power.restore()
    assert power.seen() is None


def test_a_mount_that_fails_otherwise_is_an_error(host: Host) -> None:
    host.back = PutBack("sdb1", "", "mount: unknown filesystem type", damaged=False)
    power = switch(host)
    power.cut()
    with refused(
        ErrorId.FILESYSTEM_NOT_MOUNTED, PowerError, naming="unknown filesystem type"
    ):
        power.restore()
    assert power.seen() is None


def test_nothing_is_cut_that_could_not_be_put_back(host: Host) -> None:
    host.seen = replace(SEEN, root=False)
    with refused(ErrorId.ROOT_NEEDED_ON_HOST, PowerError):
        switch(host).cut()
    host.seen, host.fails = SEEN, "note"
    with refused(
        ErrorId.HOST_UNREACHABLE,
        PowerError,
        naming=("before the cut:", "no space left"),
    ):
        switch(host).cut()
    host.fails = ""
    for wrong, said, id in (
        (
            {"notes_on_them": "/var/lib/dbcheck"},
            "/var/lib/dbcheck",
            ErrorId.CUT_NOTE_ON_CUT_DRIVE,
        ),
        (
            {"twins": ("sda and sdb have the serial S1",)},
            "sda and sdb have the serial S1",
            ErrorId.DRIVE_AMBIGUOUS,
        ),
    ):
        host.seen = replace(SEEN, **wrong)
        with refused(id, PowerError, naming=said):
            switch(host).cut()
    assert "cut" not in host.relay.steps


def test_a_host_that_nobody_put_back_is_not_on(host: Host) -> None:
    assert switch(host).state() is PowerState.ON
    switch(host).cut()
    assert switch(host).state() is PowerState.OFF
    host.relay.on = True
    assert switch(host).state() is PowerState.UNKNOWN
    switch(host).restore()
    assert switch(host).state() is PowerState.ON


def test_a_host_of_which_no_cut_is_known_is_left_alone(host: Host) -> None:
    assert switch(host).restore() == 15.0
    assert host.relay.steps == ["power"]


def test_drives_that_something_else_cut_stay_without_power(host: Host) -> None:
    host.relay.on = False
    with refused(ErrorId.CUT_NOTE_MISSING, PowerError):
        switch(host).restore()
    assert host.relay.steps == []
