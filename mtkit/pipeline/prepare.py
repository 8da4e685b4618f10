"""Entry point of `mtkit prepare`; refuses to replace the data of a run's checkpoints.

The models that select text run in PyTorch, which is loaded only for them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mtkit.console import open_console, report, say, warn
from mtkit.data.check import check_recipe_data as look_at_data
from mtkit.data.preparation.report_table import show_report
from mtkit.data.prepare import list_changed_files
from mtkit.data.prepare import prepare as prepare_data
from mtkit.data.prepared import read_digest
from mtkit.data.selection.language_models import damaged_weights
from mtkit.errors import MtkitError, suggest
from mtkit.executor import WorkerNeeds
from mtkit.inference.engines.engine import Engine
from mtkit.inference.predict_text import predict_text
from mtkit.model.config import open_model_folder
from mtkit.model.digest import digest_model, reading
from mtkit.pipeline.choose_executor import choose_executor
from mtkit.pipeline.line_teacher import one_thread
from mtkit.pipeline.teacher_runs import Run
from mtkit.pipeline.teachers import ModelTeachers, estimate_needs
from mtkit.recipe import Recipe
from mtkit.recipe.corpora import list_translated
from mtkit.recipe.inference import Inference
from mtkit.text.languages import find_main_code
from mtkit.text.tokenizer import SubwordTokenizer
from mtkit.workspace import Workspace


def prepare(recipe: Recipe, workspace: Workspace, *, num_workers: int | None = None) -> None:
    """Writes tokenizer, tokenised training data and the development set to `workspace.data`.

    The data of an earlier `prepare` are replaced only once everything is done. `num_workers` clean
    and tokenise, by default one per available CPU.
    """
    models = open_language_models(recipe)
    _check_runs(Run(recipe, workspace))
    if recipe.cluster is not None:
        # The same folder on every node.
        workspace = Workspace(workspace.root.absolute())
    executor = choose_executor(recipe.cluster, workspace.root, num_workers)
    teachers = ModelTeachers(recipe, workspace.root)
    check, perhaps = None, list[str]()
    if workspace.has_checkpoints:
        check, perhaps = check_checkpoints(Run(recipe, workspace))
    if perhaps:
        say(
            f"{'; '.join(perhaps)}: the data are prepared again, and replaced only if they are the "
            "same, since there are checkpoints"
        )
    prepare_data(
        recipe, workspace, executor=executor, check=check, models=models, teachers=teachers
    )


def _check_runs(run: Run) -> None:
    """Checks the runs of translators: no two share a workspace, which has no other recipe's run."""
    teachers = ModelTeachers(run.recipe, run.workspace.root)
    needed = run.collect_teachers()
    if not all(map(teachers.keeps_translations, list_translated(run.recipe.data.train))):
        for each in needed:
            if each.workspace.has_checkpoints:
                check_checkpoints(each)


def check_checkpoints(run: Run) -> tuple[Callable[[str], None], list[str]]:
    """Checks that a run's checkpoints are of its recipe, as far as keys and files show.

    Returns:
        A check of the prepared data's digest, and phrases on files that may have changed.
    """
    # Imported here: they load torch, which takes two seconds and isn't needed in a first prepare.
    from mtkit.training.checkpoint import check_same_run, describe_recipe  # noqa: PLC0415
    from mtkit.training.checkpoint_folder import CheckpointFolder  # noqa: PLC0415

    saved = CheckpointFolder(run.workspace.checkpoints).list()
    tables = describe_recipe(run.recipe)
    changed: list[str] = []
    perhaps: list[str] = []
    if saved and read_digest(run.workspace) == saved[-1].data_digest:
        changed, perhaps = list_changed_files(run.recipe.data, run.workspace)
    check_same_run(tables, None, saved, changed)
    return lambda digest: check_same_run(tables, digest, saved), perhaps


def check_data_and_print(
    recipe: Recipe, workspace: Workspace, *, num_workers: int | None = None
) -> bool:
    """Prints what preparing a recipe's data would do, and writes nothing.

    Returns:
        Whether `prepare` would run without errors.
    """
    if workspace.has_checkpoints:
        check_checkpoints(Run(recipe, workspace))
    models = open_language_models(recipe)
    executor = choose_executor(None, workspace.root, num_workers)
    _check_runs(Run(recipe, workspace))
    teachers = ModelTeachers(recipe, workspace.root)
    found = look_at_data(recipe, executor=executor, models=models, teachers=teachers)
    if found.report is not None:
        show_report(found.report, found.sections, open_console(), is_check=True)
    if found.report is not None and found.report.epoch is not None:
        say(
            f"the data would take about {found.num_bytes / 1e6:,.0f} MB of disk; tokens and "
            "updates are estimates"
        )
    for fault in found.faults:
        report(fault)
    waits = any(
        teachers.are_trained_first(each) and not teachers.keeps_translations(each)
        for each in list_translated(recipe.data.train)
    )
    if not found.faults and waits:
        say("check passed: `mtkit run` can start; it trains the translators of corpora first")
    elif not found.faults:
        say("check passed: `mtkit prepare` can run")
    return not found.faults


def open_language_models(recipe: Recipe) -> "TorchLanguageModels | None":
    """Returns what runs the models that select a recipe's text; None if none do."""
    return None if recipe.data.cleaning.selection is None else TorchLanguageModels()


