"""A causal language model's probability of each line of a text."""

import itertools
from collections.abc import Sequence

import numpy as np

from mtkit.data.batches.ragged import Indices
from mtkit.evaluation.perplexity import PredictedText
from mtkit.inference.engines.engine import Engine, make_batches, restore_order
from mtkit.text.token_ids import UNK
from mtkit.text.tokenizer import SubwordTokenizer


def predict_text(
    engine: Engine,
    tokenizer: SubwordTokenizer,
    lines: Sequence[str],
    documents: Indices,
    *,
    context_tokens: int,
    batch_tokens: int,
) -> PredictedText:
    """Returns the log-probability of each line, given the lines before it in its block.

    `documents` are the lines' ascending document numbers, [lines]. Documents are cut into blocks of
    `context_tokens` as in training: a token's context is its block. No line may be blank.
    """
    tokens = tokenizer.encode_target(lines)
    blocks: list[list[int]] = []
    for _, of_document in itertools.groupby(range(len(lines)), key=lambda line: documents[line]):
        text = [token for line in of_document for token in tokens[line]]
        blocks += [
            text[first : first + context_tokens] for first in range(0, len(text), context_tokens)
        ]
    batches = make_batches([len(block) for block in blocks], batch_tokens)
    found = (engine.score([()] * len(each), [blocks[index] for index in each]) for each in batches)
    measured = restore_order(batches, found)
    num_tokens = np.array([len(line) for line in tokens], dtype=np.int64)
    line_of_token = np.repeat(np.arange(len(lines)), num_tokens)
    of_tokens = np.fromiter(itertools.chain.from_iterable(measured), np.float64)
    log_probabilities = np.zeros(len(lines))
    np.add.at(log_probabilities, line_of_token, of_tokens)
    return PredictedText(
        lines=lines,
        log_probabilities=log_probabilities,
        num_tokens=num_tokens,
        num_unknown=sum(line.count(UNK) for line in tokens),
        context_tokens=context_tokens,
    )
