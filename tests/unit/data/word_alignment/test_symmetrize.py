from mtkit.data.word_alignment.symmetrize import grow_diag_final_and


def test_grow_diag_final_and_step_by_step() -> None:
    # By hand, after Koehn et al. 2003: (0,0) is in both; (1,1) is reached from it diagonally, from
    # there (2,1), whose source word is free, and then (2,2), whose target word is; (4,4) is far
    # off, and added by final-and as both of its words are free; (4,3) isn't, since 4 has a link.
    first = {(0, 0), (1, 1), (2, 1), (4, 4)}
    second = {(0, 0), (2, 2), (4, 3)}
    assert grow_diag_final_and(first, second) == {(0, 0), (1, 1), (2, 1), (2, 2), (4, 4)}


def test_a_neighbour_with_one_free_word_is_taken() -> None:
    # (0,1): source word 0 has a link already, target word 1 has none.
    assert grow_diag_final_and({(0, 0), (0, 1)}, {(0, 0)}) == {(0, 0), (0, 1)}


def test_a_neighbour_without_a_free_word_is_not() -> None:
    both = {(0, 0), (1, 1)}
    assert grow_diag_final_and(both, both | {(0, 1)}) == both


def test_without_anything_in_both() -> None:
    assert grow_diag_final_and({(0, 1)}, {(1, 0)}) == {(0, 1), (1, 0)}
    assert grow_diag_final_and(set(), set()) == set()
