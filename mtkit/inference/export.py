"""Exports a model folder for CTranslate2; pipeline/export.py calls it.

The result is a folder with CTranslate2's own files, in `ctranslate2/`, and the model's config,
tokenizer and card. It replaces the output folder once both programs give the same results.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import torch

from mtkit.console import say
from mtkit.errors import MtkitError
from mtkit.files import write_atomically
from mtkit.folders import building, remove_folder
from mtkit.inference.ctranslate2_client import CTranslate2Client
from mtkit.inference.engine_comparison import (
    EngineComparison,
    Parity,
    check_parity,
    check_quality,
    compare_engines,
    exact_settings,
)
from mtkit.inference.engines.engine import Engine
from mtkit.inference.engines.open_torch_engine import engine_of_network
from mtkit.model.alignment_head import AlignmentHead, default_head, read_alignment_head
from mtkit.model.card import CARD_FILE, read_card, with_export
from mtkit.model.config import CONFIG_FILE, check_translates, write_section
from mtkit.model.digest import digest_model, reading
from mtkit.model.exporters.ctranslate2 import check_quantization, load_library, write_ctranslate2
from mtkit.model.exporters.ctranslate2_files import ENGINE_FOLDER, check_replaced_export
from mtkit.model.exporters.ctranslate2_names import check_convertible
from mtkit.model.folder import LoadedModel, load_model_folder
from mtkit.network.device import limit_threads
from mtkit.recipe.evaluation import Evaluation
from mtkit.recipe.inference import Inference
from mtkit.text.languages import NO_MARKS, LanguageTokens, TranslatorLanguages, find_language
from mtkit.text.tokenizer import SubwordTokenizer
from mtkit.units import spread_items

_MAX_LINES = 200
"""Lines translated by both engines."""
_MAX_PARITY_LINES = 50
"""Lines whose n-best lists are compared, which takes several times longer."""
_MIN_POSITIONS = 1_024
"""Minimum number of exported positions, so that settings can still be increased a little."""


def choose_languages(loaded: LoadedModel) -> tuple[str, str] | None:
    """Returns the languages to compare engines on; None for a model without language tokens.

    A multilingual model without a default takes English and German, or its first two: the engines
    must agree on any text.
    """
    config, tokenizer = loaded.config, loaded.tokenizer
    languages = TranslatorLanguages.of(
        tokenizer.languages, config.source_language, config.target_language
    )
    if not languages.are_needed:
        return None
    usual = [find_language(code, languages.target) for code in ("en", "de")]
    source, target = (
        default or other or languages.target[index]
        for index, (default, other) in enumerate(zip(languages.default, usual, strict=True))
    )
    say(f"comparing on translation from {source} to {target}")
    return source, target


def choose_marks(loaded: LoadedModel) -> LanguageTokens:
    """Returns the language tokens for `choose_languages`."""
    languages = choose_languages(loaded)
    return NO_MARKS if languages is None else loaded.tokenizer.mark_languages(*languages)


@dataclass(frozen=True)
class ExportReport:
    """An export compared with its original: `parity` in fp32, `comparison` as exported."""

    num_bytes: int
    parity: Parity
    comparison: EngineComparison


def export(
    model_folder: Path,
    output: Path,
    *,
    quantization: str = "float32",
    lines: Sequence[str],
    references: Sequence[str] = (),
    settings: Inference | None = None,
    evaluation: Evaluation | None = None,
    record: Callable[[Path, str], None] | None = None,
) -> ExportReport:
    """Writes a folder that CTranslate2 translates with.

    A crash leaves an older export intact. `lines` are text for the comparison; a few hundred
    sentences are enough. `references` are their translations, if any. Without `settings`, the model
    folder's are compared. `record` is called with the output and the model's digest once the output
    is there, before it can be replaced.

    Raises:
        MtkitError: CTranslate2 isn't installed or lacks a feature; the output folder is not an
            export; the engines differ, or quantization costs more than `MAX_LOSS`.
    """
    check_quantization(quantization)
    load_library()
    output = output.absolute()
    check_replaced_export(output, model_folder)
    with reading(model_folder):
        loaded = load_model_folder(model_folder)
        card = read_card(model_folder)
        made_from = digest_model(model_folder)
    settings = settings if settings is not None else loaded.settings
    check_translates(loaded.config, "export to CTranslate2")
    check_convertible(loaded.config.model)
    # A coverage penalty needs the mean attention, so one head's can't be exported.
    head = (
        default_head(loaded.config.model)
        if settings.coverage_penalty
        else read_alignment_head(model_folder, loaded.config.model)
    )
    # Only search features that both programs share are compared.
    plain = {"sampling": None, "fusion": None, "coverage_penalty": 0.0, "n_best": 1}
    settings = settings.model_copy(update=plain)
    marks = choose_marks(loaded)
    room = settings.max_source_tokens - len(marks.before) - len(marks.behind)
    chosen = choose_lines(loaded.tokenizer, lines, references, room)
    job = _Job(
        loaded,
        settings,
        quantization,
        *chosen,
        evaluation or Evaluation(),
        head,
        marks,
    )
    then = None if record is None else lambda folder: record(folder, made_from)
    with building(output, then=then) as draft:
        files = draft / ENGINE_FOLDER
        parity, comparison = _make_files(job, files)
        num_bytes = (files / "model.bin").stat().st_size
        write_section(draft / CONFIG_FILE, loaded.config)
        loaded.tokenizer.save(draft)
        facts = [
            f"CTranslate2 {version('ctranslate2')}, {quantization}",
            f"exported from the model with digest {made_from}",
            parity.describe(),
            *comparison.describe(),
        ]
        written = with_export(card or f"# {loaded.config.recipe}\n", facts)
        write_atomically(draft / CARD_FILE, written)
        # Another program may have written there meanwhile.
        check_replaced_export(output, model_folder)
    return ExportReport(num_bytes, parity, comparison)


def open_reference(loaded: LoadedModel, settings: Inference) -> Engine:
    """Returns the engine of `mtkit translate`, in fp32, to compare an export with.

    It consumes the network, which can't be written afterwards.
    """
    limit_threads()
    device, exact = torch.device("cpu"), settings.model_copy(update={"precision": "fp32"})
    return engine_of_network(loaded.translator, exact, device)


@dataclass(frozen=True)
class _Job:
    """The model, its settings, and non-blank lines of allowed length to compare engines on."""

    loaded: LoadedModel
    settings: Inference
    quantization: str
    lines: list[str]
    references: list[str]
    evaluation: Evaluation
    alignment_head: AlignmentHead
    marks: LanguageTokens


def _make_files(job: _Job, folder: Path) -> tuple[Parity, EngineComparison]:
    """Writes and checks CTranslate2's files, and returns the comparison."""
    is_exact = job.quantization == "float32"
    exact = folder if is_exact else folder.with_name("float32")
    _convert(job, exact, "float32")
    if not is_exact:
        _convert(job, folder, job.quantization)
    reference = open_reference(job.loaded, job.settings)
    say("float32: comparing the n-best lists of both engines")
    sources = job.loaded.tokenizer.encode_source(spread_items(job.lines, _MAX_PARITY_LINES))
    parity = check_parity(
        reference,
        CTranslate2Client(exact, stops_early=False),
        sources,
        exact_settings(job.settings, sources),
        library="CTranslate2",
        num_compared=job.settings.beam_size,
        marks=job.marks,
    )
    say(parity.describe())
    if not is_exact:
        remove_folder(exact)
    say(f"{job.quantization}: translating {len(job.lines)} lines with both engines")
    comparison = compare_engines(
        reference,
        CTranslate2Client(folder),
        job.loaded.tokenizer,
        job.lines,
        job.references,
        settings=job.settings,
        evaluation=job.evaluation,
        marks=job.marks,
    )
    for line in comparison.describe():
        say(line)
    check_quality(comparison, job.quantization)
    return parity, comparison


