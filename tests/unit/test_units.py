"""Counts, lengths of time and amounts of memory in words."""

import pytest

from mtkit.units import format_duration, format_memory, plural


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.4, "0 s"),
        (59.4, "59 s"),
        (59.6, "1 min 00 s"),
        (905.0, "15 min 05 s"),
        (3 * 3600 + 5 * 60 + 29, "3 h 05 min"),
        (2 * 86400 + 4 * 3600 + 1800, "2 d 04 h"),
    ],
)
def test_the_two_greatest_units_of_time(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@pytest.mark.parametrize(
    ("num_bytes", "text"),
    [
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (3 * 2**29, "1.5 GiB"),
        (2**30 - 1, "1.0 GiB"),
        (5000 * 2**40, "5000.0 TiB"),
    ],
)
def test_the_greatest_unit_of_memory(num_bytes: int, text: str) -> None:
    assert format_memory(num_bytes) == text


@pytest.mark.parametrize(
    ("count", "noun", "text"),
    [
        (0, "update", "0 updates"),
        (1, "update", "1 update"),
        (12_000, "update", "12,000 updates"),
        (2, "process", "2 processes"),
    ],
)
def test_a_count_has_its_noun(count: int, noun: str, text: str) -> None:
    assert plural(count, noun) == text


def test_a_mean_near_one_is_of_several() -> None:
    assert plural(1.04, "pass", decimals=1) == "1.0 passes"
    assert plural(1.0, "pass", decimals=1) == "1.0 pass"
