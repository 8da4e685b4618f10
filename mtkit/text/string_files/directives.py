"""Directives of format strings, and the faults of a translation that `msgfmt -c` finds.

https://www.gnu.org/software/gettext/manual/html_node/PO-Files.html names the formats. What this
accepts, msgfmt accepts; it is stricter where msgfmt lets a translation drop or add a field.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

Arguments = Mapping[str, str]
"""What a format string takes: the type of each argument by its number or name."""
_C = re.compile(
    r"%(?:(?P<number>[1-9]\d{0,2})\$)?(?P<flags>[-+ #0I']*+)(?P<width>\*(?:\d{1,3}\$)?|\d*+)"
    r"(?:\.(?P<precision>\*(?:\d{1,3}\$)?|\d*+))?"
    r"(?:(?P<size>hh?|ll?|[LqjzZt])?(?P<type>[A-Za-z@%])|<PRI(?P<macro>[diouxX]\w+)>)"
)
_PYTHON = re.compile(
    r"%(?:\((?P<name>[^()]*+)\))?(?P<flags>[-+ #0]*+)(?P<width>\*|\d*+)"
    r"(?:\.(?P<precision>\*|\d*+))?[hlL]?(?P<type>[diouxXeEfgGcrsa%])"
)
_ANY = re.compile(r"%(?:%|(?P<number>\d{1,3}\$)?[-+ #0-9.*]*+(?:hh?|ll?|[Lqjzt])?[^\s%]?)")
_QT = re.compile(r"%(L?\d{1,2})")
_QT_PLURAL = re.compile(r"%(L?(?:\d{1,2}|n))")
_KDE = re.compile(r"%(\d{1,2})")
_PYTHON_BRACES = re.compile(r"\{\{|\}\}|(\{[^{}]*+(?:\{[^{}]*+\}[^{}]*+)*+\}|[{}])")
_BRACES = re.compile(r"\{(\w+)\}")
_JAVA_QUOTED = re.compile(r"''|'(?:[^']|'')*+(?:'|\Z)")
_JAVA = re.compile(r"(\{[0-9]+(?:,(?:[^{}]|\{[^{}]*+\})*+)?\})|([{}])")
_CSHARP = re.compile(r"\{\{|\}\}|\{([0-9]+)(?:,-?[0-9]+)?(?::[^{}]*+)?\}|([{}])")
_SHELL = re.compile(r"\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)\}|(.?))", re.ASCII | re.DOTALL)
_RUBY = re.compile(r"%%|(%[-+ #0-9.*]*+(?:\{\w+\}|<\w+>[-+ #0-9.]*+[a-zA-Z]))", re.ASCII)
_BOOST = re.compile(r"%(?:[0-9]+%|\|[^|]*+\|)")
_INTEGER = {**dict.fromkeys("di", "integer"), **dict.fromkeys("ouxX", "unsigned integer")}
_REAL = dict.fromkeys("eEfFgGaA", "number")
_OTHERS = {"c": "character", "s": "string", "p": "pointer", "n": "count", "@": "object"}
_C_TYPES = {**_INTEGER, **_REAL, **_OTHERS}
_PYTHON_TYPES = {**dict.fromkeys("diouxX", "integer"), **_REAL, **dict.fromkeys("rsa", "string")}
_SIZES = {"q": "ll", "L": "ll", "Z": "z", None: ""}


class _InvalidError(Exception):
    """A text isn't a format string."""


def find_fault(flags: Iterable[str], source: str, target: str, *, is_strict: bool = True) -> str:
    """Returns what is wrong with a message's translation by its flags (`c-format`); else "".

    A source that is invalid in a format isn't checked. Without `is_strict`, as for a plural form of
    one number, arguments may be left out.
    """
    for flag in sorted(set(flags) & FORMAT_FLAGS.keys()):
        read = FORMAT_FLAGS[flag]
        try:
            wanted = read(source)
        except _InvalidError:
            continue
        try:
            found = read(target)
        except _InvalidError as error:
            return f"{flag}: {error}"
        for argument in [*wanted, *found]:
            kinds = wanted.get(argument), found.get(argument)
            if kinds[0] != kinds[1] and (is_strict or kinds[1] is not None):
                return f"{flag}: {_describe(argument, *kinds)}"
    edges = [(each.startswith("\n"), each.endswith("\n")) for each in (source, target)]
    return "" if edges[0] == edges[1] else "a line break at its beginning or end was lost or added"


def _describe(argument: str, wanted: str | None, found: str | None) -> str:
    if wanted is None or found is None:
        return f"argument {argument} is {'added' if wanted is None else 'missing'}"
    article, expected = ("an" if each[0] in "aeiou" else "a" for each in (found, wanted))
    return f"argument {argument} is {article} {found}, expected {expected} {wanted}"


def _scan(pattern: re.Pattern[str], text: str) -> Iterable[re.Match[str]]:
    """Yields the directives of a text."""
    position = text.find("%")
    while position >= 0:
        found = pattern.match(text, position)
        if found is None:
            raise _InvalidError(f"{text[position : position + 8]!r} isn't a directive")
        yield found
        position = text.find("%", found.end())


