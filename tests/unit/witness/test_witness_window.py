from __future__ import annotations

import select
import threading
from collections.abc import Callable, Iterator

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError, WitnessError
from dbcheck.rows.acks import Ack
from dbcheck.witness.window import Window, WindowLimits
from tests.kit.refusals import refused

ACK = Ack(1, 1, 1, 1)
SOON_S = 10.0


Made = Callable[..., Window]


@pytest.fixture
def made() -> Iterator[Made]:
    """Make windows that are closed in the end."""
    windows: list[Window] = []

    def make(
        limits: WindowLimits | None = None, **clock: Callable[[], float]
    ) -> Window:
        windows.append(Window(limits or WindowLimits(), **clock))
        return windows[-1]

    yield make
    for window in windows:
        window.close()


def is_ready(window: Window) -> bool:
    return bool(select.select([window.ready], [], [], 0)[0])


class Call:
    """A call in a thread of its own."""

    def __init__(self, call: Callable[[], object]) -> None:
        self.error: WitnessError | None = None
        self._call = call
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._call()
        except WitnessError as error:
            self.error = error

    def is_blocked(self, window: Window) -> bool:
        """Wait until it waits in *window*, or is over; say which."""
        while self._thread.is_alive():
            with window._lock:
                if window._waiting:
                    return True
        return False

    def end(self) -> WitnessError | None:
        self._thread.join(SOON_S)
        assert not self._thread.is_alive()
        return self.error


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_entries_leave_in_the_order_they_came(made: Made) -> None:
    window = made()
    window.put(ACK)
    window.put(Ack(1, 2, 2, 2))
    event = Call(lambda: window.put_event(b"{}"))
    assert event.is_blocked(window)
    window.put(Ack(1, 3, 3, 3))
    assert window.take() == [[ACK, Ack(1, 2, 2, 2)], b"{}", [Ack(1, 3, 3, 3)]]
    window.confirm(2, 1)
    assert event.end() is None
    assert window.unconfirmed() == 1


def test_a_full_window_blocks_until_there_is_room(made: Made) -> None:
    window = made(WindowLimits(acks=2))
    window.put(ACK)
    window.put(ACK)
    third = Call(lambda: window.put(ACK))
    assert third.is_blocked(window)
    window.take()
    window.confirm(1, 0)
    assert third.end() is None
    assert window.unconfirmed() == 2
    assert window.facts().acks == 2


def test_an_old_ack_blocks_however_few_there_are(made: Made) -> None:
    clock = Clock()
    window = made(WindowLimits(age_s=2), now=clock)
    window.put(ACK)
    window.take()
    clock.now_s += 1.9
    window.put(ACK)
    clock.now_s += 0.1
    third = Call(lambda: window.put(ACK))
    assert third.is_blocked(window)
    window.confirm(1, 0)
    assert third.end() is None
    assert window.facts().age_s == pytest.approx(2.0)


def test_the_age_is_that_of_the_oldest_unconfirmed(made: Made) -> None:
    clock = Clock()
    window = made(WindowLimits(), now=clock)
    assert window.facts().age_s == 0
    window.put(ACK)
    window.take()
    clock.now_s += 0.5
    window.put(ACK)
    window.take()
    window.confirm(1, 0)
    clock.now_s += 0.25
    window.confirm(2, 0)
    assert window.facts().age_s == pytest.approx(0.5)
    clock.now_s += 60
    assert window.facts().age_s == pytest.approx(0.5)


def test_lockstep_waits_for_its_own_ack(made: Made) -> None:
    window = made(WindowLimits(lockstep=True))
    first = Call(lambda: window.put(ACK))
    assert first.is_blocked(window)
    window.take()
    window.confirm(1, 0)
    assert first.end() is None


@pytest.mark.parametrize("lockstep", [True, False])
def test_a_dead_witness_wakes_all_who_wait(made: Made, lockstep: bool) -> None:
    window = made(WindowLimits(acks=1, lockstep=lockstep))
    if not lockstep:
        window.put(ACK)
    calls = [Call(lambda: window.put(ACK)) for _ in range(8)]
    assert all(call.is_blocked(window) for call in calls)
    window.fail(
        WitnessError(
            "the disk is full", id=ErrorId.WITNESS_NOT_CONFIRMING, hint="Make room."
        )
    )
    window.fail(WitnessError("and then it ended", id=ErrorId.WITNESS_NOT_CONFIRMING))
    errors = [call.end() for call in calls]
    assert {str(error) for error in errors} == {"the disk is full"}
    assert {error.hint for error in errors if error} == {"Make room."}
    assert len({id(error) for error in errors}) == 8
    with refused(ErrorId.WITNESS_NOT_CONFIRMING, WitnessError, naming="full"):
        window.put_event(b"{}")
    with refused(ErrorId.WITNESS_NOT_CONFIRMING, WitnessError, naming="full"):
        window.finish()


def test_a_silent_witness_is_taken_for_dead(made: Made) -> None:
    clock = Clock()
    window = made(WindowLimits(acks=1, age_s=2, silence_s=30), now=clock)
    window.put(ACK)
    clock.now_s += 30
    with refused(ErrorId.WITNESS_NOT_CONFIRMING, WitnessError, naming="for 30"):
        window.put(ACK)
    assert window.take() == [[ACK]]
    assert window.take() == []


