"""The languages of a multilingual translator: their codes and pieces.

A model like M2M100 has a piece for each language, in the source and at the start of the output. An
OPUS-MT model has tags, `>>deu<<`, before a source.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Literal

from mtkit.errors import MtkitError, shorten, suggest

SourcePlace = Literal["before", "behind"]
"""The position of a source's language: before the text, or after its `</s>`."""
SEVERAL = "mul"
"""ISO 639's code for several languages."""
UNDETERMINED = "und"
"""ISO 639's code for an unknown language."""

_TAG = re.compile(r">>([^<>\s]+)<<")
# A language, its script and its region.
_CODE = re.compile(r"[A-Za-z]{2,3}(?:[_-][A-Za-z]{4})?(?:[_-](?:[A-Za-z]{2}|[0-9]{3}))?")
_RIGHT_TO_LEFT = frozenset(
    ("Arab", "Aran", "Hebr", "Syrc", "Thaa", "Nkoo", "Adlm", "Rohg", "Mand", "Samr")
)
_LISTED = 12
# Most users mean Bokmål by `no`; `ns` is M2M100's code for Northern Sotho.
_ALSO = {"no": "nb", "ns": "nso"}


@dataclass(frozen=True)
class LanguageTokens:
    """The tokens that mark languages for a model.

    Attributes:
        before: Source tokens before the text.
        behind: Source tokens after the text's `</s>`.
        begin: Target tokens at the start of every output, which aren't part of its text.
    """

    before: tuple[int, ...] = ()
    behind: tuple[int, ...] = ()
    begin: tuple[int, ...] = ()


NO_MARKS = LanguageTokens()
"""For a model without language marks."""


@dataclass(frozen=True)
class ModelLanguages:
    """The languages that a tokenizer has pieces for.

    Attributes:
        source: The piece of each source language, by code.
        target: The piece of each target language, by code.
        source_place: The position of the source's piece.
        begins_output: Whether the target's piece begins the output; otherwise it may precede the
            source.
    """

    source: Mapping[str, str] = field(default_factory=dict)
    target: Mapping[str, str] = field(default_factory=dict)
    source_place: SourcePlace = "before"
    begins_output: bool = False

    @classmethod
    def of_pieces(cls, pieces: Mapping[str, str], source_place: SourcePlace) -> "ModelLanguages":
        """Returns the languages of a model like M2M100, whose pieces are for both sides."""
        return cls(pieces, pieces, source_place, begins_output=True)

    @classmethod
    def of_tags(cls, tags: Sequence[str]) -> "ModelLanguages | None":
        """Returns the target languages of tags such as `>>deu<<`; None without any."""
        found = {match[1]: tag for tag in tags if (match := _TAG.fullmatch(tag))}
        return cls(target=found) if found else None


@dataclass(frozen=True)
class TranslatorLanguages:
    """The languages that a translator reads and writes, as codes.

    Attributes:
        default: Default source and target; an empty string means no default.
        are_needed: Whether a request needs both.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    default: tuple[str, str]
    are_needed: bool = False

    @classmethod
    def of(
        cls, languages: ModelLanguages | None, source: str, target: str
    ) -> "TranslatorLanguages":
        """Returns a model's languages; `source` and `target` are from its config."""
        if languages is None:
            return cls((source,), (target,), (source, target))
        targets = tuple(languages.target)
        if not languages.begins_output:
            return cls(list_sources(source, targets), targets, (source, ""))
        of_source = tuple(languages.source)
        default = (find_language(source, of_source), find_language(target, targets))
        return cls(of_source, targets, default, are_needed=True)

    def with_default(self, source: str, target: str) -> "TranslatorLanguages":
        """Returns a copy with other defaults, unless these are empty."""
        return replace(self, default=self._choose(source, target))

    def resolve(self, source: str = "", target: str = "") -> tuple[str, str]:
        """Returns the translator's codes of two languages; empty ones get the default."""
        chosen = self._choose(source, target)
        if not self.are_needed:
            return chosen
        for index, option in enumerate(("--from", "--to")):
            if not chosen[index]:
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
            # It is unknown which one it is.
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


