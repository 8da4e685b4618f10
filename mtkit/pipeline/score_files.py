"""Scores files of translations against references: no recipe, no workspace, no torch."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count, takewhile
from pathlib import Path

from mtkit.console import say
from mtkit.data.sources.lines import read_lines
from mtkit.data.sources.published import read_published
from mtkit.errors import MtkitError
from mtkit.evaluation.evaluate import (
    EvaluatedTestSet,
    ReferenceText,
    check_counts,
    evaluate,
    rate,
)
from mtkit.evaluation.learned import LearnedMetric, measure_learned
from mtkit.paths import as_text
from mtkit.recipe import PROJECT_RECIPE, load_recipe
from mtkit.recipe.evaluation import Evaluation
from mtkit.recipe.override_section import override_section
from mtkit.text.trees.brackets import read_trees, write_tree


@dataclass(frozen=True)
class ScoredText:
    """Systems on one test set, and its text; `target_language` is empty if unknown."""

    evaluated: EvaluatedTestSet
    systems: Mapping[str, Sequence[str]]
    text: ReferenceText
    target_language: str = ""


@dataclass(frozen=True)
class Scoring:
    """Settings for scoring files of translations; languages are empty if unknown."""

    settings: Evaluation
    source_language: str = ""
    target_language: str = ""


def load_scoring(recipe: str, overrides: Sequence[str]) -> Scoring:
    """Returns a recipe's scoring settings, or the defaults without a recipe.

    An empty `recipe` means `./mtkit.toml`, if that exists. Without a recipe `overrides` are only of
    `evaluation`.
    """
    if recipe or PROJECT_RECIPE.is_file():
        loaded = load_recipe(recipe, overrides)
        language = loaded.evaluation.language or loaded.data.target_language
        return Scoring(loaded.evaluation, loaded.data.source_language, language)
    settings = override_section(Evaluation(), "evaluation", overrides)
    return Scoring(settings, target_language=settings.language)


def score_files(
    hypotheses: Sequence[Path],
    scoring: Scoring,
    *,
    references: Sequence[Path] = (),
    source: Path | None = None,
    test_set: str = "",
    models: Sequence[str] = (),
    device: str = "auto",
) -> ScoredText:
    """Returns the scores of files of translations, and differences from the first system.

    Args:
        hypotheses: One file per system; one translation per line.
        models: Further systems that translate the source: values of `--model`.
        device: Where models translate.
        scoring: Scoring settings.
        references: Files with one reference per line.
        source: The source sentences, if available.
        test_set: A test set of sacreBLEU's, such as `wmt14/full:en-de`, instead of both.
    """
    language = scoring.target_language
    if test_set:
        languages = scoring.source_language, scoring.target_language
        name, languages = split_pair(test_set, languages)
        language = languages[1]
        sources, published = read_published(name, languages=languages)
        text = ReferenceText(name, published, sources, read_origins(scoring.settings))
    else:
        text = ReferenceText(
            name=as_text(references[0]),
            references=[
                _read_trees(path) if scoring.settings.is_of_trees else _read_verbatim(path)
                for path in references
            ],
            sources=None if source is None else list(read_lines(source)),
            origins=read_origins(scoring.settings),
        )
    num_trees = len(text.references[0]) if scoring.settings.is_of_trees else None
    systems = read_systems(hypotheses, num_trees=num_trees)
    for index, model in enumerate(models):
        if model in systems or model in models[:index]:
            raise MtkitError(f"--model {model} is given twice", "give each system once")
    if models:
        systems |= _translate(models, text.sources, device)
    return score_systems(systems, text, scoring.settings, language, device=device)


def _translate(
    models: Sequence[str], sources: Sequence[str] | None, device: str
) -> dict[str, list[str]]:
    """Returns each model's translations by its name."""
    # Imported here: scoring files needs no translator.
    from mtkit.pipeline.translate import open_models  # noqa: PLC0415

    if sources is None:
        raise MtkitError("--model translates the source, and there is none", "give --source FILE")
    found = {}
    for model in models:
        translator = open_models([model], device=device)
        found[model] = translator.translate(sources)
        if translator.summary:
            say(translator.summary)
    return found


def score_without_references(
    hypotheses: Sequence[Path], settings: Evaluation, source: Path, *, device: str = "auto"
) -> ScoredText:
    """Returns the scores of files of translations by learned metrics that need no references."""
    learned = open_learned(settings, device)
    for metric in learned:
        if metric.needs_reference:
            raise MtkitError(
                f"evaluation.metrics: {metric.model} needs references", "give --reference FILE"
            )
    sources, systems = list(read_lines(source)), read_systems(hypotheses)
    check_counts(as_text(source), sources, systems.items())
    text = ReferenceText(as_text(source), [sources], sources)
    statistics = measure_learned(systems, [""] * len(sources), sources, learned)
    return ScoredText(rate(text.name, statistics, settings), systems, text)


def score_systems(
    systems: Mapping[str, Sequence[str]],
    text: ReferenceText,
    settings: Evaluation,
    target_language: str,
    *,
    device: str = "auto",
) -> ScoredText:
    """Returns systems' scores with the text that they come from."""
    learned = open_learned(settings, device, has_sources=text.sources is not None)
    evaluated = evaluate(systems, text, settings, target_language=target_language, learned=learned)
    # The evaluation has remarked on Windows line ends; nothing else needs them.
    plain = {name: without_returns(lines) for name, lines in systems.items()}
    references = [without_returns(lines) for lines in text.references]
    text = dataclasses.replace(text, references=references)
    return ScoredText(evaluated, plain, text, target_language)


