"""Placeholders of format strings, by what msgfmt says of the same pairs."""

import random
import re
import shutil
import subprocess

import pytest

from mtkit.text.string_files.directives import find_fault

_HEADER = """msgid ""
msgstr ""
"Content-Type: text/plain; charset=UTF-8\\n"
"Language: de\\n"
"Plural-Forms: nplurals=2; plural=n != 1;\\n"

"""
# Whether GNU gettext 0.21 takes the pair (msgfmt -c).
_PAIRS = [
    ("c-format", "100%% sure %s", "%s zu 100%%", True),
    ("c-format", "100%% sure %s", "100 % sicher %s", False),
    ("c-format", "done", "50 % fertig", False),
    ("c-format", "%s of %d", "%d von %s", False),
    ("c-format", "%s of %d", "%2$d von %1$s", True),
    ("c-format", "%s and %s", "%s", False),
    ("c-format", "%s", "%s %s", False),
    ("c-format", "%s and %s", "%1$s", False),
    ("c-format", "%1$s %1$s", "%1$s", True),
    ("c-format", "%i", "%d", True),
    ("c-format", "%u", "%d", False),
    ("c-format", "%x", "%u", True),
    ("c-format", "%ld", "%d", False),
    ("c-format", "%f", "%.2g", True),
    ("c-format", "%5d", "%-3d", True),
    ("c-format", "%*d", "%d", False),
    ("c-format", "%S", "%ls", True),
    ("c-format", "%m %s", "%s", True),
    ("c-format", "%<PRId64>", "%<PRIi64>", True),
    ("c-format", "%<PRIu32>", "%<PRId32>", False),
    ("c-format", "a %s\n", "a %s", False),
    ("c-format", "%y %s", "%s", True),
    ("objc-format", "%@ %d", "%2$d %1$@", True),
    ("objc-format", "%@", "%s", False),
    ("python-format", "%(a)s %(b)d", "%(b)d %(a)s", True),
    ("python-format", "%(a)s %(b)d", "%(b)d", False),
    ("python-format", "%(a)s", "%(c)s", False),
    ("python-format", "%(a)d", "%(a)s", False),
    ("python-format", "%s", "%(a)s", False),
    ("python-format", "%s %d", "%d %s", False),
    ("python-format", "%d", "%i", True),
    ("python-format", "%s", "%r", True),
    ("python-format", "half", "50 %", False),
    ("python-brace-format", "{a} {b}", "{b} {a} {a}", True),
    ("python-brace-format", "{a} {b}", "{b}", False),
    ("python-brace-format", "{a}", "{a} {c}", False),
    ("python-brace-format", "{a:5d}", "{a}", False),
    ("python-brace-format", "a", "a {", False),
    ("python-brace-format", "{a}", "{a} {{b}}", True),
    ("perl-brace-format", "{a} {b}", "{b}", False),
    ("qt-format", "%1 of %2", "%2 von %1", True),
    ("qt-format", "%1 of %2", "%1", False),
    ("kde-format", "%1 of %2", "%1", False),
    ("php-format", "%1$s of %2$d", "%2$d von %1$s", True),
    ("javascript-format", "%s of %d", "%d von %s", False),
    ("lua-format", "%d", "%s", False),
    ("java-format", "Open {0} of {1}", "{1}: {0}", True),
    ("java-format", "Open {0}", "l'{0}", False),
    ("java-format", "Open {0}", "l''{0}", True),
    ("csharp-format", "{0} of {1:x}", "{0}", False),
    ("csharp-format", "{0}", "{0,5} {{x}}", True),
    ("sh-format", "$a of ${b}", "$b: $a", True),
    ("sh-format", "$a", "a", False),
    ("ruby-format", "%{a} %<b>d", "%<b>d %{a}", True),
    ("ruby-format", "%{a}", "a", False),
    ("boost-format", "%1% of %2%", "%2%: %1%", True),
    ("boost-format", "%1% of %2%", "%1%", False),
    ("java-printf-format", "%s %d", "%s", False),
    ("gcc-internal-format", "%qs", "x", False),
    ("tcl-format", "%s", "x", False),
    ("object-pascal-format", "%s", "x", False),
    ("kde-kuit-format", "%1", "x", False),
]


