"""Markup in strings that a format escapes: expected files are written by hand."""

import io
import json
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from babel.messages.pofile import read_po
from lxml import etree

from mtkit.documents.document import LanguageCodes, TranslatedText
from mtkit.documents.translate_file import translate_markup
from mtkit.errors import MtkitError

from .translators import keep_text, read_texts, reverse_words

_HEAD = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\n'


def translate_message(message: str) -> str:
    page = f'{_HEAD}msgid {message}\nmsgstr ""\n'
    translated = translate_markup(page, "po", reverse_words, LanguageCodes())
    same = translate_markup(page, "po", keep_text, LanguageCodes())
    strings = "".join(message.split('"')[1::2])
    assert same == f'{_HEAD}msgid {message}\nmsgstr "{strings}"\n'
    return translated.removesuffix("\n").split("msgstr ")[-1]


@pytest.mark.parametrize(
    ("message", "translated"),
    [
        ('"Press <b>Start</b> now"', '"NOW <b>START</b> PRESS"'),
        # Written in two strings, with space and a line break at its ends.
        ('" <i>A cat</i> reads a"\n" book\\n"', '" BOOK A READS <i>CAT A</i>\\n"'),
        # All of it.
        ("\"<span size='large'>Big title</span>\"", "\"<span size='large'>TITLE BIG</span>\""),
        # Code stays.
        ('"Use <code>ls -l</code> here<br/>"', '"HERE <code>ls -l</code> USE<br/>"'),
        # A tag without a partner stays; what isn't an element is text.
        ('"a <file> <b>c"', '"C <b> > FILE < A"'),
        ('"a <b>b</i>"', '"<b>B A</i>"'),
        # Components of a program are elements if they are closed.
        ('"Press <bold>Start</bold> now<icon/>"', '"NOW <bold>START</bold> PRESS<icon/>"'),
        ('"Read the <link>big book</link>"', '"<link>BOOK BIG</link> THE READ"'),
        ('"A <Button>big & red</Button> one"', '"ONE <Button>RED & BIG</Button> A"'),
        ('"a</file> <file>b"', '"B > FILE < > FILE / < A"'),
    ],
)
def test_tags_of_messages_go_with_their_words(message: str, translated: str) -> None:
    assert translate_message(message) == translated


def test_attributes_in_escaped_quotes_are_part_of_the_tag() -> None:
    page = r'{"k": "See <a href=\"%s\" title=\"a > b\">the page</a>!", "l": "x <b>y"}'
    wanted = r'{"k": "! <a href=\"%s\" title=\"a > b\">PAGE THE</a> SEE", "l": "Y <b> X"}'
    assert translate_markup(page, "json", reverse_words, LanguageCodes()) == wanted
    assert translate_markup(page, "json", keep_text, LanguageCodes()) == page