class _Collector:
    """Arguments in order, or by their numbers or names, but not both."""

    def __init__(self) -> None:
        self.found: dict[str, str] = {}
        self._num_unnamed = 0

    def add(self, kind: str, name: str | None = None) -> None:
        if name is None:
            self._num_unnamed += 1
        key = str(self._num_unnamed) if name is None else name
        if self._num_unnamed > 0 and (name is not None or len(self.found) >= self._num_unnamed):
            raise _InvalidError("arguments with and without a number or name")
        if self.found.setdefault(key, kind) != kind:
            raise _InvalidError(f"argument {key} has two types")


def _read_c(text: str, *, has_objects: bool = False) -> Arguments:
    arguments = _Collector()
    for found in _scan(_C, text):
        for star in (found["width"], found["precision"]):
            if star and star[0] == "*":
                arguments.add("integer", star[1:-1] or None)
        macro, letter, size = found["macro"], found["type"], found["size"]
        if macro:
            arguments.add(f"{macro[1:]} {_INTEGER[macro[0]]}", found["number"])
        elif letter in "CS":
            arguments.add(f"l {_OTHERS[letter.lower()]}", found["number"])
        elif letter in _C_TYPES and (letter != "@" or has_objects):
            size = size if letter in _REAL else _SIZES.get(size, size)
            arguments.add(f"{size or ''} {_C_TYPES[letter]}".strip(), found["number"])
        elif letter not in "m%":
            raise _InvalidError(f"{found.group()!r} isn't a directive")
    numbers = {int(key) for key in arguments.found}
    if numbers != set(range(1, len(numbers) + 1)):
        raise _InvalidError("the numbers of its arguments have a gap")
    return arguments.found


def _read_any_printf(text: str) -> Arguments:
    """Returns directives as they are written, for languages whose own types aren't known."""
    arguments: dict[str, str] = {}
    num_unnumbered = 0
    for found in _ANY.finditer(text):
        if found["number"] is None and found.group() != "%%":
            num_unnumbered += 1
        number = found["number"] or f"{num_unnumbered}"
        if found.group() != "%%":
            arguments[number] = arguments.get(number, "") + found.group()
    return arguments


def _read_objective_c(text: str) -> Arguments:
    return _read_c(text, has_objects=True)


def _read_python(text: str) -> Arguments:
    arguments = _Collector()
    for found in _scan(_PYTHON, text):
        for star in (found["width"], found["precision"]):
            if star == "*":
                arguments.add("integer")
        letter = found["type"]
        if letter in "rsa" and found["precision"] in ("", "0"):
            arguments.add("value", found["name"])
        elif letter != "%" or found["name"] is not None:
            arguments.add(_PYTHON_TYPES.get(letter, "character"), found["name"])
    return arguments.found


def _read_python_braces(text: str) -> Arguments:
    counts = Counter(filter(None, _PYTHON_BRACES.findall(text)))
    # Only fields without a name are counted: `{}`.
    return {each: f"{count if each == '{}' else 'any'} times" for each, count in counts.items()}


def _read_java(text: str) -> Arguments:
    return _read_braces(_JAVA, _JAVA_QUOTED.sub("", text))


def _read_braces(pattern: re.Pattern[str], text: str) -> Arguments:
    """Returns fields by number or as they are written; other braces are a fault."""
    found = pattern.findall(text)
    if any(fault for _, fault in found):
        raise _InvalidError("a brace isn't part of a field")
    return {number: "field" for number, _ in found if number}


def _read_shell(text: str) -> Arguments:
    found = _SHELL.findall(text)
    if any(not (plain or braced) for plain, braced, _ in found):
        raise _InvalidError("'$' isn't followed by a name")
    return {plain or braced: "variable" for plain, braced, _ in found}


def _read_fields_and_printf(pattern: re.Pattern[str], text: str) -> Arguments:
    return {**_read_fields(pattern, text), **_read_any_printf(pattern.sub("", text))}


def _read_fields(pattern: re.Pattern[str], text: str) -> Arguments:
    return dict.fromkeys(filter(None, pattern.findall(text)), "field")


FORMAT_FLAGS: dict[str, Callable[[str], Arguments]] = {
    "c-format": _read_c,
    "objc-format": _read_objective_c,
    "python-format": _read_python,
    "python-brace-format": _read_python_braces,
    "perl-brace-format": lambda text: _read_fields(_BRACES, text),
    "qt-format": lambda text: _read_fields(_QT, text),
    "qt-plural-format": lambda text: _read_fields(_QT_PLURAL, text),
    "kde-format": lambda text: _read_fields(_KDE, text),
    "kde-kuit-format": lambda text: _read_fields(_KDE, text),
    "java-format": _read_java,
    "csharp-format": lambda text: _read_braces(_CSHARP, text),
    "sh-format": _read_shell,
    "ruby-format": lambda text: _read_fields_and_printf(_RUBY, text),
    "boost-format": lambda text: _read_fields_and_printf(_BOOST, text),
    **dict.fromkeys(
        (
            *("php-format", "javascript-format", "lua-format", "awk-format", "perl-format"),
            *("java-printf-format", "object-pascal-format", "gcc-internal-format", "tcl-format"),
        ),
        _read_any_printf,
    ),
}
"""Readers of format strings by the flags of PO files."""
