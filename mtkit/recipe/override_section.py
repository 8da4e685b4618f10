"""`--set` applied to one section, where no recipe is read.

Separate from `loading.py`, which loads all sections: a translator loads only its own.
"""

import json
from collections.abc import Sequence
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from mtkit.errors import MtkitError
from mtkit.recipe.cluster import Cluster
from mtkit.recipe.key_errors import explain
from mtkit.recipe.overrides import apply_override, list_overrides, override_key

Part = TypeVar("Part", bound=BaseModel)


def override_section(section: Part, name: str, overrides: Sequence[str]) -> Part:
    """Returns a copy of one section of a recipe with overrides applied, where no recipe is read.

    Args:
        section: The section.
        name: Its name in a recipe.
        overrides: As `load_recipe` takes them; each must begin with the section's name.

    Raises:
        MtkitError: An override of another section, an unknown key, or a value out of its range.
    """
    tables = {name: section.model_dump(mode="json", exclude_none=True)}
    for override in overrides:
        if not override_key(override).startswith(f"{name}."):
            raise MtkitError(
                f"--set {override}: no recipe is read here, so only {name} can be changed",
                f"for example: --set {name}.{next(iter(type(section).model_fields))}=...",
            )
        apply_override(tables, override)
    try:
        return type(section).model_validate_json(json.dumps(tables[name], default=str))
    except ValidationError as error:
        raise explain(
            error,
            origin=f"--set {name}",
            tables=tables[name],
            section=type(section),
            name=name,
            changed=list_overrides(overrides),
        ) from error


def split_overrides(overrides: Sequence[str], section: str) -> tuple[list[str], list[str]]:
    """Returns the overrides of a section's keys, and the others."""
    mine = [each for each in overrides if override_key(each).partition(".")[0] == section]
    return mine, [each for each in overrides if each not in mine]


def read_cluster(overrides: Sequence[str]) -> tuple[Cluster, list[str]]:
    """Returns the section that overrides describe, and the others, where no recipe is read."""
    mine, others = split_overrides(overrides, "cluster")
    return override_section(Cluster(), "cluster", mine), others
