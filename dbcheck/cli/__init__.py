"""The command line: its entry point, its exit codes and its last line.

A Ctrl-C while this module is imported cannot be caught; so it imports only what the
interpreter has already loaded.
"""

import os
import sys

PASS, FAIL, USAGE, INCONCLUSIVE, FAILED = 0, 1, 2, 3, 4
MEANS = {
    PASS: "PASS, or the command did what it was asked to do",
    FAIL: "FAIL",
    USAGE: "A flag or a file is wrong; nothing was touched",
    INCONCLUSIVE: "INCONCLUSIVE",
    FAILED: "An operation failed, so dbcheck gives no verdict",
}
# Of commands that have no verdict, or give one of these codes for another reason too.
MEANS_ALSO = {
    FAIL: {
        "audit --fail-on": "a finding is this bad or worse",
        "audit --receipt": "the lab lost nothing",
        "golive": "the audit found an error, or commits were answered without a flush",
        "probe flushes": "commits were answered without a flush",
        "verify": "something differs, or the bundle is refused",
        "witness verify": "a log is damaged",
    },
    INCONCLUSIVE: {
        "audit": "some of the servers and hosts that are named could not be read",
        "audit --fail-on": "no finding is so bad, but a fact that could be is not "
        "known",
        "golive": "a cut does not count",
        "probe flushes": "what the drives did is not known",
    },
    FAILED: {
        "audit": "no server could be read",
        "demo": "a line came out otherwise than expected",
        "matrix": "a row is not complete, or has another verdict than its file expects",
    },
}


def main() -> None:
    """Run the command line; exit with the codes that README.md lists.

    Ctrl-C ends it with FAILED at any moment, also while modules are imported; Python
    would print a traceback and end by the signal (exit_sigint() in Modules/main.c).
    Once the exit code is known, it holds.
    """
    try:
        _replace_closed()
        # Nothing here does linear algebra, for which numpy would start threads.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        from dbcheck.base import interrupt

        interrupt.install_handlers()
    except KeyboardInterrupt:
        _end_at_once()
    try:
        from dbcheck.cli.root import run

        interrupt.raise_if_interrupted()  # an import may have lost one
        code = run()
        interrupt.ended.append(code)
    except KeyboardInterrupt:
        interrupt.ended.append(FAILED)  # first of all: no other is raised after this
        _say_interrupted()
    sys.exit(interrupt.ended[0])


def _replace_closed() -> None:
    """Give the numbers of standard streams that were closed at the start to /dev/null.

    No other file gets them then.  What is printed on such a stdout fails, as it does on
    a closed one; what goes to such a stderr is discarded.
    """
    streams = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))
    for number, (name, mode) in enumerate(streams):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, os.O_WRONLY if number == 2 else os.O_RDONLY)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            os.set_inheritable(number, True)
            setattr(sys, name, os.fdopen(number, mode, closefd=False))


def _end_at_once() -> None:
    """End before anything has started; a second Ctrl-C changes nothing."""
    try:
        _say_interrupted()
    finally:
        os._exit(FAILED)


def _say_interrupted() -> None:
    try:
        os.write(2, b"dbcheck: interrupted\n")
    except OSError:  # as on a terminal that was closed
        return
