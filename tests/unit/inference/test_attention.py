"""What heads do on average, by hand; and attention as numbers, picture and page."""

import json
import logging
import math
import re
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from mtkit.inference.attention import KINDS, LineAttention, describe_heads
from mtkit.inference.attention_report.attention_page import render_attention
from mtkit.inference.attention_report.picture import draw_heads
from mtkit.inference.attention_report.weight_files import write_numbers


def make_line(source: str = "▁a ▁b </s>", target: str = "<s> ▁c") -> LineAttention:
    sources, targets = tuple(source.split()), tuple(target.split())
    random = np.random.default_rng(1)

    def draw(queries: int, memory: int) -> np.ndarray:
        weights = random.random((2, 3, queries, memory)).astype(np.float32)
        return weights / weights.sum(axis=-1, keepdims=True)

    sizes = {
        "encoder": (sources, sources),
        "decoder": (targets, targets),
        "cross": (targets, sources),
    }
    weights = {kind: draw(*map(len, pieces)) for kind, pieces in sizes.items()}
    return LineAttention("a b", "c", sources, targets, weights)


def test_figures_by_hand() -> None:
    line = make_line()
    # The first head of the encoder's first layer: to itself; to the next and </s>; to all alike.
    line.weights["encoder"][0, 0] = [[1, 0, 0], [0, 0.5, 0.5], [1 / 3] * 3]
    first = describe_heads([line])[0]
    assert (first.kind, first.layer, first.head) == ("encoder", 1, 1)
    assert first.distance == pytest.approx((0 + 0.5 + (2 + 1) / 3) / 3)
    assert first.offset == pytest.approx((0 + 0.5 - (2 + 1) / 3) / 3)
    assert first.entropy == pytest.approx((0 + 1 + math.log2(3)) / 3)
    assert first.confidence == pytest.approx((1 + 0.5 + 1 / 3) / 3)
    assert first.to_ends == pytest.approx((0 + 0.5 + 1 / 3) / 3)


def test_every_query_of_all_lines_counts_once() -> None:
    one, two = make_line(), make_line("▁a ▁b ▁c ▁d </s>")
    heads = describe_heads([one, two])
    assert [(head.kind, head.layer, head.head) for head in heads] == [
        (kind, layer, head) for kind in KINDS for layer in (1, 2) for head in (1, 2, 3)
    ]
    apart = describe_heads([one]), describe_heads([two])
    for number, head in enumerate(heads):
        counts = [each.weights[head.kind].shape[2] for each in (one, two)]
        wanted = np.average([figures[number].entropy for figures in apart], weights=counts)
        assert head.entropy == pytest.approx(wanted)
        assert (head.distance is None) == (head.kind == "cross")


@pytest.mark.parametrize("ending", ["json", "safetensors"])
def test_all_numbers_are_written(tmp_path: Path, ending: str) -> None:
    lines = [make_line(), make_line("▁日本 </s>")]
    path = tmp_path / f"numbers.{ending}"
    write_numbers(path, lines, describe_heads(lines))
    if ending == "json":
        content = json.loads(path.read_text("utf-8"))
        found = {(n, kind): line[kind] for n, line in enumerate(content["lines"]) for kind in KINDS}
        assert content["lines"][1]["source_pieces"] == ["▁日本", "</s>"]
        assert content["heads"][0]["kind"] == "encoder"
    else:
        tensors = load_file(path)
        found = {(n, kind): tensors[f"{n}.{kind}"] for n in range(2) for kind in KINDS}
    for (number, kind), weights in found.items():
        np.testing.assert_array_equal(np.array(weights, np.float32), lines[number].weights[kind])


def test_a_picture_of_a_layer_and_of_a_head(logged: list[logging.LogRecord]) -> None:
    line = make_line("▁$x_1$ ▁日本 </s>")
    whole, one = draw_heads(line, "cross", 2), draw_heads(line, "cross", 2, head=1)
    for picture in (whole, one):
        assert picture.startswith(b"\x89PNG")
    # Width in pixels, from the header: three heads are three times as wide.
    widths = [int.from_bytes(picture[16:20], "big") for picture in (whole, one)]
    assert widths[0] == pytest.approx(3 * widths[1], rel=0.01)
    # Not a line for each text about fonts that aren't installed.
    assert logged == []


def test_a_page_holds_no_foreign_markup_and_fetches_nothing() -> None:
    line = make_line("▁</script><b> ▁&amp; </s>")
    page = render_attention(
        [line], describe_heads([line]), title="A <b> model", facts={"model": "x & y"}, num_lines=1
    )
    assert "A &lt;b&gt; model" in page
    assert page.count("</script>") == 2
    assert not re.search(r"(src|href)=|url\(|@import|https?://(?!www\.w3\.org/2000/svg)", page)
    data = re.search(r'id="data">(.*?)</script>', page, re.DOTALL)
    [shown] = json.loads(data[1])
    assert shown["source"] == list(line.source_pieces)
    np.testing.assert_allclose(shown["cross"], line.weights["cross"], atol=0.0005)
