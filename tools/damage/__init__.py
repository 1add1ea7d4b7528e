"""Damages one file of a server's data at a time, and compares what dbcheck concludes.

`python -m tools.damage [ENGINE ...]` starts each server on a copy of data that a
SIGKILL left, with one file of one kind empty, half as long, zeroed, zeroed at its end,
or gone.  What the server logs is judged as after a cut of real hardware, and its rows
are read if it starts.  The last sweep stands in results.md, and in
short in docs/file-damage.md.
"""
