"""Stray characters that are mended."""

import pytest

from mtkit.checks.text import build_table, read_code_points
from mtkit.data.cleaning.filters import repair, repair_lines

NONE = {
    "c1_control": 0,
    "separator": 0,
    "byte_order_mark": 0,
    "zero_width_space": 0,
    "soft_hyphen": 0,
}


@pytest.mark.parametrize(
    ("line", "repaired", "kinds"),
    [
        # The bytes' characters are those of the Encoding Standard's index windows-1252.
        ("\u0084Nein\u0093, sagt er\u0085", "„Nein“, sagt er…", {"c1_control"}),
        ("\u0085", "…", {"c1_control"}),
        ("a\u0081b\u008dc\u008fd\u0090e\u009d", "a\u0081b\u008dc\u008fd\u0090e\u009d", set()),
        ("a\u2028b\u2029c\td\x0be\x0cf\rg\nh", "a b c d e f g h", {"separator"}),
        ("a\ufeffb", "ab", {"byte_order_mark"}),
        ("\ufeff a", "a", {"byte_order_mark"}),
        ("a\u200bb", "ab", {"zero_width_space"}),
        ("Ver\u00adtrag", "Vertrag", {"soft_hyphen"}),
        ("\u00ad\u200b", "", {"soft_hyphen", "zero_width_space"}),
        # Scripts need these: Persian, Hindi, emoji; French its spaces.
        ("می\u200cخواهم क\u094d\u200dष", "می\u200cخواهم क\u094d\u200dष", set()),
        ("10\u00a0000\u202f%", "10\u00a0000\u202f%", set()),
        (" \u00a0 a \u3000", "a", set()),
        ("\x00a\x1c", "\x00a\x1c", set()),
    ],
)
def test_repairs(line: str, repaired: str, kinds: set[str]) -> None:
    assert repair(line) == repaired
    lines, changed = repair_lines(read_code_points(["x", line, "", "y"], build_table((), ())))
    assert lines == ["x", repaired, "", "y"]
    assert changed == {kind: int(kind in kinds) for kind in NONE}


def test_no_lines() -> None:
    assert repair_lines(read_code_points([], build_table((), ()))) == ([], NONE)
