"""How a recipe's tokenizer normalises text, and what the report says about it."""

from collections import Counter
from collections.abc import Iterable, Sequence

from mtkit.data.tokenizer_choice import TokenizerChoice
from mtkit.text.normalization import (
    Normalization,
    UnicodeNormalizer,
    punctuation_normalizer,
    read_normalization,
)

_NOTABLE_CHANGES = 0.02
"""Minimum share of targets changed by a rule for a warning. It is at most 0.005 in English, French
and German, and 0.1 to 0.9 in Chinese and Japanese."""
_MAX_EXAMPLES = 5


def choose_normalization(choice: TokenizerChoice) -> tuple[Normalization, Normalization]:
    """Returns how a recipe's tokenizer normalises sources and targets."""
    source_model = choice.find_source_model()
    if source_model is not None:
        return read_normalization(source_model), "identity"
    tokenizer = choice.find()
    if tokenizer is None:
        rule = choice.settings.normalization
        return rule, "identity" if choice.data.is_trees else rule
    source, target = tokenizer.models
    return read_normalization(source), read_normalization(target)


def note_changed_targets(choice: TokenizerChoice, targets: Sequence[str]) -> list[str]:
    """Returns a warning if the model can't write what the targets contain.

    Encoding normalises, and decoding doesn't undo it: a model trained on `，` as `,` writes `,`.
    Spaces don't count.
    """
    if choice.punctuation == "moses":
        targets = punctuation_normalizer(choice.data.target_language)(targets)
    normalization = choose_normalization(choice)[1]
    changed = _list_changed(targets, normalization)
    if len(changed) <= _NOTABLE_CHANGES * len(targets):
        return []
    settings = choice.settings
    if choice.reused_folder is not None:
        remedy = (
            "start from a model with another rule, or set training.start_from.vocabulary = "
            '"new" and tokenizer.normalization = "identity"'
        )
    elif settings.pretrained is not None:
        remedy = "use a model trained with --normalization_rule_name=identity"
    else:
        plain = settings.normalization.removesuffix("_cf")
        is_enough = len(_list_changed(targets, plain)) <= _NOTABLE_CHANGES * len(targets)
        remedy = f'set tokenizer.normalization = "{plain if is_enough else "identity"}"'
    rule = normalization if isinstance(normalization, str) else "a custom rule"
    side, rows, written = (
        ("text", "lines", "text") if choice.data.is_text else ("target", "targets", "translations")
    )
    return [
        f"{side}: the tokenizer's normalisation ({rule}) changes {len(changed):,} of "
        f"{len(targets):,} development {rows} ({_show_changes(changed, normalization)}), and "
        f"{written} will be written that way; to keep them as they are, {remedy}"
    ]


def _list_changed(lines: Sequence[str], normalization: Normalization) -> list[str]:
    """Returns the lines in which normalisation changes more than spaces."""
    normalized = UnicodeNormalizer(normalization).normalize(lines)
    return [
        line
        for line, becomes in zip(lines, normalized, strict=True)
        if "".join(line.split()) != _drop_spaces(becomes)
    ]


def _drop_spaces(normalized: str) -> str:
    return "".join(normalized.replace("▁", " ").split())


def _show_changes(lines: Iterable[str], normalization: Normalization) -> str:
    """Returns the characters that change in most lines, and their replacements."""
    counts = Counter(character for line in lines for character in set(line))
    characters = [character for character, _ in counts.most_common()]
    normalized = map(_drop_spaces, UnicodeNormalizer(normalization).normalize(characters))
    changes = [
        f"{character} to {becomes or 'nothing'}"
        for character, becomes in zip(characters, normalized, strict=True)
        if becomes != character and not character.isspace()
    ]
    return ", ".join(changes[:_MAX_EXAMPLES]) or "by joining characters"
