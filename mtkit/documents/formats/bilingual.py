"""Files with a text and its translation side by side: XLIFF 1.2 and 2, TMX.

A translation is added where there is none; one that is there stays. Inline elements are tags: those
that hold a program's own markup stand alone with all that they hold, or open and close where they
come in pairs that are well nested.
"""

import html
import re
from collections.abc import Mapping, Sequence
from typing import Literal

from mtkit.documents.document import (
    Document,
    Edit,
    Escapes,
    Languages,
    Span,
    Unit,
    as_written,
    fail_at,
)
from mtkit.documents.formats.string_markup import copy_units, make_string_units
from mtkit.documents.units import Part, protect
from mtkit.documents.xml_tokens import (
    CDATA,
    XML_TEXT,
    XmlToken,
    children,
    end_of,
    find_attribute,
    find_cdata,
    find_inside,
    is_cdata_alone,
    leave_cdata,
    read_text,
    read_xml_spelled,
    read_xml_tokens,
)

_BEGINS = {"bpt": "id", "bx": "id", "sc": "id", "sm": "id"}
"""Elements that begin a pair, and the attribute that names it; `rid` and `i` come before it."""
_ENDS = {"ept": "id", "ex": "id", "ec": "startRef", "em": "startRef"}
_HOLDERS = frozenset(["g", "mrk", "pc", "hi"])
"""Elements whose text is the sentence's."""
_XML_LANGUAGE = "xml:lang"

_Kind = Literal["open", "close", "void"]


def read_xliff(text: str, languages: Languages) -> Document:
    """Returns an XLIFF file with the segments that have no translation yet.

    Raises:
        MtkitError: As `read_xml_tokens`; it is none, or is to be translated between other
            languages.
    """
    tokens = read_xml_tokens(text)
    document = Document(text)
    if not any(_name(token) == "xliff" for token in tokens):
        raise fail_at(text, 0, "no XLIFF: it has no element <xliff>")
    translates = [True]
    for index, token in enumerate(tokens):
        name = _name(token)
        if token.kind == "close":
            translates.pop()
        if token.kind not in ("open", "empty"):
            continue
        wish = token.attributes.get("translate") if name != "mrk" else None
        is_translated = wish == "yes" if wish in ("yes", "no") else translates[-1]
        if token.kind == "open":
            translates.append(is_translated)
        if name == "xliff" and "srcLang" in token.attributes:
            _check_languages(document, token, ("srcLang", "trgLang"), languages)
        elif name == "file" and "source-language" in token.attributes:
            _check_languages(document, token, ("source-language", "target-language"), languages)
        elif name in ("trans-unit", "segment") and token.kind == "open" and is_translated:
            _translate_segment(document, tokens, index, languages)
        elif name in ("trans-unit", "segment") and token.kind == "open":
            own = next(
                (each for each in children(tokens, index) if _name(tokens[each]) == "source"), None
            )
            if own is not None:
                document.skip(
                    token.start, read_text(text, find_inside(tokens, own)), "marked translate=no"
                )
    return document


def read_tmx(text: str, languages: Languages) -> Document:
    """Returns a translation memory with the units that have no translation yet.

    Raises:
        MtkitError: As `read_xml_tokens`; it is none; it isn't known which language is added.
    """
    tokens = read_xml_tokens(text)
    if not any(_name(token) == "tmx" for token in tokens):
        raise fail_at(text, 0, "no TMX: it has no element <tmx>")
    if not languages.target:
        raise fail_at(text, 0, "a language is added to TMX, but the model names none", "give --to")
    header = next((token for token in tokens if _name(token) == "header"), None)
    source = languages.source or (header.attributes.get("srclang", "") if header else "")
    if source in ("", "*all*"):
        raise fail_at(text, 0, "it isn't known which language to translate", "give --from")
    document = Document(text)
    for index, token in enumerate(tokens):
        if _name(token) == "tu" and token.kind == "open":
            _translate_entry(document, tokens, index, Languages(source, languages.target))
    return document


