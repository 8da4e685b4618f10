"""Frozen parts: named by hand, and bitwise the same after a real training."""

import pytest
import torch
from safetensors.torch import load_file

from mtkit.errors import MtkitError
from mtkit.network import EncoderDecoder
from mtkit.recipe.model import Model
from mtkit.recipe.training import Adam
from mtkit.training.learner import build_optimizer, freeze
from mtkit.training.train import is_trained


def build(**settings) -> EncoderDecoder:
    shape = {"num_encoder_layers": 1, "num_decoder_layers": 1, "d_model": 4, "d_ff": 8}
    torch.manual_seed(1)
    return EncoderDecoder(Model(**{**shape, "num_heads": 2, **settings}), 10, 10)


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize(
    ("tied", "embeddings"),
    [
        ("three-way", {"source_embedding.tokens.weight"}),
        ("decoder", {"source_embedding.tokens.weight", "target_embedding.tokens.weight"}),
        # The output projection is a matrix of its own, and learns.
        ("none", {"source_embedding.tokens.weight", "target_embedding.tokens.weight"}),
    ],
)
def test_which_weights_a_part_has(norm: str, tied: str, embeddings: set[str]) -> None:
    positions = {"source_embedding.positions.weight", "target_embedding.positions.weight"}
    for part, count in (("embeddings", 0), ("encoder", 12), ("decoder", 20)):
        model = build(norm=norm, tied_embeddings=tied, positions="learned")
        freeze(model, [part])
        frozen = {name for name, w in model.named_parameters() if not w.requires_grad}
        if part == "embeddings":
            assert frozen == embeddings | positions
        else:
            # 12 weights and biases in an encoder layer, 20 in a decoder layer; a norm after it.
            assert len(frozen) == count + (2 if norm == "pre" else 0)
            assert all(name.startswith(f"{part}.") for name in frozen)


def test_adam_has_what_learns() -> None:
    model = build()
    freeze(model, ["encoder", "decoder"])
    optimizer = build_optimizer(model, Adam())
    assert [len(group["params"]) for group in optimizer.param_groups] == [1, 0]
    model.output_embedding.weight.grad = torch.ones(10, 4)
    optimizer.step()
    freeze(model, [])
    assert all(weight.requires_grad for weight in model.parameters())


def weights_after(run) -> list[dict[str, torch.Tensor]]:
    folders = sorted(run.workspace.checkpoints.glob("step-*"))
    return [load_file(folder / "model.safetensors") for folder in folders]


@pytest.mark.parametrize("parts", [["embeddings"], ["encoder"], ["decoder", "embeddings"]])
def test_frozen_weights_stay_and_the_others_learn(tiny_run, parts: list[str]) -> None:
    run = tiny_run(
        f"training.freeze={parts}", "training.max_steps=2", "training.checkpoint_every=1",
        "training.optimizer.weight_decay=0.1",
    )  # fmt: skip
    assert run.train()
    first, second = weights_after(run)
    torch.manual_seed(run.recipe.seed)
    start = dict(EncoderDecoder(run.recipe.model, 400, 400).named_parameters())
    prefixes = tuple(part.replace("embeddings", "source_embedding") for part in parts)
    for name, weight in second.items():
        is_frozen = name.startswith(prefixes)
        assert torch.equal(weight, first[name]) is is_frozen, name
        assert torch.equal(weight, start[name]) is is_frozen, name
    [last] = list(run.workspace.checkpoints.glob("step-*2"))
    moments = load_file(last / "optimizer.safetensors")
    learning = {name for name in second if not name.startswith(prefixes)}
    moments.pop("step")
    assert {name.split(".", 1)[1] for name in moments} == learning


def test_stopped_and_resumed_is_never_stopped(tiny_run) -> None:
    frozen = "training.freeze=['encoder']"
    whole = tiny_run(frozen, "training.max_steps=4", name="whole")
    whole.train()
    tiny_run(frozen, "training.max_steps=2").train()
    resumed = tiny_run(frozen, "training.max_steps=4")
    resumed.train()
    assert resumed.weights() == whole.weights()


def test_parts_may_be_frozen_and_thawed_under_way(tiny_run, capsys) -> None:
    tiny_run("training.freeze=['encoder']", "training.max_steps=2").train()
    thawed = tiny_run("training.freeze=['decoder']", "training.max_steps=4")
    assert not is_trained(thawed.recipe, thawed.workspace)
    assert thawed.train()
    assert 'training.freeze was ["encoder"], now ["decoder"]' in capsys.readouterr().err
    before, after = weights_after(thawed)
    assert {name for name in before if torch.equal(before[name], after[name])} == {
        name for name in before if name.startswith("decoder.")
    }
    again = tiny_run("training.max_steps=4")
    with pytest.raises(MtkitError, match=r'training\.freeze was \["decoder"\], now \[\]'):
        again.train()


def test_nothing_left_to_learn_is_refused(tiny_run) -> None:
    everything = "training.freeze=['decoder', 'embeddings', 'encoder']"
    with pytest.raises(MtkitError, match=r"training\.freeze lists every part") as caught:
        tiny_run(everything)
    assert "there is nothing left to train" in caught.value.message
    # Where the output projection is a matrix of its own, it learns.
    assert tiny_run(everything, "model.tied_embeddings=none").recipe
    with pytest.raises(MtkitError, match='expected "embeddings" or "encoder" or "decoder"'):
        tiny_run("training.freeze=['embedding']")
