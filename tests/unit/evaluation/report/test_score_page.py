"""The page's text, and how a browser lays it out on a phone and on a desk."""

import json
import re
import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from html import escape, unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest

from mtkit.evaluation.analysis.analyze import Analysis, analyze
from mtkit.evaluation.analysis.comparison import SentenceScores
from mtkit.evaluation.evaluate import EvaluatedTestSet
from mtkit.evaluation.report.score_page import render_scores
from mtkit.evaluation.results import Interval, ScoreDifference, SystemResult, SystemScore
from mtkit.recipe.evaluation import Evaluation

REFERENCES = ["Der Hund schläft.", "هذا نص عربي", "我爱你们", "<b>fett</b>"]
SOURCES = ["The dog sleeps.", "This is Arabic text", "I love you", "<b>bold</b>"]


def build(num_systems: int) -> tuple[list[SystemResult], Analysis]:
    """Returns made-up results of systems of which each is better than the one before."""
    names = ["<script>alert(1)</script>", *(f"system-{place}" for place in range(1, num_systems))]
    outputs = {
        name: ["<script>alert(2)</script>", "هذا نص", "我恨你们", "<b>fett</b>"] for name in names
    }
    results = []
    for place, name in enumerate(names):
        bleu = ter = None
        if place:
            bleu = ScoreDifference(0.5 * place, 0.2, "bootstrap", Interval(-0.1, 1.1), 0.75)
            ter = ScoreDifference(-1.0 * place, 0.01, "randomization", Interval(-1.6, -0.4), 0.5)
        scores = (
            SystemScore("BLEU", 20 + place / 2, "nrefs:1|tok:13a", True, Interval(19, 30), bleu),
            SystemScore("TER", 60 - place, "nrefs:1|tok:tercom", False, Interval(40, 61), ter),
        )
        results.append(SystemResult(name, scores, ("2 lines are <empty>.",)))

    def score(system: str, indices: Sequence[int]) -> dict[str, float]:
        return {"TER": 60.0 - names.index(system) + indices[0], "BLEU": 20.0}

    values = {name: [50.0 - place, 50.0, 50.0 + place, 50.0] for place, name in enumerate(names)}
    analysis = analyze(
        outputs,
        REFERENCES,
        score,
        sentence_scores=SentenceScores("TER", False, values),
        sources=SOURCES,
        origins=["talk", "<shop>", "talk", "shop"],
    )
    return results, analysis


@cache
def render(num_systems: int) -> str:
    results, analysis = build(num_systems)
    return render_scores(
        EvaluatedTestSet("test <1>", 4, tuple(results), {}, Evaluation()),
        analysis,
        name="test <1> & B",
        facts={"Confidence": "95 % & more"},
        target_language="de",
    )


class Page(HTMLParser):
    """What a browser makes of a page, as far as these tests ask.

    Attributes:
        tags: Opened tags with their attributes.
        text: All text, each run of white space as one space.
    """

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(html)
        self.text = " ".join(self.text.split())
        assert self.open == []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attributes)))
        if tag in ("h3", "h4", "td", "th", "small"):
            self.text += " "
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.text += data if data.strip() else " "


@pytest.mark.parametrize("num_systems", [1, 2, 16])
def test_nothing_is_loaded_and_nothing_runs(num_systems: int) -> None:
    html = render(num_systems)
    page = Page(html)
    assert {tag for tag, _ in page.tags} & {"script", "link", "img", "iframe", "object"} == set()
    addresses = [
        value or ""
        for _, attributes in page.tags
        for name, value in attributes.items()
        if name in ("href", "src", "srcset", "action", "data", "xlink:href")
    ]
    assert all(address.startswith("#") for address in addresses)
    assert not re.search(r"url\(|@import|https?://|\bon\w+=", html)


@pytest.mark.parametrize("num_systems", [1, 2, 16])
def test_links_lead_somewhere_and_names_are_given_once(num_systems: int) -> None:
    page = Page(render(num_systems))
    names = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(names) == len(set(names))
    links = {(attributes["href"] or "")[1:] for tag, attributes in page.tags if tag == "a"}
    labels = {attributes.get("aria-labelledby") for _, attributes in page.tags} - {None}
    assert links | labels <= set(names)


def test_text_is_text() -> None:
    page = Page(render(2))
    for text in (
        "<script>alert(1)</script>",
        "<script>alert(2)</script>",
        "test <1> & B",
        "test <1>",
        "95 % & more",
        "<shop>",
        "2 lines are <empty>.",
    ):
        assert text in page.text


def test_every_table_says_what_its_rows_and_columns_are() -> None:
    page = Page(render(2))
    headers = [attributes for tag, attributes in page.tags if tag == "th"]
    assert headers
    assert all(attributes.get("scope") in ("row", "col") for attributes in headers)
    plots = [
        attributes for tag, attributes in page.tags if tag == "svg" and "viewbox" in attributes
    ]
    assert all("aria-label" in one or one.get("aria-hidden") == "true" for one in plots)


