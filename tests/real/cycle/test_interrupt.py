"""An interrupt in any function that talks to the server or the witness comes out."""

from __future__ import annotations

import gc
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from types import CodeType, FrameType
from typing import Any

import pytest

from dbcheck.base.errors import DbcheckError
from dbcheck.base.interrupt import is_caused_by_interrupt
from dbcheck.cycle.preflight.before_load import run_preflight
from dbcheck.engines.mysql import canary as mysql_canary
from dbcheck.rows.table import LEDGER
from tests.kit.labs import process_lab
from tests.kit.nodes import with_node
from tests.kit.rigs import FAMILIES, SEED, Bench, bench, quick

FUNCTIONS = 60
# There an interrupt may leave a lock held for ever (bpo-29988 and its like).
UNSAFE = "threading.py"


class Interrupter:
    """Interrupts the thread as *function* begins for the *nth* time.

    CPython looks for signals there.  called: how often each function began.
    forgotten: Python had nobody to raise it to, see dbcheck.base.interrupt.
    """

    def __init__(self, function: CodeType | None = None, nth: int = 0) -> None:
        self._function, self._nth = function, nth
        self.called = Counter[CodeType]()
        self.forgotten = False

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or frame.f_code.co_filename.endswith(UNSAFE):
            return
        self.called[frame.f_code] += 1
        if frame.f_code is self._function and self.called[frame.f_code] == self._nth:
            # What a destructor catches by itself, Python has nobody to tell of.
            self.forgotten |= "__del__" in names(frame)
            raise KeyboardInterrupt

    def run(self, action: Callable[[Bench], None], here: Bench) -> BaseException | None:
        """Return what *action* raised."""
        hook, sys.unraisablehook = sys.unraisablehook, self._forget
        sys.settrace(self)
        try:
            action(here)
        except BaseException as error:
            return error
        finally:
            sys.settrace(None)
            sys.unraisablehook = hook
        return None

    def _forget(self, what: Any) -> None:
        self.forgotten |= isinstance(what.exc_value, KeyboardInterrupt)


@pytest.fixture(scope="module", params=FAMILIES)
def here(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Bench]:
    """A server without a drive, with its table."""
    folder = tmp_path_factory.mktemp("bench")
    with bench(process_lab(request.param), folder) as made:
        made.rig.site.writer.engine.prepare((LEDGER,))
        yield made


def names(frame: FrameType | None) -> Iterator[str]:
    """Yield the name of the frame's function, and of all that called it."""
    while frame is not None:
        yield frame.f_code.co_name
        frame = frame.f_back


def look(here: Bench) -> None:
    here.rig.site.writer.engine.facts()


def relax(here: Bench) -> None:
    here.rig.site.writer.engine.weaken_durability(process=True)
    here.rig.site.writer.engine.restore_durability()


def begin(here: Bench) -> None:
    """Without canaries: they write on until the process ends that was interrupted."""
    run_preflight(with_node(here.rig, host=None), quick(), SEED).log.close()


def draw(function: CodeType) -> random.Random:
    """Return what draws for *function*, the same whatever else was called."""
    return random.Random(f"{SEED} {function.co_qualname} {function.co_firstlineno}")


@pytest.mark.wide_with("mariadb", "begin")
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # of what was being opened
@pytest.mark.parametrize("action", [look, relax, begin])
def test_an_interrupt_in_any_function_comes_out(
    here: Bench, action: Callable[[Bench], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    # An interrupted connection may keep the crash canary's lock until the test ends.
    monkeypatch.setattr(mysql_canary, "_PLANT_S", 1)
    action(here)  # with the imports that a first time takes
    whole = Interrupter()
    assert whole.run(action, here) is None
    functions = sorted(whole.called, key=lambda code: draw(code).random())[:FUNCTIONS]
    reached, lost = 0, []
    for function in functions:
        nth = draw(function).randint(1, whole.called[function])
        one = Interrupter(function, nth)
        error = one.run(action, here)
        if one.called[function] < nth or one.forgotten:
            continue
        reached += 1
        if isinstance(error, DbcheckError) or not is_caused_by_interrupt(
            error
        ):  # one may be handled
            lost.append(f"{function}, {nth}: {error!r}")
    del one, error  # whose frames hold what was being opened
    gc.collect()  # here, where that is no defect
    assert reached > 0.8 * len(functions)
    assert not lost
