"""Files with a text and its translation side by side: XLIFF 1.2 and 2, TMX.

A translation is added if there is none; an existing one stays. Inline elements are tags. Those that
hold a program's own markup are voids with all their content, or open and close if they are
well-nested pairs.
"""

import html
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Literal

from mtkit.documents.document import (
    Document,
    Edit,
    Escapes,
    LanguageCodes,
    Span,
    as_written,
    mark_string,
)
from mtkit.documents.formats.string_markup import copy_units, make_string_units
from mtkit.documents.units import MarkupPart, protect
from mtkit.documents.xml_text import XML_TEXT, leave_cdata, read_xml_spelled
from mtkit.errors import fail_at
from mtkit.text.string_files.xliff import XLIFF_SEGMENTS, walk_xliff
from mtkit.text.xml_tokens import (
    CDATA,
    XmlToken,
    children,
    end_of,
    find_attribute,
    find_cdata,
    find_inside,
    find_local_name,
    is_cdata_alone,
    join_token_text,
    read_xml_tokens,
)

_BEGINS = {"bpt": "id", "bx": "id", "sc": "id", "sm": "id"}
"""Elements that begin a pair, and the attribute that names it; `rid` and `i` take precedence."""
_ENDS = {"ept": "id", "ex": "id", "ec": "startRef", "em": "startRef"}
_ANGULAR = re.compile(r"(START|CLOSE)_([A-Z0-9_]*?)(?:_[0-9]+)?", re.ASCII)
"""Ids of the empty elements `<x/>` that are tags in Angular."""
_HOLDERS = frozenset(["g", "mrk", "pc", "hi"])
"""Elements whose text belongs to the sentence."""
_STATE = re.compile(r"\sstate(?:-qualifier)?\s*+=\s*+(?:\"[^\"]*+\"|'[^']*+')")

_UNTRANSLATED = ("new", "needs-translation", "initial")
"""States of a target that may be a copy of its source."""
_REVIEW = ' state="needs-review-translation" state-qualifier="leveraged-mt"'
_TRANSLATED = ' state="translated" state-qualifier="leveraged-mt"'

_Kind = Literal["open", "close", "void"]


def read_xliff(text: str, languages: LanguageCodes) -> Document:
    """Returns an XLIFF file with the segments that have no translation yet.

    Raises:
        MtkitError: The file is malformed, or between other languages.
    """
    reader = _Reader(text, languages, "XLIFF", "xliff")
    reader.read_xliff()
    return reader.document


def read_tmx(text: str, languages: LanguageCodes) -> Document:
    """Returns a translation memory with the units that have no translation yet.

    Raises:
        MtkitError: The file is malformed, or the languages are unknown.
    """
    reader = _Reader(text, languages, "TMX", "tmx")
    if not languages.target:
        raise fail_at(text, 0, "TMX needs a target language, but the model has none", "give --to")
    header = next((token for token in reader.tokens if find_local_name(token) == "header"), None)
    source = languages.source or (header.attributes.get("srclang", "") if header else "")
    if source in ("", "*all*"):
        raise fail_at(text, 0, "unknown source language", "give --from")
    reader.languages = LanguageCodes(source, languages.target)
    for index, token in enumerate(reader.tokens):
        if find_local_name(token) == "tu" and token.kind == "open":
            reader.translate_entry(index)
    return reader.document


