"""Entry point of `mtkit run`: all steps, from corpora to scores."""

import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from mtkit.console import open_console, say
from mtkit.data.preparation.held_out import check_unseen
from mtkit.data.preparation.note_languages import find_tagged_language
from mtkit.data.preparation.translate_corpora import check_lines
from mtkit.data.prepare import check_inputs, is_prepared
from mtkit.data.tokenizer_choice import TokenizerChoice
from mtkit.errors import MtkitError
from mtkit.evaluation.report.tables import (
    as_tab_separated,
    list_rows,
    show_table,
    warn_of_remarks,
)
from mtkit.pipeline.hardware import Hardware
from mtkit.pipeline.prepare import check_checkpoints, open_language_models, prepare
from mtkit.pipeline.score import check_named_files, score
from mtkit.pipeline.score_files import check_metric_folder
from mtkit.pipeline.teacher_runs import Run
from mtkit.pipeline.teachers import ModelTeachers
from mtkit.pipeline.train import train
from mtkit.pipeline.translation_files import TranslatedTestSet, TranslationFiles
from mtkit.recipe import Recipe
from mtkit.recipe.corpora import list_translated
from mtkit.training.averaging.average import is_averaged, update_model, warn_if_worse
from mtkit.training.averaging.model_record import ModelRecord
from mtkit.training.launch import check_gpus, is_worker
from mtkit.training.train import is_trained, is_trained_without_checkpoints
from mtkit.units import format_duration, spread_items
from mtkit.workspace import Workspace

_NUM_SAMPLES = 5
_MIN_SHOWN_SECONDS = 0.5


def run(recipe: Recipe, workspace: Workspace, *, hardware: Hardware, options: Sequence[str]) -> int:
    """Takes the recipe from corpora to a scored model, skipping what is up to date.

    A pipe or file on stdout gets the scores as `mtkit score` prints them.

    Returns:
        An exit code; not 0 if training stopped early, and then no later step was run.
    """
    if is_worker():
        raise MtkitError(
            "mtkit run: torchrun started this process, and several would write the same files",
            "run it without torchrun, which `--gpus N` starts itself; under torchrun only "
            "`mtkit train` works",
        )
    check_gpus(hardware.num_gpus)
    check_named_files(recipe.evaluation, recipe.inference)
    if recipe.training.validation.learned is not None:
        check_metric_folder(recipe.training.validation.learned)
    itself, times = Run(recipe, workspace), _Times()
    with times.measuring("translators of corpora"):
        code = _train_teachers(itself, hardware, options)
    if code:
        return code
    with times.measuring("prepare"):
        _prepare(itself)
    if is_trained_without_checkpoints(recipe, workspace):
        say(f"train: already finished; without its checkpoints {workspace.model} stays as it is")
    else:
        with times.measuring("train and average"):
            code = _make_model(itself, hardware, options)
        if code:
            return code
    if recipe.evaluation.test_sets:
        with times.measuring("translate and score"):
            _score(recipe, workspace, hardware)
    say(f"time: {times}")
    _show_use(recipe, workspace, options)
    return 0


