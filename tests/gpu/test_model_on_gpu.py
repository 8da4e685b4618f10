"""The network on a CUDA device computes what it computes on a CPU."""

import copy
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from mtkit.data.batches.collate import TranslationBatch, lay_out, pack
from mtkit.data.batches.ragged import Ragged
from mtkit.network import EncoderDecoder, PaddedLayout
from mtkit.network.cache import DecoderCache
from mtkit.network.sublayers import Dropout
from mtkit.recipe.model import Model
from mtkit.recipe.precision import TrainingPrecision
from mtkit.text.token_ids import EOS
from mtkit.training.loss import measure_translation
from mtkit.training.precision import WorkingCopy

from ..padded import pad_pairs

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device, found none"),
]

VOCAB_SIZE = 53
KINDS = {
    "post": {},
    "pre": {"norm": "pre", "activation": "swiglu", "positions": "learned"},
    "wide values": {"d_key": 8, "d_value": 24},
}
of_every_kind = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture(autouse=True)
def full_fp32() -> Iterator[None]:
    """TF32 rounds products to 10 bits, which is no fault of ours."""
    precision = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    yield
    torch.set_float32_matmul_precision(precision)


def _build(kind: str) -> EncoderDecoder:
    torch.manual_seed(17)
    sizes = {"num_encoder_layers": 2, "num_decoder_layers": 2, "d_model": 64, "d_ff": 128}
    section = Model(**{**sizes, "num_heads": 4, "dropout": 0.0, **KINDS[kind]})
    return EncoderDecoder(section, VOCAB_SIZE, VOCAB_SIZE)


def _inputs() -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(18)
    is_token = torch.arange(9) < torch.tensor([9, 3, 6, 7])[:, None]
    return torch.randint(VOCAB_SIZE, (4, 9)), is_token, torch.randint(VOCAB_SIZE, (4, 8))


def _read(model: EncoderDecoder, source: Tensor, source_is_token: Tensor, target: Tensor) -> Tensor:
    layouts = PaddedLayout(source_is_token), PaddedLayout.without_padding(target)
    return model(source, layouts[0], target, layouts[1])


def _assert_close(on_gpu: Tensor, on_cpu: Tensor, share: float, what: str) -> None:
    largest = max(1.0, on_cpu.abs().max().item())
    difference = (on_gpu.cpu().float() - on_cpu).abs().max().item()
    assert difference <= share * largest, f"{what}: {difference:.2e} of {largest:.2e}"


@of_every_kind
def test_logits_and_gradients_are_the_cpu_s(kind: str) -> None:
    on_cpu = _build(kind)
    on_gpu = copy.deepcopy(on_cpu).cuda()
    inputs = _inputs()

    logits = {}
    for name, model in (("cpu", on_cpu), ("cuda", on_gpu)):
        logits[name] = model.project(_read(model, *(part.to(name) for part in inputs)))
        logits[name].logsumexp(dim=-1).sum().backward()

    _assert_close(logits["cuda"].detach(), logits["cpu"].detach(), 1e-4, "logits")
    gradients = dict(on_gpu.named_parameters())
    for name, parameter in on_cpu.named_parameters():
        _assert_close(gradients[name].grad, parameter.grad, 1e-4, name)


@of_every_kind
def test_bf16_autocast_stays_near_fp32(kind: str) -> None:
    on_cpu = _build(kind).eval()
    on_gpu = copy.deepcopy(on_cpu).cuda()
    inputs = _inputs()

    with torch.no_grad(), torch.autocast("cuda", dtype=torch.bfloat16):
        on_gpu_inputs = [part.cuda() for part in inputs]
        logits = on_gpu.project(_read(on_gpu, *on_gpu_inputs))
    with torch.no_grad():
        expected = on_cpu.project(_read(on_cpu, *inputs))

    assert logits.dtype == torch.bfloat16
    # bf16 keeps 8 bits: a rounding is 2^-9, and some twenty follow each other.
    _assert_close(logits, expected, 0.05, "logits")


