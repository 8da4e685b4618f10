"""The languages of a translator of several: their codes, and the pieces that stand for them.

A model of M2M100's kind has a piece for each language, which stands at the source and begins the
output. One of OPUS-MT's has tags, `>>deu<<`, which stand before a source.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Literal

from mtkit.errors import MtkitError, shorten, suggest

SourcePlace = Literal["before", "behind"]
"""Where a source's language stands: before the text, or behind the `</s>` that closes it."""
SEVERAL = "mul"
"""ISO 639's code for several languages."""
UNDETERMINED = "und"
"""ISO 639's code where nothing says which language it is."""

_TAG = re.compile(r">>([^<>\s]+)<<")
# A language, its script and its region.
_CODE = re.compile(r"[A-Za-z]{2,3}(?:[_-][A-Za-z]{4})?(?:[_-](?:[A-Za-z]{2}|[0-9]{3}))?")
_LISTED = 12
# `no` is what most call Bokmål; `ns` is M2M100's for Northern Sotho.
_ALSO = {"no": "nb", "ns": "nso"}


@dataclass(frozen=True)
class LanguageTokens:
    """The tokens that tell a model its languages.

    Attributes:
        before: Source tokens before the text.
        behind: Source tokens behind the `</s>` that closes the text.
        begin: Target tokens that every output begins with, and that are no part of its text.
    """

    before: tuple[int, ...] = ()
    behind: tuple[int, ...] = ()
    begin: tuple[int, ...] = ()


NO_MARKS = LanguageTokens()
"""Of a model that isn't told its languages."""


@dataclass(frozen=True)
class ModelLanguages:
    """The languages that a tokenizer has pieces for.

    Attributes:
        source: The piece of each language that is read, by its code.
        target: The piece of each language that is written, by its code.
        source_place: Where the source's piece stands.
        begins_output: Whether the target's piece begins the output; otherwise it stands before the
            source, and may be absent.
    """

    source: Mapping[str, str] = field(default_factory=dict)
    target: Mapping[str, str] = field(default_factory=dict)
    source_place: SourcePlace = "before"
    begins_output: bool = False

    @classmethod
    def of_pieces(cls, pieces: Mapping[str, str], source_place: SourcePlace) -> "ModelLanguages":
        """Returns the languages of a model of M2M100's kind, whose pieces serve both sides."""
        return cls(pieces, pieces, source_place, begins_output=True)

    @classmethod
    def of_tags(cls, tags: Sequence[str]) -> "ModelLanguages | None":
        """Returns the target languages that tags such as `>>deu<<` name; None where none does."""
        found = {match[1]: tag for tag in tags if (match := _TAG.fullmatch(tag))}
        return cls(target=found) if found else None


