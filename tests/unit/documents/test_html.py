"""Pages: what stays, what is translated, where tags go."""

import random
import re
from collections.abc import Sequence

import pytest
from lxml import html as lxml_html

from mtkit.documents.atoms import find_atoms
from mtkit.documents.document import LanguageCodes, TranslatedText
from mtkit.documents.translate_file import translate_markup
from mtkit.errors import MtkitError

from .translators import (
    keep_text,
    keep_text_without_links,
    read_texts,
    reverse_words,
    take_all,
)

PAGES = [
    "<p>Total :\xa0 <b>5</b> or \u2009<i>six</i> \u3000</p>",
    "<p>Hello <b>big\n  world</b>! &eacute;t&eacute; é AT&T &amp; x<br>line H<sub>2</sub>O.</p>",
    "<p title=foo>un<b>believ</b>able <i> spaced </i>t<p>second  paragraph &nbsp;end",
    "<a href=x><div>In block</div></a><b>foo<p>bar</b> baz <!-- c --> q",
    "<title>A & B</title><script>if (a < b) x</script>A&nbsp;b <code>list</code>s<br><br>z",
    '<ul>\r\n <li>one <img alt="A &quot;dog&quot;" src=x>\r\n <li>two <a name=q></a> x\r\n</ul>',
    "<p>On <code>ls</code>&#8201;&#8212;&#8201;   it lists <i>files</i>, once",
    "<p>The sum <em>x</em><sup>16</sup> + <em>x</em><sup>2</sup> + 1 of x16, <b>b</b><i>i</i>g",
    "<p>Use <code>ls</code> or ls, then <code>ls</code> &lt;dir&gt; 1 < 2 > 0.",
]


def translate(page: str, translator: object = reverse_words) -> str:
    return translate_markup(page, "html", translator, LanguageCodes("en", "de"))  # type: ignore[arg-type]


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("translator", [keep_text, keep_text_without_links])
def test_the_same_text_gives_the_same_characters(page: str, translator: object) -> None:
    assert translate(page, translator) == page


def test_tags_go_with_their_words() -> None:
    page = '<p>The <b>quick <i>brown</i></b> fox <a href="x">jumps</a></p>'
    assert translate(page) == '<p><a href="x">JUMPS</a> FOX <b><i>BROWN</i> QUICK</b> THE</p>'


@pytest.mark.parametrize(
    ("page", "stays"),
    [
        ("<p>Run <code>the lazy</code> dog</p>", "<code>the lazy</code>"),
        ("<p>A <span translate=no>Big Name</span> here</p>", "<span translate=no>Big Name</span>"),
        ("<pre>some code</pre><p>text</p>", "<pre>some code</pre>"),
        ("<p>a</p><style>p { x }</style>", "<style>p { x }</style>"),
        ('<p>He said <i lang="fr">mon ami</i> twice</p>', '<i lang="fr">mon ami</i>'),
    ],
)
def test_what_is_not_to_be_translated_stays(page: str, stays: str) -> None:
    assert stays in translate(page)


def test_texts_are_blocks_and_attributes() -> None:
    seen: list[str] = []
    page = (
        '<html lang="en-GB"><title>The title</title><p>One <b>two</b>\nthree<div>four</div>'
        '<img alt="A dog" title="Two"><input placeholder="Name"><button aria-label="Go">x</button>'
        "<table><tr><td>cell<td>other</table>42"
    )
    changed = translate(page, lambda texts: take_all(texts, seen))
    assert sorted(seen) == sorted(
        ["The title", "One two three", "four", "A dog", "Two", "Name", "Go", "x", "cell", "other"]
    )
    assert changed == page.replace("en-GB", "de")


def test_a_translation_cannot_bring_markup() -> None:
    def inject(texts: list[str]) -> list[TranslatedText]:
        return [TranslatedText('"><script>x</script>&amp;') for _ in texts]

    page = translate('<p title="a">text</p><p title=b>text</p>', inject)
    read = lxml_html.fromstring(f"<div>{page}</div>")
    assert [each.tag for each in read.iter()] == ["div", "p", "p"]
    assert {each.text for each in read} == {'"><script>x</script>&amp;'}
    assert {each.get("title") for each in read} == {'"><script>x</script>&amp;'}


