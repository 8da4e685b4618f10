"""Trees drawn at random, by hypothesis."""

from hypothesis import strategies as st

from mtkit.text.trees.brackets import CLOSE, Leaf, Mark, OpenBracket, Tree

LABELS = ["S", "NP", "VP", "PP", "SBAR", "ADVP", "PRN", "X"]
TAGS = ["NN", "DT", "VBZ", "IN", "PRP$", "-LRB-", ",", ".", ":", "``", "''"]
WORDS = ["cat", "the", "sees", "-LRB-", ",", ".", "--", "don't", "日本", "a/b", "1,000"]

leaves = st.builds(
    lambda tag, word: (Leaf(tag, word),),
    st.sampled_from(TAGS),
    st.text(
        alphabet=st.characters(exclude_characters=" \t\r\n\f\v()", exclude_categories=["Cs"]),
        min_size=1,
        max_size=6,
    )
    | st.sampled_from(WORDS),
)


def _join(label: str, children: list[tuple[Mark, ...]]) -> tuple[Mark, ...]:
    return (OpenBracket(label), *(mark for child in children for mark in child), CLOSE)


constituents = st.recursive(
    leaves,
    lambda inner: st.builds(
        _join, st.sampled_from(LABELS), st.lists(inner, min_size=1, max_size=4)
    ),
    max_leaves=20,
)
trees = st.builds(
    lambda label, children: Tree(_join(label, children)),
    st.sampled_from(LABELS),
    st.lists(constituents, min_size=1, max_size=4),
)
"""Trees as a parser learns them: no traces, no function tags, no root."""
