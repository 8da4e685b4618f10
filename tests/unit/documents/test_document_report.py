"""What is said of a document's texts, and what becomes of a unit that would break the markup."""

import dataclasses
import json

import pytest

from mtkit.documents import translate_units
from mtkit.documents.document import Document, Edit, EscapedText, LanguageCodes, Node, Unit
from mtkit.documents.document_report import DocumentReport
from mtkit.documents.formats.xml import read_xml
from mtkit.documents.translate_file import choose_skeleton, translate_content
from mtkit.documents.translate_units import translate_document, write_checked
from mtkit.documents.xml_text import XML_TEXT
from mtkit.errors import MtkitError

from .translators import keep_text, reverse_words

LANGUAGES = LanguageCodes("en", "de")
_READ_XML = choose_skeleton("xml", LANGUAGES)
assert _READ_XML is not None


def report_of(text: str, form: str) -> DocumentReport:
    return translate_content(text.encode(), form, reverse_words, LANGUAGES)[1]


@pytest.mark.parametrize(
    ("form", "text", "line"),
    [
        ("html", "<p>One</p><p>Two</p>", "2 texts translated"),
        (
            "html",
            '<p>a</p><p translate="no">b</p><p lang="fr">c</p><p class="notranslate">d</p>',
            "1 text translated, 3 skipped: 2 marked translate=no, "
            "1 marked as another language (fr)",
        ),
        (
            "html",
            "<p>a</p><pre>x = y</pre><textarea>b</textarea><script>c</script><p>42</p>",
            "1 text translated, 2 skipped: 1 code, 1 in unsupported elements (textarea)",
        ),
        ("po", 'msgid "a"\nmsgstr "b"\n\nmsgid "c"\nmsgstr ""\n',
         "1 text translated, 1 skipped: 1 already translated"),
        ("po", 'msgid "a"\nmsgstr "b"\n\n#, fuzzy\nmsgid "c"\nmsgstr "d"\n\n'
               '#, fuzzy\nmsgid "e"\nmsgstr ""\n',
         "1 text translated, 2 skipped: 1 already translated, 1 fuzzy, kept"),
        ("xml", "<a><b>x</b><code>y</code><c><![CDATA[z]]></c></a>",
         "1 text translated, 2 skipped: 1 code, 1 in CDATA"),
        ("xml", '<resources><string name="a" translatable="false">x y</string></resources>',
         "0 texts translated, 1 skipped: 1 marked translatable=false"),
        ("markdown", "A dog.\n\n```\ncode\n```\n", "1 text translated, 1 skipped: 1 code"),
    ],
)  # fmt: skip
def test_what_is_skipped_is_said(form: str, text: str, line: str) -> None:
    assert report_of(text, form).describe() == line


def test_where_nothing_is_translated_there_is_a_warning() -> None:
    [warning] = report_of('<html lang="fr">\n<p>x</p></html>', "html").list_warnings("a.html")
    assert warning == "a.html: nothing is translated: 1 marked as another language (fr)"
    [warning] = report_of("<p>42</p>", "html").list_warnings("a.html")
    assert warning == "a.html: nothing is translated: there is no text to translate in it"
    assert report_of("<p>a</p>", "html").list_warnings("a.html") == []


def test_skipped_texts_have_their_line() -> None:
    report = report_of(
        "<p>a</p>\n<p>b</p>\n\n<p translate='no'>c <b>d</b></p>\n<pre>e</pre>", "html"
    )
    assert [(each.line, each.text) for each in report.skipped] == [(4, "c d"), (5, "e")]
    assert report.to_json() == {
        "summary": "2 texts translated, 2 skipped: 1 marked translate=no, 1 code",
        "translated": 2,
        "num_skipped": 2,
        "skipped": [
            {"text": "c d", "reason": "marked translate=no", "line": 4},
            {"text": "e", "reason": "code", "line": 5},
        ],
    }
    assert len(report.to_json(max_skipped=1)["skipped"]) == 1


def make_unit(text: str, raw: str) -> Unit:
    start = text.index(raw)
    node = Node("text", start, start + len(raw), spelled=(EscapedText(raw, raw),))
    return Unit((node,), start, start + len(raw), XML_TEXT)


