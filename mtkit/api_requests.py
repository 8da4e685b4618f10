"""What clients of translators' APIs share: keys, a server's words in errors, parallel requests."""

import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

from mtkit.errors import MtkitError, shorten

_SHOWN = 300
_Item = TypeVar("_Item")


def check_key(key: str, origin: str) -> str:
    """Returns a key without the blanks around it.

    Raises:
        MtkitError: A header can't hold it. The message has its origin, never the key.
    """
    key = key.strip()
    if not (key.isascii() and key.isprintable()):
        raise MtkitError(
            f"{origin}: the key has a line break, or a character that no key has", "copy it again"
        )
    return key


def quote_server(text: str, key: str = "") -> str:
    """Returns the beginning of a server's text, without the key and control characters."""
    # The key first: shortening could leave a part of it.
    shown = text.replace(key, "***") if key else text
    shown = "".join(each if each.isprintable() else " " for each in shown)
    return shorten(" ".join(shown.split()), _SHOWN)


def run_in_threads(
    work: Callable[[_Item, threading.Event], None], items: Sequence[_Item], num_threads: int
) -> None:
    """Applies `work` to items in threads, which are abandoned once one fails, or on Ctrl-C.

    `work` also gets an event that is set once all threads should end.
    """
    todo, failed = iter(items), list[BaseException]()
    lock, stop = threading.Lock(), threading.Event()
    num_left = len(items)

    def run() -> None:
        nonlocal num_left
        while not stop.is_set():
            with lock:
                item = next(todo, None)
            if item is None:
                return
            try:
                work(item, stop)
            except BaseException as error:  # noqa: BLE001  raised in the caller
                failed.append(error)
            with lock:
                num_left -= 1
            if failed or not num_left:
                stop.set()

    # Daemon threads: a request that hangs doesn't block the exit.
    for _ in range(min(num_threads, num_left)):
        threading.Thread(target=run, daemon=True).start()
    try:
        if items:
            stop.wait()
    finally:
        stop.set()
    if failed:
        raise failed[0]
