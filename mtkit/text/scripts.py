"""The scripts that languages are written in."""

UNSPACED_SCRIPTS = (
    "Han", "Hiragana", "Katakana", "Bopomofo", "Yi", "Thai", "Lao", "Khmer", "Myanmar", "Tibetan",
    "Tai_Le", "New_Tai_Lue", "Tai_Tham", "Tai_Viet", "Javanese", "Balinese",
)  # fmt: skip
"""Scripts without spaces between words, by Unicode's names."""


def find_script(language: str) -> str:
    """Returns the ISO 15924 code of the script that a language is written in; empty if unknown.

    Args:
        language: Code such as `de`, `zh-TW` or `jpn`, or `sr-Latn`, whose script counts.
    """
    from babel.core import get_global, parse_locale  # noqa: PLC0415 (slow to load)

    try:
        name, territory, script = parse_locale(language.replace("-", "_"))[:3]
    except ValueError:
        return ""
    if script:
        return str(script)
    known = get_global("likely_subtags")
    name = get_global("language_aliases").get(name, name)
    likely = known.get(f"{name}_{territory}") or known.get(name)
    return str(parse_locale(likely)[2]) if likely else ""
