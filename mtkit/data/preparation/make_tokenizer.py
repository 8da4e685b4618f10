"""The tokenizer of a recipe: one that is there already, or one trained on its text."""

from collections.abc import Iterable
from pathlib import Path

from mtkit.console import say
from mtkit.data.augmentation.augment import list_copy_symbols
from mtkit.data.batches.text_blocks import TEXT_COLUMNS
from mtkit.data.batches.token_store import PAIR_COLUMNS
from mtkit.data.preparation.facts import TokenizerFacts
from mtkit.data.preparation.text_store import TextStore
from mtkit.data.tokenizer_choice import (
    extends_vocabulary,
    find_source_model,
    find_tokenizer,
    list_own_symbols,
    list_symbols,
    list_tags,
    punctuation_languages,
    read_reused,
    reused_folder,
)
from mtkit.digests import digest_file
from mtkit.recipe import Recipe
from mtkit.text.extend_vocabulary import extend_vocabulary
from mtkit.text.learn_pieces import learn_pieces
from mtkit.text.tokenizer import SubwordTokenizer
from mtkit.text.train_tokenizer import train_tokenizer

_SAMPLE_STREAM = 1


def make_tokenizer(
    recipe: Recipe,
    text_folder: Path,
    num_kept: int,
    folder: Path,
    *,
    left_out: Path | None = None,
) -> TokenizerFacts:
    """Writes the recipe's tokenizer: one that is there, or one trained on a sample of the text.

    Args:
        recipe: Whose tokenizer it is.
        text_folder: The store of its cleaned text.
        num_kept: Pairs or lines there that are selected, and no duplicates.
        folder: An empty folder.
        left_out: File that marks rows that aren't selected; None where all are.

    Raises:
        MtkitError: It can't be read, or the text is too small to train it.
    """
    settings, punctuation = recipe.tokenizer, punctuation_languages(recipe)
    tokenizer, reused = find_tokenizer(recipe, punctuation), reused_folder(recipe)
    if reused is not None and extends_vocabulary(recipe):
        tokenizer = _extend(recipe, reused, _draw_samples(recipe, text_folder, num_kept, left_out))
        num_reused = read_reused(reused, recipe).source_vocab_size
        num_added = tokenizer.source_vocab_size - num_reused
        say(f"extending the vocabulary of {reused}: {num_reused:,} pieces, and {num_added:,} more")
    elif tokenizer is None:
        samples = _draw_samples(recipe, text_folder, num_kept, left_out)
        tokenizer = train_tokenizer(
            settings,
            *samples,
            seed=recipe.seed,
            tags=list_tags(recipe),
            symbols=list_own_symbols(recipe),
            punctuation=punctuation,
            is_trees=recipe.data.is_trees,
            source_model=find_source_model(recipe),
        )
    elif reused is not None:
        num_reused = read_reused(reused, recipe).source_vocab_size
        added = tokenizer.source_vocabulary.pieces[num_reused:]
        addition = f", with {' '.join(added)} added" if added else ""
        say(f"reusing the vocabulary of {reused}{addition}")
    if masks := list_copy_symbols(recipe.data.augment):
        tokenizer = tokenizer.with_masks(masks)
    tokenizer.save(folder)
    return {
        "source_pieces": tokenizer.source_vocab_size,
        "target_pieces": tokenizer.target_vocab_size,
        "joint": tokenizer.is_joint,
        "digest": [digest_file(path) for path in sorted(folder.iterdir())],
    }


def _draw_samples(
    recipe: Recipe, text_folder: Path, num_kept: int, left_out: Path | None
) -> tuple[Iterable[str], Iterable[str]]:
    """Returns sentences of each side, or of the text and none, to train a tokenizer on."""
    store, is_text = TextStore(text_folder, left_out=left_out), recipe.data.is_text
    columns = TEXT_COLUMNS if is_text else PAIR_COLUMNS
    size = min(max(1, recipe.tokenizer.max_training_sentences // len(columns)), num_kept)
    say(f"training the tokenizer on {size:,} {'lines' if is_text else 'pairs'}")
    seed = [recipe.seed, _SAMPLE_STREAM]
    samples = [store.sample(column, size, num_kept, seed=seed) for column in columns]
    return samples[0], () if is_text else samples[1]


def _extend(
    recipe: Recipe, folder: Path, samples: tuple[Iterable[str], Iterable[str]]
) -> SubwordTokenizer:
    """Returns a model folder's tokenizer with pieces of samples, tags, symbols, languages added."""
    tokenizer = read_reused(folder, recipe)
    learned = learn_pieces(tokenizer, recipe.tokenizer, *samples, seed=recipe.seed)
    return extend_vocabulary(
        learned,
        tags=list_tags(recipe),
        symbols=list_symbols(recipe),
        languages=recipe.data.languages,
        punctuation=punctuation_languages(recipe),
    )
