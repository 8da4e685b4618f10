"""PO files: messages whose placeholders a translation breaks; msgfmt reads what is written."""

import shutil
import subprocess
from collections.abc import Callable, Sequence

import polib
import pytest

from mtkit.documents.document import LanguageCodes, TranslatedText
from mtkit.documents.document_report import DocumentReport
from mtkit.documents.translate_file import translate_content
from mtkit.errors import MtkitError

from .translators import read_texts

_HEADER = r"""msgid ""
msgstr ""
"Project-Id-Version: x\n"
"PO-Revision-Date: 2026-11-27 12:00+0000\n"
"Last-Translator: x\n"
"Language-Team: x\n"
"Language: de\n"
"MIME-Version: 1.0\n"
"Content-Type: text/plain; charset=UTF-8\n"
"Content-Transfer-Encoding: 8bit\n"
"Plural-Forms: nplurals=2; plural=n != 1;\n"

"""
_RUSSIAN = "nplurals=3; plural=n%10==1 && n%100!=11 ? 0 : n%10>=2 && n%10<=4 ? 1 : 2;"


def say(table: dict[str, str]) -> Callable[[Sequence[str]], list[TranslatedText]]:
    """Returns a translator that writes what a table says, and other texts in capitals."""
    return lambda texts: [
        TranslatedText(table.get(text, text.upper().replace("%S", "%s").replace("%D", "%d")))
        for text in texts
    ]


def translate(text: str, table: dict[str, str]) -> tuple[polib.POFile, DocumentReport]:
    written, report = translate_content(text.encode(), "po", say(table), LanguageCodes("en", "de"))
    if shutil.which("msgfmt") is not None:
        command = ["msgfmt", "-c", "-o", "/dev/null", "-"]
        ended = subprocess.run(command, input=written, capture_output=True, check=False)
        assert (ended.returncode, ended.stderr) == (0, b"")
    return polib.pofile(written.decode()), report


@pytest.mark.parametrize(
    ("message", "target", "fault"),
    [
        ('#, c-format\nmsgid "Delete %s"', "Lösche", "c-format: argument 1 is missing"),
        ('#, c-format\nmsgid "Half of %s"', "50 % von %s", "c-format: '% v' isn't a directive"),
        ('#, c-format\nmsgid "%s of %d"', "%d von %s", "c-format: argument 1 is an integer"),
        ('#, python-format\nmsgid "Half"', "50 %", "python-format: '%' isn't a directive"),
        ('#, python-brace-format\nmsgid "Hi {name}"', "Hallo {Name}", "python-brace-format: "),
    ],
)
def test_a_message_with_broken_placeholders_stays_untranslated(
    message: str, target: str, fault: str
) -> None:
    text = f'{_HEADER}{message}\nmsgstr ""\n\nmsgid "Open"\nmsgstr ""\n'
    source = polib.pofile(text)[0].msgid
    found, report = translate(text, {source: target})
    assert [each.msgstr for each in found] == ["", "OPEN"]
    assert report.num_translated == 1
    [warning] = report.list_warnings("a.po")
    assert warning.startswith(
        f"a.po:15: {source!r} is kept as it was, because its translation breaks its placeholders: "
        f"{fault}"
    )


def test_what_is_right_or_has_no_format_is_written() -> None:
    text = (
        f'{_HEADER}#, c-format\nmsgid "%s of %d\\n"\nmsgstr ""\n\nmsgid "Half"\nmsgstr ""\n\n'
        '#, no-c-format\nmsgid "One half"\nmsgstr ""\n'
    )
    table = {"%s of %d": "%2$d von %1$s", "Half": "50 %", "One half": "50 % davon"}
    found, report = translate(text, table)
    assert [each.msgstr for each in found] == ["%2$d von %1$s\n", "50 %", "50 % davon"]
    assert report.list_warnings("a.po") == []


def test_a_string_of_several_texts_stays_whole() -> None:
    text = (
        f'{_HEADER}#, c-format\nmsgid "<p>Delete %s</p><p>Really</p><p>Now</p>"\nmsgstr ""\n\n'
        'msgid "Open"\nmsgstr ""\n'
    )
    found, report = translate(text, {"Really": "Wirklich %d"})
    assert [each.msgstr for each in found] == ["", "OPEN"]
    assert report.num_translated == 1


def test_a_form_that_stays_with_another_says_so() -> None:
    message = '#, c-format\nmsgid "One"\nmsgid_plural "%d files"\nmsgstr[0] ""\nmsgstr[1] ""\n'
    _, report = translate(_HEADER + message, {"%d files": "%s Dateien"})
    assert {each.text: each.reason for each in report.skipped} == {
        "One": "kept because another form of theirs is kept",
        "%d files": "kept because their translation breaks their placeholders",
    }


def test_a_form_of_many_numbers_is_translated_with_its_number() -> None:
    message = '#, c-format\nmsgid "One file"\nmsgid_plural "%d files"\nmsgstr[0] ""\nmsgstr[1] ""\n'
    found, _ = translate(_HEADER + message, {})
    assert found[0].msgstr_plural == {0: "ONE FILE", 1: "%d FILES"}
    # In Russian form 0 is for 1, 21, 31.
    russian = _HEADER.replace("nplurals=2; plural=n != 1;", _RUSSIAN)
    found, _ = translate(f'{russian}{message}msgstr[2] ""\n', {})
    assert found[0].msgstr_plural == dict.fromkeys(range(3), "%d FILES")


