"""One process of a training in double precision; leaves its gradients and weights in a file.

python one_rank.py RECIPE WORKSPACE DTYPE OUTPUT [OVERRIDE ...], torchrun's variables set.
"""

import sys
from pathlib import Path

import torch
from safetensors.torch import save_file

from mtkit.data.prepared import open_prepared
from mtkit.model import EncoderDecoder
from mtkit.recipe import load_recipe
from mtkit.training.checkpoint import CheckpointFolder, TrainingState
from mtkit.training.distributed import join_processes, leave_processes
from mtkit.training.learner import Learner
from mtkit.training.loop import Trainer
from mtkit.training.objective import TranslationObjective
from mtkit.training.progress import ProgressView
from mtkit.training.validation import Validation
from mtkit.workspace import Workspace


def main(recipe_file: str, workspace: str, dtype: str, output: str, *overrides: str) -> None:
    recipe = load_recipe(recipe_file, overrides)
    data = open_prepared(recipe, Workspace(Path(workspace)))
    processes = join_processes("cpu")
    torch.manual_seed(recipe.seed)
    vocab_size = data.tokenizer.source_vocab_size
    model = EncoderDecoder(recipe.model, vocab_size, vocab_size).to(getattr(torch, dtype))
    names = ("loss", "nll", "perplexity", "bleu", "chrf")
    Trainer(
        recipe=recipe,
        objective=TranslationObjective(model, data, recipe, processes.device),
        learner=Learner.of(model, recipe),
        processes=processes,
        checkpoints=CheckpointFolder(Path(output) / "checkpoints"),
        validate=lambda: Validation(0.0, dict.fromkeys(names, 0.0), []),
        metrics=None,
        view=ProgressView(1, is_shown=False),
        data_digest="",
    ).run(TrainingState())
    tensors = {f"weight.{name}": weight.detach() for name, weight in model.named_parameters()}
    tensors |= {
        f"gradient.{name}": weight.grad.clone() for name, weight in model.named_parameters()
    }
    save_file(tensors, Path(output) / f"rank{processes.rank}.safetensors")
    leave_processes(processes, has_ended=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
