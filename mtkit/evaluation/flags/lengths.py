"""Whether a translation is as long as its source lets expect."""

from collections.abc import Iterable

from mtkit.text.widths import measure_width


def measure_ratio(source: str, hypothesis: str, length_ratio: float, smoothing: int) -> float:
    """Returns the length of a translation divided by the one that is expected; 1 as expected.

    Args:
        source: The source line.
        hypothesis: Its translation.
        length_ratio: Target characters per source character, as `measure_width` counts them.
        smoothing: Characters added to both.
    """
    expected = length_ratio * measure_width(source.strip())
    return (measure_width(hypothesis.strip()) + smoothing) / (expected + smoothing)


def measure_length_ratio(pairs: Iterable[tuple[str, str]]) -> float:
    """Returns target characters per source character over pairs that go together.

    Args:
        pairs: Some hundreds or more, such as a development set; 1 if a side of all is empty.
    """
    widths = [
        (measure_width(source.strip()), measure_width(target.strip())) for source, target in pairs
    ]
    source_width, target_width = (sum(width[side] for width in widths) for side in (0, 1))
    return target_width / source_width if source_width and target_width else 1.0
