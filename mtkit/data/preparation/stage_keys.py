"""What each stage of preparation depends on, as a digest."""

from functools import partial
from typing import Any

from pydantic import BaseModel

from mtkit.data.preparation.facts import PreparedFacts
from mtkit.data.prepared import (
    FORMAT_VERSION,
    Stage,
    describe_file,
    describe_inputs,
)
from mtkit.data.selection.language_models import digest_models
from mtkit.data.tokenizer_choice import TokenizerChoice, digest_reused, has_language_pieces
from mtkit.digests import digest
from mtkit.recipe import Recipe
from mtkit.recipe.data import Data
from mtkit.recipe.tables import relative_to_root
from mtkit.recipe.tokenizer import Pretrained


def compute_stage_key(stage: Stage, recipe: Recipe, found: PreparedFacts) -> str:
    """Returns a digest of all that a stage depends on, given the facts of those before it."""
    data, tokenizer, choice = recipe.data, recipe.tokenizer, TokenizerChoice.of(recipe)
    kept, languages = choice.reused_folder, list(data.languages)
    is_guided = recipe.training.guided_alignment is not None
    blocks = [recipe.objective, data.block_tokens, recipe.training.masked.short_tokens]
    dump = partial(_dump, str(data.data_root))
    depends: list[Any]
    match stage:
        case "text":
            held_out = (data.dev, *recipe.evaluation.test_sets)
            depends = [
                [dump(corpus, {"name", "weight", "tag"}) for corpus in data.train],
                dump(data.cleaning, {"max_tokens", "selection"}),
                [dump(corpus, {"tag"}) for corpus in held_out],
                [*languages, choice.punctuation],
                # Held-out pairs are found as the tokenizer normalises them.
                digest_reused(kept)
                if kept is not None
                else _describe_files(tokenizer.pretrained) or tokenizer.normalization,
                describe_inputs((*data.train, *held_out)),
                *([data.linearization] if data.is_trees else []),
            ]
        case "differences":
            assert data.cleaning.selection is not None
            models = digest_models(data.cleaning.selection)
            depends = [found["text"]["digest"], found["text"]["parts"], models]
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
            symbols = [choice.tags, choice.symbols, tokenizer.joint]
            depends = [digest_reused(kept), symbols, languages]
            if data.is_trees:
                # The trees' vocabulary may be made of the text.
                depends.append(_describe_text(found))
            if choice.extends_vocabulary:
                depends += [_describe_text(found), dump(tokenizer, {"sampling"})]
                depends.append(recipe.seed)
        case "tokenizer":
            depends = [
                _describe_text(found),
                dump(tokenizer, {"sampling"}),
                # Moses' rules depend on the languages.
                languages,
                [recipe.seed, choice.tags, *choice.own_symbols],
                _describe_files(tokenizer.pretrained),
            ]
        case "train" if data.is_text:
            depends = [
                _describe_text(found),
                found["text"]["parts"],
                found["tokenizer"]["digest"],
                blocks,
            ]
        case "dev" if data.is_text:
            depends = [
                found["tokenizer"]["digest"],
                languages,
                dump(data.dev),
                blocks,
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
                tokenizer.sampling and dump(tokenizer.sampling),
                *([found["alignment"]["digest"]] if "alignment" in found else []),
                *([] if data.augment is None else [dump(data.augment), recipe.seed]),
                *_describe_terms(data, found, is_guided=is_guided),
            ]
        case "dev":
            depends = [
                found["tokenizer"]["digest"],
                languages,
                dump(data.dev),
                data.cleaning.max_tokens,
                describe_inputs((data.dev,)),
                *([data.linearization] if data.is_trees else []),
            ]
    return digest([stage, FORMAT_VERSION, *depends])


def _describe_text(found: PreparedFacts) -> list[Any]:
    """Returns what tells the text that is tokenised from others."""
    digests = found["text"]["digest"]
    return [digests, found["selection"]["digest"]] if "selection" in found else digests


def _dump(root: str, section: BaseModel, left_out: set[str] | None = None) -> Any:
    """Returns a section's values but for some, with paths as they start from the corpora."""
    return relative_to_root(section.model_dump(mode="json", exclude=left_out), root)


def _describe_terms(data: Data, found: PreparedFacts, *, is_guided: bool) -> list[Any]:
    """Returns what tells the dictionary of a recipe's terms from others; empty without terms."""
    if "terms" in found:
        # Alignments are read for terms alone, or are a column of the store, too.
        return [found["terms"]["digest"], is_guided]
    return [] if data.dictionary is None else [describe_file(data.dictionary)]


def _describe_files(pretrained: Pretrained | None) -> list[dict[str, Any]]:
    """Returns what tells a recipe's SentencePiece models from others; empty without any."""
    paths = [] if pretrained is None else [pretrained.source, pretrained.target]
    return [describe_file(path) for path in paths if path is not None]
