"""What each stage of preparation depends on, as a digest."""

from pathlib import Path
from typing import Any

from mtkit.data.preparation.facts import PreparedFacts
from mtkit.data.prepared import FORMAT_VERSION, Stage, describe_file, describe_inputs
from mtkit.data.tokenizer_choice import choose_punctuation, digest_reused, reused_folder
from mtkit.digests import digest
from mtkit.recipe import Recipe
from mtkit.recipe.invalidation import Invalidates
from mtkit.recipe.tables import select_values


def compute_stage_key(stage: Stage, recipe: Recipe, found: PreparedFacts) -> str:
    """Returns a digest of all that a stage depends on, given the facts of those before it.

    The values come in the order that they have had since format version 2; those of keys that have
    none in it stand at the end.
    """
    kept = reused_folder(recipe)
    match stage:
        case "text":
            values = _Values(recipe, Invalidates.TEXT)
            depends = _list_text_inputs(values, recipe)
        case "tokenizer" if kept is not None:
            values = _Values(recipe, Invalidates.REUSED_TOKENIZER)
            symbols = values.take("tokenizer.user_symbols")
            depends = [
                digest_reused(kept),
                [values.take_tags(), symbols, values.take("tokenizer.joint")],
                values.take_languages(),
            ]
        case "tokenizer":
            values = _Values(recipe, Invalidates.TOKENIZER)
            depends = [
                found["text"]["digest"],
                values.take("tokenizer"),
                # Moses' rules depend on the languages.
                values.take_languages(),
                [values.take("seed"), values.take_tags()],
                _describe_pretrained(recipe),
            ]
        case "train":
            values = _Values(recipe, Invalidates.TRAIN)
            depends = [
                found["text"]["digest"],
                # Which corpus each pair is of, which the text itself doesn't tell.
                found["text"]["parts"],
                found["tokenizer"]["digest"],
                [corpus["tag"] for corpus in values.take("data.train")],
                values.take("data.cleaning.max_tokens"),
                values.take("tokenizer.sampling"),
            ]
        case "dev":
            values = _Values(recipe, Invalidates.DEV)
            depends = [
                found["tokenizer"]["digest"],
                values.take_languages(),
                values.take("data.dev"),
                values.take("data.cleaning.max_tokens"),
                describe_inputs((recipe.data.dev,)),
            ]
    return digest([stage, FORMAT_VERSION, *depends, *values.rest()])


def _list_text_inputs(values: "_Values", recipe: Recipe) -> list[Any]:
    # Of these only what the tokenizer that the recipe gets makes of them counts.
    for key in ("normalization", "punctuation", "pretrained"):
        values.take(f"tokenizer.{key}")
    data, tests = recipe.data, recipe.evaluation.test_sets
    return [
        values.take("data.train"),
        values.take("data.cleaning"),
        [values.take("data.dev"), *values.take("evaluation.test_sets")],
        [*values.take_languages(), choose_punctuation(recipe)],
        _describe_normalization(recipe),
        describe_inputs((*data.train, data.dev, *tests)),
    ]


class _Values:
    """The values of a recipe that a stage depends on; each is taken out once."""

    def __init__(self, recipe: Recipe, stage: Invalidates) -> None:
        self._tables = select_values(recipe, stage)

    def take(self, key: str) -> Any:
        """Takes out the value or section at a key such as `data.train`."""
        *sections, last = key.split(".")
        tables = self._tables
        for section in sections:
            tables = tables[section]
        return tables.pop(last)

    def take_languages(self) -> list[str]:
        """Takes out the source and target language."""
        return [self.take("data.source_language"), self.take("data.target_language")]

    def take_tags(self) -> list[str]:
        """Takes out the tags of all corpora; returns each once."""
        corpora = [*self.take("data.train"), self.take("data.dev")]
        # A recipe may have no test set.
        if "evaluation" in self._tables:
            corpora += self.take("evaluation.test_sets")
        return list(dict.fromkeys(corpus["tag"] for corpus in corpora if corpus["tag"]))

    def rest(self) -> list[Any]:
        """Returns what hasn't been taken out; an empty list where that is nothing."""
        rest = _without_empty_tables(self._tables)
        return [rest] if rest else []


def _without_empty_tables(tables: Any) -> Any:
    if not isinstance(tables, dict):
        return tables
    inner = {key: _without_empty_tables(value) for key, value in tables.items()}
    return {key: value for key, value in inner.items() if value != {}}


def _describe_normalization(recipe: Recipe) -> Any:
    """Returns what the tokenizer's normalisation depends on, by which held-out pairs are found."""
    folder = reused_folder(recipe)
    if folder is not None:
        return digest_reused(folder)
    return _describe_pretrained(recipe) or recipe.tokenizer.normalization


def _describe_pretrained(recipe: Recipe) -> list[dict[str, Any]]:
    """Returns what tells a recipe's SentencePiece models from others; empty without any."""
    pretrained = recipe.tokenizer.pretrained
    paths: list[Path | None] = []
    if pretrained is not None:
        paths = [pretrained.source, pretrained.target]
    return [describe_file(path) for path in paths if path is not None]