class _Times:
    """The time of each step, for a summary."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}

    @contextmanager
    def measuring(self, step: str) -> Iterator[None]:
        """Measures the block."""
        began_at = time.monotonic()
        yield
        self._seconds[step] = time.monotonic() - began_at

    def __str__(self) -> str:
        measured = {**self._seconds, "all": sum(self._seconds.values())}
        return ", ".join(
            f"{step} {format_duration(seconds)}"
            for step, seconds in measured.items()
            if seconds >= _MIN_SHOWN_SECONDS or step == "all"
        )


def _score(recipe: Recipe, workspace: Workspace, hardware: Hardware) -> None:
    scored = score(recipe, workspace, device=hardware.device)
    rows = [row for each in scored for row in list_rows(each.evaluated, names_systems=False)]
    show_table(rows, open_console())
    if not sys.stdout.isatty():
        sys.stdout.write(as_tab_separated(rows))
        sys.stdout.flush()
    for each in scored:
        warn_of_remarks(each.evaluated, names_systems=False)
    for test_set in () if recipe.data.is_text else recipe.evaluation.test_sets:
        _show_samples(TranslationFiles(workspace, test_set.name).read())


def _prepare(run: Run) -> None:
    teachers = ModelTeachers(run.recipe, run.workspace.root)
    models = open_language_models(run.recipe)
    if is_prepared(run.recipe, run.workspace, models, teachers):
        say("prepare: up to date")
    else:
        prepare(run.recipe, run.workspace)


def _train_teachers(run: Run, hardware: Hardware, options: Sequence[str]) -> int:
    """Makes the models that a run's corpora need, unless up to date; returns an exit code."""
    needed = run.collect_teachers()
    if not needed:
        return 0
    recipe = run.recipe
    teachers = ModelTeachers(recipe, run.workspace.root)
    translated = list_translated(recipe.data.train)
    if all(map(teachers.keeps_translations, translated)):
        say("translated_by: this run has checkpoints, and keeps its translations")
        return 0
    # Reported now, not after hours of training.
    tests = recipe.evaluation.test_sets
    check_inputs(TokenizerChoice.of(recipe), tests)
    for corpus in translated:
        teachers.check(corpus, are_trained_first=True)
        check_lines(recipe.data, recipe.data.train.index(corpus), corpus)
    for each in (run, *needed):
        if each.workspace.has_checkpoints:
            check_checkpoints(each)
    for each in needed:
        place = each.workspace
        say(f"translated_by: training {each.recipe.name} in {place.root}")
        _prepare(each)
        if not place.model.is_dir():
            check_unseen(place, recipe.data, tests)
        if is_trained_without_checkpoints(each.recipe, place):
            continue
        own = ["--recipe", str(place.recipe_file), "--workspace", str(place.root)]
        code = _make_model(each, hardware, own, resume=options)
        if code:
            return code
    return 0


def _make_model(
    run: Run, hardware: Hardware, options: Sequence[str], *, resume: Sequence[str] = ()
) -> int:
    """Trains and averages unless up to date; returns an exit code.

    `resume` are the options of the `mtkit run` that resumes, where they are others.
    """
    recipe, workspace = run.recipe, run.workspace
    if is_trained(recipe, workspace):
        say("train: already finished")
    else:
        code = train(
            recipe,
            workspace,
            hardware=hardware,
            options=options,
            resume=["run", *(resume or options)],
        )
        if code:
            return code
    if is_averaged(recipe, workspace):
        say("average: up to date")
        warn_if_worse(recipe.training.averaging, workspace, options=options)
    else:
        update_model(recipe, workspace, device=hardware.device, options=options)
    return 0


def _show_use(recipe: Recipe, workspace: Workspace, options: Sequence[str]) -> None:
    """Prints where the model is, and how to use it."""
    record = ModelRecord.read(workspace)
    if record.steps:
        say(f"released: {record.describe_release()}")
    if recipe.objective == "masked-lm":
        say(f"the model is in {workspace.model}")
        return
    uses = {"causal-lm": "continue lines", "classification": "label lines"}
    use = "parse" if recipe.data.is_trees else uses.get(recipe.objective, "translate")
    say(f"the model is in {workspace.model}; to {use} with it:")
    tags = [corpus.tag for corpus in recipe.data.train if find_tagged_language(corpus)]
    line = f"{tags[0]} ..." if tags else "..."
    say(f'  echo "{line}" | ' + shlex.join(["mtkit", "translate", *options]))


def _show_samples(translation: TranslatedTestSet) -> None:
    """Prints sentences spread over a test set, with reference and translation."""
    count = len(translation.sources)
    num_samples = min(count, _NUM_SAMPLES)
    say(f"\n{translation.name}, {num_samples} of {count:,} sentences:")
    for index in spread_items(range(count), num_samples):
        say(f"  source      {translation.sources[index]}")
        say(f"  reference   {translation.references[0][index]}")
        say(f"  hypothesis  {translation.hypotheses[index]}\n")
