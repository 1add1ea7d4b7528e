"""Types of the values that flags take."""

from __future__ import annotations

import math
import os
import stat
from pathlib import Path
from typing import Any

import click

from dbcheck.base import limits
from dbcheck.base.owners import expanded


class Number(click.FloatRange):
    """A number within a range; click's own type accepts "nan", which is not one."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the number; fail if it is not a number, or is out of range."""
        number = float(super().convert(value, param, ctx))
        if math.isnan(number):
            self.fail(f"{value!r} is not a number.", param, ctx)
        return number


class UserPath(click.Path):
    """A path as a user writes it, with ~ also where a shell leaves it: --runs=~/runs.

    It need not be there; one that cannot be looked at or entered is refused.
    """

    def __init__(self, *, file_okay: bool = True, dir_okay: bool = True) -> None:
        super().__init__(file_okay=file_okay, dir_okay=dir_okay, path_type=Path)

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Any:
        """Return the Path; fail if nothing could be read or made there."""
        try:
            path = expanded(os.fspath(value))
            is_folder = stat.S_ISDIR(os.stat(path).st_mode)
        except LookupError as error:
            self.fail(str(error.args[0]), param, ctx)
        except FileNotFoundError:
            is_folder = False
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            self.fail(f"{os.fspath(value)!r}: {reason}.", param, ctx)
        if is_folder and not os.access(path, os.X_OK):
            self.fail(f"You may not enter the folder {path!r}.", param, ctx)
        return super().convert(path, param, ctx)


# The upper bound is too large to matter, and refuses infinity.
SECONDS = Number(limits.SECONDS_MIN, limits.SECONDS_MAX)
SEED = click.IntRange(0, 2**62)
ANY_PATH = UserPath()
FILE = UserPath(dir_okay=False)
FOLDER = UserPath(file_okay=False)
