"""Trees to parse by: the corpora, and how a tree becomes what a parser learns to write."""

from typing import ClassVar, Literal

from mtkit.recipe.corpus_files import FileLocation
from mtkit.recipe.section import Section

Linearization = Literal["vinyals", "tensor2tensor"]


class Parsing(Section):
    """Constituency parsing as translation: a sentence's tree is its target.

    Words, function tags and traces aren't part of the target; words come back from the sentence.
    """

    linearization: Linearization = "vinyals"
    """What a tree looks like as a target. `vinyals` (arXiv 1412.7449): `(S (NP XX )NP . )S`, where
    all parts of speech but punctuation are `XX`. `tensor2tensor`, the paper's own code:
    `S NP NNP /NP . /S`, with parts of speech."""


class TreeCorpus(Section):
    """A treebank: sentences with their constituency trees, in Penn Treebank brackets."""

    trees: FileLocation
    """UTF-8 text in brackets, in any layout: a tree a line, or over many lines. A name that ends in
    `.gz`, `.bz2`, `.xz` or `.zst` is decompressed."""

    tag: ClassVar[str] = ""
