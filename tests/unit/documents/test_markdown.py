"""Markdown: what stays, what is translated, and that a translation reads as it is meant to.

What a reader sees is said by markdown-it's rendering, which mtkit doesn't use.
"""

import random
import re
import time
from collections import Counter
from collections.abc import Sequence

import pytest
import yaml
from lxml import html as lxml_html
from markdown_it import MarkdownIt

from mtkit.documents.document import LanguageCodes, TranslatedText
from mtkit.documents.formats.markdown import read_markdown
from mtkit.documents.skeletons import markdown_skeleton
from mtkit.documents.translate_file import translate_content, translate_markup
from mtkit.errors import MtkitError

from .translators import keep_text, keep_text_without_links, reverse_words, take_all

LANGUAGES = LanguageCodes("en", "de")
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
    "Characters &#x1F; and &#128; and &#0; and &#xFFFFFF; by number",
    "A[^a] b[^b].\n\n[^a]: One\n\n    two *three*\n    four\n\n    > five\n\n        code\n\n"
    "[^b]:\n    six\n\n\tseven\n\nEnd\n\n    code\n",
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
        # As in GitHub, Pandoc and Python-Markdown: paragraphs of a footnote are indented.
        # As in cmark-gfm and markdown-it-footnote: a footnote's text ends a paragraph.
        ("[^1]: one two\n[^b]: three four\n", "[^1]: TWO ONE\n[^b]: FOUR THREE\n"),
        ("one two\n[^1]: three four", "TWO ONE\n[^1]: FOUR THREE"),
        ("> one two\n[^1]: three four", "> TWO ONE\n[^1]: FOUR THREE"),
        ("- one two\n[^1]: three four", "- TWO ONE\n[^1]: FOUR THREE"),
        (
            "[^1]: one two\n\n    three *four*\n\n        co de\n\nfive six\n\n    co de",
            "[^1]: TWO ONE\n\n    *FOUR* THREE\n\n        co de\n\nSIX FIVE\n\n    co de",
        ),
    ],
)
def test_tags_go_with_their_words(page: str, expected: str) -> None:
    assert translate(page) == expected


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        # As markdown-it-deflist, PHP Markdown Extra and kramdown read them.
        (
            "One two\n:   three *four*\n    five\n: six seven\n",
            "TWO ONE\n:   FIVE *FOUR*\n    THREE\n: SEVEN SIX\n",
        ),
        (
            "One two\n\n:   three four\n\n    five six\n\n        code\n\n    - seven eight\n",
            "TWO ONE\n\n:   FOUR THREE\n\n    SIX FIVE\n\n        code\n\n    - EIGHT SEVEN\n",
        ),
        ("> One two\n> : three four", "> TWO ONE\n> : FOUR THREE"),
        # Abbreviations, as in kramdown and Python-Markdown.
        ("*[a b]: one two\n*[CSS]: three *four*", "*[a b]: TWO ONE\n*[CSS]: *FOUR* THREE"),
        ("One two\n*[CSS]: three four", "TWO ONE\n*[CSS]: FOUR THREE"),
    ],
)
def test_each_definition_is_a_text(page: str, expected: str) -> None:
    assert translate(page) == expected
    assert translate(page, keep_text) == page


@pytest.mark.parametrize("marker", ["[^1]: ", "[^2]: ", "*[CSS]: "])
def test_the_skeleton_has_definitions_in_order(marker: str) -> None:
    page = "One [^1] [^2]\n\n[^1]: two\n[^2]: three\n*[CSS]: four\n"
    wanted = markdown_skeleton(page)
    assert wanted == markdown_skeleton(page.replace("two", "zwei"))
    assert wanted != markdown_skeleton(page.replace(marker, ""))
    assert wanted != markdown_skeleton(page.replace(marker, "[^3]: "))


