"""Draws docs/images/workspace.png: the folder of a run, and which command writes what in it.

python docs/draw_workspace.py
"""

from pathlib import Path

from draw_road import INK, PAPER, draw_arrow, open_picture, write_command
from matplotlib import pyplot as plt

_PICTURE = Path(__file__).parent / "images" / "workspace.png"
_QUIET = "#57606a"
_PARTS = (
    ("recipe.toml   manifest.json", "settings, versions, digests", ("every step",)),
    ("data/", "cleaned text, tokenizer, tokens, report", ("prepare",)),
    ("checkpoints/", "weights and Adam's moments, by step", ("train",)),
    ("metrics.jsonl   curves.png", "loss and scores by step, their picture", ("train",)),
    ("model/", "the translator: copy it anywhere", ("train", "average")),
    ("export/", "the same for CTranslate2", ("export",)),
    ("translations/   scores.json", "of the test sets, with signatures", ("score",)),
)
"""Parts of a workspace from top to bottom, what they hold, and what writes them."""
_COMMANDS = {
    "every step": 0.0, "prepare": 1.0, "train": 2.5, "average": 4.2, "export": 5.0, "score": 6.0
}  # fmt: skip
"""Rows next to which the commands are."""
_ROW, _TOP, _LEFT, _NAME_END = 0.62, 4.1, 1.95, 1.2
"""Inches: height of a part, middle of the first, left edge of the parts, right one of commands."""


def main() -> None:
    """Draws the picture."""
    axes = open_picture(5.3, 4.9)
    height = len(_PARTS) * _ROW
    axes.add_patch(plt.Rectangle((_LEFT - 0.15, 0.1), 3.4, height, facecolor="#f6f8fa",
                                 edgecolor=INK, linewidth=1.3))  # fmt: skip
    axes.text(_LEFT, _TOP + 0.52, "runs/my-run/", family="monospace", weight="bold", size=11,
              color=INK, va="center")  # fmt: skip
    for row, (names, meaning, commands) in enumerate(_PARTS):
        middle = _TOP - row * _ROW
        axes.text(
            _LEFT, middle + 0.03, names, family="monospace", size=10.5, color=INK, va="bottom"
        )
        axes.text(_LEFT, middle - 0.02, meaning, size=9.5, color=_QUIET, va="top")
        for command in commands:
            start = _TOP - _COMMANDS[command] * _ROW
            draw_arrow(axes, (_NAME_END, start), (_LEFT - 0.12, middle))
    for command, row in _COMMANDS.items():
        write_command(axes, _NAME_END - 0.05, _TOP - row * _ROW, command, side="right")
    axes.figure.savefig(_PICTURE, dpi=140, facecolor=PAPER, metadata={"Software": None})


if __name__ == "__main__":
    main()
