"""Agents as programs that can be sent: nothing is installed where they run."""

from __future__ import annotations

import functools
import importlib.resources

_SHARED = ("dbcheck.base.system", "dbcheck.agent.wire")


@functools.cache
def program(agent: str, *parts: str) -> bytes:
    """Return the program of the module *agent*, with all that it needs in front.

    Of dbcheck it may import base/system.py, wire.py and the modules *parts*, which
    import only those before them; the program brings their texts along.
    """
    lines = ["import sys, types"]
    for module in (*_SHARED, *parts):
        lines += [
            f"part = types.ModuleType({module!r})",
            f"exec(compile({_source(module)!r}, {module!r}, 'exec'), part.__dict__)",
            f"sys.modules[{module!r}] = part",
        ]
    text = f"compile({_source(agent)!r}, {agent!r}, 'exec')"
    lines.append(f"exec({text}, {{'__name__': '__main__'}})")
    return "\n".join(lines).encode()


def bootstrap(size: int) -> str:
    """Return the Python program that reads one of *size* bytes, and runs it.

    One line without a single quote: it passes through any login shell in quotes.
    """
    return (
        "import sys;"
        'sys.version_info<(3,8)and sys.exit("this is Python "+sys.version.split()[0]);'
        f"exec(sys.stdin.buffer.read({size}))"
    )


def _source(module: str) -> str:
    package, _, name = module.rpartition(".")
    return importlib.resources.files(package).joinpath(f"{name}.py").read_text("utf-8")
