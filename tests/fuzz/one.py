"""Fuzz one target in this process, until libFuzzer ends it."""

from __future__ import annotations

import sys

import atheris

with atheris.instrument_imports(include=["dbcheck", "tomllib", "msgspec"]):
    from tests.fuzz.targets import TARGETS


def main() -> None:
    """Take the target's name, then libFuzzer's own arguments."""
    name, *options = sys.argv[1:]
    atheris.Setup([f"fuzz {name}", *options], TARGETS[name].attack)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
