"""`--set section.key=value` and `--set ~section.key`, applied to a recipe's tables."""

import tomllib
from collections.abc import Sequence
from typing import Any

import mtkit.recipe
from mtkit.errors import MtkitError, suggest
from mtkit.paths import without_surrogates
from mtkit.recipe.key_errors import known_keys, list_keys


def apply_override(tables: dict[str, Any], override: str) -> None:
    """Changes or removes one key of the tables.

    Args:
        tables: The recipe as nested dictionaries and lists.
        override: `section.key=value` with a TOML value (a bare word is a string), or
            `~section.key`; a number steps into a list, from 0.

    Raises:
        MtkitError: It is neither, or it leads into a value or past a list's end.
    """
    removes = override.startswith("~")
    steps, value = _parse(override)
    node: Any = tables
    for depth, step in enumerate(steps[:-1]):
        if isinstance(node, list):
            node = node[_index(node, step, override)]
        elif isinstance(node, dict):
            if removes and step not in node:
                _check_known(steps, override)
                return
            if step not in node and steps[depth + 1].isdecimal() and depth + 2 < len(steps):
                # A section in a list that isn't there.
                _index([], steps[depth + 1], override)
            node = node.setdefault(step, {})
        if not isinstance(node, dict | list):
            key = ".".join(steps[: depth + 1])
            raise MtkitError(f"--set {override}: '{key}' is a value, not a section")
    last: Any = _index(node, steps[-1], override) if isinstance(node, list) else steps[-1]
    if not removes:
        node[last] = value
    elif isinstance(node, list) or last in node:
        del node[last]
    else:
        _check_known(steps, override)


def list_overrides(overrides: Sequence[str]) -> dict[str, str]:
    """Returns each override as it was typed, by the key that it changes, in order."""
    changed: dict[str, str] = {}
    for override in overrides:
        key = override_key(override)
        changed.pop(key, None)
        changed[key] = f"--set {override}"
    return changed


def override_key(override: str) -> str:
    """Returns the key that an override changes or removes."""
    return ".".join(_parse(override)[0])


def _parse(override: str) -> tuple[list[str], Any]:
    if override != (shown := without_surrogates(override)):
        raise MtkitError(
            f"--set {shown}: invalid UTF-8, which a recipe can't contain",
            "rename the file, or link to it under another name",
        )
    key, equals, text = override.removeprefix("~").partition("=")
    steps = [step.strip() for step in key.split(".")]
    if override.startswith("~") == bool(equals) or not all(steps):
        raise MtkitError(
            f"--set {override}: expected section.key=value, or ~section.key to remove it",
            "for example: --set training.max_steps=100",
        )
    return steps, _value(text.strip())


def _check_known(steps: list[str], override: str) -> None:
    """Checks that a key which is absent, as after its removal, is one that a recipe can have."""
    location = [int(step) if step.isdecimal() else step for step in steps]
    for depth, step in enumerate(location):
        known = known_keys(mtkit.recipe.Recipe, location[: depth + 1])
        if isinstance(step, str) and step not in known:
            raise MtkitError(
                f"--set {override}: unknown key '{step}'" + suggest(step, known),
                list_keys(".".join(steps[:depth]) or "a recipe", known),
            )


def _index(entries: list[Any], step: str, override: str) -> int:
    if not step.isdecimal() or int(step) >= len(entries):
        raise MtkitError(
            f"--set {override}: expected an index in a list of {len(entries)}, from 0, "
            f"found '{step}'"
        )
    return int(step)


def _value(text: str) -> Any:
    """Returns text as the TOML value it spells, or as a string where it spells none."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (RecursionError, ValueError):
        # TOML's own fault is a ValueError; so is a number with too many digits.
        return text
