"""Encodes, joins and cuts texts to be labelled; doesn't load torch."""

from collections.abc import Sequence

from mtkit.data.batches.ragged import Ragged
from mtkit.text.token_ids import EOS
from mtkit.text.tokenizer import SubwordTokenizer


def encode_texts(
    tokenizer: SubwordTokenizer,
    texts: Sequence[str],
    seconds: Sequence[str] | None,
    *,
    max_tokens: int,
) -> Ragged:
    """Returns a row of tokens for each text or pair (`join_rows`)."""
    return join_rows(
        tokenizer.encode_source(texts),
        None if seconds is None else tokenizer.encode_source(seconds),
        max_tokens=max_tokens,
    )


def join_rows(
    texts: Sequence[Sequence[int]],
    seconds: Sequence[Sequence[int]] | None,
    *,
    max_tokens: int,
) -> Ragged:
    """Returns a row for each text or pair, cut so that it fits together with `<s>`.

    Texts are closed by `</s>`. In a pair, the longer text loses its last tokens first; if both are
    equally long, the second does (as in BERT's code). `max_tokens` counts `<s>` and is at least 3.
    """
    if seconds is None:
        return Ragged.of([[*text[: max_tokens - 2], EOS] for text in map(_open, texts)])
    room = max_tokens - 3
    rows = []
    for first, second in zip(map(_open, texts), map(_open, seconds), strict=True):
        # The shorter one stays whole up to half of the available tokens.
        kept = min(len(first), max(room - len(second), room - room // 2))
        rows.append([*first[:kept], EOS, *second[: room - kept], EOS])
    return Ragged.of(rows)


def _open(tokens: Sequence[int]) -> Sequence[int]:
    """Returns tokens without their `</s>`."""
    return tokens[:-1]
