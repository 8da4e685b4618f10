"""LoRA = its formula (arXiv 2106.09685, section 4.1), and peft's on the same network."""

from pathlib import Path

import pytest
import torch
from torch import nn

from mtkit.model.folder import load_model_folder
from mtkit.model.parameters import find_maps, list_adapted, list_learned_shapes
from mtkit.model.transformers_names import Counterpart, list_translator_counterparts
from mtkit.network import PaddedLayout
from mtkit.network.low_rank import AdaptedLinear
from mtkit.pipeline.import_model import import_model
from mtkit.recipe.lora import Lora
from mtkit.text.token_ids import BOS
from mtkit.training.learner import freeze
from mtkit.training.whole_weights import adapt

from ..public_models import ENGLISH, GERMAN, make_marian

MAPS = ("query", "key", "value", "output", "feed-forward")


def test_the_formula_and_its_gradients() -> None:
    torch.manual_seed(1)
    linear = nn.Linear(5, 9).double()
    rows = {"query": (0, 3), "value": (6, 9)}
    adapted = AdaptedLinear(linear, rows, rank=2, scale=1.5).double()
    inputs, direction = torch.randn(4, 5).double(), torch.randn(4, 9).double()
    # As in the paper, it begins as the map itself.
    assert torch.equal(adapted(inputs), linear(inputs))
    weight = linear.weight.detach().clone()
    for name, (first, last) in rows.items():
        pair = adapted.low_rank[name]
        nn.init.normal_(pair.up)
        weight[first:last] += 1.5 * pair.up.detach() @ pair.down.detach()
    outputs = adapted(inputs)
    torch.testing.assert_close(outputs, inputs @ weight.T + linear.bias, rtol=0, atol=1e-12)
    outputs.backward(direction)
    # By hand: what reaches W is direction^T inputs; up * down passes it on.
    of_weight = direction.T @ inputs
    for name, (first, last) in rows.items():
        pair, part = adapted.low_rank[name], of_weight[first:last]
        torch.testing.assert_close(pair.up.grad, 1.5 * part @ pair.down.T, rtol=0, atol=1e-12)
        torch.testing.assert_close(pair.down.grad, 1.5 * pair.up.T @ part, rtol=0, atol=1e-12)
    before = adapted.weight.detach().clone()
    with adapted.merged(), torch.no_grad():
        torch.testing.assert_close(adapted(inputs), outputs, rtol=0, atol=1e-12)
        torch.testing.assert_close(adapted.weight, weight, rtol=0, atol=1e-12)
    assert torch.equal(adapted.weight, before)


# It asks transformers for what will have another name.
@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated:FutureWarning")
@pytest.mark.parametrize("maps", [("query", "value"), MAPS])
def test_outputs_and_gradients_are_pefts(tmp_path: Path, maps) -> None:
    peft = pytest.importorskip("peft")
    theirs = make_marian(tmp_path / "opus-mt-en-de")
    import_model(str(theirs.folder), tmp_path / "imported")
    loaded = load_model_folder(tmp_path / "imported")
    lora = Lora(rank=3, alpha=12.0, maps=maps)
    names = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "out_proj"}
    targets = [names[each] for each in maps if each in names]
    targets += ["fc1", "fc2"] if "feed-forward" in maps else []
    torch.manual_seed(1)
    settings = peft.LoraConfig(r=3, lora_alpha=12, target_modules=targets, init_lora_weights=False)
    twin = peft.get_peft_model(theirs.model, settings).double().train()
    adapt(loaded.model, loaded.config, lora)
    freeze(loaded.model, (), lora)
    ours = loaded.translator.double()
    pairs = dict(_list_pairs(loaded.config, lora))
    weights = dict(twin.named_parameters())
    mine = {name: weight for name, weight in ours.named_parameters() if weight.requires_grad}
    assert len(pairs) == len(mine)
    assert {name for name, weight in weights.items() if weight.requires_grad} == {*pairs.values()}
    with torch.no_grad():
        for name, other in pairs.items():
            mine[name].copy_(weights[other])
    tokenizer = loaded.tokenizer
    source = torch.tensor(tokenizer.encode_source(ENGLISH[:1]))
    target = torch.tensor([[BOS, *tokenizer.encode_target(GERMAN[:1])[0]]])
    rows = _list_rows(tokenizer.source_vocabulary.pieces, theirs)
    for part in (ours.source_embedding, ours.target_embedding):
        part.dropout.rate = 0.0
    found = ours.project(
        ours(
            source,
            PaddedLayout.without_padding(source),
            target,
            PaddedLayout.without_padding(target),
        )
    )
    theirs_found = twin.eval()(input_ids=rows[source], decoder_input_ids=rows[target]).logits
    # Theirs by our ids; the first tokens are special, and hidden ones differ on purpose.
    columns = [token for token in range(4, found.shape[-1]) if found[0, 0, token] > -100]
    ours_kept, theirs_kept = found[..., columns], theirs_found[..., rows[columns]]
    # Sinusoids were rounded to 32 bits in different orders.
    torch.testing.assert_close(ours_kept, theirs_kept, rtol=0, atol=1e-4)
    direction = torch.randn(ours_kept.shape, generator=torch.Generator().manual_seed(2)).double()
    (ours_kept * direction).sum().backward()
    (theirs_kept * direction).sum().backward()
    for name, other in pairs.items():
        expected = weights[other].grad
        scale = expected.abs().max()
        torch.testing.assert_close(mine[name].grad / scale, expected / scale, rtol=0, atol=1e-4)


def _list_pairs(config, lora: Lora):
    """Yields the names of each low-rank matrix: ours, and peft's."""
    counterparts: dict[str, Counterpart] = {
        one.origin: one for one in list_translator_counterparts(config)
    }
    shapes = config.list_shapes()
    for weight in list_adapted(shapes, config.model, lora):
        for each, name in zip(
            find_maps(weight, config.model), counterparts[weight].names, strict=True
        ):
            for ours, theirs in (("down", "A"), ("up", "B")):
                own = f"{weight.removesuffix('.weight')}.low_rank.{each}.{ours}"
                if own in list_learned_shapes(shapes, config.model, lora):
                    stem = name.removesuffix(".weight")
                    yield own, f"base_model.model.{stem}.lora_{theirs}.default.weight"


def _list_rows(pieces, theirs) -> torch.Tensor:
    encoder = theirs.tokenizer.encoder
    return torch.tensor([encoder[{"<s>": "<pad>"}.get(piece, piece)] for piece in pieces])