def quote(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


@pytest.mark.parametrize(("flag", "source", "target", "is_right"), _PAIRS)
def test_a_translation_breaks_placeholders_or_does_not(
    flag: str, source: str, target: str, is_right: bool
) -> None:
    assert (find_fault([flag, "fuzzy"], source, target) == "") is is_right


@pytest.mark.skipif(shutil.which("msgfmt") is None, reason="gettext isn't installed")
def test_msgfmt_says_the_same() -> None:
    messages = [
        f"#, {flag}\nmsgid {quote(f'{number} {source}')}\nmsgstr {quote(f'{number} {target}')}\n\n"
        for number, (flag, source, target, _) in enumerate(_PAIRS)
    ]
    written = _HEADER + "".join(messages)
    command = ["msgfmt", "-c", "-o", "/dev/null", "-"]
    ended = subprocess.run(command, input=written, capture_output=True, text=True, check=False)
    lines = {int(each) for each in re.findall(r"<stdin>:(\d+):", ended.stderr)}
    first = _HEADER.count("\n") + 1
    rejected = {(line - first) // 4 for line in lines if line >= first}
    assert rejected == {number for number, each in enumerate(_PAIRS) if not each[3]}


_PIECES = {
    "c-format": "%s %d %u %ld %f %c %lc %S %p %m %% %y %*d %.*s %1$s %2$d %<PRId64> %zu %'d % d %",
    "python-format": "%s %d %(a)s %(b)d %r %i %f %c %*d %.0s %% %(a)% % %u %y % d",
    "python-brace-format": "{a} {b} {} {0} {a!r} {a:5d} {a.b} {a[0]} { } {{ }} {a:{b}} {a-b}",
    "perl-brace-format": "{a} {b} {_} {1} {} { }",
    "qt-format": "%1 %2 %L1 %10 %n %% % %99 %a",
    "qt-plural-format": "%1 %2 %n %Ln % %%",
    "kde-format": "%1 %2 %10 % %% %L1",
    "objc-format": "%@ %s %1$@ %2$d %d",
    **dict.fromkeys(
        ("php-format", "javascript-format", "lua-format", "awk-format", "perl-format"),
        "%s %d %1$s %2$d %5.2f %b %c %% % %u %e %x %j %y",
    ),
    **dict.fromkeys(
        ("java-printf-format", "object-pascal-format", "gcc-internal-format", "tcl-format"),
        "%s %d %1$s %2$d %5.2f %b %c %% % %u %e %x %j %y",
    ),
    "boost-format": "%1% %2% %s %d %1$s %|1$s| %% % %5.2f",
    "kde-kuit-format": "%1 %2 %10 % %% %L1",
    "java-format": "{0} {1} '{0}' '' {0,number} {2,choice,0#a|1#b} l'{0} { } ' {a}",
    "csharp-format": "{0} {1} {0,5} {1:x} {{ }} { } {a} {{0}}",
    "sh-format": "$a ${b} $c $ ${a:-b} $1 \\$a $$ $(x) `x`",
    "ruby-format": "%s %d %{a} %<b>d %{b} %<a>s %1$s %% % %-5s %5.2f",
}


@pytest.mark.skipif(shutil.which("msgfmt") is None, reason="gettext isn't installed")
@pytest.mark.parametrize("flag", _PIECES)
def test_msgfmt_takes_what_has_no_fault(flag: str) -> None:
    chosen = random.Random(5)
    pieces = _PIECES[flag].split(" ")
    messages = []
    while len(messages) < 300:
        source = [chosen.choice(pieces) for _ in range(chosen.randint(1, 3))]
        target = [*source, *chosen.choices(pieces, k=chosen.randint(0, 1))]
        chosen.shuffle(target)
        texts = (chosen.choice(["x ", " ", ""]).join(each) for each in (source, target))
        source_text, target_text = (f"{len(messages)} {each}" for each in texts)
        if not find_fault([flag], source_text, target_text):
            written = f"msgid {quote(source_text)}\nmsgstr {quote(target_text)}"
            messages.append(f"#, {flag}\n{written}\n\n")
    command = ["msgfmt", "-c", "-o", "/dev/null", "-"]
    text = (_HEADER + "".join(messages)).encode()
    ended = subprocess.run(command, input=text, capture_output=True, check=False)
    assert ended.returncode == 0, ended.stderr.decode(errors="replace")


def test_a_form_of_one_number_may_leave_arguments_out() -> None:
    assert find_fault(["c-format"], "%d files", "a file") != ""
    assert find_fault(["c-format"], "%d files", "a file", is_strict=False) == ""
    assert find_fault(["c-format"], "%d files", "%s file", is_strict=False) != ""
    assert find_fault(["c-format"], "files", "%d files", is_strict=False) != ""


def test_faults_name_the_argument() -> None:
    assert find_fault(["c-format"], "%s %d", "%s") == "c-format: argument 2 is missing"
    assert find_fault(["c-format"], "%s", "%d") == (
        "c-format: argument 1 is an integer, expected a string"
    )
    assert find_fault(["python-format"], "a", "50 %") == "python-format: '%' isn't a directive"
