import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mtkit.errors import MtkitError
from mtkit.inference.engines import open_torch_engine, torch_engine
from mtkit.inference.engines.engine import EncodedSource, find_limit, search_in_batches
from mtkit.inference.engines.open_torch_engine import choose_precision
from mtkit.inference.engines.torch_engine import TorchEngine, pad
from mtkit.network.cpu.quantized import QuantizedLinear
from mtkit.network.projecting import copy_in
from mtkit.recipe.inference import Inference, LengthPenalty, Sampling
from mtkit.recipe.model import Model
from mtkit.text.token_ids import EOS, PAD


def encoded(sources: list[list[int]]) -> list[EncodedSource]:
    return [EncodedSource(source) for source in sources]


_SOURCES = [[7, 8, 9, EOS], [5, EOS], [10, 11, EOS]]


def test_as_many_hypotheses_as_are_wanted(make_recipe, make_model):
    engine = TorchEngine(make_model(make_recipe()), "cpu")
    for beam_size in (1, 3):
        settings = Inference(beam_size=beam_size, n_best=beam_size, max_extra_tokens=5)
        found = engine.search(encoded(_SOURCES), settings)
        assert [len(hypotheses) for hypotheses in found] == [beam_size] * 3
        for hypotheses in found:
            scores = [hypothesis.score for hypothesis in hypotheses]
            assert scores == sorted(scores, reverse=True)


def test_greedy_search_is_chosen_whatever_the_penalty(make_recipe, make_model):
    engine = TorchEngine(make_model(make_recipe()), "cpu")
    found = [
        engine.search(
            encoded(_SOURCES), Inference(beam_size=1, length_penalty=LengthPenalty(alpha=alpha))
        )
        for alpha in (0.0, 2.0)
    ]
    plain, penalised = [[h.token_ids for (h,) in outputs] for outputs in found]
    assert plain == penalised


@pytest.mark.parametrize("beam_size", [1, 2])
def test_the_limit_is_the_sources_own_length_and_a_few_more(make_recipe, make_model, beam_size):
    model = make_model(make_recipe())
    with torch.no_grad():
        # An output never ends where </s> is the least likely token by far.
        model.output_embedding.weight[EOS] = 0.0
        model.decoder.layers[-1].feed_forward_norm.weight.zero_()
        model.decoder.layers[-1].feed_forward_norm.bias.copy_(model.output_embedding.weight[6] * 50)
    found = TorchEngine(model, "cpu").search(
        encoded(_SOURCES), Inference(beam_size=beam_size, max_extra_tokens=2)
    )
    assert [len(hypotheses[0].token_ids) for hypotheses in found] == [6, 4, 5]
    assert all(hypotheses[0].reached_limit for hypotheses in found)


def test_learned_positions_bound_source_and_output(make_recipe, make_model):
    model = make_model(make_recipe(positions="learned", max_positions=5))
    engine = TorchEngine(model, "cpu")
    assert engine.max_tokens == 5
    found = engine.search(
        encoded([[7, 8, 9, 10, EOS]]), Inference(beam_size=4, max_extra_tokens=50)
    )
    assert max(len(hypothesis.token_ids) for hypothesis in found[0]) <= 5
    assert TorchEngine(make_model(make_recipe()), "cpu").max_tokens is None


def test_the_mode_of_each_part_is_as_it_was(make_recipe, make_model):
    model = make_model(make_recipe(dropout=0.5)).train()
    model.encoder.eval()
    before = {name: part.training for name, part in model.named_modules()}
    engine = TorchEngine(model, "cpu")
    first, second = (
        engine.search(encoded(_SOURCES), Inference(max_extra_tokens=5)) for _ in range(2)
    )
    # No dropout: the same twice.
    assert first == second
    assert {name: part.training for name, part in model.named_modules()} == before


def test_the_mode_is_restored_after_a_failure_too(make_recipe, make_model, monkeypatch):
    model = make_model(make_recipe()).train()

    def run_out(*_):
        raise MemoryError

    monkeypatch.setattr(model.decoder, "start", run_out)
    with pytest.raises(MemoryError):
        TorchEngine(model, "cpu").search(encoded([[7, 8, 9, EOS]]), Inference())
    assert all(part.training for part in model.modules())


def test_what_is_longer_than_the_positions_is_refused(make_recipe, make_model):
    engine = TorchEngine(make_model(make_recipe(positions="learned", max_positions=4)), "cpu")
    for source in (EncodedSource([7, 8, 9, 10, EOS]), EncodedSource([7, EOS], prefix=(5, 6, 7, 8))):
        with pytest.raises(MtkitError, match="of 5 tokens, but the model has only 4 positions"):
            engine.search([source], Inference())