def _name(token: XmlToken) -> str:
    return token.name.rpartition(":")[2]


def _check_languages(
    document: Document, token: XmlToken, keys: tuple[str, str], languages: Languages
) -> None:
    """Checks that a file is in the model's language, and names that of its translation in it."""
    source, target = (token.attributes.get(key, "") for key in keys)
    wanted = Languages(languages.target)
    if not languages.is_source(source) or not wanted.is_source(target):
        raise fail_at(
            document.text,
            token.start,
            f"it is to be translated from '{source}' into '{target}', the model translates from "
            f"'{languages.source}' into '{languages.target}'",
        )
    if not target and languages.target:
        code = html.escape(languages.target)
        span = find_attribute(document.text, token, keys[1])
        end = _find_tag_end(document.text, token)
        added = Edit(end, end, f' {keys[1]}="{code}"')
        document.edits.append(added if span is None else Edit(*span, code))


def _find_tag_end(text: str, token: XmlToken) -> int:
    """Returns where an attribute may be added to a tag."""
    raw = text[token.start : token.end]
    return token.start + len(raw.removesuffix(">").removesuffix("/").rstrip())


def _translate_segment(
    document: Document, tokens: Sequence[XmlToken], parent: int, languages: Languages
) -> None:
    """Adds the units of a segment, unless it has a translation."""
    text = document.text
    inside = {_name(tokens[index]): index for index in children(tokens, parent)}
    source, target = inside.get("source"), inside.get("target")
    if source is None or tokens[source].kind != "open":
        return
    sources = _find_segments(tokens, inside["seg-source"]) if "seg-source" in inside else {}
    targets = _find_segments(tokens, target) if target is not None else {}
    if targets:
        # The only segment of a target is all of its source.
        sources = sources or (dict.fromkeys(targets, source) if len(targets) == 1 else {})
        _fill_segments(document, tokens, sources, targets, languages)
        return
    if target is not None and _has_text(text, tokens, target):
        document.skip(
            tokens[source].start, read_text(text, find_inside(tokens, source)), "already translated"
        )
        return
    is_first_version = _name(tokens[parent]) == "trans-unit"
    state = ' state="needs-review-translation" state-qualifier="leveraged-mt"'
    prefix = tokens[source].name[: -len("source")]
    if target is not None:
        token = tokens[target]
        written = text[token.start : _find_tag_end(text, token)]
        if is_first_version:
            written = re.sub(
                r"\sstate(?:-qualifier)?\s*+=\s*+(?:\"[^\"]*+\"|'[^']*+')", "", written
            )
        output, before = (token.start, tokens[end_of(tokens, target)].end), written
    else:
        end = tokens[end_of(tokens, inside.get("seg-source", source))].end
        output = (end, end)
        before = f"{_find_indent(text, tokens[source].start)}<{prefix}target"
    before += f"{state if is_first_version else ''}>"
    edges = (before, f"</{prefix}target>")
    units = _copy_element(document, tokens, source, output, languages=languages, edges=edges)
    document.units += units
    if units and not is_first_version:
        _set_state(document, tokens[parent])


def _fill_segments(
    document: Document,
    tokens: Sequence[XmlToken],
    sources: Mapping[str, int],
    targets: Mapping[str, int],
    languages: Languages,
) -> None:
    """Adds the units of a target's segments (`<mrk mtype="seg">`) that are empty."""
    text = document.text
    for key, own in sources.items():
        if key not in targets or tokens[own].kind != "open":
            words = read_text(text, find_inside(tokens, own))
            document.skip(tokens[own].start, words, "without a place in their target")
            continue
        index = targets[key]
        token = tokens[index]
        if _has_text(text, tokens, index):
            words = read_text(text, find_inside(tokens, own))
            document.skip(tokens[own].start, words, "already translated")
        elif token.kind == "open":
            output = (token.end, tokens[token.partner].start)
            document.units += _copy_element(document, tokens, own, output, languages=languages)
        else:
            tag = text[token.start : _find_tag_end(text, token)]
            output, edges = (token.start, token.end), (f"{tag}>", f"</{token.name}>")
            document.units += _copy_element(
                document, tokens, own, output, languages=languages, edges=edges
            )