class _Reader:
    """Adds the units and edits of a file."""

    def __init__(self, text: str, languages: LanguageCodes, title: str, root: str) -> None:
        self.tokens = read_xml_tokens(text)
        self.document, self.languages = Document(text), languages
        self._text = text
        self._name = ""
        """The id of the current unit."""
        if not any(find_local_name(token) == root for token in self.tokens):
            raise fail_at(text, 0, f"not {title}: no element <{root}>")

    def read_xliff(self) -> None:
        self.document.are_program_strings = True
        for index, is_translated in walk_xliff(self.tokens):
            token = self.tokens[index]
            name = find_local_name(token)
            if name in ("unit", "trans-unit"):
                self._name = token.attributes.get("id", "")
            if name == "xliff" and "srcLang" in token.attributes:
                self._check_languages(token, "srcLang", "trgLang")
            elif name == "file" and "source-language" in token.attributes:
                self._check_languages(token, "source-language", "target-language")
            elif name in XLIFF_SEGMENTS and token.kind == "open":
                own = self._find_child(index, "source")
                if is_translated:
                    self._translate_segment(index)
                elif own is not None:
                    self._skip(own, "marked translate=no", token.start)

    def _check_languages(self, token: XmlToken, *keys: str) -> None:
        """Checks a file's languages, and sets the target language."""
        source, target = (token.attributes.get(key, "") for key in keys)
        languages = self.languages
        wanted = LanguageCodes(languages.target)
        if not languages.is_source(source) or not wanted.is_source(target):
            raise fail_at(
                self._text,
                token.start,
                f"it is from '{source}' into '{target}', but the model translates "
                f"from '{languages.source}' into '{languages.target}'",
            )
        if not target and languages.target:
            self._set_attribute(token, keys[1], html.escape(languages.target))

    def _set_attribute(self, token: XmlToken, name: str, value: str) -> None:
        self.document.edits.append(self._edit_attribute(token, name, value))

    def _edit_attribute(self, token: XmlToken, name: str, value: str) -> Edit:
        span = find_attribute(self._text, token, name)
        end = self._find_tag_end(token)
        added = Edit(end, end, f' {name}="{value}"')
        return added if span is None else Edit(*span, value)

    def _find_tag_end(self, token: XmlToken) -> int:
        """Returns where an attribute may be added to a tag."""
        raw = self._text[token.start : token.end]
        return token.start + len(raw.removesuffix(">").removesuffix("/").rstrip())

    def _find_child(self, parent: int, name: str) -> int | None:
        return next(
            (
                each
                for each in children(self.tokens, parent)
                if find_local_name(self.tokens[each]) == name
            ),
            None,
        )

    def _translate_segment(self, parent: int) -> None:
        """Adds the units of a segment, unless it has a translation."""
        text, tokens = self._text, self.tokens
        inside = {find_local_name(tokens[index]): index for index in children(tokens, parent)}
        source, target = inside.get("source"), inside.get("target")
        if source is None or tokens[source].kind != "open":
            return
        sources = self._find_segments(inside["seg-source"]) if "seg-source" in inside else {}
        targets = self._find_segments(target) if target is not None else {}
        if targets:
            # A target's only segment covers its whole source.
            sources = sources or (dict.fromkeys(targets, source) if len(targets) == 1 else {})
            assert target is not None
            self._fill_segments(sources, targets, target)
            return
        is_first_version = find_local_name(tokens[parent]) == "trans-unit"
        if target is not None and self._has_text(target):
            state = tokens[target if is_first_version else parent].attributes.get("state")
            if state not in _UNTRANSLATED or self._read(target) != self._read(source):
                self._skip(source, "already translated")
                return
        initial = self._edit_attribute(tokens[parent], "state", "initial")
        translated = self._edit_attribute(tokens[parent], "state", "translated")
        prefix = tokens[source].name[: -len("source")]
        if target is not None:
            token = tokens[target]
            before = text[token.start : self._find_tag_end(token)]
            if is_first_version:
                before = _STATE.sub("", before)
            output = (token.start, tokens[end_of(tokens, target)].end)
        else:
            end = tokens[end_of(tokens, inside.get("seg-source", source))].end
            output = (end, end)
            before = f"{_find_indent(text, tokens[source].start)}<{prefix}target"
        before += f"{_REVIEW if is_first_version else ''}>"
        mark = _mark_target if is_first_version else partial(mark_string, initial, translated)
        self._copy(source, output, before, f"</{prefix}target>", mark)

    def _fill_segments(
        self, sources: Mapping[str, int], targets: Mapping[str, int], target: int
    ) -> None:
        """Adds the units of a target's empty segments (`<mrk mtype="seg">`)."""
        token = self.tokens[target]
        review = self._edit_attribute(token, "state", "needs-review-translation")
        translated = self._edit_attribute(token, "state", "translated")
        left: set[int] = set()
        mark = partial(_mark_segment, left, review, translated)
        num_before = len(self.document.units)
        for key, own in sources.items():
            if key not in targets or self.tokens[own].kind != "open":
                self._skip(own, "without a segment in their target")
                left.add(-1)
                continue
            token = self.tokens[targets[key]]
            if self._has_text(targets[key]):
                self._skip(own, "already translated")
                left.add(-1)
            elif token.kind == "open":
                self._copy(own, (token.end, self.tokens[token.partner].start), mark=mark)
            else:
                tag = self._text[token.start : self._find_tag_end(token)]
                self._copy(own, (token.start, token.end), f"{tag}>", f"</{token.name}>", mark)
        left.update(each.start for each in self.document.units[num_before:] if each.mark)

    def _find_segments(self, parent: int) -> dict[str, int]:
        """Returns the segments in an element by their numbers."""
        return {
            token.attributes.get("mid", ""): index
            for index, token in enumerate(find_inside(self.tokens, parent), parent + 1)
            if token.kind in ("open", "empty")
            and find_local_name(token) == "mrk"
            and token.attributes.get("mtype") == "seg"
        }

    def translate_entry(self, entry: int) -> None:
        """Adds the unit of a translation memory's entry, unless it has a translation."""
        text, tokens = self._text, self.tokens
        source = target = None
        variants = [
            each for each in children(tokens, entry) if find_local_name(tokens[each]) == "tuv"
        ]
        wanted = LanguageCodes(self.languages.target)
        for variant in variants:
            attributes = tokens[variant].attributes
            code = attributes.get("xml:lang", attributes.get("lang", ""))
            segment = self._find_child(variant, "seg")
            if segment is None or not code:
                continue
            if source is None and self.languages.is_source(code):
                source = (variant, segment)
            elif target is None and wanted.is_source(code):
                target = segment
        if source is None or tokens[source[1]].kind != "open":
            return
        variant, segment = source
        if target is not None:
            if self._has_text(target):
                self._skip(segment, "already translated")
            else:
                output = (tokens[target].start, tokens[end_of(tokens, target)].end)
                self._copy(segment, output, "<seg>", "</seg>")
            return
        end = max(
            tokens[tokens[each].partner].end for each in variants if tokens[each].kind == "open"
        )
        between = text[tokens[variant].end : tokens[segment].start]
        last = tokens[tokens[segment].partner].end
        behind = text[last : tokens[tokens[variant].partner].start]
        between, behind = (each if not each.strip() else "" for each in (between, behind))
        code = html.escape(self.languages.target)
        before = f'{_find_indent(text, tokens[variant].start)}<tuv xml:lang="{code}">{between}<seg>'
        self._copy(segment, (end, end), before, f"</seg>{behind}</tuv>")

    def _read(self, index: int) -> str:
        return join_token_text(self._text, find_inside(self.tokens, index))

    def _has_text(self, index: int) -> bool:
        """Checks that an element has text, not only tags or an empty CDATA section."""
        return bool(self._read(index).strip())

    def _skip(self, index: int, reason: str, start: int | None = None) -> None:
        """Records an element that isn't translated."""
        start = self.tokens[index].start if start is None else start
        self.document.skip(start, self._read(index), reason)

    def _copy(
        self,
        index: int,
        output: Span,
        before: str = "",
        behind: str = "",
        mark: Callable[[Edit, bool | None], list[Edit]] | None = None,
    ) -> None:
        """Adds the units of an element's text for another output, the first with a mark."""
        tokens = self.tokens
        span = (tokens[index].end, tokens[tokens[index].partner].start)
        is_cdata = is_cdata_alone(self._text, find_inside(tokens, index))
        parts = _read_parts(self.document, tokens, index, is_cdata=is_cdata)
        escapes = _CDATA_TEXT if is_cdata else XML_TEXT
        units = make_string_units(self.document, parts, escapes, self.languages)
        units = [replace(unit, name=self._name) for unit in units]
        copied = copy_units(self._text, units, [span], output, (before, behind))
        if copied:
            copied[0] = replace(copied[0], mark=mark)
        self.document.units += copied