@pytest.mark.parametrize(
    ("page", "answer", "expected"),
    [
        ("One text", "1. foo", "1\\. foo"),
        ("One text", ": foo", "\\: foo"),
        ("One text", "- foo", "\\- foo"),
        ("One text", "# foo", "\\# foo"),
        ("One text", "a *b* c_d <b> [e](f)", None),
        ("One text", "a `b` &amp; \\ ~~x~~", None),
        ("One text", "a [[b]] ![[c]] [[d|e]]", None),
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
    for _ in range(150):
        page = "".join(rng.choice(pieces) for _ in range(14))
        assert translate(page, keep_text) == page
        turned = translate(page)
        assert turned.lower().count("one") == page.count("one"), page
        assert re.sub(r"\s", "", "".join(visible(turned))) == re.sub(
            r"\s", "", "".join(visible(page))
        ), (page, turned)


@pytest.mark.parametrize("page", ["[" * 1_000, "*a **b " * 500])
def test_deep_pages_are_read(page: str) -> None:
    assert translate(page, keep_text) == page


@pytest.mark.parametrize("depth", [12, 60])
def test_all_levels_of_a_nested_page_are_translated(depth: int) -> None:
    steps = "".join(f"{'  ' * level}- one two\n" for level in range(depth))
    assert translate(steps) == steps.replace("one two", "TWO ONE")
    quote = "> " * depth + "one two\n"
    assert translate(quote) == quote.replace("one two", "TWO ONE")
    with pytest.raises(MtkitError, match="nested too deeply"):
        translate("> " * 1_000 + "one two\n")


def test_a_page_keeps_its_byte_order_mark_and_line_ends() -> None:
    page = b"\xef\xbb\xbf# Hi\r\n\r\nthere  \r\ndog \t"
    assert translate_content(page, "markdown", keep_text, LANGUAGES)[0] == page


@pytest.mark.parametrize(
    "page",
    ["Run `one`, `two` or `three` here", "`one`/`two`/`three`", "`one\\`, `two` or `three`"],
)
def test_code_that_a_translation_lost_stays_as_many_pieces(page: str) -> None:
    translated = translate(page, say("Nun"))
    tree = lxml_html.fromstring(f"<div>{render(translated)}</div>")
    assert [code.text.strip("\\") for code in tree.iter("code")] == ["one", "two", "three"]


def write_capitals(texts: Sequence[str]) -> list[TranslatedText]:
    return [TranslatedText(text.upper()) for text in texts]


def see(page: str) -> list[str]:
    """Returns the texts of a page."""
    seen: list[str] = []
    assert translate(page, lambda texts: take_all(texts, seen)) == page
    return seen


def see_left(page: str) -> list[tuple[str, str]]:
    """Returns what stays of a page, and why."""
    return [(each.text, each.reason) for each in read_markdown(page, LANGUAGES).skipped]


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        # Jekyll, Hugo and Liquid as their documentation writes links.
        ("Go [to it]({{ site.url }}/x.html) now", "NOW [IT TO]({{ site.url }}/x.html) GO"),
        ('See [a b]({{< ref "c.md" >}}) now', 'NOW [B A]({{< ref "c.md" >}}) SEE'),
        ('See [a b]({{% ref "c d" %}}) now', 'NOW [B A]({{% ref "c d" %}}) SEE'),
        ("See [a b]({% link _x/y z.md %}) now", "NOW [B A]({% link _x/y z.md %}) SEE"),
        ("[a b]({{ x }} 'c d') e", "E [B A]({{ x }} 'D C')"),
        (
            '![A dog]({{ "/d g" | f: (1) }} "It is")',
            '![DOG A]({{ "/d g" | f: (1) }} "IS IT")',
        ),
        ("See [a b][c] d\n\n[c]: {{ x | y }}/z 'T'", "D [B A][c] SEE\n\n[c]: {{ x | y }}/z 'T'"),
        ("See <{{ x | y }}/z> now", None),
        ("a `{{ b }}` c {{ d | e }} f", None),
        ("|a b {{ c | d }}|e|\n|-|-|\n", "|B A {{ c | d }}|E|\n|-|-|\n"),
        ("Use **a** {{ b }}_c_ d", None),
    ],
)
def test_templates_are_addresses_or_stand_alone(page: str, expected: str | None) -> None:
    translated = translate(page)
    assert expected in (None, translated)
    assert translate(page, keep_text) == page
    tags = r"\]\([^()]*(?:\([^()]*\)[^()]*)?\)|\{\{.*?\}\}|\{%.*?%\}"
    assert len(re.findall(tags, translated)) == len(re.findall(tags, page))


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        # As in Obsidian and Foam.
        ("See [[one two]] now", "NOW [[one two]] SEE"),
        ("See [[one#two|three *four*]] now", "NOW [[one#two|*FOUR* THREE]] SEE"),
        ("![[two three.png|100]] one four", "![[two three.png|100]] FOUR ONE"),
        ("|a b [[one\\|two three]]|c|\n|-|-|\n", "|[[one\\|THREE TWO]] B A|C|\n|-|-|\n"),
        ("[[one|two three]]\n\n[[four five]]", "[[one|THREE TWO]]\n\n[[four five]]"),
        # On GitHub and GitLab the target is last.
        ("See [[One two|one-two]] now", "NOW [[One two|one-two]] SEE"),
        ("Run `[[one two]]` now", "NOW `[[one two]]` RUN"),
    ],
)
def test_links_of_wikis_keep_their_targets(page: str, expected: str) -> None:
    assert translate(page) == expected
    assert translate(page, keep_text) == page


