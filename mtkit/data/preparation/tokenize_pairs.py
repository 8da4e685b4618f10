"""Makes tokens from pairs, with augmented examples and links between tokens."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import compress
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mtkit.data.augmentation.aligned_terms import TermLexicon
from mtkit.data.augmentation.augment import Augmenter, Links
from mtkit.data.batches.length_order import build_order
from mtkit.data.batches.ragged import Ragged
from mtkit.data.batches.token_store import ALIGNMENT_COLUMN as TOKEN_LINKS
from mtkit.data.batches.token_store import PAIR_COLUMNS, TokenStoreWriter, make_batch
from mtkit.data.preparation.cleaned_block import NUM_SAMPLES, shorten_row
from mtkit.data.preparation.piece_links import WordPieces, link_pieces
from mtkit.data.preparation.stage import LEXICON_FILE, Preparation, needs_alignments
from mtkit.data.preparation.text_store import (
    ALIGNMENT_COLUMN,
    LINE_COLUMN,
    TextPart,
    TextStore,
    pack_stored,
)
from mtkit.data.preparation.tokenized import ColumnCounts, TokenizedPart, count_unknown
from mtkit.data.tokenizer_choice import has_language_pieces
from mtkit.data.word_alignment.word_table import find_aligned_words
from mtkit.errors import MtkitError, suggest
from mtkit.recipe.augment import Augment
from mtkit.recipe.tokenizer import SubwordSampling
from mtkit.storage import describe_location
from mtkit.text.languages import NO_MARKS, LanguageTokens, find_language
from mtkit.text.sentencepiece_segmenter import Resegment
from mtkit.text.tokenizer import SubwordTokenizer
from mtkit.text.words import FindWords, find_between_spaces

_SAMPLED_PER_PART = 100
"""Sentences of each part whose growth through subword sampling is measured."""


@dataclass(frozen=True)
class TokenizingJob:
    """The settings of a worker process that tokenises parts of a text store; picklable.

    Attributes:
        tags: The tag of each training corpus; empty if it has none.
        languages: Source and target.
        max_tokens: Maximum length of either side, tag and `</s>` counted.
        sampling: How training samples segmentations, if it does.
        seed: Seed for measuring the samples' growth.
        alignments: Folder of the store of the pairs' alignments, if any.
        stores_links: Whether the links between tokens are stored.
        names_alignments: For each corpus, whether its links are its own, between spaces.
        lexicon: File of terms from alignments; None with a dictionary.
        files: The file of each corpus, for the list of dropped rows.
    """

    text: Path
    tokenizer: Path
    tags: tuple[str, ...]
    languages: tuple[str, str]
    max_tokens: int
    sampling: SubwordSampling | None
    seed: int
    alignments: Path | None = None
    stores_links: bool = False
    names_alignments: tuple[bool, ...] = ()
    augment: Augment | None = None
    lexicon: Path | None = None
    files: tuple[str, ...] = ()


class PairTokenizer:
    """Tokenises parts of a text store of pairs; created once per process."""

    def __init__(self, job: TokenizingJob) -> None:
        self._job = job
        self._text = TextStore(job.text)
        self._tokenizer = SubwordTokenizer.load(job.tokenizer)
        self._resegmenters: dict[str, Resegment] = {}
        if job.sampling is not None:
            self._resegmenters = {
                column: self._tokenizer.resegmenter(column, job.sampling.alpha)
                for column in PAIR_COLUMNS
            }
        self._augmenter = None
        if job.augment is not None:
            lexicon = None if job.lexicon is None else TermLexicon.load(job.lexicon)
            self._augmenter = Augmenter(job.augment, job.seed, lexicon, languages=job.languages)
        self._widths = choose_widths(self._tokenizer)
        self._marks = find_marks(self._tokenizer, job.languages)
        self._alignments = None if job.alignments is None else TextStore(job.alignments)
        self._pieces = WordPieces(self._tokenizer, self._marks)
        if self._marks.behind and job.sampling is not None:
            raise MtkitError(
                "tokenizer.sampling doesn't work with this vocabulary, whose sources have their "
                "language token after </s>",
                "remove the section: --set '~tokenizer.sampling'",
            )

    def __call__(self, part: TextPart) -> TokenizedPart:
        """Returns the tokens of a part."""
        unique = self._text.read_unique(part)
        text: dict[str, list[str]] = unique.select(PAIR_COLUMNS).to_pydict()
        kinds: list[str] = []
        links = self._read_links(part)
        if self._augmenter is not None:
            added = self._augmenter.augment(text["source"], text["target"], links)
            kinds = added.kinds
            text = {
                "source": text["source"] + added.sources,
                "target": text["target"] + added.targets,
            }
        tag = self._job.tags[part.corpus]
        tokens = {
            column: Ragged.of(
                mark(
                    self._tokenizer.tokenize(column, lines, tag=tag if column == "source" else ""),
                    self._marks,
                    column,
                )
            )
            for column, lines in text.items()
        }
        is_short = find_short(tokens, self._job.max_tokens)
        # An augmented example can be too long where its pair isn't: it is dropped then.
        is_kept, is_added = np.split(is_short, [unique.num_rows])
        too_long = unique.filter(pa.array(~is_kept))
        if not is_short.all():
            tokens = keep(tokens, is_short)
            text = {column: list(compress(lines, is_short)) for column, lines in text.items()}
        columns, widths = tokens, self._widths
        if self._job.stores_links:
            assert links is not None
            # Augmented examples have other words, and no links.
            lines = list(compress([*links.lines, *("" for _ in kinds)], is_short))
            aligned = self._link(Links(lines, links.find_words), text, tokens)
            columns, widths = (
                {**tokens, TOKEN_LINKS: aligned},
                with_links(widths, self._job.max_tokens),
            )
        return TokenizedPart(
            corpus=part.corpus,
            content=make_batch(columns, widths),
            num_kept=int(np.count_nonzero(is_kept)),
            num_too_long=too_long.num_rows,
            too_long=[
                shorten_row(row[LINE_COLUMN], row)
                for row in too_long.slice(0, NUM_SAMPLES).to_pylist()
            ],
            dropped=pack_stored("max_tokens", self._job.files[part.corpus], too_long, PAIR_COLUMNS),
            counts={column: self._count(column, tokens[column], text[column]) for column in tokens},
            augmented=Counter(compress(kinds, is_added)),
        )

    def _read_links(self, part: TextPart) -> Links | None:
        """Returns the links of a part's pairs; None if pairs aren't aligned."""
        if self._alignments is None:
            return None
        found = self._alignments.read_unique(part)
        find_words = choose_words(is_own=self._job.names_alignments[part.corpus])
        return Links(found.column(ALIGNMENT_COLUMN).to_pylist(), find_words)

    def _link(
        self, links: Links, text: Mapping[str, Sequence[str]], tokens: Mapping[str, Ragged]
    ) -> Ragged:
        """Returns the links between the tokens of each pair, from those between its words."""
        words = [
            [
                self._pieces.find(column, line, sentence, links.find_words) if each else []
                for each, line, sentence in zip(
                    links.lines, text[column], tokens[column].to_lists(), strict=True
                )
            ]
            for column in PAIR_COLUMNS
        ]
        return Ragged.of([link_pieces(*row) for row in zip(links.lines, *words, strict=True)])

    def _count(self, column: str, tokens: Ragged, lines: Sequence[str]) -> ColumnCounts:
        best = sampled = 0
        if self._resegmenters:
            first = tokens.lengths[:_SAMPLED_PER_PART]
            sentences = Ragged(tokens.tokens[: first.sum()], first).to_lists()
            draw, random = self._resegmenters[column], Random(self._job.seed)
            best = int(first.sum())
            sampled = sum(len(draw(sentence, random)) for sentence in sentences)
        return ColumnCounts(
            lengths=np.bincount(tokens.lengths, minlength=self._job.max_tokens + 1),
            pieces=np.bincount(tokens.tokens, minlength=self._widths[column]),
            unknown=count_unknown(self._tokenizer, column, tokens, lines),
            best_tokens=best,
            sampled_tokens=sampled,
        )


def choose_words(*, is_own: bool) -> FindWords:
    """Returns what finds the words that links count: a corpus's own, or the aligner's."""
    return find_between_spaces if is_own else find_aligned_words


def find_marks(tokenizer: SubwordTokenizer, languages: tuple[str, str]) -> LanguageTokens:
    """Returns the tokens of a recipe's languages; none if the vocabulary has no such tokens."""
    if not tokenizer.has_language_pieces:
        return NO_MARKS
    assert tokenizer.languages is not None
    codes = tuple(tokenizer.languages.target)
    found = [find_language(code, codes) for code in languages]
    for key, code, known in zip(("source", "target"), languages, found, strict=True):
        if not known:
            raise MtkitError(
                f"data.{key}_language = {code}: not one of the {len(codes):,} languages of the "
                "vocabulary that training starts from" + suggest(code, codes),
                f"name one that is: {', '.join(codes[:10])}, ...",
            )
    return tokenizer.mark_languages(*found)


