"""What every test shares: where shapes in signatures are checked; a tiny run."""

import gc
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import jaxtyping
import pytest
from jaxtyping import install_import_hook

from . import warm

if TYPE_CHECKING:
    from mtkit.child_processes import StartOptions
    from mtkit.recipe import Recipe
    from mtkit.workspace import Workspace

# As the command does: what is imported and collected stays, in millions of objects.
gc.set_threshold(50_000)

# Before any test imports mtkit, since a module is only rewritten while it is loaded.
install_import_hook(["mtkit.network", "mtkit.inference.search"], "beartype.beartype")

# A busy machine is no fault of the code. `--hypothesis-profile many` looks for longer.
hypothesis.settings.register_profile("many", deadline=None, max_examples=1_000)
hypothesis.settings.register_profile("mtkit", deadline=None, max_examples=30)
hypothesis.settings.load_profile("mtkit")

# Tests run on every core, so one thread each; networks this small gain nothing from more. With
# another number than its parent's a process of a test adds up in another order.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# The datasets library reads these once, when it is first imported, and would write to ~/.cache.
_CACHE = tempfile.TemporaryDirectory(prefix="mtkit-test-cache-")
os.environ |= {
    "HF_HOME": _CACHE.name,
    "HF_HUB_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
}
# Where no bytecode is written, as in most containers, each process that tests start would compile
# all of mtkit. Workers of pytest-xdist inherit what is set here.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# Set in many continuous integrations; rich would colour what tests read.
for _name in ("FORCE_COLOR", "TTY_COMPATIBLE", "CLICOLOR_FORCE"):
    os.environ.pop(_name, None)

# A shell starts what it puts into the background deaf to Ctrl-C, and that is inherited.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

TINY = Path(__file__).with_name("tiny.toml")

# Checked, whole trainings and translations take twice as long. These call all layers, losses and
# searches with shapes.
_CHECKED = tuple(
    TINY.parent / name
    for name in (
        "equivalence/test_cached_decoding.py",
        "equivalence/test_classifiers.py",
        "equivalence/test_decoder_only.py",
        "equivalence/test_guided_alignment.py",
        "equivalence/test_language_models.py",
        "equivalence/test_language_models_decoding.py",
        "equivalence/test_loss.py",
        "equivalence/test_low_rank.py",
        "equivalence/test_marian_model.py",
        "equivalence/test_padding.py",
        "equivalence/test_recorded_attention.py",
        "equivalence/test_restricted_attention.py",
        "equivalence/test_rotary.py",
        "equivalence/test_torch_transformer.py",
        "unit/inference",
        "unit/network",
    )
)
# PyTorch's engine, which that of C++ is held against, is checked by its own tests.
_UNCHECKED = (TINY.parent / "unit/inference/engines/test_native_engine.py",)


def pytest_configure(config: pytest.Config) -> None:
    """Starts the server of commands that the processes of pytest-xdist share."""
    if config.getoption("numprocesses", None) and not hasattr(config, "workerinput"):
        warm.start()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One more than there are CPUs, since tests wait for processes and clocks."""
    from mtkit.cpus import count_cpus

    return count_cpus() + 1


_AS_USERS = tuple(
    TINY.parent / name
    for name in (
        "end_to_end/test_prepare.py",
        "unit/data/phrasebook",
        "unit/training/test_curves.py",
        "unit/training/test_loop.py",
        "unit/training/test_metrics_log.py",
    )
)
_REPLACED = pytest.MonkeyPatch()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Decides for a test and its fixtures whether shapes are checked and time is saved."""
    is_checked = item.path not in _UNCHECKED and any(map(item.path.is_relative_to, _CHECKED))
    jaxtyping.config.update("jaxtyping_disable", not is_checked)
    _REPLACED.undo()
    if not any(map(item.path.is_relative_to, _AS_USERS)):
        warm.save_time(_REPLACED.setattr)
    if item.path.name != "test_executor.py":
        _REPLACED.setattr("mtkit.executor.prepare_start", _prepare_warm_start)