@pytest.mark.parametrize(
    "page", ["One [[two]] three\n\n[two]: /a\n", "One [[two]](a) three", "One ![[two]](a) three"]
)
def test_links_of_commonmark_are_none_of_wikis(page: str) -> None:
    assert visible(translate(page, write_capitals)) == visible(page)
    assert re.findall(r"href=|src=", render(page)) == re.findall(
        r"href=|src=", render(translate(page, write_capitals))
    )
    assert any("[two]" in text for text in see(page))


MDX_SIGNS = ("import A from './a'\n\n", "export const a = {}\n\n", "{/* a */}\n\n", "<Aa />\n\n")


@pytest.mark.parametrize("sign", MDX_SIGNS)
@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("Use {props.name} now", "USE {props.name} NOW"),
        ("Use {f({a: {b: 1}})} now", "USE {f({a: {b: 1}})} NOW"),
        ("Use {'{'} and \\{b c\\} now", "USE {'{'} AND \\{B C\\} NOW"),
        ("One `{` two `}` three", "ONE `{` TWO `}` THREE"),
        (
            "One <Comp a={b > c} title='two three' /> four",
            "ONE <Comp a={b > c} title='TWO THREE' /> FOUR",
        ),
        (
            "One <Comp {...props} title={two}>three</Comp> four",
            "ONE <Comp {...props} title={two}>THREE</Comp> FOUR",
        ),
        ("One <Tabs.Item>two three</Tabs.Item>", "ONE <Tabs.Item>TWO THREE</Tabs.Item>"),
        (
            "<div a={b > c}>\n<p {...d}>One {e f} two</p>\n</div>",
            "<div a={b > c}>\n<p {...d}>ONE {e f} TWO</p>\n</div>",
        ),
        ("# Head {#id}\n\n{a b}\none two", "# HEAD {#id}\n\n{a b}\nONE TWO"),
    ],
)
def test_braces_of_mdx_stay(sign: str, page: str, expected: str) -> None:
    assert translate(sign + page, write_capitals) == sign + expected
    assert translate(sign + page, keep_text) == sign + page
    pieces = r"(?<!\\)\{\.*\w.*?\}|</?[A-Z][\w.]*"
    assert Counter(re.findall(pieces, translate(sign + page))) == Counter(
        re.findall(pieces, sign + page)
    )


@pytest.mark.parametrize(
    "page", ["```js\nimport a from 'b'\n<Aa />\n```\n\n", "A `<Aa>` b<Aa>\n\n"]
)
def test_braces_are_text_without_mdx(page: str) -> None:
    assert "One {two three} four" in see(page + "One {two three} four")


def test_templates_in_html_stay() -> None:
    page = (
        '<div>\nOne {{ a b }} <img alt="{{ c d }}" title="e f"> two\n</div>\n\n'
        'A <b title="{{ g }}">h</b>\n'
    )
    assert sorted(see(page)) == ["A h", "One {{ a b }} two", "e f"]
    templates = re.findall(r"\{\{.*?\}\}", translate(page))
    assert sorted(templates) == ["{{ a b }}", "{{ c d }}", "{{ g }}"]
    assert see_left(page) == []