@of_every_kind
@torch.no_grad()
def test_cached_decoding_is_the_uncached_forward_pass(kind: str) -> None:
    model = _build(kind).cuda().eval()
    source_tokens, is_token, _ = (part.cuda() for part in _inputs())
    sentences = torch.arange(4, device="cuda").repeat_interleave(2)
    prefix = torch.empty(4, 2, 0, dtype=torch.long, device="cuda")
    cache = model.start(source_tokens, PaddedLayout(is_token))
    cache.select([0, 1, 2, 3], torch.zeros(4, 2, dtype=torch.long, device="cuda"))
    for parents in ([[0, 1]] * 4, [[1, 0], [0, 0], [1, 1], [1, 0]], [[0, 0], [1, 0]] * 2):
        tokens = torch.randint(VOCAB_SIZE, (4, 2, 1), device="cuda")
        prefix = torch.cat((prefix, tokens), dim=2)
        logits = model.step(tokens[:, :, 0], cache)
        states = _read(model, source_tokens[sentences], is_token[sentences], prefix.flatten(0, 1))
        expected = model.project(states)[:, -1].view(4, 2, -1)
        torch.testing.assert_close(logits, expected, rtol=0, atol=1e-4)
        chosen = torch.tensor(parents, device="cuda")
        cache.select([0, 1, 2, 3], chosen)
        prefix = prefix.gather(1, chosen[:, :, None].expand(-1, -1, prefix.shape[2]))


@torch.no_grad()
def test_positions_past_the_initial_table_grow_on_the_device() -> None:
    model = _build("post").cuda().eval()
    tokens = torch.zeros(1, 400, dtype=torch.long, device="cuda")
    embedded = model.source_embedding(tokens, PaddedLayout.without_padding(tokens))
    assert embedded.shape == (1, 400, 64)
    assert model.source_embedding.positions.table.device.type == "cuda"


def test_dropout_zeroes_its_share_and_scales_up_the_rest() -> None:
    torch.manual_seed(19)
    inputs = torch.ones(1000, 1000, device="cuda", requires_grad=True)
    dropped = Dropout(0.3)(inputs)
    # Five standard deviations of a million coins.
    assert (dropped == 0).double().mean().item() == pytest.approx(0.3, abs=0.0023)
    assert dropped.max().item() == pytest.approx(1 / 0.7, rel=1e-6)
    dropped.sum().backward()
    torch.testing.assert_close(inputs.grad, dropped.detach())


@pytest.mark.parametrize("window", [None, 2])
@pytest.mark.parametrize(
    ("precision", "unit"), [("fp32", 2**-18), ("bf16", 2**-9), ("fp16", 2**-12)]
)
def test_packed_sentences_are_the_padded_ones(
    precision: TrainingPrecision, unit: float, window: int | None
) -> None:
    torch.manual_seed(20)
    sizes = {"num_encoder_layers": 2, "num_decoder_layers": 2, "d_model": 64, "d_ff": 128}
    # A ReLU whose input is nearly 0 may take the other side: that isn't a rounding.
    section = Model(**sizes, num_heads=4, dropout=0.0, attention_window=window, activation="gelu")
    on_cpu = EncoderDecoder(section, VOCAB_SIZE, VOCAB_SIZE)
    on_gpu = WorkingCopy(copy.deepcopy(on_cpu).cuda(), precision).model
    lengths = torch.randint(1, 40, (2, 50)).tolist()
    sides = [
        Ragged.of([[*torch.randint(4, VOCAB_SIZE, (n,)).tolist(), EOS] for n in side])
        for side in lengths
    ]
    outcomes = []

    def in_grids(source: Ragged, target: Ragged) -> TranslationBatch:
        return lay_out(source, target, [30, 20], row_step=64)

    for model, make in (
        (on_cpu, pad_pairs),
        (on_gpu, pad_pairs),
        (on_gpu, in_grids),
        (on_gpu, lambda source, target: pack(source, target, [5] * 10)),
    ):
        model.zero_grad(set_to_none=True)
        device = next(model.parameters()).device
        sums = measure_translation(model, make(*sides).to(device), label_smoothing=0.1)
        sums.loss.backward()
        gradients = [weight.grad.float().cpu().flatten() for weight in model.parameters()]
        outcomes.append((sums.loss.item(), torch.cat(gradients)))
    (loss, gradient), padded, grids, packed = outcomes
    assert packed[0] == pytest.approx(loss, rel=unit)
    assert packed[0] == pytest.approx(padded[0], rel=unit)
    assert grids[0] == pytest.approx(loss, rel=unit)
    # Roundings, as in tests/equivalence/test_bfloat16.py.
    assert (packed[1] - gradient).norm() <= 16 * unit * gradient.norm()
    assert (grids[1] - gradient).norm() <= 16 * unit * gradient.norm()


