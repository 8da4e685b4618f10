"""What a run is: one TOML file, a frozen model per section, checked before any work starts.

recipe.py       the whole recipe, and what must hold between sections
section.py      what every section has in common
objective.py    what a network learns, by name
invalidation.py
                what a change of a key invalidates, declared with the key
precision.py    the arithmetic that a network computes in
guided_alignment.py
                attention that learns word alignments
lora.py         low-rank updates of a trained model
data.py, cleaning.py, augment.py, augment_terms.py, tokenizer.py, model.py, training.py,
masking.py, inference.py, flags.py, paragraphs.py, protection.py, evaluation.py, test_sets.py
                a file per section; defaults are written here and nowhere else
corpora.py, text_corpora.py, corpus_files.py
                entries of `data.train` and `data.dev`: pairs; text in one language and labelled
                text; the files that they lie in
parsing.py      treebanks, and how a tree becomes a target
defaults.py     defaults that depend on what is learned
loading.py      recipes found by path or name, read, checked, written
documented.py   the docstring under each key, for the reference and the schema
tables.py       recipes as plain tables: reduced to what counts, compared
overrides.py, override_section.py
                `--set` applied to a recipe, or to one section
faults.py       what is wrong with a recipe, told in its own words

The names below are loaded on first use: whoever needs a section alone, as a translator does,
doesn't wait for all of them.
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
