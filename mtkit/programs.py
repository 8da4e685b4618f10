"""Other people's programs: where mtkit looks for one before it runs it."""

import os
import shutil


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
