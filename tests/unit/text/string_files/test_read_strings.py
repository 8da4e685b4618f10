"""Strings of programs: expected values from polib, msgfmt, Java's documentation and by hand."""

import shutil
import struct
import subprocess
from pathlib import Path

import polib
import pytest

from mtkit.errors import MtkitError
from mtkit.text.string_files.read_strings import read_strings, read_translations

_PO = r"""# A comment
#, fuzzy
msgid ""
msgstr ""
"Content-Type: text/plain; charset=UTF-8\n"
"Plural-Forms: nplurals=2; plural=n != 1;\n"

#: a.c:1
#, c-format
msgid "%d \"old\" file"
msgid_plural "%d old files"
msgstr[0] "%d »alte« Datei"
msgstr[1] "%d alte Dateien"

msgctxt "menu"
msgid ""
"Open\t"
"file"
msgstr "Öffnen"

#, fuzzy
#| msgid "Stop"
msgid "Halt"
msgstr "Falsch"

msgid "Empty"
msgstr ""

#~ msgid "Old"
#~ msgstr "Alt"
"""
_PAIRS = [
    ('%d "old" file', "%d »alte« Datei"),
    ("%d old files", "%d alte Dateien"),
    ("Open\tfile", "Öffnen"),
]


def list_pairs(content: bytes | str, form: str) -> list[tuple[str, str]]:
    content = content.encode() if isinstance(content, str) else content
    return [(each.source, each.target) for each in read_translations(content, form)]


def list_strings(content: bytes | str, form: str) -> list[tuple[str, str]]:
    content = content.encode() if isinstance(content, str) else content
    return [(each.key, each.text) for each in read_strings(content, form)]


def test_finished_messages_of_a_po_file_are_pairs_with_their_lines() -> None:
    assert list_pairs(_PO, "po") == _PAIRS
    assert [each.line for each in read_translations(_PO.encode(), "po")] == [10, 10, 16]
    found = {
        (each.msgid, each.msgstr or each.msgstr_plural[0]) for each in polib.pofile(_PO)
        if each.translated()
    }  # fmt: skip
    assert found == {_PAIRS[0], _PAIRS[2]}


def test_a_po_file_in_the_encoding_of_its_header() -> None:
    content = _PO.replace("UTF-8", "ISO-8859-1").encode("latin-1")
    assert list_pairs(content, "po") == _PAIRS


@pytest.mark.parametrize(
    ("header", "forms", "expected"),
    [
        # Russian: 1, 21; 2, 3, 4; the others. Which of the two is "files" isn't said.
        (
            "nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : n%10>=2 && n%10<=4 ? 1 : 2);",
            ["a", "b", "c"],
            [("file", "a")],
        ),
        # Slovenian in its old form: 0 is for 5 and more.
        (
            "nplurals=4; plural=(n%100==1 ? 1 : n%100==2 ? 2 : n%100==3 || n%100==4 ? 3 : 0);",
            ["a", "b", "c", "d"],
            [("file", "b")],
        ),
        ("nplurals=1; plural=0;", ["a"], [("files", "a")]),
        ("nplurals=2; plural=n>1;", ["a", "b"], [("file", "a"), ("files", "b")]),
        ("nplurals=2; plural=__import__('os');", ["a", "b"], [("file", "a"), ("files", "b")]),
        ("nplurals=2; plural=1/(n-1);", ["a", "b"], [("file", "a"), ("files", "b")]),
        ("nplurals=INTEGER; plural=EXPRESSION;", ["a", "b"], [("file", "a"), ("files", "b")]),
    ],
)
def test_plurals_are_paired_where_it_is_clear(
    header: str, forms: list[str], expected: list[tuple[str, str]]
) -> None:
    written = "".join(f'msgstr[{index}] "{each}"\n' for index, each in enumerate(forms))
    text = (
        f'msgid ""\nmsgstr "Plural-Forms: {header}\\n"\n\n'
        f'msgid "file"\nmsgid_plural "files"\n{written}'
    )
    assert list_pairs(text, "po") == expected


