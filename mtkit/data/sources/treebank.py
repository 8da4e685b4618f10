"""A treebank as pairs: a sentence, and its tree as symbols."""

from collections.abc import Iterator

from mtkit.data.sources.blocks import Block, ReadSettings, group_rows
from mtkit.data.sources.lines import BYTE_ORDER_MARK, LineReader, check_has_content
from mtkit.recipe.parsing import Linearization, TreeCorpus
from mtkit.text.trees.brackets import Tree, escape, linearize, read_trees, simplify

_LINES_AT_ONCE = 1_024


def read_tree_blocks(
    corpus: TreeCorpus, form: Linearization, reading: ReadSettings
) -> Iterator[Block]:
    """Yields the trees of a treebank in blocks, each as its words and as its symbols.

    A tree of traces alone has neither, and counts as skipped.

    Args:
        corpus: The treebank.
        form: What a tree looks like as a target.
        reading: How it is read; a pair is a tree.

    Raises:
        MtkitError: A file that is missing, empty or damaged; brackets that don't match.
    """
    yield from group_rows(_read_rows(corpus, form), str(corpus.trees), reading)


def read_treebank(corpus: TreeCorpus) -> Iterator[Tree]:
    """Yields the trees of a treebank, simplified; words keep bytes that are invalid UTF-8.

    Raises:
        MtkitError: As `read_tree_blocks`.
    """
    check_has_content(corpus.trees)
    with LineReader.open(corpus.trees) as reader:
        yield from map(simplify, read_trees(_decode(reader), reader.name))


def _read_rows(corpus: TreeCorpus, form: Linearization) -> Iterator[tuple[bytes, bytes] | None]:
    for tree in read_treebank(corpus):
        source = " ".join(map(escape, tree.words))
        target = " ".join(linearize(tree, form))
        yield (_encode(source), _encode(target)) if source else None


def _decode(reader: LineReader) -> Iterator[str]:
    """Yields lines; brackets can be read whatever the words are encoded in."""
    is_first = True
    while lines := reader.take(_LINES_AT_ONCE):
        for line in lines:
            text = line.decode("utf-8", errors="surrogateescape")
            yield text.removeprefix(BYTE_ORDER_MARK) if is_first else text
            is_first = False


def _encode(text: str) -> bytes:
    return text.encode("utf-8", errors="surrogateescape")
