"""Time grows with a document's length, whatever is in it.

Each regular expression of the subpackage and each reader is given inputs that repeat what it looks
for, at two sizes. Four times the input may take four times the processor time; with backtracking it
would be sixteen times or more.
"""

import importlib
import inspect
import itertools
import pkgutil
import re
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import regex

import mtkit.documents
from mtkit.documents.document import LanguageCodes, TranslatedText
from mtkit.documents.translate_file import FORMATS, translate_markup
from mtkit.errors import MtkitError
from mtkit.text import command_lines, placeholders, protected, string_files, xml_tokens

_MAX_GROWTH = 9.0
"""Of processor time for four times the input."""
_SIZE = 2_500
_TOO_QUICK = 0.006
"""Seconds that say nothing of how time grows."""


def measure(run: Callable[[], object]) -> float:
    times = []
    for _ in range(2):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
        if times[0] > 0.5:
            break
    return min(times)


def is_quadratic(make: Callable[[int], Callable[[], object]]) -> bool:
    """Returns whether four times the size takes much more than four times the time."""
    after = measure(make(4 * _SIZE))
    if after < _TOO_QUICK:
        return False
    before = measure(make(_SIZE))
    if after <= _MAX_GROWTH * before:
        return False
    # A second look, since something else may have taken the time.
    return measure(make(4 * _SIZE)) > _MAX_GROWTH * measure(make(_SIZE))


_MODULES = [
    placeholders,
    protected,
    command_lines,
    xml_tokens,
    *(
        importlib.import_module(found.name)
        for package in (mtkit.documents, string_files)
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    ),
]
_SOURCE = "".join(inspect.getsource(module) for module in _MODULES)


def list_patterns() -> Iterator[tuple[str, Any]]:
    for module in _MODULES:
        for name, value in vars(module).items():
            if isinstance(value, re.Pattern | regex.Pattern) and isinstance(value.pattern, str):
                yield f"{module.__name__.removeprefix('mtkit.')}.{name}", value


PATTERNS = dict(list_patterns())
_GENERAL = [
    " ",
    "a",
    "<",
    "&",
    "[",
    "{",
    "-",
    "\n",
    "1",
    '"',
    "\\",
    "a ",
    " a",
    " \t",
    "<a ",
    "-a|",
]


def list_seeds(pattern: str) -> list[str]:
    """Returns what repeats in the worst inputs of a pattern: its own literal characters."""
    plain = re.sub(r"\\[bABZdDwWsSpP]|\(\?[a-zP:<=!>]*", " ", pattern)
    own = list(dict.fromkeys(re.findall(r"[^\w\s^$*+?()|.]", plain)))[:12]
    words = list(dict.fromkeys(re.findall(r"[A-Za-z]{3,}", plain)))[:6]
    pairs = ["".join(pair) for pair in itertools.product(own[:8], ["", " ", "a"])]
    return list(dict.fromkeys([*_GENERAL, *own, *pairs, *words, "".join(own), " ".join(own)]))