def test_a_table_of_positions_that_grew_while_searching_can_still_be_trained_with(
    make_recipe, make_model
):
    model = make_model(make_recipe())
    source = [*([7] * 299), EOS]
    TorchEngine(model, "cpu").search(encoded([source]), Inference(beam_size=1, max_extra_tokens=0))
    table = model.source_embedding.positions.table
    assert table.shape[0] >= 300
    # As distributed training does when it makes every process's buffers the same.
    table.add_(0.0)


def test_a_given_output_scores_what_its_search_found(make_recipe, make_model):
    engine = TorchEngine(make_model(make_recipe()), "cpu")
    found = [
        hypotheses[0]
        for hypotheses in engine.search(encoded(_SOURCES), Inference(max_extra_tokens=5))
    ]
    scores = engine.score(_SOURCES, [hypothesis.token_ids for hypothesis in found])
    for hypothesis, scored in zip(found, scores, strict=True):
        assert scored == pytest.approx(hypothesis.token_log_probabilities, abs=1e-5)
        assert sum(scored) == pytest.approx(hypothesis.log_probability, abs=1e-5)


def test_a_narrow_network_is_not_put_into_bf16_on_a_cpu(monkeypatch):
    monkeypatch.setattr(open_torch_engine, "choose_fastest_precision", lambda device: "bf16")
    cpu, narrow, wide = torch.device("cpu"), Model(d_model=128), Model(d_model=512)
    assert choose_precision(Inference(), cpu, narrow) == "fp32"
    assert choose_precision(Inference(), cpu, wide) == "bf16"
    assert choose_precision(Inference(), torch.device("cuda"), narrow) == "bf16"
    assert choose_precision(Inference(precision="bf16"), cpu, narrow) == "bf16"
    monkeypatch.setattr(open_torch_engine, "choose_fastest_precision", lambda device: "fp32")
    assert choose_precision(Inference(), cpu, wide) == "fp32"


def test_eight_bits_are_for_a_cpu() -> None:
    assert choose_precision(Inference(precision="int8"), torch.device("cpu"), Model()) == "int8"
    with pytest.raises(MtkitError, match=r"int8. isn.t supported on cuda") as raised:
        choose_precision(Inference(precision="int8"), torch.device("cuda"), Model())
    assert raised.value.hint == "--device cpu, or --set inference.precision=auto"


def test_eight_bits_do_not_depend_on_a_batch(make_recipe, make_model):
    settings = Inference(beam_size=3, n_best=3, max_extra_tokens=5, precision="int8")
    ready = open_torch_engine.make_ready(make_model(make_recipe()), settings, torch.device("cpu"))
    assert any(isinstance(part, QuantizedLinear) for part in ready.modules())
    engine = TorchEngine(ready, "cpu")
    together = engine.search(encoded(_SOURCES), settings)
    for source, hypotheses in zip(_SOURCES, together, strict=True):
        (alone,) = engine.search(encoded([source]), settings)
        assert [h.token_ids for h in alone] == [h.token_ids for h in hypotheses]
        for one, other in zip(alone, hypotheses, strict=True):
            assert one.log_probability == pytest.approx(other.log_probability, abs=1e-4)
    plain = TorchEngine(make_model(make_recipe()), "cpu")
    for source, hypotheses in zip(_SOURCES, together, strict=True):
        (scores,) = plain.score([source], [hypotheses[0].token_ids])
        assert sum(scores) == pytest.approx(hypotheses[0].log_probability, abs=0.3)


def test_a_cpu_without_the_engine_is_told(make_recipe, make_model, monkeypatch, capsys) -> None:
    monkeypatch.setattr(open_torch_engine, "choose_library", lambda: None)
    settings = Inference(precision="int8")
    open_torch_engine.make_ready(make_model(make_recipe()), settings, torch.device("cpu"))
    assert capsys.readouterr().err == (
        "warning: no int8 kernel is compiled for this CPU: int8 saves no time here "
        "(inference.precision)\n"
    )


@pytest.mark.parametrize("coverage_penalty", [0.0, 0.3])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_network_made_ready_finds_the_same(
    make_recipe, make_model, precision: str, coverage_penalty: float
) -> None:
    settings = Inference(
        beam_size=3,
        n_best=3,
        max_extra_tokens=5,
        precision=precision,
        coverage_penalty=coverage_penalty,
    )
    model = make_model(make_recipe())
    plain = copy_in(model, torch.bfloat16) if precision == "bf16" else model
    expected = TorchEngine(plain, "cpu").search(encoded(_SOURCES), settings)
    ready = open_torch_engine.make_ready(make_model(make_recipe()), settings, torch.device("cpu"))
    found = TorchEngine(ready, "cpu").search(encoded(_SOURCES), settings)
    for ours, theirs in zip(found, expected, strict=True):
        assert [h.token_ids for h in ours] == [h.token_ids for h in theirs]