def mark(sentences: Sequence[list[int]], marks: LanguageTokens, column: str) -> Sequence[list[int]]:
    """Returns the tokens of a column's sentences with those of its language."""
    if column == "source" and (marks.before or marks.behind):
        return [[*marks.before, *sentence, *marks.behind] for sentence in sentences]
    if column == "target" and marks.begin:
        return [[*marks.begin, *sentence] for sentence in sentences]
    return sentences


def choose_widths(tokenizer: SubwordTokenizer) -> dict[str, int]:
    """Returns the vocabulary size that each column of a token store must allow."""
    sizes = tokenizer.vocab_sizes
    # Both sides as wide as the larger one, as in existing stores.
    return dict.fromkeys(sizes, max(sizes.values()))


def with_links(widths: Mapping[str, int], max_tokens: int) -> dict[str, int]:
    """Returns the columns of a store of aligned pairs."""
    return {**widths, TOKEN_LINKS: max_tokens}


def find_short(tokens: Mapping[str, Ragged], max_tokens: int) -> NDArray[np.bool_]:
    """Returns which rows have at most `max_tokens` in all columns, [rows]."""
    lengths = [column.lengths for column in tokens.values()]
    is_short: NDArray[np.bool_] = np.max(lengths, axis=0) <= max_tokens
    return is_short


