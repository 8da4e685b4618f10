"""Draws docs/images/road.png: the five commands, and what each reads and writes.

python docs/draw_road.py
"""

from pathlib import Path

import matplotlib as mpl

mpl.use("agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

PICTURE = Path(__file__).parent / "images" / "road.png"
_FOLDERS = {"corpora": 0.0, "data/": 3.0, "checkpoints/": 6.0, "model/": 9.0}
"""Left edge of each, in inches."""
_WIDTH, _HEIGHT = 1.5, 0.7
_COMMANDS = ("prepare", "train", "average")
_RESULTS = (("translate", "translations", 0.95), ("score", "scores.json", -0.95))
_INK, _PAPER, _ACCENT = "#24292f", "#ffffff", "#0969da"


def draw_box(axes: Axes, left: float, bottom: float, text: str) -> None:
    """Draws a folder."""
    box = plt.Rectangle((left, bottom), _WIDTH, _HEIGHT, fill=False, edgecolor=_INK, linewidth=1.2)
    axes.add_patch(box)
    axes.text(
        left + _WIDTH / 2, bottom + _HEIGHT / 2, text, ha="center", va="center", color=_INK, size=9
    )


def draw_arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float], text: str) -> None:
    """Draws a command as an arrow from what it reads to what it writes."""
    axes.annotate("", end, start, arrowprops={"arrowstyle": "->", "color": _ACCENT, "lw": 1.6})
    middle = ((start[0] + end[0]) / 2, (start[1] + end[1]) / 2 + 0.14)
    axes.text(*middle, text, ha="center", va="bottom", color=_ACCENT, family="monospace")


def main() -> None:
    """Draws the picture."""
    figure, axes = plt.subplots(figsize=(10.5, 2.4), facecolor=_PAPER)
    for text, left in _FOLDERS.items():
        draw_box(axes, left, 0.0, text)
    middle = _HEIGHT / 2
    lefts = list(_FOLDERS.values())
    for command, left, right in zip(_COMMANDS, lefts, lefts[1:], strict=False):
        draw_arrow(axes, (left + _WIDTH, middle), (right, middle), command)
    for command, result, height in _RESULTS:
        draw_box(axes, 12.4, height, result)
        draw_arrow(axes, (9.0 + _WIDTH, middle), (12.4, height + middle), "")
        above = height > 0
        axes.text(11.2, 1.15 if above else -0.45, command, ha="center", va="center",
                  color=_ACCENT, family="monospace")  # fmt: skip
    axes.set_xlim(-0.1, 14.1)
    axes.set_ylim(-1.1, 1.8)
    axes.set_aspect("equal")
    axes.axis("off")
    figure.savefig(PICTURE, dpi=150, bbox_inches="tight", metadata={"Software": None})


if __name__ == "__main__":
    main()