def _mark_target(edit: Edit, released: bool | None) -> list[Edit]:
    """Returns the edit of a target of XLIFF 1.2, whose state needs no review if it is released."""
    text = edit.text.replace(_REVIEW, _TRANSLATED, 1) if released else edit.text
    return [edit._replace(text=text)]


def _mark_segment(
    left: set[int], review: Edit, translated: Edit, edit: Edit, released: bool | None
) -> list[Edit]:
    """Marks a target's segment; the last one that is released marks the target as translated.

    `left` has the starts of its units that aren't known to be released, and -1 for other segments.
    """
    if released and edit.unit is not None:
        left.discard(edit.unit.start)
    return mark_string(review, translated if released and not left else None, edit, released)


def _find_indent(text: str, position: int) -> str:
    """Returns the line end and indentation before a tag that begins a line."""
    start = position
    while start > 0 and text[start - 1] in " \t":
        start -= 1
    if start == 0 or text[start - 1] != "\n":
        return ""
    start -= 2 if text[start - 2 : start - 1] == "\r" else 1
    return text[start:position]


_CDATA_TEXT = Escapes(
    lambda text: text.replace("]]>", f"]]]]>{CDATA}>"),
    lambda raw: raw.replace(f"]]]]>{CDATA}>", "]]\0>").replace("]]>", "").replace("\0", ""),
)


