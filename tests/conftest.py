"""What every test shares: shapes in signatures are checked while tests run; a tiny run."""

import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest
from jaxtyping import install_import_hook

if TYPE_CHECKING:
    from mtkit.recipe import Recipe
    from mtkit.workspace import Workspace

# Before any test imports mtkit, since a module is only rewritten while it is loaded.
install_import_hook(["mtkit.model", "mtkit.inference.search"], "beartype.beartype")

# A busy machine is no fault of the code.
hypothesis.settings.register_profile("mtkit", deadline=None)
hypothesis.settings.load_profile("mtkit")

# The datasets library reads these once, when it is first imported, and would write to ~/.cache.
_CACHE = tempfile.TemporaryDirectory(prefix="mtkit-test-cache-")
os.environ |= {
    "HF_HOME": _CACHE.name,
    "HF_HUB_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
}
# Set in many continuous integrations; rich would colour what tests read.
for _name in ("FORCE_COLOR", "TTY_COMPATIBLE", "CLICOLOR_FORCE"):
    os.environ.pop(_name, None)

RECIPE = """\
name = "tiny"
[data]
source_language = "en"
target_language = "de"
[[data.train]]
builtin = "phrasebook"
sentences = 300
[data.dev]
builtin = "phrasebook"
sentences = 20
[tokenizer]
vocab_size = 400
[model]
num_encoder_layers = 2
num_decoder_layers = 1
d_model = 16
d_ff = 32
num_heads = 2
dropout = 0.2
attention_dropout = 0.1
activation_dropout = 0.1
[training]
max_steps = 12
batch_tokens = 600
length_groups = 2
micro_batch_tokens = 256
checkpoint_every = 5
log_every = 2
schedule = { kind = "inverse-sqrt", peak = 3e-3, warmup_steps = 5 }
[inference]
beam_size = 2
max_extra_tokens = 2
[[evaluation.test_sets]]
name = "held-out"
builtin = "phrasebook"
sentences = 10
"""
"""A run that takes a second or two: 12 updates of a tiny model, with all kinds of dropout."""


@dataclass(frozen=True)
class TinyRun:
    """A prepared workspace of the tiny recipe, to be trained here or by the command.

    Attributes:
        recipe: The recipe, overrides applied.
        workspace: Where its data lie.
        options: What makes the `mtkit` command come to the same.
    """

    recipe: "Recipe"
    workspace: "Workspace"
    options: list[str]

    def train(self) -> bool:
        """Trains in this process, as `mtkit train` does."""
        from mtkit.training.train import train

        return train(self.recipe, self.workspace, device="cpu")

    def command(self, name: str, *options: str) -> list[str]:
        """Returns a command line of mtkit for this run."""
        return [sys.executable, "-m", "mtkit", name, *self.options, *options]

    def weights(self) -> dict[str, bytes]:
        """Returns the files of the last checkpoint that hold numbers, by name."""
        last = max(self.workspace.checkpoints.glob("step-*"))
        return {path.name: path.read_bytes() for path in sorted(last.glob("*.safetensors"))}


@pytest.fixture(scope="session")
def _prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from mtkit.data.prepare import prepare
    from mtkit.recipe import load_recipe
    from mtkit.workspace import Workspace

    folder = tmp_path_factory.mktemp("tiny")
    (folder / "tiny.toml").write_text(RECIPE)
    prepare(load_recipe(str(folder / "tiny.toml")), Workspace(folder / "prepared"))
    return folder


@pytest.fixture
def tiny_run(_prepared: Path, tmp_path: Path) -> Callable[..., TinyRun]:
    """A function that returns a fresh run: `tiny_run("training.max_steps=3", name="other")`."""
    from mtkit.recipe import load_recipe
    from mtkit.workspace import Workspace

    def make(*overrides: str, name: str = "run") -> TinyRun:
        root = tmp_path / name
        if not root.exists():
            shutil.copytree(_prepared / "prepared", root)
        recipe_file = str(_prepared / "tiny.toml")
        options = ["--recipe", recipe_file, "--workspace", str(root)]
        for override in overrides:
            options += ["--set", override]
        return TinyRun(load_recipe(recipe_file, overrides), Workspace(root), options)

    return make
