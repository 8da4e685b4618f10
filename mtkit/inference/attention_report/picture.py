"""The heads of a layer as a picture for a paper."""

import io
import math
import warnings
from typing import Any, Final

import matplotlib as mpl
from matplotlib import font_manager
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from mtkit.inference.attention import Kind, LineAttention

_DPI: Final = 200
_INCHES_PER_TOKEN, _MIN_INCHES, _MAX_INCHES = 0.2, 1.6, 8.0
_MAX_COLUMNS = 4
_STYLE: dict[Any, Any] = {
    # A `matplotlibrc` in the current folder could run LaTeX.
    "text.usetex": False,
    "text.parse_math": False,
    "font.size": 7.0,
}
_FONTS: Final = ("DejaVu Sans", "Noto Sans CJK JP", "Noto Sans")
"""In order of preference; the first comes with matplotlib."""
_NAMES: Final[dict[Kind, str]] = {
    "encoder": "encoder self-attention",
    "decoder": "decoder self-attention",
    "cross": "cross-attention",
}


def draw_heads(line: LineAttention, kind: Kind, layer: int, head: int | None = None) -> bytes:
    """Returns a PNG of one head, or of all heads of a layer, from 1; each query is a row."""
    of_layer = line.weights[kind][layer - 1]
    chosen = range(len(of_layer)) if head is None else [head - 1]
    queries, memory = line.pieces_of(kind)
    width, height = (
        min(max(_INCHES_PER_TOKEN * len(pieces), _MIN_INCHES), _MAX_INCHES) + 0.7
        for pieces in (memory, queries)
    )
    columns = min(_MAX_COLUMNS, len(chosen))
    rows = math.ceil(len(chosen) / columns)
    style = _STYLE | {"font.family": _find_fonts()}
    with mpl.rc_context(style), warnings.catch_warnings():
        # A letter that is missing from all fonts is drawn as a box.
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        figure = Figure(figsize=(columns * width, rows * height + 0.3), dpi=_DPI, layout="tight")
        FigureCanvasAgg(figure)
        figure.suptitle(f"{_NAMES[kind]}, layer {layer}")
        for position, index in enumerate(chosen):
            axes = figure.add_subplot(rows, columns, position + 1)
            axes.imshow(of_layer[index], cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto")
            axes.set_title(f"head {index + 1}")
            axes.set_xticks(range(len(memory)), list(map(_show, memory)), rotation=90)
            axes.set_yticks(range(len(queries)), list(map(_show, queries)))
            axes.tick_params(length=0)
        content = io.BytesIO()
        figure.savefig(content, format="png")
    return content.getvalue()


def _find_fonts() -> list[str]:
    """Returns the installed fonts: matplotlib logs a line per text for a missing one."""
    installed = set(font_manager.get_font_names())
    return [font for font in _FONTS if font in installed]


def _show(piece: str) -> str:
    """Returns a piece without the mark of a word's beginning."""
    return piece.removeprefix("▁") or "␣"
