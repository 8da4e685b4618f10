"""Attention as one interactive HTML page that works offline."""

import json
from collections.abc import Mapping, Sequence

from mtkit.inference.attention import KINDS, HeadFigures, LineAttention
from mtkit.pages import open_templates

_DIGITS = 3
"""A screen can't show finer shades of a weight."""


def render_attention(
    lines: Sequence[LineAttention],
    heads: Sequence[HeadFigures],
    *,
    title: str,
    facts: Mapping[str, str],
    num_lines: int,
) -> str:
    """Returns the page; `num_lines` is how many lines the heads' figures cover."""
    templates = open_templates("mtkit.inference.attention_report")
    page: str = templates.get_template("attention.html.jinja").render(
        title=title,
        facts=facts,
        lines=lines,
        heads=heads,
        num_lines=num_lines,
        data=_as_script([_as_data(line) for line in lines]),
    )
    return page


def _as_data(line: LineAttention) -> dict[str, object]:
    return {
        "source": [*line.source_pieces],
        "target": [*line.target_pieces],
        **{kind: line.weights[kind].astype(float).round(_DIGITS).tolist() for kind in KINDS},
    }


def _as_script(data: object) -> str:
    """Returns JSON that can't end the script element around it."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
