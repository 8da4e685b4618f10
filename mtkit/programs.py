"""Finds external programs and packages before mtkit runs them."""

import os
import shutil
from importlib import import_module
from typing import Any

from mtkit.errors import MtkitError, how_to_install


def find_program(name: str) -> str | None:
    """Returns the absolute path of a program on PATH; None if there is none.

    Relative entries are skipped: they lead into the current folder, which may be untrusted.
    """
    for entry in os.get_exec_path():
        found = shutil.which(os.path.join(entry, name)) if os.path.isabs(entry) else None  # noqa: PTH118, PTH117
        if found is not None:
            return found
    return None


def import_extra(package: str, fault: str, extra: str) -> Any:
    """Returns a package of one of mtkit's extras; `fault` is the message if it is missing."""
    try:
        return import_module(package)
    except ModuleNotFoundError as error:
        raise MtkitError(fault, how_to_install(extra)) from error
