"""The entry point of `mtkit export --format argos`: a package for Argos Translate."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

from mtkit.console import say
from mtkit.errors import MtkitError
from mtkit.inference.ctranslate2_client import CTranslate2Client
from mtkit.inference.engines.engine import EncodedSource, search_in_batches
from mtkit.inference.export import choose_lines, export
from mtkit.model.card import CARD_FILE, read_card
from mtkit.model.config import open_model_folder
from mtkit.model.exporters.argos import SUFFIX, check_packable, check_pieces, write_package
from mtkit.model.exporters.ctranslate2_files import ENGINE_FOLDER
from mtkit.recipe.evaluation import Evaluation
from mtkit.recipe.inference import Inference, LengthPenalty

_MAX_LINES = 50
_BEAM_SIZE, _ALPHA = 4, 0.2
"""Argos Translate always uses these, whatever a package says."""


def export_argos(
    model_folder: Path,
    output: Path,
    *,
    quantization: str,
    lines: Sequence[str],
    references: Sequence[str] = (),
    settings: Inference | None = None,
    evaluation: Evaluation | None = None,
) -> None:
    """Writes an `.argosmodel` file that Argos Translate installs; replaces an older one."""
    if output.suffix != SUFFIX or output.is_dir():
        raise MtkitError(
            f"{output}: not the name of a package",
            f"a package is one file: --output {output.with_suffix(SUFFIX)}",
        )
    opened = open_model_folder(model_folder)
    check_packable(opened.config, opened.tokenizer)
    output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=output.parent, prefix=".argos-") as name:
        folder = Path(name) / "export"
        export(
            model_folder,
            folder,
            quantization=quantization,
            lines=lines,
            references=references,
            settings=settings,
            evaluation=evaluation,
        )
        max_tokens = opened.settings.max_source_tokens
        chosen = choose_lines(opened.tokenizer, lines, (), max_tokens)[0][:_MAX_LINES]
        sources = [EncodedSource(tokens) for tokens in opened.tokenizer.encode_source(chosen)]
        search = opened.settings.model_copy(
            update={
                "beam_size": _BEAM_SIZE,
                "length_penalty": LengthPenalty(kind="power", alpha=_ALPHA),
                "n_best": 1,
                "coverage_penalty": 0.0,
            }
        )
        found = search_in_batches(CTranslate2Client(folder / ENGINE_FOLDER), sources, search)
        outputs = [hypotheses[0].token_ids for hypotheses in found]
        check_pieces(opened.tokenizer, chosen, outputs)
        draft = Path(name) / output.name
        card = read_card(folder) or ""
        assert card, CARD_FILE
        write_package(draft, folder / ENGINE_FOLDER, opened.config, opened.tokenizer, card)
        size = draft.stat().st_size
        draft.replace(output)
    say(f"wrote {output}, {size / 1e6:,.1f} MB; next: argospm install {output}")
