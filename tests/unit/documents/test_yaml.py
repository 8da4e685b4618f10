"""YAML: which strings are translated, and that PyYAML reads what was meant."""

import pytest
import yaml

from mtkit.documents.document import LanguageCodes, TranslatedText
from mtkit.documents.translate_file import translate_markup
from mtkit.errors import MtkitError

from .translators import keep_text, reverse_words, take_all

_PAGE = """# A comment: stays
%s
key one: A plain text   # behind it
number: 42
yes: true
date: 2024-01-01
anchored: &a "In \\"double\\" quotes \\u00e9 \\
  and more
  lines"
single: 'It''s a
  text'
again: *a
tagged: !Ref A name
string: !!str 12 months
? [complex, key]
: value here
flow: [one two, {a: "b c", d: e f}, 3]
long: this goes on
  in another line
literal: |
  First line
  and its rest.

    indented code
  Last line.
folded: >-
  A folded text
  of lines.

  Second paragraph.
empty:
- bad
"""
_TEXT = _PAGE.replace("%s\n", "").replace("- bad\n", "")


def translate(page: str, translator: object) -> str:
    return translate_markup(page, "yaml", translator, LanguageCodes("en", "de"))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "page", [_TEXT, _TEXT.replace("\n", "\r\n"), "- a b\n---\n- 'c'", "", "a b"]
)
def test_the_same_text_gives_the_same_characters(page: str) -> None:
    assert translate(page, keep_text) == page


def test_values_are_translated_and_all_else_stays() -> None:
    translated = translate(_TEXT, reverse_words)
    lines = translated.replace("!Ref ", "").replace("? [complex, key]\n: ", "complex: ")
    read = yaml.safe_load(lines)
    assert read["key one"] == "TEXT PLAIN A"
    assert (read["number"], read[True], str(read["date"])) == (42, True, "2024-01-01")
    assert read["anchored"] == 'LINES MORE AND É QUOTES " DOUBLE " IN' == read["again"]
    assert read["single"] == "TEXT A S ' IT"
    assert (read["tagged"], read["string"]) == ("A name", "MONTHS 12")
    assert read["complex"] == "HERE VALUE"
    assert read["flow"] == ["TWO ONE", {"a": "C B", "d": "F E"}, 3]
    assert read["long"] == "LINE ANOTHER IN ON GOES THIS"
    assert read["literal"].splitlines()[2:] == ["", "  CODE INDENTED", ". LINE LAST"]
    assert read["folded"] == ". LINES OF TEXT FOLDED A\n. PARAGRAPH SECOND"
    assert translated.startswith("# A comment: stays\nkey one: TEXT PLAIN A   # behind it\n")
    assert "&a " in translated
    assert "? [complex, key]" in translated


@pytest.mark.parametrize(
    "answer",
    [
        "a: b",
        "a #b",
        "- a",
        "true",
        "42",
        "null",
        "*a",
        "&a b",
        "[a",
        "a, b]",
        "'a",
        '"a',
        "!a",
        "%a",
        "a:",
    ],
)
@pytest.mark.parametrize(
    "page",
    [
        "k: some text",
        "k: [some text]",
        "- some text\n",
        "k: 'some text'",
        'k: "some text"',
        "k: |\n  some text\n",
    ],
)
def test_any_translation_is_read_as_itself(page: str, answer: str) -> None:
    translated = translate(page, lambda texts: [TranslatedText(answer) for _ in texts])
    read = yaml.safe_load(translated)
    value = read["k"] if isinstance(read, dict) else read[0]
    assert (value[0] if isinstance(value, list) else value).rstrip("\n") == answer


@pytest.mark.parametrize(
    ("page", "fault"),
    [
        ("a: 'b", "line 1: invalid YAML"),
        ("a: b\n c: d", "line 2: invalid YAML"),
        ("a: [b", "invalid YAML"),
        ("a: \x07", "invalid YAML"),
        ("[" * 2_000, "more than 1,000 values"),
        ("a: *b\nc: {", "invalid YAML"),
    ],
)
def test_faults_are_told(page: str, fault: str) -> None:
    with pytest.raises(MtkitError, match=fault):
        translate(page, keep_text)


def test_aliases_are_never_followed() -> None:
    rows = ["a0: &a0 [x y]"]
    rows += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 60)]
    page = "\n".join(rows)
    assert translate(page, keep_text) == page


@pytest.mark.parametrize("number", ["1e3", "0o14", "12e03", "+.5", "-1.5E-3", "7.", "0x1F"])
def test_numbers_of_both_versions_of_yaml_stay(number: str) -> None:
    page = f"a: {number}\nb: x {number}\n"
    seen: list[str] = []
    translate(page, lambda texts: take_all(texts, seen))
    assert seen == [f"x {number}"]
    # A text that would be read as a number is quoted.
    assert translate("a: one\n", lambda texts: [TranslatedText("1e3") for _ in texts]) in (
        "a: '1e3'\n",
        'a: "1e3"\n',
    )
