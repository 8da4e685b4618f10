"""Makes the tokenizer of a recipe: an existing one, or one trained on its text."""

from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Any

from mtkit.console import say
from mtkit.data.augmentation.augment import list_copy_symbols
from mtkit.data.batches.numbered_texts import TEXT_COLUMNS
from mtkit.data.batches.token_store import PAIR_COLUMNS
from mtkit.data.preparation.clean_labelled import SECOND_COLUMN
from mtkit.data.preparation.facts import TokenizerFacts
from mtkit.data.preparation.stage import Preparation, Stage
from mtkit.data.preparation.text_store import digest_files
from mtkit.data.prepared import describe_pretrained
from mtkit.data.tokenizer_choice import digest_reused
from mtkit.errors import MtkitError
from mtkit.text.tokenizer import SubwordTokenizer

_SAMPLE_STREAM = 1
_MIN_PIECES = 64


def make_tokenizer(preparation: Preparation, folder: Path) -> TokenizerFacts:
    """Writes the recipe's tokenizer: an existing one, or one trained on a sample of the text."""
    choice = preparation.choice
    tokenizer, reused = choice.find(choice.punctuation_languages), choice.reused_folder
    if choice.extends_vocabulary:
        tokenizer = _learn(preparation)
        num_reused = choice.read_reused().source_vocab_size
        num_added = tokenizer.source_vocab_size - num_reused
        say(f"extending the vocabulary of {reused}: {num_reused:,} pieces, and {num_added:,} more")
    elif tokenizer is None:
        tokenizer = _learn(preparation)
    elif reused is not None:
        num_reused = choice.read_reused().source_vocab_size
        added = tokenizer.source_vocabulary.pieces[num_reused:]
        addition = f", with {' '.join(added)} added" if added else ""
        say(f"reusing the vocabulary of {reused}{addition}")
    if masks := list_copy_symbols(choice.data.augment):
        tokenizer = tokenizer.with_models(
            *tokenizer.models, tokenizer.foreign_rows, unknown=tokenizer.unknown, masks=masks
        )
    tokenizer.save(folder)
    return {
        "source_pieces": tokenizer.source_vocab_size,
        "target_pieces": tokenizer.target_vocab_size,
        "joint": tokenizer.is_joint,
        "digest": digest_files(folder),
    }


def _learn(preparation: Preparation) -> SubwordTokenizer:
    """Returns a tokenizer of the text; in a check, with a smaller vocabulary if necessary."""
    choice, sample = preparation.choice, preparation.sample
    settings = choice.settings
    while True:
        try:
            return choice.learn(*_draw_samples(preparation), settings=settings)
        except MtkitError:
            is_all = sample is None or sample.num_rows == sample.num_chosen
            if is_all or settings.vocab_size < _MIN_PIECES:
                raise
            settings = settings.model_copy(update={"vocab_size": settings.vocab_size // 2})


def _draw_samples(preparation: Preparation) -> tuple[Iterable[str], Iterable[str]]:
    """Returns sentences of each side, or of the text and none, to train a tokenizer on."""
    choice, store, found = preparation.choice, preparation.open_text(), preparation.found
    num_kept, is_text = found.get("selection", found["text"])["kept"], choice.data.is_text
    columns = TEXT_COLUMNS if is_text else PAIR_COLUMNS
    if choice.data.has_pairs_of_texts:
        columns = (*TEXT_COLUMNS, SECOND_COLUMN)
    size = min(max(1, choice.settings.max_training_sentences // len(columns)), num_kept)
    say(f"training the tokenizer on {size:,} {'lines' if is_text else 'pairs'}")
    seed = [choice.seed, _SAMPLE_STREAM]
    samples = [store.sample(column, size, num_kept, seed=seed) for column in columns]
    return (chain(*samples), ()) if is_text else (samples[0], samples[1])


def _depends(preparation: Preparation) -> list[Any]:
    recipe, data, choice = preparation.recipe, preparation.data, preparation.choice
    kept, languages, text = choice.reused_folder, list(data.languages), preparation.describe_text()
    settings = preparation.dump(recipe.tokenizer, {"sampling"})
    if kept is None:
        return [
            text,
            settings,
            # Moses' rules depend on the languages.
            languages,
            [recipe.seed, choice.tags, *choice.own_symbols],
            describe_pretrained(recipe.tokenizer),
            *([SECOND_COLUMN] if data.has_pairs_of_texts else []),
        ]
    depends = [
        digest_reused(kept),
        [choice.tags, choice.symbols, recipe.tokenizer.joint],
        languages,
    ]
    # Both make a vocabulary from the text.
    learns = data.is_trees or choice.extends_vocabulary
    return [*depends, text, settings, recipe.seed] if learns else depends


TOKENIZER = Stage("tokenizer", make_tokenizer, _depends)
