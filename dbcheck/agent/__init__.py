"""The programs that dbcheck sends to other hosts, where nothing is installed.

They need Python 3.8 and its standard library, on the target's host Linux, on the
witness a POSIX system.  Each module imports only what is sent before it; base/system.py
and base/owners.py are sent as well and keep to the same.
"""
