import pytest
import torch

from mtkit.network import EncoderDecoder, PaddedLayout
from mtkit.recipe.model import Model

SOURCE_VOCAB_SIZE, TARGET_VOCAB_SIZE = 11, 13


def _build(**keys: object) -> EncoderDecoder:
    torch.manual_seed(15)
    sizes = {"num_encoder_layers": 1, "num_decoder_layers": 2, "d_model": 16, "d_ff": 24}
    section = Model(**{**sizes, "num_heads": 2, **keys})
    is_shared = section.tied_embeddings == "three-way"
    return EncoderDecoder(
        section, TARGET_VOCAB_SIZE if is_shared else SOURCE_VOCAB_SIZE, TARGET_VOCAB_SIZE
    )


def _read(model: EncoderDecoder, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    layouts = map(PaddedLayout.without_padding, (source, target))
    return model(source, next(layouts), target, next(layouts))


def _matrices(model: EncoderDecoder) -> tuple[torch.nn.Parameter, ...]:
    return (
        model.source_embedding.tokens.weight,
        model.target_embedding.tokens.weight,
        model.output_embedding.weight,
    )


def test_three_way_ties_share_one_matrix() -> None:
    source, target, output = _matrices(_build(tied_embeddings="three-way"))
    assert source is target is output
    assert source.shape == (TARGET_VOCAB_SIZE, 16)


def test_decoder_ties_share_target_and_output() -> None:
    source, target, output = _matrices(_build(tied_embeddings="decoder"))
    assert target is output
    assert source is not target
    assert source.shape == (SOURCE_VOCAB_SIZE, 16)
    assert target.shape == (TARGET_VOCAB_SIZE, 16)


def test_no_ties_share_nothing() -> None:
    source, target, output = _matrices(_build(tied_embeddings="none"))
    assert len({id(source), id(target), id(output)}) == 3
    assert source.shape == (SOURCE_VOCAB_SIZE, 16)
    assert target.shape == output.shape == (TARGET_VOCAB_SIZE, 16)


@pytest.mark.parametrize("tied_embeddings", ["three-way", "decoder", "none"])
def test_every_parameter_learns(tied_embeddings: str) -> None:
    model = _build(tied_embeddings=tied_embeddings, positions="learned", max_positions=5)
    source_tokens = torch.randint(SOURCE_VOCAB_SIZE, (3, 5))
    target_tokens = torch.randint(TARGET_VOCAB_SIZE, (3, 5))
    states = _read(model, source_tokens, target_tokens)
    model.project(states).log_softmax(dim=-1)[..., 1].sum().backward()
    idle = [name for name, weights in model.named_parameters() if not weights.grad.any()]
    assert idle == []


def test_two_vocabularies_of_unequal_size_cannot_share_a_matrix() -> None:
    with pytest.raises(AssertionError):
        EncoderDecoder(Model(d_model=16, num_heads=2), 11, 13)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_a_later_target_token_leaves_earlier_outputs_the_same(norm: str) -> None:
    model = _build(norm=norm).eval()
    source_tokens = torch.randint(TARGET_VOCAB_SIZE, (2, 6))
    target_tokens = torch.randint(TARGET_VOCAB_SIZE, (2, 5))
    changed = target_tokens.clone()
    changed[:, 3] = (changed[:, 3] + 1) % TARGET_VOCAB_SIZE
    with torch.no_grad():
        before = _read(model, source_tokens, target_tokens)
        after = _read(model, source_tokens, changed)
    torch.testing.assert_close(after[:, :3], before[:, :3], rtol=0, atol=1e-6)
    assert (after[:, 3:] - before[:, 3:]).abs().amax(dim=-1).gt(1e-3).all()


def test_logits_are_plain_products_with_the_target_s_matrix() -> None:
    model = _build(tied_embeddings="decoder")
    states = torch.randn(2, 3, 16)
    logits = model.project(states)
    assert logits.shape == (2, 3, TARGET_VOCAB_SIZE)
    # The embedding's sqrt(d_model) belongs to the way in (arXiv 1706.03762, section 3.4).
    expected = sum(
        states[1, 2, place] * model.output_embedding.weight[7, place] for place in range(16)
    )
    torch.testing.assert_close(logits[1, 2, 7], expected)


def test_encoding_is_what_the_decoder_reads() -> None:
    model = _build().eval()
    source_tokens = torch.randint(TARGET_VOCAB_SIZE, (2, 4))
    target_tokens = torch.randint(TARGET_VOCAB_SIZE, (2, 3))
    source, target = map(PaddedLayout.without_padding, (source_tokens, target_tokens))
    with torch.no_grad():
        memory = model.encode(source_tokens, source)
        embedded = model.target_embedding(target_tokens, target)
        states = model.decoder(embedded, target, memory, source)
        assert torch.equal(model(source_tokens, source, target_tokens, target), states)


def test_learned_positions_are_the_source_s_and_the_target_s_own() -> None:
    model = _build(positions="learned", max_positions=7)
    source, target = model.source_embedding.positions, model.target_embedding.positions
    assert source.weight is not target.weight
    assert source.weight.shape == target.weight.shape == (7, 16)


def test_saved_weights_bring_back_the_model() -> None:
    model = _build().eval()
    twin = _build()
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter.zero_()
    twin.load_state_dict(model.state_dict())
    twin.eval()
    inputs = (
        torch.randint(TARGET_VOCAB_SIZE, (2, 4)),
        torch.randint(TARGET_VOCAB_SIZE, (2, 3)),
    )
    assert torch.equal(_read(twin, *inputs), _read(model, *inputs))
    assert _matrices(twin)[0] is _matrices(twin)[2]


@pytest.mark.parametrize("positions", ["sinusoidal", "rotary"])
def test_a_source_s_cache_is_what_it_has_alone(positions: str) -> None:
    model = _build(positions=positions).double().eval()
    sources = [torch.tensor([4, 5, 6, 7, 8, 3]), torch.tensor([9, 3]), torch.tensor([10, 4, 5, 3])]
    padded = torch.nn.utils.rnn.pad_sequence(sources, batch_first=True)
    with torch.no_grad():
        together = model.start(padded, PaddedLayout(padded != 0))
        for row, source in enumerate(sources):
            alone = model.start(source[None], PaddedLayout.without_padding(source[None]))
            for ours, theirs in zip(together.layers, alone.layers, strict=True):
                for name in ("source_keys", "source_values"):
                    found = getattr(ours, name)[row, :, : len(source)]
                    expected = getattr(theirs, name)[0]
                    torch.testing.assert_close(found, expected, rtol=0.0, atol=1e-12)
    assert together.source_is_token.tolist() == (padded != 0).tolist()