def is_language_tag(tag: str) -> bool:
    """Checks whether a tag chooses the target language: `>>deu<<`."""
    return _TAG.fullmatch(tag) is not None


def list_sources(source: str, targets: Sequence[str]) -> tuple[str, ...]:
    """Returns the languages that a model with tags reads.

    One that writes its own source language also reads the other languages.
    """
    own = find_language(source, targets)
    return (source, *(code for code in targets if code != own)) if own else (source,)


def find_language(code: str, codes: Sequence[str]) -> str:
    """Returns the code of a model that matches another code; empty without any.

    A code is one of the model's own, or of ISO 639-1 or 639-3, with or without a script: `de`,
    `deu`, `deu_Latn` and `de-Latn` are the same. Without a script, the language's most common one
    counts, in the region if there is one: `zh` is `zho_Hans`, `zh-TW` is `zho_Hant`.
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
    wanted = find_script(code)
    fitting = [each for each in alike if find_script(each) == wanted]
    if not fitting and not script and len(alike) == 1:
        return alike[0]
    same = [each for each in fitting if find_main_code(each) == find_main_code(code)]
    spelled_alike = [each for each in same or fitting if bool(_parse(each)[1]) == bool(script)]
    return (spelled_alike or same or fitting or [""])[0]


def name_languages(codes: Sequence[str]) -> dict[str, str]:
    """Returns a model's codes by their usual BCP 47 tags: `de` for `deu_Latn`.

    A tag is ISO 639-1 if possible, with a script unless it is the language's most common one.
    `find_language` maps a tag back to its code. A code of unknown form is its own tag.
    """
    tags: dict[str, str] = {}
    for code in codes:
        found = [each for each in _list_tags(code) if find_language(each, codes) == code]
        tags[next((each for each in found if each not in tags), code)] = code
    return tags


def find_main_language(code: str) -> str:
    """Returns a code's language, in ISO 639-1 if possible; empty for an unknown form."""
    if len(code) == 2 and code.isalpha():
        return code.lower()
    return _parse(code)[0].split("_")[0] if _CODE.fullmatch(code) else ""


def find_script(code: str) -> str:
    """Returns the ISO 15924 code of a language's script; empty if unknown.

    `code` is one such as `de`, `zh-TW` or `jpn`, or has its own script, such as `sr-Latn`.
    """
    language, script = _parse(code)
    return script or _find_script(language, _find_region(code))


def find_direction(code: str) -> str:
    """Returns the direction in which a language is written: `rtl` or `ltr`, as in HTML."""
    return "rtl" if find_script(code) in _RIGHT_TO_LEFT else "ltr"


def _list_tags(code: str) -> list[str]:
    """Returns the possible tags of a code, the most usual first."""
    if not _CODE.fullmatch(code):
        return []
    main, region = find_main_code(code), _find_region(code)
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


def find_main_code(code: str) -> str:
    """Returns a code without script and region, in lower case: `pt` of `pt-BR`."""
    return _spell(code).split("_")[0]


def _find_region(code: str) -> str:
    """Returns a code's region in capitals; empty without one."""
    return next((part.upper() for part in _spell(code).split("_")[1:] if len(part) < 4), "")


@lru_cache(maxsize=2_048)
def _parse(code: str) -> tuple[str, str]:
    """Returns a code's language in CLDR's spelling, and its script, which may be empty."""
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
    """Returns suggestions for a mistyped code: codes of the same language, else all."""
    if not _CODE.fullmatch(code):
        return list(codes)
    language, _ = _parse(code)
    return [each for each in codes if _CODE.fullmatch(each) and _parse(each)[0] == language] or [
        *codes
    ]


def _examples(codes: Sequence[str]) -> str:
    """Returns a few well-known codes, else the first."""
    known = [found for each in ("en", "de", "fr") if (found := find_language(each, codes))]
    return " or ".join(known[:2] or codes[:2])