def _read_parts(
    document: Document, tokens: Sequence[XmlToken], parent: int, *, is_cdata: bool
) -> list[MarkupPart]:
    """Returns an element's texts and tags; CDATA is text if it is alone."""
    text = document.text
    pairs = _find_pairs(tokens, parent)
    parts: list[MarkupPart] = []
    index = parent + 1
    while index < tokens[parent].partner:
        token = tokens[index]
        name = find_local_name(token)
        end = tokens[token.partner].end if token.kind == "open" else token.end
        if token.kind == "text":
            parts.append(
                MarkupPart(
                    "text", token.start, end, spelled=read_xml_spelled(text[token.start : end])
                )
            )
        elif token.kind == "cdata" and not is_cdata:
            parts.append(leave_cdata(document, token))
        elif token.kind == "cdata":
            start, stop = find_cdata(text, token)
            parts.append(MarkupPart("text", start, stop, spelled=as_written(text[start:stop])))
        elif name in _HOLDERS and token.kind == "open" and _is_left(token):
            inner = html.unescape(re.sub(r"<[^>]*>", "", text[token.start : end]))
            parts.append(protect((token.start, end), inner))
            index = token.partner
        elif name in _HOLDERS and token.kind in ("open", "close"):
            kind: _Kind = "open" if token.kind == "open" else "close"
            parts.append(MarkupPart(kind, token.start, token.end, name))
        else:
            kind, pair = pairs.get(index, ("void", ""))
            parts.append(MarkupPart(kind, token.start, end, pair))
            if token.kind == "open":
                index = token.partner
        index += 1
    return parts


def _is_left(token: XmlToken) -> bool:
    return token.attributes.get("mtype") == "protected" or token.attributes.get("translate") == "no"


def _find_pairs(tokens: Sequence[XmlToken], parent: int) -> dict[int, tuple[_Kind, str]]:
    """Returns the elements that begin and end well-nested pairs, by index."""
    pairs: dict[int, tuple[_Kind, str]] = {}
    opened: list[tuple[int, str]] = []
    index = parent + 1
    while index < tokens[parent].partner:
        token = tokens[index]
        name = find_local_name(token)
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
    name, attributes = find_local_name(token), token.attributes
    key = _BEGINS.get(name) or _ENDS.get(name)
    angular = _ANGULAR.fullmatch(attributes.get("id", "")) if name == "x" else None
    if (key is None and angular is None) or token.kind not in ("open", "empty"):
        return
    is_first, pair = name in _BEGINS, ""
    if angular is not None:
        is_first, pair = angular[1] == "START", angular[2]
    elif key is not None:
        pair = attributes.get("rid") or attributes.get("i") or attributes.get(key) or ""
    if is_first:
        opened.append((index, f"pair {pair}"))
    elif opened and opened[-1][1] == f"pair {pair}":
        first, title = opened.pop()
        pairs[first], pairs[index] = ("open", title), ("close", title)
