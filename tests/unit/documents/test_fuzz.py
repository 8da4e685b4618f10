"""Documents of each format built at random, translated by three stand-ins.

What another parser reads must be the same markup, and each text translated: nothing is kept back
because its translation broke the document.
"""

import html
import json
import os
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import html5lib
import polib
import pytest
import yaml
from lxml import etree

from mtkit.documents.atoms import find_atoms
from mtkit.documents.document import LanguageCodes, TextTranslator, TranslatedText
from mtkit.documents.document_report import BROKEN_MARKUP
from mtkit.documents.translate_file import translate_content

from .translators import keep_text, reverse_words

LANGUAGES = LanguageCodes("en", "de")
NUM_DOCUMENTS = int(os.environ.get("MTKIT_FUZZ_DOCUMENTS", "50"))
_WORDS = (
    *("the", "old", "man", "buys", "three", "red", "apples", "dog", "sleeps", "house"),
    *("don't", "T-shirt", "Café", "x", "naïve", "12", "%s"),
)
_INLINE = ("b", "i", "em", "strong", "span", "a", "u", "sub")


def capitalize(texts: Sequence[str]) -> list[TranslatedText]:
    """Translates into capitals; each word stands for itself."""
    return [
        TranslatedText(text.upper(), tuple((atom, atom) for atom in find_atoms(text)))
        for text in texts
    ]


TRANSLATORS: tuple[TextTranslator, ...] = (keep_text, capitalize, reverse_words)


class Builder:
    """Makes text and inline HTML at random.

    Args:
        seed: Of what is drawn.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def words(self) -> str:
        return " ".join(self.random.choices(_WORDS, k=self.random.randint(1, 6)))

    def text(self) -> str:
        signs = self.random.choice(["", "", ".", ", ", "; ", "!", " & more", " < 5", " > 4", "…"])
        return self.words() + signs

    def inline(self, depth: int = 2) -> str:
        """Returns inline HTML."""
        pieces = []
        for _ in range(self.random.randint(1, 4)):
            kind = self.random.random()
            if kind < 0.55 or depth == 0:
                pieces.append(html.escape(self.text(), quote=False))
            elif kind < 0.8:
                name = self.random.choice(_INLINE)
                attributes = ' href="/a?b=1&amp;c=2"' if name == "a" else ""
                pieces.append(f"<{name}{attributes}>{self.inline(depth - 1)}</{name}>")
            else:
                pieces.append(
                    self.random.choice(
                        ["<br>", "<br/>", '<img src="x.png" alt="A dog">', "<!-- x -->", "&nbsp;",
                         "&eacute;t&eacute;", "<code>ls -l</code>", "<wbr>", "<b></b>"]
                    )
                )  # fmt: skip
            pieces.append(self.random.choice(["", " ", " ", "  ", "\n"]))
        return "".join(pieces)

    def block(self, depth: int = 2) -> str:
        """Returns a block of HTML."""
        name = self.random.choice(["p", "div", "li", "h2", "td", "pre", "section", "blockquote"])
        inner = self.inline()
        if name in ("div", "section", "blockquote") and depth:
            inner = "".join(self.block(depth - 1) for _ in range(self.random.randint(1, 3)))
        if name == "li":
            return f"<ul><li>{inner}</li><li>{self.inline()}</ul>"
        if name == "td":
            return (
                f"<table><tbody><tr><td>{inner}</td><td>{self.inline()}</td></tr></tbody></table>"
            )
        left = self.random.choice(["", "", "", ' translate="no"', ' lang="fr"', ' lang="en"'])
        return f"<{name}{left}>{inner}</{name}>" + self.random.choice(["", "\n", "\r\n", "<hr>\n"])


def build_html(builder: Builder) -> bytes:
    blocks = "".join(builder.block() for _ in range(builder.random.randint(1, 4)))
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><title>{html.escape(builder.words())}</title>'
        f"</head><body>{blocks}</body></html>".encode()
    )


def read_html(content: bytes) -> Any:
    """Returns a page's tree as html5lib reads it: blocks in order, of each its inline tags."""
    tree = html5lib.parse(content.decode(), namespaceHTMLElements=False)

    def read(element: Any) -> Any:
        inline: Counter[Any] = Counter()
        blocks = []
        for child in element:
            if not isinstance(child.tag, str):
                inline["!"] += 1
                continue
            attributes = tuple(
                sorted(each for each in child.items() if each[0] not in ("lang", "alt", "title"))
            )
            found = read(child)
            if child.tag in (*_INLINE, "br", "img", "wbr", "code"):
                inline[(child.tag, attributes)] += 1
                inline.update(found[0])
                blocks += found[1]
            else:
                blocks.append((child.tag, attributes, found[0], found[1]))
        return inline, blocks

    return read(tree)


