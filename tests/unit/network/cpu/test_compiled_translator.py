import copy

import pytest
import torch

from mtkit.network import EncoderDecoder, PaddedLayout
from mtkit.network.cpu import compiled, compiled_translator
from mtkit.network.cpu.compiled import (
    KINDS,
    CompiledLinear,
    can_multiply,
    choose_library,
    describe_kernels,
    open_library,
)
from mtkit.network.cpu.compiled_translator import (
    CompiledSearch,
    CompiledTranslator,
    can_compile,
    is_compiled,
)
from mtkit.network.cpu.quantized import CompiledProduct, QuantizedLinear
from mtkit.recipe.model import Model

needs_library = pytest.mark.skipif(
    choose_library() is None, reason="mtkit was installed without a C++ compiler"
)


@pytest.fixture(params=KINDS)
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Has a kind of processor's library serve, on every one that has its instructions."""
    plain, opened = open_library("plain"), open_library(request.param)
    if plain is None or opened is None or not plain.mtkit_supports(request.param.encode()):
        pytest.skip(f"not compiled, or this processor lacks {request.param}")
    for module in (compiled, compiled_translator):
        monkeypatch.setattr(module, "choose_library", lambda: opened)
    return request.param


def _build(**keys: object) -> EncoderDecoder:
    section = {
        "num_encoder_layers": 2,
        "num_decoder_layers": 2,
        "d_model": 48,
        "d_ff": 70,
        "num_heads": 3,
        **keys,
    }
    torch.manual_seed(4)
    network = EncoderDecoder(Model(**section), 41, 41).eval()
    for name, weight in network.named_parameters():
        # Norms and biases from chance, too, or a wrong one would do no harm.
        if weight.dim() == 1:
            torch.nn.init.normal_(weight, mean=1.0 if "norm" in name else 0.0, std=0.3)
    return network


_LENGTHS = [9, 1, 33, 4, 16, 17]


def _draw_sources() -> tuple[list[torch.Tensor], torch.Tensor, PaddedLayout]:
    generator = torch.Generator().manual_seed(1)
    sources = [torch.randint(4, 41, (length,), generator=generator) for length in _LENGTHS]
    padded = torch.nn.utils.rnn.pad_sequence(sources, batch_first=True)
    return sources, padded, PaddedLayout(padded != 0)


