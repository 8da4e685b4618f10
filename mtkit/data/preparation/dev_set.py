"""The development set as tokens, for its loss, and as text, for its score."""

from collections.abc import Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Any

import numpy as np

from mtkit.data.batches.joined_texts import encode_texts
from mtkit.data.batches.numbered_texts import NumberedTextsWriter
from mtkit.data.batches.ragged import Ragged
from mtkit.data.batches.token_store import PAIR_COLUMNS, TokenStoreWriter, make_batch
from mtkit.data.preparation.clean_labelled import list_labelled
from mtkit.data.preparation.facts import DevFacts
from mtkit.data.preparation.held_out import read_held_out
from mtkit.data.preparation.stage import Preparation, Stage, has_pairs, is_labelled
from mtkit.data.preparation.tokenize_blocks import BlockShape, cut_whole
from mtkit.data.preparation.tokenize_pairs import (
    choose_widths,
    find_marks,
    find_short,
    keep,
    mark,
)
from mtkit.data.prepared import describe_inputs
from mtkit.data.sources.corpora import Pair, read_corpus_text, read_labelled
from mtkit.errors import MtkitError
from mtkit.files import digest, write_lines
from mtkit.recipe.data import Data
from mtkit.recipe.text_corpora import TextCorpus, TextTableCorpus
from mtkit.text.tokenizer import SubwordTokenizer


def prepare_dev(preparation: Preparation, folder: Path) -> DevFacts:
    """Writes the development set."""
    if is_labelled(preparation):
        return _write_labelled(preparation, folder)
    return (_write_pairs if has_pairs(preparation) else _write_blocks)(preparation, folder)


def _write_pairs(preparation: Preparation, folder: Path) -> DevFacts:
    tokenizer, data = SubwordTokenizer.load(preparation.tokenizer), preparation.data
    pairs = list(read_held_out(data, data.dev, "dev", is_tagged=True))
    tokens = _tokenize_pairs(tokenizer, data, pairs)
    widths = choose_widths(tokenizer)
    with TokenStoreWriter(folder, widths) as store:
        store.append(make_batch(tokens, widths), corpus=0)
    for column, lines in zip(PAIR_COLUMNS, zip(*pairs, strict=True), strict=True):
        write_lines(folder / f"{column}.txt", lines)
    return {
        "read": len(pairs),
        "kept": len(tokens["source"]),
        "source_tokens": len(tokens["source"].tokens),
        "target_tokens": len(tokens["target"].tokens),
        "digest": digest(pairs),
    }


def _write_blocks(preparation: Preparation, folder: Path) -> DevFacts:
    # Blank lines are left out.
    corpus, shape = preparation.data.dev, BlockShape.of(preparation.recipe)
    assert isinstance(corpus, TextCorpus | TextTableCorpus), "text in one language"
    tokenizer = SubwordTokenizer.load(preparation.tokenizer)
    lines, documents = read_corpus_text(corpus)
    sentences = Ragged.of(tokenizer.encode_source(lines))
    blocks, num_documents = cut_whole(shape, sentences, documents)
    with NumberedTextsWriter(folder, tokenizer.source_vocab_size) as store:
        store.append(blocks.tokens, blocks.documents, corpus=0)
    write_lines(folder / "text.txt", lines)
    return {
        "read": len(lines),
        "kept": len(lines),
        "documents": num_documents,
        "blocks": len(blocks),
        "text_tokens": len(sentences.tokens),
        "digest": digest([lines, documents.tolist(), shape.objective, shape.block_tokens]),
    }


def _tokenize_pairs(
    tokenizer: SubwordTokenizer, data: Data, pairs: Sequence[Pair]
) -> dict[str, Ragged]:
    """Returns the tokens of pairs by column, without blank and too long pairs."""
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


def _write_labelled(preparation: Preparation, folder: Path) -> DevFacts:
    data, labels = preparation.data, preparation.found["text"]["labels"]
    tokenizer = SubwordTokenizer.load(preparation.tokenizer)
    [corpus] = list_labelled((data.dev,))
    rows = read_labelled(corpus)
    texts = rows["text"]
    if not texts:
        raise MtkitError("data.dev: no text in it", "is this the right file?")
    numbers = {label: number for number, label in enumerate(labels)}
    seconds = rows["second"] if data.has_pairs_of_texts else None
    tokens = encode_texts(tokenizer, texts, seconds, max_tokens=data.block_tokens)
    found = np.array([numbers[label] for label in rows["label"]], np.int64)
    with NumberedTextsWriter(folder, tokenizer.source_vocab_size, labels) as writer:
        writer.append(tokens, found, corpus=0)
    lines = texts if seconds is None else list(map("\t".join, zip(texts, seconds, strict=True)))
    write_lines(folder / "text.txt", lines)
    write_lines(folder / "labels.txt", rows["label"])
    return {
        "read": len(texts),
        "kept": len(texts),
        "text_tokens": len(tokens.tokens),
        "digest": digest(list(zip(*rows.values(), strict=True))),
    }


def _depends(preparation: Preparation) -> list[Any]:
    data = preparation.data
    depends = [
        preparation.found["tokenizer"]["digest"],
        list(data.languages),
        preparation.dump(data.dev),
    ]
    inputs = describe_inputs((data.dev,))
    if has_pairs(preparation):
        trees = [data.linearization] if data.is_trees else []
        return [*depends, data.cleaning.max_tokens, inputs, *trees]
    labels = preparation.found["text"].get("labels", [])
    return [*depends, list(astuple(BlockShape.of(preparation.recipe))), inputs, *labels]


DEV = Stage("dev", prepare_dev, _depends)
