"""Recipes as plain tables: selected keys, relative paths, differences."""

import json
from collections.abc import Mapping
from typing import Any

from mtkit.recipe.invalidation import Declaration, Invalidates
from mtkit.recipe.recipe import Recipe

WHOLE_RECIPE = Declaration(None, (Recipe,))
"""A whole recipe: its keys declare what they invalidate, each alone or by its section."""


def select_keys(
    tables: Any, wanted: Invalidates, *, declared: Declaration = WHOLE_RECIPE
) -> dict[str, Any]:
    """Returns the values whose change invalidates something, in their tables.

    Args:
        tables: A recipe as plain tables, perhaps of another version, as a checkpoint has it.
        wanted: What is asked about: a key that invalidates any of it is chosen.
        declared: The section that the tables are of.

    Raises:
        TypeError: A value stands where a section should.
    """
    if not isinstance(tables, Mapping):
        raise TypeError(f"expected a section, found {type(tables).__name__}")
    chosen: dict[str, Any] = {}
    for key, value in tables.items():
        inner = declared.of_key(key)
        if not inner.sections or not value:
            if inner.invalidates and inner.invalidates & wanted:
                chosen[key] = value
        elif isinstance(value, list):
            parts = [select_keys(entry, wanted, declared=inner) for entry in value]
            if any(parts):
                chosen[key] = parts
        elif part := select_keys(value, wanted, declared=inner):
            chosen[key] = part
    return chosen


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
            phrases.append(f"{prefix}{key} was {_describe(then)}, now {_describe(now)}")
    return phrases


def _describe(value: Any) -> str:
    return "absent" if value is None else json.dumps(value, ensure_ascii=False, default=str)


def _by_index(value: Any) -> Any:
    """Returns a list of tables as a table of them by index; all else as it is."""
    if isinstance(value, list) and value and all(isinstance(entry, dict) for entry in value):
        return {str(index): entry for index, entry in enumerate(value)}
    return value