def test_any_soup_keeps_each_tag_once() -> None:
    rng = random.Random(1)
    pieces = [
        "<b>",
        "</b>",
        "<i>",
        "</i>",
        "<p>",
        "</p>",
        "<br>",
        "<img src=x>",
        "one two",
        " ",
        ".",
    ]
    for _ in range(300):
        page = "".join(rng.choice(pieces) for _ in range(12))
        turned = translate(page)
        for tag in pieces[:8]:
            assert turned.count(tag) == page.count(tag), page
        assert turned.lower().count("one") == page.count("one"), page
        assert translate(page, keep_text) == page


@pytest.mark.parametrize(
    ("page", "fault"),
    [
        ('<p>a</p>\n<a href="', "line 2: the document ends inside a tag"),
        ("<p>a<!-- b", "ends inside a tag or comment"),
        ("a\n\n<script>x", "unclosed <script>"),
        ("<b>" * 1_001 + "a" + "</b>" * 1_001, "more than 1,000 tags"),
        ("a\0b", "null character"),
        (f"<p>\n&#{'1' * 5_000};", "line 2: a character reference of a thousand digits"),
        (f"<p title='&#{'0' * 5_000}65;'>", "reference of a thousand digits"),
    ],
)
def test_a_broken_page_is_named(page: str, fault: str) -> None:
    with pytest.raises(MtkitError, match=fault):
        translate(page)


def test_a_thousand_tags_inside_one_another_are_kept() -> None:
    page = f"<p>a {'<b>' * 1_000}word{'</b>' * 1_000} b</p>"
    assert translate(page, keep_text) == page
    assert translate(page) == f"<p>B {'<b>' * 1_000}WORD{'</b>' * 1_000} A</p>"


@pytest.mark.parametrize("inner", ["<code></code>", "<i><img></i>", "<i> </i>"])
def test_elements_without_text_are_kept(inner: str) -> None:
    page = f"<p>Some <b>{inner}</b> text</p>"
    assert translate(page, keep_text) == page


def test_many_protected_texts_each_go_with_their_own() -> None:
    # As many as are looked for together, of one length; the names are no words of the translation.
    names = [f"x{index}" for index in range(100, 300)]
    page = "<p>" + " ".join(f"word <code>{name}</code>" for name in names) + "</p>"
    turned = " ".join(f"<code>{name}</code> WORD" for name in names[::-1])
    assert translate(page, keep_text) == page
    assert translate(page) == f"<p>{turned}</p>"


def test_the_same_protected_text_goes_to_the_place_that_its_links_name() -> None:
    page = "<p>one <code>ls</code> two ls</p>"

    def translate_it(texts: list[str]) -> list[TranslatedText]:
        # "ls" without tags comes first, and is linked to the last word of the source.
        assert texts == ["one ls two ls"]
        return [TranslatedText("ls eins ls zwei", (((11, 13), (0, 2)), ((4, 6), (8, 10))))]

    assert translate(page, translate_it) == "<p>ls eins <code>ls</code> zwei</p>"


def test_a_protected_text_is_found_as_a_whole_word() -> None:
    page = "<p>Use <code>ls</code> now</p>"

    def translate_it(texts: list[str]) -> list[TranslatedText]:
        return [TranslatedText("Hals ls als")]

    assert translate(page, translate_it) == "<p>Hals <code>ls</code> als</p>"


@pytest.mark.parametrize(
    ("page", "wanted", "text"),
    [
        # The mark of a heading and its number are no part of the sentence.
        (
            '<h1><b class="n">2.1. </b>The page<a href="#x">\u00b6</a></h1>',
            '<h1><b class="n">2.1. </b>PAGE THE<a href="#x">\u00b6</a></h1>',
            "The page",
        ),
        ("<p><a>The page</a> |</p>", "<p><a>PAGE THE</a> |</p>", "The page"),
        (
            "<p>A dog<a href=#n><b>[</b>1<b>]</b></a>, b</p>",
            "<p><a href=#n><b>[</b>1<b>]</b></a>B , DOG A</p>",
            "A dog, b",
        ),
        ("<p>A <i>\u2192</i> B</p>", "<p><i>\u2192</i> B A</p>", "A B"),
        # Numbers and signs of the sentence itself are; so is a sign within a word.
        ("<p><b>3</b> dogs</p>", "<p>DOGS <b>3</b></p>", "3 dogs"),
        ("<p>Yes<b>,</b> no</p>", "<p>NO <b>,</b> YES</p>", "Yes, no"),
        ("<p>T<b>-</b>Shirt</p>", "<p>SHIRT <b>-</b> T</p>", "T-Shirt"),
        # An image that has space on both sides keeps it.
        ("<p>A <img src=x> B</p>", "<p><img src=x> B A</p>", "A B"),
    ],
)
def test_what_is_no_text_stays_out_of_the_sentence(page: str, wanted: str, text: str) -> None:
    seen: list[str] = []
    take_all_of = translate(page, lambda texts: take_all(texts, seen))
    assert (take_all_of, seen) == (page, [text])
    assert translate(page) == wanted


