import time

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from mtkit.recipe.protection import Protect
from mtkit.text.protected import PieceFinder


def find(text, **settings):
    return [
        (piece.kind, piece.text) for piece in PieceFinder(Protect(**settings)).find(text).pieces
    ]


def lost(source, output, **settings):
    finder = PieceFinder(Protect(**settings))
    return finder.find_lost(finder.find(source), output)


# Each line of the table is an example of the documentation that is named beside it.
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hi {name}, {0} of {1:.2f} or {}", ["{name}", "{0}", "{1:.2f}", "{}"]),  # str.format
        ("%(count)d of %s, %5.1f%%", ["%(count)d", "%s", "%5.1f", "%%"]),  # Python's printf
        ("%1$s and %2$ld, %-8s", ["%1$s", "%2$ld", "%-8s"]),  # POSIX printf
        ("Copy %1 to %L2", ["%1", "%L2"]),  # QString::arg
        ("%Y-%m-%d", ["%Y", "%m", "%d"]),  # strftime
        ("$HOME/${USER:-me} costs $US", ["$HOME", "${USER:-me}", "$US"]),  # POSIX shell
        ("<0>Click</0> <1/>", ["<0>", "</0>", "<1/>"]),  # react-i18next
        ("Hello {{ user }}, #{n} %{m}", ["{{ user }}", "#{n}", "%{m}"]),  # Mustache, Ruby
        (
            "{n, plural, one {# file} other {# files}} left",
            ["{n, plural, one {# file} other {# files}}"],
        ),  # ICU MessageFormat
        ("{d, date, short}", ["{d, date, short}"]),
        ("$VAR$ items of $1 for $name$", ["$VAR$", "$1", "$name$"]),  # WebExtensions
        ("$USER_1@x$, ($a$) of $2 and $1", ["$USER_1@x$", "$a$", "$2", "$1"]),
        ("$user.name$ has $HOME$PATH", ["$user.name$", "$HOME", "$PATH"]),  # StringTemplate
        ("{{ user.name | title }} buys", ["{{ user.name | title }}"]),  # Jinja
        ("{% if n %}Yes{% endif %} {# no #}", ["{% if n %}", "{% endif %}", "{# no #}"]),
        ('{{ {"a": 1}.a }} {%- for a in {} -%}', ['{{ {"a": 1}.a }}', "{%- for a in {} -%}"]),
        ("{{#each a}}x{{/each}} {{{ b }}}", ["{{#each a}}", "{{/each}}", "{{{ b }}}"]),
        ('{{< ref "a b" >}} {{% note %}}', ['{{< ref "a b" >}}', "{{% note %}}"]),  # Hugo
        ("{ $name } {$n} of { -brand-name }", ["{ $name }", "{$n}", "{ -brand-name }"]),  # Fluent
        ('{ NUMBER($n, type: "x") } now', ['{ NUMBER($n, type: "x") }']),
        ('of { -brand(case: "b") }', ['{ -brand(case: "b") }']),
        ("{ $n -> [one] a file *[other] files } left", ["{ $n -> [one] a file *[other] files }"]),
        ("%name% of %user.name%, %ld%%, %s%s", ["%name%", "%user.name%", "%ld", "%%", "%s", "%s"]),
        ("%<price>.2f of %[1]d, %1%", ["%<price>.2f", "%[1]d", "%1%"]),  # Ruby, Go, Boost
        ("%#@files@ in %lu", ["%#@files@", "%lu"]),  # Apple's dictionaries of plurals
        ('$t(menu.ok, {"count": 1}) or $t(no)', ['$t(menu.ok, {"count": 1})', "$t(no)"]),  # i18next
        ("See @:menu.ok. @.lower:a-b, @:(c) {'@'}", ["@:menu.ok", "@.lower:a-b", "@:(c)", "{'@'}"]),
        ("Hi { name }, <%= @user.name %>", ["{ name }", "<%= @user.name %>"]),  # Vue, ERB
        # None of these is one.
        ("a mail to me: hi @ home, 10%natural%, 5 %of the 3 % x", []),
        ("$5 and $10, costs 5$ and 6$, $1.50, US$1, $1m, 10$x$", ["$x"]),
        ("from $1 million to $2 million", []),
        ("$1 and $3", []),
        ("{%} {#} { - } { -5 } {%", []),
        ("eine 50%ige Lösung, 50 %ige, 100 % sure, {see below}, $ a, { }", []),
        ("}{ {{{ }", []),
    ],
)
def test_placeholders(text, expected):
    assert find(text, numbers=False) == [("placeholder", each) for each in expected]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Use --output=FILE, -o or -j4.", ["--output", "-o", "-j4"]),
        ("--no-foo; ignore--this; Ein- und -ausgabe, x -- y, a-b, -5", ["--no-foo"]),
        ("See /etc/passwd or ~/.config/x.", ["/etc/passwd", "~/.config/x"]),
        ("in src/main.py.", ["src/main.py"]),
        ("in /usr/ or ../a/b.txt of C:\\dir\\file", ["/usr/", "../a/b.txt", "C:\\dir\\file"]),
        ("and/or, TCP/IP, w/o, 1/2, km/h, </b>, input/output.", []),
        ("1.2.3, v2.0-rc1 and 2.1.0beta2", ["1.2.3", "v2.0-rc1", "2.1.0beta2"]),
        ("On 24.12.2023, 1.5 of v2.0, 1.000.000 or 1.000.000,5", []),
        ("{dir}/etc/x and %-d -d", ["{dir}", "/etc/x", "%-d", "-d"]),
    ],
)  # fmt: skip
def test_options_paths_and_versions(text, expected):
    assert [each for _, each in find(text, numbers=False)] == expected