def release_short(texts: Sequence[str]) -> list[TranslatedText]:
    """Translates into capitals, and releases what has at most two words."""
    return [
        TranslatedText(text.upper().replace("%S", "%s"), released=len(text.split()) <= 2)
        for text in texts
    ]


def translate_released(text: str) -> bytes:
    return translate_content(text.encode(), "po", release_short, LanguageCodes("en", "de"))[0]


def test_what_is_not_released_is_fuzzy() -> None:
    text = _HEADER + (
        '#. A note\n#: a.c:1\n#, c-format\nmsgid "Save %s now or never"\nmsgstr ""\n\n'
        'msgctxt "menu"\nmsgid "Save"\nmsgstr ""\n\n'
        '#| msgid "Open a file"\nmsgid "Open the big file"\nmsgstr ""\n\n'
        'msgid "a b c"\nmsgstr "given"\n\n'
        'msgid "a file"\nmsgid_plural "many old files"\nmsgstr[0] ""\nmsgstr[1] ""\n\n'
        'msgid "One. Two three four."\nmsgstr ""\n'
    )
    written = translate_released(text)
    if shutil.which("msgfmt") is not None:
        command = ["msgfmt", "-c", "-o", "/dev/null", "-"]
        subprocess.run(command, input=written, check=True, capture_output=True)
    entries = {entry.msgid: entry for entry in polib.pofile(written.decode())}
    fuzzy = {text for text, entry in entries.items() if "fuzzy" in entry.flags}
    # A message with a long plural form, or a long sentence, isn't released as a whole.
    assert fuzzy == {"Save %s now or never", "Open the big file", "a file", "One. Two three four."}
    assert entries["Save %s now or never"].flags == ["c-format", "fuzzy"]
    assert entries["Save %s now or never"].msgstr == "SAVE %s NOW OR NEVER"
    # Nothing else has changed.
    kept = [line for line in written.decode().split("\n") if line != "#, fuzzy"]
    assert [line for line in kept if not line.startswith("msgstr")] == [
        line for line in text.split("\n") if not line.startswith("msgstr")
    ]


def test_what_is_kept_does_not_become_fuzzy() -> None:
    def translate_all(texts: Sequence[str]) -> list[TranslatedText]:
        return [TranslatedText("ohne", released=False) for _ in texts]

    text = _HEADER + '#, c-format\nmsgid "Save %s now"\nmsgstr ""\n'
    written, report = translate_content(
        text.encode(), "po", translate_all, LanguageCodes("en", "de")
    )
    assert written.decode() == text
    assert report.num_translated == 0


def test_a_message_that_is_fuzzy_stays_as_it_is() -> None:
    text = _HEADER + (
        '#, fuzzy, c-format\nmsgid "a b c d"\nmsgstr ""\n\n#, fuzzy\nmsgid "a b"\nmsgstr ""\n'
    )
    written = translate_released(text).decode()
    assert written == text.replace('"a b c d"\nmsgstr ""', '"a b c d"\nmsgstr "A B C D"').replace(
        '"a b"\nmsgstr ""', '"a b"\nmsgstr "A B"'
    )


def test_the_flag_ends_as_the_lines_of_the_file() -> None:
    text = (_HEADER + 'msgid "a b c d"\nmsgstr ""\n').replace("\n", "\r\n")
    written = translate_released(text)
    assert b"\r\n#, fuzzy\r\nmsgid" in written
    assert written.count(b"\n") == written.count(b"\r\n")


def test_a_file_of_another_language_is_refused() -> None:
    with pytest.raises(MtkitError, match=r"translations are in 'de' \(Language\).* in 'fr'"):
        translate_content(
            f'{_HEADER}msgid "Half"\nmsgstr ""\n'.encode(), "po", say({}), LanguageCodes("en", "fr")
        )
    text = f'{_HEADER}msgid "Half"\nmsgstr ""\n'
    # No language, a template's, and one of the same language.
    for language in ("", "LANGUAGE", "de_AT"):
        content = text.replace("Language: de", f"Language: {language}").encode()
        written, _ = translate_content(content, "po", say({}), LanguageCodes("en", "de"))
        assert b'msgstr "HALF"' in written


def test_a_text_that_the_model_empties_stays_and_is_told() -> None:
    found, report = translate(f'{_HEADER}msgid "Half"\nmsgstr ""\n', {"Half": " "})
    assert found[0].msgstr == ""
    assert (report.num_translated, report.describe()) == (
        0,
        "0 texts translated, 1 skipped: 1 kept because their translation is empty",
    )
    assert "kept as it was, because its translation is empty" in report.list_warnings("a.po")[1]


def test_names_of_translators_are_not_translated() -> None:
    text = _HEADER + 'msgid "translator-credits"\nmsgstr ""\n\nmsgid "a b"\nmsgstr ""\n'
    seen, written = read_texts(text, "po")
    assert seen == ["a b"]
    assert written == text.replace('"a b"\nmsgstr ""', '"a b"\nmsgstr "A B"')


@pytest.mark.parametrize(
    ("singular", "plural", "is_written"),
    [("a man", "two men", True), ("a man", "two_men", False), ("iPhone", "some iPhones", False)],
)
def test_a_plural_is_written_with_all_forms_or_none(
    singular: str, plural: str, is_written: bool
) -> None:
    text = f'{_HEADER}msgid "{singular}"\nmsgid_plural "{plural}"\nmsgstr[0] ""\nmsgstr[1] ""\n'
    written = polib.pofile(read_texts(text, "po")[1])
    forms = list(written[0].msgstr_plural.values())
    assert forms == ([singular.upper(), plural.upper()] if is_written else ["", ""])
