"""Where tags go, by alignments made by hand."""

import itertools
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from mtkit.documents.placement import PlacedTag, TagPlacer


def place(
    num_source: int, num_target: int, links: list[tuple[int, int]], *marks: PlacedTag
) -> None:
    TagPlacer(num_source, num_target, links).place(list(marks))


def test_an_element_goes_to_the_words_that_its_words_stand_for() -> None:
    # the red house / la maison rouge
    mark = PlacedTag(1, 2)
    place(3, 3, [(0, 0), (1, 2), (2, 1)], mark)
    assert mark.target == (2, 3)


def test_an_unlinked_word_is_taken_along_in_the_middle_but_not_at_an_end() -> None:
    # fire brigade / le corps de pompiers, where "le" and "de" stand for nothing
    mark = PlacedTag(0, 2)
    place(2, 4, [(0, 3), (1, 1)], mark)
    assert mark.target == (1, 4)


def test_a_word_that_a_wrong_link_has_far_away_is_left_out() -> None:
    mark = PlacedTag(0, 2)
    place(6, 6, [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4), (0, 5)], mark)
    assert mark.target == (0, 2)


def test_an_inner_element_stays_inside_its_outer_one() -> None:
    inner = PlacedTag(1, 2)
    outer = PlacedTag(0, 2, [inner])
    place(4, 4, [(0, 0), (1, 3), (2, 1), (3, 2)], outer)
    assert outer.target[0] <= inner.target[0] < inner.target[1] <= outer.target[1]


def test_a_tag_without_text_goes_where_fewest_links_cross() -> None:
    # between the first and the second half, which change places: after "b a", before "d c"
    void = PlacedTag(2, 2)
    place(4, 4, [(0, 1), (1, 0), (2, 3), (3, 2)], void)
    assert void.target == (2, 2)


def test_an_element_without_links_still_gets_a_word() -> None:
    mark = PlacedTag(1, 2)
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
    marks = [PlacedTag(first, last) for first, last in itertools.pairwise(edges)]
    voids = [PlacedTag(edge, edge) for edge in edges]
    outer = PlacedTag(0, num_source, [*marks, *voids])
    place(num_source, num_target, links, outer)
    for mark in outer.children:
        assert 0 <= outer.target[0] <= mark.target[0] <= mark.target[1] <= outer.target[1]
    for one, other in itertools.combinations(outer.children, 2):
        assert (
            one.target[1] <= other.target[0]
            or other.target[1] <= one.target[0]
            or (one.target[0] == one.target[1] or other.target[0] == other.target[1])
        )


Words = list[tuple[int, int]]


@st.composite
def make_links(draw: st.DrawFn) -> tuple[int, int, Words]:
    """Returns the number of words of a source and of its translation, and links between them."""
    num_source, num_target = draw(st.integers(1, 8)), draw(st.integers(1, 8))
    pairs = st.tuples(st.integers(0, num_source - 1), st.integers(0, num_target - 1))
    return num_source, num_target, draw(st.lists(pairs, max_size=16, unique=True))


def weigh(links: Words, words: tuple[int, int], target: int) -> Fraction:
    """Returns what a target word says for an element: the rule of the module's docstring."""
    linked = [source for source, other in links if other == target]
    if not linked:
        return Fraction(-1, 100)
    inside = sum(words[0] <= source < words[1] for source in linked)
    return Fraction(inside, len(linked)) if inside else Fraction(-1)


@given(make_links(), st.data())
def test_elements_get_the_best_run_that_others_leave(
    made: tuple[int, int, Words], data: st.DataObject
) -> None:
    num_source, num_target, links = made
    edge = data.draw(st.integers(0, num_source))
    marks = [
        mark for mark in (PlacedTag(0, edge), PlacedTag(edge, num_source)) if mark.first < mark.last
    ]
    place(num_source, num_target, links, *marks)
    taken: set[int] = set()
    spans = [(mark.first, mark.last) for mark in marks]
    weights = [[weigh(links, span, at) for at in range(num_target)] for span in spans]
    # The one with more evidence chooses first, the first of two with as much.
    evidence = [sum(weight for weight in of_one if weight > 0) for of_one in weights]
    for which in sorted(range(len(marks)), key=lambda index: -evidence[index]):
        free = [
            range(first, last)
            for first, last in itertools.combinations(range(num_target + 1), 2)
            if taken.isdisjoint(range(first, last))
        ]
        sums = {run: sum(weights[which][at] for at in run) for run in free}
        chosen = range(*marks[which].target)
        if sums and max(sums.values()) > 0:
            assert sums[chosen] == max(sums.values())
        else:
            assert len(chosen) == bool(free)
        taken.update(chosen)


