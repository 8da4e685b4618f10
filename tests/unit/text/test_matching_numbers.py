"""Numbers in the reading that fits best, against how people write them."""

from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mtkit.text.matching_numbers import find_numbers, have_matching_numbers


def group(number: int, separator: str) -> str:
    return f"{number:,}".replace(",", separator)


def group_as_in_india(number: int) -> str:
    """Groups of two digits before the last three."""
    head, tail = divmod(number, 1_000)
    groups = [f"{tail:03}" if head else f"{tail}"]
    while head:
        head, tail = divmod(head, 100)
        groups.append(f"{tail:02}" if head else f"{tail}")
    return ",".join(reversed(groups))


def write_with_units(number: int) -> str:
    """1億2345万6789, as newspapers write it."""
    written = ""
    for value, unit in ((10**8, "億"), (10**4, "万")):
        count, number = divmod(number, value)
        written += f"{count}{unit}" * bool(count)
    return written + f"{number}" * bool(number)


def spell(number: int) -> str:
    """一億二千三百四十五万六千七百八十九; a one before ten, a hundred and a thousand is written."""
    written = ""
    for value, unit in ((10**8, "億"), (10**4, "万"), (1, "")):
        part, number = divmod(number, value)
        for small, small_unit in ((1_000, "千"), (100, "百"), (10, "十"), (1, "")):
            digit, part = divmod(part, small)
            written += f"{'〇一二三四五六七八九'[digit]}{small_unit}" * bool(digit)
        if written and not written.endswith(("億", "万")):
            written += unit
    return written


IN_DIGITS: list[Callable[[int], str]] = [
    str,
    *(lambda number, mark=mark: group(number, mark) for mark in ",.'’´ \u00a0\u2007\u2009\u202f"),
    lambda number: str(number).translate({ord("0") + digit: 0xFF10 + digit for digit in range(10)}),
]
WAYS = [*IN_DIGITS, group_as_in_india, write_with_units, spell]
numbers = st.lists(st.integers(10, 10**12 - 1), min_size=2, max_size=5)


@given(numbers, st.data())
def test_the_same_numbers_match_however_they_are_written(
    values: list[int], data: st.DataObject
) -> None:
    one, other = (
        "; ".join(data.draw(st.sampled_from(WAYS))(value) for value in values) for _ in range(2)
    )
    assert have_matching_numbers(one, other, share=1.0, min_value=10)


@given(st.lists(st.integers(100, 999), min_size=2, max_size=6), st.sampled_from(", .'\u2009"))
def test_a_list_matches_whatever_stands_between(values: list[int], mark: str) -> None:
    one, other = mark.join(map(str, values)), " and ".join(map(str, values))
    for share in (0.3, 1.0):
        assert have_matching_numbers(one, other, share=share, min_value=10)
        assert have_matching_numbers(other, one, share=share, min_value=10)


@given(
    st.lists(st.integers(10_000, 10**9), min_size=2, max_size=5, unique=True),
    st.sampled_from(IN_DIGITS),
    st.sampled_from(WAYS),
)
def test_other_numbers_match_in_no_reading(
    values: list[int], way: Callable[[int], str], other_way: Callable[[int], str]
) -> None:
    """Numbers that differ by one, and that no group of digits is as large as."""
    assume(all(abs(one - other) > 1 for one, other in pairwise(sorted(values))))
    one = "; ".join(map(way, values))
    other = "; ".join(other_way(value + 1) for value in values)
    assert not have_matching_numbers(one, other, share=0.3, min_value=10_000)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("12.5 million", "1250万"),
        ("1,234.5万", "12,345,000"),
        ("3.5亿", "350,000,000"),
        ("100多万", "1,000,000"),
        ("12 万", "120,000"),
        ("1万亿", "1,000,000,000,000"),
        ("十五", "15"),
        ("一百零五", "105"),
        ("貳拾萬", "200,000"),
        ("5천", "5,000"),
        ("12-Millionen", "12,000,000"),
        ("7 milliards", "7,000,000,000"),
        ("12 Billionen", "12,000,000,000,000"),
        ("1.234.567,5 Mio", "1,234,567,500,000"),
        ("1999，12万", "1999 and 120,000"),
    ],
)
def test_units(one: str, other: str) -> None:
    assert have_matching_numbers(one, other, share=1.0, min_value=10)
    assert have_matching_numbers(other, one, share=1.0, min_value=10)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("3.5亿", "3,500,000,000"),
        ("12.5 million", "125,000,000"),
        ("12万", "12,000"),
        ("12.5", "125"),
        ("12,000", "12"),
        ("百", "10"),
        ("12 millionaires", "12,000,000"),
        ("１２万" * 1_000, "120,000"),
    ],
)
def test_what_is_no_reading(one: str, other: str) -> None:
    assert not have_matching_numbers(one, other, share=1.0, min_value=10)


def test_numbers_in_their_usual_reading() -> None:
    found = find_numbers("1,234 and 07, 12.5 of ٣٤ and 12万", min_value=10)
    assert found == {"1234": 1, "12": 2, "34": 1}


def test_many_numbers_take_no_time() -> None:
    """A thousand readings of each would be more than can be tried."""
    one = "; ".join(f"{value} {value + 1} {value + 2}" for value in range(100, 700))
    other = ", ".join(f"{value}, {value + 1}, {value + 2}" for value in range(100, 700))
    assert have_matching_numbers(one, other, share=1.0, min_value=10)
    assert not have_matching_numbers(one, one.replace("1", "0"), share=1.0, min_value=10)
