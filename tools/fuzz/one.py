"""Fuzz one target in this process, until libFuzzer ends it."""

from __future__ import annotations

import ctypes
import sys

import atheris

# libFuzzer says there how it goes; what libpq says there is led nowhere on import.
_STDERR = ctypes.c_void_p.in_dll(ctypes.CDLL(None), "stderr")
_shown = _STDERR.value
with atheris.instrument_imports(include=["dbcheck", "tomllib", "msgspec"]):
    from tests.fuzz.targets import TARGETS
_STDERR.value = _shown


def main() -> None:
    """Take the target's name, then libFuzzer's own arguments."""
    name, *options = sys.argv[1:]
    atheris.Setup([f"fuzz {name}", *options], TARGETS[name].attack)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