@pytest.mark.parametrize(
    ("text", "is_left"),
    [
        ("--format=&lt;fmt&gt;", True),
        ("-o &lt;file&gt;", True),
        ("-n &lt;num&gt;, --[no-]all", True),
        ("-&lt;number&gt;", True),
        ("--list all files", False),
        ("-Yes, he does", False),
        ("- an item", False),
    ],
)
def test_options_of_a_command_are_no_text(text: str, is_left: bool) -> None:
    seen: list[str] = []
    page = f"<dl><dt>{text}</dt></dl>"
    assert translate(page, lambda texts: take_all(texts, seen)) == page
    assert (not seen) == is_left


@pytest.mark.parametrize(
    ("page", "target", "wanted"),
    [
        ("Run <code>ls -l</code> now", "Lauf jetzt", "Lauf <code>ls -l</code> jetzt"),
        ("Run <b><code>ls</code></b> now", "Lauf jetzt", "Lauf <b><code>ls</code></b> jetzt"),
        ("Run <code>ls</code>, now", "Lauf, jetzt", "Lauf <code>ls</code>, jetzt"),
        ("<code>ls</code> run now", "Lauf jetzt", "<code>ls</code> Lauf jetzt"),
        # A word that stands for nothing else is what became of it.
        ("Run <code>ls</code> now.", "Lauf Els jetzt.", "Lauf <code>ls</code> jetzt."),
        ("Run now: <code>ls</code>", "Lauf jetzt:", "Lauf jetzt: <code>ls</code>"),
        (
            "Run <code>ls</code>, <b><code>cp</code></b> now",
            "Lauf jetzt",
            "Lauf <code>ls</code> <b><code>cp</code></b> jetzt",
        ),
        (
            "Run <code>ls</code><code>cp</code> or <code>mv</code> now",
            "Lauf jetzt",
            "Lauf <code>ls</code><code>cp</code> <code>mv</code> jetzt",
        ),
    ],
)
def test_a_protected_text_that_was_lost_takes_no_other_words_place(
    page: str, target: str, wanted: str
) -> None:
    def translate_words(texts: Sequence[str]) -> list[TranslatedText]:
        words = (("un", "Lauf"), ("now", "jetzt"))
        links = [
            tuple(
                (text.index(word), text.index(word) + len(word))
                for text, word in zip((texts[0], target), pair, strict=True)
            )
            for pair in words
        ]
        return [TranslatedText(target, tuple(links))]

    assert translate(f"<p>{page}</p>", translate_words) == f"<p>{wanted}</p>"


@pytest.mark.parametrize("answer", ["x <b> y", "x </b y", "x <!-- y", "x < y"])
def test_a_bare_sign_of_the_source_lets_no_tag_in(answer: str) -> None:
    page = translate("<p>One <3 two</p>", lambda _: [TranslatedText(answer)])
    (paragraph,) = lxml_html.fragments_fromstring(page)
    assert (paragraph.tag, len(paragraph), paragraph.text) == ("p", 0, answer)


@pytest.mark.parametrize("tag", ["<a{}>", "<a b{}>", "<a b={}c>", "<a{}b>"])
@pytest.mark.parametrize("space", [" ", "/"])
def test_long_space_in_a_tag_is_read_once(tag: str, space: str) -> None:
    # Read again from each of its characters, it would take hours.
    page = f"{tag.format(space * 1_000_000)}one two</a>"
    assert translate(page) == page.replace("one two", "TWO ONE")


