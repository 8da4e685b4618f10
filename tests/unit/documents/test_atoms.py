"""Links between atoms, by hand."""

from mtkit.documents.atoms import AtomIndex, find_atoms, link_atoms


def test_equal_atoms_of_linked_words_are_linked_to_each_other_in_order() -> None:
    source, target = "a.b.", "b.a."
    atoms = AtomIndex(find_atoms(source)), AtomIndex(find_atoms(target))
    links = link_atoms(source, target, atoms, [((0, 4), (0, 4))])
    assert links == [(0, 2), (1, 1), (2, 0), (3, 3)]


def test_other_atoms_of_linked_words_are_linked_words_to_words_and_signs_to_signs() -> None:
    source, target = "don't", "ne…pas"
    atoms = AtomIndex(find_atoms(source)), AtomIndex(find_atoms(target))
    links = link_atoms(source, target, atoms, [((0, 5), (0, 6))])
    assert links == [(0, 0), (0, 2), (1, 1), (2, 0), (2, 2)]


def test_a_line_of_signs_has_as_many_links_as_signs() -> None:
    # Each to each would be 60,000.
    source, target = "?" * 300, "!" * 200
    atoms = AtomIndex(find_atoms(source)), AtomIndex(find_atoms(target))
    links = link_atoms(source, target, atoms, [((0, 300), (0, 200))])
    assert len(links) == 300
    assert links[0] == (0, 0)
    assert links[-1] == (299, 199)
    assert links == sorted(links)
    assert {target for _, target in links} == set(range(200))
