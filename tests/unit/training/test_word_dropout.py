"""Word dropout: the share of tokens that become `<unk>`, and what stays."""

import numpy as np
import pytest
import torch

from mtkit.data.batches.masking import WordDropout
from mtkit.data.prepared import open_prepared
from mtkit.errors import MtkitError
from mtkit.network.layout import Layout
from mtkit.text.token_ids import BOS, EOS, UNK
from mtkit.training.distributed import ProcessGroup
from mtkit.training.objectives.stored import JoinedBatches, TranslationBatches
from mtkit.training.training_run import TrainingRun

ALONE = ProcessGroup(0, 1, torch.device("cpu"))
RATE = 0.3


def open_batches(run, kind: type = TranslationBatches, *, packs: bool = False):
    data = open_prepared(run.recipe, run.workspace)
    described = TrainingRun(run.recipe, run.workspace, data)
    return data, kind(described, ALONE, dtype=torch.float32, packs=packs)


def take(layout: Layout, tokens: torch.Tensor) -> np.ndarray:
    """Returns the tokens that aren't padding, sentence after sentence."""
    return layout.select_tokens(tokens[..., None].double())[:, 0].long().numpy()


def check_share(read: np.ndarray, given: np.ndarray) -> np.ndarray:
    """Checks that about RATE of the given tokens are `<unk>`; returns which ones."""
    can_drop = given > EOS
    drops = (read == UNK) & can_drop
    assert np.array_equal(read[~drops], given[~drops])
    # Four standard deviations of a binomial distribution.
    spread = 4 * np.sqrt(RATE * (1 - RATE) / can_drop.sum())
    assert drops.sum() / can_drop.sum() == pytest.approx(RATE, abs=spread)
    return drops


@pytest.mark.parametrize("packs", [False, True])
def test_inputs_lose_words_and_outputs_none(tiny_run, packs: bool) -> None:
    data, batches = open_batches(tiny_run(f"training.word_dropout={RATE}"), packs=packs)
    _, whole = open_batches(tiny_run(), packs=packs)
    found = []
    for epoch in (0, 0, 1):
        dropped: tuple[list[np.ndarray], ...] = ([], [])
        for micro_batch in batches.split(np.arange(len(data.train)), 1, 512)[0]:
            ours = batches.gather(micro_batch, epoch)
            plain = whole.gather(micro_batch, epoch)
            assert torch.equal(ours.target_outputs, plain.target_outputs)
            for side, layout, read, given in (
                (0, plain.source_layout, ours.source_tokens, plain.source_tokens),
                (1, plain.target_layout, ours.target_inputs, plain.target_inputs),
            ):
                dropped[side].append(np.stack([take(layout, each) for each in (read, given)]))
        sides = [np.concatenate(parts, axis=1) for parts in dropped]
        found.append([check_share(*side) for side in sides])
        assert (sides[1][0] == BOS).sum() == len(data.train)
    for side in (0, 1):
        assert np.array_equal(found[0][side], found[1][side])
        assert not np.array_equal(found[0][side], found[2][side])


def test_a_decoder_alone_reads_both_sides_with_gaps(tiny_run_of) -> None:
    run = tiny_run_of("decoder-only", f"training.word_dropout={RATE}")
    data, batches = open_batches(run, JoinedBatches)
    _, whole = open_batches(tiny_run_of("decoder-only"), JoinedBatches)
    [micro_batch] = batches.split(np.arange(len(data.train)), 1, 100_000)[0]
    ours, plain = batches.gather(micro_batch, 0), whole.gather(micro_batch, 0)
    assert torch.equal(ours.outputs, plain.outputs)
    check_share(*(take(plain.layout, each.inputs) for each in (ours, plain)))


def test_named_symbols_stay(tiny_run) -> None:
    data, _ = open_batches(tiny_run())
    vocabulary = data.tokenizer.source_vocabulary
    symbols = vocabulary.pieces[100:200]
    dropout = WordDropout(0.9, data.tokenizer, symbols=symbols, words=(1,))
    rows = np.arange(len(data.train))
    given = data.train.gather(rows)["source"]
    read = dropout.drop("source", given, rows, 0)
    is_kept = (given.tokens >= 100) & (given.tokens < 200) | (given.tokens <= EOS)
    assert np.array_equal(read.tokens[is_kept], given.tokens[is_kept])
    assert (read.tokens[~is_kept] == UNK).mean() > 0.8


def test_other_objectives_are_refused(tiny_run_of) -> None:
    for objective in ("causal-lm", "denoising"):
        with pytest.raises(MtkitError, match="word_dropout is for translation"):
            tiny_run_of(objective, "training.word_dropout=0.1")