def _find_segments(tokens: Sequence[XmlToken], parent: int) -> dict[str, int]:
    """Returns the segments in an element by their numbers."""
    return {
        token.attributes.get("mid", ""): index
        for index, token in enumerate(tokens[parent + 1 : end_of(tokens, parent)], parent + 1)
        if token.kind in ("open", "empty")
        and _name(token) == "mrk"
        and token.attributes.get("mtype") == "seg"
    }


def _set_state(document: Document, segment: XmlToken) -> None:
    """Notes that a segment of XLIFF 2 is translated."""
    span = find_attribute(document.text, segment, "state")
    if span is not None:
        document.edits.append(Edit(*span, "translated"))
    else:
        end = _find_tag_end(document.text, segment)
        document.edits.append(Edit(end, end, ' state="translated"'))


def _translate_entry(
    document: Document, tokens: Sequence[XmlToken], entry: int, languages: Languages
) -> None:
    """Adds the unit of an entry of a translation memory, unless it has a translation."""
    source = target = None
    variants = [each for each in children(tokens, entry) if _name(tokens[each]) == "tuv"]
    wanted = Languages(languages.target)
    for variant in variants:
        attributes = tokens[variant].attributes
        code = attributes.get(_XML_LANGUAGE, attributes.get("lang", ""))
        segment = next(
            (each for each in children(tokens, variant) if _name(tokens[each]) == "seg"), None
        )
        if segment is None or not code:
            continue
        if source is None and languages.is_source(code):
            source = (variant, segment)
        elif target is None and wanted.is_source(code):
            target = segment
    if source is None or tokens[source[1]].kind != "open":
        return
    text = document.text
    if target is not None:
        if _has_text(text, tokens, target):
            own_text = read_text(text, find_inside(tokens, source[1]))
            document.skip(tokens[source[1]].start, own_text, "already translated")
            return
        output = (tokens[target].start, tokens[end_of(tokens, target)].end)
        edges = ("<seg>", "</seg>")
        document.units += _copy_element(
            document, tokens, source[1], output, languages=languages, edges=edges
        )
        return
    variant, segment = source
    end = max(tokens[tokens[each].partner].end for each in variants if tokens[each].kind == "open")
    between = text[tokens[variant].end : tokens[segment].start]
    between = between if not between.strip() else ""
    last = tokens[tokens[segment].partner].end
    behind = text[last : tokens[tokens[variant].partner].start]
    behind = behind if not behind.strip() else ""
    code = html.escape(languages.target)
    before = f'{_find_indent(text, tokens[variant].start)}<tuv xml:lang="{code}">'
    edges = (f"{before}{between}<seg>", f"</seg>{behind}</tuv>")
    document.units += _copy_element(
        document, tokens, segment, (end, end), languages=languages, edges=edges
    )


def _has_text(text: str, tokens: Sequence[XmlToken], index: int) -> bool:
    """Returns whether an element has any text; tags alone, and an empty CDATA section, are none."""
    return bool(read_text(text, find_inside(tokens, index)).strip())


def _find_indent(text: str, position: int) -> str:
    """Returns the line end and space in front of a tag that begins a line."""
    start = position
    while start > 0 and text[start - 1] in " \t":
        start -= 1
    if start == 0 or text[start - 1] != "\n":
        return ""
    start -= 2 if text[start - 2 : start - 1] == "\r" else 1
    return text[start:position]