@pytest.mark.parametrize("name", PATTERNS)
def test_expressions_take_linear_time(name: str) -> None:
    pattern = PATTERNS[name]
    # How it is used: one that is only matched at a place isn't looked for at each.
    methods = set(re.findall(rf"\b{name.rpartition('.')[2]}\.(\w+)\(", _SOURCE))

    def use(text: str) -> None:
        if methods - {"match", "fullmatch"}:
            for _ in pattern.finditer(text):
                pass
        pattern.match(text)
        pattern.fullmatch(text)

    slow = []
    for seed in list_seeds(pattern.pattern):
        for before, behind in (("", ""), ("-a <a [x {{ ", "\0")):

            def make(size: int, parts: Sequence[str] = (before, seed, behind)) -> Any:
                first, repeated, last = parts
                text = first + repeated * (size // len(repeated)) + last
                return lambda: use(text)

            if is_quadratic(make):
                slow.append((before, seed, behind))
    assert not slow


def keep_text(texts: Sequence[str]) -> list[TranslatedText]:
    return [TranslatedText(f"{text}.") for text in texts]


_CUE = "1\n00:00:01,000 --> 00:00:02,000\n"
_INPUTS: dict[str, tuple[str, str, str, str]] = {
    "options": ("html", "<p>-a", "|-b", "</p>"),
    "options that end": ("html", "<p>--a", "=-b=-b", " x!</p>"),
    "spaces in a folded string": ("yaml", "a: 'x", " ", "y'"),
    "line ends in a folded string": ("yaml", "a: 'x", "\n ", "y'"),
    "spaces in a plain string": ("yaml", "a: x", " ", "y"),
    "brackets": ("yaml", "a: ", "[", ""),
    "braces": ("yaml", "a: ", "{", ""),
    "nested keys": ("yaml", "", "? ", ""),
    "a line of spaces": ("srt", f"{_CUE}a\n", " ", f"\nb\n\n{_CUE}"),
    "many cues": ("srt", "", f"{_CUE}- a\n- b\n\n", ""),
    "cues without times": ("vtt", "WEBVTT\n\n", "a\n\n", ""),
    "times that aren't": ("srt", _CUE, "1:", ""),
    "units on one line": (
        "tmx",
        '<tmx><header srclang="en"/><body>',
        '<tu><tuv lang="en"><seg>a b</seg></tuv></tu>',
        "</body></tmx>",
    ),
    "segments on one line": (
        "xliff",
        '<xliff><file source-language="en"><body>',
        '<trans-unit id="1"><source>a &lt;b&gt;c&lt;/b&gt;</source></trans-unit>',
        "</body></file></xliff>",
    ),
    "messages": ("po", "", 'msgid "a <b>c</b>"\nmsgstr ""\n', ""),
    "strings of a message": ("po", 'msgid ""\n', '"a <b>c</b> \\n"\n', 'msgstr ""\n'),
    "escapes": ("json", '"', "\\u003cb\\u003e", '"'),
    "an open quote": ("json", '"<b>a</b> ', "<a x='", '"'),
    "ampersands": ("json", '"<b>a</b> ', "&", '"'),
    "strings of resources": ("xml", "<resources>", "<string>a\\'b &lt;b></string>", "</resources>"),
    "what is left in XML": (
        "xml",
        '<a translate="no">',
        '<b>x<c translate="yes">y</c></b>',
        "</a>",
    ),
    "what is left in HTML": (
        "html",
        '<div translate="no">',
        '<p>x<b translate="yes">y</b>',
        "</div>",
    ),
    "open elements": ("html", "", '<p translate="no">a<b>', ""),
    "attributes": ("html", "<p ", " a='b' ", ">x</p>"),
    "code of PHP": ("html", "<p>", "<?= 1 > 2 ?> a ", "</p>"),
    "open code": ("html", "<p>", "<? ", "</p>"),
    "sections": ("html", "<p>", "<![x]> a ", "</p>"),
    "scripts": ("html", "<meta charset=latin1><p>ä", "<script ", ">"),
    "comments without an end": ("html", "<meta charset=latin1><p>ä", "<!-- ", "-->"),
    "headers": ("po", "", 'msgid ""\nmsgstr "ä"\n', ""),
    "wide text": ("text", "", "a word ", "\n"),
    "lines": ("text", "", "- a\n", ""),
    "indented lines": ("text", "", "  \n", "a"),
}


# Braces go the way of brackets, for seconds.
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.patient] if name == "braces" else [])
        for name in _INPUTS
    ],
)
def test_readers_take_linear_time(name: str) -> None:
    form, first, repeated, last = _INPUTS[name]

    def make(size: int) -> Callable[[], object]:
        text = first + repeated * (size // len(repeated)) + last

        def run() -> None:
            try:
                translate_markup(text, form, keep_text, LanguageCodes("en", "de"))
            except MtkitError:
                # Refused, which is as quick.
                return

        return run

    assert not is_quadratic(make)


def test_each_format_has_an_input() -> None:
    # Markdown, subtitles and office documents have more of their own.
    assert {form for form, *_ in _INPUTS.values()} >= set(FORMATS) - {
        "markdown",
        "docx",
        "pptx",
        "odt",
    }