@dataclass(frozen=True)
class TranslatorLanguages:
    """What a translator reads and writes.

    Attributes:
        source: Codes of the languages that it reads.
        target: Codes of the languages that it writes.
        default: Source and target where a request names none; empty where there is no default.
        are_needed: Whether a request must have both.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    default: tuple[str, str]
    are_needed: bool = False

    @classmethod
    def of(
        cls, languages: ModelLanguages | None, source: str, target: str
    ) -> "TranslatorLanguages":
        """Returns the languages of a model.

        Args:
            languages: Those that its tokenizer has pieces for, if any.
            source: The language that its config says it reads.
            target: The language that its config says it writes.
        """
        if languages is None:
            return cls((source,), (target,), (source, target))
        if not languages.begins_output:
            return cls((source,), tuple(languages.target), (source, ""))
        of_source, of_target = tuple(languages.source), tuple(languages.target)
        default = (find_language(source, of_source), find_language(target, of_target))
        return cls(of_source, of_target, default, are_needed=True)

    def with_default(self, source: str, target: str) -> "TranslatorLanguages":
        """Returns the same with other defaults, where these aren't empty.

        Raises:
            MtkitError: The translator hasn't one of them.
        """
        return replace(self, default=self._choose(source, target))

    def resolve(self, source: str = "", target: str = "") -> tuple[str, str]:
        """Returns the translator's codes of two languages.

        Args:
            source: A code of any common form; the default where it is empty.
            target: The same; empty where the translator needs none.

        Raises:
            MtkitError: The translator hasn't one of them, or needs one and has no default.
        """
        chosen = self._choose(source, target)
        for index, option in enumerate(("--from", "--to")):
            if self.are_needed and not chosen[index]:
                side = ("source", "target")[index]
                raise MtkitError(
                    f"no {side} language given, and this model has {len(self.source):,}",
                    f"name it: {option} {_examples(self.source if index == 0 else self.target)} "
                    f"(source_language and target_language in Python and JSON lines)",
                )
        return chosen

    def _choose(self, source: str, target: str) -> tuple[str, str]:
        return (
            self._find("source", source) if source else self.default[0],
            self._find("target", target) if target else self.default[1],
        )

    def _find(self, side: Literal["source", "target"], code: str) -> str:
        codes = self.source if side == "source" else self.target
        if codes in ((UNDETERMINED,), (SEVERAL,)):
            # Nothing says which one it is.
            return codes[0]
        found = find_language(code, codes)
        if found:
            return found
        does, option = ("read", "--from") if side == "source" else ("write", "--to")
        listed = ", ".join(codes[:_LISTED])
        more = f" and {len(codes) - _LISTED:,} more" if len(codes) > _LISTED else ""
        raise MtkitError(
            f"this model doesn't {does} '{shorten(code, 40)}' ({option})"
            + suggest(code, _spellings(code, codes)),
            f"it {does}s {listed}{more}",
        )


def find_language(code: str, codes: Sequence[str]) -> str:
    """Returns the one of a model's codes that a code stands for; empty if none does.

    A code is one of the model's own, or of ISO 639-1 or 639-3, with a script or without: `de`,
    `deu`, `deu_Latn` and `de-Latn` are the same. Without a script it is the one that most text of
    the language has, in a region where one is given: `zh` is `zho_Hans`, `zh-TW` is `zho_Hant`.
    """
    if code in codes:
        return code
    if not _CODE.fullmatch(code):
        return ""
    spelled = {_spell(each): each for each in reversed(codes)}
    if _spell(code) in spelled:
        return spelled[_spell(code)]
    language, script = _parse(code)
    alike = [each for each in codes if _CODE.fullmatch(each) and _parse(each)[0] == language]
    usual = _find_script(language)
    wanted = script or _find_script(language, _find_region(code))
    fitting = [each for each in alike if (_parse(each)[1] or usual) == wanted]
    if not fitting and not script and len(alike) == 1:
        return alike[0]
    same = [each for each in fitting if _find_main(each) == _find_main(code)]
    return (same or fitting or [""])[0]


def name_languages(codes: Sequence[str]) -> dict[str, str]:
    """Returns a model's codes by the usual tag of each: `de` for `deu_Latn`.

    A tag is of BCP 47: ISO 639-1 where it has the language, and a script where it is another than
    most text of the language has. `find_language` finds the code of a tag again. A code of no
    known form is its own tag.
    """
    tags: dict[str, str] = {}
    for code in codes:
        found = [each for each in _list_tags(code) if find_language(each, codes) == code]
        tags[next((each for each in found if each not in tags), code)] = code
    return tags


def find_main_language(code: str) -> str:
    """Returns a code's language, without script and region, by ISO 639-1 where it has one.

    Empty where it is of no known form.
    """
    if len(code) == 2 and code.isalpha():
        return code.lower()
    return _parse(code)[0].split("_")[0] if _CODE.fullmatch(code) else ""


def _list_tags(code: str) -> list[str]:
    """Returns the tags that may stand for a code, the most usual first."""
    if not _CODE.fullmatch(code):
        return []
    main, region = _find_main(code), _find_region(code)
    language, script = _parse(code)
    usual = _find_script(language)
    is_usual = script in ("", usual) or (script, usual) == ("Hang", "Kore")
    rest = [part for part in ("" if is_usual else script, region) if part]
    known = [main] if len(main) == 2 and main not in _ALSO else []
    # CLDR has a language and a region for some, such as `fa_AF` for Dari.
    mains = dict.fromkeys([*known, *([] if "_" in language else [language]), main])
    return ["-".join((each, *rest)) for each in mains]


def _spell(code: str) -> str:
    return code.lower().replace("-", "_")


def _find_main(code: str) -> str:
    return _spell(code).split("_")[0]


def _find_region(code: str) -> str:
    """Returns a code's region in capitals; empty where it has none."""
    return next((part.upper() for part in _spell(code).split("_")[1:] if len(part) < 4), "")


@lru_cache(maxsize=2_048)
def _parse(code: str) -> tuple[str, str]:
    """Returns a code's language in CLDR's spelling, and its script; empty where it has none."""
    from babel.core import get_global  # noqa: PLC0415 (slow to load)

    language, *rest = re.split("[_-]", code)
    language = language.lower()
    language = str(get_global("language_aliases").get(language, language))
    script = next((part.title() for part in rest if len(part) == 4 and part.isalpha()), "")
    return _ALSO.get(language, language), script


@lru_cache(maxsize=2_048)
def _find_script(language: str, region: str = "") -> str:
    from babel.core import get_global  # noqa: PLC0415 (slow to load)

    known = get_global("likely_subtags")
    forms = f"{language}_{region}", language, language.split("_", maxsplit=1)[0]
    likely = str(next((known[each] for each in forms if each in known), ""))
    return next((part for part in likely.split("_") if len(part) == 4), "")


def _spellings(code: str, codes: Sequence[str]) -> list[str]:
    """Returns what a mistyped code may have been meant to be: first codes of the same language."""
    if not _CODE.fullmatch(code):
        return list(codes)
    language, _ = _parse(code)
    return [each for each in codes if _CODE.fullmatch(each) and _parse(each)[0] == language] or [
        *codes
    ]


def _examples(codes: Sequence[str]) -> str:
    """Returns a few codes that most people know, else the first."""
    known = [found for each in ("en", "de", "fr") if (found := find_language(each, codes))]
    return " or ".join(known[:2] or codes[:2])
