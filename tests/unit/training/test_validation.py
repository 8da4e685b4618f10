"""The development score is that of `translate` and `score`; its loss, that of each sentence."""

import numpy as np
import pytest
import sacrebleu
import torch

from mtkit.data.prepared import open_prepared
from mtkit.inference.translator import Translator
from mtkit.network import EncoderDecoder, PaddedLayout
from mtkit.training.distributed import ProcessGroup
from mtkit.training.metrics import read_metrics
from mtkit.training.training_run import TrainingRun
from mtkit.training.validators import TranslationValidator


@pytest.fixture
def run(tiny_run, kept):
    # So young a model doesn't end its outputs: these limits are tighter than validation's own.
    run = tiny_run(
        "training.max_steps=60",
        "training.checkpoint_every=60",
        "inference.no_repeat_ngram=3",
        "inference.max_extra_tokens=5",
    )
    run.train_once(kept)
    return run


def test_the_score_is_what_the_saved_model_gets(run) -> None:
    [dev] = [m for m in read_metrics(run.workspace.metrics_file) if m["kind"] == "dev"]
    assert dev["chrf"] > 0
    sources, references = open_prepared(run.recipe, run.workspace).dev_text
    greedy = run.recipe.inference.model_copy(update={"beam_size": 1})
    translator = Translator(run.workspace.model, settings=greedy)
    hypotheses = translator.translate(sources)
    assert dev["bleu"] == pytest.approx(sacrebleu.corpus_bleu(hypotheses, [references]).score)
    assert dev["chrf"] == pytest.approx(sacrebleu.corpus_chrf(hypotheses, [references]).score)


def test_the_loss_is_the_mean_over_tokens_one_sentence_at_a_time(tiny_run) -> None:
    run = tiny_run()
    data = open_prepared(run.recipe, run.workspace)
    vocab_size = data.tokenizer.source_vocab_size
    torch.manual_seed(4)
    model = EncoderDecoder(run.recipe.model, vocab_size, vocab_size).eval()
    validation = TranslationValidator(
        TrainingRun.open(run.recipe, run.workspace), ProcessGroup(0, 1, torch.device("cpu"))
    ).validate(model)
    losses, num_tokens = [], 0
    sides = (side.to_lists() for side in data.dev.gather(np.arange(len(data.dev))).values())
    for source_tokens, target_tokens in zip(*sides, strict=True):
        source, target = torch.tensor([source_tokens]), torch.tensor(target_tokens)
        inputs = torch.cat((torch.tensor([2]), target[:-1]))[None]
        with torch.no_grad():
            logits = model.project(
                model(
                    source,
                    PaddedLayout.without_padding(source),
                    inputs,
                    PaddedLayout.without_padding(inputs),
                )
            )
        losses.append(
            torch.nn.functional.cross_entropy(
                logits[0], target, label_smoothing=0.1, reduction="sum"
            ).item()
        )
        num_tokens += len(target)
    assert validation.metrics["loss"] == pytest.approx(sum(losses) / num_tokens, rel=1e-5)
    assert validation.metrics["loss"] > validation.metrics["nll"] > 0


def test_samples_are_the_same_sentences_every_time(run) -> None:
    data = open_prepared(run.recipe, run.workspace)
    vocab_size = data.tokenizer.source_vocab_size
    model = EncoderDecoder(run.recipe.model, vocab_size, vocab_size).eval()
    validator = TranslationValidator(
        TrainingRun.open(run.recipe, run.workspace), ProcessGroup(0, 1, torch.device("cpu"))
    )
    first, second = (validator.validate(model).samples for _ in range(2))
    assert [sample["source"] for sample in first] == [data.dev_text[0][i] for i in (0, 6, 13)]
    assert [sample["reference"] for sample in first] == [data.dev_text[1][i] for i in (0, 6, 13)]
    assert first == second


def test_a_loss_ranks_checkpoints_from_low_to_high(tiny_run) -> None:
    run = tiny_run("training.validation.metric=loss")
    data = open_prepared(run.recipe, run.workspace)
    vocab_size = data.tokenizer.source_vocab_size
    model = EncoderDecoder(run.recipe.model, vocab_size, vocab_size).eval()
    validation = TranslationValidator(
        TrainingRun.open(run.recipe, run.workspace), ProcessGroup(0, 1, torch.device("cpu"))
    ).validate(model)
    assert validation.score == -validation.metrics["loss"]
