"""Skeletons of pages, and the HTML tags in strings, read with Python's html.parser."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from html.parser import HTMLParser
from typing import Any

from mtkit.documents.formats.html import mask_code
from mtkit.documents.formats.html_elements import TEXT_ATTRIBUTES, is_element, is_inline

Skeleton = Sequence[Hashable]
ReadSkeleton = Callable[[str], Skeleton]

_TRANSLATED = frozenset((*TEXT_ATTRIBUTES, "content", "label", "value"))
"""HTML attributes that may be translated."""
OF_LANGUAGE = frozenset(("lang", "xml:lang", "dir"))
"""Attributes that name a language or its direction, which translation changes."""


class UnreadableError(ValueError):
    """A text isn't valid in its format."""


def freeze_counts(counts: Mapping[Any, int]) -> Hashable:
    """Returns counts as one comparable value."""
    return frozenset(counts.items())


class _HtmlSkeleton(HTMLParser):
    """Collects blocks in order, and the inline tags between them."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.items: list[Hashable] = []
        self._inline: Counter[Hashable] = Counter()

    def read(self, text: str) -> list[Hashable]:
        self.feed(mask_code(text))
        self.close()
        self._add("end")
        return self.items

    def _add(self, item: Hashable) -> None:
        if self._inline:
            self.items.append(freeze_counts(self._inline))
            self._inline = Counter()
        self.items.append(item)

    def handle_starttag(self, tag: str, attrs: Iterable[tuple[str, str | None]]) -> None:
        key = (tag, frozenset(each for each in attrs if each[0] not in _TRANSLATED | OF_LANGUAGE))
        if is_inline(tag):
            self._inline[key] += 1
        else:
            self._add(key)
        if tag in ("title", "textarea"):
            self.set_cdata_mode(tag)

    def handle_endtag(self, tag: str) -> None:
        if is_inline(tag):
            self._inline[f"/{tag}"] += 1
        else:
            self._add(f"/{tag}")

    def handle_data(self, data: str) -> None:
        if self.cdata_elem in ("script", "style"):
            self._add(data)

    def handle_comment(self, data: str) -> None:
        self._inline[("!", data)] += 1

    def handle_decl(self, decl: str) -> None:
        self._add(decl)

    def handle_pi(self, data: str) -> None:
        self._inline[("?", data)] += 1

    unknown_decl = handle_decl  # type: ignore[assignment]


def html_skeleton(text: str) -> Skeleton:
    """Returns the skeleton of a page."""
    return _HtmlSkeleton().read(text)


class _HtmlTags(HTMLParser):
    """Counts the HTML tags in a string of another format."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.counts: Counter[Hashable] = Counter()

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        if is_element(tag) or ("-" in tag and attrs):
            self.counts[(tag, frozenset(attrs))] += 1

    def handle_endtag(self, tag: str) -> None:
        if is_element(tag) or "-" in tag:
            self.counts[f"/{tag}"] += 1


def count_tags(decoded: str) -> Hashable:
    """Returns the count of each HTML tag in a string."""
    if "<" not in decoded:
        return frozenset()
    parser = _HtmlTags()
    # An unclosed tag is text. `close` would search after each one, in quadratic time.
    parser.feed(decoded)
    return freeze_counts(parser.counts)
