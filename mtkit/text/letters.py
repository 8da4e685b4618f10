"""The letters of languages, and what they show about the encoding of a text.

A language's letters are those in CLDR's names of languages, countries, scripts, months and
currencies in that language: a few foreign ones are among them, rare ones may be missing.
"""

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any

from mtkit.text.languages import UNDETERMINED, find_main_code

_TABLES = ("languages", "territories", "scripts", "months", "days", "currencies")
_ENCODINGS = (
    "WINDOWS-1252", "ISO-8859-2", "WINDOWS-1250", "WINDOWS-1251", "KOI8-R", "ISO-8859-5",
    "WINDOWS-1253", "WINDOWS-1254", "WINDOWS-1257", "WINDOWS-1255", "WINDOWS-1256", "WINDOWS-1258",
    "TIS-620", "SHIFT_JIS", "EUC-JP", "GB18030", "BIG5", "EUC-KR", "CP850", "CP852", "CP866",
)  # fmt: skip
"""Names that both Python and `iconv` know."""
_WIDER = {"SHIFT_JIS": "CP932", "EUC-KR": "CP949"}
"""Encodings with the same characters and more, as Windows writes them."""
_IDEOGRAPHS = frozenset(map(chr, range(0x4E00, 0xA000)))
_KANA = frozenset(filter(str.isalpha, map(chr, range(0x3041, 0x3100))))
_RARE = 1 / 3
"""Weight of an ideograph that isn't among a language's letters: CLDR has only a few hundred."""
_PUNCTUATION = frozenset("\u00a0\u202f„“”‚‘’–—…«»‹›·°§€£©®™¿¡。、，「」『』（）：；！？")
_MIN_LINES = 20
"""Fewer non-ASCII lines don't show a wrong encoding."""
_MIN_SHARE = 0.9
"""Minimum share of those lines that Windows-1252 can encode."""
_LETTERS_OF_ISO_639_2 = 3
_MIN_KNOWN = 0.5
"""Minimum share of the characters beyond ASCII that an encoding must explain."""


@cache
def letters_of(language: str) -> frozenset[str]:
    """Returns a language's non-ASCII letters, in both cases; none for an unknown language."""
    locale = _find_locale(language)
    if locale is None:
        return frozenset()
    found = list_letters(text for name in _TABLES for text in _list_texts(getattr(locale, name)))
    return found | _KANA if found & _KANA else found


def list_letters(texts: Iterable[str]) -> frozenset[str]:
    """Returns the letters and marks beyond ASCII of some texts, in both cases."""
    found = {character for text in texts for character in text if not character.isascii()}
    letters = {each for each in found if unicodedata.category(each)[0] in "LM"}
    forms = (form for each in letters for form in (each, each.lower(), each.upper()))
    return frozenset(form for form in forms if len(form) == 1)


def _list_texts(table: Any) -> Iterator[str]:
    if isinstance(table, str):
        yield table
    elif hasattr(table, "values"):
        for value in table.values():
            yield from _list_texts(value)


def guess_encoding(lines: Sequence[bytes], languages: Iterable[str]) -> str:
    """Returns the most probable encoding of lines that aren't UTF-8; empty if none stands out."""
    known = frozenset().union(*map(letters_of, languages))
    if not known:
        return ""
    shares = {encoding: _share_known(lines, encoding, known) for encoding in _ENCODINGS}
    best = max(shares, key=lambda encoding: shares[encoding])
    if shares[best] < _MIN_KNOWN:
        return ""
    try:
        b"".join(lines).decode(best)
    except UnicodeDecodeError:
        return _WIDER.get(best, best)
    return best


def find_wrong_encoding(lines: Sequence[str], language: str) -> str:
    """Returns the encoding that a text is in, if it was read as Windows-1252 by mistake."""
    beyond = [line for line in lines if not line.isascii()]
    raw = []
    for line in beyond:
        try:
            raw.append(line.encode("WINDOWS-1252"))
        except UnicodeEncodeError:
            continue
    known = letters_of(language)
    if len(raw) < max(_MIN_LINES, _MIN_SHARE * len(beyond)):
        return ""
    if not known or _share_known(raw, _ENCODINGS[0], known) > _MIN_KNOWN:
        return ""
    return guess_encoding(raw, [language])


def is_language_code(code: str) -> bool:
    """Returns whether a code may be one of ISO 639; any of three letters may."""
    main = find_main_code(code)
    return len(main) == _LETTERS_OF_ISO_639_2 or main in _english().languages


def name_language(code: str) -> str:
    """Returns the English name of a language, or its code if it is unknown."""
    # CLDR reads an unknown language, `und`, as English.
    locale = None if code == UNDETERMINED else _find_locale(code)
    if locale and (name := locale.get_display_name("en")):
        return str(name)
    # CLDR has names for more languages than it has data about.
    english = _english()
    main, *parts = code.replace("-", "_").split("_")
    found = english.languages.get(main.lower())
    if found is None:
        return code
    more = [
        english.scripts.get(part.title()) or english.territories.get(part.upper(), part)
        for part in parts
    ]
    return f"{found} ({', '.join(more)})" if more else str(found)


def list_language_names(code: str) -> set[str]:
    """Returns a language's code and its names in English and in itself, in lower case."""
    locale = _find_locale(code)
    own = locale and locale.get_language_name()
    return {name.lower() for name in (code, name_language(code), own) if name}


@cache
def _find_locale(code: str) -> Any:
    """Returns what CLDR has about a language; None if it doesn't know it."""
    from babel import Locale, UnknownLocaleError  # noqa: PLC0415 (slow to load)

    try:
        return Locale.parse(code.replace("-", "_"))
    except (UnknownLocaleError, ValueError):
        return None


@cache
def _english() -> Any:
    from babel import Locale  # noqa: PLC0415 (slow to load)

    return Locale("en")


def _share_known(lines: Sequence[bytes], encoding: str, known: frozenset[str]) -> float:
    """Returns the share of characters beyond ASCII that are letters of a language.

    A capital counts half: KOI8-R read as Windows-1251 is Russian with capitals for small letters.
    """
    found = total = 0.0
    rare = _IDEOGRAPHS - known if known & _IDEOGRAPHS else frozenset()
    for line in lines:
        beyond = [each for each in line.decode(encoding, errors="replace") if not each.isascii()]
        total += len(beyond)
        found += sum(each in known or each in _PUNCTUATION for each in beyond)
        found += sum(each in rare for each in beyond) * _RARE
        found -= sum(each.isupper() for each in beyond if each in known) / 2
    return found / max(1.0, total)
