"""Placeholders of programs in a text: `{name}`, `%s`, `$NAME`, `<0>`, ICU messages, templates."""

import bisect
import re
from collections.abc import Iterator

from mtkit.text.words import Span, blank_out

_PRINTF = re.compile(
    r"""%% | (?<!\d)%(?!(?:hh|ll|[hlLqjzt])[A-Za-z]%)[A-Za-z][\w.-]{1,63}%(?!\w)  # %name%
    | %\d{1,2}%(?![%\w]) | %\#@\w{1,64}@ | %L?\d{1,2}(?![\d$A-Za-z]|\.[\d*])
    | %(?:\(\w{1,64}\)\x20?|\d{1,2}\$|<\w{1,64}>|\[\d{1,2}\])?
      [-+0\#]{0,4} (?:\d{1,4}|\*)? (?:\.(?:\d{1,4}|\*))? (?:hh|h|ll|l|L|q|j|z|t)? [A-Za-z@]""",
    re.VERBOSE | re.ASCII,
)
"""Of C, Python, Objective-C, Ruby, Go, strftime, Qt, Boost and Symfony. Without the space flag:
"100 % sure"."""
_PERCENTAGE = re.compile(r"\d[ \u00a0\u202f]?$")
"""Text before a per cent sign that isn't a placeholder's."""
_VARIABLE = re.compile(
    r"""\$\{[^{}\s]{1,128}\}
    | (?<![\w$])\$[A-Za-z_][\w@]{0,63}(?:\.\w{1,63}){0,8}\$(?![\w${])  # $NAME$
    | \$[A-Za-z_]\w{0,63}""",
    re.VERBOSE | re.ASCII,
)
_MESSAGE = re.compile(
    r"""\$t\([^()\n]{1,200}\)
    | @(?:\.\w{1,32})?:(?:\([^()\s]{1,128}\)|\{[^{}\s]{1,128}\}|\w[\w.-]{0,127}(?<![.-]))""",
    re.VERBOSE | re.ASCII,
)
"""Another message: `$t(menu.open)` of i18next, `@:menu.open` of Vue."""
_ARGUMENT = re.compile(r"(?<![\w$])\$(\d++(?:[.,]\d++)*+)(?![\w%$])", re.ASCII)
"""An argument by its number, `$1`, or a sum of money."""
_SUM = re.compile(
    r"[ \u00a0\u202f-]?(?:[bmtk]n?\b|hundred|thousand|million|billion|trillion)", re.I
)
"""Text after a sum."""
_TAG = re.compile(r"</?\d{1,3} ?/?>|<%[^%<>]{1,200}%>", re.ASCII)
_NAME = r"[\w.\[\]'\"-]{0,64}"
_FIELD = re.compile(
    rf"""\{{ (?:{_NAME}) (?:![rsa])? (?::[^{{}}]{{0,40}})? \}}   # {{name}}, {{0:.2f}}, {{}}
    | \{{ (?:'[^'{{}}]{{1,40}}' | \x20[A-Za-z_][\w.]{{0,63}}\x20) \}}    # {{'@'}}, {{ name }}
    | \{{\{{\{{? \s? [\#/^&>]? {_NAME} \s? \}}?\}}\}}            # two or three, as in Mustache
    """,
    re.VERBOSE,
)
_TEMPLATE = re.compile(
    r"""\{\{ (?:[^{}]|\{[^{}]*+\})*+ \}\}               # {{ x | title }}, {{< x >}}
    | \{% (?:[^{}]|\{[^{}]*+\})*+ (?<!\{%)(?<=%)\}    # {% if x %}
    | \{\# [^{}]*+ (?<!\{\#)(?<=\#)\}                 # {# a comment #}
    """,
    re.VERBOSE,
)
"""Of Jinja, Django, Liquid, Twig, Handlebars and Hugo."""
_FLUENT = re.compile(
    r"""\{\s{0,8} (?:
      \$[A-Za-z][\w-]{0,63} (?:\s{0,8}->|\s{0,8}\})     # { $name }, and a choice by it
    | -[A-Za-z][\w.-]{0,63} (?:\([^(){}]{0,200}\))?\s{0,8}\}
    | [A-Z][A-Z\d_-]{0,63} \([^(){}]{0,200}\)\s{0,8}(?:->|\}) )""",
    re.VERBOSE | re.ASCII,
)
_ICU = re.compile(r"\{\s{0,8}[\w.-]{1,64}\s{0,8},\s{0,8}[A-Za-z]{1,32}\s{0,8}[,}]")
_SIGNS = "{%$<@"


def find_placeholders(text: str) -> list[Span]:
    """Returns the spans of a text's placeholders, in order; none contains another."""
    if not any(sign in text for sign in _SIGNS):
        return []
    spans = [found.span() for found in _MESSAGE.finditer(text)]
    spans = sorted([*spans, *_find_in_braces(blank_out(text, spans, "\n"))])
    for pattern in (_PRINTF, _VARIABLE, _TAG):
        free = blank_out(text, spans, "\n")
        spans += [
            found.span() for found in pattern.finditer(free) if not _is_percentage(text, found)
        ]
        spans.sort()
    return sorted([*spans, *_find_arguments(blank_out(text, spans, "\n"))])


def _find_arguments(text: str) -> list[Span]:
    """Returns the spans of `$1`, `$2` and so on, if they are consecutive from 1, not sums."""
    found = list(_ARGUMENT.finditer(text)) if "$1" in text else []
    numbers = {each.group(1) for each in found}
    if numbers != {str(number) for number in range(1, len(numbers) + 1)} or len(numbers) > 9:
        return []
    if any(_SUM.match(text, each.end()) for each in found):
        return []
    return [each.span() for each in found]


def _is_percentage(text: str, found: re.Match[str]) -> bool:
    """Returns whether a per cent sign belongs to the number before it: "ein 50%iger Rabatt"."""
    if found.group()[0] != "%" or found.group() == "%%":
        return False
    before = text[max(0, found.start() - 2) : found.start()]
    behind = text[found.end() : found.end() + 1]
    return _PERCENTAGE.search(before) is not None and behind.isalpha()


def _find_in_braces(text: str) -> Iterator[Span]:
    """Yields outermost placeholders in braces, with the sign before them."""
    last = 0
    ends = [found.start() for found in re.finditer("\n", text)]
    for start, end in _match_braces(text):
        # A match across lines or inside an earlier one isn't a placeholder.
        if start < last or bisect.bisect(ends, start) < bisect.bisect(ends, end):
            continue
        if any(pattern.fullmatch(text, start, end) for pattern in (_FIELD, _TEMPLATE)) or any(
            pattern.match(text, start, end) for pattern in (_ICU, _FLUENT)
        ):
            last = end
            has_sign = start > 0 and text[start - 1] in "#%$"
            yield start - has_sign, end


def _match_braces(text: str) -> list[Span]:
    """Returns each balanced pair of braces, by its start."""
    open_braces: list[int] = []
    pairs = []
    for found in re.finditer(r"[{}]", text):
        if found.group() == "{":
            open_braces.append(found.start())
        elif open_braces:
            pairs.append((open_braces.pop(), found.end()))
    return sorted(pairs)