_SETTINGS = Inference(precision="fp32", processes=1)
_BATCH_TOKENS = 2_048
"""Tokens with padding per pass on a CPU: more don't stay in its cache."""
_BATCH_TOKENS_ON_GPU = 65_536
_MAX_CONTEXT_TOKENS = 1_024
"""A longer line is measured in parts of this many tokens."""


@dataclass(frozen=True)
class TorchLanguageModels:
    """Opens causal language models and classifiers, in fp32; see `LanguageModels`."""

    device: str = "auto"

    def check(self, folder: Path, language: str) -> None:
        """Checks that a folder holds a causal language model; warns if its language is another."""
        _check_folder(folder)
        with reading(folder):
            config = open_model_folder(folder).config
            if config.objective != "causal-lm":
                kinds = {"translation": "a translator", "masked-lm": "a masked language model"}
                raise MtkitError(
                    f"{folder}: {kinds.get(config.objective, config.objective)}, but "
                    "data.cleaning.selection needs a causal language model",
                    'train one: objective = "causal-lm"',
                )
            log_probabilities, _ = self.open(folder)(["a"])
        if not np.isfinite(log_probabilities).all():
            raise damaged_weights(folder)
        found = config.target_language
        if find_main_code(found) != find_main_code(language) and "mul" not in (found, language):
            warn(
                f"data.cleaning.selection: {folder} is a model of language {found}, and the text "
                f"that it measures is {language}"
            )

    def digest(self, folder: Path) -> str:
        """Returns a digest of the files in a model folder that determine its outputs."""
        # `check` reports a missing folder.
        return digest_model(folder) if folder.is_dir() else ""

    def open(self, folder: Path) -> "TorchLineScorer":
        """Returns a scorer of lines with the model in a folder."""
        return TorchLineScorer(folder, self.device)

    def check_classifier(self, folder: Path, label: str) -> None:
        """Checks that a folder holds a classifier of pairs that knows a label."""
        _check_folder(folder)
        # Imported here: without a selection, preparing needs no torch.
        from mtkit.inference.classify import require_classifier  # noqa: PLC0415

        with reading(folder):
            classifier = require_classifier(folder, open_model_folder(folder).config)
        if not classifier.has_pairs:
            raise MtkitError(
                f"{folder}: a classifier of single texts, but data.cleaning.selection needs one of "
                "pairs",
                "train one on corpora with `planted_faults`",
            )
        if label not in classifier.labels:
            raise MtkitError(
                f"{folder}: has no label '{label}' (data.cleaning.selection.label)"
                f"{suggest(label, classifier.labels)}",
                f"its labels are {', '.join(classifier.labels)}",
            )
        if not np.isfinite(self.open_classifier(folder, label)(["a"], ["a"])).all():
            raise damaged_weights(folder)

    def open_classifier(self, folder: Path, label: str) -> "TorchPairJudge":
        """Returns a scorer of pairs with the classifier in a folder."""
        return TorchPairJudge(folder, label, self.device)

    def needs(self, folders: Sequence[Path]) -> WorkerNeeds:
        """Returns what a worker with all these models needs."""
        return estimate_needs(folders, self.device)


class TorchLineScorer:
    """Scores lines with a causal language model, each line independently.

    On a CPU it uses one thread, so that a line's probability is the same in any process.
    """

    def __init__(self, folder: Path, device: str) -> None:
        # Imported here: without a selection, preparing needs no torch.
        from mtkit.inference.engines.open_engine import open_engine  # noqa: PLC0415
        from mtkit.network.device import find_device  # noqa: PLC0415

        self._tokenizer = SubwordTokenizer.load(folder)
        self._engine: Engine = open_engine([folder], _SETTINGS, device)
        is_processor = find_device(device).type == "cpu"
        self._batch_tokens = _BATCH_TOKENS if is_processor else _BATCH_TOKENS_ON_GPU

    def __call__(self, lines: Sequence[str]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Returns the natural log-probability of each non-blank line, and its number of tokens.

        Both include `</s>`. A line longer than the model's positions, or than 1,024 tokens, is
        measured in parts.
        """
        with one_thread():
            found = predict_text(
                self._engine,
                self._tokenizer,
                lines,
                np.arange(len(lines)),
                context_tokens=min(
                    self._engine.max_tokens or _MAX_CONTEXT_TOKENS, _MAX_CONTEXT_TOKENS
                ),
                batch_tokens=self._batch_tokens,
            )
        return found.log_probabilities, found.num_tokens


class TorchPairJudge:
    """Scores pairs with a classifier by the label to keep; on a CPU with one thread."""

    def __init__(self, folder: Path, label: str, device: str) -> None:
        # Imported here: without a selection, preparing needs no torch.
        from mtkit.inference.classify import LineClassifier  # noqa: PLC0415

        settings = _SETTINGS.model_copy(update={"batch_tokens": _BATCH_TOKENS})
        self._classifier = LineClassifier(folder, device=device, settings=settings)
        self._label = label

    def __call__(self, sources: Sequence[str], targets: Sequence[str]) -> NDArray[np.float64]:
        """Returns the probability that each pair has another label, [pairs]."""
        with one_thread():
            labelled = self._classifier.classify(sources, targets)
        return np.array([1.0 - each.probabilities[self._label] for each in labelled])


def _check_folder(folder: Path) -> None:
    if not folder.is_dir():
        raise MtkitError(
            f"{folder}: no such folder (data.cleaning.selection)",
            "name the model/ folder of a run; paths in a recipe are relative to data.data_root",
        )