@pytest.mark.parametrize(
    ("page", "texts", "code"),
    [
        # As the documentation of Jekyll, Hexo, Hugo, Liquid and Twig writes code.
        (
            "One\n{% highlight ruby %}\nputs hello\n\n    if x\n# y\n{% endhighlight %}\ntwo",
            ["One", "two"],
            ["puts hello if x # y"],
        ),
        (
            '{{< highlight go "linenos=table" >}}\nmain() {}\n\n- x\n{{< /highlight >}}\n\nEnd',
            ["End"],
            ["main() {} - x"],
        ),
        ("{{% highlight go %}}\na b\n{{% /highlight %}}{{ c }}\nEnd", ["End"], ["a b"]),
        (
            "- one\n\n  {%- codeblock lang:js -%}\n  a b\n\n  c d\n  {%- endcodeblock -%}\n\n  two",
            ["one", "two"],
            ["a b c d"],
        ),
        ("Use {% raw %}{{ a b }}{% endraw %} here", ["Use here"], ["{{ a b }}"]),
        ("{% verbatim %}\na b\n{% endverbatim %}", [], ["a b"]),
        ("{% mermaid %}a{% endmermaid %}\n\n{{< katex >}}b{{< /katex >}}", [], ["a", "b"]),
        ("One {% comment %}two\n\nthree{% endcomment %} four", ["One", "four"], []),
        ("One {% raw %} two\n\n{% highlight x %}\nthree", ["One two", "three"], []),
        ("A `{% raw %}` or `{% endraw %}`", ["A {% raw %} or {% endraw %}"], []),
        ("{{ code }} one {% codes %} two {% endcode %}", ["one two"], []),
    ],
)  # fmt: skip
def test_code_between_templates_stays(page: str, texts: list[str], code: list[str]) -> None:
    assert see(page) == texts
    assert see_left(page) == [(each, "code") for each in code]
    if code:
        changed = sum(
            one != other for one, other in zip(page, translate(page, write_capitals), strict=True)
        )
        assert changed == sum(map(str.islower, "".join(texts)))


@pytest.mark.parametrize(
    ("page", "texts"),
    [
        (":::tip My title\nThe dog.\n:::\n\n:::note\n\nA cat.\n\n:::", ["The dog.", "A cat."]),
        ("::: warning {.x}\nA *b* c\nd\n::::\nAfter\n:::", ["A b c d", "After"]),
        ("- point\n  :::note{.x}\n  inside\n  :::\n- next", ["point", "inside", "next"]),
        ("> :::note\n> inside\n> :::", ["inside"]),
        ("Before\n[[_TOC_]]\nbehind\n[TOC]\n\n[TOC]\n", ["Before", "behind"]),
        ('!!! note "The title"\n    The dog.\n\n    A cat.\n', ["The title", "The dog.", "A cat."]),
        ("??? tip\n\n    The dog.\n\n        code\n\nEnd", ["The dog.", "End"]),
        ('???+ tip "A `b`"\n    - one\n    - two\n', ["one", "two"]),
        ('=== "Tab one"\n\n    Text in it\n', ["Tab one", "Text in it"]),
        ("!!! Important things here\n\nText", ["!!! Important things here", "Text"]),
        ("import A from './a'\nexport const b = {\n  c: 'One two'\n}\n\nText", ["Text"]),
        ("Text\n\n{/* a comment\nof lines */}\n\nb {/* c d */} e", ["Text", "b e"]),
        ("> [!NOTE]\n> Be careful.", ["Be careful."]),
        ("> [!tip]+ A title\n> and text", ["A title", "and text"]),
        ("```{note}\n:class: x\nThe dog.\n```\nEnd", ["The dog.", "End"]),
        ("````md\n```{note}\nThe dog.\n```\n:::tip\n````\n\nEnd", ["End"]),
        ("```{code-block} py\nprint\n```\n\nEnd", ["End"]),
        ("One\n{% if x %}\ntwo\n{% endif %}\n{{< a\n  b=c >}}\nthree", ["One", "two", "three"]),
        ("One\n{: .note }\ntwo\n::a[A film]{#a}\n3 :: four", ["One", "two", "3 :: four"]),
        ('/// note | Title\nOne\n///\n--8<-- "a.md"\ntwo\n<<< @/b.js', ["One", "two"]),
        ("One\n%% hidden words %%\ntwo 100%% sure", ["One", "two 100%% sure"]),
    ],
)  # fmt: skip
def test_directives_stay_and_end_a_paragraph(page: str, texts: list[str]) -> None:
    for ends in ("\n", "\r\n"):
        written = page.replace("\n", ends)
        assert see(written) == texts
        capitals = translate(written, write_capitals)
        assert capitals.lower() == written.lower()
        changed = sum(one != other for one, other in zip(written, capitals, strict=True))
        assert changed == sum(map(str.islower, "".join(texts)))
        lines = [line for line in written.split(ends) if re.match(r"[>\s]*(:::|\{%|```)", line)]
        assert lines == [
            line
            for line in translate(written).split(ends)
            if re.match(r"[>\s]*(:::|\{%|```)", line)
        ]