def test_differences_are_put_in_words() -> None:
    text = Page(render(2)).text
    assert "+0.50 [\u22120.10, +1.10] not significant at 0.05 0.200 0.75 paired bootstrap" in text
    assert (
        "\u22121.00 [\u22121.60, \u22120.40] ✓ significantly better 0.010 0.50 "
        "approximate randomisation" in text
    )
    assert "TER, lower is better" in text


def test_fewer_edits_win_a_sentence() -> None:
    text = Page(render(2)).text
    assert "system-1 is better on 1 sentences, worse on 1, and equal on 2" in text
    assert re.search(r"Where system-1 is better Sentence 1: better by 1\.00 TER", text)
    assert re.search(r"Where system-1 is worse Sentence 3: worse by 1\.00 TER", text)


def test_words_that_differ_are_marked_and_the_language_is_named() -> None:
    html = render(2)
    assert '<dd dir="auto" lang="de">我<mark>恨</mark>你们</dd>' in html
    assert '<dd dir="auto">I love you</dd>' in html


def test_one_system_is_compared_with_none() -> None:
    text = Page(render(1)).text
    assert "1 system scored on" in text
    assert "baseline" not in text
    assert "Differences" not in text


def test_many_comparisons_come_with_a_warning() -> None:
    assert "There are 15 comparisons per metric" in Page(render(16)).text
    assert "about one in 20" in Page(render(16)).text
    assert "comparisons per metric" not in Page(render(2)).text


def test_signatures_are_there_to_be_copied() -> None:
    html = render(1)
    assert "<code>nrefs:1|tok:13a</code>" in html
    assert "[^1]: BLEU, higher is better: `nrefs:1|tok:13a`" in Page(html).text


def test_results_alone_make_a_page() -> None:
    result = SystemResult("a", (SystemScore("BLEU", 20.0, "s"),))
    evaluated = EvaluatedTestSet("x", 1, (result,), {}, Evaluation())
    html = render_scores(evaluated, Analysis(), name="x", facts={})
    text = Page(html).text
    assert "1 sentence." in text
    assert "confidence" not in text


_WIDTHS = (390, 1280)
_BROWSER = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), None)

# In the test's own copy of the page, which the browser reports from to the page around it.
_REPORT = """<script>
addEventListener("load", () => parent.postMessage({
  width: innerWidth,
  scrollWidth: document.documentElement.scrollWidth,
  requests: performance.getEntriesByType("resource").map((entry) => entry.name),
  outside: [...document.querySelectorAll("h1, h2, p, dd, figure, article, .plot text")].filter(
    (element) => {
      const box = element.getBoundingClientRect();
      return box.width > 0 && (box.right > innerWidth + 0.5 || box.left < -0.5);
    }
  ).map((element) => element.outerHTML.slice(0, 200)),
}, "*"))
</script>"""
_FRAMES = """<!DOCTYPE html><script>
const reports = [];
addEventListener("message", (event) => {
  reports.push(event.data);
  document.body.dataset.reports = JSON.stringify(reports);
});
</script>"""


@pytest.mark.slow
@pytest.mark.skipif(_BROWSER is None, reason="neither chromium nor google-chrome is installed")
@pytest.mark.parametrize("num_systems", [1, 2, 16])
def test_page_fits_a_phone_and_a_desk(num_systems: int, tmp_path: Path) -> None:
    assert _BROWSER is not None
    html = render(num_systems)
    policy = re.search(r"<meta http-equiv=\"Content-Security-Policy\".*?>", html)
    assert policy is not None
    html = html.replace(policy.group(), _REPORT)
    # Frames, since a window of this browser is at least 500 wide.
    frames = "".join(
        f'<iframe width="{width}" height="844" style="border: 0" srcdoc="{escape(html)}"></iframe>'
        for width in _WIDTHS
    )
    (tmp_path / "frames.html").write_text(f"{_FRAMES}<body>{frames}</body>", "utf-8")
    done = subprocess.run(
        [
            _BROWSER,
            *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
            *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
            "--host-resolver-rules=MAP * ~NOTFOUND",
            f"--user-data-dir={tmp_path / 'profile'}",
            "--window-size=1700,900",
            "--virtual-time-budget=5000",
            "--dump-dom",
            (tmp_path / "frames.html").as_uri(),
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    found = re.search(r'data-reports="(.*?)"', done.stdout)
    assert found is not None, done.stderr
    reports = sorted(json.loads(unescape(found.group(1))), key=lambda report: report["width"])
    assert [report["width"] for report in reports] == list(_WIDTHS)
    for report in reports:
        assert report["scrollWidth"] <= report["width"]
        assert report["requests"] == []
        assert report["outside"] == []