@given(make_links(), st.data())
def test_tags_without_text_go_to_the_gaps_that_fewest_links_cross(
    made: tuple[int, int, Words], data: st.DataObject
) -> None:
    num_source, num_target, links = made
    words = sorted(data.draw(st.tuples(st.integers(0, num_source), st.integers(0, num_source))))
    gaps = st.lists(st.integers(0, num_source), min_size=1, max_size=4)
    voids = [PlacedTag(gap, gap) for gap in sorted(data.draw(gaps))]
    around = PlacedTag(*words, [PlacedTag(words[0], words[0]), PlacedTag(words[1], words[1])])
    elements = [around] if words[0] < words[1] else []
    place(num_source, num_target, links, *elements, *voids)
    inside = range(around.target[0] + 1, around.target[1])
    everywhere = [gap for gap in range(num_target + 1) if gap not in inside]
    within = range(around.target[0], around.target[1] + 1)
    checked = [(void, everywhere) for void in voids]
    checked += [(void, list(within)) for void in around.children if elements]
    for void, allowed in checked:
        counts = {
            gap: sum((source < void.first) != (target < gap) for source, target in links)
            for gap in allowed
        }
        assert void.target[0] == void.target[1]
        assert counts[void.target[0]] == min(counts.values())


def test_of_gaps_that_equally_few_links_cross_the_one_beside_its_word_is_taken() -> None:
    # One link, of the last source word to the second of four: no link crosses the gaps 0 and 1.
    before, behind = PlacedTag(2, 2), PlacedTag(3, 3, follows=True)
    place(3, 4, [(2, 1)], before, behind)
    assert (before.target, behind.target) == ((1, 1), (2, 2))


def test_of_gaps_that_are_as_good_the_nearest_by_its_share_is_taken() -> None:
    # Nothing is linked: half of the source is before it, so half of the four words are.
    void = PlacedTag(1, 1)
    place(2, 4, [], void)
    assert void.target == (2, 2)


def test_an_element_that_no_word_is_left_for_goes_to_a_gap_with_all_that_it_holds() -> None:
    inner = [PlacedTag(2, 2), PlacedTag(2, 3)]
    crowded = PlacedTag(2, 3, inner)
    place(3, 2, [(0, 0), (1, 1)], PlacedTag(0, 1), PlacedTag(1, 2), crowded)
    assert crowded.target == (2, 2)
    assert [mark.target for mark in inner] == [(2, 2), (2, 2)]


def test_tags_of_thousands_of_words_go_with_them_when_all_change_places() -> None:
    # Time that grows with the square would take a minute here.
    count = 10_000
    links = [(index, count - 1 - index) for index in range(count)]
    elements = [PlacedTag(index, index + 1) for index in range(count)]
    place(count, count, links, *elements)
    assert all(mark.target == (count - mark.last, count - mark.first) for mark in elements)
    voids = [PlacedTag(index, index) for index in range(1, count, 7)]
    place(count, count, [(index, index) for index in range(count)], *voids)
    assert all(void.target == (void.first, void.first) for void in voids)


def test_elements_inside_one_another_without_end_share_their_words() -> None:
    root = mark = PlacedTag(0, 2)
    for _ in range(5_000):
        mark.children = [PlacedTag(0, 2)]
        mark = mark.children[0]
    mark.children = [PlacedTag(1, 1)]
    place(4, 4, [(0, 2), (1, 3), (2, 0), (3, 1)], root)
    assert mark.target == (2, 4)
    assert mark.children[0].target == (3, 3)


def test_words_that_are_linked_to_a_sign_alone_get_a_word_if_one_is_free() -> None:
    # read this guide . / das lesen .  The guide is only linked to the full stop.
    signs = (["", "", "", "end"], ["", "", "end"])
    for links, expected in (
        # "das" is linked to nothing, and then to "this".
        ([(0, 1), (2, 2)], (0, 1)),
        ([(0, 1), (1, 0), (2, 2)], (1, 2)),
    ):
        mark = PlacedTag(2, 3)
        TagPlacer(4, 3, links, signs).place([mark])
        assert mark.target == expected
    # Without a word, the sign is better than nothing.
    mark = PlacedTag(2, 3)
    TagPlacer(4, 1, [(2, 0)], (signs[0], ["end"])).place([mark])
    assert mark.target == (0, 1)