@pytest.mark.skipif(shutil.which("msgfmt") is None, reason="gettext isn't installed")
@pytest.mark.parametrize("order", ["little", "big"])
def test_a_catalogue_of_msgfmt_holds_the_same_pairs(order: str, tmp_path: Path) -> None:
    (tmp_path / "a.po").write_text(_PO.replace("#, fuzzy\nmsgid", "msgid", 1))
    command = ["msgfmt", f"--endianness={order}", "-o", "a.mo", "a.po"]
    subprocess.run(command, cwd=tmp_path, check=True)
    content = (tmp_path / "a.mo").read_bytes()
    assert sorted(list_pairs(content, "mo")) == sorted(_PAIRS)
    # The last byte is the NUL behind the last string.
    for length in range(len(content) - 1):
        with pytest.raises(MtkitError):
            list_pairs(content[:length], "mo")


def test_a_catalogue_of_polib_holds_the_same_pairs() -> None:
    catalogue = polib.pofile(_PO)
    assert sorted(list_pairs(catalogue.to_binary(), "mo")) == sorted(_PAIRS)


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ((0x950412DE, 2 << 16, 1, 28, 36), "revision 2"),
        ((0x950412DE, 0, 0xFFFFFFFF, 28, 36), "end outside"),
        ((0x950412DE, 0, 1, 0xFFFFFFF8, 36), "end outside"),
        ((0x12345678, 0, 1, 28, 36), "not a .mo file"),
    ],
)
def test_damaged_catalogues_are_refused(fields: tuple[int, ...], fault: str) -> None:
    content = struct.pack("<5I", *fields) + bytes(40)
    with pytest.raises(MtkitError, match=fault):
        list_pairs(content, "mo")


def test_a_catalogue_whose_messages_share_bytes_is_refused() -> None:
    num_messages = 1_000
    text = b"a" * 4_000
    start = 28 + 16 * num_messages
    tables = struct.pack("<2I", len(text), start) * (2 * num_messages)
    header = struct.pack("<7I", 0x950412DE, 0, num_messages, 28, 28 + 8 * num_messages, 0, 0)
    with pytest.raises(MtkitError, match="overlaps"):
        list_pairs(header + tables + text, "mo")


_XLIFF = """<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2"><file><body>
<trans-unit id="a"><source>The <g id="1">old</g> man<x id="2"/> &amp; <ph id="3">%s</ph>.</source>
<target>Der <g id="1">alte</g> Mann<x id="2"/> &amp; <ph id="3">%s</ph>.</target>
<alt-trans><source>no</source><target>nein</target></alt-trans></trans-unit>
<trans-unit id="b"><source>New</source><target state="new">Neu</target></trans-unit>
<trans-unit id="c" approved="no"><source>Open</source><target>Offen</target></trans-unit>
<trans-unit id="d"><source>Far</source><target state="translated">Fern</target></trans-unit>
<trans-unit id="e" translate="no"><source>Keep</source><target>Keep</target></trans-unit>
<trans-unit id="f"><source>None</source><target/></trans-unit>
<trans-unit id="g"><source>MT</source>
<target state="translated" state-qualifier="leveraged-mt">MÜ</target></trans-unit>
</body></file></xliff>"""
_XLIFF_2 = """<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.0" srcLang="en">
<file id="f"><unit id="u"><segment state="final"><source>Go <pc id="1">far</pc>
</source><target>Geh <pc id="1">weit</pc></target></segment>
<segment state="initial"><source>One</source><target>Eins</target></segment></unit></file>
</xliff>"""


def test_finished_segments_of_xliff_are_pairs_without_tags() -> None:
    found = [each[:4] for each in read_translations(_XLIFF.encode(), "xliff")]
    assert found == [
        ("The old man & .", "Der alte Mann & .", 2, "a"),
        ("Far", "Fern", 7, "d"),
    ]
    assert [tuple(each) for each in read_translations(_XLIFF_2.encode(), "xliff")] == [
        ("Go far\n", "Geh weit", 2, "u", ("en", ""))
    ]