def build_json(builder: Builder) -> bytes:
    def value(depth: int) -> Any:
        kind = builder.random.random()
        if depth and kind < 0.2:
            return [value(depth - 1) for _ in range(builder.random.randint(0, 3))]
        if depth and kind < 0.5:
            return {
                f"k{index} é": value(depth - 1) for index in range(builder.random.randint(0, 3))
            }
        if kind < 0.6:
            return builder.random.choice([1, 2.5, None, True, "", "12", "\ud83d", "a\tb"])
        if kind < 0.8:
            return builder.text()
        return builder.random.choice([builder.inline, builder.block])()

    written = json.dumps(
        {"root": value(3), "more": value(2)},
        ensure_ascii=builder.random.random() < 0.6,
        indent=builder.random.choice([None, 2]),
    )
    if builder.random.random() < 0.3:
        written = written.replace("</", "<\\/")
    if builder.random.random() < 0.3:
        written = written.replace("<", "\\u003c").replace(">", "\\u003E").replace("&", "\\u0026")
    return written.encode(errors="replace")


def count_tags(text: str) -> Counter[str]:
    return Counter(re.findall(r"</?[a-z][a-z0-9]*", text))


def read_values(value: Any) -> Any:
    """Returns keys and values, of texts only their tags."""
    if isinstance(value, dict):
        return [(key, read_values(each)) for key, each in value.items()]
    if isinstance(value, list):
        return [read_values(each) for each in value]
    return count_tags(value) if isinstance(value, str) else value


def read_json(content: bytes) -> Any:
    return read_values(json.loads(content))


def build_yaml(builder: Builder) -> bytes:
    lines = []
    for index in range(builder.random.randint(1, 5)):
        text = builder.random.choice([builder.text, builder.inline, builder.block])()
        text = " ".join(text.split())
        style = builder.random.randrange(5)
        key = f"key{index}"
        if style == 0:
            lines.append(f"{key}: {json.dumps(text, ensure_ascii=builder.random.random() < 0.5)}")
        elif style == 1:
            single = text.replace("'", "''")
            lines.append(f"{key}: '{single}'")
        elif style == 2:
            words = text.split(" ")
            wrapped = [" ".join(words[first : first + 4]) for first in range(0, len(words), 4)]
            lines.append(f"{key}: |\n    " + "\n    ".join(wrapped))
        elif style == 3:
            lines.append(f"{key}: >-\n    {text}\n\n    {builder.words()}")
        else:
            lines.append(f"{key}: a {builder.words()}  # {builder.words()}")
        if builder.random.random() < 0.3:
            lines.append(f"nested{index}:\n  - a {builder.words()}\n  - [a {builder.words()}, 12]")
    return ("\n".join(lines) + "\n").encode()


def read_yaml(content: bytes) -> Any:
    return read_values(yaml.safe_load(content))


def _quote(builder: Builder, text: str) -> str:
    written = (
        text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    )
    if builder.random.random() < 0.4 and len(written) > 12:
        place = written.find(" ", 6) + 1
        return f'""\n"{written[:place]}"\n"{written[place:]}"'
    return f'"{written}"'


def build_po(builder: Builder) -> bytes:
    lines = ['msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=UTF-8\\n"\n'
             '"Plural-Forms: nplurals=2; plural=(n != 1);\\n"\n']  # fmt: skip
    for index in range(builder.random.randint(1, 5)):
        text = builder.random.choice([builder.text, builder.inline, builder.block])()
        lines.append(f'#: a.c:{index}\nmsgctxt "c{index}"\nmsgid {_quote(builder, text)}')
        if builder.random.random() < 0.3:
            lines.append(f"msgid_plural {_quote(builder, builder.text())}")
            lines.append('msgstr[0] ""\nmsgstr[1] ""\n')
        else:
            lines.append('msgstr ""\n')
    return "\n".join(lines).encode()


def read_po(content: bytes) -> Any:
    entries = []
    for entry in polib.pofile(content.decode()):
        forms = [entry.msgstr] if not entry.msgid_plural else list(entry.msgstr_plural.values())
        ids = [entry.msgid, entry.msgid_plural or entry.msgid]
        tags = [count_tags(form or ids[min(index, 1)]) for index, form in enumerate(forms)]
        entries.append((entry.msgctxt, entry.msgid, entry.occurrences, tags))
    return entries


def build_xml(builder: Builder) -> bytes:
    pieces = []
    for _ in range(builder.random.randint(1, 4)):
        text = builder.inline().replace("<br>", "<br/>").replace("<wbr>", "<x/>")
        text = re.sub(r"<img ([^>]*)>", r"<img \1/>", text)
        text = text.replace("&nbsp;", "&#160;").replace("&eacute;", "&#xE9;")
        name = builder.random.choice(["para", "title", "item"])
        left = builder.random.choice(["", "", ' translate="no"', ' xml:lang="en"'])
        pieces.append(f"<{name}{left}>{text}</{name}>")
    end = f"<z>]]&gt; {builder.words()}</z>"
    return f'<?xml version="1.0"?>\n<doc>{"".join(pieces)}{end}</doc>'.encode()


