"""Recipes as plain tables: made independent of where they lie, and compared."""

from collections.abc import Mapping
from typing import Any


def relative_to_root(chosen: Any, root: str) -> Any:
    """Returns a recipe's tables with paths as they start from the corpora's folder, `root`."""
    if isinstance(chosen, dict):
        return {key: relative_to_root(value, root) for key, value in chosen.items()}
    if isinstance(chosen, list):
        return [relative_to_root(value, root) for value in chosen]
    return chosen.removeprefix(f"{root}/") if isinstance(chosen, str) else chosen


def list_differences(
    wanted: Mapping[str, Any], found: Mapping[str, Any], prefix: str = ""
) -> list[str]:
    """Returns a phrase for each key whose value differs between two nested tables.

    Args:
        wanted: The values that are wanted now.
        found: The earlier values.
        prefix: Put before each key.
    """
    phrases = []
    for key in sorted(wanted.keys() | found.keys()):
        now, then = (_by_index(tables.get(key)) for tables in (wanted, found))
        if isinstance(now, dict) and isinstance(then, dict):
            phrases += list_differences(now, then, f"{prefix}{key}.")
        elif now != then:
            phrases.append(f"{prefix}{key} was {then!r}, now {now!r}")
    return phrases


def _by_index(value: Any) -> Any:
    """Returns a list of tables as a table of them by index; all else as it is."""
    if isinstance(value, list) and value and all(isinstance(entry, dict) for entry in value):
        return {str(index): entry for index, entry in enumerate(value)}
    return value
