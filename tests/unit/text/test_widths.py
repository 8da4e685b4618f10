import pytest

from mtkit.text.widths import measure_letters, measure_width


@pytest.mark.parametrize(
    ("text", "width", "letters"),
    [
        ("", 0, 0),
        ("Ja, 3!", 6, 2),
        ("Grün", 4, 4),
        ("新预算。", 10, 9),
        ("ひらカナ", 8, 8),
        ("한국어", 6, 6),
        ("e\u0301", 2, 2),
        ("Привет", 6, 6),
    ],
)
def test_widths(text: str, width: int, letters: int) -> None:
    assert (measure_width(text), measure_letters(text)) == (width, letters)