def test_a_unit_that_breaks_the_markup_stays_and_the_others_do_not() -> None:
    names = [f"w{index:03}" for index in range(200)]
    text = f"<a>{''.join(f'<p>{name}</p>' for name in names)}</a>"
    broken = {"w007": "<b>", "w100": "</p><p>", "w101": "&", "w199": "x<i/>"}
    units = [make_unit(text, name) for name in names]
    edits = [
        Edit(unit.start, unit.end, broken.get(name, name.upper()), unit)
        for name, unit in zip(names, units, strict=True)
    ]
    written, kept = write_checked(text, edits, _READ_XML)
    wanted = "".join(f"<p>{name if name in broken else name.upper()}</p>" for name in names)
    assert written == f"<a>{wanted}</a>"
    assert [text[unit.start : unit.end] for unit in kept] == list(broken)


def test_units_that_are_one_string_stay_together() -> None:
    text = "<a><p>one</p><q>two</q></a>"
    units = [make_unit(text, "one"), make_unit(text, "two")]
    units[1] = dataclasses.replace(units[1], follows=True)
    edits = [Edit(units[0].start, units[0].end, "1", units[0])]
    edits.append(Edit(units[1].start, units[1].end, "<", units[1]))
    assert write_checked(text, edits, _READ_XML) == (text, units)


def test_a_document_that_cannot_be_read_again_is_not_written() -> None:
    text = "<a><p>one</p></a>"
    with pytest.raises(MtkitError, match="can't be read"):
        write_checked(text, [Edit(3, 3, "<")], _READ_XML)


def test_few_broken_units_cost_no_others() -> None:
    names = [f"w{index:04}" for index in range(2_000)]
    text = f"<a>{''.join(f'<p>{name}</p>' for name in names)}</a>"
    units = [make_unit(text, name) for name in names]
    broken = units[7::200]
    edits = [Edit(unit.start, unit.end, "<" if unit in broken else "x", unit) for unit in units]
    _, kept = write_checked(text, edits, _READ_XML)
    assert list(map(id, kept)) == list(map(id, broken))


def test_many_broken_units_are_found_in_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(translate_units, "_MAX_CHECKED", 0)
    names = [f"w{index:04}" for index in range(2_000)]
    text = f"<a>{''.join(f'<p>{name}</p>' for name in names)}</a>"
    units = [make_unit(text, name) for name in names]
    edits = [
        Edit(unit.start, unit.end, "<" if index % 2 else "x", unit)
        for index, unit in enumerate(units)
    ]
    num_read = 0

    def count(read: str) -> object:
        nonlocal num_read
        num_read += 1
        return _READ_XML(read)

    written, kept = write_checked(text, edits, count)  # type: ignore[arg-type]
    assert num_read < 110
    assert {id(unit) for unit in units[1::2]} <= {id(unit) for unit in kept}
    assert _READ_XML(written) == _READ_XML(text)


def test_a_renderer_that_doubles_a_tag_is_found_out() -> None:
    text = "<a><p>one <b>two</b></p><p>three</p></a>"
    document: Document = read_xml(text, LANGUAGES)
    document.units[0] = dataclasses.replace(
        document.units[0], join=lambda tokens: "".join(each.raw for each in tokens) + "<b/>"
    )
    written = translate_document(document, reverse_words, _READ_XML)
    assert written.text == "<a><p>one <b>two</b></p><p>THREE</p></a>"
    assert written.kept == [document.units[0]]
    assert translate_document(document, keep_text, _READ_XML).text == text
    report = DocumentReport()
    report.add(document, written)
    assert report.num_translated == 1
    [warning] = report.list_warnings("a.xml")
    assert warning == (
        "a.xml:1: 'one two' is kept as it was, because its translation breaks the markup"
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{name}", "only placeholders"),
        ("%(count)d: %s", "only placeholders"),
        ("{count, plural, one {# man} other {# men}}", "ICU plural"),
        ("Take {count, plural, one {# man} other {# men}} along", "ICU plural"),
        (":month", "identifier"),  # Rails
        ("app.title", "identifier"),  # go-i18n, formatjs
        ("listPets", "identifier"),  # OpenAPI
        ("save_as", "identifier"),
        ("#ff0000", "identifier"),
        ("en-US", "identifier"),
    ],
)
@pytest.mark.parametrize("form", ["json", "yaml"])
def test_a_string_without_a_sentence_is_not_translated(text: str, reason: str, form: str) -> None:
    content = json.dumps({"a": text, "b": "a man. E-mail and/or i.e."}).encode()
    _, report = translate_content(content, form, keep_text, LanguageCodes("en", "de"))
    assert report.num_translated == 1
    [skipped] = report.skipped
    assert (skipped.text, skipped.reason) == (text, reason)