@pytest.mark.parametrize(
    ("page", "texts"),
    [
        # The nearest mark counts.
        ('<div class="notranslate">a <p translate="yes">b</p> c</div>', ["b"]),
        ('<div class="notranslate">a <p class="translate">b</p> c</div><p>d</p>', ["b", "d"]),
        ('<div translate="no">a <b translate="yes">b <i translate="no">c</i></b></div>', ["b c"]),
        ('<div lang="fr">a <b lang="en">b</b> c</div>', ["b"]),
        ('<p translate="no">a<p>b', ["b"]),
        ('<ul translate="no"><li>a<ul><li translate=yes>b</ul><li>c</ul><p>d', ["b", "d"]),
        ('<div translate="no"><span translate="yes">a<div>b</div></div><p>c', ["a", "b", "c"]),
        ('<div translate=no>a <span translate>b</span></div><pre translate>c</pre>', ["b", "c"]),
        # Elements that another's beginning ends, or the end of what holds them.
        ("<ul><li translate=no>a<li>b</ul>", ["b"]),
        ("<dl><dt lang=fr>a<dd>b</dl>", ["b"]),
        ("<p lang=fr>a<h2>b</h2><p lang=fr>c<hr>d", ["b", "d"]),
        ("<select><option lang=fr>a<option>b</select>", ["b"]),
        ("<table><tr><td lang=fr>a<td>b<tr><td>c</table><p>d", ["b", "c", "d"]),
        ("<ul><li lang=fr>a</ul>b", ["b"]),
        ("<ul><li lang=fr>a<ul><li>b</ul>c</li><li>d</ul>", ["d"]),
        # A word in code is part of the sentence, unless it is to be translated.
        ('<p>a <code translate="yes">b</code></p>', ["a b"]),
        ("<p>a <code>b</code></p>", ["a b"]),
        # What is no language says nothing.
        ('<html lang="{{ site.lang }}"><p>a</p></html>', ["a"]),
        ('<html lang="und"><p lang="x-default">a</p></html>', ["a"]),
        ('<html lang="fr"><p>a</p></html>', []),
        # Code of a page's program.
        ("<p>a</p><?php echo $a->b; ?><p>b</p>", ["a", "b"]),
        ('<p>a <?= $x > 0 ? "<b>" : "no" ?> b</p>', ["a b"]),
        ('<p>a <%= x > 0 %> b <% if y > 1 %> c</p>', ["a b", "c"]),
        ('<a href="<?= $a->b ?>">a</a>', ["a"]),
        ("<?xml:namespace prefix = o /><p>a</p>", ["a"]),
        ("<img alt=\"<%= t('a dog') %>\" src=x> b", ["b"]),
        ('<a title="<?= t("hi") ?> more" href=y>a</a>', ["a"]),
        ("<img alt=<?= $x ?> src=y>a", ["a"]),
        ("<div <?php if ($a > 1) echo 'b'; ?>>a</div>", ["a"]),
        ("<p>a <!--> b <!---> c</p>", ["a b c"]),
        # An unknown section is a comment.
        ("<p>a <![foo[ b ]]> c</p>", ["a c"]),
        # What a reader sees of a form.
        ('<input type="submit" value="Send"><input value="b">', ["Send"]),
        ('<option label="A car">B</option>', ["A car", "B"]),
        ("<textarea placeholder='type here'>a</textarea>", ["type here"]),
        ("<a title=Don't>b</a>", ["Don't", "b"]),
        # Entities of old pages.
        ("<p>a &copyhoney b</p>", ["a ©honey b"]),
        ('<p title="a &copy=2 &copyb &copy; c">x</p>', ["a &copy=2 &copyb © c", "x"]),
    ],
)  # fmt: skip
def test_which_texts_of_a_page_are_translated(page: str, texts: list[str]) -> None:
    assert read_texts(page, "html")[0] == texts
    assert translate_markup(page, "html", keep_text, LanguageCodes("en", "de")) in (
        page,
        page.replace('lang="en"', 'lang="de"'),
    )


@pytest.mark.parametrize("space", [" &#160; ", "&#160; ", " &#160;", " &nbsp; &nbsp; ", " &#8201;"])
def test_space_beside_a_no_break_space_stays_single(space: str) -> None:
    assert read_texts(f"<p>one{space}two</p>", "html")[1] == f"<p>ONE{space}TWO</p>"


def test_code_of_a_program_stays() -> None:
    page = '<p>a <?= $x > 0 ? "<b>" : "no" ?> b</p><?php if ($a > 1): ?><p>c</p><?php endif; ?>'
    wanted = page.replace(">a <", ">A <").replace(" b</p>", " B</p>").replace(">c<", ">C<")
    assert read_texts(page, "html")[1] == wanted


def test_the_language_of_a_page_is_the_target() -> None:
    page = '<meta http-equiv="Content-Language" content="{}"><p>a b</p>'
    assert read_texts(page.format("en"), "html")[1] == page.format("de").replace("a b", "A B")
    assert read_texts(page.format("fr"), "html")[1] == page.format("fr").replace("a b", "A B")


