"""Which tokenizer a recipe gets: one that is there already, or one trained on its text."""

from pathlib import Path

from mtkit.console import say
from mtkit.data.preparation.facts import TokenizerFacts
from mtkit.data.preparation.text_store import TextStore
from mtkit.data.reused_vocabulary import choose_punctuation, read_reused, reused_folder
from mtkit.files import digest_file
from mtkit.recipe import Recipe
from mtkit.text.extend_vocabulary import extend_vocabulary
from mtkit.text.sentencepiece_segmenter import read_pretrained
from mtkit.text.tokenizer import SubwordTokenizer
from mtkit.text.train_tokenizer import train_tokenizer

_SAMPLE_STREAM = 1


def list_tags(recipe: Recipe) -> list[str]:
    """Returns the tags that a recipe puts before sources, each once."""
    corpora = (*recipe.data.train, recipe.data.dev, *recipe.evaluation.test_sets)
    return list(dict.fromkeys(corpus.tag for corpus in corpora if corpus.tag))


def choose_languages(recipe: Recipe) -> tuple[str, str] | None:
    """Returns the languages whose punctuation is normalised; None where it stays as it is."""
    if choose_punctuation(recipe) != "moses":
        return None
    return recipe.data.source_language, recipe.data.target_language


def open_given_tokenizer(recipe: Recipe) -> SubwordTokenizer | None:
    """Returns the tokenizer that a recipe reuses or names, with its tags; None where it trains one.

    Raises:
        MtkitError: It isn't there, is damaged, or has no piece for a tag.
    """
    settings, tags, reused = recipe.tokenizer, list_tags(recipe), reused_folder(recipe)
    punctuation = choose_languages(recipe)
    if reused is not None:
        start = read_reused(reused, recipe)
        symbols = settings.user_symbols
        return extend_vocabulary(start, tags=tags, symbols=symbols, punctuation=punctuation)
    if settings.pretrained is not None:
        return SubwordTokenizer(*read_pretrained(settings), tags=tags, punctuation=punctuation)
    return None


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
    settings = recipe.tokenizer
    tokenizer, reused = open_given_tokenizer(recipe), reused_folder(recipe)
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
            punctuation=choose_languages(recipe),
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
