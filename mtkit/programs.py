"""Other people's programs and packages: where mtkit looks for one before it runs it."""

import os
import shutil
from importlib import import_module
from typing import Any

from mtkit.errors import MtkitError


def find_program(name: str) -> str | None:
    """Returns the absolute path of a program on PATH; None where there is none.

    Entries that aren't absolute are left out: they lead into the current folder, which may be a
    stranger's.
    """
    for entry in os.get_exec_path():
        found = shutil.which(os.path.join(entry, name)) if os.path.isabs(entry) else None  # noqa: PTH118, PTH117
        if found is not None:
            return found
    return None


def import_extra(package: str, fault: str, extra: str) -> Any:
    """Returns a package that comes with one of mtkit's extras.

    Args:
        package: Its name.
        fault: What is said where it isn't installed.
        extra: The extra, such as `punctuation`.

    Raises:
        MtkitError: It isn't installed.
    """
    try:
        return import_module(package)
    except ModuleNotFoundError as error:
        raise MtkitError(fault, f"pip install 'mtkit[{extra}]'") from error
