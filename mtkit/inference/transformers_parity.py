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
from mtkit.inference.engine_comparison import check_parity
from mtkit.inference.engines.engine import EncodedSource
from mtkit.inference.engines.torch_engine import TorchEngine
from mtkit.inference.search.penalties import length_penalty
from mtkit.inference.translation import Hypothesis
from mtkit.model.exporters.transformers_rows import WrittenTranslator, find_output_limit, is_exact
from mtkit.model.folder import LoadedModel
from mtkit.programs import import_extra
from mtkit.recipe.inference import Inference
from mtkit.text.languages import NO_MARKS
from mtkit.text.token_ids import SPECIAL_PIECES

MAX_TRANSLATED = 100


def load_transformers() -> Any:
    """Returns transformers' package; raises an MtkitError if it isn't installed."""
    fault = "transformers isn't installed; it checks the exported folder"
    transformers = import_extra("transformers", fault, "transformers")
    # Its progress bar would also be written to log files.
    transformers.utils.logging.disable_progress_bar()
    return transformers


def check_transformers_folder(
    loaded: LoadedModel,
    folder: Path,
    written: WrittenTranslator,
    *,
    lines: Sequence[str],
    settings: Inference,
    languages: tuple[str, str] | None = None,
) -> list[str]:
    """Returns lines that compare transformers with the model; raises an MtkitError if they differ.

    No line is blank; the first `MAX_TRANSLATED` are also translated. The length penalty has the
    power form. `languages` are source and target of a model with language tokens.
    """
    library = load_transformers()
    tokenizer = library.AutoTokenizer.from_pretrained(folder)
    model = library.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    marks = NO_MARKS
    if languages is not None:
        tokenizer.src_lang = languages[0]
        marks = loaded.tokenizer.mark_languages(*languages)
    tokens = loaded.tokenizer.encode_source(lines)
    marked = [[*marks.before, *found, *marks.behind] for found in tokens]
    num_tokenized = _check_tokens(tokenizer, lines, marked, written)
    parity = check_parity(
        TorchEngine(loaded.translator, "cpu"),
        _TransformersEngine(model, written, settings.length_penalty.alpha),
        tokens[:MAX_TRANSLATED],
        _matching_settings(settings),
        library="transformers",
        num_compared=1,
        marks=marks,
    )
    return [f"transformers: the same tokens on {num_tokenized} lines", parity.describe()]


def _matching_settings(settings: Inference) -> Inference:
    """Returns settings that search as generation_config.json does."""
    limit = find_output_limit(settings)
    return settings.model_copy(
        update={
            # transformers searches until the best `beam_size` outputs can't be beaten.
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
                f"transformers' {written.tokenizer_class} tokenizes a line differently: "
                f"'{shorten(line, 80)}'; nothing was exported",
                "please report this, with the tokenizer and that line",
            )
    return count


@dataclass(frozen=True)
class _TransformersEngine:
    """An engine that searches as generation_config.json says, whatever the settings."""

    model: Any
    written: WrittenTranslator
    alpha: float
    max_tokens = None
    batches_at_once = 1

    def search(
        self, sources: Sequence[EncodedSource], settings: Inference
    ) -> list[list[Hypothesis]]:
        """Returns the best output of each source."""
        target = self.written.target
        begin = [target.rows[token] for token in sources[0].begin]
        forced = {"forced_bos_token_id": begin[0]} if begin else {}
        inputs = self._fill([source.tokens for source in sources])
        mask = self._fill([[1] * len(source.tokens) for source in sources], as_rows=False)
        with torch.no_grad():
            outputs = self.model.generate(input_ids=inputs, attention_mask=mask, **forced)
        found = []
        for source, output in zip(sources, outputs[:, 1:].tolist(), strict=True):
            end = output.index(target.eos) + 1 if target.eos in output else None
            tokens = [target.origins[row] for row in output[:end]]
            scores = self.score([source.tokens], [tokens])[0][len(begin) :]
            score = sum(scores) / length_penalty("power", self.alpha, len(tokens))
            chosen = tuple(tokens[len(begin) :])
            found.append([Hypothesis(chosen, sum(scores), score, is_finished=end is not None)])
        return found

    def _fill(self, batch: Sequence[Sequence[int]], *, as_rows: bool = True) -> torch.Tensor:
        rows, pad = self.written.source.rows, self.written.source.pad if as_rows else 0
        lines = [torch.tensor([rows[each] if as_rows else each for each in line]) for line in batch]
        return torch.nn.utils.rnn.pad_sequence(lines, batch_first=True, padding_value=pad)

    def score(
        self, source_batch: Sequence[Sequence[int]], target_batch: Sequence[Sequence[int]]
    ) -> list[list[float]]:
        """Returns the natural log-probability of each token of each target."""
        return [self._score(*pair) for pair in zip(source_batch, target_batch, strict=True)]

    def _score(self, source: Sequence[int], output: Sequence[int]) -> list[float]:
        target = self.written.target
        labels = [target.rows[token] for token in output]
        shifted = torch.tensor([[target.start, *labels[:-1]]])
        with torch.no_grad():
            logits = self.model(input_ids=self._fill([source]), decoder_input_ids=shifted).logits[0]
        if self.model.generation_config.renormalize_logits:
            logits[:, list(target.forbidden)] = -torch.inf
        found: list[float] = logits.log_softmax(dim=-1)[
            torch.arange(len(labels)), torch.tensor(labels)
        ].tolist()
        return found
