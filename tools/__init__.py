"""Programs for those who work on dbcheck: `python -m tools.NAME`.

None is a test, and none is in the wheel.  They use what the tests have: tests.kit, the
stored runs, the targets of the fuzzer and the known judgements.
"""