@pytest.mark.parametrize(
    ("form", "page", "texts", "wanted"),
    [
        # Go, PHP, and all signs as numbers.
        ("json", r'"Press \u003cb\u003eit\u003c/b\u003e"', ["Press it"],
         r'"PRESS \u003cb\u003eIT\u003c/b\u003e"'),
        ("json", r'"Press <b>it<\/b> or yes\/no"', ["Press it or yes/no"],
         r'"PRESS <b>IT<\/b> OR YES\/NO"'),
        ("json", r'"a \u003ca href=\"\/x\u003f\" title=\u0027>\u0027\u003Eb\u003c\/a>"', ["a b"],
         r'"A \u003ca href=\"\/x\u003f\" title=\u0027>\u0027\u003EB\u003c\/a>"'),
        # Blocks end a text.
        ("json", '"<p>One.</p><ul><li>Two</li><li>Three</li></ul>"', ["One.", "Two", "Three"],
         '"<p>ONE.</p><ul><li>TWO</li><li>THREE</li></ul>"'),
        ("json", r'"<p>One\nline</p>\n<p>Two"', ["One line", "Two"], r'"<p>ONE\nLINE</p>\n<p>TWO"'),
        ("json", '"a &amp; b &lt;c&gt; &nbsp;d"', ["a & b <c> \xa0d"],
         '"A &amp; B &lt;C&gt; &nbsp;D"'),
        # A comment, code and what is marked aren't text.
        ("json", '"a <!-- <b> --><code>x y</code> <i translate=\\"no\\">b</i> c"',
         ["a x y b c"], '"A <!-- <b> --><code>x y</code> <i translate=\\"no\\">b</i> C"'),
        # Names in a line of usage are text, elements without an end stay.
        ("json", '"a <file> b"', ["a <file> b"], '"A <FILE> B"'),
        ("json", '"a <x-link to=\\"/y\\">b</x-link> <file-name>"', ["a b <file-name>"],
         '"A <x-link to=\\"/y\\">B</x-link> <FILE-NAME>"'),
        ("json", '"<p>a <b>b</p>"', ["a b"], '"<p>A <b>B</p>"'),
        ("json", '"<p lang=\\"fr\\">a</p><p>b</p>"', ["b"], '"<p lang=\\"fr\\">a</p><p>B</p>"'),
        ("json", '"a <a href=\\"x\\">b"', ["a b"], '"A <a href=\\"x\\">B"'),
        # Half a character.
        ("json", r'"a \ud83d b \ud83d\ude00 c"', ["a \ufffd b \U0001f600 c"],
         r'"A \ud83d B \ud83d\ude00 C"'),
        ("yaml", r'a: "x \ud83d y"', ["x \ufffd y"], r'a: "X \ud83d Y"'),
        ("yaml", "a: Hello <b>you</b>", ["Hello you"], "a: HELLO <b>YOU</b>"),
        ("yaml", "a: 'It''s <b>you</b>'", ["It's you"], "a: 'IT''S <b>YOU</b>'"),
        ("yaml", 'a: "x <b class=\\"c\\">y</b>"', ["x y"], 'a: "X <b class=\\"c\\">Y</b>"'),
        ("yaml", "a: |\n  <p>x <b>y</b>,</p>\n  <p>z</p>\n", ["x y,", "z"],
         "a: |\n  <p>X <b>Y</b>,</p>\n  <p>Z</p>\n"),
        ("yaml", "a: <p>x</p><p>y</p>\n", ["x", "y"], "a: <p>X</p><p>Y</p>\n"),
        ("yaml", "a: one\n\n  two\n", ["one", "two"], "a: ONE\n\n  TWO\n"),
        ("yaml", 'a: "fo\\\n  o b"', ["foo b"], 'a: "FOO B"'),
        ("po", 'msgid "a <b>b</b>\\n"\nmsgstr ""', ["a b"],
         'msgid "a <b>b</b>\\n"\nmsgstr "A <b>B</b>\\n"'),
        ("po", 'msgid ""\n"<p>a</p>"\n"<p>b"\n"</p>"\nmsgstr ""', ["a", "b"],
         'msgid ""\n"<p>a</p>"\n"<p>b"\n"</p>"\nmsgstr "<p>A</p><p>B</p>"'),
        ("po", 'msgid "a <b "\n"c=\\"d\\">e</b>"\nmsgstr ""', ["a e"],
         'msgid "a <b "\n"c=\\"d\\">e</b>"\nmsgstr "A <b "\n"c=\\"d\\">E</b>"'),
        ("po", r'msgid "a \ud83d b"' '\nmsgstr ""', ["a \ufffd b"],
         r'msgid "a \ud83d b"' '\n' r'msgstr "A \ud83d B"'),
    ],
)  # fmt: skip
def test_markup_is_found_in_what_a_string_says(
    form: str, page: str, texts: list[str], wanted: str
) -> None:
    assert read_texts(page, form) == (texts, wanted)


@pytest.mark.parametrize(
    ("inner", "texts", "wanted"),
    [
        (r"I\'m &lt;b>here&lt;/b>", ["I'm here"], r"I\'M &lt;b>HERE&lt;/b>"),
        (r"a <b>b</b> \"c\"", ['a b "c"'], r"A <b>B</b> \"C\""),
        (r"<![CDATA[<b>a</b> &amp; it\'s]]>", ["a & it's"], r"<![CDATA[<b>A</b> &amp; IT\'S]]>"),
        (r"one\ntwo", ["one", "two"], r"ONE\nTWO"),
        ('<x:g id="1" xmlns:x="y">%d</x:g> cards', ["%d cards"], None),
        ("@string/other", [], None),
        ("\\u00e9t\\u00e9 &#8230;", ["été …"], None),
        ("@null", [], None),
        ("?attr/colorPrimary", [], None),
        ("@+id/foo", [], None),
        ('"  it\'s a  "', ["it's a"], '"  IT\\\'S A  "'),
        ("one <![CDATA[<b>two</b> x]]> three", ["one <b>two</b> x three"], None),
    ],
)
def test_androids_escapes_are_read_and_written(
    inner: str, texts: list[str], wanted: str | None
) -> None:
    page = '<resources><string name="a">{}</string></resources>'
    seen, written = read_texts(page.format(inner), "xml")
    assert seen == texts
    assert wanted is None or written == page.format(wanted)
    assert translate_markup(page.format(inner), "xml", keep_text, LanguageCodes()) == page.format(
        inner
    )


