"""Development and test sets: read, and the development set as tokens."""

from collections.abc import Iterator, Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Any, Literal

from mtkit.data.batches.ragged import Ragged
from mtkit.data.batches.text_blocks import TextBlocksWriter
from mtkit.data.batches.token_store import PAIR_COLUMNS, TokenStoreWriter, make_batch
from mtkit.data.preparation.facts import DevFacts
from mtkit.data.preparation.stage import Preparation, Stage, has_blocks, has_pairs
from mtkit.data.preparation.tokenize_blocks import BlockShape, cut_whole
from mtkit.data.preparation.tokenize_text import (
    choose_widths,
    find_marks,
    find_short,
    keep,
    mark,
)
from mtkit.data.prepared import describe_inputs
from mtkit.data.sources.corpora import Pair, read_pairs, require_parallel, without_tag
from mtkit.data.sources.one_language import read_text
from mtkit.digests import digest
from mtkit.errors import MtkitError
from mtkit.files import write_atomically
from mtkit.recipe.corpora import HeldOutCorpus
from mtkit.recipe.data import Data
from mtkit.recipe.text_corpora import TextCorpus, TextTableCorpus
from mtkit.text.tokenizer import SubwordTokenizer


def read_held_out(
    data: Data,
    corpus: HeldOutCorpus,
    split: Literal["dev", "test"],
    *,
    is_tagged: bool = False,
) -> Iterator[Pair]:
    """Yields the pairs of a development or test set, with its tag or without.

    Args:
        data: The section whose languages and trees it has.
        corpus: The recipe's entry.
        split: What the embedded corpus stands for here.
        is_tagged: Whether sources begin with the entry's tag.
    """
    parallel = require_parallel(corpus)
    return read_pairs(
        parallel if is_tagged else without_tag(parallel),
        phrasebook_split=split,
        languages=data.languages,
        linearization=data.linearization,
    )


def read_held_out_rows(
    data: Data, corpus: HeldOutCorpus, split: Literal["dev", "test"]
) -> Iterator[tuple[str, ...]]:
    """Yields the pairs of a development or test set without its tag, or lines of one language.

    Args:
        data: The section whose languages and trees it has.
        corpus: The recipe's entry.
        split: What the embedded corpus stands for here.

    Raises:
        MtkitError: It can't be read; a development set in one language has no line of text.
    """
    if isinstance(corpus, TextCorpus | TextTableCorpus):
        lines, _ = read_text(corpus)
        if split == "dev" and not lines:
            raise MtkitError("data.dev: no text in it, only blank lines", "is this the right file?")
        yield from ((line,) for line in lines)
    else:
        yield from read_held_out(data, corpus, split)


def prepare_dev(preparation: Preparation, folder: Path) -> DevFacts:
    """Writes the development set as tokens, for its loss, and as text, for its score.

    Raises:
        MtkitError: It can't be read, or no pair of it is left.
    """
    tokenizer, data = SubwordTokenizer.load(preparation.tokenizer), preparation.data
    pairs = list(read_held_out(data, data.dev, "dev", is_tagged=True))
    tokens = tokenize_dev(tokenizer, data, pairs)
    widths = choose_widths(tokenizer)
    with TokenStoreWriter(folder, widths) as store:
        store.append(make_batch(tokens, widths), corpus=0)
    for column, lines in zip(PAIR_COLUMNS, zip(*pairs, strict=True), strict=True):
        write_atomically(folder / f"{column}.txt", "".join(f"{line}\n" for line in lines))
    return {
        "read": len(pairs),
        "kept": len(tokens["source"]),
        "source_tokens": len(tokens["source"].tokens),
        "target_tokens": len(tokens["target"].tokens),
        "digest": digest(pairs),
    }


def prepare_dev_blocks(preparation: Preparation, folder: Path) -> DevFacts:
    """Writes a development set in one language as blocks, and its lines without blank ones."""
    corpus, shape = preparation.data.dev, BlockShape.of(preparation.recipe)
    assert isinstance(corpus, TextCorpus | TextTableCorpus), "text in one language"
    tokenizer = SubwordTokenizer.load(preparation.tokenizer)
    lines, documents = read_text(corpus)
    sentences = Ragged.of(tokenizer.encode_source(lines))
    blocks, num_documents = cut_whole(shape, sentences, documents)
    with TextBlocksWriter(folder, tokenizer.source_vocab_size) as store:
        store.append(blocks.tokens, blocks.documents, corpus=0)
    write_atomically(folder / "text.txt", "".join(f"{line}\n" for line in lines))
    return {
        "read": len(lines),
        "kept": len(lines),
        "documents": num_documents,
        "blocks": len(blocks),
        "text_tokens": len(sentences.tokens),
        "digest": digest([lines, documents.tolist(), shape.objective, shape.block_tokens]),
    }


def tokenize_dev(
    tokenizer: SubwordTokenizer, data: Data, pairs: Sequence[Pair]
) -> dict[str, Ragged]:
    """Returns the tokens of a development set by column, by which its loss is measured.

    Pairs with a blank side, or a side of more than `max_tokens`, are dropped.

    Raises:
        MtkitError: None is left.
    """
    max_tokens = data.cleaning.max_tokens
    usable = [(source, target) for source, target in pairs if source.strip() and target.strip()]
    marks = find_marks(tokenizer, data.languages)
    sources = tokenizer.encode_source([source for source, _ in usable])
    targets = tokenizer.encode_target([target for _, target in usable])
    tokens = {
        "source": Ragged.of(mark(sources, marks, "source")),
        "target": Ragged.of(mark(targets, marks, "target")),
    }
    is_short = find_short(tokens, max_tokens)
    if not is_short.any():
        raise MtkitError(
            f"data.dev: no pairs left: {len(pairs) - len(usable):,} with a blank side, "
            f"{len(usable):,} longer than data.cleaning.max_tokens = {max_tokens}",
            "are these the right files?",
        )
    return keep(tokens, is_short)


def _list_dev(preparation: Preparation) -> list[Any]:
    data = preparation.data
    return [
        preparation.found["tokenizer"]["digest"],
        list(data.languages),
        preparation.dump(data.dev),
    ]


def list_line_inputs(preparation: Preparation) -> list[Any]:
    """Returns all that a development set of text in one language depends on."""
    shape, inputs = BlockShape.of(preparation.recipe), describe_inputs((preparation.data.dev,))
    return [*_list_dev(preparation), list(astuple(shape)), inputs]


def _list_pair_inputs(preparation: Preparation) -> list[Any]:
    data = preparation.data
    return [
        *_list_dev(preparation),
        data.cleaning.max_tokens,
        describe_inputs((data.dev,)),
        *([data.linearization] if data.is_trees else []),
    ]


PAIR_DEV = Stage("dev", prepare_dev, _list_pair_inputs, has_pairs)
BLOCK_DEV = Stage("dev", prepare_dev_blocks, list_line_inputs, has_blocks)