def open_learned(
    settings: Evaluation, device: str = "auto", *, has_sources: bool = True
) -> list[LearnedMetric]:
    """Returns the settings' learned metrics."""
    if not settings.learned_metrics:
        return []
    # Imported here: other metrics need no torch.
    from mtkit.inference.learned_metric import open_metrics  # noqa: PLC0415

    return open_metrics(settings, device, has_sources=has_sources)


def check_learned(settings: Evaluation) -> None:
    """Checks the folders of the settings' learned metrics, without their weights."""
    for folder in settings.learned_metrics:
        check_metric_folder(folder)


def check_metric_folder(folder: str) -> None:
    """Checks the folder of a learned metric, without its weights."""
    # Imported here: other metrics need no torch.
    from mtkit.inference.learned_metric import check_metric  # noqa: PLC0415

    check_metric(folder)


def split_pair(test_set: str, languages: tuple[str, str]) -> tuple[str, tuple[str, str]]:
    """Returns the name and languages of a test set such as `wmt14/full:en-de`.

    `languages` are the default, empty if unknown.
    """
    name, colon, pair = test_set.partition(":")
    source, dash, target = pair.partition("-")
    if colon and not (source and dash and target):
        raise MtkitError(
            f"--test-set {test_set}: '{pair}' is not a language pair",
            f"for example --test-set {name}:en-de",
        )
    found = (source, target) if colon else languages
    if not all(found):
        raise MtkitError(
            f"--test-set {test_set}: no language pair given",
            f"for example --test-set {name}:en-de",
        )
    return name, found


def read_systems(files: Sequence[Path], *, num_trees: int | None = None) -> dict[str, list[str]]:
    """Returns each file's lines by its system's name.

    `num_trees` is the expected number of trees, in a treebank's layout or one per line; None for
    text.
    """
    for index, file in enumerate(files):
        if file.resolve() in map(Path.resolve, files[:index]):
            raise MtkitError(f"--hypothesis {file} is given twice", "give each system's file once")
    names = name_systems(files) if len(files) > 1 else [as_text(file) for file in files]
    systems = {name: _read_verbatim(file) for name, file in zip(names, files, strict=True)}
    if num_trees is not None:
        for name, file in zip(names, files, strict=True):
            # An empty line is a sentence without a tree, so lines are counted if possible.
            if len(systems[name]) != num_trees:
                systems[name] = _read_trees_if_valid(file) or systems[name]
    return systems


def _read_trees_if_valid(file: Path) -> list[str]:
    """Returns the trees of a treebank; empty for other files."""
    try:
        return _read_trees(file)
    except MtkitError:
        return []


def _read_verbatim(file: Path) -> list[str]:
    """Returns a file's lines with everything that sacreBLEU's command would score."""
    return list(read_lines(file, is_verbatim=True))


def _read_trees(file: Path) -> list[str]:
    """Returns the trees of a treebank in any layout, one per line."""
    trees = read_trees(read_lines(file), as_text(file), allows_empty=True)
    return [write_tree(tree, root=None) for tree in trees]


def without_returns(lines: Sequence[str]) -> list[str]:
    r"""Returns lines without the `\r` of Windows line ends."""
    return [line.removesuffix("\r") for line in lines]


def read_origins(settings: Evaluation, num_test_sets: int = 1) -> list[str] | None:
    """Returns the origin of each sentence, if the settings name a file of origins."""
    if settings.origins is not None and num_test_sets != 1:
        raise MtkitError(
            "evaluation.origins names the origins of one test set's sentences, but there are "
            f"{num_test_sets} test sets",
            "remove it, and score that test set's translation with --hypothesis",
        )
    return None if settings.origins is None else list(read_lines(settings.origins))


def name_systems(files: Sequence[Path]) -> list[str]:
    """Returns a unique name for each file: the part that others lack.

    Of `newstest.A.de` and `newstest.B.de` these are `A` and `B`. For a single file it is the file's
    name; the path if names are equal. Bytes and characters that a table can't hold are escaped.
    """
    names: list[str] = []
    for name in map(as_text, _distinguish(files)):
        # An escaped name may equal another file's real name.
        numbered = (f"{name} ({number})" for number in count(2))
        names.append(next(each for each in chain([name], numbered) if each not in names))
    return names


def _distinguish(files: Sequence[Path]) -> list[str]:
    names = [file.name for file in files]
    if len(set(names)) < len(names):
        return _cut([str(file) for file in files], "/")
    return _cut(names, ".")


def _cut(names: Sequence[str], separator: str) -> list[str]:
    """Returns the names without the first and last parts that all of them share."""
    if len(set(names)) < 2:
        return list(names)
    parts = [name.split(separator) for name in names]
    # At least one part of each is kept.
    spare = min(map(len, parts)) - 1
    first = min(spare, _count_shared(parts))
    last = min(spare - first, _count_shared([each[::-1] for each in parts]))
    cut = [separator.join(each[first : len(each) - last]) for each in parts]
    return cut if all(cut) else list(names)


def _count_shared(parts: Sequence[Sequence[str]]) -> int:
    """Returns how many first parts are the same in all."""
    return len(list(takewhile(lambda each: len(set(each)) == 1, zip(*parts, strict=False))))
