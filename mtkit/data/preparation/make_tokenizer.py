"""The tokenizer of a recipe: one that is there already, or one trained on its text."""

from pathlib import Path

from mtkit.console import say
from mtkit.data.preparation.facts import TokenizerFacts
from mtkit.data.preparation.text_store import TextStore
from mtkit.data.tokenizer_choice import (
    find_tokenizer,
    list_tags,
    punctuation_languages,
    read_reused,
    reused_folder,
)
from mtkit.digests import digest_file
from mtkit.recipe import Recipe
from mtkit.text.train_tokenizer import train_tokenizer

_SAMPLE_STREAM = 1


def make_tokenizer(
    recipe: Recipe, text_folder: Path, num_kept: int, folder: Path
) -> TokenizerFacts:
    """Writes the recipe's tokenizer: one that is there, or one trained on a sample of the text.

    Args:
        recipe: Whose tokenizer it is.
        text_folder: The store of its cleaned text.
        num_kept: Pairs there that are no duplicates.
        folder: An empty folder.

    Raises:
        MtkitError: It can't be read, or the text is too small to train it.
    """
    settings, punctuation = recipe.tokenizer, punctuation_languages(recipe)
    tokenizer, reused = find_tokenizer(recipe, punctuation), reused_folder(recipe)
    if tokenizer is None:
        store = TextStore(text_folder)
        size = min(max(1, settings.max_training_sentences // 2), num_kept)
        say(f"training the tokenizer on {size:,} pairs")
        seed = [recipe.seed, _SAMPLE_STREAM]
        tokenizer = train_tokenizer(
            settings,
            store.sample("source", size, num_kept, seed=seed),
            store.sample("target", size, num_kept, seed=seed),
            seed=recipe.seed,
            tags=list_tags(recipe),
            punctuation=punctuation,
        )
    elif reused is not None:
        num_reused = read_reused(reused, recipe).source_vocab_size
        added = tokenizer.source_vocabulary.pieces[num_reused:]
        addition = f", with {' '.join(added)} added" if added else ""
        say(f"keeping the vocabulary of {reused}{addition}")
    tokenizer.save(folder)
    return {
        "source_pieces": tokenizer.source_vocab_size,
        "target_pieces": tokenizer.target_vocab_size,
        "joint": tokenizer.is_joint,
        "digest": [digest_file(path) for path in sorted(folder.iterdir())],
    }
