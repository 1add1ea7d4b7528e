"""A fleet's client holds a descriptor for each campaign."""

from __future__ import annotations

import resource

from dbcheck.runner.campaign_fleet import allow_open_files

FILES = resource.RLIMIT_NOFILE


def test_a_fleet_may_open_as_many_files_as_the_system_lets_it() -> None:
    soft, most = resource.getrlimit(FILES)
    resource.setrlimit(FILES, (min(soft, 256), most))
    try:
        allow_open_files()
        assert resource.getrlimit(FILES) == (most, most)
    finally:
        resource.setrlimit(FILES, (soft, most))