def test_callers_in_threads_search_one_batch_after_the_other(make_recipe, make_model, monkeypatch):
    engine = TorchEngine(make_model(make_recipe()), "cpu")
    settings = Inference(beam_size=2, max_extra_tokens=3, batch_tokens=16)
    sources = [EncodedSource([*range(4, 4 + length), EOS]) for length in range(1, 8)]
    expected = search_in_batches(engine, sources, settings)
    at_work, seen = 0, []
    search = torch_engine.beam_search

    def watch(*arguments, **options):
        nonlocal at_work
        at_work += 1
        seen.append((threading.get_ident(), at_work))
        time.sleep(0.005)
        found = search(*arguments, **options)
        at_work -= 1
        return found

    monkeypatch.setattr(torch_engine, "beam_search", watch)
    with ThreadPoolExecutor(3) as threads:
        calls = [threads.submit(search_in_batches, engine, sources, settings) for _ in range(3)]
        for call in calls:
            for ours, theirs in zip(call.result(), expected, strict=True):
                assert [each.token_ids for each in ours] == [each.token_ids for each in theirs]
                # Sums of PyTorch's products may differ in the last bit, by where memory begins.
                assert [each.score for each in ours] == pytest.approx(
                    [each.score for each in theirs], abs=1e-5
                )
    assert {count for _, count in seen} == {1}
    # Batches of one caller don't wait for all of another's.
    callers = [caller for caller, _ in seen]
    assert callers != sorted(callers, key=callers.index)


def test_two_sentences_written_out():
    tokens, layout = pad([[7, 8, EOS], [9, EOS]])
    assert tokens.tolist() == [[7, 8, EOS], [9, EOS, PAD]]
    assert layout.is_token.tolist() == [[True, True, True], [True, True, False]]
    assert tokens.dtype == torch.int64
    assert layout.to(torch.device("cpu")).is_token is layout.is_token


@given(st.lists(st.lists(st.integers(4, 99), min_size=1, max_size=9), min_size=1, max_size=9))
def test_padding_leaves_every_sentence_as_it_was(sentences):
    tokens, layout = pad(sentences)
    is_token = layout.is_token
    assert [row[real].tolist() for row, real in zip(tokens, is_token, strict=True)] == sentences
    assert (tokens[~is_token] == PAD).all()
    assert tokens.shape == (len(sentences), max(map(len, sentences)))


def _contains(tokens: tuple[int, ...], phrase: tuple[int, ...]) -> bool:
    starts = range(len(tokens) - len(phrase) + 1)
    return any(tokens[start : start + len(phrase)] == phrase for start in starts)


@pytest.mark.parametrize("beam_size", [1, 3])
def test_outputs_contain_what_their_source_asks_for(make_recipe, make_model, beam_size):
    engine = TorchEngine(make_model(make_recipe()), "cpu")
    settings = Inference(beam_size=beam_size, n_best=beam_size, max_output_tokens=3)
    phrases = ((11, 12, 13), (14,))
    sources = [EncodedSource(_SOURCES[0], required=phrases), EncodedSource(_SOURCES[1])]
    first, second = engine.search(sources, settings)
    assert first
    for each in first:
        # Longer than the limit, as a prefix may be.
        assert all(_contains(each.token_ids, phrase) for phrase in phrases)
    (alone,) = engine.search(sources[1:], settings)
    assert [each.token_ids for each in second] == [each.token_ids for each in alone]
    (plain,) = engine.search(encoded(_SOURCES[:1]), settings)
    banned = plain[0].token_ids[:1]
    (other,) = engine.search([EncodedSource(_SOURCES[0], forbidden=(banned,))], settings)
    assert not any(set(banned) & set(each.token_ids) for each in other)


def test_samples_can_t_be_made_to_contain_phrases(make_recipe, make_model):
    engine = TorchEngine(make_model(make_recipe()), "cpu")
    source = EncodedSource(_SOURCES[0], required=((11,),))
    with pytest.raises(MtkitError, match=r"not inference\.sampling"):
        engine.search([source], Inference(sampling=Sampling()))


def test_a_least_length_beyond_the_usual_limit_is_reached() -> None:
    settings = Inference(min_length=500, max_extra_tokens=10)
    assert find_limit(EncodedSource([5, 6, 3]), settings, None) == 511
    assert find_limit(EncodedSource([5, 6, 3]), settings, 300) == 300
