"""What each stage of preparation depends on, as a digest."""

from typing import Any

from pydantic import BaseModel

from mtkit.data.preparation.facts import PreparedFacts
from mtkit.data.prepared import FORMAT_VERSION, Stage, describe_file, describe_inputs
from mtkit.data.tokenizer_choice import choose_punctuation, digest_reused, list_tags, reused_folder
from mtkit.digests import digest
from mtkit.recipe import Recipe
from mtkit.recipe.tables import relative_to_root


def compute_stage_key(stage: Stage, recipe: Recipe, found: PreparedFacts) -> str:
    """Returns a digest of all that a stage depends on, given the facts of those before it."""
    data, tokenizer, kept = recipe.data, recipe.tokenizer, reused_folder(recipe)
    languages = list(data.languages)
    depends: list[Any]
    match stage:
        case "text":
            held_out = (data.dev, *recipe.evaluation.test_sets)
            depends = [
                [_dump(recipe, corpus, {"name", "weight", "tag"}) for corpus in data.train],
                _dump(recipe, data.cleaning, {"max_tokens"}),
                [_dump(recipe, corpus, {"tag"}) for corpus in held_out],
                [*languages, choose_punctuation(recipe)],
                # Held-out pairs are found as the tokenizer normalises them.
                digest_reused(kept)
                if kept is not None
                else _describe_pretrained(recipe) or tokenizer.normalization,
                describe_inputs((*data.train, *held_out)),
            ]
        case "tokenizer" if kept is not None:
            symbols = [list_tags(recipe), tokenizer.user_symbols, tokenizer.joint]
            depends = [digest_reused(kept), symbols, languages]
        case "tokenizer":
            depends = [
                found["text"]["digest"],
                _dump(recipe, tokenizer, {"sampling"}),
                # Moses' rules depend on the languages.
                languages,
                [recipe.seed, list_tags(recipe)],
                _describe_pretrained(recipe),
            ]
        case "train":
            depends = [
                found["text"]["digest"],
                # Which corpus each pair is of, which the text itself doesn't tell.
                found["text"]["parts"],
                found["tokenizer"]["digest"],
                [corpus.tag for corpus in data.train],
                data.cleaning.max_tokens,
                tokenizer.sampling and _dump(recipe, tokenizer.sampling),
            ]
        case "dev":
            depends = [
                found["tokenizer"]["digest"],
                languages,
                _dump(recipe, data.dev),
                data.cleaning.max_tokens,
                describe_inputs((data.dev,)),
            ]
    return digest([stage, FORMAT_VERSION, *depends])


def _dump(recipe: Recipe, section: BaseModel, left_out: set[str] | None = None) -> Any:
    """Returns a section's values but for some, with paths as they start from the corpora."""
    tables = section.model_dump(mode="json", exclude=left_out)
    return relative_to_root(tables, str(recipe.data.data_root))


def _describe_pretrained(recipe: Recipe) -> list[dict[str, Any]]:
    """Returns what tells a recipe's SentencePiece models from others; empty without any."""
    pretrained = recipe.tokenizer.pretrained
    paths = [] if pretrained is None else [pretrained.source, pretrained.target]
    return [describe_file(path) for path in paths if path is not None]