def test_androids_apostrophes_of_a_translation_are_escaped() -> None:
    page = '<resources><string name="a">x</string></resources>'
    answer = [TranslatedText("l'été <d'hiver> & \"lui\"")]
    written = translate_markup(page, "xml", lambda _: answer, LanguageCodes())
    assert r"""l\'été &lt;d\'hiver> &amp; \"lui\"</string>""" in written


def test_a_sign_that_names_a_resource_is_escaped() -> None:
    page = '<resources><string name="a">x</string></resources>'
    written = translate_markup(page, "xml", lambda _: [TranslatedText("@ x?")], LanguageCodes())
    assert r">\@ x?<" in written


def test_only_strings_of_resources_are_translated() -> None:
    page = (
        '<resources><style name="T"><item name="android:textStyle">bold</item></style><array>'
        "<item>#fff red</item></array><item type='color'>b</item><string-array><item>c</item>"
        "</string-array><plurals><item quantity='one'>d</item></plurals>"
        "<item type='string' name='e'>e</item></resources>"
    )
    assert read_texts(page, "xml")[0] == ["c", "d", "e"]


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (r"line \12 and 12 or 120", "line \n and 12 or 120"),
        (r"hex \x41 can BABE", "hex A can BABE"),
        (r"caf\xc3\xa9 <b>x</b> \303\251", "café <b>x</b> é"),
    ],
)
def test_escapes_by_number_are_read_as_gettext_reads_them(message: str, text: str) -> None:
    page = f'msgid "{message}"\nmsgstr ""\n'
    written = translate_markup(page, "po", keep_text, LanguageCodes())
    program = shutil.which("msgcat")
    if program is None:
        pytest.skip("gettext isn't installed")
    else:
        head = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\n'
        command = [program, "--no-wrap", "-"]
        read = subprocess.run(
            command, input=(head + written).encode(), check=True, capture_output=True
        )
        catalogue = read_po(io.BytesIO(read.stdout))
        [found] = [each for each in catalogue if each.id]
        assert found.string.split() == found.id.split() == text.split()


@pytest.mark.parametrize(
    "message",
    [
        'msgid "a\tb"\nmsgstr ""',
        'msgid "a\\\nb"\nmsgstr ""',
        'msgid "a\x0bb"\nmsgstr ""',
        'msgid "a\x0cb"\nmsgstr ""',
        'msgid "a\x85b\u2028c"\nmsgstr ""',
        '#: a.c:1\rb.c:2\nmsgid "a"\nmsgstr ""',
        'msgid "a" "b"\nmsgstr ""',
        'msgid\n  "a"\nmsgstr\n""',
        'msgid "\\303\\251t\\x41 \\"x\\""\nmsgstr ""',
        '#~ msgid "old"\n#~ msgstr "alt"\n\n#| msgid "before"\nmsgctxt "c"\nmsgid "a"\nmsgstr ""',
        'msgid "a"\r\nmsgstr ""\r\n',
    ],
)
def test_what_gettext_takes_is_translated(message: str, tmp_path: Path) -> None:
    head = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\n'
    seen, written = read_texts(head + message, "po")
    assert len(seen) == 1
    catalogue = read_po(io.StringIO(written))
    assert [each.string for each in catalogue if each.id] not in ([], [""])
    program = shutil.which("msgfmt")
    if program is not None:
        path = tmp_path / "a.po"
        path.write_text(written, encoding="utf-8", newline="")
        command = [program, "-c", "-o", str(tmp_path / "a.mo"), str(path)]
        subprocess.run(command, check=True, capture_output=True)


def test_a_string_without_its_keyword_is_refused() -> None:
    with pytest.raises(MtkitError, match="line 1: expected a comment"):
        translate_markup('"a"\n', "po", keep_text, LanguageCodes())


@pytest.mark.parametrize(
    ("target", "wanted"),
    [
        ("<target/>", ">A B</target>"),
        ("<target></target>", ">A B</target>"),
        ("<target><![CDATA[]]></target>", ">A B</target>"),
        ('<target><g id="1"></g></target>', ">A B</target>"),
        ('<target> <x id="1"/></target>', ">A B</target>"),
        ("<target>c</target>", "<target>c</target>"),
        ("<target><![CDATA[c]]></target>", "<target><![CDATA[c]]></target>"),
    ],
)
def test_a_target_without_text_is_no_translation(target: str, wanted: str) -> None:
    page = (
        '<xliff><file source-language="en"><body><trans-unit id="1"><source>a b</source>'
        f"{target}</trans-unit></body></file></xliff>"
    )
    assert wanted in read_texts(page, "xliff")[1]