def _convert(job: _Job, folder: Path, quantization: str) -> None:
    folder.mkdir()
    tokenizer = job.loaded.tokenizer
    wanted = job.settings.max_source_tokens + job.settings.max_extra_tokens
    write_ctranslate2(
        job.loaded.translator,
        folder,
        pieces=(tokenizer.source_vocabulary.pieces, tokenizer.target_vocabulary.pieces),
        max_tokens=max(_MIN_POSITIONS, wanted),
        quantization=quantization,
        alignment_head=job.alignment_head,
    )


def choose_lines(
    tokenizer: SubwordTokenizer,
    lines: Sequence[str],
    references: Sequence[str],
    max_source_tokens: int,
) -> tuple[list[str], list[str]]:
    """Returns lines that are neither blank nor too long, evenly spread, and their references."""
    if references and len(references) != len(lines):
        raise MtkitError(f"{len(lines):,} lines, but {len(references):,} references")
    lengths = [len(tokens) for tokens in tokenizer.encode_source(lines)]
    usable = [
        index
        for index, (line, length) in enumerate(zip(lines, lengths, strict=True))
        if line.strip() and 1 < length <= max_source_tokens
    ]
    if not usable:
        raise MtkitError(
            "no lines to compare the engines on: all are blank or too long "
            f"(inference.max_source_tokens = {max_source_tokens})",
            "give a file of sentences with --lines FILE",
        )
    indices = spread_items(usable, _MAX_LINES)
    return (
        [lines[index] for index in indices],
        [references[index] for index in indices] if references else [],
    )
