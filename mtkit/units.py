"""Counts, durations and amounts of memory in readable form; evenly spaced items."""

from collections.abc import Sequence
from typing import TypeVar

Item = TypeVar("Item")

_BINARY_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def plural(count: float, noun: str, *, decimals: int = 0) -> str:
    """Returns a count with its noun, such as `1 process` or `12,000 updates`; regular plurals."""
    ending = "" if count == 1 else "es" if noun.endswith("s") else "s"
    return f"{count:,.{decimals}f} {noun}{ending}"


def format_duration(seconds: float) -> str:
    """Returns a duration in its two largest units, such as `3 h 05 min`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours:02} h"
    if hours:
        return f"{hours} h {minutes:02} min"
    return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"


def format_memory(num_bytes: float) -> str:
    """Returns an amount of memory in its largest unit, such as `1.5 GiB`."""
    amount, unit = float(num_bytes), 0
    # 1023.96 would be written as 1024.0.
    while amount >= 1023.95 and unit + 1 < len(_BINARY_UNITS):
        amount, unit = amount / 1024.0, unit + 1
    return f"{amount:.1f} {_BINARY_UNITS[unit]}" if unit else f"{amount:.0f} B"


def spread_items(items: Sequence[Item], count: int) -> list[Item]:
    """Returns at most `count` items, spread evenly over all."""
    count = min(count, len(items))
    return [items[number * len(items) // count] for number in range(count)]
