"""Threads that decode into one class at the same time.

msgspec's own functions are the control: if they stop crashing, dbcheck.base.decoding is
no longer needed.
"""

import signal
import subprocess
import sys

import pytest

# One thread is in the midst of describing a class when another one decodes into it.
RACE = """
import sys, threading
import msgspec
from dbcheck.base import decoding
module = {"decoding": decoding, "msgspec": msgspec}[sys.argv[1]]
patience = float(sys.argv[2])
read = []

def decode():
    read.append(module.convert({"inner": {"a": 1}}, Outer))

def begin_another():
    if threading.current_thread() is threading.main_thread():
        other.start()
        other.join(patience)
    return int

class Inner(msgspec.Struct):
    a: "begin_another()"

class Outer(msgspec.Struct):
    inner: Inner

other = threading.Thread(target=decode)
decode()
other.join()
print(*read)
"""


@pytest.mark.parametrize(
    ("module", "patience_s", "returncode", "output"),
    [
        ("msgspec", "60", -signal.SIGSEGV, ""),
        ("decoding", "0.2", 0, "Outer(inner=Inner(a=1)) Outer(inner=Inner(a=1))\n"),
    ],
)
def test_two_threads_may_decode_into_a_class_for_the_first_time(
    module: str, patience_s: str, returncode: int, output: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", RACE, module, patience_s], capture_output=True, text=True
    )

    assert (done.returncode, done.stdout) == (returncode, output), done.stderr
