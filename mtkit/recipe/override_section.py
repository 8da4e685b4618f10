"""`--set` applied to one section, where no recipe is read.

Separate from `loading.py`, which loads all sections: a translator loads only its own.
"""

from collections.abc import Sequence

from mtkit.errors import MtkitError
from mtkit.recipe.cluster import Cluster
from mtkit.recipe.key_errors import Part, validate_tables
from mtkit.recipe.overrides import apply_override, list_overrides, override_key


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
    changed = list_overrides(overrides)
    origin = f"--set {name}"
    return validate_tables(type(section), tables[name], origin=origin, name=name, changed=changed)


def split_overrides(overrides: Sequence[str], section: str) -> tuple[list[str], list[str]]:
    """Returns the overrides of a section's keys, and the others."""
    mine = [each for each in overrides if override_key(each).partition(".")[0] == section]
    return mine, [each for each in overrides if each not in mine]


def read_cluster(overrides: Sequence[str]) -> tuple[Cluster, list[str]]:
    """Returns the section that overrides describe, and the others, where no recipe is read."""
    mine, others = split_overrides(overrides, "cluster")
    return override_section(Cluster(), "cluster", mine), others
