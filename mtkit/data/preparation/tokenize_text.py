"""Makes tokens from cleaned text in parallel: pairs, blocks of documents, or labelled texts."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from mtkit.console import show_progress
from mtkit.data.preparation.cleaned_block import NUM_SAMPLES
from mtkit.data.preparation.facts import TokenizedCorpus, TrainFacts
from mtkit.data.preparation.preparation_report import PreparationReport
from mtkit.data.preparation.report_page import draw_lengths
from mtkit.data.preparation.stage import (
    Preparation,
    ReportSection,
    Stage,
    has_pairs,
    is_labelled,
    name_unit,
    share,
)
from mtkit.data.preparation.text_store import DROPPED_FILE, TextPart, append_dropped
from mtkit.data.preparation.tokenize_blocks import (
    BlockShape,
    BlockStores,
    build_line_tokenizer,
)
from mtkit.data.preparation.tokenize_labelled import LabelledStore, build_labelled_tokenizer
from mtkit.data.preparation.tokenize_pairs import (
    PairStore,
    build_pair_tokenizer,
    list_pair_inputs,
)
from mtkit.data.preparation.tokenized import (
    ColumnCounts,
    TokenizedPart,
    TokenizedStore,
    describe_column,
)
from mtkit.files import digest_file
from mtkit.text.tokenizer import SubwordTokenizer

_QUANTILES = {"median": 0.5, "95th percentile": 0.95, "longest": 1.0}
_Tokenize = Callable[[TextPart], TokenizedPart]


def tokenize_text(preparation: Preparation, folder: Path) -> TrainFacts:
    """Writes the tokens of the cleaned text and their order by length; returns facts on them.

    The files don't depend on the number of workers.
    """
    tokenizer = SubwordTokenizer.load(preparation.tokenizer)
    corpora: list[TokenizedCorpus] = [
        {"kept": 0, "too_long": 0, "samples": []} for _ in preparation.data.train
    ]
    augmented: list[Counter[str]] = [Counter() for _ in corpora]
    counts: dict[str, ColumnCounts] = {}
    build, store = _choose_kind(preparation, tokenizer, folder)
    tokenized = preparation.executor.run(build, preparation.list_parts())
    counted = ((part.num_kept + part.num_too_long, part) for part in tokenized)
    with store:
        for part in show_progress(counted, "tokenising", name_unit(preparation)):
            store.add(part)
            facts = corpora[part.corpus]
            facts["kept"] += part.num_kept
            facts["too_long"] += part.num_too_long
            facts["samples"] = [*facts["samples"], *part.too_long][:NUM_SAMPLES]
            append_dropped(folder, part.dropped)
            augmented[part.corpus] += part.augmented
            for column, found in part.counts.items():
                counts[column] = counts[column] + found if column in counts else found
    for corpus, facts in enumerate(corpora):
        facts.update(store.describe(corpus))  # type: ignore[typeddict-item]
        if preparation.data.augment is not None:
            facts["augmented"] = dict(sorted(augmented[corpus].items()))
    if isinstance(store, BlockStores):
        # Its rows are blocks, not the texts that were added.
        counts["text"] = replace(counts["text"], lengths=store.measure_lengths())
    sizes = {**tokenizer.vocab_sizes, "text": tokenizer.source_vocab_size}
    return {
        "corpora": corpora,
        **{name: describe_column(found, sizes[name]) for name, found in counts.items()},  # type: ignore[typeddict-item]
        "digest": [
            digest_file(path)
            for path in sorted(folder.rglob("*"))
            if path.is_file() and path.name != DROPPED_FILE
        ],
    }


def _choose_kind(
    preparation: Preparation, tokenizer: SubwordTokenizer, folder: Path
) -> tuple[Callable[[], _Tokenize], TokenizedStore]:
    """Returns the factory of a tokenizer of parts, and the store for their tokens."""
    if is_labelled(preparation):
        store = LabelledStore(folder, tokenizer, preparation.found["text"]["labels"])
        return build_labelled_tokenizer(preparation), store
    if has_pairs(preparation):
        return build_pair_tokenizer(preparation), PairStore(folder, preparation, tokenizer)
    shape = BlockShape.of(preparation.recipe)
    return build_line_tokenizer(preparation), BlockStores(folder, shape, tokenizer)


def _depends(preparation: Preparation) -> list[Any]:
    shared = [
        preparation.describe_text(),
        # The corpus of each row, which isn't in the text itself.
        preparation.parts,
        preparation.found["tokenizer"]["digest"],
    ]
    if has_pairs(preparation):
        return [*shared, *list_pair_inputs(preparation)]
    return [*shared, list(astuple(BlockShape.of(preparation.recipe)))]


def describe_tokens(report: PreparationReport, _: TrainFacts) -> Iterator[ReportSection]:
    """Yields the section on the tokens."""
    sides = list(report.tokens.values())
    is_pairs = len(sides) > 1
    what = "sentence" if is_pairs else "block"
    rows = {
        "total": [f"{side['tokens']:,}" for side in sides],
        **{
            name: [f"{quantile(side['lengths'], portion):,}" for side in sides]
            for name, portion in _QUANTILES.items()
        },
        "vocabulary size": [f"{side['pieces']:,}" for side in sides],
        f"  used by {'this side' if is_pairs else 'the text'}": [
            f"{side['pieces_used']:,}" for side in sides
        ],
        "  seen fewer than ten times": [f"{side['pieces_rare']:,}" for side in sides],
        "unknown tokens": [share(side["unknown_tokens"], side["tokens"]) for side in sides],
        "unknown characters": [
            " ".join(f"{piece} ({count:,})" for piece, count in side["unknown_pieces"].items())
            for side in sides
        ],
    }
    lengths = [side["lengths"] for side in sides]
    yield ReportSection(
        "Tokens",
        [f"tokens per {what}", *report.languages],
        [[name, *cells] for name, cells in rows.items() if any(cells)],
        draw=partial(draw_lengths, report.languages, lengths, what),
    )


def quantile(histogram: Sequence[int], portion: float) -> int:
    """Returns the shortest length that at least a fraction of the sentences don't exceed."""
    sums = np.cumsum(histogram)
    return int(np.searchsorted(sums, portion * sums[-1])) if len(sums) and sums[-1] else 0


TOKENS = Stage("train", tokenize_text, _depends, describe=describe_tokens)
