"""Markdown: what stays, what is translated, and that a translation reads as it is meant to.

What a reader sees is said by markdown-it's rendering, which mtkit doesn't use.
"""

import random
import re

import pytest
from lxml import html as lxml_html
from markdown_it import MarkdownIt

from mtkit.documents.document import Languages, TranslatedText
from mtkit.documents.translate_file import translate_bytes, translate_markup

from .translators import keep_text, keep_text_without_links, reverse_words, take_all

LANGUAGES = Languages("en", "de")
PAGES = [
    "One \u2003*two* three, \xa0 **four**\n",
    "# A *title* #\n\nOne **bold\nword** and `code`  \nnext line\\\nlast &amp; A&B &copy; "
    "\\*x\\* 2 * 3",
    'Title `x`\n===\n> quoted [link\n> text](<a b> "A title") end\n'
    "> - in a list\n>\n>   and more\n",
    "1. one\r\n2. two *three*\r\n\r\n   para ![alt *text*](x.png 'T')\r\n* [ ] task\r\n\t* tab\r\n",
    "---\ntitle: A title\n---\n\nText\n\n```python\nprint('no')\n```\n\n    indented code\n"
    "\n~~gone~~ now",
    "| Head *one* | two \\| 2 |\n|---|:-:|\n| cell `a \\| b` | last |\n| one\n\nafter  ",
    "[Foo] and [bar][] and [text][foo] ![Pic] <https://x.org> https://y.org/a_b_c.\n\n[foo]: /f\n"
    '[bar]: /b "Bar"\n[pic]: p.png\n',
    'A <b>bold</b> <img alt="A dog" src=x> <code>no</code>\n\n'
    '<div title="Box">\nIn <i>HTML</i>\n</div>\n',
    "Note[^1] that.\n\n[^1]: The note\n    goes on\n\n> [!NOTE]\n> Be careful.\n"
    "\n## Head {#id .c}\n",
    "+++\na = 1\n+++\nsnake_case a\\_b __strong__ {{ template }} <!-- c --> ***both*** x<br>y",
    "　全角 **强调**文字。\n第二行\n- 列表\n",
]


def translate(page: str, translator: object = reverse_words) -> str:
    return translate_markup(page, "markdown", translator, LANGUAGES)  # type: ignore[arg-type]


def say(answer: str) -> object:
    return lambda texts: [TranslatedText(answer) for _ in texts]


def render(page: str) -> str:
    return str(MarkdownIt("commonmark").enable(["table", "strikethrough"]).render(page))


def visible(page: str) -> list[str]:
    """Returns the letters that a reader sees, sorted."""
    return sorted("".join(lxml_html.fromstring(f"<div>{render(page)}</div>").itertext()).lower())


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("translator", [keep_text, keep_text_without_links])
def test_the_same_text_gives_the_same_characters(page: str, translator: object) -> None:
    assert translate(page, translator) == page


def test_texts_are_blocks_descriptions_and_titles() -> None:
    seen: list[str] = []
    page = "\n\n".join(PAGES[1:8]).replace("\r", "")
    translate(page, lambda texts: take_all(texts, seen))
    assert {"A title", "T", "alt text", "in a list", "and more", "task", "tab", "one two"} & set(
        seen
    )
    for text in (
        "quoted link text end",
        "alt text",
        "Head one",
        "two | 2",
        "cell a | b",
        "In HTML",
    ):
        assert text in seen
    assert not any("print" in text or "indented" in text or "/f" in text for text in seen)


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("The **quick *brown*** fox [jumps](x)", "[JUMPS](x) FOX ***BROWN* QUICK** THE"),
        ("> one *two*\n> three", "> THREE *TWO*\n> ONE"),
        ("See [Foo] now\n\n[foo]: /f", "NOW [FOO][Foo] SEE\n\n[foo]: /f"),
        ("[The foo][]\n\n[the foo]: /f", "[FOO THE][The foo]\n\n[the foo]: /f"),
        ("![The pic]\n\n[the pic]: /f", "![PIC THE][The pic]\n\n[the pic]: /f"),
        ("| a b | c d |\n|--|--|\n| e \\| f | g h |", "| B A | D C |\n|--|--|\n| F \\| E | H G |"),
        ("one two\\\n*three*", "<em>THREE</em> TWO ONE<br>"),
        ("- [x] do this\n1. then that", "- [x] THIS DO\n1. THAT THEN"),
    ],
)
def test_tags_go_with_their_words(page: str, expected: str) -> None:
    assert translate(page) == expected