@pytest.mark.parametrize(
    ("page", "texts"),
    [
        (
            "| a | Which:<ul><li>INTEL: one</li><li>COMP: <b>two</b></li></ul> |\n|-|-|\n",
            ["a", "Which:", "INTEL: one", "COMP: two"],
        ),
        ("- item <div>block in it</div> end", ["item", "block in it", "end"]),
        ("| a<br>b | <p>c</p><p>d</p> |\n|-|-|\n", ["a b", "c", "d"]),
        ("One <video src=x>no</video> two <hr> three", ["One", "two", "three"]),
        ("One <!-- x --> two <span>three</span>", ["One two three"]),
        ("> <div>quoted <b>text</b></div>\n\nEnd", ["quoted text", "End"]),
    ],
)
def test_tags_of_blocks_end_a_sentence(page: str, texts: list[str]) -> None:
    assert see(page) == texts
    tags = r"</?(?:ul|li|p|div|video|hr)[^<>]*>|\|"
    assert re.findall(tags, translate(page)) == re.findall(tags, page)


def test_what_stays_is_told() -> None:
    page = (
        "A\n\n    indented code\n\n```py\nfenced\n```\n\n:::tip My title\n:::\n\n"
        "> <div>in\n> quotes</div>\n\n![a [b](c) d](e)\n"
    )
    assert see_left(page) == [
        ("My title", "in a directive"),
        ("indented code", "code"),
        ("fenced", "code"),
        ("in quotes", "in unsupported elements"),
        ("a [b](c) d", "in unsupported elements"),
    ]
    assert see_left("Text\n\n* more *words* <b>x</b> `code`\n") == []
    for skipped in read_markdown(page, LANGUAGES).skipped:
        assert skipped.text.split(maxsplit=1)[0] in page[skipped.start :][:30]


FRONT = """---
layout: some page
title: Some page  # comment
"description": "It's *bold*"
params: {title: inner title}
summary: >-
  Two lines
  of it
list:
  - title: not this
---
"""


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_front_matter_has_a_title_a_description_and_a_summary(ends: str) -> None:
    page = f"{FRONT}\nSome text\n".replace("\n", ends)
    assert see(page) == ["Some page", "Two lines of it", "Some text"]
    assert see_left(page) == [("It's *bold*", "in front matter")]
    answers = ['"A: #1\\" - it\'s', "C: d # e", "F"]
    translated = translate(page, lambda texts: [TranslatedText(each) for each in answers])
    front = yaml.safe_load(translated.split("---")[1])
    wanted = yaml.safe_load(FRONT.split("---")[1])
    assert front == wanted | {"title": answers[0], "summary": answers[1]}
    assert "# comment" in translated


@pytest.mark.parametrize(
    ("front", "left"),
    [
        ("---\ntitle: {{ page.title }} here\n---\n", ["{{ page.title }} here"]),
        ('+++\ntitle = "Some page"\nweight = 2\n+++\n', ['"Some page"']),
        ("---\ntitle: 'open\nsummary: text\n---\n", ["'open", "text"]),
        ("---\ntitle: 2024\ntags: [title]\n---\n", []),
    ],
)
def test_front_matter_that_stays_is_told(front: str, left: list[str]) -> None:
    assert translate(f"{front}\nSome text\n") == f"{front}\nTEXT SOME\n"
    assert see_left(front) == [(each, "in front matter") for each in left]


def test_a_control_character_becomes_a_replacement_character() -> None:
    # CommonMark reads a null character as U+FFFD, however it is written.
    page = "Read *the book* now"
    assert translate(page, say("Lies \0 das Buch")) == "Lies *\ufffd das* Buch"


