"""Checks that transformers translates with an exported folder as the model itself does.

It compares tokens of all lines, log-probabilities of given translations, and the translations that
a search finds, each with transformers' own classes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from mtkit.errors import MtkitError, shorten
from mtkit.inference.engine_comparison import MAX_GAP, MAX_SHARE_DIFFERENT, NEAR_TIE
from mtkit.inference.engines.engine import EncodedSource, search_in_batches
from mtkit.inference.engines.torch_engine import TorchEngine
from mtkit.inference.search.penalties import length_penalty
from mtkit.model.exporters.transformers_rows import WrittenTranslator, find_output_limit, is_exact
from mtkit.model.folder import LoadedModel
from mtkit.programs import import_extra
from mtkit.recipe.inference import Inference
from mtkit.text.languages import NO_MARKS, LanguageTokens
from mtkit.text.token_ids import SPECIAL_PIECES

_BATCH = 8


@dataclass(frozen=True)
class TransformersParity:
    """How transformers and mtkit compare on the same lines.

    Attributes:
        num_tokenized: Lines whose tokens were compared, all equal.
        num_near_ties: Lines with another translation whose score is almost equal.
        num_different: Lines that differ by more.
        largest_gap: Largest difference of a translation's score.
    """

    num_tokenized: int
    num_lines: int
    num_near_ties: int
    num_different: int
    largest_gap: float

    def describe(self) -> str:
        """Returns the comparison as one line."""
        num_equal = self.num_lines - self.num_near_ties - self.num_different
        return (
            f"transformers: same tokens on {self.num_tokenized} lines; same translation on "
            f"{num_equal} of {self.num_lines}, {self.num_near_ties} differ only by near-ties, "
            f"{self.num_different} by more; scores of the same output differ by at most "
            f"{self.largest_gap:.1e}"
        )


def load_transformers() -> Any:
    """Returns transformers' package; raises an MtkitError if it isn't installed."""
    fault = "transformers isn't installed, and a folder for it is checked with it"
    transformers = import_extra("transformers", fault, "transformers")
    # It shows progress of a fast load, even in files.
    transformers.utils.logging.disable_progress_bar()
    return transformers


def check_transformers_folder(
    loaded: LoadedModel,
    folder: Path,
    written: WrittenTranslator,
    *,
    lines: Sequence[str],
    num_translated: int,
    settings: Inference,
    languages: tuple[str, str] | None = None,
) -> TransformersParity:
    """Returns how transformers compares with the model, or raises an MtkitError if they differ.

    No line is blank; the first `num_translated` are also translated. The length penalty has the
    power form. `languages` are source and target of a model with language tokens.
    """
    library = load_transformers()
    tokenizer = library.AutoTokenizer.from_pretrained(folder)
    model = library.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    marks = NO_MARKS
    if languages is not None:
        tokenizer.src_lang = languages[0]
        marks = loaded.tokenizer.mark_languages(*languages)
    tokens = [
        [*marks.before, *found, *marks.behind] for found in loaded.tokenizer.encode_source(lines)
    ]
    num_tokenized = _check_tokens(tokenizer, lines, tokens, written)
    settings = _search_alike(settings)
    engine = TorchEngine(loaded.translator, "cpu")
    tokens = tokens[:num_translated]
    encoded = [EncodedSource(each, begin=marks.begin) for each in tokens]
    outputs = search_in_batches(engine, encoded, settings)
    ours = [(*marks.begin, *hypotheses[0].token_ids) for hypotheses in outputs]
    scores = [_score(engine, pair, marks, settings) for pair in zip(tokens, ours, strict=True)]
    rows = written.target.rows
    found = _generate(model, tokens, written, marks)
    gaps = [0.0]
    num_near_ties = num_different = 0
    for source, output, score, given in zip(tokens, ours, scores, found, strict=True):
        theirs = _score_there(model, (source, output), written, marks, settings)
        gaps.append(abs(score - theirs))
        if given == [rows[token] for token in output]:
            continue
        other = tuple(rows.index(row) for row in given)
        if abs(_score(engine, (source, other), marks, settings) - score) < NEAR_TIE:
            num_near_ties += 1
        else:
            num_different += 1
    parity = TransformersParity(num_tokenized, len(tokens), num_near_ties, num_different, max(gaps))
    _refuse_unequal(parity)
    return parity


def _search_alike(settings: Inference) -> Inference:
    """Returns settings that search as generation_config.json does."""
    limit = find_output_limit(settings)
    return settings.model_copy(
        update={
            # Their search continues until as many outputs as beams can't be beaten.
            "n_best": settings.beam_size,
            "stop_margin": limit if is_exact(settings) else 0,
            "max_output_tokens": limit,
            "max_extra_tokens": min(limit, 10_000),
        }
    )


def _check_tokens(
    tokenizer: Any,
    lines: Sequence[str],
    tokens: Sequence[Sequence[int]],
    written: WrittenTranslator,
) -> int:
    """Checks that transformers' tokens of lines are the same; returns how many were compared."""
    # A line that contains a special token's text is skipped: transformers reads it as that token.
    # Outer white space is removed: NLLB's tokenizer makes a token of it.
    rows, count = written.source.rows, 0
    for line, ours in zip(lines, tokens, strict=True):
        if line.lstrip().startswith(">>") or any(piece in line for piece in SPECIAL_PIECES):
            continue
        count += 1
        if tokenizer(line.strip())["input_ids"] != [rows[token] for token in ours]:
            raise MtkitError(
                f"transformers' {written.tokenizer_class} cuts a line into other tokens: "
                f"'{shorten(line, 80)}'; nothing was exported",
                "please report this, with the tokenizer and that line",
            )
    return count