def _starts(sources: list[torch.Tensor]) -> torch.Tensor:
    return torch.tensor([0, *(len(source) for source in sources)]).cumsum(0)


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"activation": "gelu", "positions": "learned", "max_positions": 64},
        {"activation": "gelu_tanh", "d_model": 46, "d_key": 5, "d_value": 7, "d_ff": 33},
        {"activation": "silu", "embedding_norm": True, "scale_embeddings": False},
        {"activation": "swiglu", "d_model": 64, "num_heads": 1, "output_bias": True},
    ],
    ids=lambda keys: keys.get("activation", "relu"),
)
def test_passes_are_those_of_the_network(library: str, norm: str, keys: dict) -> None:
    # Against the network itself, whose arithmetic is PyTorch's.
    network = _build(norm=norm, **keys)
    sources, padded, layout = _draw_sources()
    fast = copy.deepcopy(network)
    fast.compile_products("fp32")
    assert can_compile(fast.model)
    translator = CompiledTranslator(fast)
    targets = torch.randint(4, 41, (len(sources), 40), generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        expected_memory = network.encode(padded, layout)
        memory = translator.encode(torch.cat(sources), _starts(sources))
        torch.testing.assert_close(memory, expected_memory[layout.is_token], rtol=1e-5, atol=1e-5)
        cache = network.start(padded, layout)
        search = CompiledSearch(translator, memory, _starts(sources))
        # Longer than a vector has lanes, and than a block has slots.
        for step in range(40):
            tokens = targets[:, step : step + 1]
            expected = network.step(tokens, cache).log_softmax(dim=-1)
            torch.testing.assert_close(search.step(tokens), expected, rtol=1e-5, atol=2e-5)


def test_hypotheses_keep_their_own_past(library: str) -> None:
    network = _build(norm="pre")
    sources, padded, layout = _draw_sources()
    fast = copy.deepcopy(network)
    fast.compile_products("fp32")
    translator = CompiledTranslator(fast)
    draw = torch.Generator().manual_seed(3)
    kept, width = list(range(len(sources))), 1
    with torch.no_grad():
        cache = network.start(padded, layout)
        memory = translator.encode(torch.cat(sources), _starts(sources))
        search = CompiledSearch(translator, memory, _starts(sources))
        for step in range(24):
            tokens = torch.randint(4, 41, (len(kept), width), generator=draw)
            expected = network.step(tokens, cache).log_softmax(dim=-1)
            torch.testing.assert_close(search.step(tokens), expected, rtol=1e-5, atol=2e-5)
            new_width = 1 + (step * 2) % 5
            parents = torch.randint(0, width, (len(kept), new_width), generator=draw)
            rows = list(range(len(kept)))
            if step % 7 == 6:
                # A sentence ends, and the last one takes its row.
                rows = [len(kept) - 1, *rows[1 : len(kept) - 1]]
                parents = parents[rows]
            cache.select(rows, parents)
            search.select(rows, parents)
            kept, width = [kept[row] for row in rows], new_width


@pytest.mark.parametrize("precision", ["fp32", "bf16", "int8"])
def test_the_best_are_the_best_of_all(precision: str) -> None:
    network = _compile(_build(norm="pre"), precision)
    translator = CompiledTranslator(network)
    sources, _, _ = _draw_sources()
    memory = translator.encode(torch.cat(sources), _starts(sources))
    one, other = (CompiledSearch(translator, memory, _starts(sources)) for _ in range(2))
    tokens = torch.full((len(sources), 1), 1)
    all_of_first, best_of_first = (
        one.step(tokens),
        other.find_best(tokens, torch.zeros(len(sources), 1), 3, []),
    )
    assert torch.equal(best_of_first[0], all_of_first[:, 0].topk(3).values)
    parents = torch.zeros(len(sources), 3, dtype=torch.int64)
    for search in (one, other):
        search.select(list(range(len(sources))), parents)
    tokens, totals = best_of_first[1] % 41, best_of_first[0].contiguous()
    every = one.step(tokens)
    every[:, :, [0, 1, 5]] = -torch.inf
    expected = (every + totals[:, :, None]).view(len(sources), -1).topk(6)
    values, indices = other.find_best(tokens, totals, 6, [0, 1, 5])
    assert torch.equal(values, expected.values)
    assert torch.equal(indices, expected.indices)


def _compile(network: EncoderDecoder, precision: str) -> EncoderDecoder:
    if precision == "int8":
        network.quantize()
    elif not can_multiply(precision):
        pytest.skip(f"no compiled products in {precision} on this processor")
    else:
        network.compile_products(precision)
    if not is_compiled(network):
        pytest.skip("the compiled kernel isn't the one that this processor takes")
    return network


@needs_library
def test_of_equals_the_first_is_the_best() -> None:
    network = _build(norm="pre")
    with torch.no_grad():
        # Every token is as likely as any other.
        network.output_embedding.weight.copy_(network.output_embedding.weight[:1].expand(41, -1))
    network.compile_products("fp32")
    translator = CompiledTranslator(network)
    sources, _, _ = _draw_sources()
    memory = translator.encode(torch.cat(sources), _starts(sources))
    search = CompiledSearch(translator, memory, _starts(sources))
    search.select(list(range(len(sources))), torch.zeros(len(sources), 2, dtype=torch.int64))
    tokens = torch.full((len(sources), 2), 3)
    values, indices = search.find_best(tokens, torch.zeros(len(sources), 2), 45, [0, 2])
    kept = [token for token in range(41) if token not in (0, 2)]
    assert indices.tolist() == [[*kept, *(41 + token for token in kept[:6])]] * len(sources)
    assert (values == values[:, :1]).all()


def test_fewer_continuations_than_asked_for() -> None:
    translator = CompiledTranslator(_compile(_build(norm="pre"), "fp32"))
    source = torch.tensor([5, 6])
    search = CompiledSearch(
        translator, translator.encode(source, torch.tensor([0, 2])), torch.tensor([0, 2])
    )
    never = list(range(39))
    values, _ = search.find_best(torch.tensor([[1]]), torch.zeros(1, 1), 4, never)
    assert values.isfinite().tolist() == [[True, True, False, False]]
    assert (values[0, 2:] == -torch.inf).all()


@pytest.mark.parametrize("fault", [torch.nan, torch.inf])
def test_what_is_no_number_is_not_hidden(library: str, fault: float) -> None:
    network = _build(norm="post")
    with torch.no_grad():
        network.decoder.layers[1].feed_forward.output.bias[3] = fault
    network.compile_products("fp32")
    translator = CompiledTranslator(network)
    source = torch.tensor([5, 6])
    for ask in (
        lambda search: search.step(torch.tensor([[1]])),
        lambda search: search.find_best(torch.tensor([[1]]), torch.zeros(1, 1), 2, [0])[0],
    ):
        memory = translator.encode(source, torch.tensor([0, 2]))
        search = CompiledSearch(translator, memory, torch.tensor([0, 2]))
        assert ask(search).isnan().any()


@pytest.mark.parametrize("precision", ["fp32", "bf16", "int8"])
def test_a_sentence_does_not_depend_on_its_neighbours(precision: str) -> None:
    translator = CompiledTranslator(_compile(_build(norm="pre"), precision))
    sources, _, _ = _draw_sources()
    sources = sources * 20
    together = translator.encode(torch.cat(sources), _starts(sources))
    search = CompiledSearch(translator, together, _starts(sources))
    log_probs = search.step(torch.full((len(sources), 1), 1))
    for index in range(0, len(sources), 7):
        starts = torch.tensor([0, len(sources[index])])
        alone = translator.encode(sources[index], starts)
        first, end = _starts(sources)[index : index + 2].tolist()
        assert torch.equal(alone, together[first:end])
        found = CompiledSearch(translator, alone, starts).step(torch.full((1, 1), 1))
        assert torch.equal(found[0], log_probs[index])


def test_threads_change_nothing() -> None:
    translator = CompiledTranslator(_compile(_build(norm="pre", d_ff=2_048), "fp32"))
    sources, _, _ = _draw_sources()
    sources = sources * 20
    found = []
    before = torch.get_num_threads()
    for num_threads in (1, 2, 3):
        torch.set_num_threads(num_threads)
        try:
            memory = translator.encode(torch.cat(sources), _starts(sources))
            search = CompiledSearch(translator, memory, _starts(sources))
            found.append(search.step(torch.full((len(sources), 1), 1)))
        finally:
            torch.set_num_threads(before)
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


def test_attention_to_the_source_is_the_last_layers_mean(library: str) -> None:
    network = _build(norm="pre")
    sources, padded, layout = _draw_sources()
    fast = copy.deepcopy(network)
    fast.compile_products("fp32")
    translator = CompiledTranslator(fast)
    tokens = torch.full((len(sources), 1), 7)
    with torch.no_grad():
        cache = network.start(padded, layout)
        cache.keeps_attention = True
        network.step(tokens, cache)
    memory = translator.encode(torch.cat(sources), _starts(sources))
    search = CompiledSearch(translator, memory, _starts(sources), padded.shape[1])
    search.step(tokens)
    torch.testing.assert_close(
        search.source_attention()[0], cache.source_attention, rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("keys", [{"positions": "rotary"}, {"attention_window": 4}])
def test_networks_that_are_not_compiled(keys: dict) -> None:
    assert not can_compile(_build(norm="pre", **keys).model)


@pytest.mark.parametrize(("num_inputs", "num_outputs"), [(1, 1), (5, 33), (64, 64), (130, 31)])
def test_products_are_those_of_pytorch(library: str, num_inputs: int, num_outputs: int) -> None:
    generator = torch.Generator().manual_seed(num_inputs)
    weight = torch.randn(num_outputs, num_inputs, generator=generator)
    bias = torch.randn(num_outputs, generator=generator)
    rows = torch.randn(29, num_inputs, generator=generator)
    expected = rows.double() @ weight.double().T + bias
    with torch.no_grad():
        found = CompiledLinear(weight, bias)(rows)
        torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-5)
        if can_multiply("bf16"):
            rounded = rows.bfloat16().double() @ weight.bfloat16().double().T + bias
            found = CompiledLinear(weight, bias, "bf16")(rows)
            torch.testing.assert_close(found.double(), rounded, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("largest", [3.6e-37, 1.1e-37, 9e-38])
def test_tiny_rows_are_multiplied_in_8_bits(library: str, largest: float) -> None:
    del library
    # By hand: 127, -64 and 0 units times 127, 64 and 1.
    rows = torch.tensor([[largest, -largest * 64 / 127, 0.0]])
    with torch.no_grad():
        found = QuantizedLinear(torch.tensor([[127.0, 64.0, 1.0]]), kind=CompiledProduct)(rows)
    expected = torch.tensor([[(127 * 127 - 64 * 64) / 127 * largest]])
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=0.0)


def test_without_a_library_there_are_no_compiled_products(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(compiled, "FOLDER", tmp_path)
    assert open_library("plain") is None
    assert describe_kernels().startswith(f"none: {tmp_path}/plain.so is not compiled; install")
    (tmp_path / "plain.so").write_bytes(b"\x7fELF, but no library")
    assert open_library("plain") is None
    assert "plain.so is for another system or version" in describe_kernels()


@pytest.mark.parametrize("token", [-1, 41, 2**40])
def test_a_token_that_the_network_does_not_have_is_refused(token: int) -> None:
    translator = CompiledTranslator(_compile(_build(norm="pre"), "fp32"))
    starts = torch.tensor([0, 2])
    with pytest.raises(IndexError, match="no vector of"):
        translator.encode(torch.tensor([5, token]), starts)
    search = CompiledSearch(translator, translator.encode(torch.tensor([5, 6]), starts), starts)
    with pytest.raises(IndexError, match="no vector of"):
        search.step(torch.tensor([[token]]))


def test_memory_that_ends_is_told() -> None:
    translator = CompiledTranslator(_compile(_build(norm="pre"), "fp32"))
    starts = torch.tensor([0, 2])
    search = CompiledSearch(translator, translator.encode(torch.tensor([5, 6]), starts), starts)
    with pytest.raises(MemoryError, match="batch_tokens"):
        # More hypotheses than a vector of C++ holds; none of them is read.
        translator.library.mtkit_select(
            search.pointer, starts.data_ptr(), 2**62, starts.data_ptr(), 1
        )


@needs_library
def test_a_library_of_other_sources_is_not_loaded(monkeypatch, tmp_path) -> None:
    for path in compiled.FOLDER.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    monkeypatch.setattr(compiled, "FOLDER", tmp_path)
    assert open_library("plain") is not None
    fastest = describe_kernels()
    assert fastest in KINDS
    header = tmp_path / "network.h"
    header.write_bytes(header.read_bytes() + b"// changed since\n")
    assert open_library("plain") is None
    assert "plain.so is compiled from other sources" in describe_kernels()


@needs_library
def test_a_library_of_a_faster_kind_that_cannot_serve_is_reported(monkeypatch, tmp_path) -> None:
    fastest = describe_kernels()
    if fastest == "plain":
        pytest.skip("this processor has no faster kind")
    for path in compiled.FOLDER.iterdir():
        if path.name != f"{fastest}.so":
            (tmp_path / path.name).write_bytes(path.read_bytes())
    monkeypatch.setattr(compiled, "FOLDER", tmp_path)
    assert describe_kernels().startswith(f"plain: {tmp_path}/{fastest}.so is not compiled;")