def test_large_pages_take_no_time_that_grows_with_their_square() -> None:
    begin = time.process_time()
    for page in (
        "[" * 50_000,
        "{{" * 50_000,
        "{% a `" * 20_000 + "%}",
        "---\n" + "--\n" * 50_000,
        "a" + " " * 100_000 + "b",
        "a " + "<code>" * 900 + "{#a" * 3_000,
        "![a](b 'c" + "\\' '" * 3_000 + ")",
        "www." + "." * 100_000,
        "\\" * 20_000 + "{{ a }}",
        "import a" + " from" * 10_000 + "\n\n!!! " + "a " * 20_000,
        "|a" * 2_000 + "\n" + "|-" * 2_000 + "\n",
        "[^1]: a\n: b\n*[c]: d\n" * 5_000,
        "{% raw %}a" * 20_000,
        "[[a|b]] ![[c]] [[d|e" * 3_000,
        "{/**/}" + "{a" * 20_000 + "{'{{'" * 5_000 + "{{a}" * 5_000,
        "<Aa {b} c='" * 5_000,
        "---\n" + "title: {{ a\n" * 20_000 + "---\n",
        "{% raw %}a{{< endraw >}}" * 10_000 + "{% endraw %}",
    ):
        read_markdown(page, LANGUAGES)
    assert time.process_time() - begin < 30


_BLOCKS = (
    "# The red *car*\n", "The cat sleeps.\nThe **dog** too.\n", "- a\n- b c\n  - d\n",
    "1. first\n2. second [link](/a)\n", "> quoted text\n> in lines\n", "> [!NOTE]\n> Be careful.\n",
    "| a b | c |\n|---|---|\n| d | e<br>f |\n", ":::tip Title\nThe dog.\n:::\n", "[TOC]\n",
    "```py\nprint('x')\n```\n", "    code\n", "---\n", "<div>\nSome <b>html</b>\n</div>\n",
    "Go [to it]({{ site.url }}/x) and ![see it](/p.png 'A b').\n",
    "{% if a %}\nIn it.\n{% endif %}\n",
    "- item <ul><li>one two</li></ul>\n", "See <https://x.org> or `code a`.\n", "Setext\n======\n",
    "A [ref][r] and [r].\n\n[r]: /ref 'T'\n", "Note[^1].\n\n[^1]: The note.\n",
    "{{< a b >}}\nText\n",
    "Hard  \nbreak\\\nhere\n", "![A]({{< b >}}) is [c d]({% e f %}).\n",
    "2 * 3 _ 4 \\* & &amp; 5 < 6\n",
)  # fmt: skip


def find_structure(page: str) -> tuple[list[str], Counter[str]]:
    """Returns the types of a page's blocks in order, and how often each target is linked to."""
    tokens = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(page)
    inner = [child.attrs for token in tokens for child in token.children or ()]
    targets = [str(each[key]) for each in inner for key in ("href", "src") if key in each]
    return [token.type for token in tokens], Counter(targets)


@pytest.mark.parametrize("num_pages", [70, pytest.param(1_000, marks=pytest.mark.patient)])
def test_any_page_keeps_its_blocks_and_targets(num_pages: int) -> None:
    rng = random.Random(2)
    for _ in range(num_pages):
        page = "\n".join(rng.choices(_BLOCKS, k=rng.randrange(1, 6)))
        page = page.replace("\n", rng.choice(["\n", "\n", "\r\n"]))
        assert translate(page, keep_text) == page
        for translator in (write_capitals, reverse_words):
            translated = translate(page, translator)
            wanted, found = find_structure(page), find_structure(translated)
            assert wanted[0] == found[0], (page, translated)
            assert wanted[1] == found[1], (page, translated)
            templates = r"\{\{.*?\}\}|\{%.*?%\}|(?m:^:::.*$)"
            assert sorted(re.findall(templates, translated)) == sorted(re.findall(templates, page))


@pytest.mark.parametrize("text", ["Look :smile: here", ":warning: look here", "look here :+1:"])
def test_emoji_by_name_stay(text: str) -> None:
    [name] = [word for word in text.split() if word.startswith(":") and word != ":"]
    translated = translate(f"{text}\n")
    assert name in translated
    assert "HERE" in translated
    assert translate("a 10:30:45 b::c:d\n").count(":") == 5