def _prepare_warm_start(module: str, **environment: str) -> "tuple[list[str], StartOptions]":
    """Lets workers of this process fork, as those of a command do; see warm.py."""
    from mtkit.child_processes import prepare_start

    command, options = prepare_start(module, **environment)
    return [warm.python(), *command[1:]], options


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts the longest first, so that no process is left with them at the end.

    The tests of a module stay together, since they share what it sets up.
    """
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


def pytest_collection_finish() -> None:
    """Leaves what was collected out of every later search for garbage."""
    gc.freeze()


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

    def train_once(self, kept: Path) -> None:
        """Trains, or takes over what this left in `kept` when an earlier test trained."""
        if kept.exists():
            shutil.rmtree(self.workspace.root)
            shutil.copytree(kept, self.workspace.root)
        else:
            assert self.train()
            shutil.copytree(self.workspace.root, kept)

    def command(self, name: str, *options: str) -> list[str]:
        """Returns a command line of mtkit for this run; see warm.py."""
        return [*warm.command(), name, *self.options, *options]

    def cold_command(self, name: str, *options: str) -> list[str]:
        """Returns one that starts Python, for tests of processes and of how they are started."""
        return [sys.executable, "-m", "mtkit", name, *self.options, *options]

    def weights(self) -> dict[str, bytes]:
        """Returns the files of the last checkpoint that hold numbers, by name."""
        last = max(self.workspace.checkpoints.glob("step-*"))
        return {path.name: path.read_bytes() for path in sorted(last.glob("*.safetensors"))}


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the run lies that was trained once for all tests of a module."""
    return tmp_path_factory.mktemp("kept") / "run"


@pytest.fixture(scope="session")
def _prepared_text(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    from mtkit.data.prepare import prepare as prepare_data
    from mtkit.recipe import load_recipe
    from mtkit.workspace import Workspace

    from .labelled_text import write_labelled
    from .phrasebook_text import write_text

    folders: dict[str, Path] = {}

    def prepare(name: str) -> Path:
        if name not in folders:
            folders[name] = folder = tmp_path_factory.mktemp(name)
            shutil.copy(TINY.with_name(f"{name}.toml"), folder / f"{name}.toml")
            (write_labelled if name == "tiny-classification" else write_text)(folder)
            recipe = load_recipe(str(folder / f"{name}.toml"))
            prepare_data(recipe, Workspace(folder / "prepared"))
        return folders[name]

    return prepare


@pytest.fixture(scope="session")
def _prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from mtkit.data.prepare import prepare
    from mtkit.recipe import load_recipe
    from mtkit.workspace import Workspace

    folder = tmp_path_factory.mktemp("tiny")
    shutil.copy(TINY, folder / "tiny.toml")
    prepare(load_recipe(str(folder / "tiny.toml")), Workspace(folder / "prepared"))
    return folder


@pytest.fixture
def tiny_run_of(
    _prepared: Path, _prepared_text: Callable[[str], Path], tmp_path: Path
) -> Callable[..., TinyRun]:
    """A function that returns a fresh run of an objective: `tiny_run_of("causal-lm", ...)`.

    `decoder-only` is translation by a decoder alone.
    """

    def make(objective: str, *overrides: str, name: str = "run") -> TinyRun:
        if objective == "decoder-only":
            overrides = ("model.architecture=decoder-only", *overrides)
            return _make_run(_prepared, "tiny", tmp_path / name, overrides)
        if objective == "translation":
            return _make_run(_prepared, "tiny", tmp_path / name, overrides)
        recipe = f"tiny-{objective.removesuffix('-lm')}"
        return _make_run(_prepared_text(recipe), recipe, tmp_path / name, overrides)

    return make


@pytest.fixture
def tiny_run(tiny_run_of: Callable[..., TinyRun]) -> Callable[..., TinyRun]:
    """A function that returns a fresh run: `tiny_run("training.max_steps=3", name="other")`."""
    return partial(tiny_run_of, "translation")


def _make_run(prepared: Path, recipe: str, root: Path, overrides: tuple[str, ...]) -> TinyRun:
    from mtkit.recipe import load_recipe
    from mtkit.workspace import Workspace

    if not root.exists():
        shutil.copytree(prepared / "prepared", root)
    recipe_file = str(prepared / f"{recipe}.toml")
    options = ["--recipe", recipe_file, "--workspace", str(root)]
    for override in overrides:
        options += ["--set", override]
    return TinyRun(load_recipe(recipe_file, overrides), Workspace(root), options)