@pytest.mark.parametrize(
    ("source", "output", "expected"),
    [
        ("Use --output or -o", "Mit -o oder --output", []),
        ("Use --output", "Mit --ausgabe", ["--output"]),
        ("Use --output-dir", "Mit --output", ["--output-dir"]),
        ("in /etc/passwd", "in /etc/passwort", ["/etc/passwd"]),
        ("%-d of -d", "-d von %-d", []),
        ("version 1.2.3", "Version 1.2.4", ["1.2.3"]),
    ],
)
def test_lost_options_paths_and_versions(source, output, expected):
    assert lost(source, output) == expected


def test_no_placeholder_holds_another_piece():
    assert find("{:wa} {a, b, {wa}}", patterns=("wa+",)) == [("pattern", "wa")] * 2


def test_kinds_and_their_order():
    text = "See https://x.org/a?b=%20c, www.y.de; mail A.b@c.de about 1,000.5 (AB-12)."
    assert find(text, patterns=(r"\b[A-Z]{2}-\d+\b",)) == [
        ("url", "https://x.org/a?b=%20c"),
        ("url", "www.y.de"),
        ("email", "A.b@c.de"),
        ("number", "1,000.5"),
        ("pattern", "AB-12"),
    ]
    assert find(text, urls=False, emails=False, placeholders=False, min_number=1000) == [
        ("number", "1,000.5")
    ]


@pytest.mark.parametrize(
    ("source", "output", "expected"),
    [
        # As Unicode's CLDR writes them in English, German, Swiss German and French.
        ("1,000.5 m", "1.000,5 m", []),
        ("1,234,567", "1’234’567", []),
        ("1,234,567", "1\u202f234\u202f567", []),
        ("120,000 people", "12万人", []),
        ("two of 3", "2 von 3", []),
        ("3 of 3", "3 von ihnen", ["3"]),
        ("1,000.5", "1.005", ["1,000.5"]),
        ("{a} {a}", "{a}", ["{a}"]),
        ("{a}", "{a} {b}", ["{b}"]),
        ("{a} 5", "{A} 5", ["{A}", "{a}"]),
        ("{5} 6", "{6} 5", ["{6}", "{5}", "6"]),
        ("see www.x.org", "查看www.x.org获取", []),
        ("see www.x.org/a", "siehe www.x.org/ab", ["www.x.org/a"]),
        ("$VAR", "$VARIABLE", ["$VARIABLE", "$VAR"]),
        ("$VAR$ apples", "$VAR Äpfel", ["$VAR", "$VAR$"]),
        ("{{ a | b }} {% if c %}", "{{ a | b }} {% wenn c %}", ["{% if c %}", "{% wenn c %}"]),
        ("{ $name } of { -brand }", "{ $name } von {-brand}", ["{ -brand }", "{-brand}"]),
        ("$1 of it", "es", ["$1"]),
        ("one dollar", "$1", []),
        ("no piece", "%s 7", ["%s"]),
    ],
)
def test_what_is_lost(source, output, expected):
    assert sorted(lost(source, output)) == sorted(expected)


def test_a_pattern_s_pieces_are_whole():
    settings = {"patterns": ("AB[0-9]+",)}
    assert lost("take AB12", "nimm AB123", **settings) == ["AB12"]
    assert lost("take AB12", "请拿AB12吧", **settings) == []


def test_a_slow_pattern_is_given_up():
    # The textbook's case of catastrophic backtracking.
    finder = PieceFinder(Protect(patterns=("(a|aa)+$", "b")))
    found = finder.find("a" * 60 + "!b!")
    assert found.slow_patterns[0] == "(a|aa)+$"
    assert finder.find("aaa").pieces[0].text == "aaa"


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("(", "missing )"),
        ("a*", "matches an empty string"),
        (r"\L<names>", "undefined named list"),
        ("((((a{9999}){9999}){9999}){9999})", "too many repetitions"),
        ("(" * 240 + "a" + ")" * 239, "missing )"),
        ("", "at least 1 character"),
    ],
)
def test_faulty_patterns_are_refused(pattern, message):
    with pytest.raises(ValidationError, match=regex.escape(message)):
        Protect(patterns=(pattern,))


_TEXTS = st.text(st.sampled_from("{}%$<>/0a1s, .@w:#"), max_size=40)


@given(_TEXTS)
def test_pieces_stand_where_they_say(text):
    end = 0
    for piece in PieceFinder(Protect(patterns=("wa+",))).find(text).pieces:
        start = piece.span[0]
        assert start >= end
        end = piece.span[1]
        assert text[start:end] == piece.text


@given(_TEXTS)
def test_a_text_keeps_its_own_pieces(text):
    assert lost(text, text) == []


def test_signs_in_rows_take_no_time_that_grows_with_their_square():
    begin = time.process_time()
    for signs in (
        "{%",
        "{{ a",
        "{ $a",
        "{{ a }",
        "{{a}",
        "$1",
        "$a",
        "$a.",
        "$",
        "{# ",
        "{ -a(",
        "%}{%",
        "{{{a}",
        "$1,",
        "1$",
    ):
        find(signs * 20_000 + "}" * 20_000, numbers=False)
    assert time.process_time() - begin < 20


def test_a_line_of_braces_takes_no_time_that_grows_with_its_square():
    # 200,000 braces would take minutes, and run out of Python's stack.
    assert find("{" * 100_000 + "}" * 100_000) == [("placeholder", "{{{}}}")]