@pytest.mark.parametrize("kind", ["post", "pre"])
@pytest.mark.parametrize("layout", ["padded", "grids", "packed"])
def test_each_tensor_s_gradient_in_bf16_keeps_its_digits_over_a_thousand_sentences(
    kind: str, layout: str
) -> None:
    # A kernel that rounds a row's sum after every use would be half off in the first positions.
    model = _build(kind).cuda()
    working = WorkingCopy(model, "bf16")
    sides = []
    for _ in range(2):
        rows = torch.randint(4, VOCAB_SIZE, (1_600, 20))
        rows[:, ::2] = 7
        sides.append(Ragged.of([[*row, EOS] for row in rows.tolist()]))
    make = {
        "padded": pad_pairs,
        "grids": lambda source, target: lay_out(source, target, [1_000, 600], row_step=64),
        "packed": lambda source, target: pack(source, target, [8] * 200),
    }[layout]
    gradients = {}
    for name, network, batch in (
        ("fp32", model, pad_pairs(*sides)),
        ("bf16", working.model, make(*sides)),
    ):
        model.zero_grad(set_to_none=True)
        measure_translation(network, batch.to(torch.device("cuda")), label_smoothing=0.1)[
            0
        ].backward()
        working.accumulate_gradients()
        gradients[name] = {key: weight.grad for key, weight in model.named_parameters()}
    for key, expected in gradients["fp32"].items():
        difference = (gradients["bf16"][key] - expected).norm() / expected.norm()
        assert difference <= 16 * 2**-9, f"{key}: {difference:.3f}"


def test_no_attention_goes_to_cudnn_which_plans_for_every_shape() -> None:
    model = WorkingCopy(_build("post").cuda(), "bf16").model
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        for length in (5, 6, 9, 14):
            tokens = torch.randint(4, VOCAB_SIZE, (3, length), device="cuda")
            is_token = torch.arange(length, device="cuda") < torch.tensor(
                [[length], [3], [length - 1]], device="cuda"
            )
            states = _read(model, tokens, is_token, tokens)
            model.project(states).float().logsumexp(dim=-1).sum().backward()
            with torch.no_grad():
                cache = model.start(tokens, PaddedLayout(is_token))
                for _ in range(3):
                    model.step(tokens[:, :1], cache)
    names = {event.key for event in profile.key_averages()}
    assert not {name for name in names if "cudnn" in name and "attention" in name}
    assert {name for name in names if "efficient_attention" in name}
    assert {name for name in names if "flash_attention" in name}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("num_sentences", "beam"), [(1, 3), (5, 3), (2, 5)])
@torch.no_grad()
def test_a_search_with_restricted_attention_reads_no_misaligned_mask(
    dtype: torch.dtype, num_sentences: int, beam: int
) -> None:
    torch.manual_seed(24)
    sizes = {"num_encoder_layers": 1, "num_decoder_layers": 2, "d_model": 64, "d_ff": 128}
    section = Model(**sizes, num_heads=4, dropout=0.0, attention_window=4)
    on_cpu = EncoderDecoder(section, VOCAB_SIZE, VOCAB_SIZE).eval()
    on_gpu = copy.deepcopy(on_cpu).to("cuda", dtype)
    source = torch.randint(4, VOCAB_SIZE, (num_sentences, 11))
    is_token = torch.ones_like(source, dtype=torch.bool)
    caches: list[DecoderCache] = [
        on_cpu.start(source, PaddedLayout(is_token)),
        on_gpu.start(source.cuda(), PaddedLayout(is_token.cuda())),
    ]
    share = 1e-4 if dtype == torch.float32 else 0.05
    for _ in range(40):
        width = caches[0].is_ancestor.shape[1]
        tokens = torch.randint(4, VOCAB_SIZE, (num_sentences, width))
        expected = on_cpu.step(tokens, caches[0])
        found = on_gpu.step(tokens.cuda(), caches[1])
        _assert_close(found, expected, share, "logits")
        parents = torch.randint(width, (num_sentences, beam))
        for cache, device in zip(caches, ("cpu", "cuda"), strict=True):
            cache.select(range(num_sentences), parents.to(device))