def test_finish_waits_for_the_last_confirmation(made: Made) -> None:
    window = made()
    window.put(ACK)
    window.take()
    end = Call(window.finish)
    assert end.is_blocked(window)
    assert not window.is_finished()
    with refused(ErrorId.WITNESS_LOG_CLOSED, WitnessError):
        window.put(ACK)
    window.confirm(1, 0)
    assert end.end() is None
    assert window.is_finished()
    assert window.take() == []


def test_all_confirmed_is_a_good_end_even_if_the_witness_died(made: Made) -> None:
    window = made()
    window.put(ACK)
    window.confirm(1, 0)
    window.fail(WitnessError("gone", id=ErrorId.WITNESS_NOT_CONFIRMING))
    window.finish()


def test_many_acks_go_in_whether_there_is_room_or_not(made: Made) -> None:
    window = made(WindowLimits(acks=3))
    assert window.room() == 3
    window.put_many([ACK, (1, 2, 2, 2)])
    assert window.room() == 1
    window.put_many([(1, 3, 3, 3), (1, 4, 4, 4)])
    window.put_many([])
    assert (window.room(), window.unconfirmed()) == (0, 4)
    assert window.take() == [[ACK, (1, 2, 2, 2), (1, 3, 3, 3), (1, 4, 4, 4)]]
    assert window.facts().acks == 4


def test_a_loop_is_told_when_there_is_room_again(made: Made) -> None:
    window = made(WindowLimits(acks=2))
    window.put_many([ACK])
    assert window.room() == 1
    window.confirm(1, 0)
    assert not is_ready(window)  # it had room, and asked for no news
    assert window.room(3) == 2
    window.put_many([ACK])
    window.confirm(2, 0)
    assert is_ready(window)  # some room, and less than was wanted
    assert window.room() == 2
    window.put_many([ACK, ACK])
    assert window.room() == 0
    assert not is_ready(window)
    window.confirm(3, 0)
    assert is_ready(window)
    window.confirm(4, 0)
    assert window.room() == 2
    assert not is_ready(window)


def test_a_loop_in_lockstep_is_told_of_each_confirmation(made: Made) -> None:
    window = made(WindowLimits(lockstep=True))
    window.put_many([ACK, ACK])
    for confirmed in (0, 1):
        assert window.confirmed() == confirmed
        assert window.room() > 0  # which does not undo the wish
        assert not is_ready(window)
        window.confirm(confirmed + 1, 0)
        assert is_ready(window)
    assert window.confirmed() == 2
    assert window.room() > 0
    assert not is_ready(window)


def test_what_is_seen_of_confirmations_hides_no_news_of_room(made: Made) -> None:
    window = made(WindowLimits(acks=1, lockstep=True))
    window.put_many([ACK])
    assert window.room() == 0
    window.confirm(1, 0)
    assert window.confirmed() == 1
    assert is_ready(window)


def test_a_loop_is_told_of_a_failure(made: Made) -> None:
    window = made(WindowLimits(acks=1))
    window.put_many([ACK])
    assert window.room() == 0
    window.fail(WitnessError("the disk is full", id=ErrorId.WITNESS_NOT_CONFIRMING))
    assert is_ready(window)
    with refused(ErrorId.WITNESS_NOT_CONFIRMING, WitnessError, naming="full"):
        window.room()
    with refused(ErrorId.WITNESS_NOT_CONFIRMING, WitnessError, naming="full"):
        window.put_many([ACK])
    assert window.confirmed() == 0
    assert is_ready(window)  # a loop that waits for confirmations alone is woken


def test_an_old_ack_leaves_no_room(made: Made) -> None:
    clock = Clock()
    window = made(WindowLimits(age_s=2, silence_s=30), now=clock)
    window.put_many([ACK])
    window.take()
    clock.now_s += 2
    assert window.age_s() == 2
    assert window.room() == 0
    window.fail_if_silent()
    window.confirm(1, 0)
    assert is_ready(window)
    assert window.room() == 4096
    assert window.age_s() == 0


def test_silence_is_noticed_though_nobody_waits(made: Made) -> None:
    clock = Clock()
    window = made(WindowLimits(age_s=2, silence_s=30), now=clock)
    window.put_many([ACK])
    assert window.room() > 0
    clock.now_s += 29.9
    assert window.room() == 0
    clock.now_s += 0.1
    window.fail_if_silent()
    assert is_ready(window)
    with refused(ErrorId.WITNESS_NOT_CONFIRMING, WitnessError, naming="for 30"):
        window.room()


def test_a_closed_window_holds_no_descriptor(made: Made) -> None:
    window = made(WindowLimits(acks=1))
    window.put_many([ACK])
    assert window.room() == 0
    window.close()
    window.close()
    assert window.ready.fileno() == -1
    window.confirm(1, 0)
    assert window.room() == 1


@pytest.mark.parametrize(("acks", "events"), [(2, 0), (1, 1), (0, 0)])
def test_an_impossible_confirmation_is_refused(
    made: Made, acks: int, events: int
) -> None:
    window = made()
    window.put(ACK)
    window.confirm(1, 0)
    with refused(ErrorId.WITNESS_NOT_PLAUSIBLE, WitnessError, naming="confirms"):
        window.confirm(acks, events)


@pytest.mark.parametrize(
    "limits", [{"acks": 0}, {"age_s": 0.0}, {"age_s": 46.0}, {"silence_s": 1.0}]
)
def test_limits_that_make_no_sense_are_refused(limits: dict[str, float]) -> None:
    with refused(ErrorId.ACK_WINDOW_INVALID, UsageError):
        WindowLimits(**limits)  # type: ignore[arg-type]
