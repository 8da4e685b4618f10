import pytest
import torch
from torch import nn

import mtkit.training.precision as precision_module
from mtkit.recipe import load_recipe
from mtkit.training.distributed import ProcessGroup
from mtkit.training.precision import WorkingCopy, resolve_precision
from mtkit.training.update import Updater

CPU = torch.device("cpu")


@pytest.mark.parametrize("others_have_it", [False, True])
def test_auto_is_what_suits_every_process(monkeypatch, *, others_have_it: bool) -> None:
    monkeypatch.setattr(precision_module, "choose_fastest_precision", lambda device: "bf16")
    processes = ProcessGroup(0, 2, CPU)
    votes = []
    monkeypatch.setattr(
        ProcessGroup, "any", lambda _, is_so: votes.append(is_so) or is_so or not others_have_it
    )
    auto = load_recipe("phrasebook-en-de", ["training.precision=auto"]).training
    assert resolve_precision(auto.precision, processes) == ("bf16" if others_have_it else "fp32")
    # This one has it.
    assert votes == [False]
    named = load_recipe("phrasebook-en-de", ["training.precision=bf16"]).training
    assert resolve_precision(named.precision, processes) == "bf16"
    assert votes == [False]


def test_a_finished_run_is_finished_on_another_kind_of_machine_too(tiny_run, monkeypatch) -> None:
    run = tiny_run("training.precision=auto", "training.max_steps=2")
    monkeypatch.setattr(precision_module, "choose_fastest_precision", lambda device: "fp32")
    assert run.train()
    assert run.workspace.read_manifest()["train"]["precision"] == "fp32"
    # What is written down is what was asked for, so that the next machine chooses for itself.
    assert 'precision = "auto"' in run.workspace.recipe_file.read_text("utf-8")
    weights = run.weights()
    monkeypatch.setattr(precision_module, "choose_fastest_precision", lambda device: "bf16")
    assert run.train()
    assert run.weights() == weights
    longer = tiny_run("training.precision=auto", "training.max_steps=3")
    assert longer.train()
    assert longer.workspace.read_manifest()["train"]["precision"] == "bf16"


def test_tf32_is_set_for_the_training_alone_that_asks_for_it(tiny_run, monkeypatch) -> None:
    found = []
    products, make = torch.backends.cuda.matmul, Updater.make
    monkeypatch.setattr(
        Updater,
        "make",
        lambda *given, **named: found.append(products.allow_tf32) or make(*given, **named),
    )
    for value in ("true", "false"):
        assert tiny_run("training.max_steps=1", f"training.tf32={value}", name=value).train()
        assert products.allow_tf32 is False
    assert found == [True, False]


def test_in_fp32_the_copy_is_the_model() -> None:
    model = nn.Linear(2, 2)
    working = WorkingCopy(model, "fp32")
    assert working.model is model
    model(torch.ones(1, 2)).sum().backward()
    working.refresh()
    working.accumulate_gradients()
    assert model.weight.grad is not None


def test_the_copy_follows_the_model_rounded_to_eight_bits() -> None:
    model = nn.Linear(1, 1)
    working = WorkingCopy(model, "bf16")
    model.weight.data.fill_(1.0 + 2.0**-7 + 2.0**-9)
    working.refresh()
    # bfloat16 has 7 bits behind the point: the nearest of its numbers.
    assert working.model.weight.item() == 1.0 + 2.0**-7
    assert model.weight.item() == 1.0 + 2.0**-7 + 2.0**-9


def test_gradients_add_up_in_the_model_s_own_precision() -> None:
    model = nn.Linear(1, 1, bias=False)
    working = WorkingCopy(model, "bf16")
    for gradient in (1.0, 2.0**-10, 2.0**-10):
        working.model.weight.grad = torch.full((1, 1), gradient, dtype=torch.bfloat16)
        working.accumulate_gradients()
        assert working.model.weight.grad is None
    # In bfloat16 the sum would still be 1.
    assert model.weight.grad.item() == 1.0 + 2.0**-9
    assert model.weight.grad.dtype == torch.float32


def test_shared_and_frozen_weights_stay_so() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    model[1].weight = model[0].weight
    model[0].bias.requires_grad_(False)
    working = WorkingCopy(model, "bf16")
    assert working.model[1].weight is working.model[0].weight
    assert not working.model[0].bias.requires_grad
    working.model(torch.ones(1, 2, dtype=torch.bfloat16)).sum().backward()
    working.accumulate_gradients()
    assert model[0].bias.grad is None
    assert model[0].weight.grad is not None
