"""Translators of tests: they need no model, and know their own alignments."""

from collections.abc import Sequence

from mtkit.documents.atoms import find_atoms
from mtkit.documents.document import LanguageCodes, TranslatedText
from mtkit.documents.translate_file import translate_markup


def keep_text(texts: Sequence[str]) -> list[TranslatedText]:
    """Translates into the text itself; each word stands for itself."""
    return [
        TranslatedText(text, tuple((atom, atom) for atom in find_atoms(text))) for text in texts
    ]


def keep_text_without_links(texts: Sequence[str]) -> list[TranslatedText]:
    return [TranslatedText(text) for text in texts]


def reverse_words(texts: Sequence[str]) -> list[TranslatedText]:
    """Translates into the same words in capitals, the last first."""
    translated = []
    for text in texts:
        atoms = find_atoms(text)
        words = [text[start:end].upper() for start, end in atoms][::-1]
        places, start = [], 0
        for word in words:
            places.append((start, start + len(word)))
            start += len(word) + 1
        links = tuple(zip(atoms, places[::-1], strict=True))
        translated.append(TranslatedText(" ".join(words), links))
    return translated


def take_all(texts: Sequence[str], seen: list[str]) -> list[TranslatedText]:
    """Translates nothing, and notes what it was asked for."""
    seen += texts
    return keep_text(texts)


def read_texts(page: str, form: str) -> tuple[list[str], str]:
    """Returns the texts that a translator sees of a document, and the document in capitals."""
    seen: list[str] = []

    def translate(texts: Sequence[str]) -> list[TranslatedText]:
        seen.extend(texts)
        return [TranslatedText(text.upper()) for text in texts]

    return seen, translate_markup(page, form, translate, LanguageCodes("en", "de"))
