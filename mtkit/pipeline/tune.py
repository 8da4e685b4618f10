"""Entry point of `mtkit tune`: weights of `inference.rerank` by the development set."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import tomli_w
from numpy.typing import NDArray

from mtkit.console import say
from mtkit.data.preparation.held_out import read_held_out
from mtkit.errors import MtkitError
from mtkit.evaluation.statistics import Statistics, measure_systems
from mtkit.evaluation.tokenizers import resolve_tokenizer
from mtkit.evaluation.tune_weights import tune_weights
from mtkit.inference.request import Request
from mtkit.inference.rerank import score_per_token
from mtkit.inference.translation import Hypothesis
from mtkit.pipeline.translate import load_run
from mtkit.recipe import Recipe
from mtkit.recipe.evaluation import Evaluation
from mtkit.recipe.inference import Rerank
from mtkit.units import plural
from mtkit.workspace import Workspace

Numbers = NDArray[np.float64]


def tune(recipe: Recipe, workspace: Workspace, *, device: str = "auto") -> str:
    """Returns the section `inference.rerank` as TOML, with weights that suit the development set.

    They give its candidates the best score by the first of `evaluation.metrics` that counts words
    or characters. Lines that are translated in parts are left out.
    """
    rerank = recipe.inference.rerank
    if rerank is None or not (rerank.models or rerank.translator_weight):
        raise MtkitError(
            "there are no weights to tune: inference.rerank has only the utility",
            "name another model: --set 'inference.rerank.models=[{path=\"runs/de-en/model\"}]', or "
            "a weight for the translator: --set inference.rerank.translator_weight=1",
        )
    metric = recipe.evaluation.text_metrics[:1]
    if not metric:
        raise MtkitError("evaluation.metrics has no score of text", 'set it to ["bleu"]')
    pairs = list(read_held_out(recipe.data, recipe.data.dev, "dev"))
    changes = {"n_best": recipe.inference.num_candidates, "paragraphs": None, "quality": None}
    translator = load_run(recipe.inference.model_copy(update=changes), workspace, device=device)
    say(f"translating the development set: {len(pairs):,} lines")
    translated = translator.search([Request(source) for source, _ in pairs])
    # The parts of a line are ranked separately.
    whole = [index for index, each in enumerate(translated) if not each.was_split]
    if len(whole) < len(pairs):
        say(f"left out: {plural(len(pairs) - len(whole), 'line')} that are translated in parts")
    if not whole:
        raise MtkitError(
            "no line of the development set is translated as one",
            "raise inference.max_source_tokens, or give a development set of shorter lines",
        )
    found = [translated[index].candidates for index in whole]
    evaluation = resolve_tokenizer(
        recipe.evaluation.model_copy(update={"metrics": metric}), recipe.data.target_language
    )
    first, statistics = _measure(found, [pairs[index][1] for index in whole], evaluation)
    features = [np.array([_list_features(each) for each in candidates]) for candidates in found]
    start = [rerank.utility_weight, rerank.translator_weight]
    start += [model.weight for model in rerank.models]
    sign = 1.0 if first.higher_is_better else -1.0
    weights, _ = tune_weights(
        features, statistics, lambda sums: sign * np.asarray(first.score(sums)), start
    )
    weights = [float(f"{weight:.4g}") for weight in weights]

    def score(chosen: Sequence[float]) -> float:
        best = [int(np.argmax(each @ np.array(chosen))) for each in features]
        rows = [rows[index] for rows, index in zip(statistics, best, strict=True)]
        return float(first.score(np.sum(rows, axis=0)))

    say(f"{first.name} of {len(whole):,} lines: {score(start):.2f}, tuned: {score(weights):.2f}")
    return _as_toml(rerank, weights)


def _list_features(candidate: Hypothesis) -> list[float]:
    """Returns what is weighted: utility, the translator's own score, other models' scores."""
    return [candidate.utility or 0.0, score_per_token(candidate), *candidate.model_scores]


def _measure(
    found: Sequence[Sequence[Hypothesis]], references: Sequence[str], settings: Evaluation
) -> tuple[Statistics, list[Numbers]]:
    """Returns statistics of all candidates together, and those of each line's."""
    lines = [index for index, candidates in enumerate(found) for _ in candidates]
    texts = [each.text for candidates in found for each in candidates]
    measured = measure_systems({"": texts}, [[references[line] for line in lines]], settings)
    ((statistics,),) = measured.values()
    ends = np.cumsum(list(map(len, found)))[:-1]
    return statistics, np.split(statistics.per_sentence.astype(np.float64), ends)


def _as_toml(rerank: Rerank, weights: Sequence[float]) -> str:
    content = rerank.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    content["utility_weight"], content["translator_weight"], *others = weights
    for model, weight in zip(content.get("models", ()), others, strict=True):
        model["path"], model["weight"] = str(Path(model["path"]).absolute()), weight
    return tomli_w.dumps({"inference": {"rerank": content}})
