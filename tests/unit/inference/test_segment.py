import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtkit.inference.paragraphs import choose_gaps, cut_line, join_parts
from mtkit.inference.translation import Hypothesis


def _at_most(length: int):
    return lambda text: len(text) <= length


def cut(line: str, fits) -> list[str]:
    return [line[start:end] for start, end in cut_line(line, fits)]


def test_sentences_are_kept_whole_where_they_fit():
    line = 'He said: "Is it?" Yes! Prices rose by 3.5 percent, e.g. for this one. Then?!'
    assert cut(line, _at_most(80)) == [
        'He said: "Is it?"',
        "Yes!",
        "Prices rose by 3.5 percent, e.g. for this one.",
        "Then?!",
    ]


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        ("你好。再见！“是吗？”是。", ["你好。", "再见！", "“是吗？”", "是。"]),
        ("これは本です。」それも。", ["これは本です。」", "それも。"]),
        ("यह है। वह है।", ["यह है।", "वह है।"]),
        ("هل هذا؟ نعم.", ["هل هذا؟", "نعم."]),
        ("Go on. He.  She.\u3000It.", ["Go on.", "He.", "She.", "It."]),
        ("no end of a sentence", ["no end of a sentence"]),
        ("It was, e.g.  five men. Or six.", ["It was, e.g.  five men.", "Or six."]),
        ("真的。！?是!。对", ["真的。！?", "是!。", "对"]),
    ],
)
def test_sentences_of_many_scripts(line, parts):
    assert cut(line, _at_most(100)) == parts


def test_a_long_sentence_is_cut_at_a_clause_near_its_middle():
    line = "when it rains in the morning, we stay at home and read, or we sleep"
    assert cut(line, _at_most(40)) == [
        "when it rains in the morning,",
        "we stay at home and read, or we sleep",
    ]


def test_without_clauses_it_is_cut_between_words_and_without_words_between_characters():
    assert cut("aaa bbb ccc ddd", _at_most(8)) == ["aaa bbb", "ccc ddd"]
    assert cut("abcdefgh", _at_most(4)) == ["abcd", "efgh"]
    # A letter and its accent, and a family of four with its joiners, are one character each.
    assert cut("e\u0301" * 4, _at_most(4)) == ["e\u0301e\u0301"] * 2
    family = "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466"
    assert cut(family * 2, _at_most(9)) == [family, family]


def test_a_character_with_a_thousand_accents_is_cut_all_the_same():
    parts = cut("a" + "\u0301" * 999, _at_most(300))
    assert "".join(parts) == "a" + "\u0301" * 999
    assert all(len(part) <= 300 for part in parts)


@pytest.mark.parametrize("line", ["." * 100_000, "." + " " * 100_000 + "a", "。" * 100_000])
def test_a_long_run_is_cut_without_a_time_that_grows_with_its_square(line):
    # Hours, if each of its characters began a search to the end of the run.
    parts = cut(line, _at_most(100_001))
    assert "".join(parts) == line.replace(" ", "") or parts == [line]


@given(st.text(max_size=200), st.integers(1, 30))
def test_parts_and_the_space_between_them_give_the_line_and_every_part_fits(line, length):
    spans = cut_line(line, _at_most(length))
    rebuilt, position = "", 0
    for start, end in spans:
        between = line[position:start]
        assert not between.strip()
        rebuilt += between + line[start:end]
        position = end
    assert not line[position:].strip()
    assert rebuilt + line[position:] == line
    assert all(0 < end - start <= length for start, end in spans)


@pytest.mark.parametrize(
    ("language", "joined"),
    [("de", "a b"), ("zh", "ab"), ("zh_Hans", "ab"), ("ja", "ab"), ("", "a b"), ("ko", "a b")],
)
def test_translations_are_joined_as_the_language_does(language, joined):
    parts = [[_hypothesis("a")], [_hypothesis("")], [_hypothesis("b")]]
    (found,) = join_parts(parts, language)
    assert found.text == joined


@pytest.mark.parametrize(
    ("text", "language", "gaps"),
    [
        ("a b", "de", [" "]),
        ("a  b", "de", ["  "]),
        ("a  b", "ja", ["  "]),
        ("a b", "zh_Hans", [""]),
        ("a\nb", "ja", ["\n"]),
    ],
)
def test_space_between_sentences_is_kept_where_it_is_more_than_what_separates_them(
    text, language, gaps
):
    assert choose_gaps(text, [(0, 1), (len(text) - 1, len(text))], language) == gaps


def test_where_the_source_has_no_space_between_sentences_the_target_has_its_own():
    assert choose_gaps("ab", [(0, 1), (1, 2)], "de") == [" "]
    assert choose_gaps("ab", [(0, 1), (1, 2)], "zh") == [""]


def _hypothesis(text: str, *, is_finished: bool = True) -> Hypothesis:
    scores = tuple(-0.5 for _ in text)
    return Hypothesis(
        tuple(map(ord, text)), -0.5 * len(text), -0.25, is_finished, scores, None, text, tuple(text)
    )


def test_the_k_th_of_a_line_is_made_of_its_parts_k_th():
    first = [_hypothesis("ab"), _hypothesis("c")]
    second = [_hypothesis("d"), _hypothesis("ef", is_finished=False), _hypothesis("g")]
    best, other = join_parts([first, second], "de")
    assert (best.text, other.text) == ("ab d", "c ef")
    assert [token.piece for token in best.tokens] == ["a", "b", "d"]
    assert best.token_ids == tuple(map(ord, "abd"))
    assert (best.log_probability, best.score) == (-1.5, -0.5)
    assert (best.reached_limit, other.reached_limit) == (False, True)


def test_a_line_of_one_part_has_its_hypotheses():
    alone = [_hypothesis("a"), _hypothesis("b")]
    assert join_parts([alone], "de") == tuple(alone)