def _generate(
    model: Any,
    tokens: Sequence[Sequence[int]],
    written: WrittenTranslator,
    marks: LanguageTokens,
) -> list[list[int]]:
    """Returns the rows of each translation that transformers finds."""
    rows = written.source.rows
    begin = [written.target.rows[token] for token in marks.begin]
    forced = {"forced_bos_token_id": begin[0]} if begin else {}
    order = sorted(range(len(tokens)), key=lambda index: len(tokens[index]))
    found: dict[int, list[int]] = {}
    for start in range(0, len(order), _BATCH):
        chosen = order[start : start + _BATCH]
        longest = max(len(tokens[index]) for index in chosen)
        inputs = torch.full((len(chosen), longest), written.source.pad)
        mask = torch.zeros_like(inputs)
        for row, index in enumerate(chosen):
            length = len(tokens[index])
            inputs[row, :length] = torch.tensor([rows[token] for token in tokens[index]])
            mask[row, :length] = 1
        with torch.no_grad():
            outputs = model.generate(input_ids=inputs, attention_mask=mask, **forced)
        for index, output in zip(chosen, outputs[:, 1:].tolist(), strict=True):
            end = output.index(written.target.eos) + 1 if written.target.eos in output else None
            found[index] = output[:end]
    return [found[index] for index in range(len(tokens))]


def _score(
    engine: TorchEngine,
    pair: tuple[Sequence[int], Sequence[int]],
    marks: LanguageTokens,
    settings: Inference,
) -> float:
    source, output = pair
    # The forced beginning of an output only counts in its length.
    total = sum(engine.score([source], [output])[0][len(marks.begin) :])
    return total / length_penalty("power", settings.length_penalty.alpha, len(output))


def _score_there(
    model: Any,
    pair: tuple[Sequence[int], Sequence[int]],
    written: WrittenTranslator,
    marks: LanguageTokens,
    settings: Inference,
) -> float:
    """Returns transformers' score of a translation."""
    source, output = pair
    inputs = torch.tensor([[written.source.rows[token] for token in source]])
    labels = [written.target.rows[token] for token in output]
    shifted = torch.tensor([[written.target.start, *labels[:-1]]])
    with torch.no_grad():
        logits = model(input_ids=inputs, decoder_input_ids=shifted).logits[0]
    if model.generation_config.renormalize_logits:
        logits[:, list(written.target.forbidden)] = -torch.inf
    picked = logits.log_softmax(dim=-1)[torch.arange(len(labels)), torch.tensor(labels)]
    divisor = length_penalty("power", settings.length_penalty.alpha, len(labels))
    return float(picked[len(marks.begin) :].sum()) / divisor


def _refuse_unequal(parity: TransformersParity) -> None:
    if not parity.largest_gap <= MAX_GAP:
        raise MtkitError(
            f"parity check failed: scores of the same output differ by {parity.largest_gap:.2g}, "
            f"more than {MAX_GAP:g}; nothing was exported",
            "please report this, with the model's config.json and the version of transformers",
        )
    if parity.num_different > max(1, MAX_SHARE_DIFFERENT * parity.num_lines):
        raise MtkitError(
            f"parity check failed: {parity.num_different} of {parity.num_lines} lines have other "
            "translations that aren't near-ties; nothing was exported",
            "please report this, with the model's config.json and the version of transformers",
        )
