"""Notes the event loop's long callbacks, where MTKIT_CALLBACKS names a file.

uvloop runs callbacks out of sight, so the server takes asyncio's own loop here.
"""

import asyncio
import os
import sys
import time
from pathlib import Path

_PATH = os.environ.get("MTKIT_CALLBACKS")
_NOTED_SECONDS = 0.005


def _note_long_callbacks(path: str) -> None:
    sys.modules["uvloop"] = None  # type: ignore[assignment]
    run = asyncio.Handle._run

    def run_noted(self: asyncio.Handle) -> None:
        started_at = time.thread_time()
        run(self)
        seconds = time.thread_time() - started_at
        if seconds > _NOTED_SECONDS:
            with Path(path).open("a", encoding="utf-8") as stream:
                stream.write(f"{time.monotonic()} {seconds:.4f} {self!r}\n")

    asyncio.Handle._run = run_noted  # type: ignore[method-assign]


if _PATH and "serve" in sys.orig_argv:
    _note_long_callbacks(_PATH)