def test_templates_stay() -> None:
    page = (
        '<ul class="{{ c }}">{% for a in b %}<li title="A {{ c }}">Dear {{ user.name|upper }}, '
        "{# no #}you have {% if a > 1 %}many{% else %}few{% endif %} {{{ x }}}</li>"
        "{% endfor %}</ul>"
    )
    seen, written = read_texts(page, "html")
    assert seen == ["Dear {{ user.name|upper }}, you have", "many", "few"]
    assert written == re.sub("Dear|you have|many|few", lambda found: found[0].upper(), page)


def test_blocks_of_xhtml_end_a_text() -> None:
    page = "<div>One <b>two</b><p>Three</p><ul><li>Four</li></ul></div>"
    assert read_texts(page, "xml")[0] == ["One two", "Three", "Four"]


def test_a_language_of_three_letters_is_the_same_language() -> None:
    assert read_texts('<html lang="eng"><p>a</p></html>', "html")[0] == ["a"]


def test_half_of_a_pair_of_surrogates_in_a_translation_is_replaced() -> None:
    answer = [TranslatedText("x \ud83d y")]
    for form, page in (("html", "<p>a</p>"), ("json", '"é"'), ("yaml", "é"), ("text", "a")):
        written = translate_markup(page, form, lambda _: answer, LanguageCodes())
        assert "x \ufffd y" in written


@pytest.mark.parametrize(
    "key", ['name="twitter:description"', 'property="og:image:alt"', 'itemprop="description"']
)
def test_descriptions_for_other_pages_are_translated(key: str) -> None:
    assert translate(f'<meta {key} content="a dog">') == f'<meta {key} content="DOG A">'
    page = '<meta property="og:site_name" content="a dog">'
    assert translate(page) == page


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ('The cat<sup><a href="#n1">1</a></sup> sleeps.', "The cat sleeps."),
        ("A room of 20 m<sup>2</sup>, here", "A room of 20 m, here"),
        ("The <ruby>man<rp>(</rp><rt>mensch</rt><rp>)</rp></ruby> sleeps", "The man sleeps"),
        ("CO<sub>2</sub> is here", "CO2 is here"),
    ],
)
def test_raised_numbers_and_readings_stay_with_their_words(page: str, text: str) -> None:
    seen: list[str] = []

    def translate_it(texts: Sequence[str]) -> list[TranslatedText]:
        seen.extend(texts)
        return [
            TranslatedText(each.upper(), tuple((atom, atom) for atom in find_atoms(each)))
            for each in texts
        ]

    tags = re.compile("(<rt>.*?</rt>|<[^<>]*>)")
    capitals = "".join(each if each.startswith("<") else each.upper() for each in tags.split(page))
    assert translate(f"<p>{page}</p>", translate_it) == f"<p>{capitals}</p>"
    assert seen == [text]


@pytest.mark.parametrize(
    ("tag", "expected"),
    [
        ('<html lang="en">', '<html dir="rtl" lang="ar">'),
        ('<html dir="ltr" class=a lang=en>', '<html dir="rtl" class=a lang=ar>'),
        ('<html xml:lang="en" lang = "en" dir=auto>', '<html xml:lang="ar" lang = "ar" dir=auto>'),
        ("<html LANG='en' DIR='LTR'>", "<html LANG='ar' DIR='rtl'>"),
        ('<html lang="fr">', '<html lang="fr">'),
    ],
)
def test_a_page_gets_the_direction_of_its_language(tag: str, expected: str) -> None:
    page = f"{tag}<p>one</p></html>"
    for source, target in (("en", "ar"), ("en", "de")):
        written = translate_markup(page, "html", keep_text, LanguageCodes(source, target))
        wanted = expected if target == "ar" else tag.replace("en", "de")
        assert written == f"{wanted}<p>one</p></html>"


@pytest.mark.parametrize(
    ("page", "texts"),
    [
        # CSS puts a gap between the links of a menu.
        ('<nav><a href="/">Home</a><a href="/b">About us</a></nav>', ["Home", "About us"]),
        ("<div><span>Name</span><span>Value here</span></div>", ["Name", "Value here"]),
        ("<div><b>Area 1</b><i>Open</i></div>", ["Area 1", "Open"]),
        ('<p>So <a href="#1">[1]</a><a href="#2">[2]</a> it is.</p>', ["So [1] it is."]),
        ("<p><b>un</b><i>done</i> work</p>", ["undone work"]),
    ],
)
def test_elements_without_space_between_them(page: str, texts: list[str]) -> None:
    assert read_texts(page, "html")[0] == texts