def read_xml(content: bytes) -> Any:
    def read(element: Any) -> Any:
        bag = Counter(
            (str(each.tag), tuple(sorted(each.items()))) for each in element.iterdescendants()
        )
        return (element.tag, bag)

    return [read(child) for child in etree.fromstring(content)]


def _escape_all(builder: Builder, text: str) -> str:
    """Returns HTML as XLIFF and Android hold it: escaped, or in a CDATA section."""
    if builder.random.random() < 0.3:
        return f"<![CDATA[{text}]]>"
    return html.escape(text, quote=False)


def build_android(builder: Builder) -> bytes:
    lines = []
    for index in range(builder.random.randint(1, 5)):
        text = builder.random.choice([builder.text, builder.inline])().replace("'", "\\'")
        text = re.sub(r"=\"[^\"]*\"", "", text).replace('"', '\\"')
        lines.append(f'  <string name="s{index}">{_escape_all(builder, text)}</string>')
    return f'<?xml version="1.0"?>\n<resources>\n{chr(10).join(lines)}\n</resources>'.encode()


def read_android(content: bytes) -> Any:
    strings = etree.fromstring(content)
    return [(each.get("name"), count_tags("".join(each.itertext()))) for each in strings]


def build_xliff(builder: Builder) -> bytes:
    units = []
    for index in range(builder.random.randint(1, 4)):
        kind = builder.random.random()
        if kind < 0.5:
            source = _escape_all(builder, builder.random.choice([builder.inline, builder.block])())
        else:
            source = (
                f'{html.escape(builder.text(), quote=False)}<g id="1">{builder.words()}</g> '
                f'<x id="2"/>{builder.words()}<bpt id="3">&lt;b&gt;</bpt>{builder.words()}'
                '<ept id="3">&lt;/b&gt;</ept>'
            )
        target = builder.random.choice(["", "<target/>", '<target state="new"></target>'])
        units.append(f'<trans-unit id="{index}"><source>{source}</source>{target}</trans-unit>')
    return (
        '<xliff version="1.2"><file source-language="en" target-language="de" original="a" '
        f'datatype="x"><body>{"".join(units)}</body></file></xliff>'
    ).encode()


def read_xliff(content: bytes) -> Any:
    found = []
    for unit in etree.fromstring(content).iter("trans-unit"):
        source, target = unit.find("source"), unit.find("target")
        sides = []
        is_there = target is not None and "".join(target.itertext())
        for side in (source, target if is_there else source):
            bag = Counter(
                (str(each.tag), tuple(sorted(each.items()))) for each in side.iterdescendants()
            )
            sides.append((bag, count_tags("".join(side.itertext()))))
        found.append((unit.get("id"), "".join(source.itertext()), *sides))
    return found


FORMATS: dict[str, tuple[str, Callable[[Builder], bytes], Callable[[bytes], Any]]] = {
    "html": ("html", build_html, read_html),
    "xml": ("xml", build_xml, read_xml),
    "android": ("xml", build_android, read_android),
    "json": ("json", build_json, read_json),
    "yaml": ("yaml", build_yaml, read_yaml),
    "po": ("po", build_po, read_po),
    "xliff": ("xliff", build_xliff, read_xliff),
}


def list_faults(name: str, seed: int) -> Iterator[str]:
    """Yields what is wrong with the translations of a document that a seed makes."""
    form, build, read = FORMATS[name]
    content = build(Builder(seed))
    wanted = read(content)
    for translate in TRANSLATORS:
        title = f"{name} {seed} {getattr(translate, '__name__', '')}"
        translated, report = translate_content(content, form, translate, LANGUAGES)
        if read(translated) != wanted:
            yield f"{title}: other markup\n{content.decode()}\n{translated.decode()}"
        if any(each.reason == BROKEN_MARKUP for each in report.skipped):
            yield f"{title}: {report.skipped}\n{content.decode()}"
        is_written = name in ("html", "xml", "android", "json", "yaml")
        is_same = translated == content or b'lang="en"' in content
        if is_written and translate is keep_text and not is_same:
            yield f"{title}: other bytes\n{content.decode()}\n{translated.decode()}"


@pytest.mark.parametrize(
    "seeds",
    [range(NUM_DOCUMENTS), pytest.param(range(1_000, 1_500), marks=pytest.mark.patient)],
    ids=["few", "many"],
)
@pytest.mark.parametrize("name", FORMATS)
def test_documents_keep_their_markup(name: str, seeds: range) -> None:
    faults = [fault for seed in seeds for fault in list_faults(name, seed)]
    assert not faults, f"{len(faults)} faults, the first: {faults[0]}"
