"""What each stage of preparation depends on, as a digest."""

from typing import Any

from pydantic import BaseModel

from mtkit.data.preparation.facts import PreparedFacts
from mtkit.data.prepared import (
    FORMAT_VERSION,
    Stage,
    choose_short_tokens,
    describe_file,
    describe_inputs,
)
from mtkit.data.selection.language_models import digest_models
from mtkit.data.tokenizer_choice import (
    choose_punctuation,
    digest_reused,
    extends_vocabulary,
    has_language_pieces,
    list_own_symbols,
    list_symbols,
    list_tags,
    reused_folder,
)
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
                _dump(recipe, data.cleaning, {"max_tokens", "selection"}),
                [_dump(recipe, corpus, {"tag"}) for corpus in held_out],
                [*languages, choose_punctuation(recipe)],
                # Held-out pairs are found as the tokenizer normalises them.
                digest_reused(kept)
                if kept is not None
                else _describe_pretrained(recipe) or tokenizer.normalization,
                describe_inputs((*data.train, *held_out)),
                *([data.linearization] if data.is_trees else []),
            ]
        case "differences":
            depends = [found["text"]["digest"], found["text"]["parts"], digest_models(recipe)]
        case "selection":
            selection = data.cleaning.selection
            assert selection is not None
            depends = [
                found["differences"]["digest"],
                found["text"]["parts"],
                [selection.keep, selection.max_value],
            ]
        case "aligner" | "alignment" | "terms":
            depends = [_describe_text(found), found["text"]["parts"]]
            depends += [] if stage == "aligner" else [data.names_alignments]
            depends += [found["alignment"]["digest"]] if stage == "terms" else []
        case "tokenizer" if kept is not None:
            symbols = [list_tags(recipe), list_symbols(recipe), tokenizer.joint]
            depends = [digest_reused(kept), symbols, languages]
            if data.is_trees:
                # The trees' vocabulary may be made of the text.
                depends.append(_describe_text(found))
            if extends_vocabulary(recipe):
                depends += [_describe_text(found), _dump(recipe, tokenizer, {"sampling"})]
                depends.append(recipe.seed)
        case "tokenizer":
            depends = [
                _describe_text(found),
                _dump(recipe, tokenizer, {"sampling"}),
                # Moses' rules depend on the languages.
                languages,
                [recipe.seed, list_tags(recipe), *list_own_symbols(recipe)],
                _describe_pretrained(recipe),
            ]
        case "train" if data.is_text:
            depends = [
                _describe_text(found),
                found["text"]["parts"],
                found["tokenizer"]["digest"],
                _describe_blocks(recipe),
            ]
        case "dev" if data.is_text:
            depends = [
                found["tokenizer"]["digest"],
                languages,
                _dump(recipe, data.dev),
                _describe_blocks(recipe),
                describe_inputs((data.dev,)),
                *found["text"].get("labels", ()),
            ]
        case "train":
            depends = [
                _describe_text(found),
                # Which corpus each pair is of, which the text itself doesn't tell.
                found["text"]["parts"],
                found["tokenizer"]["digest"],
                [corpus.tag for corpus in data.train],
                *([languages] if kept is not None and has_language_pieces(kept) else []),
                data.cleaning.max_tokens,
                tokenizer.sampling and _dump(recipe, tokenizer.sampling),
                *([found["alignment"]["digest"]] if "alignment" in found else []),
                *([] if data.augment is None else [_dump(recipe, data.augment), recipe.seed]),
                *_describe_terms(recipe, found),
            ]
        case "dev":
            depends = [
                found["tokenizer"]["digest"],
                languages,
                _dump(recipe, data.dev),
                data.cleaning.max_tokens,
                describe_inputs((data.dev,)),
                *([data.linearization] if data.is_trees else []),
            ]
    return digest([stage, FORMAT_VERSION, *depends])


def _describe_text(found: PreparedFacts) -> list[Any]:
    """Returns what tells the text that is tokenised from others."""
    digests = found["text"]["digest"]
    return [digests, found["selection"]["digest"]] if "selection" in found else digests


def _describe_blocks(recipe: Recipe) -> list[Any]:
    """Returns what tells how a recipe's documents become blocks."""
    return [recipe.objective, recipe.data.block_tokens, choose_short_tokens(recipe)]


def _dump(recipe: Recipe, section: BaseModel, left_out: set[str] | None = None) -> Any:
    """Returns a section's values but for some, with paths as they start from the corpora."""
    tables = section.model_dump(mode="json", exclude=left_out)
    return relative_to_root(tables, str(recipe.data.data_root))


def _describe_terms(recipe: Recipe, found: PreparedFacts) -> list[Any]:
    """Returns what tells the dictionary of a recipe's terms from others; empty without terms."""
    if "terms" in found:
        # Alignments are read for terms alone, or are a column of the store, too.
        return [found["terms"]["digest"], recipe.training.guided_alignment is not None]
    augment = recipe.data.augment
    terms = None if augment is None else augment.terms
    return [] if terms is None or terms.dictionary is None else [describe_file(terms.dictionary)]


def _describe_pretrained(recipe: Recipe) -> list[dict[str, Any]]:
    """Returns what tells a recipe's SentencePiece models from others; empty without any."""
    pretrained = recipe.tokenizer.pretrained
    paths = [] if pretrained is None else [pretrained.source, pretrained.target]
    return [describe_file(path) for path in paths if path is not None]