def test_segments_of_a_target_are_filled_one_by_one() -> None:
    page = (
        '<xliff><file source-language="en"><body><trans-unit id="1"><source>a <g id="9">b</g> c'
        '</source><seg-source><mrk mtype="seg" mid="1">a <g id="9">b</g></mrk> '
        '<mrk mtype="seg" mid="2">c</mrk></seg-source><target><mrk mtype="seg" mid="1"/> '
        '<mrk mtype="seg" mid="2">{}</mrk></target></trans-unit></body></file></xliff>'
    )
    filled = '<mrk mtype="seg" mid="1">A <g id="9">B</g></mrk> <mrk mtype="seg" mid="2">{}</mrk>'
    assert filled.format("C") in read_texts(page.format(""), "xliff")[1]
    seen, written = read_texts(page.format("there"), "xliff")
    assert seen == ["a b"]
    assert filled.format("there") in written


def test_a_cdata_section_is_closed_by_nothing_in_it() -> None:
    page = (
        '<xliff><file source-language="en"><body><trans-unit id="1"><source>{}</source>'
        "</trans-unit></body></file></xliff>"
    )
    for source in ("<![CDATA[a]]>", "a"):
        written = translate_markup(
            page.format(source), "xliff", lambda _: [TranslatedText("x ]]> y")], LanguageCodes()
        )
        assert "".join(etree.fromstring(written).find(".//target").itertext()) == "x ]]> y"


def test_members_with_an_at_sign_are_for_programs_and_translators() -> None:
    page = """{
      "@@locale": "en_GB", "@@context": {"@@locale": "en"},
      "title": "my page",
      "@title": {"description": "a heading", "placeholders": {"n": {"type": "int"}}, "x": ["y"]},
      "parts": [{"@type": ["Thing"], "name": "a thing"}, "one more"],
      "@end": "said last",
      "end": "good bye"
    }"""
    seen, written = read_texts(page, "json")
    assert seen == ["my page", "a thing", "one more", "good bye"]
    expected = json.loads(page.replace("my page", "MY PAGE").replace("one more", "ONE MORE"))
    expected |= {"@@locale": "de", "end": "GOOD BYE"}
    expected["parts"][0]["name"] = "A THING"
    assert json.loads(written) == expected
    page = '{"@{n} came": "they came", "@type": "A b", "@value": "a word"}'
    assert read_texts(page, "json")[0] == ["they came", "a word"]
    assert '"@@locale": "fr"' in read_texts('{"@@locale": "fr", "a": "b"}', "json")[1]


@pytest.mark.parametrize(
    ("form", "page", "wanted"),
    [
        # Rails loads all files: German under `en` would replace English.
        ("yaml", "# a\n---\nen:\n  hi: x y\n", "# a\n---\nde:\n  hi: X Y\n"),
        ("yaml", "'en-GB':  # a\r\n\r\n  - x y", "'de':  # a\r\n\r\n  - X Y"),
        ("yaml", "en:\n  a: x y\nfr:\n  a: x y\n", "en:\n  a: X Y\nfr:\n  a: X Y\n"),
        ("yaml", "fr:\n  a: x y\n", "fr:\n  a: X Y\n"),
        ("yaml", "en: x y\n", "en: X Y\n"),
        ("json", '{"en": {"a": "x y"}}', '{"de": {"a": "X Y"}}'),
        ("json", '{"en": "x y"}', '{"en": "X Y"}'),
        ("json", '{"en": {"a": "x y"}, "b": {}}', '{"en": {"a": "X Y"}, "b": {}}'),
        # Angular's translations.
        (
            "json",
            '{"locale": "en", "a": {"locale": "an x"}}',
            '{"locale": "de", "a": {"locale": "AN X"}}',
        ),
        ("json", '{"locale": "Your language"}', '{"locale": "YOUR LANGUAGE"}'),
    ],
)
def test_the_language_of_a_catalogue_is_the_target(form: str, page: str, wanted: str) -> None:
    assert read_texts(page, form)[1] == wanted


def test_a_language_that_yaml_reads_as_false_is_quoted() -> None:
    page = translate_markup("en:\n  a: b c\n", "yaml", keep_text, LanguageCodes("en", "no"))
    assert yaml.safe_load(page) == {"no": {"a": "b c"}}
