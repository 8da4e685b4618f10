"""Draws docs/images/road.png: the five commands, and what each reads and writes.

python docs/draw_road.py
"""

from pathlib import Path

import matplotlib as mpl

mpl.use("agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

INK, PAPER, ACCENT = "#24292f", "#ffffff", "#0969da"
_PICTURE = Path(__file__).parent / "images" / "road.png"
_WIDTH, _HEIGHT = 1.5, 0.6
_BOXES = {
    "your corpora": (0.0, 2.4), "data/": (2.3, 2.4), "checkpoints/": (4.6, 2.4),
    "translations": (0.0, 1.2), "scores.json": (0.0, 0.0), "model/": (4.6, 0.6),
}  # fmt: skip
"""Left and lower edge of each, in inches: three columns, so that a phone shows it legibly."""


def draw_arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float]) -> None:
    """Draws what leads from a place to another."""
    axes.annotate("", end, start, arrowprops={"arrowstyle": "->", "color": ACCENT, "lw": 1.8})


def write_command(axes: Axes, x: float, y: float, name: str, side: str = "center") -> None:
    """Writes the name of a command, on paper, so that no line crosses it; `side` is what x is."""
    around = {"facecolor": PAPER, "edgecolor": "none", "pad": 2.0}
    axes.text(x, y, name, ha=side, va="center", color=ACCENT, family="monospace",
              size=11, bbox=around)  # fmt: skip


def open_picture(width: float, height: float) -> Axes:
    """Returns empty axes of a size in inches, whose units are inches."""
    figure = plt.figure(figsize=(width, height), facecolor=PAPER)
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set(xlim=(0.0, width), ylim=(0.0, height))
    axes.axis("off")
    return axes


def main() -> None:
    """Draws the picture."""
    axes = open_picture(6.3, 3.35)
    axes.set(xlim=(-0.1, 6.2), ylim=(-0.1, 3.25))
    for text, (left, bottom) in _BOXES.items():
        axes.add_patch(plt.Rectangle((left, bottom), _WIDTH, _HEIGHT, fill=False, edgecolor=INK,
                                     linewidth=1.3))  # fmt: skip
        axes.text(left + _WIDTH / 2, bottom + _HEIGHT / 2, text, ha="center", va="center",
                  color=INK, size=11.5)  # fmt: skip
    upper = 2.4 + _HEIGHT / 2
    draw_arrow(axes, (1.5, upper), (2.3, upper))
    write_command(axes, 1.9, upper + 0.22, "prepare")
    draw_arrow(axes, (3.8, upper), (4.6, upper))
    write_command(axes, 4.2, upper + 0.22, "train")
    draw_arrow(axes, (5.35, 2.4), (5.35, 1.2))
    write_command(axes, 5.35, 1.82, "average")
    for command, bottom in (("translate", 1.2), ("score", 0.0)):
        draw_arrow(axes, (4.6, 0.6 + _HEIGHT / 2), (1.5, bottom + _HEIGHT / 2))
        write_command(axes, 3.0, (0.9 + bottom + _HEIGHT / 2) / 2, command)
    axes.figure.savefig(_PICTURE, dpi=140, metadata={"Software": None})


if __name__ == "__main__":
    main()