def _copy_element(
    document: Document,
    tokens: Sequence[XmlToken],
    index: int,
    output: Span,
    *,
    languages: Languages,
    edges: tuple[str, str] = ("", ""),
) -> list[Unit]:
    """Returns the units of an element's text, to be written into another element."""
    text = document.text
    span = (tokens[index].end, tokens[tokens[index].partner].start)
    is_cdata = is_cdata_alone(text, find_inside(tokens, index))
    parts = _read_parts(document, tokens, index, is_cdata=is_cdata)
    units = make_string_units(document, parts, _CDATA_TEXT if is_cdata else XML_TEXT, languages)
    return copy_units(text, units, [span], output, edges)


_CDATA_TEXT = Escapes(
    lambda text: text.replace("]]>", f"]]]]>{CDATA}>"),
    lambda raw: raw.replace(f"]]]]>{CDATA}>", "]]\0>").replace("]]>", "").replace("\0", ""),
)


def _read_parts(
    document: Document, tokens: Sequence[XmlToken], parent: int, *, is_cdata: bool
) -> list[Part]:
    """Returns an element's texts and tags; CDATA is text where nothing is beside it."""
    text = document.text
    pairs = _find_pairs(tokens, parent)
    parts: list[Part] = []
    index = parent + 1
    while index < tokens[parent].partner:
        token = tokens[index]
        name = _name(token)
        end = tokens[token.partner].end if token.kind == "open" else token.end
        if token.kind == "text":
            parts.append(
                Part("text", token.start, end, spelled=read_xml_spelled(text[token.start : end]))
            )
        elif token.kind == "cdata" and not is_cdata:
            parts.append(leave_cdata(document, token))
        elif token.kind == "cdata":
            start, stop = find_cdata(text, token)
            parts.append(Part("text", start, stop, spelled=as_written(text[start:stop])))
        elif name in _HOLDERS and token.kind == "open" and _is_left(token):
            inner = html.unescape(re.sub(r"<[^>]*>", "", text[token.start : end]))
            parts.append(protect((token.start, end), inner))
            index = token.partner
        elif name in _HOLDERS and token.kind in ("open", "close"):
            kind: _Kind = "open" if token.kind == "open" else "close"
            parts.append(Part(kind, token.start, token.end, name))
        else:
            kind, pair = pairs.get(index, ("void", ""))
            parts.append(Part(kind, token.start, end, pair))
            if token.kind == "open":
                index = token.partner
        index += 1
    return parts


def _is_left(token: XmlToken) -> bool:
    return token.attributes.get("mtype") == "protected" or token.attributes.get("translate") == "no"


def _find_pairs(tokens: Sequence[XmlToken], parent: int) -> dict[int, tuple[_Kind, str]]:
    """Returns the elements that begin and end pairs which are well nested, by their indices."""
    pairs: dict[int, tuple[_Kind, str]] = {}
    opened: list[tuple[int, str]] = []
    index = parent + 1
    while index < tokens[parent].partner:
        token = tokens[index]
        name = _name(token)
        if name in _HOLDERS and token.kind == "open":
            opened.append((index, ""))
        elif name in _HOLDERS and token.kind == "close":
            while opened and opened[-1][0] != token.partner:
                opened.pop()
            if opened:
                opened.pop()
        else:
            _add_pair(pairs, opened, index, token)
            index = token.partner if token.kind == "open" else index
        index += 1
    return pairs


def _add_pair(
    pairs: dict[int, tuple[_Kind, str]],
    opened: list[tuple[int, str]],
    index: int,
    token: XmlToken,
) -> None:
    name = _name(token)
    key = _BEGINS.get(name) or _ENDS.get(name)
    if key is None or token.kind not in ("open", "empty"):
        return
    attributes = token.attributes
    pair = attributes.get("rid") or attributes.get("i") or attributes.get(key) or ""
    if name in _BEGINS:
        opened.append((index, f"pair {pair}"))
    elif opened and opened[-1][1] == f"pair {pair}":
        first, title = opened.pop()
        pairs[first], pairs[index] = ("open", title), ("close", title)
