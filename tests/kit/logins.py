"""Accounts of this machine that log in at it as a target's host."""

from __future__ import annotations

import sys

from dbcheck.hosts.host import TargetHost
from dbcheck.remote.channel import make_bootstrap
from dbcheck.remote.way import ChildPipe

BECOME = """
import __future__, collections.abc, contextlib, ctypes, errno, fcntl, fnmatch
import functools, glob, hashlib, ipaddress, itertools, json, math, mmap, os, pathlib, re
import select, shutil, signal, stat, struct, subprocess, sys, threading, time, types
import typing, zlib
os.setgroups([])
os.setgid({group})
os.setuid({account})
"""


def become(account: int, group: int) -> str:
    """Return what makes a Python program that account's."""
    return BECOME.format(account=account, group=group)


def host_as(account: int, group: int) -> TargetHost:
    """Return this host as one sees it who logs in as *account*."""

    def agent(program: bytes) -> ChildPipe:
        text = become(account, group) + make_bootstrap(len(program))
        return ChildPipe([sys.executable, "-I", "-S", "-c", text])

    return TargetHost("account", agent)
