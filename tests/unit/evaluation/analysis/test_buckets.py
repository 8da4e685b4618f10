import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtkit.evaluation.analysis.buckets import (
    group_by_flags,
    group_by_length,
    group_by_origin,
    group_by_rare_words,
)


def test_lengths_are_in_words() -> None:
    references = ["word " * count for count in (10, 11, 61, 60, 0)]
    grouping = group_by_length(references)
    assert grouping.buckets == {"1–10": (0, 4), "11–20": (1,), "41–60": (3,), "over 60": (2,)}
    assert grouping.explanation.startswith("Words")


def test_lengths_without_spaces_are_in_characters() -> None:
    grouping = group_by_length(["字" * 15 + "。", "字" * 16])
    assert grouping.buckets == {"1–15": (0,), "16–30": (1,)}
    assert grouping.explanation.startswith("Characters")


def test_words_that_occur_once_are_rare() -> None:
    # Rare words: none of 2, b of 2, c of 11.
    references = ["a A", "a b", "a " * 10 + "c"]
    assert group_by_rare_words(references).buckets == {
        "none": (0,),
        "≤ 10 %": (2,),
        "> 30 %": (1,),
    }


def test_a_training_text_says_what_is_rare() -> None:
    training_text = (line for line in ["a", "B b"] * 9 + ["a"])  # 10 and 18 times
    grouping = group_by_rare_words(["a b", "a c", "a a a a d"], training_text)
    assert grouping.buckets == {"none": (0,), "≤ 20 %": (2,), "> 30 %": (1,)}
    assert "training text" in grouping.explanation


def test_origins_keep_their_order() -> None:
    assert group_by_origin(["web", "news", "web"]).buckets == {"web": (0, 2), "news": (1,)}


def test_many_small_origins_share_a_bucket() -> None:
    origins = [f"page {number}" for number in range(20)] * 2 + ["page 19"]
    found = group_by_origin(origins).buckets
    assert len(found) == 12
    assert found["page 19"] == (19, 39, 40)
    assert len(found["9 others"]) == 18


def test_a_sentence_is_in_a_bucket_for_each_flag_of_any_system() -> None:
    one = [frozenset(("numbers",)), frozenset(), frozenset(("urls",))]
    other = [frozenset(("too long",)), frozenset(), frozenset(("urls",))]
    assert group_by_flags([one, other]).buckets == {  # type: ignore[arg-type]
        "numbers": (0,),
        "urls": (2,),
        "too long": (0,),
        "no flag": (1,),
    }


@pytest.mark.parametrize("group", [group_by_length, group_by_rare_words, group_by_origin])
@given(references=st.lists(st.text(alphabet="ab 字"), min_size=1))
def test_every_sentence_is_in_one_bucket(group, references) -> None:  # type: ignore[no-untyped-def]
    indices = [index for bucket in group(references).buckets.values() for index in bucket]
    assert sorted(indices) == list(range(len(references)))
