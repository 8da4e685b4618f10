"""Where tags go, by alignments made by hand."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from mtkit.documents.placement import Mark, Placer


def place(num_source: int, num_target: int, links: list[tuple[int, int]], *marks: Mark) -> None:
    Placer(num_source, num_target, links).place(list(marks))


def test_an_element_goes_to_the_words_that_its_words_stand_for() -> None:
    # the red house / la maison rouge
    mark = Mark(1, 2)
    place(3, 3, [(0, 0), (1, 2), (2, 1)], mark)
    assert mark.target == (2, 3)


def test_an_unlinked_word_is_taken_along_in_the_middle_but_not_at_an_end() -> None:
    # fire brigade / le corps de pompiers, where "le" and "de" stand for nothing
    mark = Mark(0, 2)
    place(2, 4, [(0, 3), (1, 1)], mark)
    assert mark.target == (1, 4)


def test_a_word_that_a_wrong_link_has_far_away_is_left_out() -> None:
    mark = Mark(0, 2)
    place(6, 6, [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4), (0, 5)], mark)
    assert mark.target == (0, 2)


def test_an_inner_element_stays_inside_its_outer_one() -> None:
    inner = Mark(1, 2)
    outer = Mark(0, 2, [inner])
    place(4, 4, [(0, 0), (1, 3), (2, 1), (3, 2)], outer)
    assert outer.target[0] <= inner.target[0] < inner.target[1] <= outer.target[1]


def test_a_tag_without_text_goes_where_fewest_links_cross() -> None:
    # between the first and the second half, which change places: after "b a", before "d c"
    void = Mark(2, 2)
    place(4, 4, [(0, 1), (1, 0), (2, 3), (3, 2)], void)
    assert void.target == (2, 2)


def test_an_element_without_links_still_gets_a_word() -> None:
    mark = Mark(1, 2)
    place(3, 3, [(0, 0), (2, 2)], mark)
    assert mark.target == (1, 2)


@given(
    st.integers(1, 8),
    st.integers(0, 8),
    st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7))),
    st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=4),
)
def test_places_are_in_the_text_and_never_cross(
    num_source: int,
    num_target: int,
    links: list[tuple[int, int]],
    spans: list[tuple[int, int]],
) -> None:
    links = [pair for pair in links if pair[0] < num_source and pair[1] < num_target]
    edges = sorted({min(edge, num_source) for span in spans for edge in span})
    marks = [Mark(first, last) for first, last in itertools.pairwise(edges)]
    voids = [Mark(edge, edge) for edge in edges]
    outer = Mark(0, num_source, [*marks, *voids])
    place(num_source, num_target, links, outer)
    for mark in outer.children:
        assert 0 <= outer.target[0] <= mark.target[0] <= mark.target[1] <= outer.target[1]
    for one, other in itertools.combinations(outer.children, 2):
        assert (
            one.target[1] <= other.target[0]
            or other.target[1] <= one.target[0]
            or (one.target[0] == one.target[1] or other.target[0] == other.target[1])
        )
