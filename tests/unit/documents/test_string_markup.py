"""Inline HTML in the strings of PO files and JSON: expected files are written by hand."""

import pytest

from mtkit.documents.document import Languages
from mtkit.documents.translate_file import translate_markup

from .translators import keep_text, reverse_words

_HEAD = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\n'


def translate_message(message: str) -> str:
    page = f'{_HEAD}msgid {message}\nmsgstr ""\n'
    translated = translate_markup(page, "po", reverse_words, Languages())
    same = translate_markup(page, "po", keep_text, Languages())
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
        ('"a <b>b</i>"', '"B <b> A</i>"'),
    ],
)
def test_tags_of_messages_go_with_their_words(message: str, translated: str) -> None:
    assert translate_message(message) == translated


def test_attributes_in_escaped_quotes_are_part_of_the_tag() -> None:
    page = r'{"k": "See <a href=\"%s\" title=\"a > b\">the page</a>!", "l": "x <b>y"}'
    wanted = r'{"k": "! <a href=\"%s\" title=\"a > b\">PAGE THE</a> SEE", "l": "Y <b> X"}'
    assert translate_markup(page, "json", reverse_words, Languages()) == wanted
    assert translate_markup(page, "json", keep_text, Languages()) == page
