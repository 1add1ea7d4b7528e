"""Cuts without end: honest and lying drives, planted faults, fault trials.

`python -m tools.soak [--minutes M | --cuts N]`, as root. Each item is a number, from
which all that it does is drawn, so it can be repeated alone. What came of each is a
line of a file, so that a later call goes on where this one ended.
"""
