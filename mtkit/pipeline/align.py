"""Entry point of `mtkit align`: aligns translations by a model folder's word aligner."""

from collections.abc import Sequence
from pathlib import Path

from mtkit.errors import MtkitError
from mtkit.inference.learned_aligner import LearnedAligner
from mtkit.inference.request import Request
from mtkit.inference.translation import WordAlignment
from mtkit.model.alignment_head import find_word_aligner
from mtkit.model.config import open_model_folder
from mtkit.text.words import find_words


def align(folder: Path, requests: Sequence[Request], *, together: bool) -> list[WordAlignment]:
    """Returns the links between the words of each line and of its translation, the prefix.

    No network runs. With `together` the aligner also learns from these pairs, so that the links of
    one depend on the others.
    """
    tokenizer = open_model_folder(folder).tokenizer
    path = find_word_aligner(folder)
    if path is None:
        raise MtkitError(
            f"{folder}: no word aligner here",
            "set data.word_aligner = true in the recipe, then run: mtkit run",
        )
    sources, targets = [], []
    for request in requests:
        line, text = request.text.rstrip("\r\n"), request.prefix
        start = len(tokenizer.split_tags(line)[0])
        without_tags = line[start:]
        words = find_words(without_tags, tokenizer.locate("source", without_tags))
        spans = [(first + start, last + start) for first, last in words]
        sources.append((line, spans, (start, len(line))))
        targets.append((text, find_words(text, tokenizer.locate("target", text))))
    return LearnedAligner(path).align(sources, targets, together=together)
