"""A treebank as pairs of a sentence and its tree as symbols."""

from collections.abc import Iterator

from mtkit.data.sources.blocks import BYTE_ORDER_MARK
from mtkit.data.sources.lines import LineReader, check_has_content
from mtkit.data.sources.values import RawRows
from mtkit.errors import MtkitError
from mtkit.recipe.parsing import Linearization, TreeCorpus
from mtkit.text.trees.brackets import Tree, escape, linearize, read_trees, simplify

_LINES_AT_ONCE = 1_024


def read_treebank(corpus: TreeCorpus) -> Iterator[Tree]:
    """Yields the trees of a treebank, simplified; words keep bytes that are invalid UTF-8."""
    check_has_content(corpus.trees)
    with LineReader.open(corpus.trees) as reader:
        yield from map(simplify, read_trees(_decode(reader), reader.name))


def read_tree_rows(corpus: TreeCorpus, form: Linearization) -> RawRows:
    """Yields each tree's words and symbols; skips a tree of traces only, which has neither."""
    for number, tree in enumerate(read_treebank(corpus), start=1):
        source = " ".join(map(escape, tree.words))
        try:
            target = " ".join(linearize(tree, form))
        except MtkitError as error:
            raise MtkitError(
                f"{corpus.trees}, tree {number:,}: {error.message}", error.hint
            ) from error
        yield (_encode(source), _encode(target)) if source else None


def _decode(reader: LineReader) -> Iterator[str]:
    """Yields lines; brackets are readable in any encoding of the words."""
    is_first = True
    while lines := reader.take(_LINES_AT_ONCE):
        for line in lines:
            text = line.decode("utf-8", errors="surrogateescape")
            yield text.removeprefix(BYTE_ORDER_MARK) if is_first else text
            is_first = False


def _encode(text: str) -> bytes:
    return text.encode("utf-8", errors="surrogateescape")
