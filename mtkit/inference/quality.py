"""Quality of translations (`inference.quality`): features of pairs, an estimate, what is released.

The same function measures the user's labelled pairs and a translator's own: the estimate depends on
the two texts and the model alone, not on how the translation was found.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

from pydantic import Field

from mtkit.checks.text import compare_lengths
from mtkit.errors import MtkitError
from mtkit.evaluation.learned import LearnedMetric
from mtkit.evaluation.quality import MAX_THRESHOLDS, Estimator, Threshold, choose_threshold
from mtkit.files import (
    as_json_text,
    check_format,
    read_json,
    reporting_faults,
    write_atomically,
)
from mtkit.inference.flag_lines import measure_coverage
from mtkit.inference.line import Line
from mtkit.inference.request import Request
from mtkit.inference.streams.byte_lines import answer_each
from mtkit.inference.translation import Translation
from mtkit.recipe.flags import FLAG_NAMES, Flags
from mtkit.recipe.inference import Inference, Quality, Sampling
from mtkit.recipe.section import Section
from mtkit.text.widths import measure_width

if TYPE_CHECKING:
    from mtkit.inference.line_pipeline import LinePipeline

Row = tuple[float, ...]


class Measure(NamedTuple):
    """Names of features, and what measures them.

    Attributes:
        measure: Returns a row with a number per name for each pair of a line and its translation,
            the request's prefix; NaN where it can't be measured.
    """

    names: Sequence[str]
    measure: Callable[[Sequence[Request]], list[Row]]


_FORMAT_VERSION = 1
_MAX_BYTES = 1 << 20
_FLAGS_WITH_FEATURE = ("too short", "too long", "unlikely", "poorly covered")
_FLAGS = tuple(each for each in FLAG_NAMES if each not in _FLAGS_WITH_FEATURE)
"""Flags that are counted; each of the others has its own feature."""
_ENGINE_KEYS = (
    "engine",
    "precision",
    "allow_int8",
    "processes",
    "batch_tokens",
    "max_source_tokens",
)
"""Settings that measures take from the translator's; how it searches doesn't matter to them."""
_SMOOTHING = 15
"""Characters added to both lengths, as in `inference.flags`."""
_SCORE_FEATURES = (
    *("log_probability", "lowest_log_probability", "length"),
    *("length_ratio", "length_ratio_squared", "flags", "coverage"),
)
_REVERSE_FEATURES = ("reverse_log_probability", "reverse_lowest_log_probability")
_CALIBRATE_AGAIN = "run mtkit calibrate again"
_Digest = Annotated[str, Field(max_length=64)]


class QualityFile(Section):
    """What `mtkit calibrate` found."""

    format_version: Literal[1] = 1
    model: _Digest
    """Digest of the translator that the features come from."""
    reverse: _Digest = ""
    """Digest of the reverse translator; empty without one."""
    metric: _Digest = ""
    """Digest of the learned metric; empty without one."""
    samples: Annotated[int, Field(ge=0, le=1_000)] = 0
    estimator: Estimator
    thresholds: Annotated[tuple[Threshold, ...], Field(max_length=MAX_THRESHOLDS)]
    """The strictest first."""

    @classmethod
    def read(cls, path: Path) -> "QualityFile":
        """Reads and validates a file; raises an MtkitError if it is missing or invalid."""
        try:
            content = read_json(path, max_bytes=_MAX_BYTES)
        except FileNotFoundError as error:
            raise MtkitError(
                f"{path}: no such file (inference.quality.path)", "make it: mtkit calibrate"
            ) from error
        check_format(content, path, _FORMAT_VERSION, _CALIBRATE_AGAIN)
        with reporting_faults(path, _CALIBRATE_AGAIN):
            return cls.model_validate_json(json.dumps(content))

    def write(self, path: Path) -> None:
        """Writes the file atomically."""
        write_atomically(path, as_json_text(self.model_dump(mode="json")))

    def check_models(self, path: Path, digests: Mapping[str, str]) -> None:
        """Checks that the estimate was fitted for these models, given their digests by key."""
        for key, found in digests.items():
            wanted = getattr(self, key)
            if wanted != found:
                fault = f"was fitted for another {key} ({wanted or 'none'}, not {found or 'none'})"
                hint = f"name it in inference.quality.{key}, or calibrate again"
                raise MtkitError(f"{path}: {fault}", _CALIBRATE_AGAIN if key == "model" else hint)


def list_measures(
    pipeline: "LinePipeline",
    *,
    reverse: "LinePipeline | None" = None,
    metric: LearnedMetric | None = None,
    samples: int = 0,
) -> list[Measure]:
    """Returns the measures of pairs; new features are added here."""
    kept = {key: getattr(pipeline.settings, key) for key in _ENGINE_KEYS}
    changed = {"alignments": pipeline.aligns, "flags": Flags(names=_FLAGS)}
    own = pipeline.with_settings(Inference().model_copy(update={**kept, **changed}))
    names = _SCORE_FEATURES if pipeline.aligns else _SCORE_FEATURES[:-1]
    measures = [Measure(names, partial(_measure_scores, own))]
    if reverse is not None:
        measures.append(Measure(_REVERSE_FEATURES, partial(_measure_reverse, own, reverse)))
    if metric is not None:
        measures.append(Measure(("metric",), partial(_measure_metric, own, metric)))
    if samples:
        measures.append(Measure(("agreement",), partial(_measure_agreement, own, samples)))
    return measures


def measure_pairs(measures: Sequence[Measure], pairs: Sequence[Request]) -> dict[str, list[float]]:
    """Returns all features of pairs, a number for each pair."""
    found: dict[str, list[float]] = {}
    for names, measure in measures:
        rows = measure(pairs)
        found |= {name: [row[index] for row in rows] for index, name in enumerate(names)}
    return found


def _measure_scores(lines: "LinePipeline", pairs: Sequence[Request]) -> list[Row]:
    """Measures forced scores, lengths, flags and the share of linked words."""
    return [
        (*_describe_tokens(scored), *_describe_texts(lines.split_tags(pair.text)[1], pair, scored))
        for pair, scored in zip(pairs, answer_each(pairs, lines.score), strict=True)
    ]


def _describe_tokens(scored: Translation | None) -> Row:
    """Returns the mean and the lowest log-probability of a token, and the log of their number."""
    found = () if scored is None else scored.candidates[0].token_log_probabilities
    if not found:
        return math.nan, math.nan, math.nan
    return math.fsum(found) / len(found), min(found), math.log(len(found))


def _describe_texts(line: str, pair: Request, scored: Translation | None) -> Row:
    source, target = (float(measure_width(text.strip())) for text in (line, pair.prefix))
    ratio = math.log(compare_lengths(source, target, 1.0, _SMOOTHING))
    flags = () if scored is None else scored.flags or ()
    alignment = None if scored is None else scored.candidates[0].alignment
    coverage = None if alignment is None else measure_coverage(pair.text, alignment)
    # In a line without words, none lacks a link.
    return ratio, ratio * ratio, float(len(flags)), 1.0 if coverage is None else coverage


def _measure_reverse(
    lines: "LinePipeline", reverse: "LinePipeline", pairs: Sequence[Request]
) -> list[Row]:
    """Measures the log-probability of the line, given its translation."""
    reversed_pairs = []
    for pair in pairs:
        codes = pair.source_language, pair.target_language
        source, target = (
            lines.languages.resolve(*codes) if reverse.languages.are_needed else ("",) * 2
        )
        text = lines.split_tags(pair.text)[1]
        reversed_pairs.append(
            Request(pair.prefix, text, source_language=target, target_language=source)
        )
    return [_describe_tokens(each)[:2] for each in answer_each(reversed_pairs, reverse.score)]


def _measure_metric(
    lines: "LinePipeline", metric: LearnedMetric, pairs: Sequence[Request]
) -> list[Row]:
    """Measures the score of a learned metric that reads no reference."""
    rows = [(lines.split_tags(pair.text)[1], pair.prefix, "") for pair in pairs]
    # Rounded to be the same in any batch, except for rare ties.
    return [(score,) for score in metric.score(rows).round(5).tolist()]


def _measure_agreement(lines: "LinePipeline", samples: int, pairs: Sequence[Request]) -> list[Row]:
    """Measures the mean chrF of the translation against samples (arXiv 2005.10608, section 3)."""
    # Imported here: sacreBLEU loads slowly.
    from mtkit.evaluation.utilities import measure_utilities  # noqa: PLC0415

    changed = {"sampling": Sampling(epsilon=0.02), "n_best": samples, "coverage_penalty": 0.0}
    settings = lines.settings.model_copy(update={**changed, "alignments": False, "flags": None})
    # A constant line number makes the draws independent of the line's position.
    requests = [replace(each, prefix="", settings=settings, line=1) for each in pairs]
    rows: list[Row] = []
    for pair, found in zip(pairs, lines.search_ahead(requests)(), strict=True):
        texts = [each.text for each in found.candidates]
        utilities = measure_utilities([pair.prefix, *texts], [0, *[1] * len(texts)], "chrf")
        rows.append((float(utilities[0]),))
    return rows


class LineQuality:
    """Estimates the quality of lines' translations, by a file of `mtkit calibrate`."""

    def __init__(self, file: QualityFile, settings: Quality, measures: Sequence[Measure]) -> None:
        self._measures, self._estimator = measures, file.estimator
        names = {name for measure in measures for name in measure.names}
        if lacking := [name for name in file.estimator.names if name not in names]:
            raise MtkitError(
                f"{settings.path}: was fitted with '{lacking[0]}', which isn't measured here",
                _CALIBRATE_AGAIN,
            )
        self._threshold = choose_threshold(file.thresholds, settings.risk, settings.confidence)

    def estimate(self, lines: Sequence[Line]) -> None:
        """Adds the quality of each line's translation, and whether it is released.

        It is 1 for a blank line, and 0 for a pair that is too long to be scored.
        """
        requests: list[tuple[Line, Request]] = []
        for line in lines:
            assert line.translation is not None
            text = line.translation.text
            if line.text.strip() or text.strip():
                codes = line.request.source_language, line.request.target_language
                requests.append((line, Request(line.text, text, None, None, *codes)))
            else:
                line.translation = replace(line.translation, quality=1.0, released=True)
        if not requests:
            return
        columns = measure_pairs(self._measures, [request for _, request in requests])
        for (line, _), quality in zip(
            requests, self._estimator.estimate(columns).tolist(), strict=True
        ):
            assert line.translation is not None
            released = self._threshold is not None and quality >= self._threshold.at
            line.translation = replace(line.translation, quality=quality, released=released)