@pytest.mark.parametrize(
    ("page", "answer", "expected"),
    [
        ("One text", "1. foo", "1\\. foo"),
        ("One text", "- foo", "\\- foo"),
        ("One text", "# foo", "\\# foo"),
        ("One text", "a *b* c_d <b> [e](f)", None),
        ("One text", "a `b` &amp; \\ ~~x~~", None),
        ("One text", "[a]: /b", None),
        ("# One text", "C #", "# C \\#"),
        ("|One text|x|\n|--|--|\n", "a | b", "|a \\| b|a \\| b|\n|--|--|\n"),
        ("One_text", "a_b_c", "a_b_c"),
        ("![One text](x)", "a ] b [", None),
        ("[a](b 'One text')", "it's", "[it's](b 'it\\'s')"),
    ],
)
def test_a_translation_cannot_bring_markup(page: str, answer: str, expected: str | None) -> None:
    translated = translate(page, say(answer))
    if expected is not None:
        assert translated == expected
        return
    tree = lxml_html.fromstring(f"<div>{render(translated)}</div>")
    image = tree.find(".//img")
    assert answer == (image.get("alt") if image is not None else "".join(tree.itertext()).strip())


def test_emphasis_that_would_not_be_read_becomes_html() -> None:
    def turn(texts: list[str]) -> list[TranslatedText]:
        source, target = "Read (this) now", "读（这）现在"
        assert texts == [source]
        links = (((0, 4), (0, 1)), ((5, 11), (1, 4)), ((12, 15), (4, 6)))
        return [TranslatedText(target, links)]

    translated = translate("Read **(this)** now", turn)
    assert translated == "读<strong>（这）</strong>现在"


def test_any_soup_keeps_what_a_reader_sees() -> None:
    rng = random.Random(1)
    pieces = ["*", "**", "_", "`", "[", "](x)", "![", "> ", "\n", "- ", "# ", "|", "<b>", "</b>"]
    pieces += ["one two", " ", ".", "\\", "&lt;", "~~", "1. ", "\n\n", "  \n"]
    for _ in range(400):
        page = "".join(rng.choice(pieces) for _ in range(14))
        assert translate(page, keep_text) == page
        turned = translate(page)
        assert turned.lower().count("one") == page.count("one"), page
        assert re.sub(r"\s", "", "".join(visible(turned))) == re.sub(
            r"\s", "", "".join(visible(page))
        ), (page, turned)


@pytest.mark.parametrize("page", ["> " * 3_000 + "a", "[" * 1_000, "*a **b " * 500])
def test_deep_pages_are_read(page: str) -> None:
    assert translate(page, keep_text) == page


def test_a_page_keeps_its_byte_order_mark_and_line_ends() -> None:
    page = b"\xef\xbb\xbf# Hi\r\n\r\nthere  \r\ndog \t"
    assert translate_bytes(page, "markdown", keep_text, LANGUAGES) == page


@pytest.mark.parametrize(
    "page",
    ["Run `one`, `two` or `three` here", "`one`/`two`/`three`", "`one\\`, `two` or `three`"],
)
def test_code_that_a_translation_lost_stays_as_many_pieces(page: str) -> None:
    translated = translate(page, say("Nun"))
    tree = lxml_html.fromstring(f"<div>{render(translated)}</div>")
    assert [code.text.strip("\\") for code in tree.iter("code")] == ["one", "two", "three"]
