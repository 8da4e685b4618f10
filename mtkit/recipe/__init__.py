"""What a run is: one TOML file, a frozen model per section, checked before any work starts.

The names below are loaded on first use: code that needs one section, such as a translator,
doesn't load the others.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mtkit.recipe.loading import PROJECT_RECIPE, dump_recipe, load_recipe, shipped_recipes
    from mtkit.recipe.recipe import Recipe

__all__ = ["PROJECT_RECIPE", "Recipe", "dump_recipe", "load_recipe", "shipped_recipes"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'mtkit.recipe' has no attribute '{name}'")
    home = "recipe" if name == "Recipe" else "loading"
    return getattr(import_module(f"mtkit.recipe.{home}"), name)