def test_properties_are_read_as_java_does() -> None:
    # The examples of java.util.Properties.
    text = (
        "# a comment\n! another\n\nTruth = Beauty\n Truth:Beauty\nTruth                :Beauty\n"
        "fruits                           apple, banana, pear, \\\n"
        "                                  cantaloupe, watermelon, \\\n"
        "                                  kiwi, mango\ncheeses\n"
        "key\\ with\\:signs=\\u00e4\\tb\\q\n"
        "half=\\ud83d\\ude00\r\nlast=x\\\\\r\n"
    )
    assert list_strings(text, "properties") == [
        ("Truth", "Beauty"),
        ("Truth", "Beauty"),
        ("Truth", "Beauty"),
        ("fruits", "apple, banana, pear, cantaloupe, watermelon, kiwi, mango"),
        ("key with:signs", "ä\tbq"),
        ("half", "😀"),
        ("last", "x\\"),
    ]
    assert list(read_strings(text.encode(), "properties"))[4].line == 11
    assert list_strings("a=für".encode("latin-1"), "properties") == [("a", "für")]


def test_fluent_strings_have_a_key_for_attributes_and_variants() -> None:
    text = """### Resource
-brand-name = Firefox
open = Open { $name } in { -brand-name }
    .title = Title
    .accesskey = O

# A comment
long =
    First line
      indented

    last line
literal = { "" } a { "\\u00e4" } -> b
files = { $n ->
    [one] One file
   *[other] { $n } files
       in all
}
mixed = You have { $n ->
    [one] one
   *[other] many
 } files
junk without a sign
"""
    assert list_strings(text, "fluent") == [
        ("-brand-name", "Firefox"),
        ("open", "Open { $name } in { -brand-name }"),
        ("open.title", "Title"),
        ("open.accesskey", "O"),
        ("long", "First line\n  indented\n\nlast line"),
        ("literal", " a ä -> b"),
        ("files[one]", "One file"),
        ("files[other]", "{ $n } files\nin all"),
    ]
    assert next(read_strings(text.encode(), "fluent")).line == 2


def test_apples_strings() -> None:
    text = '/* It\'s *open* */\n"Open \\"x\\"" = "Öffnen\\n\\U00e4";\n// more\nplain = "b";\n'
    expected = [('Open "x"', "Öffnen\nä"), ("plain", "b")]
    assert list_strings(text, "apple-strings") == expected
    assert list_strings(b"\xff\xfe" + text.encode("utf-16-le"), "apple-strings") == expected
    with pytest.raises(MtkitError, match="line 2"):
        list_strings('"a" = "b";\n"c" "d";', "apple-strings")


def test_json_strings_have_paths() -> None:
    text = '{"@@locale": "de", "a": "x", "@a": {"description": "y"}, "b": {"c": ["d", 1, ["e"]]}}'
    assert list_strings(text, "json") == [("a", "x"), ("b.c[0]", "d"), ("b.c[2][0]", "e")]
    with pytest.raises(MtkitError, match="line 2: invalid JSON"):
        list_strings("{\n", "json")


def test_androids_strings() -> None:
    text = r"""<resources>
<string name="a">It\'s <b>new</b> &amp; <xliff:g xmlns:xliff="u">%s</xliff:g></string>
<string name="b" translatable="false">x</string>
<string name="c">@string/a</string>
<string name="d"><![CDATA[<b>1</b> &amp; 2]]></string>
<string-array name="e"><item>one <i>x</i></item><item>two</item></string-array>
<plurals name="f"><item quantity="one"><b>1</b> file</item>
<item quantity="other">files</item></plurals>
</resources>"""
    assert list_strings(text, "android") == [
        ("a", "It's new & %s"),
        ("d", "<b>1</b> &amp; 2"),
        ("e[0]", "one x"),
        ("e[1]", "two"),
        ("f[one]", "1 file"),
        ("f[other]", "files"),
    ]


def test_flags_of_an_obsolete_message_are_no_others() -> None:
    text = '#, fuzzy\n#~ msgid "old"\n#~ msgstr "alt"\n\nmsgid "Hello"\nmsgstr "Hallo"\n'
    expected = [(each.msgid, each.msgstr) for each in polib.pofile(text).translated_entries()]
    found = [(each.source, each.target) for each in read_translations(text.encode(), "po")]
    assert found == expected == [("Hello", "Hallo")]


def test_a_no_break_space_is_part_of_a_java_key() -> None:
    [found] = read_strings("a\u00a0b=c\n".encode(), "properties")
    assert (found.key, found.text) == ("a\u00a0b", "c")