def keep(tokens: Mapping[str, Ragged], is_kept: NDArray[np.bool_]) -> dict[str, Ragged]:
    """Returns the tokens of the kept rows."""
    return {
        column: Ragged(found.tokens[np.repeat(is_kept, found.lengths)], found.lengths[is_kept])
        for column, found in tokens.items()
    }


class PairStore:
    """Writes the tokens of pairs into an empty folder."""

    def __init__(self, folder: Path, preparation: Preparation, tokenizer: SubwordTokenizer) -> None:
        self._folder, self._max_tokens = folder, preparation.data.cleaning.max_tokens
        widths = choose_widths(tokenizer)
        if preparation.recipe.training.guided_alignment is not None:
            widths = with_links(widths, self._max_tokens)
        self._writer = TokenStoreWriter(folder, widths)
        self._num_kept = self._num_too_long = 0

    def __enter__(self) -> "PairStore":
        self._writer.__enter__()
        return self

    def add(self, part: TokenizedPart) -> None:
        """Adds the next part."""
        self._writer.append(part.content, corpus=part.corpus)
        self._num_kept += part.num_kept
        self._num_too_long += part.num_too_long

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        self._writer.__exit__(kind, *rest)
        if kind is not None:
            return
        if not self._num_kept:
            raise MtkitError(
                f"data.train: no pairs left: all {self._num_too_long:,} that passed the filters "
                f"are longer than data.cleaning.max_tokens = {self._max_tokens}",
                "raise it, or increase tokenizer.vocab_size",
            )
        build_order(self._folder, PAIR_COLUMNS)

    def describe(self, corpus: int) -> dict[str, int]:
        """Returns nothing: pairs have neither documents nor blocks."""
        del corpus
        return {}


def build_pair_tokenizer(preparation: Preparation) -> Callable[[], PairTokenizer]:
    """Returns a picklable factory of a tokenizer for a recipe's pairs."""
    recipe, data, draft = preparation.recipe, preparation.data, preparation.draft
    job = TokenizingJob(
        text=preparation.text,
        tokenizer=preparation.tokenizer,
        tags=tuple(corpus.tag for corpus in data.train),
        languages=data.languages,
        max_tokens=data.cleaning.max_tokens,
        sampling=recipe.tokenizer.sampling,
        seed=recipe.seed,
        alignments=draft / "alignment" if needs_alignments(preparation) else None,
        stores_links=recipe.training.guided_alignment is not None,
        names_alignments=data.names_alignments,
        augment=data.augment,
        lexicon=draft / "terms" / LEXICON_FILE if data.aligns_terms else None,
        files=preparation.files,
    )
    return partial(PairTokenizer, job)


def list_pair_inputs(preparation: Preparation) -> list[Any]:
    """Returns what the tokens of pairs depend on apart from the text and the tokenizer."""
    recipe, data, found = preparation.recipe, preparation.data, preparation.found
    kept, sampling = preparation.choice.reused_folder, recipe.tokenizer.sampling
    # Data without joined pairs keep their key.
    absent = {"joined"} if data.augment is None or data.augment.joined is None else None
    terms: list[Any] = [] if data.dictionary is None else [describe_location(data.dictionary)]
    if "terms" in found:
        # Alignments may be read for terms only, or also be a column of the store.
        terms = [found["terms"]["digest"], recipe.training.guided_alignment is not None]
    return [
        [corpus.tag for corpus in data.train],
        *([list(data.languages)] if kept is not None and has_language_pieces(kept) else []),
        data.cleaning.max_tokens,
        sampling and preparation.dump(sampling),
        *([found["alignment"]["digest"]] if "alignment" in found else []),
        *([] if data.augment is None else [preparation.dump(data.augment, absent), recipe.seed]),
        *([] if absent else [list(data.languages)]),
        *terms,
    ]
